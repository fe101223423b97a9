"""What counts as done: habitat's thresholds over the simulator's state (docs/hab.md). Lengths in m, angles in rad."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hab import robot
from hab.episodes import Target
from hab.scene import DRAWER_OPEN_M, FRIDGE_OPEN_RAD
from hab.simulator import Simulator

PLACED_M = 0.15
"""Geometric-goal radius; habitat's PDDL predicate `object_at` allows 0.3 m."""
AT_REST_M = 0.15
OPEN_SLACK = 0.05
CLOSED_SLACK = 0.05
"""An articulation is at its goal within this much of it (m or rad)."""
NAV_DISTANCE_M = 1.5
NAV_ANGLE_RAD = 0.261799


def base_to_world(sim: Simulator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the base's position (3,) and rotation (3, 3), base to world."""
    x, y, yaw = sim.base
    cos, sin = np.cos(yaw), np.sin(yaw)
    return np.array([x, y, 0.0]), np.array([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]])


def ee_in_base(sim: Simulator) -> NDArray[np.float64]:
    """Return the end-effector position (3,) in the base frame."""
    origin, rotation = base_to_world(sim)
    return rotation.T @ (sim.ee_pos - origin)


def rest_distance(sim: Simulator) -> float:
    """Distance of the end-effector from its resting position (`end_effector_to_rest_distance`)."""
    return float(np.linalg.norm(ee_in_base(sim) - robot.REST_EE_BASE))


def at_rest(sim: Simulator) -> bool:
    return rest_distance(sim) < AT_REST_M


def holding(sim: Simulator, name: str) -> bool:
    return sim.held == name


def object_to_goal(sim: Simulator, target: Target) -> float:
    return float(np.linalg.norm(sim.object_pos(target.object) - np.asarray(target.goal_pos)))


def object_placed(sim: Simulator, target: Target, radius_m: float = PLACED_M) -> bool:
    """Whether an object lies within `radius_m` of its goal and is not held."""
    return sim.held != target.object and object_to_goal(sim, target) < radius_m


def articulation_open(sim: Simulator, name: str) -> bool:
    """Whether a drawer or fridge is opened far enough for its skill's success."""
    kind = sim.scene.articulation(name).kind
    return sim.joint_pos(name) > (FRIDGE_OPEN_RAD if kind == "fridge" else DRAWER_OPEN_M) - OPEN_SLACK


def articulation_closed(sim: Simulator, name: str) -> bool:
    return abs(sim.joint_pos(name)) < CLOSED_SLACK


def heading_error(sim: Simulator, position: tuple[float, float, float]) -> float:
    """Signed angle from the base's heading to a position, in (-pi, pi]."""
    x, y, yaw = sim.base
    angle = float(np.arctan2(position[1] - y, position[0] - x) - yaw)
    return (angle + np.pi) % (2.0 * np.pi) - np.pi


def planar_distance(sim: Simulator, position: tuple[float, float, float]) -> float:
    x, y, _ = sim.base
    return float(np.hypot(position[0] - x, position[1] - y))


def navigated(sim: Simulator, position: tuple[float, float, float]) -> bool:
    """Whether the base is near enough to a position and faces it (habitat's navigation success, without stop)."""
    near = planar_distance(sim, position) < NAV_DISTANCE_M
    return near and abs(heading_error(sim, position)) < NAV_ANGLE_RAD
