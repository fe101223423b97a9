"""What hab/mapping.py, hab/nearby.py, hab/sensors.py and hab/navgrid.py work out in compiled loops, as they did it
before, with numpy: slow, and the reference that the compiled code has to equal."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray
from skimage.graph import MCP_Geometric

from hab import robot
from hab.mapping import (
    ARM_M,
    BODY_M,
    CELL_M,
    CELLS,
    CLOSE_COST,
    GOAL_HIT_COST,
    GOAL_M,
    GOAL_NEAR_COST,
    HAND_LOW_M,
    HIT_COST,
    LOOK_AHEAD_M,
    MOVED_M,
    NEAR_COST,
    PLAN_EVERY,
    TURNED_RAD,
)
from hab.mapping import HAND_M as MAP_HAND_M
from hab.mapping import HIGH_M as MAP_HIGH_M
from hab.mapping import LOW_M as MAP_LOW_M
from hab.nearby import (
    ASIDE_M,
    BOARD_M,
    BOARDS_M,
    HAND_M,
    HIGH_M,
    KEPT,
    LAYER_M,
    LOW_M,
    LOWEST_M,
    RIMS_M,
    SURFACE_M,
)
from hab.simulator import Simulator

VOXEL_M = 0.03
Pose = tuple[float, float, float]


def disc(radius_m: float) -> NDArray[np.intp]:
    reach = math.ceil(radius_m / CELL_M)
    i, j = np.mgrid[-reach : reach + 1, -reach : reach + 1].reshape(2, -1)
    inside = np.hypot(i, j) * CELL_M <= radius_m
    return np.stack((i[inside], j[inside]), axis=1)


def on_map(
    pose: Pose, ahead: NDArray[np.float64], left: NDArray[np.float64]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    x, y, yaw = pose
    cos, sin = math.cos(yaw), math.sin(yaw)
    return x + cos * ahead - sin * left, y + sin * ahead + cos * left


class LaserMap:
    def __init__(self, room_m: float) -> None:
        self.room = math.ceil(room_m / CELL_M)
        self.cost = np.ones((CELLS, CELLS))
        self.seen = np.zeros((CELLS, CELLS), dtype=bool)
        self.bounds = np.array([CELLS // 2] * 4)
        self.path: NDArray[np.float64] | None = None
        self.readings = 0
        self.pose: Pose = (math.inf, math.inf, math.inf)

    def read(self, x: float, y: float, yaw: float, laser: NDArray[np.float32], head_scan: NDArray[np.float32]) -> None:
        if math.dist((x, y), self.pose[:2]) < MOVED_M and abs(yaw - self.pose[2]) < TURNED_RAD:
            return
        self.pose, self.readings = (x, y, yaw), self.readings + 1
        near = laser < 0.999
        ranges, angles = (laser * robot.LASER_MAX_M)[near], robot.LASER_YAWS_RAD[near]
        points = [
            np.stack(
                (robot.LASER_POS[0] + ranges * np.cos(angles), robot.LASER_POS[1] + ranges * np.sin(angles)), axis=1
            )
        ]
        ranges = head_scan * robot.HEAD_SCAN_MAX_M
        height = robot.HEAD_CAMERA_POS[2] + ranges * np.sin(robot.HEAD_SCAN_RAY_PITCHES_RAD)
        flat = ranges * np.cos(robot.HEAD_SCAN_RAY_PITCHES_RAD)
        in_hand = (height > HAND_LOW_M) & (flat + robot.HEAD_CAMERA_POS[0] < MAP_HAND_M)
        seen = (head_scan < 0.999) & (height > MAP_LOW_M) & (height < MAP_HIGH_M) & ~in_hand
        flat, yaws = flat[seen], robot.HEAD_SCAN_RAY_YAWS_RAD[seen]
        points.append(np.stack((robot.HEAD_CAMERA_POS[0] + flat * np.cos(yaws), flat * np.sin(yaws)), axis=1))
        cells = self.cells(np.stack(on_map((x, y, yaw), *np.concatenate(points).T), axis=1))
        cells = cells[((cells > 6) & (cells < CELLS - 7)).all(axis=1)]
        new = np.unique(cells[~self.seen[cells[:, 0], cells[:, 1]]], axis=0)
        if len(new):
            self.seen[new[:, 0], new[:, 1]] = True
            for around, cost in ((disc(ARM_M), CLOSE_COST), (disc(BODY_M), NEAR_COST), (disc(0.0), HIT_COST)):
                at = (new[:, None, :] + around[None]).reshape(-1, 2)
                self.cost[at[:, 0], at[:, 1]] = np.maximum(self.cost[at[:, 0], at[:, 1]], cost)
            self.bounds[:2] = np.minimum(self.bounds[:2], new.min(0))
            self.bounds[2:] = np.maximum(self.bounds[2:], new.max(0))

    def route(self, x: float, y: float, yaw: float, goal: tuple[float, float]) -> NDArray[np.float32]:
        if self.path is None or self.readings >= PLAN_EVERY:
            self.path, self.readings = self.plan((x, y), goal), 0
        path = self.path
        here = int(np.argmin(np.hypot(path[:, 0] - x, path[:, 1] - y)))
        steps = np.hypot(*np.diff(path[here:], axis=0).T)
        along = np.concatenate([[0.0], np.cumsum(steps)])
        told: list[float] = []
        for ahead in LOOK_AHEAD_M:
            px, py = path[here + min(int(np.searchsorted(along, ahead)), len(along) - 1)]
            heading = math.atan2(py - y, px - x) - yaw
            told += [math.sin(heading), math.cos(heading)]
        return np.array([*told, along[-1]], dtype=np.float32)

    def cells(self, points: NDArray[np.float64]) -> NDArray[np.intp]:
        return np.floor(points / CELL_M).astype(np.intp) + CELLS // 2

    def plan(self, start: tuple[float, float], goal: tuple[float, float]) -> NDArray[np.float64]:
        ends = np.clip(self.cells(np.array([start, goal])), 7, CELLS - 8)
        low = np.maximum(np.minimum(self.bounds[:2], ends.min(0)) - 7, 0)
        low = np.maximum(low, ends.min(0) - self.room)
        high = np.minimum(np.maximum(self.bounds[2:], ends.max(0)) + 8, CELLS)
        high = np.minimum(high, ends.max(0) + self.room + 1)
        cost = self.cost[low[0] : high[0], low[1] : high[1]].copy()
        first, last = ends - low
        i, j = np.ogrid[: cost.shape[0], : cost.shape[1]]
        around = np.hypot(i - last[0], j - last[1]) * CELL_M < GOAL_M
        close = cost[around]
        cost[around] = np.where(close >= HIT_COST, GOAL_HIT_COST, np.minimum(close, GOAL_NEAR_COST))
        search = MCP_Geometric(cost, fully_connected=True)
        search.find_costs([tuple(first)], [tuple(last)])
        return (np.array(search.traceback(tuple(last))) + low - CELLS // 2 + 0.5) * CELL_M


class Nearby:
    def __init__(self) -> None:
        self.offsets = np.zeros((KEPT, 3))
        self.voxels: set[tuple[int, ...]] = set()
        self.layers = np.zeros((2, round(LOWEST_M / LAYER_M)))

    def read(
        self,
        head_scan: NDArray[np.float32],
        pose: Pose,
        place: NDArray[np.float64],
        full_hand: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float32]:
        yaws, pitches = robot.HEAD_SCAN_RAY_YAWS_RAD, robot.HEAD_SCAN_RAY_PITCHES_RAD
        rays = np.stack((np.cos(pitches) * np.cos(yaws), np.cos(pitches) * np.sin(yaws), np.sin(pitches)), axis=1)
        seen = robot.HEAD_CAMERA_POS + rays * (head_scan * np.float64(robot.HEAD_SCAN_MAX_M))[:, None]
        offsets = np.stack((*on_map(pose, seen[:, 0], seen[:, 1]), seen[:, 2]), axis=1) - place
        hits = head_scan < 0.999
        if full_hand is not None:
            hits &= np.linalg.norm(offsets - (full_hand - place), axis=1) > HAND_M
        offsets = offsets[hits]
        under = np.hypot(offsets[:, 0], offsets[:, 1]) < SURFACE_M
        heights = offsets[under & (offsets[:, 2] < -LAYER_M) & (offsets[:, 2] > -LOWEST_M), 2]
        layers = (-heights / LAYER_M).astype(int)
        np.add.at(self.layers[0], layers, 1.0)
        np.add.at(self.layers[1], layers, heights)
        near = (offsets[:, 2] > LOW_M) & (offsets[:, 2] < HIGH_M)
        near &= np.abs(offsets[:, :2]).max(axis=1) < BOARDS_M[-1][1]
        for offset, cell in zip(offsets[near], np.floor(offsets[near] / VOXEL_M).astype(int).tolist(), strict=True):
            if tuple(cell) not in self.voxels and len(self.voxels) < KEPT:
                self.offsets[len(self.voxels)] = offset
                self.voxels.add(tuple(cell))
        return self.told(math.atan2(pose[1] - place[1], pose[0] - place[0]))

    def told(self, to_robot: float) -> NDArray[np.float32]:
        told = np.array([HIGH_M] * len(BOARDS_M) + [0.0] * (len(RIMS_M) + 1), np.float32)
        layer = int(np.argmax(self.layers[0]))
        if self.layers[0, layer]:
            told[-1] = self.layers[1, layer] / self.layers[0, layer]
        forward, left, up = self.offsets[: len(self.voxels)].T
        along = forward * math.cos(to_robot) + left * math.sin(to_robot)
        before = np.abs(left * math.cos(to_robot) - forward * math.sin(to_robot)) < ASIDE_M
        board = before & (up > BOARD_M)
        for i, (start, end) in enumerate(BOARDS_M):
            told[i] = up[board & (along >= start) & (along < end)].min(initial=HIGH_M)
        for i, (start, end) in enumerate(RIMS_M, len(BOARDS_M)):
            told[i] = up[before & ~board & (along >= start) & (along < end)].max(initial=0.0)
        return told


def readings(sim: Simulator, points: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
    """What `sensors.sense` tells, from rotation matrices and complex numbers."""
    x, y, yaw = sim.base
    turn = np.array([[math.cos(yaw), -math.sin(yaw), 0.0], [math.sin(yaw), math.cos(yaw), 0.0], [0.0, 0.0, 1.0]])
    ee = turn.T @ (sim.ee_pos - (x, y, 0.0))
    seen = ((points[:, 0] + 1j * points[:, 1]) - complex(x, y)) * np.exp(-1j * yaw)
    return {
        "joint": sim.arm,
        "is_holding": np.array([float(sim.held != "")]),
        "ee_pos": ee,
        "relative_resting_position": robot.REST_EE_BASE - ee,
        "in_ee": ((points - sim.ee_pos) @ sim.ee_mat).reshape(-1),
        "polar": np.stack((np.abs(seen), -np.angle(seen)), axis=1).reshape(-1),
    }


def box_distance(
    xs: NDArray[np.float32], ys: NDArray[np.float32], cx: float, cy: float, yaw: float, hx: float, hy: float
) -> NDArray[np.float32]:
    """Distance (m) of every cell's centre from a rectangle on the floor; negative inside."""
    c, s = np.float32(math.cos(yaw)), np.float32(math.sin(yaw))
    dx, dy = xs[None, :] - np.float32(cx), ys[:, None] - np.float32(cy)
    u = np.abs(c * dx + s * dy) - np.float32(hx)
    v = np.abs(c * dy - s * dx) - np.float32(hy)
    return np.hypot(np.maximum(u, 0), np.maximum(v, 0)) + np.minimum(np.maximum(u, v), 0)
