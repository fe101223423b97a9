"""What is over a place, before it and under it, from the head scan and odometry alone: a board above it, a rim around
it, the surface that things stand on there.

The robot keeps the points that it has seen near the place: it still knows of a board when its head has come too near
to see it.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hab import robot
from hab.mapping import on_map

BOARDS_M, RIMS_M = ((-0.12, 0.12), (0.12, 0.28), (0.28, 0.45)), ((0.06, 0.18), (0.18, 0.30), (0.30, 0.45))
"""Parts of the way from the place towards the robot: of the first it is told what is over them, of the second what
stands there."""
AROUND_SIZE = len(BOARDS_M) + len(RIMS_M) + 1
ASIDE_M = 0.15
SURFACE_M, LOWEST_M, LAYER_M = 0.25, 0.20, 0.01
"""The surface is looked for within a radius and down to a depth, in layers: it is in the one most often seen."""
LOW_M, BOARD_M, HIGH_M = 0.03, 0.14, 0.60
"""Heights above the place: from where on something is a rim, or another object; a board; and in nobody's way."""
HAND_M = 0.20
"""So near to a full hand it is what the hand holds."""
KEPT = 192
_VOXEL_M = 0.03
_AROUND_M = BOARDS_M[-1][1]
_SIDE, _LEVELS = round(_AROUND_M / _VOXEL_M) + 1, round(HIGH_M / _VOXEL_M) + 1
_NEAR, _MAX_M, _HEAD = np.float32(0.999), robot.HEAD_SCAN_MAX_M, robot.HEAD_CAMERA_POS
_NO_HAND = np.zeros(0)
_YAWS, _PITCHES = robot.HEAD_SCAN_RAY_YAWS_RAD, robot.HEAD_SCAN_RAY_PITCHES_RAD
_RAYS = np.stack((np.cos(_PITCHES) * np.cos(_YAWS), np.cos(_PITCHES) * np.sin(_YAWS), np.sin(_PITCHES)), axis=1)


class Nearby:
    """The points seen near one place."""

    def __init__(self) -> None:
        self._offsets = np.zeros((KEPT, 3))
        self._count = np.zeros(1, np.int64)
        """Of the points kept."""
        self._voxels = np.zeros((2 * _SIDE, 2 * _SIDE, _LEVELS), np.bool_)
        """Which small cubes around the place one of them lies in."""
        self._layers = np.zeros((2, round(LOWEST_M / LAYER_M)))
        """Points seen in each, and the sum of their heights."""

    def read(
        self,
        head_scan: NDArray[np.float32],
        pose: tuple[float, float, float],
        place: NDArray[np.float64],
        full_hand: NDArray[np.float64] | None = None,
    ) -> NDArray[np.float32]:
        """Take in a head scan (sensors.py) from a base pose (x, y in m, yaw) and tell what is near a place.

        `place` (3,) and the cup of a full hand (3,): m, in the pose's frame, from the floor. Returns (7,), m above the
        place: the lowest board over each part, `HIGH_M` if none was seen; then the highest rim in each part, or 0; then
        the surface, below 0, or 0 if it was not seen.
        """
        hand = _NO_HAND if full_hand is None else full_hand
        _take_in(head_scan, pose, place, hand, self._offsets, self._count, self._voxels, self._layers)
        return _told(self._offsets[: self._count[0]], self._layers, math.atan2(pose[1] - place[1], pose[0] - place[0]))


@njit(
    "void(float32[::1], UniTuple(float64, 3), float64[::1], float64[::1], float64[:, ::1], int64[::1],"
    "boolean[:, :, ::1], float64[:, ::1])",
    cache=True,
)
def _take_in(
    head_scan: NDArray[np.float32],
    pose: tuple[float, float, float],
    place: NDArray[np.float64],
    hand: NDArray[np.float64],
    kept: NDArray[np.float64],
    count: NDArray[np.int64],
    voxels: NDArray[np.bool_],
    layers: NDArray[np.float64],
) -> None:
    """Keep the first point seen in each small cube near the place, and count those of the surface under it."""
    for ray in range(len(head_scan)):
        if head_scan[ray] >= _NEAR:
            continue
        away = np.float64(head_scan[ray]) * _MAX_M
        seen_x, seen_y = on_map(pose, _HEAD[0] + _RAYS[ray, 0] * away, _HEAD[1] + _RAYS[ray, 1] * away)
        x, y, z = seen_x - place[0], seen_y - place[1], _HEAD[2] + _RAYS[ray, 2] * away - place[2]
        if len(hand) > 0:
            dx, dy, dz = x - (hand[0] - place[0]), y - (hand[1] - place[1]), z - (hand[2] - place[2])
            if math.sqrt(dx * dx + dy * dy + dz * dz) <= HAND_M:
                continue
        if math.hypot(x, y) < SURFACE_M and -LOWEST_M < z < -LAYER_M:
            layer = int(-z / LAYER_M)
            layers[0, layer] += 1.0
            layers[1, layer] += z
        if LOW_M < z < HIGH_M and max(abs(x), abs(y)) < _AROUND_M:
            i, j, k = int(math.floor(x / _VOXEL_M)), int(math.floor(y / _VOXEL_M)), int(math.floor(z / _VOXEL_M))
            if not voxels[i + _SIDE, j + _SIDE, k] and count[0] < KEPT:
                voxels[i + _SIDE, j + _SIDE, k] = True
                kept[count[0], 0], kept[count[0], 1], kept[count[0], 2] = x, y, z
                count[0] += 1


@njit("float32[::1](float64[:, ::1], float64[:, ::1], float64)", cache=True)
def _told(kept: NDArray[np.float64], layers: NDArray[np.float64], to_robot: float) -> NDArray[np.float32]:
    """Return what `Nearby.read` does, of the points kept (n, 3), for a robot in that direction (rad) of the place."""
    told = np.zeros(AROUND_SIZE, np.float32)
    boards = len(BOARDS_M)
    told[:boards] = HIGH_M
    layer = np.argmax(layers[0])
    if layers[0, layer] > 0.0:
        told[-1] = layers[1, layer] / layers[0, layer]
    cos, sin = math.cos(to_robot), math.sin(to_robot)
    for n in range(len(kept)):
        forward, left, up = kept[n, 0], kept[n, 1], kept[n, 2]
        if abs(left * cos - forward * sin) >= ASIDE_M:
            continue
        along = forward * cos + left * sin
        for i in range(boards):
            if up > BOARD_M and BOARDS_M[i][0] <= along < BOARDS_M[i][1]:
                told[i] = min(told[i], np.float32(up))
        for i in range(len(RIMS_M)):
            if up <= BOARD_M and RIMS_M[i][0] <= along < RIMS_M[i][1]:
                told[boards + i] = max(told[boards + i], np.float32(up))
    return told
