"""Cloning against experts whose actions are known in closed form."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from ver_core import cloning
from ver_core.cloning import Demonstrations, clone
from ver_core.config import PolicyConfig
from ver_core.distributed import World
from ver_core.policy import Output, RecurrentPolicy

SPACE = spaces.Box(-9.0, 9.0, (3,), np.float32)
ACTION = spaces.Dict({"arm": spaces.Box(-1.0, 1.0, (2,), np.float32), "grip": spaces.Box(-1.0, 1.0, (1,), np.float32)})


def policy(**config: Any) -> RecurrentPolicy:
    torch.manual_seed(0)
    settings: dict[str, Any] = {"rnn_layers": 0, "previous_action": False, "mlp": [64], "heads": {"grip": "bernoulli"}}
    return RecurrentPolicy(SPACE, ACTION, PolicyConfig(**{**settings, "normalize_vectors": True, **config}))


def outputs(network: RecurrentPolicy, observed: np.ndarray) -> Output:
    rows = torch.from_numpy(observed.astype(np.float32))
    n = len(rows)
    with torch.no_grad():
        none = torch.zeros(n, 0, dtype=torch.uint8)
        return network(
            rows,
            none,
            torch.zeros(n, network.action_layout.size),
            torch.zeros(n, network.state_size),
            torch.tensor([n]),
        )


def demonstrations(observed: np.ndarray, arm: np.ndarray, grip: np.ndarray) -> Demonstrations:
    actions = np.column_stack((arm, grip)).astype(np.float32)
    none = np.zeros((len(observed), 0), np.uint8)
    returns, every = (3.0 * observed[:, 0]).astype(np.float32), np.ones(len(observed), bool)
    return Demonstrations(observed.astype(np.float32), none, actions, returns, every, every)


@pytest.mark.parametrize("critic_mlp", [[], [64]], ids=["shared critic", "critic of its own"])
def test_a_clone_does_and_values_what_was_shown(monkeypatch: pytest.MonkeyPatch, critic_mlp: list[int]) -> None:
    monkeypatch.setattr(cloning, "BATCH", 128)
    rng = np.random.default_rng(0)
    observed = rng.uniform(-1.0, 1.0, (8000, 3)) * [1.0, 50.0, 1.0]
    arm = np.column_stack((0.5 * observed[:, 0], 0.01 * observed[:, 1]))
    grip = np.where(observed[:, 2] > 0.0, 1.0, -1.0)
    network = policy(critic_mlp=critic_mlp)
    spread = network.action_head.log_std.detach().clone()
    losses: list[float] = []
    clone(network, demonstrations(observed, arm, grip), 40, 0, World(), lambda epoch, loss: losses.append(loss))
    assert len(losses) == 40 and losses[-1] < 0.2 * losses[0]
    torch.testing.assert_close(network.action_head.log_std.detach(), spread)
    fresh = rng.uniform(-0.9, 0.9, (500, 3)) * [1.0, 50.0, 1.0]
    out = outputs(network, fresh)
    actions = out.distribution.mode().numpy()
    assert np.abs(actions[:, 0] - 0.5 * fresh[:, 0]).mean() < 0.05
    assert np.abs(actions[:, 1] - 0.01 * fresh[:, 1]).mean() < 0.05
    clear = np.abs(fresh[:, 2]) > 0.1
    assert (actions[clear, 2] == np.sign(fresh[clear, 2])).mean() > 0.98
    assert np.abs(out.value.numpy() - 3.0 * fresh[:, 0]).mean() < 0.2


def test_a_clone_learns_from_images_in_a_few_looks() -> None:
    """Where the bright half is says which way to go; 1,000 images, eight epochs."""
    rng = np.random.default_rng(0)
    left = rng.random(1000) < 0.5
    images = rng.uniform(0.0, 0.5, (1000, 36, 36, 1)).astype(np.float32)
    images[left, :, :18] += 0.5
    images[~left, :, 18:] += 0.5
    torch.manual_seed(0)
    config = PolicyConfig(rnn_layers=0, previous_action=False, mlp=[64], visual="small", visual_size=32)
    network = RecurrentPolicy(
        spaces.Dict({"view": spaces.Box(0.0, 1.0, (36, 36, 1), np.float32)}), ACTION["arm"], config
    )
    every = np.ones(1000, bool)
    rows = images.reshape(1000, -1)
    actions = np.where(left, 0.5, -0.5)[:, None].repeat(2, axis=1).astype(np.float32)
    none = np.zeros((1000, 0), np.uint8)
    clone(network, Demonstrations(rows, none, actions, np.zeros(1000, np.float32), every, every), 8, 0, World())
    with torch.no_grad():
        previous = torch.from_numpy(network.action_layout.none).expand(1000, -1)
        state = torch.zeros(1000, network.state_size)
        out = network(torch.from_numpy(rows), torch.from_numpy(none), previous, state, torch.tensor([1000]))
    assert np.abs(out.distribution.mode().numpy() - actions).mean() < 0.1


def test_an_expert_that_does_now_this_now_that_is_not_averaged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cloning, "BATCH", 128)
    rng = np.random.default_rng(0)
    observed = rng.uniform(-1.0, 1.0, (4000, 3))
    arm = np.where(rng.random((4000, 2)) < 0.7, 0.8, -0.8)
    network = policy()
    clone(network, demonstrations(observed, arm, np.ones(4000)), 20, 0, World())
    means = outputs(network, observed[:200]).distribution.mode().numpy()[:, :2]
    assert np.abs(means - 0.8).mean() < 0.1  # the mean would be 0.32


def test_cloning_is_repeatable_and_learns_the_normalisation_once() -> None:
    rng = np.random.default_rng(0)
    observed = rng.uniform(-1.0, 1.0, (3000, 3))
    shown = demonstrations(observed, np.zeros((3000, 2)), np.ones(3000))
    one, other = policy(), policy()
    for network in (one, other):
        clone(network, shown, 2, 5, World())
    for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True):
        torch.testing.assert_close(a, b, rtol=0.0, atol=0.0)
    normalizer = one.inputs.normalizer
    assert normalizer is not None
    mean, variance = normalizer.mean.clone(), normalizer.variance.clone()
    np.testing.assert_allclose(mean, shown.floats.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(variance, shown.floats.var(axis=0), atol=1e-6)
    one.learn_normalization(torch.full((9, 3), 7.0), torch.zeros(9, 0, dtype=torch.uint8), World())
    clone(one, Demonstrations.join([shown, shown]), 1, 6, World())
    torch.testing.assert_close((normalizer.mean, normalizer.variance), (mean, variance), rtol=0.0, atol=0.0)


def test_a_memory_sees_what_others_did_before_and_clones_the_expert_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """The expert repeats what it saw in an episode's first step, which it did not take itself."""
    monkeypatch.setattr(cloning, "RECURRENT_BATCH", 200)
    rng = np.random.default_rng(0)
    episodes, length = 400, 5
    first = rng.choice([-0.7, 0.7], episodes)
    observed = np.zeros((episodes, length, 3))
    observed[:, 0, 0] = first
    arm = np.repeat(first[:, None], length, axis=1)
    expert = np.ones((episodes, length), bool)
    expert[:, 0], arm[:, 0] = False, 99.0
    plain = demonstrations(observed.reshape(-1, 3), np.repeat(arm.reshape(-1, 1), 2, 1), np.ones(episodes * length))
    starts = np.arange(episodes * length) % length == 0
    network = policy(rnn_layers=1, rnn_size=16)
    clone(network, replace(plain, starts=starts, expert=expert.ravel()), 15, 0, World())
    rows = torch.from_numpy(observed[:50].transpose(1, 0, 2).reshape(-1, 3).astype(np.float32))
    with torch.no_grad():
        sizes, none = torch.tensor([50] * length), torch.zeros(250, 0, dtype=torch.uint8)
        out = network(rows, none, torch.zeros(250, 3), torch.zeros(50, network.state_size), sizes)
    means = out.distribution.mode().numpy()[:, 0].reshape(length, 50)[1:]
    assert np.abs(means - first[:50]).mean() < 0.1


