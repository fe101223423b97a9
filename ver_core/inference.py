"""Inference on a processor: what `RecurrentPolicy` and `ActionDistribution` compute, in far fewer operations.

For the few rows of a batch of requests, most of the time goes into starting operations: here, layers that read the same
are one, what depends only on the weights is computed once for each version of them, and numpy, whose operations start
faster than torch's, does all but the products of matrices and the encoders.

Shapes: n rows, A entries of a flat action, H units.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from ver_core.config import TANH_SCALES
from ver_core.distributions import EDGE, HALF_LOG_2PI, NEVER, ActionHead
from ver_core.linear import Packed
from ver_core.normalizer import LIMIT, Normalizer
from ver_core.policy import Critic, Inputs, RecurrentPolicy
from ver_core.rollout import Native

Floats = NDArray[np.float32]
Bytes = NDArray[np.uint8]


class Answer(NamedTuple):
    """What a policy says of n rows."""

    action: Native
    """(n, A), drawn."""
    state: Native
    """(n, state_size): the recurrent states after the step."""
    host_action: Floats
    """(n, A): the same, in the processor's memory."""
    log_prob: Floats
    """(n,): the action's."""
    value: Floats
    """(n,): the expected discounted return."""


class DeviceInference:
    """The policy itself, on another device than the processor."""

    def __init__(self, policy: RecurrentPolicy) -> None:
        self._policy = policy

    @torch.inference_mode()
    def __call__(self, floats: Tensor, bytes_: Tensor, previous_action: Tensor, state: Tensor, noise: Tensor) -> Answer:
        """Make one step of n environments; arguments as `RecurrentPolicy` and `ActionDistribution.sample` take them."""
        out = self._policy(floats, bytes_, previous_action, state, torch.tensor([len(floats)]))
        action = out.distribution.sample(noise)
        # One transfer for all that the processor needs.
        known = torch.cat((action, out.distribution.log_prob(action)[:, None], out.value[:, None]), 1).cpu().numpy()
        return Answer(action, out.state, known[:, :-2], known[:, -2], known[:, -1])


class Inference:
    """One version of a policy's weights, copied (but for encoders). The policy is one in training: it has a critic."""

    @torch.inference_mode()
    def __init__(self, policy: RecurrentPolicy) -> None:
        self._features = _features(policy.inputs)
        self._mlp = _Mlp(policy.mlp)
        self._cells = [] if policy.lstm is None else _cells(policy.lstm)
        self._critic = None if policy.critic is None else _Critic(policy.critic)
        self._head = _head(policy.action_head, policy.value_head)
        self._sampler = _Sampler(policy.action_head)

    @torch.inference_mode()
    def __call__(self, floats: Floats, bytes_: Bytes, previous_action: Floats, state: Floats, noise: Floats) -> Answer:
        """Make one step of n environments; arguments as `RecurrentPolicy` and `ActionDistribution.sample` take them."""
        features = self._mlp(self._features(floats, bytes_, previous_action))
        if self._cells:
            features, state = self._recur(features, state)
        said = self._head(features)
        value = said[:, -1] if self._critic is None else self._critic(floats)
        action, log_prob = self._sampler(said, noise)
        return Answer(action, state, action, log_prob, value)

    def _recur(self, rows: Floats, state: Floats) -> tuple[Floats, Floats]:
        """Return the LSTM's outputs (n, H) and its states."""
        layers = len(self._cells)
        units = state.shape[1] // (2 * layers)
        after = np.empty_like(state)
        for layer, cell in enumerate(self._cells):
            h = slice(layer * units, (layer + 1) * units)
            c = slice((layers + layer) * units, (layers + layer + 1) * units)
            # sigmoid(x) = 0.5 + 0.5 tanh(0.5 x); the inner half is in the weights.
            gates = cell(np.concatenate((rows, state[:, h]), axis=1))
            np.tanh(gates, out=gates)
            candidate, sigmoids = gates[:, :units], gates[:, units:]
            sigmoids *= 0.5
            sigmoids += 0.5
            candidate *= sigmoids[:, :units]
            cells = np.multiply(sigmoids[:, units : 2 * units], state[:, c], out=after[:, c])
            cells += candidate
            rows = np.multiply(sigmoids[:, 2 * units :], np.tanh(cells), out=after[:, h])
        return rows, after


