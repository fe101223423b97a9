"""Floor plans: rooms, inner walls and door openings of a house whose corner is the origin (metres).

Rectangles are (x_min, y_min, x_max, y_max).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from hab.furniture import Frame, Piece, Style, shade

Rect = tuple[float, float, float, float]

WALL_M = 0.10
WALL_HEIGHT_M = 2.4
LINTEL_M = 2.05
"""Height of door openings."""
DOOR_FREE_M = 1.0
"""Free depth on both sides of an opening."""


@dataclass(frozen=True)
class Room:
    """A room: the free floor between its walls' faces."""

    name: str
    rect: Rect

    @property
    def centre(self) -> tuple[float, float]:
        return (self.rect[0] + self.rect[2]) / 2, (self.rect[1] + self.rect[3]) / 2

    @property
    def half(self) -> tuple[float, float]:
        return (self.rect[2] - self.rect[0]) / 2, (self.rect[3] - self.rect[1]) / 2

    def wall_length(self, wall: int) -> float:
        """Length of wall 0 (x_min), 1 (y_min), 2 (x_max) or 3 (y_max)."""
        return 2 * self.half[1 - wall % 2]

    def wall_frame(self, wall: int, along: float, depth: float, gap: float, flip: bool = False) -> Frame:
        """Pose of a piece of that depth with its back `gap` off a wall, `along` its frame's local y from the middle."""
        yaw = wall * math.pi / 2
        out = self.half[wall % 2] - gap - depth / 2
        c, s = math.cos(yaw), math.sin(yaw)
        x, y = self.centre[0] - c * out - s * along, self.centre[1] - s * out + c * along
        return Frame(x, y, yaw, flip)

    def holds(self, rect: Rect) -> bool:
        x0, y0, x1, y1 = self.rect
        return rect[0] >= x0 - 1e-6 and rect[1] >= y0 - 1e-6 and rect[2] <= x1 + 1e-6 and rect[3] <= y1 + 1e-6


@dataclass(frozen=True)
class Wall:
    """An inner wall along its centre line, x = `at` (`vertical`) or y = `at`, with openings (middle, width)."""

    vertical: bool
    at: float
    start: float
    end: float
    openings: tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class HousePlan:
    width: float
    depth: float
    rooms: tuple[Room, ...]
    inner_walls: tuple[Wall, ...]

    @property
    def door_zones(self) -> tuple[Rect, ...]:
        """Floor in front of the openings that stays empty."""
        zones = []
        for wall in self.inner_walls:
            for middle, width in wall.openings:
                a, b = middle - width / 2, middle + width / 2
                near, far = wall.at - WALL_M / 2 - DOOR_FREE_M, wall.at + WALL_M / 2 + DOOR_FREE_M
                zones.append((near, a, far, b) if wall.vertical else (a, near, b, far))
        return tuple(zones)

    def is_outer(self, room: Room, wall: int) -> bool:
        edge = (0.0, 0.0, self.width, self.depth)[wall]
        return abs(room.rect[wall] - edge) < 1e-6


def walls(frame: Frame, plan: HousePlan, style: Style) -> Piece:
    """All walls, in the frame of the house's corner; lintels are decoration, as nothing reaches that high."""
    piece = Piece("walls", frame)
    w, d, t = plan.width, plan.depth, WALL_M
    outer = ((-t, -t, w + t, 0.0), (-t, d, w + t, d + t), (-t, 0.0, 0.0, d), (w, 0.0, w + t, d))
    for i, rect in enumerate(outer):
        _slab(piece, f"outer_{i}", rect, 0.0, shade(style.wall, 0.97))
    for i, wall in enumerate(plan.inner_walls):
        at = wall.start
        for j, (middle, width) in enumerate(sorted(wall.openings)):
            _slab(piece, f"inner_{i}_{j}", _span(wall, at, middle - width / 2), 0.0, style.wall)
            _slab(
                piece,
                f"lintel_{i}_{j}",
                _span(wall, middle - width / 2, middle + width / 2),
                LINTEL_M,
                style.wall,
                False,
            )
            at = middle + width / 2
        _slab(piece, f"inner_{i}_end", _span(wall, at, wall.end), 0.0, style.wall)
    return piece


