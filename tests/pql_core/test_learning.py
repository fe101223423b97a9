"""The updates against closed forms and torch.distributions; switches; mixed exploration."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from gymnasium import spaces
from test_categorical import naive
from torch.distributions import Normal, TanhTransform, TransformedDistribution

from pql_core.config import PqlConfig, check_network
from pql_core.exploration import deviations
from pql_core.learning import PolicyLearner, ValueLearner
from pql_core.networks import InUse, Policy
from pql_core.processes import Job, Networks, build
from pql_core.replay import Batch
from ver_core.config import ConfigError, PolicyConfig
from ver_core.spaces import UnsupportedSpace

NETWORK = PolicyConfig(rnn_layers=0, previous_action=False, mlp=[16], critic_mlp=[16], normalize_vectors=True)
CONFIG = PqlConfig(num_envs=2, replay_size=1000, batch_size=8, seed=3)
OBSERVATION = spaces.Dict({"seen": spaces.Box(-np.inf, np.inf, (3,)), "told": spaces.Box(-np.inf, np.inf, (2,))})
ACTION = spaces.Dict({"arm": spaces.Box(np.array([-2.0, 0.0], np.float32), np.array([2.0, 1.0], np.float32)),
                      "grip": spaces.Box(-1.0, 1.0, (1,))})  # fmt: skip


def networks(network: PolicyConfig = NETWORK, **config: object) -> Networks:
    return build(Job(OBSERVATION, ACTION, network, replace(CONFIG, **config), "cpu"))  # type: ignore[arg-type]


def batch(n: int, discount: float) -> Batch:
    rng = torch.Generator().manual_seed(0)
    floats, following = torch.randn(n, 5, generator=rng), torch.randn(n, 5, generator=rng)
    none = torch.zeros(n, 0, dtype=torch.uint8)
    action = torch.rand(n, 3, generator=rng) * 2 - 1
    returned = torch.randn(n, generator=rng)
    return Batch(floats, none, action, returned, torch.full((n,), discount), following, none)


@pytest.mark.parametrize("critic", ["double_q", "c51"])
def test_q_becomes_the_return_where_nothing_follows(critic: str) -> None:
    """With a discount of 0 the Bellman error's minimum is the scaled return itself."""
    nets = networks(critic=critic, reward_scale=0.5, critic_learning_rate=1e-2, max_grad_norm=100.0)
    learner = ValueLearner(nets.q, nets.policy, nets.temperature, replace(CONFIG, critic=critic, reward_scale=0.5,
                           critic_learning_rate=1e-2, max_grad_norm=100.0))  # fmt: skip
    one = batch(8, 0.0)
    for _ in range(300):
        learner.update(one)
    with torch.no_grad():
        said = nets.q(one.floats, one.bytes, one.action)
        z = torch.linspace(-10.0, 10.0, 51)
        values = (said.softmax(2) * z).sum(2) if critic == "c51" else said[:, :, 0]
    for of_one in values:
        assert torch.allclose(of_one, 0.5 * one.returned, atol=0.1)


def test_the_target_is_the_smaller_q_of_the_lagging_networks() -> None:
    nets = networks()
    learner = ValueLearner(nets.q, nets.policy, nets.temperature, CONFIG)
    one = batch(8, 0.9)
    before = copy.deepcopy(nets.q)
    with torch.no_grad():
        for parameter in nets.q.parameters():
            parameter.add_(0.1)  # only the targets count
        action = nets.policy.scale.executed(nets.policy(one.next_floats, one.next_bytes))
        both = before(one.next_floats, one.next_bytes, action)[:, :, 0]
        target = one.returned + 0.9 * torch.minimum(both[0], both[1])
        expected = ((nets.q(one.floats, one.bytes, one.action)[:, :, 0] - target) ** 2).mean(1).sum()
        moved = [0.95 * old + 0.05 * new for old, new in zip(before.parameters(), nets.q.parameters(), strict=True)]
    scalars = learner.update(one)
    assert float(scalars["critic_loss"]) == pytest.approx(float(expected), rel=1e-4)
    for target_now, meant in zip(learner.target.parameters(), moved, strict=True):  # Adam's step is below 1e-3
        assert torch.allclose(target_now, meant, atol=1e-3)


