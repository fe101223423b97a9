"""The recurrent policy: observations and the previous action -> encoders -> LSTM -> action distribution and value.

Actor and critic share everything but their last layer (section 4 of the VER paper), or the critic is a network of its
own, which may read what the actor never sees. One `forward` serves collection, a
step of several environments, and learning, many sequences of different lengths packed into one batch.

Shapes: n rows, k sequences (k <= n), A entries of a flat action.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from gymnasium import spaces
from torch import Tensor, nn

from ver_core.config import TANH_SCALES, ConfigError, PolicyConfig
from ver_core.cpc import ContrastivePrediction
from ver_core.distributed import World
from ver_core.distributions import ActionDistribution, ActionHead
from ver_core.encoders import SCAN_MIN, VISUALS, ScanEncoder, as_float, visual_encoder
from ver_core.linear import linear_tanh
from ver_core.normalizer import Normalizer
from ver_core.recurrence import run_lstm
from ver_core.spaces import ActionLayout, ObsKey, ObsLayout


class Output(NamedTuple):
    """What the policy says of n rows."""

    distribution: ActionDistribution
    value: Tensor
    """(n,): the expected discounted return."""
    state: Tensor
    """(k, state_size): each sequence's recurrent state after a single step; (0, state_size) after several."""
    predicted: Tensor | None = None
    """(n, entries) of `predicted_keys`, normalised; None: there are none."""
    belief: Tensor | None = None
    """(n, rnn_size): what the LSTM says, for CPC|A; None: there is none."""
    encoded: Tensor | None = None
    """(n, …): what the encoders say of the observations, likewise."""


class RecurrentPolicy(nn.Module):
    """The network that `PolicyConfig` describes, for one observation space and one action space."""

    def __init__(
        self,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        config: PolicyConfig,
        critic: bool = True,
    ) -> None:
        """Build it; raise `UnsupportedSpace` or `ConfigError` where spaces and configuration do not fit.

        critic: False leaves a critic of its own and CPC|A out; the observations need not have the critic's keys then,
        and values are NaN.
        """
        super().__init__()
        config.check()
        self.obs_layout = ObsLayout(observation_space)
        self.action_layout = ActionLayout(action_space)
        self.state_size: int = 2 * config.rnn_layers * config.rnn_size
        """Floats of recurrent state of one environment: (h or c, layer, unit), flattened; 0 without an LSTM."""

        self.inputs = Inputs(self.obs_layout, self.action_layout, config)
        size = self.inputs.features
        self.mlp = _mlp(size, config.mlp)
        size = config.mlp[-1] if config.mlp else size

        self.lstm: nn.LSTM | None = None
        if config.rnn_layers > 0:
            self.lstm = nn.LSTM(size, config.rnn_size, config.rnn_layers)
            for name, parameter in self.lstm.named_parameters():
                if name.startswith("weight"):
                    nn.init.orthogonal_(parameter)
                else:
                    nn.init.zeros_(parameter)
            size = config.rnn_size

        self.action_head = ActionHead(size, self.action_layout, config)
        self.noise_size: int = self.action_head.noise_size
        """Uniform numbers that `ActionDistribution.sample` takes for one action."""
        self.cpc: ContrastivePrediction | None = None
        if config.cpc_steps and critic:
            if not self.inputs.encoded_size:
                raise ConfigError(
                    "policy.cpc_steps: predicts what an encoder says; needs an image, or policy.scan_keys"
                )
            action_size = _PreviousAction(self.action_layout).features
            self.cpc = ContrastivePrediction(size, action_size, self.inputs.encoded_size, config.cpc_steps)
            self.cpc_action = _PreviousAction(self.action_layout)
        self.critic: Critic | None = None
        self.value_head: nn.Linear | None = None
        if not config.critic_mlp:
            self.value_head = _value_head(size)
        elif critic:
            self.critic = Critic(self.obs_layout, config, size)
            _check_teacher(config, self.critic.teacher, self.action_head)

    def forward(
        self, floats: Tensor, bytes_: Tensor, previous_action: Tensor, state: Tensor, batch_sizes: Tensor
    ) -> Output:
        """Run n steps of k sequences.

        Rows are in the order of a `PackedSequence`: all sequences' first steps, then all second steps and so on, the
        sequences by decreasing length. `batch_sizes`, int64 on the CPU, says how many sequences are still there at each
        step, so k = batch_sizes[0]; one step of n environments is tensor([n]). `floats` (n, obs_layout.floats) and
        `bytes_` (n, obs_layout.bytes) are the observations, `previous_action` is (n, A), and `state` (k, state_size)
        the sequences' states before their first steps; zeros at an episode's start.
        """
        encoded = self.inputs.encode(floats, bytes_)
        features = self.mlp(self.inputs(floats, bytes_, previous_action, encoded))
        if self.lstm is not None:
            features, state = run_lstm(self.lstm, features, state, batch_sizes)
        if self.value_head is not None:
            value = self.value_head(features).squeeze(1)
        elif self.critic is not None:
            value = self.critic(floats)
        else:
            value = features.new_full((len(features),), math.nan)
        predicted = None if self.critic is None or self.critic.predictor is None else self.critic.predictor(features)
        if self.cpc is None:
            return Output(self.action_head(features), value, state, predicted)
        return Output(self.action_head(features), value, state, predicted, features, torch.cat(encoded, dim=1))

    @property
    def lacks_statistics(self) -> bool:
        """Whether it normalises vectors, and has seen none to know their mean and deviation from."""
        normalizers = (self.inputs.normalizer, self.critic and self.critic.normalizer)
        return any(normalizer is not None and bool(normalizer.count == 0) for normalizer in normalizers)

    def learn_normalization(self, floats: Tensor, bytes_: Tensor, world: World) -> None:
        """Take a rollout's observations into account, if the vectors among them are normalised."""
        if self.inputs.normalizer is not None:
            self.inputs.normalizer.learn(self.inputs.read_vectors(floats, bytes_), world)
        if self.critic is not None:
            self.critic.normalizer.learn(self.critic.read(floats), world)


