"""When stragglers are preempted, against a search over a fine grid; the shared count, on real stores."""

from __future__ import annotations

import math
from threading import Thread
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch.distributed import HashStore, Store, TCPStore

from ver_core import preemption
from ver_core.preemption import FinishedCount, best_duration_s

Times = NDArray[np.float64]
LENGTH = st.integers(1, 128)
LEARN_S = st.floats(0.0, 20.0)


@st.composite
def step_times(draw: st.DrawFn) -> Times:
    """Draw mean step times (W, N) in seconds, from 1 ms to 1 s."""
    workers, envs = draw(st.integers(1, 4)), draw(st.integers(1, 4))
    size = workers * envs
    exponents = draw(st.lists(st.floats(-3.0, 0.0), min_size=size, max_size=size))
    return np.reshape(10.0 ** np.array(exponents), (workers, envs))


def steps_of(worker: Times, length: int, fixed: bool, duration_s: float) -> float:
    """Count what one worker (N,) collects in a duration."""
    if fixed:
        return sum(min(length, duration_s / step_s) for step_s in worker.tolist())
    return min(length * len(worker), sum(duration_s / step_s for step_s in worker.tolist()))


def full_s(worker: Times, length: int, fixed: bool) -> float:
    """Return how long one worker (N,) takes for its whole rollout."""
    return length * worker.max() if fixed else length * len(worker) / sum(1.0 / worker)


@settings(deadline=None)
@given(step_times(), LENGTH, LEARN_S, st.booleans(), st.sampled_from([0.0, 0.25, 0.7, 1.0]))
def test_no_duration_on_a_grid_is_better(times: Times, length: int, learn_s: float, fixed: bool, share: float) -> None:
    def speed(duration_s: float) -> float:
        return sum(steps_of(worker, length, fixed, duration_s) for worker in times) / (duration_s + learn_s)

    def allowed(duration_s: float, slack: float) -> bool:
        least = share * length * times.shape[1] * (1.0 - slack)
        return all(steps_of(worker, length, fixed, duration_s) >= least for worker in times)

    longest = max(full_s(worker, length, fixed) for worker in times)
    found = best_duration_s(times, length, learn_s, fixed, share)
    assert 0.0 < found <= longest * (1.0 + 1e-9)
    assert allowed(found, 1e-9)
    grid = np.linspace(0.0, longest * 1.1, 202)[1:].tolist()
    best = max((speed(duration_s) for duration_s in grid if allowed(duration_s, 0.0)), default=0.0)
    assert speed(found) >= best * (1.0 - 1e-6)


@settings(deadline=None)
@given(st.floats(1e-3, 1.0), st.integers(1, 8), st.integers(1, 8), LENGTH, LEARN_S, st.booleans())
def test_equal_workers_are_not_preempted(
    step_s: float, workers: int, envs: int, length: int, learn_s: float, fixed: bool
) -> None:
    found = best_duration_s(np.full((workers, envs), step_s), length, learn_s, fixed)
    assert found == pytest.approx(length * step_s)


@settings(deadline=None)
@given(step_times(), LENGTH, LEARN_S)
def test_a_single_worker_of_variable_rollouts_finishes(times: Times, length: int, learn_s: float) -> None:
    assert best_duration_s(times[:1], length, learn_s, False) == pytest.approx(full_s(times[0], length, False))


@pytest.mark.parametrize("fixed", [False, True])
def test_a_straggler_is_preempted(fixed: bool) -> None:
    """Seven workers need 1.28 s; the eighth, ten times slower, would keep them waiting for 12.8 s."""
    times = np.full((8, 16), 0.01)
    times[3] *= 10.0
    assert best_duration_s(times, 128, 1.0, fixed, min_fraction=0.05) == pytest.approx(1.28)
    assert best_duration_s(times, 128, 1.0, fixed) == pytest.approx(12.8 / 4)  # its quarter of a rollout is awaited


def test_only_fixed_rollouts_wait_for_a_slow_environment() -> None:
    """Ten of eleven workers step all environments alike; the last one has one that is forty times slower."""
    times = np.full((11, 4), 0.01)
    times[0, 0] = 0.4
    variable = best_duration_s(times, 100, 20.0, False)
    assert variable == pytest.approx(100 * 4 / (3 / 0.01 + 1 / 0.4))  # the other three make up for it
    fixed = best_duration_s(times, 100, 20.0, True)
    assert fixed == pytest.approx(1.0)  # its rollout is ended when all the others are full


def test_of_equals_the_longest() -> None:
    """100 steps a second for 1 s, and 10 for 10 s: with 10 s of learning, waiting for all changes nothing."""
    assert best_duration_s(np.array([[0.01], [0.1]]), 100, 10.0, False, 0.0) == pytest.approx(10.0)


@settings(deadline=None)
@given(step_times(), LENGTH, LEARN_S, st.floats(1.0, 10.0), st.booleans())
def test_longer_learning_makes_longer_rollouts(
    times: Times, length: int, learn_s: float, factor: float, fixed: bool
) -> None:
    shorter = best_duration_s(times, length, learn_s, fixed)
    longer = best_duration_s(times, length, learn_s * factor, fixed)
    assert longer >= shorter
    forever = best_duration_s(times, length, 1e9, fixed, 0.0)
    assert forever == pytest.approx(max(full_s(worker, length, fixed) for worker in times))


