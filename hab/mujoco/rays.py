"""Range sensors: rays that are fixed in the base's frame."""

from __future__ import annotations

import math

import mujoco
import numpy as np
from numpy.typing import NDArray

from hab import robot

_GROUPS = np.array([1, 0, 0, 0, 0, 0], dtype=np.uint8)
"""The apartment and the objects: not the robot itself."""


class RayFan:
    """Rays from one point of the base."""

    def __init__(self, origin: NDArray[np.float64], directions: NDArray[np.float64], max_m: float) -> None:
        """Take the origin (3,) and the directions (n, 3), of length 1, in the base's frame."""
        self._x, self._y, self._z = origin.tolist()
        self._max_m, self._count = max_m, len(directions)
        self._directions = directions[:, 0] + 1j * directions[:, 1]
        self._world = np.array(directions, dtype=np.float64)
        self._flat = self._world.reshape(-1)
        self._origin = np.zeros(3)
        self._ranges = np.zeros(self._count)
        self._geom = np.zeros(self._count, dtype=np.int32)

    def ranges(self, model: mujoco.MjModel, data: mujoco.MjData, base: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return (n,) ranges, a share of the longest, in [0, 1]; `base` is x, y and yaw."""
        x, y, yaw = base.tolist()
        cos, sin = math.cos(yaw), math.sin(yaw)
        self._origin[:] = x + self._x * cos - self._y * sin, y + self._x * sin + self._y * cos, self._z
        self._world[:, :2] = (self._directions * complex(cos, sin)).view(np.float64).reshape(-1, 2)
        mujoco.mj_multiRay(
            model,
            data,
            self._origin,
            self._flat,
            _GROUPS,
            True,
            -1,
            self._geom,
            self._ranges,
            None,
            self._count,
            self._max_m,
        )
        ranges = self._ranges.astype(np.float32)
        # mj_multiRay answers -1 where nothing is hit, and may see beyond the cutoff.
        np.putmask(ranges, ranges < 0.0, self._max_m)
        np.minimum(ranges, self._max_m, out=ranges)
        ranges *= 1.0 / self._max_m
        return ranges


def laser() -> RayFan:
    """Return the base laser's rays, right to left."""
    return RayFan(robot.LASER_POS, ray_directions(robot.LASER_YAWS_RAD, np.zeros(1)), robot.LASER_MAX_M)


def head_scan() -> RayFan:
    """Return the head scan's rays: columns from right to left, each from the floor up."""
    directions = ray_directions(robot.HEAD_SCAN_YAWS_RAD, robot.HEAD_SCAN_PITCHES_RAD)
    return RayFan(robot.HEAD_CAMERA_POS, directions, robot.HEAD_SCAN_MAX_M)


def ray_directions(yaws: NDArray[np.float64], pitches: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (n, 3) directions of length 1, base frame: each yaw with each pitch (rad; left, up)."""
    yaw, pitch = (grid.ravel() for grid in np.meshgrid(yaws, pitches, indexing="ij"))
    return np.stack((np.cos(pitch) * np.cos(yaw), np.cos(pitch) * np.sin(yaw), np.sin(pitch)), axis=1)
