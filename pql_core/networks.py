"""The policies and the Q functions: observations -> features (ver_core/policy.py, `Inputs`) -> hidden layers -> heads.

ELUs between the layers, as in the authors' code; the paper does not name them. Neither has a memory.

Shapes: n rows of observations, floats (n, F) and bytes (n, U) as in `ObsLayout`; A entries of an action in [-1, 1].
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from gymnasium import spaces
from torch import Tensor, nn
from torch.nn import functional

from pql_core.actions import ActionScale
from pql_core.config import PqlConfig
from ver_core.config import PolicyConfig
from ver_core.normalizer import Normalizer
from ver_core.policy import Inputs, Output, critics_vectors
from ver_core.spaces import ActionLayout, ObsLayout

LOG_STD_MIN, LOG_STD_MAX = -5.0, 2.0
"""Bounds of SAC's log deviations."""
LAST_GAIN = 0.01


def mlp(size: int, hidden: list[int], outputs: int) -> nn.Sequential:
    """Return linear layers with ELUs in between; orthogonal weights.

    Those of the last one are small: the first actions are near the middle, where tanh's slope is, and the first Q
    functions say the same of all actions, or the policy would at once leave for what they say by chance.
    """
    layers: list[nn.Module] = []
    for units in hidden:
        layers += [nn.Linear(size, units), nn.ELU(inplace=True)]
        size = units
    layers.append(nn.Linear(size, outputs))
    for layer in layers:
        if isinstance(layer, nn.Linear):
            nn.init.orthogonal_(layer.weight, gain=math.sqrt(2.0) if layer is not layers[-1] else LAST_GAIN)
            nn.init.zeros_(layer.bias)
    return nn.Sequential(*layers)


