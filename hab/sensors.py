"""Observations with habitat-lab's keys, shapes, units and frames (hab_facts.md, "Observations").

Each sensor is a function of the simulator's state; positions are metres in the base or the end-effector frame.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from hab import robot
from hab.measures import base_to_world
from hab.simulator import Simulator

Observation = dict[str, NDArray[np.float32]]
OBSERVATION_SETS = {"laser": "laser", "depth": "head_depth"}
"""Name of an observation set -> the key of its exteroceptive sensor."""


def exteroception_space(observation_set: str) -> dict[str, spaces.Box]:
    """Return the key and space of the laser (64,) or of the head depth (128, 128, 1), both in [0, 1]."""
    if observation_set not in OBSERVATION_SETS:
        raise ValueError(f"unknown observation set {observation_set!r}; choose from {', '.join(OBSERVATION_SETS)}")
    shape = (robot.LASER_RAYS,) if observation_set == "laser" else (robot.DEPTH_SIZE, robot.DEPTH_SIZE, 1)
    return {OBSERVATION_SETS[observation_set]: spaces.Box(0.0, 1.0, shape, np.float32)}


def vector_space(size: int) -> spaces.Box:
    return spaces.Box(-np.inf, np.inf, (size,), np.float32)


def exteroception(sim: Simulator, observation_set: str) -> Observation:
    return {"laser": sim.laser()} if observation_set == "laser" else {"head_depth": sim.depth()}


def joint(sim: Simulator) -> NDArray[np.float32]:
    """(7,) arm joint positions (rad)."""
    return sim.arm.astype(np.float32)


def is_holding(sim: Simulator) -> NDArray[np.float32]:
    """(1,) 1 while the suction holds something."""
    return np.array([1.0 if sim.held else 0.0], dtype=np.float32)


def ee_pos(sim: Simulator) -> NDArray[np.float32]:
    """(3,) end-effector position, base frame."""
    origin, rotation = base_to_world(sim)
    return (rotation.T @ (sim.ee_pos - origin)).astype(np.float32)


def relative_resting_position(sim: Simulator) -> NDArray[np.float32]:
    """(3,) resting position minus end-effector position, base frame."""
    return (robot.REST_EE_BASE - ee_pos(sim)).astype(np.float32)


def in_ee_frame(sim: Simulator, positions: NDArray[np.float64]) -> NDArray[np.float32]:
    """(n, 3) world positions -> (3 n,) in the end-effector frame."""
    return ((positions - sim.ee_pos) @ sim.ee_mat).astype(np.float32).reshape(-1)


def gps_compass(sim: Simulator, positions: NDArray[np.float64]) -> NDArray[np.float32]:
    """(n, 3) world positions -> (2 n,) planar distance (m) and heading (rad, left positive) from the base."""
    x, y, yaw = sim.base
    dx, dy = positions[:, 0] - x, positions[:, 1] - y
    heading = (np.arctan2(dy, dx) - yaw + np.pi) % (2.0 * np.pi) - np.pi
    return np.stack([np.hypot(dx, dy), heading], axis=1).astype(np.float32).reshape(-1)


def localization(sim: Simulator) -> NDArray[np.float32]:
    """(4,) base x, y (m) and cos, sin of its yaw relative to the episode's start pose."""
    x0, y0, yaw0 = sim.episode.robot
    x, y, yaw = sim.base
    dx, dy, turn = x - x0, y - y0, yaw - yaw0
    cos, sin = np.cos(yaw0), np.sin(yaw0)
    return np.array([cos * dx + sin * dy, cos * dy - sin * dx, np.cos(turn), np.sin(turn)], dtype=np.float32)


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


def scenario_observation(sim: Simulator, observation_set: str) -> Observation:
    """Return every sensor of a scenario."""
    targets = sim.episode.targets
    starts, goals = _positions([t.start_pos for t in targets]), _positions([t.goal_pos for t in targets])
    return {
        **exteroception(sim, observation_set),
        "joint": joint(sim),
        "is_holding": is_holding(sim),
        "ee_pos": ee_pos(sim),
        "relative_resting_position": relative_resting_position(sim),
        "obj_start_sensor": in_ee_frame(sim, starts),
        "obj_goal_sensor": in_ee_frame(sim, goals),
        "obj_start_gps_compass": gps_compass(sim, starts),
        "obj_goal_gps_compass": gps_compass(sim, goals),
        "localization_sensor": localization(sim),
    }


def _positions(points: Sequence[tuple[float, float, float]]) -> NDArray[np.float64]:
    return np.asarray(points, dtype=np.float64).reshape(-1, 3)
