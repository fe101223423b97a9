"""When several learning processes collect at once: when to end the rollouts of the slow ones (the stragglers).

`best_duration_s` is VER's rule, `FinishedCount` DD-PPO's, and `Preemption` applies the one or the other. A "worker" is
a learning process with its N environments.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from time import monotonic
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ver_core.config import TrainConfig

if TYPE_CHECKING:
    from torch.distributed import Store

    from ver_core.distributed import World
    from ver_core.rollout import Rollout

LEARN_WINDOW = 5
"""Updates over which the learning time is averaged."""


def best_duration_s(
    step_time_s: NDArray[np.floating],
    rollout_length: int,
    learn_s: float,
    fixed_length: bool,
    min_fraction: float = 0.25,
) -> float:
    """Return after how many seconds of collecting all workers had better learn: VER, equation 1.

    Maximises S(t) / (t + learn_s), S(t) being all steps collected in t seconds: min(T N, sum_i t / step_time_i) of a
    worker, or sum_i min(T, t / step_time_i) with `fixed_length` (an environment that has made its T steps waits).
    step_time_s (W, N): mean seconds of each environment's steps; any that is not finite and positive (no step measured)
    counts as the mean of its worker's others, or of all workers' if it has none.

    Every worker gets at least `min_fraction` of its T N steps (a quarter in DD-PPO). If preemption does not pay, the
    result is the time that the slowest needs for its whole rollout; inf if no step was measured at all.
    """
    measured = _measured(step_time_s)
    if measured is None:
        return math.inf
    # Collectors (W, C) that work at their own rate until their quota is filled: the environments, or the whole worker.
    rate, quota = 1.0 / measured, float(rollout_length)
    if not fixed_length:
        rate, quota = rate.sum(axis=1, keepdims=True), quota * measured.shape[1]
    filled_s = quota / rate
    least_s = max(
        _time_of(min_fraction * quota * rate.shape[1], ends, rates, quota)
        for ends, rates in zip(filled_s, rate, strict=True)
    )
    # S is linear between the times at which a collector fills its quota, and so the quotient is monotonic there: its
    # maximum lies at one of them, or at the least time that is allowed.
    candidates = np.unique(np.maximum(filled_s, least_s))
    steps_per_s = _steps(candidates, rate.reshape(-1), quota) / (candidates + learn_s)
    # Of equals (but for rounding) the longest: it leaves the fewest steps to be filled with stale ones.
    return float(candidates[np.flatnonzero(steps_per_s >= steps_per_s.max() * (1.0 - 1e-9))[-1]])


def _measured(step_time_s: NDArray[np.floating]) -> NDArray[np.float64] | None:
    """Fill in what was not measured; None if nothing was."""
    times = step_time_s.astype(np.float64)
    known = np.isfinite(times) & (times > 0.0)
    if not known.any():
        return None
    total, count = np.where(known, times, 0.0).sum(axis=1), known.sum(axis=1)
    mean = np.where(count > 0, total / np.maximum(count, 1), total.sum() / count.sum())
    return np.where(known, times, mean[:, None])


def _steps(duration_s: NDArray[np.float64], rate: NDArray[np.float64], quota: float) -> NDArray[np.float64]:
    """Return the steps (D,) that collectors with these rates (C,), in steps per second, make in the durations (D,)."""
    return np.minimum(quota, duration_s[:, None] * rate).sum(axis=1)


def _time_of(steps: float, filled_s: NDArray[np.float64], rate: NDArray[np.float64], quota: float) -> float:
    """Return the seconds in which the collectors (C,) make `steps` together; they are filled up at filled_s (C,)."""
    ends = np.sort(filled_s)
    return float(np.interp(steps, np.append(0.0, _steps(ends, rate, quota)), np.append(0.0, ends)))


class FinishedCount:
    """How many workers have finished the current rollout: once enough have, the others end theirs.

    Reference: Wijmans et al. 2020 (DD-PPO), section 3. The count lies in a key-value store that all workers share.
    """

    def __init__(self, store: Store, world_size: int, sync_fraction: float, interval_s: float = 0.02) -> None:
        self._store = store
        # The margin keeps 0.07 x 100 = 7.000000000000001 workers from becoming 8.
        self._needed = max(1, math.ceil(sync_fraction * world_size - 1e-9))
        self._interval_s = interval_s
        """The store is asked no more often than this."""
        self._number = -1
        self._count = 0
        """As far as known here; it only ever grows."""
        self._asked_s = -math.inf
        self._finished = False
        self._first: list[int] = []
        """Rollouts that this worker finished before all others: it deletes their keys."""

    def begin(self, rollout_number: int) -> None:
        """Start counting anew. All workers give their rollouts the same numbers, and a store never sees one twice."""
        self._number = rollout_number
        self._count, self._asked_s, self._finished = 0, -math.inf, False
        # Not the last rollout's: where collecting overlaps with learning, others may be collecting it still. All that
        # learnt from it together had done with the one before.
        for number in [n for n in self._first if n <= rollout_number - 2]:
            self._store.delete_key(_key(number))
            self._first.remove(number)

    def finish(self) -> None:
        """Count this worker in; a second call in the same rollout does nothing."""
        if self._finished:
            return
        self._finished = True
        self._count = self._store.add(_key(self._number), 1)
        if self._count == 1:
            self._first.append(self._number)

    def enough(self) -> bool:
        """Return whether at least the share `sync_fraction` of the workers has finished. Cheap: call it in any loop."""
        if self._count < self._needed and monotonic() - self._asked_s >= self._interval_s:
            # Adding nothing reads a key that may not be there yet; get would wait for it.
            self._count = self._store.add(_key(self._number), 0)
            self._asked_s = monotonic()
        return self._count >= self._needed


def _key(rollout_number: int) -> str:
    return f"ver_core/finished/{rollout_number}"


class Preemption:
    """Says when this worker's rollout is to end early for the others' sake: VER's way, or DD-PPO's for `ddppo`."""

    def __init__(self, world: World, config: TrainConfig) -> None:
        self._world, self._config = world, config
        self._count: FinishedCount | None = None
        if config.scheduler == "ddppo":
            assert world.store is not None
            self._count = FinishedCount(world.store, world.size, config.sync_fraction)
        self._number = 0
        self._learn_s: deque[float] = deque(maxlen=LEARN_WINDOW)

    def begin(self, rollout: Rollout, step_times_s: NDArray[np.float64]) -> Callable[[], bool] | None:
        """Start on a rollout, all workers together; return what to ask while it is collected, None: never end it.

        step_times_s (N,): mean seconds of each environment's steps in the last rollout.
        """
        self._number += 1
        if self._count is not None:
            self._count.begin(self._number)
        if self._number == 1:  # it fills the buffer, and measures the times
            return None
        least = rollout.capacity // 4
        if self._count is not None:
            count = self._count
            return lambda: rollout.size >= least and count.enough()
        times = np.stack(self._world.gather(step_times_s))
        length, learn_s, fixed = self._config.rollout_length, float(np.mean(self._learn_s)), self._fixed_length
        limit_s = best_duration_s(times, length, learn_s, fixed)
        if limit_s >= best_duration_s(times, length, learn_s, fixed, min_fraction=1.0) * (1.0 - 1e-6):
            return None  # it does not pay; a deadline would only cut rollouts that take a little longer than the last
        deadline = monotonic() + limit_s
        return lambda: rollout.size >= least and monotonic() >= deadline

    def collected(self) -> None:
        """Tell the others that this worker has finished its rollout."""
        if self._count is not None:
            self._count.finish()

    def learned(self, seconds: float) -> None:
        """Take note of how long learning took."""
        self._learn_s.append(seconds)

    @property
    def _fixed_length(self) -> bool:
        return self._config.scheduler == "nover"