def _cells(lstm: nn.LSTM) -> list[Packed]:
    """Return a layer for each of the LSTM's: (inputs, h) -> what the gates' activations take.

    nn.LSTM's order of the gates is in, forget, candidate, out; here the candidate comes first.
    """
    found = []
    for w_input, w_hidden, b_input, b_hidden in lstm.all_weights:
        enter, forget, candidate, leave = torch.cat((w_input, w_hidden), dim=1).chunk(4)
        b_enter, b_forget, b_candidate, b_leave = (b_input + b_hidden).chunk(4)
        weight = torch.cat((candidate, 0.5 * enter, 0.5 * forget, 0.5 * leave))
        found.append(Packed(weight, torch.cat((b_candidate, 0.5 * b_enter, 0.5 * b_forget, 0.5 * b_leave))))
    return found


def _head(action_head: ActionHead, value_head: nn.Linear | None) -> Packed:
    """Return one layer for the distribution's parameters and, if it is no network of its own, the value."""
    weight, bias = action_head.linear.weight.clone(), action_head.linear.bias.clone()
    if "gaussian" in action_head.kinds:  # they come first
        weight[: action_head.outputs[0]] *= action_head.mean_scale[:, None]
        bias[: action_head.outputs[0]] *= action_head.mean_scale
    if value_head is None:
        return Packed(weight, bias)
    return Packed(torch.cat((weight, value_head.weight)), torch.cat((bias, value_head.bias)))


class _Mlp:
    def __init__(self, layers: nn.Sequential) -> None:
        self._layers = [Packed(layer.weight, layer.bias) for layer in layers if isinstance(layer, nn.Linear)]

    def __call__(self, rows: Floats) -> Floats:
        for layer in self._layers:
            rows = layer(rows)
            np.tanh(rows, out=rows)
        return rows


class _Normalized:
    """Some columns of the float row, normalised."""

    def __init__(self, columns: Tensor | None, normalizer: Normalizer | None) -> None:
        self._columns = slice(None) if columns is None else _as_slice(columns.numpy())
        self._normalizes = normalizer is not None
        if normalizer is not None:
            mean, std = normalizer.moments()
            self._mean, self._scale = mean.numpy(), std.reciprocal().numpy()

    def __call__(self, floats: Floats) -> Floats:
        rows = floats[:, self._columns]
        if self._normalizes:
            rows = rows - self._mean
            rows *= self._scale
            np.minimum(rows, LIMIT, out=rows)
            np.maximum(rows, -LIMIT, out=rows)
        return rows


class _Critic:
    def __init__(self, critic: Critic) -> None:
        self._rows = _Normalized(critic.columns, critic.normalizer)
        self._mlp = _Mlp(critic.mlp)
        self._head = Packed(critic.head.weight, critic.head.bias)

    def __call__(self, floats: Floats) -> Floats:
        return self._head(self._mlp(self._rows(floats)))[:, 0]


def _features(inputs: Inputs) -> Callable[[Floats, Bytes, Floats], Floats]:
    return _encoded(inputs) if inputs.columns is None else _FloatFeatures(inputs)


def _encoded(inputs: Inputs) -> Callable[[Floats, Bytes, Floats], Floats]:
    def features(floats: Floats, bytes_: Bytes, previous_action: Floats) -> Floats:
        found: Floats = inputs(*map(torch.from_numpy, (floats, bytes_, previous_action))).numpy()
        return found

    return features


class _FloatFeatures:
    """`Inputs` without images and scans."""

    def __init__(self, inputs: Inputs) -> None:
        self._vectors = _Normalized(inputs.columns, inputs.normalizer)
        self._fine = None if inputs.fine is None else _as_slice(inputs.fine.numpy())
        self._angles = None if inputs.angles is None else _as_slice(inputs.angles.numpy())
        self._action = inputs.action
        self._gates = inputs.gates

    def __call__(self, floats: Floats, bytes_: Bytes, previous_action: Floats) -> Floats:
        pieces = [self._vectors(floats)]
        if self._fine is not None:
            close = floats[:, self._fine]
            pieces += [np.tanh(close / np.float32(scale)) for scale in TANH_SCALES]
        if self._angles is not None:
            pieces += [np.cos(floats[:, self._angles]), np.sin(floats[:, self._angles])]
        if self._action is not None:
            pieces.append(self._action(torch.from_numpy(previous_action)).numpy())
        rows = np.concatenate(pieces, axis=1)
        if self._gates:
            on = [floats[:, gate, None] for gate in self._gates]
            rows = np.concatenate([rows * side for side in (1.0 - on[0], *on)], axis=1)
        return rows


