"""Observations with habitat-lab's keys, shapes, units and frames (docs/hab.md, "Observations").

Each sensor is a function of the simulator's state; positions are metres in the base or the end-effector frame.
"""

from __future__ import annotations

import math

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from hab import robot
from hab.arm import forward
from hab.simulator import Simulator

Observation = dict[str, NDArray[np.float32]]
OBSERVATION_SETS: dict[str, dict[str, tuple[int, ...]]] = {
    "laser": {"laser": (robot.LASER_RAYS,), "head_scan": (robot.HEAD_SCAN_RAYS,)},
    "depth": {"head_depth": (robot.DEPTH_SIZE, robot.DEPTH_SIZE, 1)},
}
"""Name of an observation set -> its exteroceptive sensors' keys and shapes.

The laser sees nothing but what stands on the floor; three columns of the head's depth image show whether there is a
board above an object, or a drawer that is open, at a hundredth of the image's cost.
"""
_REST_EE = tuple(robot.REST_EE_BASE.tolist())


def exteroception_space(observation_set: str) -> dict[str, spaces.Box]:
    """Return the keys and spaces of an observation set's exteroceptive sensors, all in [0, 1]."""
    if observation_set not in OBSERVATION_SETS:
        raise ValueError(f"unknown observation set {observation_set!r}; choose from {', '.join(OBSERVATION_SETS)}")
    return {key: spaces.Box(0.0, 1.0, shape, np.float32) for key, shape in OBSERVATION_SETS[observation_set].items()}


def vector_space(size: int) -> spaces.Box:
    return spaces.Box(-np.inf, np.inf, (size,), np.float32)


class RobotPose:
    """Where the robot is, read once a control step for all sensors."""

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
    if observation_set == "depth":
        return {"head_depth": sim.depth()}
    return {"laser": sim.laser(), "head_scan": sim.head_scan()}


def joint(sim: Simulator) -> NDArray[np.float32]:
    """(7,) arm joint positions (rad)."""
    return sim.arm.astype(np.float32)


def arm_effort(sim: Simulator) -> NDArray[np.float32]:
    """(7,) how hard the arm's drives push, in [-1, 1]: how far each joint is behind its target, of what is allowed.

    The targets are the sum of the actions, so the controller knows them; where the arm presses on something, nothing
    else tells a policy without memory that, or which way it will have to go before anything moves.
    """
    return ((sim.arm_target - sim.arm) / robot.ARM_WINDUP_RAD).clip(-1.0, 1.0).astype(np.float32)


def base_effort(sim: Simulator) -> NDArray[np.float32]:
    """(2,) how hard the base's drives push forwards and turn left, in [-1, 1]: at a bound, it is blocked."""
    return sim.base_effort.clip(-1.0, 1.0).astype(np.float32)


def is_holding(sim: Simulator) -> NDArray[np.float32]:
    """(1,) 1 while the suction holds something."""
    return np.array([1.0 if sim.held else 0.0], dtype=np.float32)


def ee_pos(pose: RobotPose) -> NDArray[np.float32]:
    """(3,) end-effector position, base frame."""
    return np.array(pose.ee, dtype=np.float32)


def relative_resting_position(pose: RobotPose) -> NDArray[np.float32]:
    """(3,) resting position minus end-effector position, base frame."""
    x, y, z = pose.ee
    rest_x, rest_y, rest_z = _REST_EE
    return np.array((rest_x - x, rest_y - y, rest_z - z), dtype=np.float32)


def in_ee_frame(pose: RobotPose, positions: NDArray[np.float64]) -> NDArray[np.float32]:
    """(n, 3) world positions -> (3 n,) in the end-effector frame."""
    return ((positions - pose.ee_world) @ pose.ee_mat).astype(np.float32).reshape(-1)


def in_base_frame(pose: RobotPose, position: NDArray[np.float64]) -> tuple[float, float, float]:
    """World position (3,) -> base frame."""
    x, y, z = position.tolist()
    dx, dy = x - pose.x, y - pose.y
    return pose.cos * dx + pose.sin * dy, pose.cos * dy - pose.sin * dx, z


def arm_reach(sim: Simulator) -> NDArray[np.float32]:
    """(3,) end-effector's distance from the shoulder's axis (m), height (m) and pitch below the horizon (rad)."""
    cup = forward(sim.arm)
    return np.array((cup.radius, cup.z, cup.pitch), dtype=np.float32)


def gps_compass(pose: RobotPose, plane: NDArray[np.complex128]) -> NDArray[np.float32]:
    """(n,) world positions x + i y -> (2 n,) distance (m) and heading (rad) from the base.

    habitat-lab's sign: positive to the right.
    """
    seen = (plane - complex(pose.x, pose.y)) * complex(pose.cos, -pose.sin)
    polar = np.empty((len(plane), 2), dtype=np.float32)
    polar[:, 0], polar[:, 1] = np.abs(seen), -np.arctan2(seen.imag, seen.real)
    return polar.reshape(-1)


def localization(sim: Simulator, pose: RobotPose) -> NDArray[np.float32]:
    """(4,) base x, y (m) and cos, sin of its yaw relative to the episode's start pose.

    habitat-lab 0.3.3 gives the absolute position and heading, which mean nothing in another apartment.
    """
    x0, y0, yaw0 = sim.episode.robot
    dx, dy, turn = pose.x - x0, pose.y - y0, pose.yaw - yaw0
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
        self._count = len(targets)
        # Starts, then goals: both kinds are turned into the robot's frames in one go.
        self._points = np.array([t.start_pos for t in targets] + [t.goal_pos for t in targets], dtype=np.float64)
        self._plane = self._points[:, 0] + 1j * self._points[:, 1]

    def read(self) -> Observation:
        sim, n = self._sim, self._count
        pose = RobotPose(sim)
        in_ee, polar = in_ee_frame(pose, self._points), gps_compass(pose, self._plane)
        return {
            **exteroception(sim, self._set),
            "joint": joint(sim),
            "is_holding": is_holding(sim),
            "ee_pos": ee_pos(pose),
            "relative_resting_position": relative_resting_position(pose),
            "obj_start_sensor": in_ee[: 3 * n],
            "obj_goal_sensor": in_ee[3 * n :],
            "obj_start_gps_compass": polar[: 2 * n],
            "obj_goal_gps_compass": polar[2 * n :],
            "localization_sensor": localization(sim, pose),
        }
