"""The directions of the range sensors' rays, in the base's frame."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hab import robot


def ray_directions(yaws: NDArray[np.float64], pitches: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (n, 3) directions of length 1, base frame: each yaw with each pitch (rad; left, up)."""
    yaw, pitch = (grid.ravel() for grid in np.meshgrid(yaws, pitches, indexing="ij"))
    return np.stack((np.cos(pitch) * np.cos(yaw), np.cos(pitch) * np.sin(yaw), np.sin(pitch)), axis=1)


def ends(
    base: NDArray[np.float64],
    origin: NDArray[np.float64],
    directions: NDArray[np.float64],
    ranges_m: NDArray[np.floating[Any]],
) -> NDArray[np.float64]:
    """Return (n, 3) where rays (n, 3) of the base's frame end in the world (m), from a base at x, y (m), yaw (rad)."""
    ahead = origin + ranges_m[:, None] * directions
    x, y, yaw = base
    cos, sin = math.cos(yaw), math.sin(yaw)
    return np.column_stack((x + ahead[:, :2] @ (cos, -sin), y + ahead[:, :2] @ (sin, cos), ahead[:, 2]))


LASER_DIRECTIONS = ray_directions(robot.LASER_YAWS_RAD, np.zeros(1))
HEAD_SCAN_DIRECTIONS = ray_directions(robot.HEAD_SCAN_YAWS_RAD, robot.HEAD_SCAN_PITCHES_RAD)
HEAD_LOOK_DIRECTIONS = ray_directions(robot.HEAD_LOOK_YAWS_RAD, robot.HEAD_LOOK_PITCHES_RAD)
"""(n, 3), base frame: the laser's right to left; the head's in columns from right to left, each from the floor up."""

_LOOK = robot.HEAD_CAMERA_TARGET - robot.HEAD_CAMERA_POS
_AHEAD = _LOOK / np.linalg.norm(_LOOK)
_SLANTS = np.stack((HEAD_LOOK_DIRECTIONS[:, 1], HEAD_LOOK_DIRECTIONS @ np.cross(_AHEAD, (0.0, 1.0, 0.0))))
HEAD_LOOK_OUTSIDE = (
    np.abs(_SLANTS) > math.tan(math.radians(robot.HEAD_CAMERA_FOV_DEG / 2)) * (HEAD_LOOK_DIRECTIONS @ _AHEAD)
).any(0)
"""(n,) which of these rays the camera's image has not: its corners are cut off."""