class _Sampler:
    """`ActionDistribution.sample` and `log_prob`: (parameters in the first columns of (n, …), noise) -> both."""

    def __init__(self, head: ActionHead) -> None:
        self._edges = np.cumsum([0, *head.outputs]).tolist()
        self._entries = np.cumsum([0, *head.entries]).tolist()
        self._grouped = None if head.grouped is None else head.grouped.numpy()
        self._flat = None if head.flat is None else head.flat.numpy()
        self._draws = [self._kind(kind, head) for kind in head.kinds]

    def __call__(self, said: Floats, noise: Floats) -> tuple[Floats, Floats]:
        uniforms = np.minimum(np.maximum(noise, np.float32(EDGE)), np.float32(1.0 - EDGE))
        if self._grouped is not None:
            uniforms = uniforms[:, self._grouped]
        actions, log_prob = [], np.zeros(len(said), np.float32)
        for i, draw in enumerate(self._draws):
            parameters = said[:, self._edges[i] : self._edges[i + 1]]
            drawn, log_p = draw(parameters, uniforms[:, self._entries[i] : self._entries[i + 1]])
            actions.append(drawn)
            log_prob += log_p
        action = actions[0] if len(actions) == 1 else np.concatenate(actions, axis=1)
        return action if self._flat is None else action[:, self._flat], log_prob

    @staticmethod
    def _kind(kind: str, head: ActionHead) -> Callable[[Floats, Floats], tuple[Floats, Floats]]:
        if kind == "gaussian":
            return _gaussian(head.log_std)
        if kind == "bernoulli":
            return _bernoulli(head.low.numpy(), head.high.numpy())
        return _categorical(None if head.padding is None else head.padding.numpy(), head.most_choices)


def _gaussian(log_std: Tensor) -> Callable[[Floats, Floats], tuple[Floats, Floats]]:
    std = log_std.exp().numpy()
    constant = np.float32(log_std.sum().item() + log_std.numel() * HALF_LOG_2PI)

    def draw(mean: Floats, uniforms: Floats) -> tuple[Floats, Floats]:
        normal = torch.special.ndtri(torch.from_numpy(uniforms)).numpy()
        action = normal * std
        action += mean
        # Of the action as it was rounded: that is what is learnt from.
        z = action - mean
        z /= std
        return action, -0.5 * np.einsum("ij,ij->i", z, z) - constant

    return draw


def _bernoulli(low: Floats, high: Floats) -> Callable[[Floats, Floats], tuple[Floats, Floats]]:
    def draw(logits: Floats, uniforms: Floats) -> tuple[Floats, Floats]:
        chosen = uniforms < 0.5 + 0.5 * np.tanh(0.5 * logits)
        against = np.where(chosen, -logits, logits)
        return np.where(chosen, high, low), -np.logaddexp(np.float32(0.0), against).sum(axis=1)

    return draw


def _categorical(
    padding: NDArray[np.int64] | None, most_choices: int
) -> Callable[[Floats, Floats], tuple[Floats, Floats]]:
    def draw(logits: Floats, uniforms: Floats) -> tuple[Floats, Floats]:
        if padding is not None:
            never = np.full((len(logits), 1), NEVER, np.float32)
            logits = np.concatenate((logits, never), axis=1)[:, padding]
        logits = logits.reshape(len(logits), -1, most_choices)
        log_p = logits - logits.max(axis=2, keepdims=True)
        log_p -= np.log(np.exp(log_p).sum(axis=2, keepdims=True))
        cumulated = np.exp(log_p).cumsum(axis=2)
        choice = (cumulated < uniforms[:, :, None] * cumulated[:, :, -1:]).sum(axis=2)
        log_prob = np.take_along_axis(log_p, choice[:, :, None], axis=2).sum(axis=(1, 2))
        return choice.astype(np.float32), log_prob

    return draw


def _as_slice(columns: NDArray[np.int64]) -> slice | NDArray[np.int64]:
    """Return columns that follow each other as a slice, which copies nothing."""
    first = int(columns[0])
    return slice(first, first + len(columns)) if (np.diff(columns) == 1).all() else columns
