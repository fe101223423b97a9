"""Inference on a processor against the policy's own forward pass and distribution, for every kind of input and head."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import nn

from ver_core.config import PolicyConfig
from ver_core.distributed import World
from ver_core.inference import DeviceInference, Inference
from ver_core.policy import RecurrentPolicy

OBSERVATION = spaces.Dict(
    {
        "goal": spaces.Box(-1.0, 1.0, (3,)),
        "holding": spaces.Box(0.0, 1.0, (1,)),
        "joints": spaces.Box(-1.0, 1.0, (2, 3)),
        "lidar": spaces.Box(0.0, 5.0, (32,)),
        "truth": spaces.Box(-1.0, 1.0, (4,)),
    }
)
CAMERAS = spaces.Dict(
    {
        **OBSERVATION.spaces,
        "camera": spaces.Box(0, 255, (40, 36, 3), np.uint8),
        "touch": spaces.Box(0, 255, (5,), np.uint8),
    }
)
ARM = spaces.Box(-1.0, 1.0, (3,))
ACTION = spaces.Dict(
    {
        "arm": ARM,
        "base": spaces.Box(-1.0, 1.0, (2,)),
        "gear": spaces.MultiDiscrete([2, 4]),
        "grip": spaces.Box(-1.0, 1.0, (2,)),
        "stop": spaces.Discrete(3),
    }
)
"""Flat in this order; by kind: arm, base, grip, gear, stop."""
HEADS: dict[str, Any] = {"heads": {"grip": "bernoulli"}, "initial_part_std": {"base": 0.05}}
CONFIGS: dict[str, tuple[spaces.Space[Any], spaces.Space[Any], dict[str, Any]]] = {
    "plain": (OBSERVATION, ARM, {}),
    "as the robot's": (OBSERVATION, ACTION, {**HEADS, "rnn_layers": 1, "mlp": [20], "normalize_vectors": True}),
    "wide": (OBSERVATION, ARM, {"rnn_layers": 1, "rnn_size": 256, "mlp": [256, 256]}),  # with packed weights
    "no memory": (OBSERVATION, ACTION, {**HEADS, "rnn_layers": 0, "mlp": [20, 10]}),
    "three layers": (OBSERVATION, ACTION, {**HEADS, "rnn_layers": 3}),
    "own critic": (
        OBSERVATION, ARM, {"critic_mlp": [9], "critic_keys": ["goal"], "normalize_vectors": True, "mlp": [8]},
    ),
    "fine and gated": (
        OBSERVATION, ACTION, {"tanh_keys": ["goal"], "gating_keys": ["holding"], "normalize_vectors": True},
    ),
    "angles": (OBSERVATION, ACTION, {"angle_keys": ["goal", "holding"], "tanh_keys": ["goal"], "mlp": [9]}),
    "no action": (OBSERVATION, ARM, {"previous_action": False}),
    "scan": (OBSERVATION, ACTION, {"scan_keys": ["lidar"], "normalize_vectors": True}),
    "cameras": (CAMERAS, ACTION, {**HEADS, "normalize_vectors": True, "critic_mlp": [9], "critic_keys": ["truth"]}),
}  # fmt: skip


def make_policy(name: str) -> RecurrentPolicy:
    torch.manual_seed(0)
    observation, action, config = CONFIGS[name]
    small = {"rnn_size": 8, "visual_size": 12, "scan_size": 6}
    policy = RecurrentPolicy(observation, action, PolicyConfig(**{**small, **config}))
    nn.init.normal_(policy.action_head.linear.weight, std=0.3)  # its gain of 0.01 would hide differences
    for parameter in policy.parameters():
        if parameter.ndim == 1:
            nn.init.normal_(parameter, std=0.3)
    rows = [torch.from_numpy(part) for part in random_rows(policy, 200)[:2]]
    policy.learn_normalization(rows[0], rows[1], World())
    return policy


def random_rows(policy: RecurrentPolicy, n: int) -> list[np.ndarray]:
    rng = np.random.default_rng(n)
    floats = rng.normal(0.5, 2.0, (n, policy.obs_layout.floats)).astype(np.float32)
    for key in policy.obs_layout.keys:
        if key.name == "holding":
            floats[:, key.start] = rng.integers(0, 2, n)
    bytes_ = rng.integers(0, 256, (n, policy.obs_layout.bytes), dtype=np.uint8)
    choices = [c for part in policy.action_layout.parts for c in (part.choices or (0,) * part.size)]
    columns = [rng.integers(-1, c, n) if c else rng.normal(size=n) for c in choices]
    noise = rng.uniform(0.0, 1.0, (n, policy.noise_size)).astype(np.float32)
    noise[0], noise[-1] = 0.0, 1.0
    state = rng.normal(0.0, 0.5, (n, policy.state_size)).astype(np.float32)
    return [floats, bytes_, np.stack(columns, axis=1).astype(np.float32), state, noise]


@pytest.mark.parametrize("n", [1, 8, 70])
@pytest.mark.parametrize("name", CONFIGS)
def test_it_says_what_the_policy_says(name: str, n: int) -> None:
    policy = make_policy(name)
    given = random_rows(policy, n)
    answer = Inference(policy)(*given)
    expected = DeviceInference(policy)(*(torch.from_numpy(part) for part in given))
    assert answer.action.shape == (n, policy.action_layout.size)
    assert answer.action is answer.host_action
    np.testing.assert_allclose(answer.action, expected.action.numpy(), rtol=0, atol=1e-5)
    np.testing.assert_allclose(answer.log_prob, expected.log_prob, rtol=0, atol=2e-5)
    np.testing.assert_allclose(answer.value, expected.value, rtol=0, atol=1e-5)
    np.testing.assert_allclose(answer.state, expected.state.numpy(), rtol=0, atol=1e-5)
    for found in answer:
        assert found.dtype == np.float32


def test_later_weights_and_statistics_are_not_its_own() -> None:
    policy = make_policy("as the robot's")
    given = random_rows(policy, 4)
    inference = Inference(policy)
    before = inference(*given)
    with torch.no_grad():
        for parameter in policy.parameters():
            parameter += 0.1
    policy.learn_normalization(torch.randn(99, policy.obs_layout.floats), torch.zeros(99, 0), World())
    for one, other in zip(before, inference(*given), strict=True):
        np.testing.assert_array_equal(one, other)
    assert (Inference(policy)(*given).value != before.value).all()


@torch.no_grad()
def test_collected_log_probabilities_are_those_that_are_learnt_from() -> None:
    """An episode of 300 steps, as the learner sees it: all steps at once, by the other kernels."""
    torch.manual_seed(1)
    action = spaces.Dict({"arm": spaces.Box(-1.0, 1.0, (10,)), "grip": spaces.Box(-1.0, 1.0, (1,))})
    config = PolicyConfig(
        mlp=[256], rnn_layers=1, rnn_size=256, heads={"grip": "bernoulli"}, initial_std=0.3, normalize_vectors=True
    )
    policy = RecurrentPolicy(spaces.Box(-1.0, 1.0, (170,)), action, config)
    nn.init.orthogonal_(policy.action_head.linear.weight, gain=0.3)
    rng = np.random.default_rng(1)
    floats = rng.normal(size=(300, 1, 170)).astype(np.float32).cumsum(axis=0) / 10.0
    policy.learn_normalization(torch.from_numpy(floats[:, 0]), torch.zeros(300, 0), World())
    inference, none = Inference(policy), np.zeros((1, 0), np.uint8)
    previous, state = np.zeros((1, 11), np.float32), np.zeros((1, 512), np.float32)
    begin, actions, previous_actions, log_probs, values = state, [], [], [], []
    for row in floats:
        previous_actions.append(previous)
        answer = inference(row, none, previous, state, rng.uniform(size=(1, 11)).astype(np.float32))
        previous, state = answer.action, answer.state
        actions.append(answer.action)
        log_probs.append(answer.log_prob[0])
        values.append(answer.value[0])
    rows = [torch.from_numpy(part) for part in (floats[:, 0], np.zeros((300, 0), np.uint8))]
    columns = torch.from_numpy(np.concatenate(previous_actions)), torch.from_numpy(begin)
    out = policy(*rows, *columns, torch.ones(300, dtype=torch.int64))
    log_prob = out.distribution.log_prob(torch.from_numpy(np.concatenate(actions)))
    np.testing.assert_allclose(log_prob, log_probs, rtol=0, atol=1e-5)
    np.testing.assert_allclose(out.value, values, rtol=0, atol=1e-5)
