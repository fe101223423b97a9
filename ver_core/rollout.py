"""The linear buffer: T x N completed steps, in the order in which they were completed, whoever they come from."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ver_core.sequences import Sequences, find_sequences
from ver_core.shared_rows import Layout

Columns = dict[str, torch.Tensor]
Native = Any
"""A column as it is written fastest: on a processor an array (a view of the tensor), elsewhere the tensor itself."""
WIDE = ("floats", "bytes", "previous_action", "state", "action")
"""What the network reads (and the action), on the learner's device."""


def wide_columns(rows: int, layout: Layout, state_size: int, device: torch.device) -> Columns:
    """Allocate a row each for the observation, the action before, the recurrent state before, and the action."""
    sizes = {
        "floats": (layout.floats, torch.float32),
        "bytes": (layout.bytes, torch.uint8),
        "previous_action": (layout.action, torch.float32),
        "state": (state_size, torch.float32),
        "action": (layout.action, torch.float32),
    }
    return {name: torch.zeros((rows, size), dtype=dtype, device=device) for name, (size, dtype) in sizes.items()}


def native(column: torch.Tensor) -> Native:
    """Return the same memory as an array, where it is a processor's."""
    return column.numpy() if column.device.type == "cpu" else column


class Rollout:
    """Steps as columns: `size` fresh ones from row 0 on, in the order in which they were completed.

    A preempted rollout is filled up, at the buffer's end, with the latest steps of the rollout before it (section 2.3),
    which were learnt from already. What is older than that is never learnt from again.
    """

    wide: Columns
    env: NDArray[np.int64]
    start: NDArray[np.bool_]
    """The first step of an episode."""
    reward: NDArray[np.float32]
    log_prob: NDArray[np.float32]
    """Of the action, under the policy that chose it."""
    value: NDArray[np.float32]
    next_value: NDArray[np.float32]
    """V of the next observation; of the final one where the episode was truncated; 0 where it terminated."""
    version: NDArray[np.int64]
    """Of the policy that chose the action."""
    advantage: NDArray[np.float32]
    target: NDArray[np.float32]
    """For the value; both are the learner's."""

    def __init__(self, layout: Layout, rollout_length: int, state_size: int, device: torch.device) -> None:
        rows = layout.num_envs * rollout_length
        self.capacity, self._num_envs = rows, layout.num_envs
        self.wide = wide_columns(rows, layout, state_size, device)
        self.native: dict[str, Native] = {name: native(column) for name, column in self.wide.items()}
        """`wide`, to write to."""
        for name in ("reward", "log_prob", "value", "next_value", "advantage", "target"):
            setattr(self, name, np.zeros(rows, np.float32))
        self.env, self.version, self._number = (np.zeros(rows, np.int64) for _ in range(3))
        self.start = np.zeros(rows, np.bool_)
        self.size = 0
        self._before = 0
        """Steps of the rollout before. They end at the buffer's last row; fresh ones overwrite the earliest first."""
        self._rollouts = 0

    def clear(self) -> None:
        """Begin a new rollout; the one before stays until it is overwritten."""
        if 0 < self.size < self.capacity:
            here, there = slice(self.size), slice(self.capacity - self.size, self.capacity)
            for wide in self.wide.values():
                wide[there] = wide[here].clone()  # the two may overlap
            for column in self._narrow():
                column[there] = column[here].copy()
        self._before, self.size = self.size, 0
        self._rollouts += 1

    def discard(self) -> None:
        """Forget all steps: they are not to be learnt from."""
        self._before = self.size = 0

    def extend(self, count: int) -> slice:
        """Make room for `count` steps; the caller fills in the columns."""
        rows = slice(self.size, self.size + count)
        if rows.stop > self.capacity:
            raise IndexError(f"{rows.stop} steps in a rollout of {self.capacity}")
        self.size = rows.stop
        self._number[rows] = self._rollouts
        return rows

    def rows(self, multiple_of: int = 1) -> NDArray[np.int64]:
        """Return the rows to learn from, fresh ones first; the oldest are left out if their number has to be even."""
        stale = np.arange(max(self.size, self.capacity - self._before), self.capacity)
        odd = (self.size + len(stale)) % multiple_of
        return np.concatenate((np.arange(max(0, odd - len(stale)), self.size), stale[odd:]))

    def ages(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        """Return how many rollouts ago the steps in these rows were collected; 0: they are fresh."""
        return self._rollouts - self._number[rows]

    def sequences(self) -> Sequences:
        """Return the fresh rows' sequences."""
        return find_sequences(self.env[: self.size], self.start[: self.size])

    def sequences_of(self, rows: NDArray[np.int64]) -> Sequences:
        """Return the sequences in `rows`; stale steps never join fresh ones."""
        kept = find_sequences(self.ages(rows) * self._num_envs + self.env[rows], self.start[rows])
        return Sequences(rows[kept.order], kept.lengths)

    def _narrow(self) -> tuple[NDArray[Any], ...]:
        return (
            self.env, self.start, self.reward, self.log_prob, self.value, self.next_value, self.version, self.advantage,
            self.target, self._number,
        )  # fmt: skip
