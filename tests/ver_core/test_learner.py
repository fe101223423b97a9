"""The learner's update against the equations written out step by step; what it learns from, and what it refuses."""

from __future__ import annotations

import copy
import math
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn

from ver_core.config import ConfigError, PolicyConfig, TrainConfig
from ver_core.distributed import World
from ver_core.learner import Interrupted, Learner, LearningFailure, learning_rate
from ver_core.policy import Output, RecurrentPolicy
from ver_core.rollout import Rollout
from ver_core.shared_rows import Layout

CPU = torch.device("cpu")
OBSERVATION = spaces.Box(-1.0, 1.0, (3,))
ACTION = spaces.Dict({"arm": spaces.Box(-1.0, 1.0, (2,)), "gear": spaces.Discrete(3)})
N, T = 3, 8
"""Tiny: a rollout is 24 steps."""


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def make_policy(**config: Any) -> RecurrentPolicy:
    torch.manual_seed(1)
    policy = RecurrentPolicy(OBSERVATION, ACTION, PolicyConfig(**{"rnn_size": 5, "rnn_layers": 2, **config}))
    nn.init.normal_(policy.action_head.linear.weight)
    return policy


def config_for(**changes: Any) -> TrainConfig:
    """Plain gradients: one mini-batch, once, and no clipping of the norm."""
    chosen = {"num_envs": N, "rollout_length": T, "epochs": 1, "mini_batches": 1, "max_grad_norm": 1e9, **changes}
    config = TrainConfig(**chosen, learner_threads=1, device="cpu")
    config.check()
    return config


def make_learner(policy: RecurrentPolicy | None = None, **changes: Any) -> Learner:
    return Learner(policy or make_policy(), config_for(**changes), CPU, World())


def fill(rollout: Rollout, count: int, seed: int, log_prob_noise: float = 0.4) -> None:
    """Begin a new rollout of `count` steps with random contents; environment 0 makes most of the steps."""
    rng = np.random.default_rng(seed)
    rollout.clear()
    rows = rollout.extend(count)
    wide = rollout.wide
    for name in ("floats", "state"):
        wide[name][rows] = torch.from_numpy(rng.normal(size=(count, wide[name].shape[1]))).float()
    for name in ("action", "previous_action"):
        wide[name][rows, :2] = torch.from_numpy(rng.normal(size=(count, 2))).float()
        wide[name][rows, 2] = torch.from_numpy(rng.integers(0, 3, count)).float()
    rollout.env[rows] = rng.choice(N, count, p=[0.6, 0.25, 0.15])
    rollout.start[rows] = rng.random(count) < 0.2
    wide["state"][rows][torch.from_numpy(rollout.start[rows])] = 0.0
    for name in ("reward", "value", "next_value"):
        getattr(rollout, name)[rows] = rng.normal(size=count)
    rollout.log_prob[rows] = -4.0 + log_prob_noise * rng.normal(size=count)
    rollout.version[rows] = 0


def make_rollout(policy: RecurrentPolicy, seed: int = 0) -> Rollout:
    rollout = Rollout(Layout(N, 3, 0, 3), T, policy.state_size, CPU)
    fill(rollout, N * T, seed)
    return rollout


# -- watching the policy ----------------------------------------------------------------------------------------------


@dataclass
class Batch:
    """One batch that went through the policy."""

    columns: list[list[int]]
    """Its sequences, as rows of the rollout."""
    out: Output
    rows: list[int] = field(default_factory=list)
    """In the order of the output."""


@contextmanager
def watch(policy: RecurrentPolicy, rollout: Rollout) -> Iterator[list[Batch]]:
    """Write down every batch; a row is known by its observation, which no other row has."""
    learnt = rollout.rows().tolist()
    row_of = {tuple(rollout.wide["floats"][row].tolist()): row for row in learnt}
    assert len(row_of) == len(learnt)
    batches: list[Batch] = []

    def note(_: nn.Module, inputs: tuple[Tensor, ...], out: Output) -> None:
        rows = [row_of[tuple(seen)] for seen in inputs[0].tolist()]
        columns: list[list[int]] = [[] for _ in range(int(inputs[4][0]))]
        places = iter(rows)
        for size in inputs[4].tolist():
            for column in columns[:size]:
                column.append(next(places))
        batches.append(Batch(columns, out, rows))

    handle = policy.register_forward_hook(note)
    yield batches
    handle.remove()


