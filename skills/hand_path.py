"""How far the hand has to go to a place inside furniture: in by the open front, not through a wall or a board."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hab.furniture import EDGE_M
from hab.scene import Receptacle
from hab.sensors import RobotPose, in_base_frame

BEFORE_M = 0.05
"""The hand is led to a point so far before the edge of the board below, past the front edges of side walls."""
ROOM_M = 0.05
"""… and so far from walls and boards: half of the hand."""
SIZE = 8
_ROUNDS = 4


class HandPath:
    """Length (m) of the way between two points of which the second lies on a receptacle; positions in the world (m).

    A compartment of a shelf or fridge is a box that is open to its front, and the way into it from elsewhere is the
    shortest through the opening. Everywhere else, and in the box, the way is straight.
    """

    def __init__(self, receptacle: Receptacle) -> None:
        self._boxed = receptacle.under_board
        self._center = receptacle.center
        half_x, half_y = receptacle.half_extents
        self._front = half_x + EDGE_M + BEFORE_M
        self._side, self._top = half_y + EDGE_M, receptacle.clearance_m
        self._yaw = receptacle.yaw
        self._cos, self._sin = math.cos(receptacle.yaw), math.sin(receptacle.yaw)

    def __call__(self, point: Sequence[float], inside: Sequence[float]) -> float:
        """Return the length of the way from a point to one that lies on the receptacle."""
        return self._length(self._door(point, inside), point, inside)

    def surroundings(self, pose: RobotPose, point: Sequence[float], inside: Sequence[float]) -> list[float]:
        """Return what a hand at a point has to know of its way to a place on the receptacle: `SIZE` numbers: where to
        go next, in the base's frame (3), how far it is in all, the cosine and sine of the direction in which the front
        looks, seen from the base, whether there is a compartment, and how high it is (m, 0: open)."""
        door = self._door(point, inside)
        ahead = in_base_frame(pose, np.array(inside if door is None else self._world(door)))
        looks = self._yaw - pose.yaw
        return [
            *ahead, self._length(door, point, inside), math.cos(looks), math.sin(looks),
            float(self._boxed), self._top if self._boxed else 0.0,
        ]  # fmt: skip

    def _length(self, door: Sequence[float] | None, point: Sequence[float], inside: Sequence[float]) -> float:
        if door is None:
            return math.dist(point, inside)
        return math.dist(self._local(point), door) + math.dist(door, self._local(inside))

    def _door(self, point: Sequence[float], inside: Sequence[float]) -> tuple[float, float, float] | None:
        """Return where the way enters the compartment, in the receptacle's frame; None: it is straight."""
        if not self._boxed:
            return None
        (x, y, z), goal = self._local(point), self._local(inside)
        if not self._within(*goal) or self._within(x, y, z):
            return None
        deep = self._front - goal[0]
        off, side, up = max(0.0, x - self._front), goal[1], goal[2]
        # The point of the opening, one coordinate after the other: where the straight line passes it, seen from the
        # side and from above. The length is convex, so that this comes to its least.
        for _ in range(_ROUNDS):
            side = _crossing(y, math.hypot(off, z - up), goal[1], math.hypot(deep, goal[2] - up))
            side = _clamped(side, ROOM_M - self._side, self._side - ROOM_M)
            up = _crossing(z, math.hypot(off, y - side), goal[2], math.hypot(deep, goal[1] - side))
            up = _clamped(up, ROOM_M, self._top - ROOM_M)
        return self._front, side, up

    def _within(self, x: float, y: float, z: float) -> bool:
        return x <= self._front and abs(y) <= self._side and 0.0 <= z <= self._top

    def _local(self, point: Sequence[float]) -> tuple[float, float, float]:
        x, y, z = (float(a) - b for a, b in zip(point, self._center, strict=True))
        return self._cos * x + self._sin * y, self._cos * y - self._sin * x, z

    def _world(self, local: Sequence[float]) -> tuple[float, float, float]:
        x, y, z = local
        (cx, cy, cz) = self._center
        return cx + self._cos * x - self._sin * y, cy + self._sin * x + self._cos * y, cz + z


def _crossing(start: float, before: float, end: float, behind: float) -> float:
    """Return where a straight line from start to end is after `before` of `before + behind`."""
    return start + (end - start) * before / (before + behind)


def _clamped(value: float, low: float, high: float) -> float:
    return max(low, min(high, value))
