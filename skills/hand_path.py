"""How far the hand has to go to a place inside furniture: in by its open side, not through a wall or a board."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from hab.furniture import EDGE_M
from hab.robot import REST_EE_BASE
from hab.scene import Receptacle
from hab.sensors import RobotPose, in_base_frame
from hab.simulator import Simulator
from skills.starts import moved_receptacle

BEFORE_M = 0.05
"""The hand is led to a point so far before the edge of the board below, past the front edges of side walls."""
ABOVE_M = 0.1
"""… or above a drawer's walls, so that what hangs from it clears them."""
ROOM_M = 0.05
"""… and so far from walls and boards: half of the hand."""
SIZE = 8
_ROUNDS = 4


class HandPath:
    """Length (m) of the way between two points of which the second lies on a receptacle; positions in the world (m).

    A compartment of a shelf or fridge is a box that is open to its front, a drawer one that is open above, and the way
    into it from elsewhere is the shortest through the opening. Everywhere else, and in the box, the way is straight.
    """

    def __init__(self, receptacle: Receptacle) -> None:
        """Take a receptacle where it is now."""
        self._compartment = receptacle.under_board
        drawer = receptacle.kind == "drawer"
        self._boxed = self._compartment or drawer
        self._order = (2, 1, 0) if drawer else (0, 1, 2)
        """Which of the receptacle's coordinates lead out of the opening, and along it."""
        self._center = receptacle.center
        deep, side = (half + EDGE_M for half in receptacle.half_extents)
        self._height = receptacle.clearance_m
        self._front = self._height + ABOVE_M if drawer else deep + BEFORE_M
        self._side = side
        self._bounds = (-deep, deep) if drawer else (0.0, self._height)
        self._yaw = receptacle.yaw
        self._cos, self._sin = math.cos(receptacle.yaw), math.sin(receptacle.yaw)

    def __call__(self, point: Sequence[float], inside: Sequence[float]) -> float:
        """Return the length of the way from a point to one that lies on the receptacle."""
        return self._length(self._door(point, inside), point, inside)

    def surroundings(self, pose: RobotPose, point: Sequence[float], inside: Sequence[float]) -> list[float]:
        """Return what a hand at a point has to know of its way to a place on the receptacle: `SIZE` numbers: where to
        go next, in the base's frame (3), how far it is in all, the cosine and sine of the direction in which the front
        looks, seen from the base, whether there is a compartment, and how high it is (m, 0: open above)."""
        door = self._door(point, inside)
        ahead = in_base_frame(pose, np.array(inside if door is None else self._world(door)))
        looks = self._yaw - pose.yaw
        return [
            *ahead, self._length(door, point, inside), math.cos(looks), math.sin(looks),
            float(self._compartment), self._height if self._compartment else 0.0,
        ]  # fmt: skip

    def _length(self, door: Sequence[float] | None, point: Sequence[float], inside: Sequence[float]) -> float:
        if door is None:
            return math.dist(point, inside)
        return math.dist(self._local(point), door) + math.dist(door, self._local(inside))

    def _door(self, point: Sequence[float], inside: Sequence[float]) -> tuple[float, float, float] | None:
        """Return where the way enters the box, in its own frame; None: it is straight."""
        if not self._boxed:
            return None
        (x, y, z), goal = self._local(point), self._local(inside)
        if not self._within(*goal) or self._within(x, y, z):
            return None
        deep, (low, high) = self._front - goal[0], self._bounds
        off, side, up = max(0.0, x - self._front), goal[1], goal[2]
        # The point of the opening, one coordinate after the other: where the straight line passes it, seen from the
        # side and from above. The length is convex, so that this comes to its least.
        for _ in range(_ROUNDS):
            side = _crossing(y, math.hypot(off, z - up), goal[1], math.hypot(deep, goal[2] - up))
            side = _clamped(side, ROOM_M - self._side, self._side - ROOM_M)
            up = _crossing(z, math.hypot(off, y - side), goal[2], math.hypot(deep, goal[1] - side))
            up = _clamped(up, low + ROOM_M, high - ROOM_M)
        return self._front, side, up

    def _within(self, x: float, y: float, z: float) -> bool:
        low, high = self._bounds
        return x <= self._front and abs(y) <= self._side and low <= z <= high

    def _local(self, point: Sequence[float]) -> tuple[float, float, float]:
        """Return a point in the box's frame: out of its opening, and along it."""
        x, y, z = (float(a) - b for a, b in zip(point, self._center, strict=True))
        here = self._cos * x + self._sin * y, self._cos * y - self._sin * x, z
        i, j, k = self._order
        return here[i], here[j], here[k]

    def _world(self, local: Sequence[float]) -> tuple[float, float, float]:
        i, j, k = self._order  # which is its own inverse
        x, y, z = local[i], local[j], local[k]
        (cx, cy, cz) = self._center
        return cx + self._cos * x - self._sin * y, cy + self._sin * x + self._cos * y, cz + z


def receptacle_now(sim: Simulator, name: str) -> Receptacle:
    """Return a receptacle where it is: a drawer's surface comes out with the drawer."""
    receptacle = sim.scene.receptacle(name)
    joints = {receptacle.articulation: sim.joint_pos(receptacle.articulation)} if receptacle.articulation else {}
    return moved_receptacle(sim.scene, name, joints)


def resting_place(sim: Simulator) -> tuple[float, float, float]:
    """Return where in the world the end-effector rests."""
    x, y, yaw = sim.base.tolist()
    ahead, left, up = REST_EE_BASE.tolist()
    cos, sin = math.cos(yaw), math.sin(yaw)
    return x + cos * ahead - sin * left, y + sin * ahead + cos * left, up


def _crossing(start: float, before: float, end: float, behind: float) -> float:
    """Return where a straight line from start to end is after `before` of `before + behind`."""
    return start + (end - start) * before / (before + behind)


def _clamped(value: float, low: float, high: float) -> float:
    return max(low, min(high, value))