# -- the gradient -----------------------------------------------------------------------------------------------------


def naive_gae(rollout: Rollout, gamma: float, lam: float) -> list[float]:
    """Walk back from each step to the end of what is known of its episode."""
    advantages = []
    for row in range(rollout.size):
        total, factor = 0.0, 1.0
        for later in range(row, rollout.size):
            if rollout.env[later] != rollout.env[row]:
                continue
            if later > row and rollout.start[later]:
                break
            delta = float(rollout.reward[later]) + gamma * float(rollout.next_value[later])
            total += factor * (delta - float(rollout.value[later]))
            factor *= gamma * lam
        advantages.append(total)
    return advantages


def naive_loss(
    policy: RecurrentPolicy, rollout: Rollout, sequences: list[list[int]], config: TrainConfig, log_alpha: Tensor
) -> Tensor:
    """The paper's loss over some sequences, each from its stored state, a step at a time."""
    advantages = naive_gae(rollout, config.gamma, config.gae_lambda)
    total = sum(map(len, sequences))
    steps_of = Counter(rollout.env.tolist())
    shift, scale = 0.0, 1.0
    if config.normalize_advantage:
        shift = sum(advantages) / len(advantages)
        scale = math.sqrt(sum((a - shift) ** 2 for a in advantages) / (len(advantages) - 1)) + 1e-8
    policy_loss = value_loss = entropies = torch.zeros(())
    for sequence in sequences:
        state = rollout.wide["state"][sequence[0]][None]
        for row in sequence:
            inputs = [rollout.wide[name][row][None] for name in ("floats", "bytes", "previous_action")]
            out = policy(*inputs, state, torch.tensor([1]))
            state = out.state
            ratio = (out.distribution.log_prob(rollout.wide["action"][row][None])[0] - rollout.log_prob[row]).exp()
            advantage = (advantages[row] - shift) / scale
            weight = 1.0
            if config.scheduler == "ver" and config.sampling_weight_max:
                weight = min(config.sampling_weight_max, T / steps_of[int(rollout.env[row])])
            unclipped = ratio * advantage
            clipped = min(max(ratio, torch.tensor(1 - config.clip)), torch.tensor(1 + config.clip)) * advantage
            policy_loss = policy_loss - weight * min(unclipped, clipped) / total
            target = advantages[row] + float(rollout.value[row])
            value_loss = value_loss + weight * 0.5 * (out.value[0] - target) ** 2 / total
            entropies = entropies + out.distribution.entropy()[0] / total
    alpha = log_alpha.exp()
    loss = policy_loss + config.value_coef * value_loss - alpha.detach() * entropies
    if config.learn_entropy_coef:
        # The paper, section 4: alpha (lambda - H), to be maximised in alpha while H is below lambda.
        loss = loss - alpha * (config.target_entropy - entropies.detach())
    return loss


