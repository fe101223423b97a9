"""The learners' buffers, allocated once.

`Replay` keeps what each environment played in a ring of slots of its own, in order: a slot is an observation, the
action that answered it, and what that led to. So no observation is stored twice: the one that follows lies in the next
slot. Where nothing follows (an episode was cut off by a time limit, or its environment crashed), the last observation
has a slot of its own, without action (`LAST`): n-step targets bootstrap from it. They are computed when they are drawn.

Observations that are bounded are kept in float16, bytes as they are (`Rows`).

Shapes: n records, in the order in which they came; an environment's records in the order of its steps.
"""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from ver_core.config import ConfigError
from ver_core.spaces import PLAIN, ObsLayout

STEP, TERMINATED, LAST = 0, 1, 2
"""Kinds of slots: a step after which the episode goes on, or was cut off (then a LAST follows); a step into a terminal
state, which is worth nothing; an observation that no action answers."""
HARMLESS = 10.0
"""Up to this, float16 is off by less than 0.005, and by 0.05 % of a number."""
DRAWN_AT_ONCE = 8
"""Batches at most: drawing is many small operations, which for so many together take little longer than for one."""
_ROUNDS = 64
"""Of drawing anew what cannot be learnt from."""


class Records(NamedTuple):
    """Slots to store."""

    env: Tensor
    """(n,) int64."""
    floats: Tensor
    """(n, F)."""
    bytes: Tensor
    """(n, U)."""
    action: Tensor
    """(n, A) as executed, in [-1, 1]; of a LAST, anything."""
    reward: Tensor
    """(n,)."""
    kind: Tensor
    """(n,) uint8."""


class Batch(NamedTuple):
    """n-step transitions."""

    floats: Tensor
    bytes: Tensor
    action: Tensor
    returned: Tensor
    """(n,): the sum of gamma^i r_i of the steps up to `next_...`."""
    discount: Tensor
    """(n,): gamma^k, k the number of these steps, n or fewer; 0 after a terminal state."""
    next_floats: Tensor
    next_bytes: Tensor


def load(path: Path) -> dict[str, Any]:
    """Read a snapshot from a file, its columns where they lie on the disk. Raises one of `UNREADABLE`."""
    saved: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    return saved


def take_up(buffer: Replay | StateBuffer, path: Path) -> bool:
    """Restore a buffer from a file; return whether that can be read and fits. If not, the buffer begins empty."""
    try:
        return buffer.restore(load(path))
    except UNREADABLE:
        return False


UNREADABLE = (
    OSError, RuntimeError, ValueError, LookupError, TypeError, AttributeError, EOFError, pickle.UnpicklingError,
)  # fmt: skip
"""What a file raises that is no snapshot, or a damaged one."""


class NothingStored(RuntimeError):
    """No step with a known successor is there to learn from."""


def half_columns(space: spaces.Space[Any], layout: ObsLayout, half_keys: list[str]) -> Tensor:
    """Return (F,) bool: which float entries are kept in float16. Raises `ConfigError` for an unknown key."""
    entries = dict(space.spaces) if isinstance(space, spaces.Dict) else {PLAIN: space}
    for name in half_keys:
        if name not in entries:
            raise ConfigError(f"pql.half_keys: no observation {name}; choose from {', '.join(entries)}")
    half = torch.zeros(layout.floats, dtype=torch.bool)
    for key in layout.keys:
        box = entries[key.name]
        assert isinstance(box, spaces.Box)
        if not key.byte and (key.name in half_keys or max(np.abs(box.low).max(), np.abs(box.high).max()) <= HARMLESS):
            half[key.start : key.stop] = True
    return half


