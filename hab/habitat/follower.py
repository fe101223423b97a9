"""Oracle navigation with habitat-sim's path finder: base commands along its shortest path.

For habitat-lab's own tasks (`HabitatTask`); the oracles of `skills.oracle` drive on the occupancy grid, on which ours
are defined, in either simulator.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hab.actions import BASE, CONTROL_HZ, STOP, Action
from hab.robot import BASE_MAX_M_S, BASE_MAX_RAD_S

SWING_M = 0.08
WAYPOINT_M = 0.05
"""Corners of the path nearer than this are passed."""
DRIVE_RAD = 0.3
"""The base turns in place until it faces the path's next corner as well as this …"""
FACED_RAD = 0.05
"""… and the goal, when it has arrived."""


class PathFollower:
    """Drives to the navigable point nearest to a goal, faces the goal and calls stop."""

    def __init__(self, sim: Any, goal: tuple[float, float, float]) -> None:
        """`sim`: habitat-lab's; `goal` (m): in habitat's frame, as its tasks have it, on the floor or not."""
        self._sim, self._goal = sim, np.asarray(goal, dtype=np.float32)
        # On the island where the robot stands: the nearest of all may be the top of a bed.
        island = sim.pathfinder.get_island(np.array(sim.articulated_agent.base_pos, dtype=np.float32))
        self._end = sim.pathfinder.snap_point(np.asarray((goal[0], 0.0, goal[2]), dtype=np.float32), island)

    def action(self) -> Action:
        """Return the next control step's action; stop is called where the base has arrived and faces the goal.

        Raises `RuntimeError` where the navigation mesh has no way from here to the goal.
        """
        corner = self._next_corner()
        if corner is not None:
            off, away = self._seen_from_base(corner)
            forward = away * CONTROL_HZ / BASE_MAX_M_S if abs(off) < DRIVE_RAD else 0.0
            return _action(forward, off)
        off, _ = self._seen_from_base(self._goal)
        return _action(0.0, off, stop=abs(off) < FACED_RAD)

    def _next_corner(self) -> NDArray[np.float32] | None:
        """Return the path's next corner (3,); None at its end."""
        import habitat_sim

        path = habitat_sim.ShortestPath()
        path.requested_start = np.array(self._sim.articulated_agent.base_pos, dtype=np.float32)
        path.requested_end = self._end
        if not self._sim.pathfinder.find_path(path):
            raise RuntimeError(f"the navigation mesh has no way to {self._goal.tolist()}")
        points = [np.asarray(point) for point in path.points]
        bends = zip(points, points[1:], points[2:], strict=False)
        corners = [*(_swung_out(*bend) for bend in bends), points[-1]]
        return next((corner for corner in corners if self._seen_from_base(corner)[1] > WAYPOINT_M), None)

    def _seen_from_base(self, point: NDArray[np.float32]) -> tuple[float, float]:
        """Return how far (rad) a point is to the left of the base's heading, and its distance (m) on the floor."""
        x, _, z = point - np.asarray(self._sim.articulated_agent.base_pos, dtype=np.float32)
        heading = float(self._sim.articulated_agent.base_rot)
        return math.remainder(math.atan2(-z, x) - heading, math.tau), math.hypot(x, z)


def _swung_out(
    before: NDArray[np.float32], corner: NDArray[np.float32], after: NDArray[np.float32]
) -> NDArray[np.float32]:
    """Return a place `SWING_M` outside a bend of the path, which touches the navigation mesh's edge.

    On the edge itself the mesh refuses every step that leads over it by rounding.
    """
    inside = sum((end - corner) / max(float(np.linalg.norm(end - corner)), 1e-6) for end in (before, after))
    return np.asarray(corner - SWING_M * inside / max(float(np.linalg.norm(inside)), 1e-6))


def _action(forward: float, turn_rad: float, stop: bool = False) -> Action:
    speed = (min(forward, 1.0), min(max(turn_rad * CONTROL_HZ / BASE_MAX_RAD_S, -1.0), 1.0))
    return {BASE: np.array(speed, dtype=np.float32), STOP: np.array([1.0 if stop else -1.0], dtype=np.float32)}