def _quarters(rng: np.random.Generator) -> HousePlan:
    """Kitchen and living room above, bedroom and study below."""
    left, right = rng.uniform(4.45, 5.0), rng.uniform(4.5, 5.2)
    upper, lower = rng.uniform(4.35, 4.8), rng.uniform(2.95, 3.4)
    width, depth = left + WALL_M + right, lower + WALL_M + upper
    x, y = left + WALL_M / 2, lower + WALL_M / 2
    kitchen, living = (
        Room("kitchen", (0, lower + WALL_M, left, depth)),
        Room("living", (left + WALL_M, lower + WALL_M, width, depth)),
    )
    bedroom, study = Room("bedroom", (0, 0, left, lower)), Room("study", (left + WALL_M, 0, width, lower))
    upper_doors = (_door(rng, lower + WALL_M, depth, wide=rng.random() < 0.5),)
    lower_doors = (_door(rng, 0, lower),) if rng.random() < 0.4 else ()
    vertical = Wall(True, x, 0, depth, lower_doors + upper_doors)
    left_doors = () if lower_doors and rng.random() < 0.5 else (_door(rng, 0, left),)
    flat = Wall(False, y, 0, left, left_doors)
    other = Wall(False, y, left + WALL_M, width, (_door(rng, left + WALL_M, width),))
    return HousePlan(width, depth, (kitchen, living, bedroom, study), (vertical, flat, other))


def _big_kitchen(rng: np.random.Generator) -> HousePlan:
    """A kitchen with the dining table along the whole left side, living room and bedroom on the right."""
    left, right = rng.uniform(4.0, 4.6), rng.uniform(4.4, 5.0)
    upper, lower = rng.uniform(4.3, 4.7), rng.uniform(3.2, 3.6)
    width, depth = left + WALL_M + right, lower + WALL_M + upper
    x, y = left + WALL_M / 2, lower + WALL_M / 2
    rooms = (
        Room("kitchen", (0, 0, left, depth)),
        Room("living", (left + WALL_M, lower + WALL_M, width, depth)),
        Room("bedroom", (left + WALL_M, 0, width, lower)),
    )
    living_door = _door(rng, lower + WALL_M, depth, wide=rng.random() < 0.6)
    through = rng.random() < 0.5
    doors = (living_door,) if through else (_door(rng, 0, lower), living_door)
    flat = Wall(False, y, left + WALL_M, width, (_door(rng, left + WALL_M, width),) if through else ())
    return HousePlan(width, depth, rooms, (Wall(True, x, 0, depth, doors), flat))


def _row(rng: np.random.Generator) -> HousePlan:
    """Kitchen, living room and bedroom in a row."""
    depth = rng.uniform(4.9, 5.4)
    first, second, third = rng.uniform(4.4, 4.8), rng.uniform(4.4, 5.0), rng.uniform(3.3, 3.8)
    a, b = first + WALL_M, first + second + 2 * WALL_M
    width = b + third
    rooms = (
        Room("kitchen", (0, 0, first, depth)),
        Room("living", (a, 0, a + second, depth)),
        Room("bedroom", (b, 0, width, depth)),
    )
    inner = (
        Wall(True, first + WALL_M / 2, 0, depth, (_door(rng, 0, depth, wide=rng.random() < 0.6),)),
        Wall(True, b - WALL_M / 2, 0, depth, (_door(rng, 0, depth),)),
    )
    return HousePlan(width, depth, rooms, inner)


def _big_living(rng: np.random.Generator) -> HousePlan:
    """A living room along the whole left side, kitchen and bedroom on the right."""
    left, right = rng.uniform(4.3, 4.8), rng.uniform(4.45, 5.0)
    upper, lower = rng.uniform(4.35, 4.7), rng.uniform(3.0, 3.4)
    width, depth = left + WALL_M + right, lower + WALL_M + upper
    x, y = left + WALL_M / 2, lower + WALL_M / 2
    rooms = (
        Room("living", (0, 0, left, depth)),
        Room("kitchen", (left + WALL_M, lower + WALL_M, width, depth)),
        Room("bedroom", (left + WALL_M, 0, width, lower)),
    )
    doors = (_door(rng, 0, lower), _door(rng, lower + WALL_M, depth, wide=rng.random() < 0.6))
    flat = Wall(False, y, left + WALL_M, width, ())
    return HousePlan(width, depth, rooms, (Wall(True, x, 0, depth, doors), flat))


def _with_bath(rng: np.random.Generator) -> HousePlan:
    """Kitchen and living room above; bedroom, bathroom and study below."""
    left, right = rng.uniform(4.5, 5.0), rng.uniform(5.1, 5.6)
    upper, lower = rng.uniform(4.35, 4.8), rng.uniform(3.0, 3.3)
    width, depth = left + WALL_M + right, lower + WALL_M + upper
    bath = rng.uniform(2.2, 2.5)
    x, y = left + WALL_M / 2, lower + WALL_M / 2
    a = left + WALL_M
    b = a + bath + WALL_M
    rooms = (
        Room("kitchen", (0, lower + WALL_M, left, depth)),
        Room("living", (a, lower + WALL_M, width, depth)),
        Room("bedroom", (0, 0, left, lower)),
        Room("bath", (a, 0, a + bath, lower)),
        Room("study", (b, 0, width, lower)),
    )
    inner = (
        Wall(True, x, 0, depth, (_door(rng, lower + WALL_M, depth, wide=rng.random() < 0.5),)),
        Wall(False, y, 0, left, (_door(rng, 0, left),)),
        Wall(False, y, a, width, (_door(rng, a, a + bath), _door(rng, b, width))),
        Wall(True, b - WALL_M / 2, 0, lower, ()),
    )
    return HousePlan(width, depth, rooms, inner)


