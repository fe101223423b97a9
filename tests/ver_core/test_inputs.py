"""What the policy makes of its inputs: normalised vectors (against numpy on all rows at once), fine keys, the gate."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from ver_core.config import ConfigError, PolicyConfig
from ver_core.distributed import World
from ver_core.normalizer import LIMIT, Normalizer
from ver_core.policy import RecurrentPolicy


@settings(deadline=None, derandomize=True)
@given(st.lists(st.integers(1, 40) | st.just(600), min_size=1, max_size=6), st.floats(-1e3, 1e3), st.floats(0.2, 50.0))
def test_batches_add_up_to_the_statistics_of_all_rows(sizes: list[int], center: float, spread: float) -> None:
    rng = np.random.default_rng(len(sizes))
    batches = [rng.normal(center, spread, (n, 3)) for n in sizes]
    normalizer = Normalizer(3)
    for batch in batches:
        normalizer.learn(torch.from_numpy(batch), World())
    rows = np.concatenate(batches)
    np.testing.assert_allclose(normalizer.mean, rows.mean(0), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(normalizer.variance, rows.var(0), rtol=1e-6, atol=1e-9)
    wanted = (rows - rows.mean(0)) / np.maximum(rows.std(0), 0.1)
    seen = normalizer(torch.from_numpy(rows).float())
    np.testing.assert_allclose(seen, wanted.clip(-LIMIT, LIMIT), atol=1e-2)


def test_before_any_row_nothing_changes_and_constants_stay_small() -> None:
    normalizer = Normalizer(2)
    rows = torch.tensor([[0.5, -1.0], [2.0, 3.0]])
    assert torch.equal(normalizer(rows), rows)
    normalizer.learn(torch.zeros(1000, 2), World())
    assert normalizer(torch.ones(1, 2)).abs().max() == LIMIT


@settings(deadline=None, derandomize=True)
@given(st.floats(-9.0, 9.0), st.integers(1, 3000), st.integers(1, 3))
def test_what_never_varies_has_no_variance(value: float, rows: int, batches: int) -> None:
    """0.128 in a thousand rows had one of -3e-18, whose root is no number."""
    normalizer, constant = Normalizer(1), torch.full((rows, 1), value)
    for _ in range(batches):
        normalizer.learn(constant, World())
    assert 0.0 <= float(normalizer.variance) < 1e-9
    assert normalizer(constant).abs().max() < 1e-4


def test_the_policy_normalises_vectors_but_not_images() -> None:
    space = spaces.Dict({"depth": spaces.Box(0.0, 1.0, (36, 44, 1)), "joint": spaces.Box(-9.0, 9.0, (3,))})
    config = PolicyConfig(rnn_layers=0, visual_size=8, normalize_vectors=True)
    policy = RecurrentPolicy(space, spaces.Box(-1.0, 1.0, (2,)), config)
    floats = torch.rand(50, policy.obs_layout.floats)
    floats[:, -3:] = torch.randn(50, 3) * 4.0 + 7.0
    none = torch.zeros(50, 0, dtype=torch.uint8)
    policy.learn_normalization(floats, none, World())
    assert policy.inputs.normalizer is not None
    np.testing.assert_allclose(policy.inputs.normalizer.mean, floats[:, -3:].double().mean(0))
    state = {name: value.clone() for name, value in policy.state_dict().items()}
    assert any("normalizer.mean" in name for name in state)
    arguments = none, torch.zeros(50, 2), torch.zeros(50, 0), torch.tensor([50])
    shifted = floats.clone()
    shifted[:, -3:] += 1.0
    assert not torch.equal(policy(floats, *arguments).value, policy(shifted, *arguments).value)


def test_tanh_keys_show_centimetres_that_the_plain_entry_hides() -> None:
    """Two targets 2 cm apart near the hand differ more, to the first layer, than two as far apart a metre away."""
    space = spaces.Dict({"goal": spaces.Box(-9.0, 9.0, (3,)), "joint": spaces.Box(-9.0, 9.0, (2,))})
    config = PolicyConfig(rnn_layers=0, tanh_keys=["goal"], previous_action=False)
    policy = RecurrentPolicy(space, spaces.Box(-1.0, 1.0, (2,)), config)
    none = torch.zeros(1, 0, dtype=torch.uint8)

    def features(x: float) -> torch.Tensor:
        return policy.inputs(torch.tensor([[x, 0.0, 0.0, 0.3, 0.4]]), none, torch.zeros(1, 2))

    assert policy.inputs.features == features(0.0).shape[1] == 5 + 2 * 3
    near, far = features(0.03) - features(0.01), features(1.03) - features(1.01)
    assert near.abs().max() > 0.2 and far.abs().max() < 0.03
    np.testing.assert_allclose(features(0.05)[0, [5, 8]].detach(), np.tanh([1.0, 0.25]), rtol=1e-6)


def test_gates_switch_between_sets_of_weights() -> None:
    bit = spaces.Box(0.0, 1.0, (1,))
    space = spaces.Dict({"full": bit, "done": bit, "goal": spaces.Box(-9.0, 9.0, (2,))})
    config = PolicyConfig(rnn_layers=0, gating_keys=["full", "done"], previous_action=False, mlp=[8])
    policy = RecurrentPolicy(space, spaces.Box(-1.0, 1.0, (2,)), config)
    layout = policy.obs_layout
    rows = np.zeros((4, layout.floats), np.float32)
    for row, (full, done) in zip(rows, ((0, 0), (1, 0), (1, 1), (0, 1)), strict=True):
        layout.pack({"full": [full], "done": [done], "goal": [2.0, 3.0]}, row, np.zeros(0, np.uint8))
    features = policy.inputs(torch.from_numpy(rows), torch.zeros(4, 0, dtype=torch.uint8), torch.zeros(4, 2))
    seen = features.reshape(4, 3, layout.floats).abs().sum(dim=2) > 0
    # One set for the empty hand, one for the full one, and one that is added once all is done.
    assert seen.tolist() == [[True, False, False], [False, True, False], [False, True, True], [True, False, True]]
    torch.testing.assert_close(features.reshape(4, 3, layout.floats)[2, 1], torch.from_numpy(rows[2]))


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ({"gating_keys": ["goal"]}, "policy.gating_keys: goal"),
        ({"gating_keys": ["x"]}, "policy.gating_keys: x"),
        ({"tanh_keys": ["x"]}, "choose from full, goal"),
    ],
)
def test_senseless_inputs_are_refused(setting: dict[str, Any], said: str) -> None:
    space = spaces.Dict({"full": spaces.Box(0.0, 1.0, (1,)), "goal": spaces.Box(-9.0, 9.0, (3,))})
    with pytest.raises(ConfigError, match=said):
        RecurrentPolicy(space, spaces.Box(-1.0, 1.0, (2,)), PolicyConfig(**setting))
