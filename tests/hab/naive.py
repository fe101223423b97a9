"""What hab/sensors.py and hab/navgrid.py work out in compiled loops, as they did it before, with numpy: slow, and the
reference that the compiled code has to equal."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hab import robot
from hab.simulator import Simulator


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
