"""The way to a goal on a map that the robot draws as it goes: from its range sensors, its odometry and where its hand
is, if that holds anything; and from what a planner marks there."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray
from skimage.graph import MCP_Geometric

from hab import robot

CELL_M, CELLS = 0.1, 320
"""The map is square, about where it was begun."""
HIT_COST, NEAR_COST, CLOSE_COST = 200.0, 20.0, 3.0
"""What a step costs over something seen (or between two such cells), within the robot's radius of it, and within the
resting arm's; free: 1."""
BLOCKED_COST = 200.0
"""… and where it has been tried in vain."""
BODY_M, ARM_M = 0.30, 0.55
GOAL_M, GOAL_HIT_COST, GOAL_NEAR_COST = 0.8, 8.0, 3.0
"""The goal lies on or in something: so near to it that costs less, if the head has seen over it. A wall, over which
nobody sees, costs as much as anywhere: what lies on the other side of it is not to be worked at from here."""
LOW_M, HIGH_M = 0.10, 1.30
"""Heights between which what the head sees stands in the way."""
BEFORE_M = 0.3
"""So far before what it meets, a ray still tells what it passes over."""
HAND_M, HAND_LOW_M = 0.8, 0.6
"""So near and so high it is what the resting hand holds, …"""
HELD_M = 0.25
"""… and so is what is so near to a hand that holds anything."""
NO_HAND = (math.inf, math.inf, math.inf)
"""Where a hand is that holds nothing."""
PLAN_EVERY = 3
"""Readings from one plan to the next."""
MOVED_M, TURNED_RAD = 0.01, 0.02
LOOK_AHEAD_M = (0.5, 1.2)
ROUTE_SIZE = 2 * len(LOOK_AHEAD_M) + 1


def _disc(radius_m: float) -> NDArray[np.intp]:
    """Return the cells (n, 2) within a distance of the middle one."""
    reach = math.ceil(radius_m / CELL_M)
    i, j = np.mgrid[-reach : reach + 1, -reach : reach + 1].reshape(2, -1)
    inside = np.hypot(i, j) * CELL_M <= radius_m
    return np.stack((i[inside], j[inside]), axis=1)


_GOAL_CELLS = math.ceil(GOAL_M / CELL_M)
_BODY, _ARM = _disc(BODY_M), _disc(ARM_M)
_MARGIN = 7
"""Cells along the map's edges that nothing is drawn into."""
_LASER_X, _HEAD_X, _HEAD_Z = float(robot.LASER_POS[0]), float(robot.HEAD_CAMERA_POS[0]), float(robot.HEAD_CAMERA_POS[2])
_LASER_COS, _LASER_SIN = np.cos(robot.LASER_YAWS_RAD), np.sin(robot.LASER_YAWS_RAD)
_HEAD_UP, _HEAD_FLAT = np.sin(robot.HEAD_SCAN_RAY_PITCHES_RAD), np.cos(robot.HEAD_SCAN_RAY_PITCHES_RAD)
_HEAD_COS, _HEAD_SIN = np.cos(robot.HEAD_SCAN_RAY_YAWS_RAD), np.sin(robot.HEAD_SCAN_RAY_YAWS_RAD)
_LASER_MAX_M, _HEAD_MAX_M = np.float32(robot.LASER_MAX_M), np.float32(robot.HEAD_SCAN_MAX_M)
_NEAR = np.float32(0.999)
"""A range, as a share of the longest, beyond which nothing was met."""
_UNKNOWN = np.float32(robot.UNKNOWN_RANGE)


@njit("UniTuple(float64, 2)(UniTuple(float64, 3), float64, float64)", cache=True)
def on_map(pose: tuple[float, float, float], ahead: float, left: float) -> tuple[float, float]:
    """Return where on the map (x, y; m) is what is so far ahead and left (m) of a base pose (m, m, rad) on it."""
    x, y, yaw = pose
    cos, sin = math.cos(yaw), math.sin(yaw)
    return x + cos * ahead - sin * left, y + sin * ahead + cos * left


@njit("int64(float64)", cache=True)
def _cell(m: float) -> int:
    return int(math.floor(m / CELL_M)) + CELLS // 2


@njit("boolean(int64, int64)", cache=True)
def _drawable(i: int, j: int) -> bool:
    return min(i, j) >= _MARGIN and max(i, j) < CELLS - _MARGIN