def test_a_policy_that_is_told_its_previous_action_is_refused() -> None:
    observed = np.zeros((10, 3))
    shown = demonstrations(observed, np.zeros((10, 2)), np.ones(10))
    with pytest.raises(ValueError, match="previous action"):
        clone(policy(previous_action=True), shown, 1, 0, World())


def test_an_error_counts_by_the_spread_it_is_borne_with() -> None:
    """Parts with a quarter of the widest spread count four times; the choice counts by its log-probability."""
    parts = {
        "arm": spaces.Box(-1.0, 1.0, (2,)),
        "base": spaces.Box(-1.0, 1.0, (1,)),
        "grip": spaces.Box(-1.0, 1.0, (1,)),
    }
    config = PolicyConfig(
        rnn_layers=0,
        previous_action=False,
        mlp=[8],
        heads={"grip": "bernoulli"},
        initial_std=0.2,
        initial_part_std={"base": 0.05},
    )
    network = RecurrentPolicy(SPACE, spaces.Dict(parts), config)
    with torch.no_grad():
        network.action_head.linear.weight.zero_()
        network.action_head.linear.bias.zero_()
    distribution = outputs(network, np.zeros((1, 3))).distribution
    missed = distribution.imitation_loss(torch.tensor([[0.1, -0.2, 0.3, 1.0]]))
    assert float(missed) == pytest.approx(0.1 + 0.2 + 4.0 * 0.3 + math.log(2.0), abs=1e-5)


def test_chances_are_how_often_a_switch_is_on() -> None:
    network = policy()
    network.action_head.linear.bias.data[:] = torch.tensor([0.3, -0.2, -1.1])
    distribution = outputs(network, np.zeros((20000, 3))).distribution
    chances = distribution.chances()
    assert bool(chances[:, :2].isnan().all())
    on = distribution.sample(torch.rand(20000, network.noise_size))[:, 2] > 0.0
    assert float(chances[:, 2].mean()) == pytest.approx(float(on.float().mean()), abs=0.015)


def test_a_deterministic_policy_plays_its_means() -> None:
    noise = torch.rand(300, 3)
    for deterministic in (False, True):
        network = policy(deterministic=deterministic)
        out = outputs(network, np.zeros((300, 3)))
        same = torch.equal(network.play(out, noise), out.distribution.mode())
        assert same == deterministic


def test_played_actions_are_drawn_motions_and_the_likelier_choice() -> None:
    network = policy()
    network.action_head.linear.bias.data[:] = torch.tensor([0.3, -0.2, 0.5])
    noise = torch.rand(4000, network.noise_size)
    distribution = outputs(network, np.zeros((4000, 3))).distribution
    played, sampled = distribution.play(noise), distribution.sample(noise)
    torch.testing.assert_close(played[:, :2], sampled[:, :2])
    assert set(played[:, 2].tolist()) == {1.0} and set(sampled[:, 2].tolist()) == {-1.0, 1.0}