class Rows:
    """Observations, a row each: float32 and float16 entries apart, and bytes."""

    def __init__(self, rows: int, layout: ObsLayout, half: Tensor, device: torch.device) -> None:
        self._half, self._full = (torch.nonzero(which)[:, 0].to(device) for which in (half, ~half))
        self._order = torch.cat((self._half, self._full)).argsort()
        self._split = bool(half.any())
        self.halves = torch.zeros(rows, len(self._half), dtype=torch.float16, device=device)
        self.fulls = torch.zeros(rows, len(self._full), device=device)
        self.bytes = torch.zeros(rows, layout.bytes, dtype=torch.uint8, device=device)

    @property
    def tensors(self) -> dict[str, Tensor]:
        """Everything that is stored."""
        return {"halves": self.halves, "fulls": self.fulls, "bytes": self.bytes}

    def write(self, at: Tensor, floats: Tensor, bytes_: Tensor) -> None:
        """Store observations in rows `at` (n,)."""
        if self._split:
            # Keys of the user's choice may hold anything: clamped, or it would be infinite.
            self.halves[at] = floats[:, self._half].clamp(-65504.0, 65504.0).half()
            self.fulls[at] = floats[:, self._full]
        else:
            self.fulls[at] = floats
        if self.bytes.shape[1]:
            self.bytes[at] = bytes_

    def read(self, at: Tensor) -> tuple[Tensor, Tensor]:
        """Return the observations in rows `at` (n,): floats (n, F), bytes (n, U)."""
        # index_select: for rows all over the memory, as draws are, indexing takes three times as long.
        floats = self.fulls.index_select(0, at)
        if self._split:
            floats = torch.cat((self.halves.index_select(0, at).float(), floats), dim=1)[:, self._order]
        return floats, self.bytes.index_select(0, at)


