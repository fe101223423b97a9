"""Moving a disc over free cells: it slides along what it touches, as habitat-sim's navigation mesh has it."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

STEP_M = 0.01
"""A motion is made in pieces of this length."""
_AROUND = 2
"""Cells to each side from which the direction of an obstacle's surface is read."""


@njit("boolean(boolean[:, ::1], float64[::1], float64, float64)", cache=True)
def _is_free(free: NDArray[np.bool_], frame: NDArray[np.float64], x: float, y: float) -> bool:
    i, j = math.floor((y - frame[1]) / frame[2]), math.floor((x - frame[0]) / frame[2])
    return 0 <= i < free.shape[0] and 0 <= j < free.shape[1] and free[i, j]


@njit("boolean(boolean[:, ::1], float64[::1], float64[::1], float64, float64)", cache=True)
def move(
    free: NDArray[np.bool_], frame: NDArray[np.float64], pose: NDArray[np.float64], forward_m: float, left_m: float
) -> bool:
    """Move `pose` (x, y, yaw; world, m and rad) by an offset in its own frame, as far as free cells allow.

    Where the next piece of the way is not free, the part of it that runs along the obstacle is made instead. Returns
    whether anything was in the way. `frame`: the grid's corner x, y (m) and its cells' size (m).
    """
    distance = math.hypot(forward_m, left_m)
    pieces = math.ceil(distance / STEP_M - 1e-9)
    if pieces <= 0:
        return False
    cos, sin = math.cos(pose[2]), math.sin(pose[2])
    dx, dy = (cos * forward_m - sin * left_m) / pieces, (sin * forward_m + cos * left_m) / pieces
    collided = False
    for _ in range(pieces):
        x, y = pose[0], pose[1]
        if _is_free(free, frame, x + dx, y + dy):
            pose[0], pose[1] = x + dx, y + dy
            continue
        collided = True
        # Where around here the room is: out of the obstacle, across its surface.
        i, j = math.floor((y - frame[1]) / frame[2]), math.floor((x - frame[0]) / frame[2])
        out_x = out_y = 0.0
        for k in range(i - _AROUND, i + _AROUND + 1):
            for n in range(j - _AROUND, j + _AROUND + 1):
                if 0 <= k < free.shape[0] and 0 <= n < free.shape[1] and free[k, n]:
                    out_x, out_y = out_x + (n - j), out_y + (k - i)
        length = math.hypot(out_x, out_y)
        if length > 0.0:
            out_x, out_y = out_x / length, out_y / length
            into = min(0.0, dx * out_x + dy * out_y)
            along_x, along_y = dx - into * out_x, dy - into * out_y
        else:
            along_x, along_y = dx, dy
        # Cells make a slanting surface a staircase: where a step is in the way, along its side.
        if _is_free(free, frame, x + along_x, y + along_y):
            pose[0], pose[1] = x + along_x, y + along_y
        elif _is_free(free, frame, x + along_x, y) and abs(along_x) > 1e-12:
            pose[0] = x + along_x
        elif _is_free(free, frame, x, y + along_y) and abs(along_y) > 1e-12:
            pose[1] = y + along_y
        elif _is_free(free, frame, x + dx, y):
            pose[0] = x + dx
        elif _is_free(free, frame, x, y + dy):
            pose[1] = y + dy
    return collided
