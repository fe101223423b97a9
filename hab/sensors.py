"""Observations with habitat-lab's keys, shapes, units and frames (docs/hab.md, "Observations").

What a sensor reads is a function of the simulator's state; positions are metres in the base or the end-effector frame.
All that is not a range or an image is worked out by compiled functions, one call a control step, into one row of which
the observations are views.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np
from gymnasium import spaces
from numba import njit
from numpy.typing import NDArray

from hab import robot
from hab.observation_sets import DEPTH, exteroception_shapes
from hab.simulator import Simulator

Observation = dict[str, NDArray[np.float32]]
Spans = dict[str, slice]
"""Where in a row an observation lies."""


def _spans(sizes: Mapping[str, int]) -> Spans:
    ends = np.cumsum(list(sizes.values())).tolist()
    return {key: slice(end - size, end) for (key, size), end in zip(sizes.items(), ends, strict=True)}


SENSED = _spans({"joint": 7, "is_holding": 1, "ee_pos": 3, "relative_resting_position": 3})
"""The row of `sense`: arm joint positions (rad), whether the suction holds something, the end-effector, base frame, and
how far it is from where it rests, base frame."""
SIZE = SENSED["relative_resting_position"].stop
_REST_X, _REST_Y, _REST_Z = robot.REST_EE_BASE.tolist()


def exteroception_space(observation_set: str) -> dict[str, spaces.Box]:
    """Return the keys and spaces of an observation set's exteroceptive sensors, all in [0, 1]."""
    return {
        key: spaces.Box(0.0, 1.0, shape, np.float32) for key, shape in exteroception_shapes(observation_set).items()
    }


def vector_space(size: int) -> spaces.Box:
    return spaces.Box(-np.inf, np.inf, (size,), np.float32)


class RobotPose:
    """Where the robot is, read once a control step for all that is asked of it."""

    __slots__ = ("cos", "ee", "ee_mat", "ee_world", "sin", "x", "y", "yaw")

    def __init__(self, sim: Simulator) -> None:
        self.x, self.y, self.yaw = sim.base.tolist()
        self.cos, self.sin = math.cos(self.yaw), math.sin(self.yaw)
        self.ee_world, self.ee_mat = sim.ee_pos, sim.ee_mat
        ex, ey, ez = self.ee_world.tolist()
        dx, dy = ex - self.x, ey - self.y
        self.ee = (self.cos * dx + self.sin * dy, self.cos * dy - self.sin * dx, ez)
        """End-effector position, base frame (m)."""


def exteroception(sim: Simulator, observation_set: str) -> Observation:
    if observation_set == DEPTH:
        return {"head_depth": sim.depth()}
    return {"laser": sim.laser(), "head_scan": sim.head_scan()}


def in_ee_frame(pose: RobotPose, positions: NDArray[np.float64]) -> NDArray[np.float32]:
    """(n, 3) world positions -> (3 n,) in the end-effector frame."""
    return ((positions - pose.ee_world) @ pose.ee_mat).astype(np.float32).reshape(-1)


def in_base_frame(pose: RobotPose, position: NDArray[np.float64]) -> tuple[float, float, float]:
    """World position (3,) -> base frame."""
    x, y, z = position.tolist()
    dx, dy = x - pose.x, y - pose.y
    return pose.cos * dx + pose.sin * dy, pose.cos * dy - pose.sin * dx, z


def sense(sim: Simulator, points: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the row that `SENSED` names, and behind it of n world positions (n, 3), all of
    them in the end-effector frame (3 n), then distance (m) and heading (rad, positive to the right: habitat-lab's sign)
    from the base (2 n)."""
    row = np.empty(SIZE + 5 * len(points), np.float32)
    _sense(sim.base, sim.arm, sim.ee_pos, sim.ee_mat, bool(sim.held), points, row)
    return row


@njit(
    "void(float64[::1], float64[::1], float64[::1], float64[:, ::1], boolean, float64[:, ::1], float32[::1])",
    cache=True,
)
def _sense(
    base: NDArray[np.float64],
    arm: NDArray[np.float64],
    ee: NDArray[np.float64],
    ee_mat: NDArray[np.float64],
    holding: bool,
    points: NDArray[np.float64],
    row: NDArray[np.float32],
) -> None:
    cos, sin = math.cos(base[2]), math.sin(base[2])
    row[:7] = arm.astype(np.float32)
    row[7] = 1.0 if holding else 0.0
    dx, dy = ee[0] - base[0], ee[1] - base[1]
    ahead, left = cos * dx + sin * dy, cos * dy - sin * dx
    row[8], row[9], row[10] = ahead, left, ee[2]
    row[11], row[12], row[13] = _REST_X - ahead, _REST_Y - left, _REST_Z - ee[2]
    polar = SIZE + 3 * len(points)
    for i in range(len(points)):
        x, y, z = points[i, 0], points[i, 1], points[i, 2]
        for j in range(3):
            row[SIZE + 3 * i + j] = (x - ee[0]) * ee_mat[0, j] + (y - ee[1]) * ee_mat[1, j] + (z - ee[2]) * ee_mat[2, j]
        dx, dy = x - base[0], y - base[1]
        row[polar + 2 * i] = math.hypot(dx, dy)
        row[polar + 2 * i + 1] = -math.atan2(cos * dy - sin * dx, cos * dx + sin * dy)


def localization(sim: Simulator) -> NDArray[np.float32]:
    """(4,) base x, y (m) and cos, sin of its yaw relative to the episode's start pose.

    habitat-lab 0.3.3 gives the absolute position and heading, which mean nothing in another apartment.
    """
    (x0, y0, yaw0), (x, y, yaw) = sim.episode.robot, sim.base.tolist()
    dx, dy, turn = x - x0, y - y0, yaw - yaw0
    cos, sin = math.cos(yaw0), math.sin(yaw0)
    return np.array((cos * dx + sin * dy, cos * dy - sin * dx, math.cos(turn), math.sin(turn)), dtype=np.float32)


def scenario_space(observation_set: str, targets: int) -> spaces.Dict:
    """Return the observation space of a scenario with `targets` objects to rearrange."""
    return spaces.Dict(
        {
            **exteroception_space(observation_set),
            "joint": vector_space(7),
            "is_holding": spaces.Box(0.0, 1.0, (1,), np.float32),
            "ee_pos": vector_space(3),
            "relative_resting_position": vector_space(3),
            "obj_start_sensor": vector_space(3 * targets),
            "obj_goal_sensor": vector_space(3 * targets),
            "obj_start_gps_compass": vector_space(2 * targets),
            "obj_goal_gps_compass": vector_space(2 * targets),
            "localization_sensor": vector_space(4),
        }
    )


class ScenarioSensors:
    """Every sensor of one episode of a scenario."""

    def __init__(self, sim: Simulator, observation_set: str) -> None:
        self._sim, self._set = sim, observation_set
        targets = sim.episode.targets
        n = len(targets)
        # Starts, then goals.
        self._points = np.array([t.start_pos for t in targets] + [t.goal_pos for t in targets], dtype=np.float64)
        of_targets = {"obj_start_sensor": 3 * n, "obj_goal_sensor": 3 * n}
        of_targets |= {"obj_start_gps_compass": 2 * n, "obj_goal_gps_compass": 2 * n}
        sizes = {key: span.stop - span.start for key, span in SENSED.items()}
        self._spans = list(_spans({**sizes, **of_targets}).items())

    def read(self) -> Observation:
        row = sense(self._sim, self._points)
        read = exteroception(self._sim, self._set)
        for key, span in self._spans:
            read[key] = row[span]
        read["localization_sensor"] = localization(self._sim)
        return read