@pytest.mark.parametrize("mini_batches", [1, 3])
@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"sampling_weight_max": 0.0},
        {"sampling_weight_max": 1.5},
        {"scheduler": "nover", "normalize_advantage": True},
        {"scheduler": "ddppo", "gamma": 0.9, "gae_lambda": 0.5, "clip": 0.05, "value_coef": 2.0},
        {"entropy_coef": 0.3, "target_entropy": 1.7},
        {"learn_entropy_coef": False, "entropy_coef": 0.0},
        {"sequence_length": 3},
    ],
    ids=str,
)
def test_the_gradient_is_that_of_the_equations(changes: dict[str, Any], mini_batches: int) -> None:
    policy = make_policy()
    twin = copy.deepcopy(policy)
    rollout = make_rollout(policy)
    # A rate of 0 keeps the weights, so the last mini-batch's gradient is that of the weights at the start.
    learner = make_learner(policy, mini_batches=mini_batches, **changes)
    learner.config.learning_rate = 0.0
    log_alpha = learner.log_entropy_coef.detach().clone().requires_grad_()
    with watch(policy, rollout) as batches:
        scalars = learner.update(rollout, 0.0)
    assert max(len(column) for batch in batches for column in batch.columns) <= (learner.config.sequence_length or T)
    loss = naive_loss(twin, rollout, batches[-1].columns, learner.config, log_alpha)
    loss.backward()
    for (name, ours), theirs in zip(policy.named_parameters(), twin.parameters(), strict=True):
        assert ours.grad is not None and theirs.grad is not None
        torch.testing.assert_close(ours.grad, theirs.grad, rtol=1e-4, atol=2e-6, msg=name)
    if learner.config.learn_entropy_coef:
        assert learner.log_entropy_coef.grad is not None and log_alpha.grad is not None
        torch.testing.assert_close(learner.log_entropy_coef.grad, log_alpha.grad, rtol=1e-4, atol=1e-7)
    else:
        assert learner.log_entropy_coef.grad is None
    assert 0.0 < scalars["clip_fraction"] < 1.0  # both branches of the loss were there
    if mini_batches > 1:
        begins = {row for batch in batches for column in batch.columns for row in column[:1]}
        assert len(begins) > len(rollout.sequences().lengths)  # some sequences were split


def test_a_rollout_is_learnt_from_under_the_normalisation_it_was_collected_under() -> None:
    """Its observations change the statistics only after its own probabilities have been compared."""
    policy = make_policy(rnn_layers=0, normalize_vectors=True)
    normalizer = policy.inputs.normalizer
    assert normalizer is not None
    policy.learn_normalization(torch.randn(500, 3), torch.zeros(500, 0, dtype=torch.uint8), World())
    rollout = make_rollout(policy)
    rollout.wide["floats"] += 3.0  # unlike what has been seen so far
    columns = [rollout.wide[name] for name in ("floats", "bytes", "previous_action", "state")]
    with torch.no_grad():
        drawn = policy(*columns, torch.tensor([N * T])).distribution
        rollout.log_prob[:] = drawn.log_prob(rollout.wide["action"]).numpy()
    before = normalizer.mean.clone()
    scalars = make_learner(policy).update(rollout, 0.0)
    assert scalars["kl"] == pytest.approx(0.0, abs=1e-9) and scalars["clip_fraction"] == 0.0
    assert (normalizer.mean > before + 0.05).all()