@pytest.mark.parametrize("unknown", [math.nan, math.inf, 0.0, -1.0])
def test_unmeasured_environments_count_as_the_mean_of_the_others(unknown: float) -> None:
    holes = np.array([[0.01, unknown, 0.03], [unknown, unknown, unknown], [0.05, 0.05, 0.06]])
    filled = np.array([[0.01, 0.02, 0.03], [0.04, 0.04, 0.04], [0.05, 0.05, 0.06]])
    for fixed in (False, True):
        for learn_s in (0.0, 1.0, 100.0):
            found, expected = (best_duration_s(times, 64, learn_s, fixed) for times in (holes, filled))
            assert found == pytest.approx(expected)
    assert best_duration_s(np.full((2, 3), unknown), 64, 1.0, False) == math.inf


class CountingStore:
    """A store that remembers how often it was asked."""

    def __init__(self) -> None:
        self.store = HashStore()
        self.calls = 0

    def add(self, key: str, amount: int) -> int:
        self.calls += 1
        return self.store.add(key, amount)

    def delete_key(self, key: str) -> bool:
        self.calls += 1
        return self.store.delete_key(key)


def counts(store: Any, world_size: int, fraction: float, interval_s: float = 0.0) -> list[FinishedCount]:
    workers = [FinishedCount(store, world_size, fraction, interval_s) for _ in range(world_size)]
    for worker in workers:
        worker.begin(0)
    return workers


@pytest.mark.parametrize(
    ("world_size", "fraction", "needed"),
    [(1, 0.6, 1), (4, 0.6, 3), (5, 0.6, 3), (8, 0.6, 5), (8, 1.0, 8), (8, 0.01, 1), (100, 0.07, 7), (3, 0.34, 2)],
)
def test_the_share_is_rounded_up(world_size: int, fraction: float, needed: int) -> None:
    workers = counts(HashStore(), world_size, fraction)
    for finished, worker in enumerate(workers):
        assert [other.enough() for other in workers] == [finished >= needed] * world_size
        worker.finish()
        worker.finish()  # counts once
    assert all(worker.enough() for worker in workers)


def test_every_rollout_counts_anew_and_old_keys_go() -> None:
    store = HashStore()
    workers = counts(store, 3, 0.6)
    for number in range(10):
        for worker in workers:
            worker.begin(number)
        assert not any(worker.enough() for worker in workers)
        for offset in range(2):
            workers[(number + offset) % 3].finish()
        assert all(worker.enough() for worker in workers)
        assert store.num_keys() <= 2


def test_collecting_ahead_does_not_disturb_the_others() -> None:
    """With overlap the first to finish may begin the next rollout while the others are still collecting this one."""
    fast, middle, slow = counts(HashStore(), 3, 0.6)
    fast.finish()
    fast.begin(1)
    assert not slow.enough()
    middle.finish()
    middle.begin(1)
    assert slow.enough()
    assert not fast.enough() and not middle.enough()


def test_the_store_is_asked_once_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    now_s = 100.0
    monkeypatch.setattr(preemption, "monotonic", lambda: now_s)
    store = CountingStore()
    watching, other = counts(store, 2, 0.5, interval_s=0.02)
    assert not watching.enough()
    other.finish()
    asked = store.calls
    assert not any(watching.enough() for _ in range(100))
    assert store.calls == asked
    now_s += 0.021
    assert all(watching.enough() for _ in range(100))
    assert store.calls == asked + 1
    now_s += 1.0
    assert watching.enough()  # known for good: nothing is asked any more
    assert store.calls == asked + 1


def test_workers_with_connections_of_their_own_agree() -> None:
    """Four threads, each a client of one TCP store, run rollouts that end when three have finished."""
    server = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    rollouts = 20
    finished: list[list[int]] = [[] for _ in range(rollouts)]

    def work(rank: int, witness: Store) -> None:
        store = TCPStore("127.0.0.1", server.port, is_master=False, wait_for_workers=False)
        count = FinishedCount(store, 4, 0.6, interval_s=0.001)
        for number in range(rollouts):
            count.begin(number)
            if rank != number % 4:  # everyone is the straggler in turn
                witness.add(f"finished/{number}", 1)
                count.finish()
            while not count.enough():
                pass
            finished[number].append(witness.add(f"finished/{number}", 0))
            witness.add(f"learnt/{number}", 1)  # stands for the gradients' all-reduce
            while witness.add(f"learnt/{number}", 0) < 4:
                pass

    witness = HashStore()
    threads = [Thread(target=work, args=(rank, witness), daemon=True) for rank in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(timeout=60.0)
    assert not any(thread.is_alive() for thread in threads)
    assert finished == [[3] * 4] * rollouts
    assert not server.check(["ver_core/finished/0"])
    assert server.check([f"ver_core/finished/{rollouts - 1}"])