class Mlp(nn.Sequential):
    """Linear layers, a tanh after each."""

    def forward(self, rows: Tensor) -> Tensor:
        """Return (n, outputs) of (n, inputs)."""
        for layer in self:
            if isinstance(layer, nn.Linear):
                rows = linear_tanh(layer, rows)
        return rows


def _mlp(size: int, hidden: list[int]) -> Mlp:
    layers: list[nn.Module] = []
    for units in hidden:
        linear = nn.Linear(size, units)
        # A tall orthogonal matrix has short rows: without the factor, few inputs would hardly move a unit.
        nn.init.orthogonal_(linear.weight, gain=math.sqrt(2.0 * max(1.0, units / size)))
        nn.init.zeros_(linear.bias)
        # tanh trained best of the usual ones in on-policy control (Andrychowicz et al. 2021), and bounds the values
        # of vectors that nobody has normalised.
        layers += [linear, nn.Tanh()]
        size = units
    return Mlp(*layers)


def critics_vectors(layout: ObsLayout, config: PolicyConfig) -> dict[str, ObsKey]:
    """Return the observations that are vectors of floats; raise `ConfigError` if one of `critic_keys` is none."""
    vectors = {key.name: key for key in layout.keys if not key.byte and len(key.shape) == 1}
    for name in config.critic_keys:
        if name not in vectors:
            raise ConfigError(f"policy.critic_keys: no vector of floats {name}; choose from {', '.join(vectors)}")
    return vectors


class Critic(nn.Module):
    """All vectors of floats, those of `critic_keys` too, -> value. It has neither memory nor eyes.

    `predictor` is what reads `predicted_keys` from the actor's features; it lies here, with what only training needs.
    """

    columns: Tensor | None

    def __init__(self, layout: ObsLayout, config: PolicyConfig, actor_features: int) -> None:
        super().__init__()
        vectors = critics_vectors(layout, config)
        columns = [column for key in vectors.values() for column in range(key.start, key.stop)]
        self.register_buffer(
            "columns", None if len(columns) == layout.floats else torch.tensor(columns), persistent=False
        )
        self.normalizer = Normalizer(len(columns))
        self.mlp = _mlp(len(columns), config.critic_mlp)
        self.head = _value_head(config.critic_mlp[-1])
        asked = [column for name in config.predicted_keys for column in range(vectors[name].start, vectors[name].stop)]
        self.asked = [columns.index(column) for column in asked]
        self.predictor = nn.Linear(actor_features, len(asked)) if asked else None
        told = vectors.get(config.teacher_key)
        self.teacher = None if told is None else slice(told.start, told.stop)
        """Columns of the float row that hold what a teacher would do."""

    def forward(self, floats: Tensor) -> Tensor:
        """Return (n,)."""
        value: Tensor = self.head(self.mlp(self.normalizer(self.read(floats))))
        return value.squeeze(1)

    def truth(self, floats: Tensor) -> Tensor:
        """Return what `predictor` has to say of (n, obs_layout.floats): (n, entries), normalised."""
        known: Tensor = self.normalizer(self.read(floats))
        return known[:, self.asked]

    def read(self, floats: Tensor) -> Tensor:
        """Return (n, entries) of (n, obs_layout.floats)."""
        return floats if self.columns is None else floats[:, self.columns]


