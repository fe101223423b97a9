"""What is over a place, before it and under it, from the head scan and odometry alone: a board above it, a rim around
it, the surface that things stand on there.

The robot keeps the points that it has seen near the place: it still knows of a board when its head has come too near
to see it.
"""

from __future__ import annotations

import math

import numpy as np
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

_YAWS, _PITCHES = robot.HEAD_SCAN_RAY_YAWS_RAD, robot.HEAD_SCAN_RAY_PITCHES_RAD
_RAYS = np.stack((np.cos(_PITCHES) * np.cos(_YAWS), np.cos(_PITCHES) * np.sin(_YAWS), np.sin(_PITCHES)), axis=1)


class Nearby:
    """The points seen near one place."""

    def __init__(self) -> None:
        self._offsets = np.zeros((KEPT, 3))
        self._voxels: set[tuple[int, ...]] = set()
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
        seen = robot.HEAD_CAMERA_POS + _RAYS * (head_scan * np.float64(robot.HEAD_SCAN_MAX_M))[:, None]
        ahead, left, up = seen.T
        offsets = np.stack((*on_map(pose, ahead, left), up), axis=1) - place
        hits = head_scan < 0.999
        if full_hand is not None:
            hits &= np.linalg.norm(offsets - (full_hand - place), axis=1) > HAND_M
        offsets = offsets[hits]
        self._add_surface(offsets)
        near = (offsets[:, 2] > LOW_M) & (offsets[:, 2] < HIGH_M)
        near &= np.abs(offsets[:, :2]).max(axis=1) < BOARDS_M[-1][1]
        near_offsets = offsets[near]
        for offset, cell in zip(near_offsets, np.floor(near_offsets / _VOXEL_M).astype(int).tolist(), strict=True):
            voxel = tuple(cell)
            if voxel not in self._voxels and len(self._voxels) < KEPT:
                self._offsets[len(self._voxels)] = offset
                self._voxels.add(voxel)
        return self._told(math.atan2(pose[1] - place[1], pose[0] - place[0]))

    def _add_surface(self, offsets: NDArray[np.float64]) -> None:
        under = np.hypot(offsets[:, 0], offsets[:, 1]) < SURFACE_M
        heights = offsets[under & (offsets[:, 2] < -LAYER_M) & (offsets[:, 2] > -LOWEST_M), 2]
        layers = (-heights / LAYER_M).astype(int)
        np.add.at(self._layers[0], layers, 1.0)
        np.add.at(self._layers[1], layers, heights)

    def _told(self, to_robot: float) -> NDArray[np.float32]:
        told = np.array([HIGH_M] * len(BOARDS_M) + [0.0] * (len(RIMS_M) + 1), np.float32)
        layer = int(np.argmax(self._layers[0]))
        if self._layers[0, layer]:
            told[-1] = self._layers[1, layer] / self._layers[0, layer]
        if not self._voxels:
            return told
        forward, left, up = self._offsets[: len(self._voxels)].T
        along = forward * math.cos(to_robot) + left * math.sin(to_robot)
        before = np.abs(left * math.cos(to_robot) - forward * math.sin(to_robot)) < ASIDE_M
        board = before & (up > BOARD_M)
        rim = before & ~board
        for i, (start, end) in enumerate(BOARDS_M):
            told[i] = up[board & (along >= start) & (along < end)].min(initial=HIGH_M)
        for i, (start, end) in enumerate(RIMS_M, len(BOARDS_M)):
            told[i] = up[rim & (along >= start) & (along < end)].max(initial=0.0)
        return told