def _hall(rng: np.random.Generator) -> HousePlan:
    """A hall in the middle: kitchen and bathroom on its left, living room and bedroom on its right."""
    left, middle, right = rng.uniform(4.0, 4.5), rng.uniform(1.75, 1.95), rng.uniform(4.4, 4.9)
    upper, lower = rng.uniform(4.3, 4.6), rng.uniform(2.9, 3.3)
    depth = lower + WALL_M + upper
    a, b = left + WALL_M, left + middle + 2 * WALL_M
    width = b + right
    y = lower + WALL_M / 2
    rooms = (
        Room("kitchen", (0, lower + WALL_M, left, depth)),
        Room("bath", (0, 0, left, lower)),
        Room("hall", (a, 0, a + middle, depth)),
        Room("living", (b, lower + WALL_M, width, depth)),
        Room("bedroom", (b, 0, width, lower)),
    )
    inner = (
        Wall(True, left + WALL_M / 2, 0, depth, (_door(rng, 0, lower), _door(rng, lower + WALL_M, depth))),
        Wall(True, b - WALL_M / 2, 0, depth, (_door(rng, 0, lower), _door(rng, lower + WALL_M, depth, wide=True))),
        Wall(False, y, 0, left, ()),
        Wall(False, y, b, width, ()),
    )
    return HousePlan(width, depth, rooms, inner)


def _open_plan(rng: np.random.Generator) -> HousePlan:
    """Kitchen and living room, one above the other, hardly parted; bedroom and study beside them."""
    left, right = rng.uniform(4.6, 5.3), rng.uniform(3.5, 4.2)
    upper, lower = rng.uniform(4.35, 4.8), rng.uniform(4.3, 4.7)
    depth = lower + WALL_M + upper
    width, a = left + WALL_M + right, left + WALL_M
    bed = rng.uniform(0.45, 0.55) * (depth - WALL_M)
    low, high = min(bed, lower), max(bed, lower) + WALL_M
    gap = rng.uniform(0.55, 0.65) * left
    at = 0.15 + gap / 2 if rng.random() < 0.5 else left - 0.15 - gap / 2
    rooms = (
        Room("kitchen", (0, lower + WALL_M, left, depth)),
        Room("living", (0, 0, left, lower)),
        Room("bedroom", (a, 0, width, bed)),
        Room("study", (a, bed + WALL_M, width, depth)),
    )
    inner = (
        Wall(False, lower + WALL_M / 2, 0, left, ((float(at), float(gap)),)),
        Wall(True, left + WALL_M / 2, 0, depth, (_door(rng, 0, low), _door(rng, high, depth))),
        Wall(False, bed + WALL_M / 2, a, width, ()),
    )
    return HousePlan(width, depth, rooms, inner)


PLANS: tuple[Callable[[np.random.Generator], HousePlan], ...] = (
    _quarters, _big_kitchen, _row, _big_living, _with_bath, _hall, _open_plan,
)  # fmt: skip
"""The floor plans; sizes and doors are drawn at random."""


def _door(rng: np.random.Generator, start: float, end: float, wide: bool = False) -> tuple[float, float]:
    """An opening (middle, width) between two corners: a door, or wide enough to make two rooms one."""
    width = float(rng.uniform(1.8, 2.4) if wide else rng.uniform(1.2, 1.4))
    side = 0.2
    return float(rng.uniform(start + side + width / 2, end - side - width / 2)), width


def _span(wall: Wall, a: float, b: float) -> Rect:
    low, high = wall.at - WALL_M / 2, wall.at + WALL_M / 2
    return (low, a, high, b) if wall.vertical else (a, low, b, high)


def _slab(
    piece: Piece, name: str, rect: Rect, bottom: float, rgba: tuple[float, float, float, float], collides: bool = True
) -> None:
    centre = ((rect[0] + rect[2]) / 2, (rect[1] + rect[3]) / 2, (bottom + WALL_HEIGHT_M) / 2)
    size = (rect[2] - rect[0], rect[3] - rect[1], WALL_HEIGHT_M - bottom)
    piece.box(name, centre, size, rgba, "", collides)
