"""The way to a goal on a map that the robot draws as it goes: from its range sensors and its odometry, nothing else."""

from __future__ import annotations

import math
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from skimage.graph import MCP_Geometric

from hab import robot

CELL_M, CELLS = 0.1, 240
"""The map is square, about where it was begun."""
HIT_COST, NEAR_COST, CLOSE_COST = 200.0, 20.0, 3.0
"""What a step costs over something seen, within the robot's radius of it, and within the resting arm's; free: 1."""
BODY_M, ARM_M = 0.30, 0.55
GOAL_M, GOAL_HIT_COST, GOAL_NEAR_COST = 0.8, 8.0, 3.0
"""The goal lies on or in something: so near to it that costs less."""
LOW_M, HIGH_M = 0.10, 1.30
"""Heights between which what the head sees stands in the way."""
HAND_M, HAND_LOW_M = 0.8, 0.6
"""So near and so high it is what the resting hand holds."""
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


Plane = TypeVar("Plane", float, NDArray[np.float64])
_GOAL_CELLS = math.ceil(GOAL_M / CELL_M)
_CELL, _BODY, _ARM = _disc(0.0), _disc(BODY_M), _disc(ARM_M)


def on_map(pose: tuple[float, float, float], ahead: Plane, left: Plane) -> tuple[Plane, Plane]:
    """Return where on the map (x, y; m) is what is so far ahead and left (m) of a base pose (m, m, rad) on it."""
    x, y, yaw = pose
    cos, sin = math.cos(yaw), math.sin(yaw)
    return x + cos * ahead - sin * left, y + sin * ahead + cos * left


class LaserMap:
    """An occupancy grid in the frame of the pose at which it was begun; what nobody has seen counts as free."""

    def __init__(self, room_m: float) -> None:
        """Take how far (m) beyond a way's two ends it may lead."""
        self._room = math.ceil(room_m / CELL_M)
        self._cost = np.ones((CELLS, CELLS))
        self._seen = np.zeros((CELLS, CELLS), dtype=bool)
        self._bounds = np.array([CELLS // 2, CELLS // 2, CELLS // 2, CELLS // 2])
        self._path: NDArray[np.float64] | None = None
        self._readings = 0
        self._pose = (math.inf, math.inf, math.inf)

    def read(
        self,
        x: float,
        y: float,
        yaw: float,
        laser: NDArray[np.float32],
        head_scan: NDArray[np.float32],
    ) -> None:
        """Draw what the laser and the head (ranges as in sensors.py) see from a pose (m, rad, the map's frame), if it
        is not where they were read last."""
        if math.dist((x, y), self._pose[:2]) < MOVED_M and abs(yaw - self._pose[2]) < TURNED_RAD:
            return
        self._pose = (x, y, yaw)
        self._readings += 1
        far = laser * robot.LASER_MAX_M
        near = laser < 0.999
        ranges, angles = far[near], robot.LASER_YAWS_RAD[near]
        points = [
            np.stack(
                (robot.LASER_POS[0] + ranges * np.cos(angles), robot.LASER_POS[1] + ranges * np.sin(angles)), axis=1
            )
        ]
        ranges = head_scan * robot.HEAD_SCAN_MAX_M
        height = robot.HEAD_CAMERA_POS[2] + ranges * np.sin(robot.HEAD_SCAN_RAY_PITCHES_RAD)
        flat = ranges * np.cos(robot.HEAD_SCAN_RAY_PITCHES_RAD)
        in_hand = (height > HAND_LOW_M) & (flat + robot.HEAD_CAMERA_POS[0] < HAND_M)
        seen = (head_scan < 0.999) & (height > LOW_M) & (height < HIGH_M) & ~in_hand
        flat, yaws = flat[seen], robot.HEAD_SCAN_RAY_YAWS_RAD[seen]
        points.append(np.stack((robot.HEAD_CAMERA_POS[0] + flat * np.cos(yaws), flat * np.sin(yaws)), axis=1))
        cells = self._cells(np.stack(on_map((x, y, yaw), *np.concatenate(points).T), axis=1))
        cells = cells[((cells > 6) & (cells < CELLS - 7)).all(axis=1)]
        flat_new = np.unique((cells @ (CELLS, 1))[~self._seen[cells[:, 0], cells[:, 1]]])  # far faster than of rows
        if len(flat_new):
            new = np.stack(np.divmod(flat_new, CELLS), axis=1)
            self._seen[new[:, 0], new[:, 1]] = True
            for disc, cost in ((_ARM, CLOSE_COST), (_BODY, NEAR_COST), (_CELL, HIT_COST)):
                at = (new[:, None, :] + disc[None]).reshape(-1, 2)
                self._cost[at[:, 0], at[:, 1]] = np.maximum(self._cost[at[:, 0], at[:, 1]], cost)
            self._bounds[:2] = np.minimum(self._bounds[:2], new.min(0))
            self._bounds[2:] = np.maximum(self._bounds[2:], new.max(0))

    def route(self, x: float, y: float, yaw: float, goal: tuple[float, float]) -> NDArray[np.float32]:
        """Return sine and cosine of the heading (rad, left positive) to the points `LOOK_AHEAD_M` along the way to a
        goal (m, the map's frame), and the way's length (m)."""
        if self._path is None or self._readings >= PLAN_EVERY:
            self._path, self._readings = self._plan((x, y), goal), 0
        path = self._path
        here = int(np.argmin(np.hypot(path[:, 0] - x, path[:, 1] - y)))
        steps = np.hypot(*np.diff(path[here:], axis=0).T)
        along = np.concatenate([[0.0], np.cumsum(steps)])
        told: list[float] = []
        for ahead in LOOK_AHEAD_M:
            px, py = path[here + min(int(np.searchsorted(along, ahead)), len(along) - 1)]
            heading = math.atan2(py - y, px - x) - yaw
            told += [math.sin(heading), math.cos(heading)]
        return np.array([*told, along[-1]], dtype=np.float32)

    def _cells(self, points: NDArray[np.float64]) -> NDArray[np.intp]:
        return np.floor(points / CELL_M).astype(np.intp) + CELLS // 2

    def _plan(self, start: tuple[float, float], goal: tuple[float, float]) -> NDArray[np.float64]:
        """Return the cheapest way (N, 2), over cells' centres."""
        ends = np.clip(self._cells(np.array([start, goal])), 7, CELLS - 8)
        low = np.maximum(np.minimum(self._bounds[:2], ends.min(0)) - 7, 0)
        low = np.maximum(low, ends.min(0) - self._room)
        high = np.minimum(np.maximum(self._bounds[2:], ends.max(0)) + 8, CELLS)
        high = np.minimum(high, ends.max(0) + self._room + 1)
        cost = self._cost[low[0] : high[0], low[1] : high[1]].copy()
        first, last = ends - low
        (top, left), reach = np.maximum(last - _GOAL_CELLS, 0), _GOAL_CELLS + 1
        window = cost[top : last[0] + reach, left : last[1] + reach]
        i, j = np.ogrid[top : top + window.shape[0], left : left + window.shape[1]]
        around = np.hypot(i - last[0], j - last[1]) * CELL_M < GOAL_M
        close = window[around]
        window[around] = np.where(close >= HIT_COST, GOAL_HIT_COST, np.minimum(close, GOAL_NEAR_COST))
        search = MCP_Geometric(cost, fully_connected=True)
        search.find_costs([tuple(first)], [tuple(last)])
        cells = np.array(search.traceback(tuple(last))) + low
        return (cells - CELLS // 2 + 0.5) * CELL_M