class Replay:
    """What N environments played last: `size` // N slots each."""

    def __init__(
        self, num_envs: int, size: int, layout: ObsLayout, actions: int, half: Tensor, device: torch.device
    ) -> None:
        self._envs, self._length = num_envs, size // num_envs
        rows = num_envs * self._length
        self._obs = Rows(rows, layout, half, device)
        self._action = torch.zeros(rows, actions, device=device)
        self._reward = torch.zeros(rows, device=device)
        self._kind = torch.zeros(rows, dtype=torch.uint8, device=device)
        self._count = torch.zeros(num_envs, dtype=torch.int64, device=device)
        self.steps = 0
        """Stored so far, those that have been overwritten included; without LASTs."""

    @property
    def _tensors(self) -> dict[str, Tensor]:
        own = {"action": self._action, "reward": self._reward, "kind": self._kind, "count": self._count}
        return {**self._obs.tensors, **own}

    @property
    def nbytes(self) -> int:
        """Of memory, full or empty."""
        return sum(tensor.nbytes for tensor in self._tensors.values())

    def append(self, records: Records) -> None:
        """Store records."""
        for start in range(0, len(records.env), self._length):  # no slot twice in one write
            self._append(Records(*(column[start : start + self._length] for column in records)))

    def _append(self, records: Records) -> None:
        env = records.env
        order = env.argsort(stable=True)
        ordered = env[order]
        number = torch.arange(len(env), device=env.device)
        begins = torch.ones_like(ordered, dtype=torch.bool)
        begins[1:] = ordered[1:] != ordered[:-1]
        nth = torch.empty_like(number)
        nth[order] = number - torch.where(begins, number, 0).cummax(0).values  # of its environment's in this block
        at = env * self._length + (self._count[env] + nth) % self._length
        self._obs.write(at, records.floats, records.bytes)
        self._action[at], self._reward[at], self._kind[at] = records.action, records.reward, records.kind
        self._count.index_add_(0, env, torch.ones_like(env))
        self.steps += int((records.kind != LAST).sum())

    def sample(self, size: int, n_step: int, gamma: float, batches: int) -> list[Batch]:
        """Draw batches of `size` steps, each as likely, whose n-step return is known. Raises `NothingStored`."""
        env, first, last, terminal = self._draw(size * batches, n_step)
        at = self._at(env, first)
        steps = torch.arange(n_step, device=env.device)
        window = self._at(env[:, None], first[:, None] + steps)
        counted = steps < (last - first + terminal)[:, None]
        weights = gamma ** steps.to(torch.float32)
        returned = (torch.where(counted, self._reward[window], 0.0) * weights).sum(1)
        discount = torch.where(terminal, 0.0, gamma ** (last - first).to(torch.float32))
        floats, bytes_ = self._obs.read(at)
        next_floats, next_bytes = self._obs.read(self._at(env, last))
        drawn = Batch(floats, bytes_, self._action[at], returned, discount, next_floats, next_bytes)
        return [Batch(*columns) for columns in zip(*(column.split(size) for column in drawn), strict=True)]

    def states(self, size: int) -> tuple[Tensor, Tensor]:
        """Draw `size` observations that an action answered. Raises `NothingStored`."""
        ends = self._ends()
        at = self._at(*self._slots(ends, size))
        for _ in range(_ROUNDS):
            last = torch.nonzero(self._kind[at] == LAST)[:, 0]
            if not len(last):
                return self._obs.read(at)
            at[last] = self._at(*self._slots(ends, len(last)))
        raise NothingStored("no state is there")

    def steps_in_order(self, env: int) -> Records:
        """Return what is stored of one environment, the oldest first."""
        count = int(self._count[env])
        at = self._at(torch.tensor(env), torch.arange(max(0, count - self._length), count, device=self._count.device))
        floats, bytes_ = self._obs.read(at)
        of = torch.full_like(at, env)
        return Records(of, floats, bytes_, self._action[at], self._reward[at], self._kind[at])

    def snapshot(self) -> dict[str, Any]:
        """Return all that is stored, and of slots never written as few as the shape allows.

        Of a ring that is full nothing is copied. Before, what was written is: for that long it is in memory twice.
        """
        used = min(self._length, int(self._count.max()))
        shaped = self._shaped().items()
        columns = {name: t if name == "count" else t[:, :used].contiguous() for name, t in shaped}
        return {"steps": self.steps, "used": used, "columns": columns}

    def try_to_save(self, path: Path) -> str:
        """Write the snapshot to a file, all or nothing; return what went wrong, or ""."""
        temporary = path.with_name(path.name + ".tmp")
        try:
            torch.save(self.snapshot(), temporary)
            os.replace(temporary, path)
        except (OSError, RuntimeError) as error:  # torch reports a full disk as the latter
            return " ".join(str(error).split())[:300]
        finally:
            temporary.unlink(missing_ok=True)
        return ""

    def restore(self, saved: dict[str, Any]) -> bool:
        """Take up a snapshot; return whether it fits: it does not where environments or sizes are others."""
        columns, used, steps = saved["columns"], int(saved["used"]), int(saved["steps"])
        mine = self._shaped()
        fits = all(
            len(columns[name]) == len(tensor) and columns[name].shape[2:] == tensor.shape[2:]
            for name, tensor in mine.items()
        )
        # A ring of another length has its slots elsewhere, unless none was overwritten yet.
        if not fits or not (used == self._length or int(columns["count"].max()) <= used <= self._length):
            return False
        for name, tensor in mine.items():
            if name == "count":
                tensor.copy_(columns[name])
            else:
                tensor[:, :used].copy_(columns[name])
        self.steps = steps
        self._close()
        return True

    def _close(self) -> None:
        """Make a step whose successor was never told the last observation of its episode: another one begins now."""
        env = torch.nonzero(self._count)[:, 0]
        at = self._at(env, self._count[env] - 1)
        open_ = at[torch.nonzero(self._kind[at] == STEP)[:, 0]]
        self._kind[open_] = LAST
        self.steps -= len(open_)

    def _shaped(self) -> dict[str, Tensor]:
        shape = (self._envs, self._length)
        return {name: t if name == "count" else t.unflatten(0, shape) for name, t in self._tensors.items()}

    def _at(self, env: Tensor, position: Tensor) -> Tensor:
        return env * self._length + position % self._length

    def _ends(self) -> tuple[Tensor, int]:
        """Return the slots stored up to each environment's last one, and of all. Raises `NothingStored`."""
        ends = self._count.clamp(max=self._length).cumsum(0)
        total = int(ends[-1])
        if total == 0:
            raise NothingStored("replay is empty")
        return ends, total

    def _slots(self, ends: tuple[Tensor, int], size: int) -> tuple[Tensor, Tensor]:
        """Draw stored slots evenly: environment, position."""
        until, total = ends
        number = torch.randint(total, (size,), device=until.device)
        env = torch.searchsorted(until, number, right=True)
        return env, number - until[env] + self._count[env]

    def _draw(self, size: int, n_step: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Draw steps evenly: environment, position, position of what the return bootstraps from, and whether a terminal
        step comes before that; then the position is the terminal step's own."""
        ends, device = self._ends(), self._count.device
        env, first, last = (torch.zeros(size, dtype=torch.int64, device=device) for _ in range(3))
        terminal = torch.zeros(size, dtype=torch.bool, device=device)
        missing = torch.arange(size, device=device)
        steps = torch.arange(n_step + 1, device=device)
        for _ in range(_ROUNDS):
            whose, begin = self._slots(ends, len(missing))
            ahead = begin[:, None] + steps
            kind = self._kind[self._at(whose[:, None], ahead)]
            known = ahead < self._count[whose][:, None]
            # The first of: a terminal step, a LAST, n steps on. It has to be known.
            over = (kind == TERMINATED) & (steps < n_step)
            stop = (over | (kind == LAST) | (steps == n_step) | ~known).to(torch.uint8).argmax(1, keepdim=True)
            fine = known.gather(1, stop)[:, 0] & (kind[:, 0] != LAST)
            kept = torch.nonzero(fine)[:, 0]  # once: each look at how many there are waits for a GPU
            slots = missing[kept]
            env[slots], first[slots], last[slots] = whose[kept], begin[kept], (begin + stop[:, 0])[kept]
            terminal[slots] = over.gather(1, stop)[:, 0][kept]
            missing = missing[torch.nonzero(~fine)[:, 0]]
            if not len(missing):
                return env, first, last, terminal
        if len(missing) == size:
            raise NothingStored("no step's successor is known yet")
        # Hardly anything can be learnt from: some of it twice.
        there = torch.ones(size, dtype=torch.bool, device=device)
        there[missing] = False
        some = torch.nonzero(there)[:, 0]
        again = some[torch.randint(len(some), (len(missing),), device=device)]
        for column in (env, first, last, terminal):
            column[missing] = column[again]
        return env, first, last, terminal


class StateBuffer:
    """The P-learner's: the last `size` observations that an action answered, whoever's they are."""

    def __init__(self, size: int, layout: ObsLayout, half: Tensor, device: torch.device) -> None:
        self._obs = Rows(size, layout, half, device)
        self._size, self._device = size, device
        self.count = 0
        """Stored so far."""

    @property
    def nbytes(self) -> int:
        """Of memory, full or empty."""
        return sum(tensor.nbytes for tensor in self._obs.tensors.values())

    def append(self, records: Records) -> None:
        """Store the observations of records that an action answered."""
        answered = torch.nonzero(records.kind != LAST)[:, 0]
        self.count += len(answered)
        answered = answered[-self._size :]
        at = torch.arange(self.count - len(answered), self.count, device=self._device) % self._size
        self._obs.write(at, records.floats[answered], records.bytes[answered])

    def states(self, size: int) -> tuple[Tensor, Tensor]:
        """Draw `size` of them. Raises `NothingStored`."""
        if not self.count:
            raise NothingStored("no state is there")
        return self._obs.read(torch.randint(min(self.count, self._size), (size,), device=self._device))

    def restore(self, saved: dict[str, Any]) -> bool:
        """Take the states from a snapshot of `Replay`, as many as there is room for; return whether they fit."""
        columns, mine = saved["columns"], self._obs.tensors
        if any(columns[name].shape[2:] != tensor.shape[1:] for name, tensor in mine.items()):
            return False
        for env, count in enumerate(columns["count"].tolist()):
            stored = min(count, int(saved["used"]))
            (answered,) = (columns["kind"][env, :stored] != LAST).nonzero(as_tuple=True)
            answered = answered[-self._size :]
            at = (self.count + torch.arange(len(answered))) % self._size
            for name, tensor in mine.items():
                tensor[at.to(self._device)] = columns[name][env, answered].to(self._device)
            self.count += len(answered)
        return True
