"""What counts as done: habitat's thresholds over the simulator's state (docs/hab.md). Lengths in m, angles in rad."""

from __future__ import annotations

import math

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
FORCE_STEP_N = 20.0
"""Only an increase of the contact force above this counts."""
FORCE_MAX_N = 10_000.0
"""So much contact force at once ends an episode (`max_instant_force`)."""
FORCE_SUM_MAX_N = 100_000.0
"""Rises of the contact force may add up to so much in a whole task (`max_accum_force`); a skill may have less."""
_REST_EE = tuple(robot.REST_EE_BASE.tolist())


class ForceSum:
    """Adds up the rises of the contact force (habitat's accumulated force): small ones until they count together."""

    def __init__(self, sim: Simulator) -> None:
        self._sim, self._last_n = sim, sim.force_n
        self.total_n = self.most_n = 0.0

    def update(self) -> float:
        """Read the force after a control step; return by how much it rose (N), if by enough to count."""
        self.most_n = max(self.most_n, self._sim.force_n)
        rise = self._sim.force_n - self._last_n
        if 0.0 <= rise <= FORCE_STEP_N:
            return 0.0
        self._last_n = self._sim.force_n
        added = max(0.0, rise)
        self.total_n += added
        return added

    def too_much(self, sum_max_n: float) -> bool:
        """Whether the robot has been pressed too hard: once, or in all rises, which may add up to `sum_max_n`."""
        return self.most_n > FORCE_MAX_N or self.total_n > sum_max_n


def base_to_world(sim: Simulator) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the base's position (3,) and rotation (3, 3), base to world."""
    x, y, yaw = sim.base
    cos, sin = np.cos(yaw), np.sin(yaw)
    return np.array([x, y, 0.0]), np.array([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]])


def ee_in_base(sim: Simulator) -> tuple[float, float, float]:
    """Return the end-effector position in the base frame."""
    (x, y, yaw), (ex, ey, ez) = sim.base.tolist(), sim.ee_pos.tolist()
    cos, sin, dx, dy = math.cos(yaw), math.sin(yaw), ex - x, ey - y
    return cos * dx + sin * dy, cos * dy - sin * dx, ez


def rest_distance(sim: Simulator) -> float:
    """Distance of the end-effector from its resting position (`end_effector_to_rest_distance`)."""
    return math.dist(ee_in_base(sim), _REST_EE)


def at_rest(sim: Simulator) -> bool:
    return rest_distance(sim) < AT_REST_M


def holding(sim: Simulator, name: str) -> bool:
    return sim.held == name


def object_to_goal(sim: Simulator, target: Target) -> float:
    return math.dist(sim.object_pos(target.object).tolist(), target.goal_pos)


def object_placed(sim: Simulator, target: Target) -> bool:
    """Whether an object lies within 0.15 m of its goal and is not held."""
    return sim.held != target.object and object_to_goal(sim, target) < PLACED_M


def articulation_open(sim: Simulator, name: str) -> bool:
    """Whether a drawer or fridge is opened far enough for its skill's success."""
    kind = sim.scene.articulation(name).kind
    return sim.joint_pos(name) > (FRIDGE_OPEN_RAD if kind == "fridge" else DRAWER_OPEN_M) - OPEN_SLACK


def articulation_closed(sim: Simulator, name: str) -> bool:
    return abs(sim.joint_pos(name)) < CLOSED_SLACK


def heading_error(sim: Simulator, position: tuple[float, float, float]) -> float:
    """Signed angle from the base's heading to a position, between minus and plus half a turn."""
    x, y, yaw = sim.base.tolist()
    return math.remainder(math.atan2(position[1] - y, position[0] - x) - yaw, math.tau)


def planar_distance(sim: Simulator, position: tuple[float, float, float]) -> float:
    x, y, _ = sim.base.tolist()
    return math.hypot(position[0] - x, position[1] - y)


def navigated(sim: Simulator, position: tuple[float, float, float]) -> bool:
    """Whether the base is near enough to a position and faces it (habitat's navigation success, without stop)."""
    near = planar_distance(sim, position) < NAV_DISTANCE_M
    return near and abs(heading_error(sim, position)) < NAV_ANGLE_RAD
