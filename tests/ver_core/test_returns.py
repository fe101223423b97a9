"""Advantages and targets, against the papers' sums written out for each step of each environment."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ver_core.returns import gae, sampling_weights, vtrace
from ver_core.sequences import Sequences, find_sequences

Column = NDArray[np.float32]
FRACTION = st.floats(0.0, 1.0)


@dataclass
class Rollout:
    env: NDArray[np.int64]
    start: NDArray[np.bool_]
    reward: Column
    value: Column
    next_value: Column
    log_ratio: Column
    following: list[int | None]
    """Each row's next row in its episode; None where the episode or the rollout ends."""

    @property
    def sequences(self) -> Sequences:
        return find_sequences(self.env, self.start)

    def future(self, row: int) -> list[int]:
        """Return the rows from `row` to the end of its episode or of the rollout."""
        rows: list[int] = []
        at: int | None = row
        while at is not None:
            rows.append(at)
            at = self.following[at]
        return rows


@st.composite
def rollouts(draw: st.DrawFn) -> Rollout:
    """Draw an interleaving of environments whose episodes terminate, are truncated, or are cut by the rollout."""
    ends = st.sampled_from(["", "", "", "terminated", "truncated"])
    steps = draw(st.lists(st.tuples(st.integers(0, 4), ends), min_size=1, max_size=40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    n = len(steps)
    reward, value, next_value, log_ratio = rng.normal(size=(4, n)).astype(np.float32)
    env, start, following = np.zeros(n, dtype=np.int64), np.zeros(n, dtype=bool), [None] * n
    last: dict[int, int] = {}
    for row, (which, _) in enumerate(steps):
        env[row] = which
        before = last.get(which)
        if before is None:
            start[row] = rng.random() < 0.5  # else the episode began in an earlier rollout
        elif steps[before][1]:
            start[row] = True
        else:
            following[before] = row  # type: ignore[call-overload]
            next_value[before] = value[row]
        last[which] = row
        if steps[row][1] == "terminated":
            next_value[row] = 0.0
    return Rollout(env, start, reward, value, next_value, log_ratio, following)


def naive_gae(rollout: Rollout, gamma: float, lam: float) -> list[float]:
    """Write equation 16 out: A_t = sum over k of (gamma lam)^k delta_{t+k}."""

    def delta(row: int) -> float:
        return float(rollout.reward[row]) + gamma * float(rollout.next_value[row]) - float(rollout.value[row])

    return [
        sum((gamma * lam) ** k * delta(later) for k, later in enumerate(rollout.future(row)))
        for row in range(len(rollout.env))
    ]


def naive_vtrace(
    rollout: Rollout, gamma: float, lam: float, rho_max: float, c_max: float
) -> tuple[list[float], list[float]]:
    """Write equation 1 out: v_s = V(x_s) + sum_t gamma^(t-s) (prod_{i<t} c_i) rho_t delta_t."""
    value, reward = rollout.value.astype(float), rollout.reward.astype(float)
    ratio = np.exp(rollout.log_ratio.astype(float))

    def after(row: int, column: NDArray[np.float64]) -> float:
        following = rollout.following[row]
        return float(rollout.next_value[row] if following is None else column[following])

    targets = np.zeros(len(value))
    for s in range(len(value)):
        future = rollout.future(s)
        targets[s] = value[s]
        for t, row in enumerate(future):
            trace = np.prod([lam * min(c_max, ratio[i]) for i in future[:t]])
            rho = min(rho_max, ratio[row])
            targets[s] += gamma**t * trace * rho * (reward[row] + gamma * after(row, value) - value[row])
    advantages = [reward[row] + gamma * after(row, targets) - value[row] for row in range(len(value))]
    return targets.tolist(), advantages


@settings(deadline=None)
@given(rollouts(), FRACTION, FRACTION)
def test_gae_is_the_sum_of_equation_16(rollout: Rollout, gamma: float, lam: float) -> None:
    advantage = gae(rollout.reward, rollout.value, rollout.next_value, rollout.sequences, gamma, lam)
    assert advantage.dtype == np.float32
    np.testing.assert_allclose(advantage, naive_gae(rollout, gamma, lam), rtol=1e-5, atol=1e-5)


def test_gae_by_hand() -> None:
    """One environment: an episode that terminates, then one that the rollout cuts; gamma = lam = 1/2."""
    reward = np.array([1, 2, 4], dtype=np.float32)
    value = np.array([8, 16, 32], dtype=np.float32)
    next_value = np.array([16, 0, 64], dtype=np.float32)
    sequences = find_sequences(np.zeros(3, dtype=np.int64), np.array([True, False, True]))
    # deltas: 1 + 8 - 8 = 1, 2 + 0 - 16 = -14, 4 + 32 - 32 = 4
    assert gae(reward, value, next_value, sequences, 0.5, 0.5).tolist() == [1 - 14 / 4, -14, 4]


@settings(deadline=None)
@given(rollouts(), FRACTION, FRACTION, st.floats(0.1, 3.0), st.floats(0.1, 3.0))
def test_vtrace_is_the_sum_of_equation_1(
    rollout: Rollout, gamma: float, lam: float, rho_max: float, c_max: float
) -> None:
    inner = np.array([row is not None for row in rollout.following])
    outdated = np.where(inner, np.float32(1e3), rollout.next_value)  # must not be read within a sequence
    found = vtrace(
        rollout.reward, rollout.value, outdated, rollout.log_ratio, rollout.sequences, gamma, lam, rho_max, c_max
    )
    for column, expected in zip(found, naive_vtrace(rollout, gamma, lam, rho_max, c_max), strict=True):
        assert column.dtype == np.float32
        np.testing.assert_allclose(column, expected, rtol=1e-4, atol=1e-4)


@settings(deadline=None)
@given(rollouts(), FRACTION, FRACTION)
def test_vtrace_on_policy_gives_the_lambda_returns(rollout: Rollout, gamma: float, lam: float) -> None:
    columns = rollout.reward, rollout.value, rollout.next_value
    targets, _ = vtrace(*columns, np.zeros_like(rollout.value), rollout.sequences, gamma, lam)
    advantage = gae(*columns, rollout.sequences, gamma, lam)
    np.testing.assert_allclose(targets - rollout.value, advantage, rtol=1e-4, atol=1e-4)


@settings(deadline=None)
@given(rollouts())
def test_vtrace_survives_any_ratio(rollout: Rollout) -> None:
    """Steps that the current policy would never take teach nothing; far likelier ones count as on-policy."""
    columns = rollout.reward, rollout.value, rollout.next_value
    with np.errstate(over="raise", invalid="raise"):
        never, _ = vtrace(*columns, np.full_like(rollout.value, -np.inf), rollout.sequences, 0.9)
        likelier, _ = vtrace(*columns, np.full_like(rollout.value, 1e4), rollout.sequences, 0.9)
    on_policy, _ = vtrace(*columns, np.zeros_like(rollout.value), rollout.sequences, 0.9)
    assert np.array_equal(never, rollout.value)
    assert np.array_equal(likelier, on_policy)


@pytest.mark.parametrize("dtype", [np.int32, np.int64])
def test_sampling_weights_shrink_fast_environments(dtype: type) -> None:
    env = np.array([2, 0, 2, 2, 2, 0], dtype=dtype)  # T = 2; environment 1 was too slow for a single step
    weights = sampling_weights(env, 3, 2, 1.0)
    assert weights.dtype == np.float32
    assert weights.tolist() == [0.5, 1.0, 0.5, 0.5, 0.5, 1.0]


@settings(deadline=None)
@given(rollouts(), st.integers(1, 20))
def test_untruncated_sampling_weights_give_each_environment_its_t(rollout: Rollout, rollout_length: int) -> None:
    weights = sampling_weights(rollout.env, 5, rollout_length, np.inf)
    for env in set(rollout.env.tolist()):
        assert weights[rollout.env == env].sum() == pytest.approx(rollout_length, rel=1e-5)
    truncated = sampling_weights(rollout.env, 5, rollout_length, 1.5)
    assert np.array_equal(truncated, np.minimum(weights, np.float32(1.5)))
