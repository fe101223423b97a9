"""The distribution of actions: a Gaussian, a Bernoulli or a Categorical for each entry of a flat action, independently.

The formulas are written out, since torch.distributions costs several times as much for the few rows of an inference
batch. Sampling takes its randomness from outside, as uniform numbers: every environment brings its own, so its actions
do not depend on which others happen to share its batch.

Shapes: n rows, A entries of a flat action (`ActionLayout.size`), K choices.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from ver_core.config import ConfigError, PolicyConfig
from ver_core.spaces import ActionLayout, ActionPart

_KINDS = ("gaussian", "bernoulli", "categorical")

EDGE = 2.0**-24
"""Distance from 1 of the next smaller float32. Uniforms are kept so far from 0 and 1, whose Gaussians are infinite."""

NEVER = -1e30
"""The logit of a choice that does not exist: its probability is exactly 0, and times the logit still 0 (not nan)."""

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


class _Entries(Protocol):
    """Entries (n, a) of the same kind; `uniforms` are (n, a) in [EDGE, 1 - EDGE]."""

    def sample(self, uniforms: Tensor) -> Tensor: ...
    def mode(self) -> Tensor: ...
    def log_prob(self, actions: Tensor) -> Tensor: ...
    def entropy(self) -> Tensor: ...
    def opinion(self) -> tuple[Tensor, Tensor]: ...
    def divergence(self, expected: Tensor, deviation: Tensor) -> Tensor: ...


class _Gaussian:
    def __init__(self, mean: Tensor, log_std: Tensor) -> None:
        """Take means (n, a) and one log standard deviation (a,) for all rows."""
        self.mean, self.log_std, self.std = mean, log_std, log_std.exp()

    def sample(self, uniforms: Tensor) -> Tensor:
        return torch.addcmul(self.mean, self.std, torch.special.ndtri(uniforms))

    def mode(self) -> Tensor:
        return self.mean

    def log_prob(self, actions: Tensor) -> Tensor:
        z = (actions - self.mean) / self.std
        return -0.5 * (z * z).sum(dim=1) - (self.log_std.sum() + self.log_std.numel() * HALF_LOG_2PI)

    def entropy(self) -> Tensor:
        """Return the differential entropy, log(std sqrt(2 pi e)) an entry, which is the same for all rows."""
        total = self.log_std.sum() + self.log_std.numel() * (HALF_LOG_2PI + 0.5)
        return total.expand(self.mean.shape[0])

    def opinion(self) -> tuple[Tensor, Tensor]:
        return self.mean, self.std.expand_as(self.mean)

    def divergence(self, expected: Tensor, deviation: Tensor) -> Tensor:
        """Use log(s / s') + (s'^2 + (m - m')^2) / (2 s^2) - 1/2 an entry, of the other's m' and s'."""
        missed = (deviation.square() + (expected - self.mean).square()) / (2.0 * self.std.square())
        return (self.log_std - deviation.log() + missed - 0.5).sum(dim=1)


class _Bernoulli:
    """Chooses the high bound with probability p = sigmoid(logit), else the low one."""

    def __init__(self, logits: Tensor, low: Tensor, high: Tensor) -> None:
        """Take logits (n, b) and the bounds (b,)."""
        self.logits, self.low, self.high = logits, low, high

    def sample(self, uniforms: Tensor) -> Tensor:
        return torch.where(uniforms < self.logits.sigmoid(), self.high, self.low)

    def mode(self) -> Tensor:
        return torch.where(self.logits > 0.0, self.high, self.low)

    def log_prob(self, actions: Tensor) -> Tensor:
        """Use log p = -softplus(-logit) and log(1 - p) = -softplus(logit) = -softplus(-logit) - logit."""
        sign = torch.where(actions == self.high, -1.0, 1.0)
        return -functional.softplus(sign * self.logits).sum(dim=1)

    def entropy(self) -> Tensor:
        """Use -p log p - (1 - p) log(1 - p) = softplus(logit) - p logit."""
        return (functional.softplus(self.logits) - self.logits.sigmoid() * self.logits).sum(dim=1)

    def opinion(self) -> tuple[Tensor, Tensor]:
        return self.logits.sigmoid(), torch.zeros_like(self.logits)

    def divergence(self, expected: Tensor, deviation: Tensor) -> Tensor:
        """Use q log q + (1 - q) log(1 - q) + softplus(logit) - q logit an entry, of the other's probability q."""
        certain = torch.xlogy(expected, expected) + torch.xlogy(1.0 - expected, 1.0 - expected)
        return (certain + functional.softplus(self.logits) - expected * self.logits).sum(dim=1)


class _Categorical:
    def __init__(self, logits: Tensor) -> None:
        """Take logits (n, c, K) of c entries; `NEVER` where an entry has fewer than K choices."""
        self.log_p = functional.log_softmax(logits, dim=2)

    def sample(self, uniforms: Tensor) -> Tensor:
        """Return the first choice up to which the probabilities add up to the uniform number or more."""
        cumulated = self.log_p.exp().cumsum(dim=2)
        # Rounding leaves the total a little off 1: measured against itself, no uniform lies beyond the last choice.
        target = uniforms.unsqueeze(2) * cumulated[:, :, -1:]
        return (cumulated < target).sum(dim=2).float()

    def mode(self) -> Tensor:
        return self.log_p.argmax(dim=2).float()

    def log_prob(self, actions: Tensor) -> Tensor:
        return self.log_p.gather(2, actions.long().unsqueeze(2)).sum(dim=(1, 2))

    def entropy(self) -> Tensor:
        return -(self.log_p.exp() * self.log_p).sum(dim=(1, 2))

    def opinion(self) -> tuple[Tensor, Tensor]:
        raise NotImplementedError("an opinion of K choices is no two numbers")

    def divergence(self, expected: Tensor, deviation: Tensor) -> Tensor:
        raise NotImplementedError("an opinion of K choices is no two numbers")


class ActionDistribution:
    """n distributions of flat actions, a row each."""

    def __init__(self, kinds: Sequence[_Entries], widths: Sequence[int], grouped: Tensor | None, flat: Tensor | None):
        """Join kinds of `widths` entries each.

        `grouped` (A,) lists the flat action's columns kind by kind and `flat` is its inverse; None where both orders
        are the same.
        """
        self._kinds, self._widths, self._grouped, self._flat = kinds, list(widths), grouped, flat

    def sample(self, noise: Tensor) -> Tensor:
        """Return actions (n, A) by inverting the cumulative distribution at `noise` (n, noise_size) in (0, 1)."""
        uniforms = self._group(noise.float().clamp(EDGE, 1.0 - EDGE))
        return self._flatten([kind.sample(u) for kind, u in zip(self._kinds, uniforms, strict=True)])

    def chances(self) -> Tensor:
        """Return (n, A): how probable the upper bound is for each on-or-off entry; NaN for the others."""
        return self._flatten(
            [
                kind.logits.sigmoid() if isinstance(kind, _Bernoulli) else torch.full_like(kind.mode(), torch.nan)
                for kind in self._kinds
            ]
        )

    def mode(self) -> Tensor:
        """Return the most probable actions (n, A)."""
        return self._flatten([kind.mode() for kind in self._kinds])

    def log_prob(self, actions: Tensor) -> Tensor:
        """Return (n,): the log-probability (density, where Gaussian) of actions (n, A) as `sample` returns them."""
        entries = zip(self._kinds, self._group(actions), strict=True)
        return _total([kind.log_prob(columns) for kind, columns in entries])

    def entropy(self) -> Tensor:
        """Return (n,): the entropy in nats of all entries together, differential where Gaussian."""
        return _total([kind.entropy() for kind in self._kinds])

    def opinion(self) -> Tensor:
        """Return (n, 2 A), what another policy may learn from: of each entry the mean, or the probability of the upper
        bound where it is on or off; then the deviations, 0 where it is on or off. Not for categorical entries."""
        expected, deviations = zip(*(kind.opinion() for kind in self._kinds), strict=True)
        return torch.cat((self._flatten(list(expected)), self._flatten(list(deviations))), dim=1)

    def divergence(self, opinion: Tensor) -> Tensor:
        """Return (n,): the Kullback-Leibler divergence in nats of these distributions from those whose `opinion`
        (n, 2 A) is given."""
        expected, deviations = (self._group(half) for half in opinion.chunk(2, dim=1))
        kinds = zip(self._kinds, expected, deviations, strict=True)
        return _total([kind.divergence(mean, deviation) for kind, mean, deviation in kinds])

    def _group(self, columns: Tensor) -> Sequence[Tensor]:
        if len(self._kinds) == 1:
            return [columns]
        if self._grouped is not None:
            columns = columns[:, self._grouped]
        return columns.split(self._widths, dim=1)

    def _flatten(self, pieces: list[Tensor]) -> Tensor:
        if len(pieces) == 1:
            return pieces[0]
        columns = torch.cat(pieces, dim=1)
        return columns if self._flat is None else columns[:, self._flat]


class ActionHead(nn.Module):
    """A linear layer from features to the parameters of an `ActionDistribution`."""

    grouped: Tensor | None
    flat: Tensor | None
    low: Tensor
    high: Tensor
    padding: Tensor | None
    mean_scale: Tensor

    def __init__(self, features: int, layout: ActionLayout, config: PolicyConfig) -> None:
        """Build the heads of `config`; raise `ConfigError` where it names a part or head that does not exist."""
        super().__init__()
        heads = heads_of(layout, config)
        by_kind = {kind: [part for part in layout.parts if heads[part.name] == kind] for kind in _KINDS}
        by_kind = {kind: parts for kind, parts in by_kind.items() if parts}
        self.kinds: tuple[str, ...] = tuple(by_kind)
        self.entries: tuple[int, ...] = tuple(sum(part.size for part in parts) for parts in by_kind.values())
        self.outputs: list[int] = [sum(_outputs(part) for part in parts) for parts in by_kind.values()]
        self.noise_size: int = layout.size
        """Uniform numbers that one action takes."""

        in_order = [part for parts in by_kind.values() for part in parts]
        grouped = torch.tensor([i for part in in_order for i in range(part.start, part.start + part.size)])
        same = bool((grouped == torch.arange(layout.size)).all())
        self.register_buffer("grouped", None if same else grouped, persistent=False)
        self.register_buffer("flat", None if same else grouped.argsort(), persistent=False)

        switches = by_kind.get("bernoulli", [])
        self.register_buffer("low", torch.tensor([b for part in switches for b in part.low]), persistent=False)
        self.register_buffer("high", torch.tensor([b for part in switches for b in part.high]), persistent=False)

        choices = [n for part in by_kind.get("categorical", []) for n in part.choices]
        self.most_choices: int = max(choices, default=0)
        padding = None if len(set(choices)) <= 1 else _padding(choices)
        self.register_buffer("padding", padding, persistent=False)

        self.linear = nn.Linear(features, sum(self.outputs))
        # The small gain makes the first actions much the same in all states, and all choices about as likely.
        nn.init.orthogonal_(self.linear.weight, gain=0.01)
        biases = torch.tensor([bias for part in in_order for bias in initial_biases(part, config)])
        if "gaussian" in by_kind:
            stds = torch.tensor(
                [
                    config.initial_part_std.get(p.name, config.initial_std)
                    for p in by_kind["gaussian"]
                    for _ in range(p.size)
                ]
            )
            self.log_std = nn.Parameter(stds.log())
            # Means come in units of the first deviation: the gradient of log p with respect to what the layer says is
            # then of order 1 for every part, however little it may be drawn off its mean.
            self.register_buffer("mean_scale", stds)
            biases[: len(stds)] /= stds  # Gaussian parts come first
        with torch.no_grad():
            self.linear.bias.copy_(biases)

    def forward(self, features: Tensor) -> ActionDistribution:
        """Return the distributions for features (n, F)."""
        parameters = self.linear(features).split(self.outputs, dim=1)
        kinds = [self._kind(kind, values) for kind, values in zip(self.kinds, parameters, strict=True)]
        return ActionDistribution(kinds, self.entries, self.grouped, self.flat)

    def _kind(self, kind: str, parameters: Tensor) -> _Entries:
        if kind == "gaussian":
            return _Gaussian(parameters * self.mean_scale, self.log_std)
        if kind == "bernoulli":
            return _Bernoulli(parameters, self.low, self.high)
        if self.padding is not None:
            parameters = functional.pad(parameters, (0, 1), value=NEVER)[:, self.padding]
        return _Categorical(parameters.reshape(parameters.shape[0], -1, self.most_choices))


def heads_of(layout: ActionLayout, config: PolicyConfig) -> dict[str, str]:
    """Return each part's kind of head; raise `ConfigError` at the first setting that does not fit the action."""
    parts = {part.name: part for part in layout.parts}
    for setting in ("heads", "initial_bias", "initial_part_std"):
        named: dict[str, object] = getattr(config, setting)
        for name in named:
            label = f"policy.{setting}.{name or repr(name)}"
            if name not in parts:
                known = ", ".join(part or repr(part) for part in parts)
                raise ConfigError(f"{label}: no such action part; choose from {known}")
            if parts[name].kind != "box" and (setting, parts[name].kind) != ("initial_bias", "discrete"):
                raise ConfigError(f"{label}: only for a part that is a Box; this one is {parts[name].kind}")
    stds = {f".{name}": std for name, std in config.initial_part_std.items()}
    for name, std in {
        "initial_std": config.initial_std,
        **{f"initial_part_std{n}": s for n, s in stds.items()},
    }.items():
        if not 0.0 < std < math.inf:
            raise ConfigError(f"policy.{name}={std}: must be positive, and finite")
    for name, head in config.heads.items():
        label = f"policy.heads.{name or repr(name)}={head}"
        if head not in ("gaussian", "bernoulli"):
            raise ConfigError(f"{label}: choose from gaussian, bernoulli")
        bounds = zip(parts[name].low, parts[name].high, strict=True)
        if head == "bernoulli" and not all(-math.inf < low < high < math.inf for low, high in bounds):
            raise ConfigError(f"{label}: chooses between the bounds of the part, so they must be finite and differ")
    return {
        name: config.heads.get(name, "gaussian") if part.kind == "box" else "categorical"
        for name, part in parts.items()
    }


def _outputs(part: ActionPart) -> int:
    return sum(part.choices) if part.choices else part.size


def initial_biases(part: ActionPart, config: PolicyConfig) -> list[float]:
    """Return the biases that a part's outputs begin with; raise `ConfigError` unless they are a number or as many."""
    given = config.initial_bias.get(part.name, 0.0)
    biases = list(given) if isinstance(given, (list, tuple)) else [given] * _outputs(part)
    finite = all(isinstance(bias, (int, float)) and math.isfinite(bias) for bias in biases)
    if len(biases) != _outputs(part) or not finite:
        raise ConfigError(
            f"policy.initial_bias.{part.name or repr(part.name)}={given}: give a number, or a list of {_outputs(part)}"
        )
    return [float(bias) for bias in biases]


def _padding(choices: list[int]) -> Tensor:
    """Return, for entries side by side in one row, where each of (entries * most choices) logits lies in it.

    The choices that an entry lacks are found at the row's end, where there is one element more.
    """
    most, total = max(choices), sum(choices)
    starts = [sum(choices[:i]) for i in range(len(choices))]
    return torch.tensor(
        [
            start + choice if choice < count else total
            for start, count in zip(starts, choices, strict=True)
            for choice in range(most)
        ]
    )


def _total(pieces: list[Tensor]) -> Tensor:
    return pieces[0] if len(pieces) == 1 else torch.stack(pieces).sum(dim=0)