def test_the_distribution_with_the_smaller_mean_is_the_target() -> None:
    """Row by row, projected as in test_categorical.py, against the cross-entropy written out."""
    nets = networks(critic="c51", atoms=5, support_min=-2.0, support_max=2.0)
    config = replace(CONFIG, critic="c51", atoms=5, support_min=-2.0, support_max=2.0)
    with torch.no_grad():
        for net in (nets.q.first, nets.q.second):
            net[-1].weight.mul_(5.0)  # or all distributions would be about even
    learner = ValueLearner(nets.q, nets.policy, nets.temperature, config)
    one, z = batch(16, 0.9), torch.linspace(-2.0, 2.0, 5)
    with torch.no_grad():
        action = nets.policy.scale.executed(nets.policy(one.next_floats, one.next_bytes))
        p = learner.target(one.next_floats, one.next_bytes, action).softmax(2)
        log_p = nets.q(one.floats, one.bytes, one.action).log_softmax(2)
    chosen, loss = [], 0.0
    for row in range(16):
        means = [float((p[net, row] * z).sum()) for net in (0, 1)]
        chosen.append(means.index(min(means)))
        target = naive(p[chosen[-1], row].tolist(), float(one.returned[row]), 0.9, -2.0, 2.0)
        loss -= sum(float((torch.tensor(target) * log_p[net, row]).sum()) for net in (0, 1)) / 16
    assert set(chosen) == {0, 1}
    assert float(learner.update(one)["critic_loss"]) == pytest.approx(loss, rel=1e-4)


@pytest.mark.parametrize("learner", ["ddpg", "sac"])
@pytest.mark.parametrize("critic", ["double_q", "c51"])
def test_the_policy_climbs_q(learner: str, critic: str) -> None:
    nets = networks(learner=learner, critic=critic, actor_learning_rate=1e-2, entropy_coef=1e-4)
    config = replace(CONFIG, learner=learner, critic=critic, actor_learning_rate=1e-2, entropy_coef=1e-4,
                     target_entropy=-1e3)  # fmt: skip
    with torch.no_grad():  # something to climb: at first they say the same of all actions
        for head in (nets.q.first, nets.q.second):
            last = head[-1]
            assert isinstance(last, torch.nn.Linear)
            last.weight *= 100.0
    climber = PolicyLearner(nets.policy, nets.temperature, nets.q, config)
    frozen = [p.clone() for p in nets.q.parameters()]
    states = batch(32, 0.0)
    losses = [float(climber.update(states.floats, states.bytes)["policy_loss"]) for _ in range(100)]
    assert np.mean(losses[-10:]) < np.mean(losses[:10]) - 0.01
    assert all(torch.equal(a, b) for a, b in zip(frozen, nets.q.parameters(), strict=True))


def test_sac_densities_are_those_of_a_tanh_gaussian() -> None:
    policy = networks(learner="sac").policy.double()
    floats, none = torch.randn(64, 5, dtype=torch.float64) * 3, torch.zeros(64, 0, dtype=torch.uint8)
    with torch.no_grad():
        policy.mlp[-1].bias.copy_(torch.tensor([0.5, -1.0, 2.0, 0.1, -0.5, -1.0]))
        numbers, log_prob = policy.draw(floats, none)
        mean, log_std = policy.mlp(policy.inputs(floats, none, floats)).chunk(2, dim=1)
    oracle = TransformedDistribution(Normal(mean, log_std.exp()), [TanhTransform(cache_size=1)])
    inside = numbers.abs().amax(1) < 0.999  # the oracle has to invert tanh
    expected = oracle.log_prob(numbers).sum(1)
    assert torch.allclose(log_prob[inside], expected[inside], atol=1e-6) and int(inside.sum()) > 30


def test_actions_lie_in_the_space_and_switches_are_on_or_off() -> None:
    nets = networks(replace(NETWORK, heads={"grip": "bernoulli"}))
    scale = nets.policy.scale
    numbers = torch.tensor([[0.5, -3.0, 0.1], [-1.0, 1.0, -0.1], [0.0, 0.0, 0.0]])
    executed = scale.executed(numbers)
    assert executed.tolist() == [[0.5, -1.0, 1.0], [-1.0, 1.0, -1.0], [0.0, 0.0, -1.0]]
    assert scale(executed).tolist() == [[1.0, 0.0, 1.0], [-2.0, 1.0, -1.0], [0.0, 0.5, -1.0]]
    in_use = InUse(nets.policy)
    floats, none = torch.randn(4, 5), torch.zeros(4, 0, dtype=torch.uint8)
    said = in_use(floats, none, torch.zeros(4, 3), torch.zeros(4, 0), torch.tensor([4])).distribution
    played = said.sample(torch.rand(4, 0))
    assert torch.equal(played, scale(scale.executed(nets.policy(floats, none))))
    assert set(played[:, 2].tolist()) <= {-1.0, 1.0}


def test_what_only_the_critic_is_told_does_not_reach_the_policy() -> None:
    nets = networks(replace(NETWORK, critic_keys=["told"]))
    floats = torch.randn(6, 5)
    none = torch.zeros(6, 0, dtype=torch.uint8)
    nets.statistics.learn(torch.randn(100, 5) * 3 + 1, torch.zeros(100, 0, dtype=torch.uint8))
    other = floats.clone()
    other[:, 3:] += 1.0  # `told`
    assert torch.equal(nets.policy(floats, none), nets.policy(other, none))
    action = torch.zeros(6, 3)
    assert not torch.equal(nets.q(floats, none, action), nets.q(other, none, action))
    alone = Policy(spaces.Dict({"seen": OBSERVATION["seen"]}), ACTION, replace(NETWORK, critic_keys=["told"]), "ddpg")
    alone.load_state_dict(nets.policy.state_dict())
    assert torch.equal(alone(floats[:, :3], none), nets.policy(floats, none))