def _check_teacher(config: PolicyConfig, columns: slice | None, head: ActionHead) -> None:
    if columns is None:
        return
    if "categorical" in head.kinds:
        raise ConfigError("policy.teacher_key: only motions and switches are imitated, and the action has choices")
    if columns.stop - columns.start != 2 * sum(head.entries):
        raise ConfigError(
            f"policy.teacher_key={config.teacher_key}: has {columns.stop - columns.start} entries; an opinion of this "
            f"action has {2 * sum(head.entries)}"
        )


def _value_head(features: int) -> nn.Linear:
    head = nn.Linear(features, 1)
    nn.init.orthogonal_(head.weight, gain=1.0)
    nn.init.zeros_(head.bias)
    return head


class Inputs(nn.Module):
    """Observations and previous actions as one row of features: images, scans, vectors, then the action."""

    fine: Tensor | None
    angles: Tensor | None

    def __init__(self, observation: ObsLayout, action: ActionLayout, config: PolicyConfig) -> None:
        super().__init__()
        self.layout = observation
        shapes = {key.name: key.shape for key in observation.keys if key.name not in config.critic_keys}
        for name in config.scan_keys:
            if name not in shapes:
                raise ConfigError(f"policy.scan_keys: no observation {name}; choose from {', '.join(shapes)}")
            if len(shapes[name]) != 1 or shapes[name][0] < SCAN_MIN:
                raise ConfigError(
                    f"policy.scan_keys: {name} is {shapes[name]}; a scan is 1-D with {SCAN_MIN} rays or more"
                )
        if config.visual not in VISUALS:
            raise ConfigError(f"policy.visual={config.visual}: choose from {', '.join(VISUALS)}")
        self.encoded: list[str] = []
        self.vectors: list[str] = []
        # A list beside the names: a ModuleDict takes no names with a dot.
        self.encoders = nn.ModuleList()
        self.features: int = 0
        """Numbers in a row of features."""
        self.encoded_size = 0
        """Those of them that the encoders say."""
        for name, shape in shapes.items():
            if name in config.scan_keys:
                self._add(name, ScanEncoder(shape[0], config.scan_size), config.scan_size)
            elif len(shape) == 3:
                encoder = visual_encoder(config.visual, name, shape, config.visual_size)
                self._add(name, encoder, config.visual_size)
            else:
                self.vectors.append(name)
                self.features += math.prod(shape)
        self.only_floats: bool = not self.encoded and not observation.bytes and len(shapes) == len(observation.keys)
        """The float row is what goes in, as it is."""
        seen = [key for key in observation.keys if key.name in self.vectors]
        plain = not self.encoded and not any(key.byte for key in seen)
        self.columns = torch.tensor([c for key in seen for c in range(key.start, key.stop)]) if plain and seen else None
        """Of the float row: all that goes in but the action; None if there is more to it."""
        vectors = sum(math.prod(shapes[name]) for name in self.vectors)
        self.normalizer = Normalizer(vectors) if config.normalize_vectors and vectors else None
        columns = _columns(config.tanh_keys, observation, "tanh_keys")
        self.register_buffer("fine", torch.tensor(columns) if columns else None, persistent=False)
        angles = [_columns([name], observation, "angle_keys")[-1] for name in config.angle_keys]
        self.register_buffer("angles", torch.tensor(angles) if angles else None, persistent=False)
        self.features += 2 * len(angles)
        self.features += len(TANH_SCALES) * len(columns)
        self.action = _PreviousAction(action) if config.previous_action else None
        if self.action is not None:
            self.features += self.action.features
        self.gates = [_gate_column(name, observation) for name in config.gating_keys]
        self.features *= 1 + len(self.gates)

    def _add(self, name: str, encoder: nn.Module, features: int) -> None:
        self.encoded.append(name)
        self.encoders.append(encoder)
        self.features += features
        self.encoded_size += features

    def encode(self, floats: Tensor, bytes_: Tensor) -> list[Tensor]:
        """Return what each encoder says, (n, …)."""
        if not self.encoded:
            return []
        parts = self.layout.split(floats, bytes_)
        return [encoder(parts[name]) for name, encoder in zip(self.encoded, self.encoders, strict=True)]

    def forward(
        self, floats: Tensor, bytes_: Tensor, previous_action: Tensor, encoded: list[Tensor] | None = None
    ) -> Tensor:
        """Return (n, features); `encoded` is what `encode` returns, if it is known already."""
        pieces = list(self.encode(floats, bytes_) if encoded is None else encoded)
        if self.vectors:
            vectors = self.read_vectors(floats, bytes_)
            pieces.append(vectors if self.normalizer is None else self.normalizer(vectors))
        if self.fine is not None:
            close = floats[:, self.fine]
            pieces += [torch.tanh(close / scale) for scale in TANH_SCALES]
        if self.angles is not None:
            pieces += [floats[:, self.angles].cos(), floats[:, self.angles].sin()]
        if self.action is not None:
            pieces.append(self.action(previous_action))
        if self.gates:
            on = [floats[:, gate, None] for gate in self.gates]
            pieces = [piece * side for side in (1.0 - on[0], *on) for piece in pieces]
        return pieces[0] if len(pieces) == 1 else torch.cat(pieces, dim=1)

    def read_vectors(self, floats: Tensor, bytes_: Tensor) -> Tensor:
        """Return the observations that no encoder reads, side by side (n, entries)."""
        if self.only_floats:
            return floats
        parts = self.layout.split(floats, bytes_)
        return torch.cat([as_float(parts[name]).flatten(1) for name in self.vectors], dim=1)


