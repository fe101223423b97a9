"""Where the rays of laser and head scan end, as points in the world."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from hab import robot
from hab.ray_fans import HEAD_SCAN_DIRECTIONS, LASER_DIRECTIONS, ends
from hab.simulator import Simulator


def laser_points(sim: Simulator) -> NDArray[np.float64]:
    """Return what the base laser meets, (n, 3) in the world (m)."""
    return _points(sim, sim.laser(), robot.LASER_MAX_M, robot.LASER_POS, LASER_DIRECTIONS)


def head_scan_points(sim: Simulator) -> NDArray[np.float64]:
    """Return what the head scan meets, likewise."""
    return _points(sim, sim.head_scan(), robot.HEAD_SCAN_MAX_M, robot.HEAD_CAMERA_POS, HEAD_SCAN_DIRECTIONS)


def _points(
    sim: Simulator,
    ranges: NDArray[np.float32],
    longest_m: float,
    origin: NDArray[np.float64],
    rays: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Turn ranges, a share of the longest, along rays of the base frame into points; those that meet nothing, or the
    robot's own arm, have none."""
    met = (ranges < 1.0) & (ranges != robot.UNKNOWN_RANGE)
    return ends(sim.base, origin, rays[met], ranges[met] * longest_m)