def test_statistics_are_the_moments_of_all_rows_and_the_same_everywhere() -> None:
    nets = networks(replace(NETWORK, critic_keys=["told"]))
    rows = torch.randn(300, 5, dtype=torch.float64) * torch.tensor([1.0, 5.0, 0.5, 2.0, 9.0]) + 4.0
    for part in rows.float().split([1, 99, 200]):
        nets.statistics.learn(part, torch.zeros(len(part), 0, dtype=torch.uint8))
    for network, columns in ((nets.q, [0, 1, 2, 3, 4]), (nets.policy, [0, 1, 2])):
        normalizer = network.inputs.normalizer
        assert normalizer is not None
        assert torch.allclose(normalizer.mean, rows.mean(0)[columns], atol=1e-5)
        assert torch.allclose(normalizer.variance, rows.var(0, correction=0)[columns], rtol=1e-5)
    other = networks(replace(NETWORK, critic_keys=["told"]))
    other.statistics.write(nets.statistics.read())
    floats, none = torch.randn(3, 5), torch.zeros(3, 0, dtype=torch.uint8)
    assert torch.equal(other.policy(floats, none), nets.policy(floats, none))


def test_mixed_exploration_is_spread_evenly() -> None:
    assert deviations(replace(CONFIG, num_envs=4)).tolist() == pytest.approx([0.05, 0.3, 0.55, 0.8])
    assert deviations(replace(CONFIG, num_envs=5, sigma_min=0.2, sigma_max=0.2, greedy_envs=2)).tolist() == (
        pytest.approx([0.2, 0.2, 0.2, 0.0, 0.0])
    )


def test_parts_begin_and_explore_as_they_are_told() -> None:
    """The arm's bounds are -2 to 2 and 0 to 1."""
    told = replace(
        NETWORK,
        heads={"grip": "bernoulli"},
        initial_std=0.5,
        initial_part_std={"arm": 0.2},
        initial_bias={"arm": [1.0, 0.25], "grip": 4.0},
    )
    nets = networks(told)
    scale = nets.policy.scale
    said = nets.policy(torch.zeros(20_000, 5), torch.zeros(20_000, 0, dtype=torch.uint8)).detach()
    assert said[0].tolist() == pytest.approx([0.5, -0.5, math.tanh(2.0)], abs=0.03)
    sigma, rng = torch.full((20_000, 1), 0.3), torch.Generator().manual_seed(0)
    tried = scale.explored(said, sigma, torch.zeros(20_000, 1, dtype=torch.bool), rng)
    assert (tried - said)[:, :2].std(0).tolist() == pytest.approx([0.12, 0.12], rel=0.03)
    grip = tried[:, 2]
    assert set(grip.tolist()) == {-1.0, 1.0}
    assert float((grip > 0.0).float().mean()) == pytest.approx(1.0 / (1.0 + math.exp(-4.0)), abs=0.004)
    assert scale.explored(-said, sigma, torch.ones(20_000, 1, dtype=torch.bool), rng)[:, 2].min() == 1.0
    assert networks().policy(torch.zeros(1, 5), torch.zeros(1, 0, dtype=torch.uint8))[0].tolist() == (
        pytest.approx([0.0, 0.0, 0.0], abs=0.03)
    )


@pytest.mark.parametrize(
    ("space", "what"),
    [(spaces.Discrete(3), "finite bounds"), (spaces.Box(-np.inf, np.inf, (2,)), "finite bounds")],
    ids=["discrete", "unbounded"],
)
def test_actions_without_bounds_are_refused(space: spaces.Space[object], what: str) -> None:
    with pytest.raises(UnsupportedSpace, match=what):
        build(Job(OBSERVATION, space, NETWORK, CONFIG, "cpu"))


@pytest.mark.parametrize(
    ("config", "network", "what"),
    [
        ({"learner": "td3"}, {}, "pql.learner=td3"),
        ({"warmup_steps": 3}, {}, "pql.warmup_steps"),
        ({"replay_size": 100}, {}, "pql.replay_size"),
        ({"sigma_max": 0.01}, {}, "pql.sigma_max"),
        ({"gamma": float("nan")}, {}, "pql.gamma"),
        ({"keep_ratios": False, "parallel": False}, {}, "pql.keep_ratios"),
        ({}, {"rnn_layers": 1}, "policy.rnn_layers"),
        ({}, {"critic_mlp": []}, "policy.critic_mlp"),
    ],
)
def test_senseless_parameters_are_named(config: dict[str, object], network: dict[str, object], what: str) -> None:
    with pytest.raises(ConfigError, match=what):
        replace(CONFIG, **config).check()  # type: ignore[arg-type]
        check_network(replace(NETWORK, **network))  # type: ignore[arg-type]