def _columns(names: list[str], layout: ObsLayout, setting: str) -> list[int]:
    """Return where in the float row vectors lie; raise `ConfigError` where there is no such vector."""
    vectors = {key.name: key for key in layout.keys if not key.byte and len(key.shape) == 1}
    for name in names:
        if name not in vectors:
            raise ConfigError(f"policy.{setting}: no vector of floats {name}; choose from {', '.join(vectors)}")
    return [column for name in names for column in range(vectors[name].start, vectors[name].stop)]


def _gate_column(name: str, layout: ObsLayout) -> int:
    """Return where in the float row the gate lies; raise `ConfigError` if it is no gate."""
    for key in layout.keys:
        if key.name == name and not key.byte and math.prod(key.shape) == 1:
            return key.start
    raise ConfigError(f"policy.gating_keys: {name}: must name an observation of one float")


class _PreviousAction(nn.Module):
    """Flat actions (n, A) as features: choices one-hot, real numbers as they are."""

    column: Tensor
    choice: Tensor
    real: Tensor

    def __init__(self, layout: ActionLayout) -> None:
        super().__init__()
        entries = [(part, part.start + i, i) for part in layout.parts for i in range(part.size)]
        # Of each feature: its column in the flat action and, if it is one of a one-hot's, the choice it stands for.
        features = [
            (column, choice)
            for part, column, i in entries
            for choice in (range(part.choices[i]) if part.choices else [-1])
        ]
        self.features: int = len(features)
        self.all_real: bool = all(choice < 0 for _, choice in features)
        columns, choices = (torch.tensor(values) for values in zip(*features, strict=True))
        self.register_buffer("column", columns, persistent=False)
        self.register_buffer("choice", choices, persistent=False)
        self.register_buffer("real", choices < 0, persistent=False)

    def forward(self, action: Tensor) -> Tensor:
        """Return (n, features)."""
        if self.all_real:
            return action
        values = action[:, self.column]
        return torch.where(self.real, values, (values == self.choice).float())
