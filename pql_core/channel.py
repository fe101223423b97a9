"""What Actor, V-learner and P-learner share: a ring of transitions, parameters, counters, and bells to wake each other.

All of it is memory that the three processes have in common, on their device where it is data; nothing is pickled once
they run. Each number has one writer, so there are no locks, and a process that is killed leaves none behind.

Without locks, data has to be there before the number that says so, for readers too: processors such as x86-64's let
nobody see writes in another order. ARM's (aarch64) do not promise that; there each number would have to be written with
a release and read with an acquire barrier, which torch and numpy do not offer.
"""

from __future__ import annotations

import os
import select
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing.context import BaseContext
from typing import Any

import numpy as np
import torch
import torch.multiprocessing  # noqa: F401  (teaches multiprocessing to hand over tensors)
from numpy.typing import NDArray
from torch import Tensor

from pql_core.replay import Records

V_LEARNER, P_LEARNER = 0, 1
"""The ring's readers."""
STATE, REPLAY, QUIT = b"s", b"r", b"q"
"""Orders to a learner's process: answer with its state; save the buffer to the path that follows; end."""
ANSWER, FAILURE = b"a", b"f"
"""What a message from it begins with."""


def shared(shape: Sequence[int], dtype: torch.dtype, device: torch.device) -> Tensor:
    """Return zeros in memory that other processes can be given."""
    return torch.zeros(tuple(shape), dtype=dtype, device=device).share_memory_()


def settle(device: torch.device) -> None:
    """Wait until what was written to the device is there for other processes, too."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


class Ring:
    """Records on their way from the Actor to the learners, who read them once each."""

    def __init__(self, rows: int, floats: int, bytes_: int, actions: int, device: torch.device) -> None:
        self._rows, self._device = rows, device
        self._columns = Records(
            shared((rows,), torch.int64, device),
            shared((rows, floats), torch.float32, device),
            shared((rows, bytes_), torch.uint8, device),
            shared((rows, actions), torch.float32, device),
            shared((rows,), torch.float32, device),
            shared((rows,), torch.uint8, device),
        )
        self._written = shared((1,), torch.int64, torch.device("cpu"))
        self._read = shared((2,), torch.int64, torch.device("cpu"))

    @property
    def nbytes(self) -> int:
        """Of shared memory."""
        return sum(column.nbytes for column in self._columns)

    def write(self, records: Records, wait: Callable[[], bool]) -> bool:
        """Put records in, all of them or, once `wait`, which is called while there is no room, returns False, none."""
        total, written = len(records.env), int(self._written[0])
        assert total <= self._rows
        while self._rows - (written - int(self._read.min())) < total:
            if not wait():
                return False
        at = written % self._rows
        first = min(total, self._rows - at)
        for column, new in zip(self._columns, records, strict=True):
            column[at : at + first] = new[:first]
            column[: total - first] = new[first:]
        settle(self._device)
        self._written[0] = written + total
        return True

    def read(self, reader: int) -> Iterator[Records]:
        """Yield what has come, in order; each is valid until the next one is asked for, and counts as read then."""
        while (new := int(self._written[0]) - (done := int(self._read[reader]))) > 0:
            at = done % self._rows
            n = min(new, self._rows - at)
            yield Records(*(column[at : at + n] for column in self._columns))
            settle(self._device)
            self._read[reader] = done + n


class Slot:
    """A row of numbers that one process writes now and then, and others read: the newest whole one."""

    def __init__(self, size: int, dtype: torch.dtype, device: torch.device) -> None:
        self._device = device
        self._rows = shared((2, size), dtype, device)
        self._marks = shared((2,), torch.int64, torch.device("cpu"))
        """Versions begun, and written."""

    def publish(self, pieces: Sequence[Tensor]) -> None:
        """Write the next version: tensors, one behind the other."""
        version = int(self._marks[1]) + 1
        self._marks[0] = version
        torch.cat([piece.detach().reshape(-1) for piece in pieces], out=self._rows[version % 2])
        settle(self._device)
        self._marks[1] = version

    def fetch(self, pieces: Sequence[Tensor], have: int) -> int:
        """Copy the newest version into tensors, unless it is `have`; return its number (0: there is none yet)."""
        while (version := int(self._marks[1])) != have:
            row = self._rows[version % 2].clone()
            settle(self._device)
            # The writer comes back to this half of the memory only with the version after the next one.
            if int(self._marks[0]) <= version + 1:
                start = 0
                with torch.no_grad():
                    for piece in pieces:
                        piece.copy_(row[start : start + piece.numel()].view_as(piece))
                        start += piece.numel()
                return version
        return have


class Bell:
    """Wakes one process. Ringing never blocks, and does no harm when nobody waits."""

    def __init__(self, context: BaseContext) -> None:
        self._ours, self._theirs = context.Pipe(duplex=False)

    def ring(self) -> None:
        """Wake it."""
        os.set_blocking(self._theirs.fileno(), False)
        with suppress(BlockingIOError, BrokenPipeError):  # it has been rung often enough, or nobody is there any more
            os.write(self._theirs.fileno(), b"!")

    def wait(self, timeout_s: float) -> None:
        """Sleep until it rings."""
        poll = select.poll()
        poll.register(self._ours.fileno(), select.POLLIN)
        if poll.poll(timeout_s * 1e3):
            os.read(self._ours.fileno(), 1 << 16)


@dataclass
class Counters:
    """What each process has done, in shared memory. Each number is written by one process only."""

    numbers: Tensor = field(default_factory=lambda: shared((4,), torch.int64, torch.device("cpu")))
    seconds: Tensor = field(default_factory=lambda: shared((2, 2), torch.float64, torch.device("cpu")))
    """[learner, 0]: learning; [learner, 1]: waiting."""
    scalars: Tensor = field(default_factory=lambda: shared((2, 8), torch.float64, torch.device("cpu")).fill_(torch.nan))
    """Of each learner's last update, in the order of `names`; NaN where there is none."""

    @property
    def _view(self) -> NDArray[np.int64]:
        view: NDArray[np.int64] = self.numbers.numpy()
        return view

    @property
    def e(self) -> int:
        """Steps of environments since learning began."""
        return int(self._view[0])

    @e.setter
    def e(self, value: int) -> None:
        self._view[0] = value

    @property
    def v(self) -> int:
        """Updates of the Q functions."""
        return int(self._view[1])

    @v.setter
    def v(self, value: int) -> None:
        self._view[1] = value

    @property
    def p(self) -> int:
        """Updates of the policy."""
        return int(self._view[2])

    @p.setter
    def p(self, value: int) -> None:
        self._view[2] = value

    @property
    def begun(self) -> bool:
        """Whether learning has begun: the warm-up is over."""
        return bool(self._view[3])

    @begun.setter
    def begun(self, value: bool) -> None:
        self._view[3] = value


@dataclass
class Channel:
    """Everything that the three processes share. Picklable when a process is started."""

    ring: Ring
    policy: Slot
    """From the P-learner: pi and alpha."""
    q: Slot
    """From the V-learner."""
    statistics: Slot
    """From the Actor: the observations' means and deviations."""
    counters: Counters
    bells: tuple[Bell, Bell, Bell]
    """Of the V-learner, the P-learner and the Actor."""


def parameters(*modules: Any) -> list[Tensor]:
    """Return the modules' parameters, in a fixed order."""
    return [parameter for module in modules for parameter in module.parameters()]
