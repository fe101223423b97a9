"""Finding places for furniture: footprints that do not overlap, and floor that must stay empty before them.

Frames are those of the canonical house, turned by multiples of 90 degrees.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from hab.furniture import Frame, Piece
from hab.rooms import Rect, Room

TRIES = 60
"""Draws after which a piece is said not to fit."""


@dataclass(frozen=True)
class Item:
    """A piece that has found its place (canonical house)."""

    build: Callable[[Frame], Piece]
    frame: Frame


@dataclass(kw_only=True)
class Placer:
    """What has been placed so far."""

    rng: np.random.Generator
    items: list[Item] = field(default_factory=list)
    solids: list[Rect] = field(default_factory=list)
    """Footprints."""
    tall: list[Rect] = field(default_factory=list)
    """Footprints of what stands before the wall at eye height."""
    zones: list[Rect] = field(default_factory=list)
    """Floor that must stay empty."""

    def mark(self) -> tuple[int, int, int, int]:
        """A state to which `undo` returns."""
        return len(self.items), len(self.solids), len(self.zones), len(self.tall)

    def offset(self, length: float, width: float) -> float | None:
        """Where along a wall something of that width stands: often in a corner, else anywhere."""
        slack = (length - width) / 2 - 0.01
        if slack < 0:
            return None
        kind = self.rng.random()
        if kind < 0.4:
            return float(self.rng.choice((-1, 1))) * slack
        return 0.0 if kind < 0.5 else float(self.rng.uniform(-slack, slack))

    def anywhere(self, room: Room, margin: float) -> Frame:
        x0, y0, x1, y1 = room.rect
        x, y = self.rng.uniform(x0 + margin, x1 - margin), self.rng.uniform(y0 + margin, y1 - margin)
        return Frame(float(x), float(y), float(self.rng.integers(2)) * math.pi / 2)

    def along_wall(
        self,
        room: Room,
        build: Callable[[Frame], Piece],
        foot: tuple[float, float],
        zones: tuple[Rect, ...],
        tall: bool = False,
        tries: int = TRIES,
        gap: float = 0.01,
        corner: bool = False,
    ) -> bool:
        for _ in range(tries):
            wall = int(self.rng.integers(4))
            slack = (room.wall_length(wall) - foot[1]) / 2 - gap
            along = float(self.rng.choice((-1, 1))) * slack if corner else self.offset(room.wall_length(wall), foot[1])
            if along is None or slack < 0:
                continue
            frame = room.wall_frame(wall, along, foot[0], gap, flip=bool(self.rng.integers(2)))
            if self.place(room, build, frame, foot, zones, tall):
                return True
        return False

    def place(
        self,
        room: Room,
        build: Callable[[Frame], Piece],
        frame: Frame,
        foot: tuple[float, float],
        zones: tuple[Rect, ...],
        tall: bool = False,
    ) -> bool:
        """Put a piece there if its footprint (depth, width) and the floor it needs are free."""
        solid = bounds(frame, (-foot[0] / 2, -foot[1] / 2, foot[0] / 2, foot[1] / 2))
        need = [bounds(frame, zone) for zone in zones]
        if any(not room.holds(rect) for rect in (solid, *need)):
            return False
        if any(overlap(solid, other, 0.03) for other in self.solids):
            return False
        if any(overlap(solid, zone, 0.0) for zone in self.zones):
            return False
        if any(overlap(zone, other, 0.0) for zone in need for other in self.solids):
            return False
        self.items.append(Item(build, frame))
        self.solids.append(solid)
        self.zones.extend(need)
        if tall:
            self.tall.append(solid)
        return True

    def undo(self, marks: tuple[int, int, int, int]) -> None:
        items, solids, zones, tall = marks
        del self.items[items:], self.solids[solids:], self.zones[zones:], self.tall[tall:]


def front_zone(depth: float, width: float, free: float) -> Rect:
    """Local zone in front of a footprint."""
    return depth / 2, -width / 2, depth / 2 + free, width / 2


def back_zone(zone: Rect) -> Rect:
    return -zone[2], zone[1], -zone[0], zone[3]


def bounds(frame: Frame, local: Rect) -> Rect:
    """Bounds of a local rectangle in the house (frames are turned by multiples of 90 degrees)."""
    (xa, ya), (xb, yb) = frame.point(local[0], local[1]), frame.point(local[2], local[3])
    return min(xa, xb), min(ya, yb), max(xa, xb), max(ya, yb)


def overlap(a: Rect, b: Rect, margin: float) -> bool:
    eps = 1e-6 - margin
    return a[0] + eps < b[2] and b[0] + eps < a[2] and a[1] + eps < b[3] and b[1] + eps < a[3]
