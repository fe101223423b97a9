"""Who may step when, and when a rollout is complete: the one thing in which the training systems differ.

A scheduler sees environments that wait for an action. Serving one completes its pending step (the one that led to the
observation it waits with, if any) and, normally, sends it off on the next one, which is then in flight.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class Scheduler(Protocol):
    """One rollout after another: `begin`, then `choose` until `complete`."""

    def begin(self) -> None:
        """Start a rollout."""

    def choose(self, waiting: list[int], pending: NDArray[np.bool_]) -> tuple[list[int], bool]:
        """Return which of the waiting environments to serve now, and whether to send them off again.

        `pending` (N,) says who completes a step by it. They count as served. Nobody: wait for more requests.
        """
        ...

    @property
    def complete(self) -> bool:
        """Whether all steps of the rollout have been handed out."""
        ...

    def preempt(self) -> None:
        """End the rollout with what is there."""
        ...


class Ver:
    """Variable experience: T x N steps, whoever they come from (paper, section 2.2). Steps in flight when the rollout
    is full belong to the next one. Also the collection of `async`."""

    def __init__(self, num_envs: int, rollout_length: int, min_batch: int = 1, max_batch: int = 0) -> None:
        self._num_envs, self._length = num_envs, rollout_length
        self._min, self._max = min(min_batch, num_envs), max_batch or num_envs
        self.begin()

    def begin(self) -> None:
        self._room = self._num_envs * self._length

    def choose(self, waiting: list[int], pending: NDArray[np.bool_]) -> tuple[list[int], bool]:
        chosen, room = [], self._room
        for env in waiting:
            if pending[env]:
                if room == 0:
                    continue
                room -= 1
            chosen.append(env)
            if len(chosen) == self._max:
                break
        if len(chosen) < min(self._min, self._room):
            return [], True
        self._room = room
        return chosen, True

    @property
    def complete(self) -> bool:
        return self._room == 0

    def preempt(self) -> None:
        self._room = 0


class NoVer:
    """T steps from each environment, stepping as fast as it can (the paper's ablation NoVER). An environment that has
    made its T steps is in flight with the next rollout's first one, and then waits."""

    def __init__(self, num_envs: int, rollout_length: int, min_batch: int = 1, max_batch: int = 0) -> None:
        self._length = rollout_length
        self._min, self._max = min(min_batch, num_envs), max_batch or num_envs
        self._left = np.zeros(num_envs, np.int64)
        self.begin()

    def begin(self) -> None:
        self._left[:] = self._length

    def choose(self, waiting: list[int], pending: NDArray[np.bool_]) -> tuple[list[int], bool]:
        chosen = [env for env in waiting if self._left[env] or not pending[env]][: self._max]
        if len(chosen) < min(self._min, int(np.count_nonzero(self._left))):
            return [], True
        self._left[chosen] -= pending[chosen]
        return chosen, True

    @property
    def complete(self) -> bool:
        return not self._left.any()

    def preempt(self) -> None:
        self._left[:] = 0


class DdPpo:
    """All environments in lockstep, T times (DD-PPO's collection). After the last step nobody is sent off: the next
    action waits for the new weights, so that the data is strictly on-policy."""

    def __init__(self, num_envs: int, rollout_length: int, min_batch: int = 1, max_batch: int = 0) -> None:
        self._length = rollout_length
        self._left = np.zeros(num_envs, np.int64)
        self.begin()

    def begin(self) -> None:
        self._left[:] = self._length

    def choose(self, waiting: list[int], pending: NDArray[np.bool_]) -> tuple[list[int], bool]:
        stepping = np.flatnonzero(self._left)
        if len(stepping) == 0 or not set(stepping.tolist()) <= set(waiting):
            return [], True
        done = pending[stepping] & (self._left[stepping] == 1)
        if done.any():  # all of them, unless a worker was replaced in between
            last = stepping[done]
            self._left[last] = 0
            return last.tolist(), False
        self._left[stepping] -= pending[stepping]
        return stepping.tolist(), True

    @property
    def complete(self) -> bool:
        return not self._left.any()

    def preempt(self) -> None:
        self._left[:] = np.minimum(self._left, 1)


SCHEDULERS: dict[str, type[Ver | NoVer | DdPpo]] = {"ver": Ver, "nover": NoVer, "ddppo": DdPpo, "async": Ver}