def test_targets_are_advantage_plus_value() -> None:
    policy = make_policy()
    rollout, learner = make_rollout(policy), make_learner(policy)
    learner.estimate_returns(rollout)
    expected = naive_gae(rollout, 0.99, 0.95)
    np.testing.assert_allclose(rollout.advantage, expected, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(rollout.target, np.array(expected) + rollout.value, rtol=1e-5, atol=1e-5)


def test_the_step_is_adams() -> None:
    """Its first step is lr g / (|g| + eps), whatever the gradient's size; clipped gradients are shorter, no others."""
    policy = make_policy()
    before = [p.detach().clone() for p in policy.parameters()]
    rates = {"learning_rate": 0.01, "std_learning_rate": 0.1, "entropy_coef_learning_rate": 0.2}
    learner = make_learner(policy, max_grad_norm=1e-3, adam_eps=1e-4, **rates)
    scalars = learner.update(make_rollout(policy), 0.5)
    norm = math.sqrt(sum(float((p.grad**2).sum()) for p in policy.parameters() if p.grad is not None))
    assert norm == pytest.approx(1e-3, rel=1e-3) and scalars["grad_norm"] > 0.1
    assert scalars["learning_rate"] == pytest.approx(0.005)  # half way
    stds = 0
    for old, (name, new) in zip(before, policy.named_parameters(), strict=True):
        assert new.grad is not None
        stds += name == "action_head.log_std"
        expected = old - (0.05 if name == "action_head.log_std" else 0.005) * new.grad / (new.grad.abs() + 1e-4)
        torch.testing.assert_close(new.detach(), expected, rtol=1e-4, atol=1e-7)
    assert stds == 1
    # The gradient by the coefficient's logarithm is not clipped, and far larger than eps.
    moved = math.log(scalars["entropy_coef"] / learner.config.entropy_coef)
    assert abs(moved) == pytest.approx(0.1, rel=0.2)


def test_cosine_schedule() -> None:
    config = TrainConfig(learning_rate=3e-4, final_learning_rate=1e-4)
    found = [learning_rate(config, progress) for progress in (-1.0, 0.0, 1 / 3, 0.5, 1.0, 1.2)]
    assert found == pytest.approx([3e-4, 3e-4, 2.5e-4, 2e-4, 1e-4, 1e-4])
    assert learning_rate(TrainConfig(), 1.0) == 0.0


# -- the entropy coefficient ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("target", "bound"), [(50.0, 0.02), (-50.0, 0.005)])
def test_the_entropy_coefficient_goes_to_its_bound_and_not_beyond(target: float, bound: float) -> None:
    policy = make_policy()
    learner = make_learner(
        policy, learning_rate=1e-3, entropy_coef_learning_rate=0.1, entropy_coef=0.01, entropy_coef_min=0.005,
        entropy_coef_max=0.02, target_entropy=target,
    )  # fmt: skip
    found = [0.01]
    for update in range(12):
        found.append(learner.update(make_rollout(policy, update), 0.0)["entropy_coef"])
    steps = np.diff(found) * np.sign(target)
    assert (steps[:3] > 0.0).all() and (steps >= 0.0).all()
    assert found[-1] == pytest.approx(bound) and all(0.005 * (1 - 1e-6) <= a <= 0.02 * (1 + 1e-6) for a in found)


def test_a_coefficient_that_is_not_learned_stays() -> None:
    for coefficient in (0.0, 1e-6, 3.0):  # the bounds are the learned one's
        learner = make_learner(learn_entropy_coef=False, entropy_coef=coefficient, learning_rate=0.1)
        rollout = make_rollout(learner.policy)
        scalars = [learner.update(rollout, 0.0) for _ in range(2)]
        assert [s["entropy_coef"] for s in scalars] == pytest.approx([coefficient] * 2, rel=1e-5, abs=0.0)
        assert all(math.isfinite(value) for s in scalars for value in s.values())


@pytest.mark.parametrize("coefficient", [0.0, -0.1, 1e-5, 2.0])
def test_a_learned_coefficient_starts_within_its_bounds(coefficient: float) -> None:
    with pytest.raises(ConfigError, match=r"train\.entropy_coef="):
        TrainConfig(entropy_coef=coefficient).check()


# -- which steps ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mini_batches", [1, 2, 4])
def test_every_step_is_learnt_from_once_an_epoch(mini_batches: int) -> None:
    policy = make_policy()
    rollout, learner = make_rollout(policy), make_learner(policy, mini_batches=mini_batches, epochs=3)
    asked = 0

    def stop() -> bool:
        nonlocal asked
        asked += 1
        return False

    with watch(policy, rollout) as batches:
        learner.update(rollout, 0.0, stop)
    assert asked == len(batches) == 3 * mini_batches
    assert {len(batch.rows) for batch in batches} == {N * T // mini_batches}
    epochs = [batches[i : i + mini_batches] for i in range(0, len(batches), mini_batches)]
    for epoch in epochs:
        assert sorted(row for batch in epoch for row in batch.rows) == list(range(N * T))
        for batch in epoch:
            for column in batch.columns:
                assert len(set(rollout.env[column].tolist())) == 1 and not rollout.start[column[1:]].any()
                assert column == sorted(column)
    if mini_batches > 1:
        assert len({frozenset(epoch[0].rows) for epoch in epochs}) > 1  # dealt out anew each time


def test_nothing_leaks_from_one_sequence_to_another() -> None:
    """Change the observations of one sequence: the outputs of all others stay, bit for bit."""
    policy = make_policy()
    rollout = make_rollout(policy)
    found = rollout.sequences()
    parts = np.split(found.order, np.cumsum(found.lengths)[:-1])
    sequences = {tuple(part.tolist()) for part in parts}
    assert len(sequences) > N and max(map(len, sequences)) > 2

    def outputs() -> tuple[Tensor, Tensor]:
        learner = make_learner(policy)
        learner.config.learning_rate = 0.0
        with watch(policy, rollout) as batches:
            learner.update(rollout, 0.0)
        (batch,) = batches
        assert {tuple(column) for column in batch.columns} == sequences
        order = torch.tensor(batch.rows).argsort()
        actions = torch.zeros(N * T, 3)
        return batch.out.value.detach()[order], batch.out.distribution.log_prob(actions).detach()[order]

    before = outputs()
    for sequence in sorted(sequences):
        for place, row in enumerate(sequence):
            kept = rollout.wide["floats"][row].clone()
            rollout.wide["floats"][row] += 1.0
            after = outputs()
            rollout.wide["floats"][row] = kept
            changed = set(sequence[place:])  # itself, and what comes after it in its episode
            for old, new in zip(before, after, strict=True):
                differs = {int(i) for i in torch.nonzero(old != new)[:, 0]}
                assert differs == changed


@pytest.mark.parametrize("fresh", [1, 7, 15, 23])
def test_stale_steps_are_sequences_of_their_own(fresh: int) -> None:
    """A preempted rollout is filled up with the last one's remaining steps, whose advantages are kept."""
    policy = make_policy()
    rollout, learner = make_rollout(policy), make_learner(policy, mini_batches=2)
    learner.update(rollout, 0.0)
    kept = {name: getattr(rollout, name)[fresh:].copy() for name in ("advantage", "target", "env", "reward")}
    fill(rollout, fresh, seed=9)
    assert rollout.size == fresh and len(rollout.rows()) == N * T
    with watch(policy, rollout) as batches:
        scalars = learner.update(rollout, 0.0)
    for name, column in kept.items():
        np.testing.assert_array_equal(getattr(rollout, name)[fresh:], column)
    np.testing.assert_allclose(rollout.advantage[:fresh], naive_gae(rollout, 0.99, 0.95), rtol=1e-5, atol=1e-5)
    assert sorted(row for batch in batches for row in batch.rows) == list(range(N * T))
    for column in (column for batch in batches for column in batch.columns):
        assert max(column) < fresh or min(column) >= fresh
        assert len(set(rollout.env[column].tolist())) == 1
    assert scalars["stale_fraction"] == pytest.approx(1.0 - fresh / (N * T)) and scalars["stale_age_max"] == 1.0


def test_a_rollout_preempted_twice_learns_from_two_generations_only() -> None:
    """17 of 24 steps, then 6: the first rollout's are over, the second's keep the advantages they were given."""
    policy = make_policy()
    rollout, learner = make_rollout(policy), make_learner(policy)
    learner.update(rollout, 0.0)
    fill(rollout, 17, seed=1)
    learner.update(rollout, 0.0)
    before = {tuple(rollout.wide["floats"][row].tolist()): float(rollout.advantage[row]) for row in range(17)}
    fill(rollout, 6, seed=2)
    with watch(policy, rollout) as batches:
        scalars = learner.update(rollout, 0.0)
    assert scalars["stale_age_max"] == 1.0 and scalars["stale_fraction"] == pytest.approx(17 / 23)
    stale = [row for row in batches[0].rows if row >= 6]
    assert len(batches[0].rows) == 23 and len(stale) == 17
    for row in stale:
        assert rollout.advantage[row] == before.pop(tuple(rollout.wide["floats"][row].tolist()))
    for column in batches[0].columns:
        assert max(column) < 6 or min(column) >= 6


def test_what_does_not_divide_into_mini_batches_leaves_the_oldest_steps_out() -> None:
    policy = make_policy()
    rollout, learner = make_rollout(policy), make_learner(policy, mini_batches=4)
    learner.update(rollout, 0.0)
    for fresh, stale in ((17, 7), (6, 14), (9, 3)):  # of 24 rows: 17 + 7; 6 + 17 - 3; 9 + 6 - 3
        fill(rollout, fresh, seed=fresh)
        with watch(policy, rollout) as batches:
            learner.update(rollout, 0.0)
        rows = [row for batch in batches for row in batch.rows]
        assert sum(row < fresh for row in rows) == fresh and len(rows) == fresh + stale
        assert {len(batch.rows) for batch in batches} == {(fresh + stale) // 4}
        assert sorted(rows)[fresh:] == list(range(N * T - stale, N * T))


def test_policy_lag_is_counted_in_updates() -> None:
    policy = make_policy()
    rollout, learner = make_rollout(policy), make_learner(policy, scheduler="async")
    for _ in range(3):
        learner.update(rollout, 0.0)
    assert learner.version == 3
    fill(rollout, N * T, seed=4)
    rollout.version[:] = 3
    rollout.version[:6] = 1
    scalars = learner.update(rollout, 0.0)
    assert scalars["policy_lag_max"] == 2.0 and scalars["policy_lag_mean"] == pytest.approx(12 / (N * T))
    fill(rollout, 5, seed=5)  # the stale ones are learnt from, too: one is of version 1, the others of 3
    rollout.version[:5] = 4
    scalars = learner.update(rollout, 0.0)
    assert scalars["policy_lag_max"] == 3.0 and scalars["policy_lag_mean"] == pytest.approx((18 + 3) / (N * T))


@pytest.mark.parametrize("seed", [0, 1])
def test_explained_variance_is_that_of_the_targets(seed: int) -> None:
    rollout, learner = make_rollout(make_policy(), seed), make_learner()
    targets = np.array(naive_gae(rollout, 0.99, 0.95)) + rollout.value
    expected = 1.0 - np.var(targets - rollout.value) / np.var(targets)
    assert learner.update(rollout, 0.0)["explained_variance"] == pytest.approx(expected, rel=1e-4)
    rollout.reward[:], rollout.value[:], rollout.next_value[:] = 0.0, 1.0, 0.0  # nothing to explain: all targets alike
    rollout.start[:] = True
    assert learner.update(rollout, 0.0)["explained_variance"] == 0.0


def test_async_takes_v_trace_with_the_current_policys_values() -> None:
    """A step at a time, from the definition: Espeholt et al. 2018, remark 1, with lambda in c."""
    policy = make_policy()
    rollout, learner = make_rollout(policy), make_learner(policy, scheduler="async", gamma=0.9, gae_lambda=0.8)
    with torch.no_grad():
        learner.estimate_returns(rollout)
        for env in range(N):
            rows = np.flatnonzero(rollout.env == env).tolist()
            ends = [i + 1 == len(rows) or bool(rollout.start[rows[i + 1]]) for i in range(len(rows))]
            known = []
            state = rollout.wide["state"][rows[0]][None]
            for i, row in enumerate(rows):
                if i == 0 or ends[i - 1]:
                    state = rollout.wide["state"][row][None]
                inputs = [rollout.wide[name][row][None] for name in ("floats", "bytes", "previous_action")]
                out = policy(*inputs, state, torch.tensor([1]))
                state = out.state
                log_prob = out.distribution.log_prob(rollout.wide["action"][row][None]).item()
                known.append((out.value.item(), math.exp(log_prob - float(rollout.log_prob[row]))))
            target_after = 0.0
            for i in reversed(range(len(rows))):
                row, (value, ratio) = rows[i], known[i]
                last = ends[i]
                value_after = float(rollout.next_value[row]) if last else known[i + 1][0]
                if last:
                    target_after = value_after
                reward = float(rollout.reward[row])
                delta = min(1.0, ratio) * (reward + 0.9 * value_after - value)
                advantage = reward + 0.9 * target_after - value
                target_after = value + delta + 0.9 * 0.8 * min(1.0, ratio) * (target_after - value_after)
                assert rollout.target[row] == pytest.approx(target_after, rel=1e-4, abs=1e-4)
                assert rollout.advantage[row] == pytest.approx(advantage, rel=1e-4, abs=1e-4)


# -- what goes wrong, and going back ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("column", "bad"),
    [
        ("reward", math.nan),
        ("reward", math.inf),
        ("reward", -math.inf),
        ("log_prob", math.nan),
        ("log_prob", -math.inf),
    ],
)
def test_what_is_not_finite_stops_before_it_is_learnt(column: str, bad: float) -> None:
    policy = make_policy()
    learner, rollout = make_learner(policy), make_rollout(policy)
    before = learner.snapshot()
    getattr(rollout, column)[5] = bad
    with pytest.raises(LearningFailure, match="not finite at update 0") as caught:
        learner.update(rollout, 0.0)
    assert "\n" not in str(caught.value)
    for name, tensor in policy.state_dict().items():
        assert torch.equal(tensor, before["policy"][name])
    assert torch.equal(learner.log_entropy_coef, before["log_entropy_coef"])


def assert_same_weights(one: Learner, other: Learner) -> None:
    for (name, a), b in zip(one.policy.state_dict().items(), other.policy.state_dict().values(), strict=True):
        assert torch.equal(a, b), name
    assert torch.equal(one.log_entropy_coef, other.log_entropy_coef)
    assert one.version == other.version


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_restored_learner_goes_on_exactly(elsewhere: bool) -> None:
    """Weights, Adam's moments, the coefficient, the order of the mini-batches: by learning on from a snapshot twice."""
    learner = make_learner(mini_batches=4, epochs=2, learning_rate=0.01)
    rollout = make_rollout(learner.policy)
    for seed in range(3):
        fill(rollout, N * T, seed)
        learner.update(rollout, 0.1)
    saved = learner.snapshot()

    def learn_on(who: Learner) -> list[dict[str, float]]:
        found = []
        for seed in (7, 8):
            fill(rollout, N * T, seed)
            found.append(who.update(rollout, 0.2))
        return found

    expected = learn_on(learner)
    after = copy.deepcopy(learner.policy.state_dict())
    other = make_learner(mini_batches=4, epochs=2, learning_rate=0.01, seed=3) if elsewhere else learner
    other.restore(saved)
    assert other.version == 3
    assert all(torch.equal(t, saved["policy"][name]) for name, t in other.policy.state_dict().items())
    assert learn_on(other) == expected
    assert all(torch.equal(t, after[name]) for name, t in other.policy.state_dict().items())
    assert_same_weights(other, learner)


def test_interrupted_learning_leaves_no_trace_after_restoring() -> None:
    learner, straight = (make_learner(mini_batches=4, learning_rate=0.01) for _ in range(2))
    rollout = make_rollout(learner.policy)
    saved = learner.snapshot()
    answers = iter([False, False, True])
    with pytest.raises(Interrupted):
        learner.update(rollout, 0.0, lambda: next(answers))
    moved = [not torch.equal(t, saved["policy"][name]) for name, t in learner.policy.state_dict().items()]
    assert any(moved) and learner.version == 0
    learner.restore(saved)
    learner.update(rollout, 0.0)
    straight.update(rollout, 0.0)
    assert_same_weights(learner, straight)


def test_the_policy_gets_better_at_a_bandit() -> None:
    """All together: the reward is for gear 2, and its probability rises."""
    policy = make_policy(rnn_layers=0, mlp=[8])
    # Memoryless, so each step is a sequence's beginning as good as any.
    learner = make_learner(policy, learning_rate=0.02, epochs=3, mini_batches=2, gamma=0.5)
    rollout = make_rollout(policy)
    rng = np.random.default_rng(0)

    def probability() -> float:
        with torch.no_grad():
            wide = rollout.wide
            out = policy(wide["floats"], wide["bytes"], wide["previous_action"], wide["state"], torch.tensor([N * T]))
            return float(
                (out.distribution.sample(torch.from_numpy(rng.random((N * T, 3))))[:, 2] == 2.0).float().mean()
            )

    first = np.mean([probability() for _ in range(20)])
    for update in range(25):
        fill(rollout, N * T, seed=update)
        rollout.start[:] = True
        with torch.no_grad():
            wide = rollout.wide
            out = policy(wide["floats"], wide["bytes"], wide["previous_action"], wide["state"], torch.tensor([N * T]))
            wide["action"][:] = out.distribution.sample(torch.from_numpy(rng.random((N * T, 3))))
            rollout.log_prob[:] = out.distribution.log_prob(wide["action"]).numpy()
            rollout.value[:] = out.value.numpy()
        rollout.next_value[:] = 0.0
        rollout.reward[:] = wide["action"][:, 2].numpy() == 2.0
        learner.update(rollout, 0.0)
    assert np.mean([probability() for _ in range(20)]) > max(0.8, first + 0.2)