class Policy(nn.Module):
    """pi: observations -> actions in [-1, 1]. Deterministic (DDPG), or tanh-Gaussian (SAC)."""

    def __init__(
        self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any], config: PolicyConfig, learner: str
    ) -> None:
        """Raise `UnsupportedSpace` or `ConfigError` where spaces and configuration do not fit."""
        super().__init__()
        self.obs_layout, self.action_layout = ObsLayout(observation_space), ActionLayout(action_space)
        self.scale = ActionScale(self.action_layout, config)
        self.inputs = Inputs(self.obs_layout, self.action_layout, config)
        self.stochastic = learner == "sac"
        outputs = self.scale.size * (2 if self.stochastic else 1)
        self.mlp = mlp(self.inputs.features, config.mlp, outputs)
        last = self.mlp[-1]
        assert isinstance(last, nn.Linear)
        with torch.no_grad():
            last.bias[: self.scale.size] = self.scale.first

    def forward(self, floats: Tensor, bytes_: Tensor) -> Tensor:
        """Return (n, A): the deterministic policy, or SAC's tanh of the mean."""
        numbers: Tensor = self._heads(floats, bytes_)[:, : self.scale.size].tanh()
        return numbers

    def draw(self, floats: Tensor, bytes_: Tensor, generator: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Return SAC's actions (n, A), drawn, and their log-probability densities (n,), both differentiable."""
        mean, log_std = self._heads(floats, bytes_).chunk(2, dim=1)
        log_std = log_std.clamp(LOG_STD_MIN, LOG_STD_MAX)
        noise = torch.randn(mean.shape, generator=generator, device=mean.device)
        x = torch.addcmul(mean, log_std.exp(), noise)
        gaussian = (-0.5 * noise.square() - log_std - 0.5 * math.log(2.0 * math.pi)).sum(dim=1)
        # log(1 - tanh(x)^2), as it is exact for large |x|.
        slope = 2.0 * (math.log(2.0) - x - functional.softplus(-2.0 * x))
        return x.tanh(), gaussian - slope.sum(dim=1)

    def _heads(self, floats: Tensor, bytes_: Tensor) -> Tensor:
        found: Tensor = self.mlp(self.inputs(floats, bytes_, floats))  # no previous action is read
        return found


class DoubleQ(nn.Module):
    """Q_1 and Q_2: observations, those of `critic_keys` too, and actions -> (2, n, outputs).

    outputs: 1, the expected return; or C51's logits. The two share what encodes images and scans, and nothing else.
    """

    def __init__(self, layout: ObsLayout, actions: ActionLayout, network: PolicyConfig, config: PqlConfig) -> None:
        super().__init__()
        critics_vectors(layout, network)
        self.inputs = Inputs(layout, actions, replace(network, critic_keys=[]))
        size = self.inputs.features + actions.size
        outputs = config.atoms if config.critic == "c51" else 1
        self.first = mlp(size, network.critic_mlp, outputs)
        self.second = mlp(size, network.critic_mlp, outputs)

    def forward(self, floats: Tensor, bytes_: Tensor, action: Tensor) -> Tensor:
        """Return (2, n, outputs)."""
        row = torch.cat((self.inputs(floats, bytes_, floats), action), dim=1)
        return torch.stack((self.first(row), self.second(row)))


class Statistics:
    """The running means and deviations of vector observations: learnt by the Actor, the same in all three processes.

    The policy's inputs are among the Q functions', so theirs are learnt and the policy's are a part of them.
    """

    def __init__(self, policy: Policy, q: DoubleQ) -> None:
        self._q = q.inputs
        self._targets: list[tuple[Normalizer, Tensor]] = []
        self.size = 0
        """Numbers in a row of `read`; 0: nothing is normalised."""
        if (known := q.inputs.normalizer) is None:
            return
        self._known = known
        self.size = 1 + 2 * len(known.mean)
        self.add(q)
        self.add(policy)

    def add(self, network: Policy | DoubleQ) -> None:
        """Keep one more network's normaliser up to date."""
        normalizer = network.inputs.normalizer
        if normalizer is None:
            return
        layout, start = network.inputs.layout, 0
        places: dict[str, range] = {}
        for name in self._q.vectors:
            length = math.prod(next(key.shape for key in layout.keys if key.name == name))
            places[name] = range(start, start + length)
            start += length
        columns = [column for name in network.inputs.vectors for column in places[name]]
        self._targets.append((normalizer, torch.tensor(columns, device=normalizer.mean.device)))

    def learn(self, floats: Tensor, bytes_: Tensor) -> None:
        """Take (n, F) and (n, U) more observations into account (Chan et al. 1983)."""
        if not self.size:
            return
        rows = self._q.read_vectors(floats, bytes_).double()
        known = self._known
        off = rows - known.mean
        count, total = len(rows), known.count + len(rows)
        shift = off.sum(0) / total
        known.variance.copy_((known.count * known.variance + off.square().sum(0)) / total - shift.square())
        known.variance.clamp_(min=0.0)
        known.mean += shift
        known.count += count
        self._spread()

    def read(self) -> Tensor:
        """Return all of it as one row (size,), float64."""
        known = self._known
        return torch.cat((known.count[None], known.mean, known.variance))

    def write(self, row: Tensor) -> None:
        """Set what `read` returned."""
        if not self.size:
            return
        entries = len(self._known.mean)
        self._known.count.copy_(row[0])
        self._known.mean.copy_(row[1 : 1 + entries])
        self._known.variance.copy_(row[1 + entries :])
        self._spread()

    def _spread(self) -> None:
        for normalizer, columns in self._targets:
            if normalizer is not self._known:
                normalizer.count.copy_(self._known.count)
                normalizer.mean.copy_(self._known.mean[columns])
                normalizer.variance.copy_(self._known.variance[columns])


class Certain(NamedTuple):
    """A distribution whose every draw is the same: what a deterministic policy says of n rows."""

    actions: Tensor

    def mode(self) -> Tensor:
        """Return (n, A)."""
        return self.actions

    def sample(self, noise: Tensor) -> Tensor:
        """Return (n, A), whatever the noise."""
        return self.actions

    def chances(self) -> Tensor:
        """Return (n, A) of NaN: no entry is drawn."""
        return torch.full_like(self.actions, torch.nan)


class InUse(nn.Module):
    """A trained policy as `RecurrentPolicy` is used: the same call, without memory or chance.

    Its weights are `Policy`'s.
    """

    def __init__(self, policy: Policy) -> None:
        super().__init__()
        self.policy = policy
        self.obs_layout, self.action_layout = policy.obs_layout, policy.action_layout
        self.state_size = self.noise_size = 0
        self.value_head = None

    def forward(
        self, floats: Tensor, bytes_: Tensor, previous_action: Tensor, state: Tensor, batch_sizes: Tensor
    ) -> Output:
        """Answer n observations; the value is NaN."""
        scale = self.policy.scale
        actions = scale(scale.executed(self.policy(floats, bytes_)))
        said: Any = Certain(actions)
        return Output(said, floats.new_full((len(floats),), torch.nan), state)
