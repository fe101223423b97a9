"""Observations and actions as flat rows: what lies in shared memory and in the rollout's buffer.

Env workers use this module too, so it must not import torch.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

PLAIN = "obs"
"""The key of an observation that is not a Dict."""


class UnsupportedSpace(ValueError):
    """A space that the training core cannot handle; the message is one line."""


@dataclass(frozen=True)
class ObsKey:
    """One entry of an observation: where it lies in its flat row."""

    name: str
    shape: tuple[int, ...]
    byte: bool
    """uint8 (an image in 0…255); else float32."""
    start: int
    stop: int


class ObsLayout:
    """Packs an observation into one float32 row and one uint8 row, and cuts batches of such rows up again."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.plain = not isinstance(space, spaces.Dict)
        entries = {PLAIN: space} if not isinstance(space, spaces.Dict) else dict(space.spaces)
        sizes = {True: 0, False: 0}
        keys = []
        for name, entry in entries.items():
            if not isinstance(entry, spaces.Box):
                kind = type(entry).__name__
                raise UnsupportedSpace(f"observation {name!r} is a {kind}; only Box (or a Dict of them) works")
            byte = entry.dtype == np.uint8
            size = math.prod(entry.shape)
            keys.append(ObsKey(name, tuple(entry.shape), byte, sizes[byte], sizes[byte] + size))
            sizes[byte] += size
        self.keys: tuple[ObsKey, ...] = tuple(keys)
        self.floats: int = sizes[False]
        """Length of the float32 row."""
        self.bytes: int = sizes[True]
        """Length of the uint8 row; 0 without byte images."""

    def pack(self, observation: Any, floats: NDArray[np.float32], bytes_: NDArray[np.uint8]) -> None:
        """Write one observation into its rows."""
        for key in self.keys:
            value = observation if self.plain else observation[key.name]
            (bytes_ if key.byte else floats)[key.start : key.stop] = np.asarray(value).reshape(-1)

    def split(self, floats: Any, bytes_: Any) -> dict[str, Any]:
        """Cut (n, floats) and (n, bytes) rows, arrays or tensors, into {name: (n, *shape)}; views, no copies."""
        return {
            key.name: (bytes_ if key.byte else floats)[:, key.start : key.stop].reshape(-1, *key.shape)
            for key in self.keys
        }

    def name_at(self, index: int) -> str:
        """Return the key that element `index` of the float row belongs to."""
        return next(key.name for key in self.keys if not key.byte and key.start <= index < key.stop)


@dataclass(frozen=True)
class ActionPart:
    """One part of an action: `size` entries of the flat action, from `start` on."""

    name: str
    """"" for an action that is not a Dict."""
    kind: str
    """box: real numbers; discrete: one choice; multi_discrete, multi_binary: several."""
    start: int
    size: int
    shape: tuple[int, ...]
    choices: tuple[int, ...]
    """Of the discrete kinds: how many choices each entry has."""
    low: tuple[float, ...]
    high: tuple[float, ...]
    """Of a box: its bounds; an action outside is clipped to them before the environment sees it."""
    first: tuple[int, ...] = ()
    """Of the discrete kinds: the number that each entry's first choice has in the environment."""


class ActionLayout:
    """Turns flat float32 actions (A,) into what the environment takes. Choices are counted from 0 in a flat action."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        self.plain = not isinstance(space, spaces.Dict)
        entries = {"": space} if not isinstance(space, spaces.Dict) else dict(space.spaces)
        parts: list[ActionPart] = []
        start = 0
        for name, entry in entries.items():
            parts.append(_part(name, entry, start))
            start += parts[-1].size
        self.parts: tuple[ActionPart, ...] = tuple(parts)
        self.size: int = start
        choices = [bool(part.choices) for part in self.parts for _ in range(part.size)]
        self.none: NDArray[np.float32] = np.where(choices, -1.0, 0.0).astype(np.float32)
        """(A,) the previous action at an episode's start: zeros, and no choice."""
        low = [bound for part in self.parts for bound in (part.low or (-math.inf,) * part.size)]
        high = [bound for part in self.parts for bound in (part.high or (math.inf,) * part.size)]
        self._low, self._high = np.array(low, np.float32), np.array(high, np.float32)

    def decode(self, flat: NDArray[np.float32]) -> Any:
        """Return the environment's action for one flat row (A,)."""
        # np.clip takes several times as long.
        flat = np.minimum(np.maximum(flat, self._low), self._high, dtype=np.float32)
        values = {part.name: _decode(part, flat[part.start : part.start + part.size]) for part in self.parts}
        return values[""] if self.plain else values

    def encode(self, action: Any) -> NDArray[np.float32]:
        """Return the flat row (A,) of an environment's action, so that `decode` returns it."""
        values = {"": action} if self.plain else action
        rows = [np.asarray(values[part.name]).reshape(-1) - np.array(part.first or 0) for part in self.parts]
        return np.concatenate(rows).astype(np.float32)


def _part(name: str, space: spaces.Space[Any], start: int) -> ActionPart:
    if isinstance(space, spaces.Box) and np.issubdtype(space.dtype, np.floating):
        size = math.prod(space.shape)
        low, high = tuple(space.low.reshape(-1).tolist()), tuple(space.high.reshape(-1).tolist())
        return ActionPart(name, "box", start, size, tuple(space.shape), (), low, high)
    if isinstance(space, spaces.Discrete):
        return ActionPart(name, "discrete", start, 1, (), (int(space.n),), (), (), (int(space.start),))
    if isinstance(space, spaces.MultiDiscrete) and space.nvec.ndim == 1:
        choices = tuple(int(n) for n in space.nvec)
        first = tuple(int(n) for n in space.start)
        return ActionPart(name, "multi_discrete", start, len(choices), tuple(space.shape), choices, (), (), first)
    if isinstance(space, spaces.MultiBinary) and len(space.shape) == 1:
        size = space.shape[0]
        return ActionPart(name, "multi_binary", start, size, (size,), (2,) * size, (), (), (0,) * size)
    what = f"action part {name!r}" if name else "the action space"
    found = " ".join(str(space).split())
    raise UnsupportedSpace(
        f"{what} is {found}; only float Box, Discrete, 1-D MultiDiscrete and MultiBinary (or a Dict of them) work"
    )


def _decode(part: ActionPart, flat: NDArray[np.float32]) -> Any:
    if part.kind == "box":
        return flat.reshape(part.shape)
    if part.kind == "discrete":
        return int(flat[0]) + part.first[0]
    return (flat + part.first).astype(np.int64 if part.kind == "multi_discrete" else np.int8)