class LaserMap:
    """An occupancy grid in the frame of the pose at which it was begun; what nobody has seen counts as free."""

    def __init__(self, room_m: float) -> None:
        """Take how far (m) beyond a way's two ends it may lead."""
        self._room = math.ceil(room_m / CELL_M)
        self._cost = np.ones((CELLS, CELLS))
        self._seen = np.zeros((CELLS, CELLS), dtype=bool)
        self._over = np.zeros((CELLS, CELLS), dtype=bool)
        self._bounds = np.array([CELLS // 2, CELLS // 2, CELLS // 2, CELLS // 2])
        self._path: NDArray[np.float64] | None = None
        self._goal = (math.inf, math.inf)
        self._readings = 0
        self._pose = (math.inf, math.inf, math.inf)

    def read(
        self,
        x: float,
        y: float,
        yaw: float,
        laser: NDArray[np.float32],
        head_scan: NDArray[np.float32],
        hand: tuple[float, float, float] | None = None,
    ) -> None:
        """Draw what the laser and the head (ranges as in sensors.py) see from a pose (m, rad, the map's frame), if it
        is not where they were read last.

        hand: the end-effector (base frame, m) if it holds anything: what the head sees there is not drawn.
        """
        if math.dist((x, y), self._pose[:2]) < MOVED_M and abs(yaw - self._pose[2]) < TURNED_RAD:
            return
        self._pose = (x, y, yaw)
        self._readings += 1
        pose, hand = (x, y, yaw), hand or NO_HAND
        _draw(pose, hand, laser, head_scan, self._seen, self._over, self._cost, self._bounds)

    def mark(self, points: NDArray[np.float64]) -> None:
        """Draw that something is known to be at points (n, 2) (m, the map's frame); as what is seen, it stays."""
        for x, y in points.tolist():
            _mark(x, y, self._seen, self._cost, self._bounds)
        self._path = None

    def route(self, x: float, y: float, yaw: float, goal: tuple[float, float]) -> NDArray[np.float32]:
        """Return sine and cosine of the heading (rad, left positive) to the points `LOOK_AHEAD_M` along the way to a
        goal (m, the map's frame), and the way's length (m)."""
        if self._path is None or self._readings >= PLAN_EVERY or math.dist(goal, self._goal) > CELL_M:
            self._path, self._readings, self._goal = self._plan((x, y), goal), 0, goal
        return _ahead(self._path, x, y, yaw)

    def block(self) -> None:
        """Take note that the robot has not got through along the way that `route` told last: so far ahead as the robot
        looks twice, where that is within its radius of something seen, and not yet at the goal, it costs more from now
        on, and so does what is beside it."""
        tried = np.zeros_like(self._seen)
        for x, y in [] if self._path is None else self._path[: round(2.0 * LOOK_AHEAD_M[-1] / CELL_M)].tolist():
            i, j = _cell(x), _cell(y)
            if math.dist((x, y), self._goal) > GOAL_M and self._cost[i, j] >= NEAR_COST:
                tried[i + _BODY[:, 0], j + _BODY[:, 1]] = True
        self._cost[tried] += BLOCKED_COST
        self._path = None

    def _plan(self, start: tuple[float, float], goal: tuple[float, float]) -> NDArray[np.float64]:
        """Return the cheapest way (N, 2), over cells' centres."""
        i, j, goal_i, goal_j = (min(max(_cell(m), _MARGIN), CELLS - 1 - _MARGIN) for m in (*start, *goal))
        cost, top, left = _window(self._cost, self._seen, self._over, self._bounds, i, j, goal_i, goal_j, self._room)
        search = MCP_Geometric(cost, fully_connected=True)
        end = goal_i - top, goal_j - left
        search.find_costs([(i - top, j - left)], [end])
        cells = np.array(search.traceback(end)) + (top, left)
        return (cells - CELLS // 2 + 0.5) * CELL_M


@njit("void(UniTuple(float64, 3), int64, float64, boolean[:, ::1])", cache=True)
def _see_over(pose: tuple[float, float, float], ray: int, until_m: float, over: NDArray[np.bool_]) -> None:
    """Note the cells that a ray of the head passes over, up to a distance along the floor."""
    passed = HAND_M
    while passed < until_m:
        x, y = on_map(pose, _HEAD_X + passed * _HEAD_COS[ray], passed * _HEAD_SIN[ray])
        i, j = _cell(x), _cell(y)
        if _drawable(i, j):
            over[i, j] = True
        passed += 0.5 * CELL_M


@njit("void(float64, float64, boolean[:, ::1], float64[:, ::1], int64[::1])", cache=True)
def _mark(x: float, y: float, seen: NDArray[np.bool_], cost: NDArray[np.float64], bounds: NDArray[np.int64]) -> None:
    """Note that something is at a point (m, the map's frame), and what that makes the cells around it cost."""
    i, j = _cell(x), _cell(y)
    if not _drawable(i, j) or seen[i, j]:
        return
    seen[i, j] = True
    for disc, price in ((_ARM, CLOSE_COST), (_BODY, NEAR_COST)):
        for n in range(len(disc)):
            near_i, near_j = i + disc[n, 0], j + disc[n, 1]
            cost[near_i, near_j] = max(cost[near_i, near_j], price)
    cost[i, j] = max(cost[i, j], HIT_COST)
    # Where two cells of a wall touch by their corners alone, no way leads between them.
    for side_i in (i - 1, i + 1):
        for side_j in (j - 1, j + 1):
            if seen[side_i, side_j] and not seen[side_i, j] and not seen[i, side_j]:
                cost[side_i, j] = max(cost[side_i, j], HIT_COST)
    bounds[0], bounds[1] = min(bounds[0], i), min(bounds[1], j)
    bounds[2], bounds[3] = max(bounds[2], i), max(bounds[3], j)


@njit(
    "void(UniTuple(float64, 3), UniTuple(float64, 3), float32[::1], float32[::1], boolean[:, ::1], boolean[:, ::1], "
    "float64[:, ::1], int64[::1])",
    cache=True,
)
def _draw(
    pose: tuple[float, float, float],
    hand: tuple[float, float, float],
    laser: NDArray[np.float32],
    head_scan: NDArray[np.float32],
    seen: NDArray[np.bool_],
    over: NDArray[np.bool_],
    cost: NDArray[np.float64],
    bounds: NDArray[np.int64],
) -> None:
    """Note what was met in the cells seen, what that makes the cells around it cost, and what the head sees over."""
    rays = len(laser)
    for ray in range(rays + len(head_scan)):
        if ray < rays:
            if laser[ray] >= _NEAR or laser[ray] == _UNKNOWN:
                continue
            away = np.float64(laser[ray] * _LASER_MAX_M)
            ahead, left = _LASER_X + away * _LASER_COS[ray], away * _LASER_SIN[ray]
        else:
            k = ray - rays
            away = np.float64(head_scan[k] * _HEAD_MAX_M)
            height, flat = _HEAD_Z + away * _HEAD_UP[k], away * _HEAD_FLAT[k]
            if head_scan[k] != _UNKNOWN and _HEAD_UP[k] <= 0.0:
                _see_over(pose, k, flat - BEFORE_M, over)
            ahead, left = _HEAD_X + flat * _HEAD_COS[k], flat * _HEAD_SIN[k]
            off_hand = math.sqrt((ahead - hand[0]) ** 2 + (left - hand[1]) ** 2 + (height - hand[2]) ** 2)
            in_hand = off_hand < HELD_M or (height > HAND_LOW_M and flat + _HEAD_X < HAND_M)
            if head_scan[k] == _UNKNOWN or head_scan[k] >= _NEAR or height <= LOW_M or height >= HIGH_M or in_hand:
                continue
        met_x, met_y = on_map(pose, ahead, left)
        _mark(met_x, met_y, seen, cost, bounds)


@njit("float32[::1](float64[:, ::1], float64, float64, float64)", cache=True)
def _ahead(path: NDArray[np.float64], x: float, y: float, yaw: float) -> NDArray[np.float32]:
    """Return what `LaserMap.route` does, for a way (N, 2)."""
    here, least = 0, math.inf
    for i in range(len(path)):
        away = math.hypot(path[i, 0] - x, path[i, 1] - y)
        if away < least:
            here, least = i, away
    told = np.empty(ROUTE_SIZE, np.float32)
    length, found = 0.0, 0
    for i in range(here, len(path)):
        if i > here:
            length += math.hypot(path[i, 0] - path[i - 1, 0], path[i, 1] - path[i - 1, 1])
        while found < len(LOOK_AHEAD_M) and (length >= LOOK_AHEAD_M[found] or i == len(path) - 1):
            heading = math.atan2(path[i, 1] - y, path[i, 0] - x) - yaw
            told[2 * found], told[2 * found + 1] = math.sin(heading), math.cos(heading)
            found += 1
    told[-1] = length
    return told


@njit(
    "Tuple((float64[:, ::1], int64, int64))(float64[:, ::1], boolean[:, ::1], boolean[:, ::1], int64[::1], int64, "
    "int64, int64, int64, int64)",
    cache=True,
)
def _window(
    cost: NDArray[np.float64],
    seen: NDArray[np.bool_],
    over: NDArray[np.bool_],
    bounds: NDArray[np.int64],
    i: int,
    j: int,
    goal_i: int,
    goal_j: int,
    room: int,
) -> tuple[NDArray[np.float64], int, int]:
    """Return the costs of the part of the map that a way may lead through, cheaper at the goal, and its first cell."""
    low_i, low_j, high_i, high_j = min(i, goal_i), min(j, goal_j), max(i, goal_i), max(j, goal_j)
    top = max(max(min(bounds[0], low_i) - _MARGIN, 0), low_i - room)
    left = max(max(min(bounds[1], low_j) - _MARGIN, 0), low_j - room)
    bottom = min(min(max(bounds[2], high_i) + 1 + _MARGIN, CELLS), high_i + room + 1)
    right = min(min(max(bounds[3], high_j) + 1 + _MARGIN, CELLS), high_j + room + 1)
    part = cost[top:bottom, left:right].copy()
    goal_i, goal_j = goal_i - top, goal_j - left
    for k in range(max(goal_i - _GOAL_CELLS, 0), min(goal_i + _GOAL_CELLS + 1, part.shape[0])):
        for n in range(max(goal_j - _GOAL_CELLS, 0), min(goal_j + _GOAL_CELLS + 1, part.shape[1])):
            if math.hypot(k - goal_i, n - goal_j) * CELL_M < GOAL_M:
                if part[k, n] < HIT_COST or not seen[top + k, left + n]:
                    part[k, n] = min(part[k, n], GOAL_NEAR_COST)
                elif over[top + k, left + n]:
                    part[k, n] = GOAL_HIT_COST
    return part, top, left
