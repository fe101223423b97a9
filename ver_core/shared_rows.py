"""One row per environment in memory that the learner's process and all env workers share."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import shared_memory

import numpy as np
from numpy.typing import NDArray

from ver_core.spaces import ActionLayout, ObsLayout

RUNNING, TERMINATED, TRUNCATED, FAILED = 0, 1, 2, 3
"""Status of a row. With TERMINATED and TRUNCATED the observation is the next episode's first one already."""


@dataclass(frozen=True)
class Layout:
    """Sizes of the rows; picklable."""

    num_envs: int
    floats: int
    bytes: int
    action: int

    @staticmethod
    def of(num_envs: int, obs: ObsLayout, action: ActionLayout) -> Layout:
        return Layout(num_envs, obs.floats, obs.bytes, action.size)

    def fields(self) -> list[tuple[str, tuple[int, ...], type]]:
        n = self.num_envs
        return [
            ("busy_s", (n,), np.float64),
            ("group", (n,), np.int64),
            ("steps", (n,), np.int64),
            ("floats", (n, self.floats), np.float32),
            ("final_floats", (n, self.floats), np.float32),
            ("action", (n, self.action), np.float32),
            ("reward", (n,), np.float32),
            ("bytes", (n, self.bytes), np.uint8),
            ("final_bytes", (n, self.bytes), np.uint8),
            ("status", (n,), np.uint8),
        ]


class SharedRows:
    """The rows as numpy arrays. Only an environment's own worker writes its row, but for `action`."""

    floats: NDArray[np.float32]
    """(N, F) the observation's float entries (ObsLayout)."""
    bytes: NDArray[np.uint8]
    """(N, U) its byte entries."""
    final_floats: NDArray[np.float32]
    """(N, F) the last observation of a truncated episode, for its bootstrap value."""
    final_bytes: NDArray[np.uint8]
    reward: NDArray[np.float32]
    """(N,) of the last action."""
    status: NDArray[np.uint8]
    """(N,) what the last action led to."""
    action: NDArray[np.float32]
    """(N, A) the next action, flat."""
    group: NDArray[np.int64]
    """(N,) which seed the environment runs on (`episodes_per_seed`)."""
    steps: NDArray[np.int64]
    """(N,) steps made so far, replayed ones not counted."""
    busy_s: NDArray[np.float64]
    """(N,) seconds spent in them, resets included."""

    def __init__(self, layout: Layout, name: str | None = None) -> None:
        """Allocate the block, or attach to the one called `name`."""
        fields = layout.fields()
        starts, total = [], 0
        for _, shape, kind in fields:
            total = -(-total // 64) * 64  # a cache line each
            starts.append(total)
            total += int(np.prod(shape)) * np.dtype(kind).itemsize
        self._owner = name is None
        self._block = shared_memory.SharedMemory(name, create=self._owner, size=max(total, 1))
        for start, (field, shape, kind) in zip(starts, fields, strict=True):
            array = np.ndarray(shape, kind, buffer=self._block.buf, offset=start)
            if self._owner:
                array[...] = 0
            setattr(self, field, array)

    @property
    def name(self) -> str:
        return self._block.name

    def close(self) -> None:
        """Free the block, if this process made it. The arrays must not be used any more."""
        for field in list(vars(self)):
            if isinstance(getattr(self, field), np.ndarray):
                delattr(self, field)
        with suppress(BufferError):  # someone still looks at an array: the mapping goes with the process
            self._block.close()
        if self._owner:
            self._block.unlink()
