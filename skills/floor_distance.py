"""How far the base has to go along the floor, and which way, for rewards and for what a critic is told."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from numba import njit, types
from numpy.typing import NDArray

from hab.episodes import load_grid
from hab.navgrid import NavGrid
from hab.openings import grid_with_openings
from hab.scene import Receptacle, Scene
from skills.starts import working_sides

LOOK_AHEAD_M, WAY_SIZE = 1.0, 3


class FloorDistance:
    """Distance (m) along the floor from a base position to the nearest of some places."""

    def __init__(self, grid: NavGrid, places: Sequence[tuple[float, float]]) -> None:
        self._grid, self._field = grid, grid.distance_field(*places)

    @classmethod
    def to_work(
        cls, scene: Scene, joints: Mapping[str, float], receptacle: Receptacle, position: Sequence[float]
    ) -> FloorDistance:
        """Return that to where one would work at a position on a receptacle, on any of its sides, with doors and
        drawers as they are. Raises `Unsolvable` if there is no such place."""
        grid = grid_with_openings(scene, load_grid(scene.seed), joints)
        return cls(grid, [(x, y) for x, y, _ in working_sides(grid, receptacle, position)])

    def __call__(self, base: NDArray[np.float64]) -> float:
        """Return it (m) from a base pose (3,)."""
        return self._at(*self._free_place(base))

    def _at(self, x: float, y: float) -> float:
        """Interpolate between the cells around, so that every centimetre counts."""
        row = (y - self._grid.origin[1]) / self._grid.cell_m - 0.5
        column = (x - self._grid.origin[0]) / self._grid.cell_m - 0.5
        distance = _interpolate(self._field, row, column)
        return distance if math.isfinite(distance) else float(self._field[self._grid.cell(x, y)])

    def nearest(self, base: NDArray[np.float64]) -> tuple[float, float]:
        """Return the nearest of the places from a base pose (3,): the centre of its cell."""
        return self._grid.xy(*_descend(self._field, *self._grid.cell(*self._free_place(base)), self._field.size))

    def way(self, base: NDArray[np.float64]) -> list[float]:
        """Return where the shortest path leads from a base pose (3,): cosine and sine of the direction, in the base's
        frame, of what lies `LOOK_AHEAD_M` ahead on it, and its length (m)."""
        x, y, yaw = base.tolist()
        place = self._free_place(base)
        i, j = _descend(self._field, *self._grid.cell(*place), round(LOOK_AHEAD_M / self._grid.cell_m))
        ahead_x, ahead_y = self._grid.xy(i, j)
        turn = math.atan2(ahead_y - y, ahead_x - x) - yaw
        return [math.cos(turn), math.sin(turn), self._at(*place)]

    def _free_place(self, base: NDArray[np.float64]) -> tuple[float, float]:
        """Return where the base stands on the grid, or the nearest place where it might, and from which a way leads."""
        x, y, _ = base.tolist()
        (i, j), (rows, columns) = self._grid.cell(x, y), self._grid.shape
        if 0 <= i < rows and 0 <= j < columns and self._grid.largest_component[i, j]:
            return x, y
        return self._grid.nearest_free(x, y)


@njit(types.float64(types.Array(types.float32, 2, "A", readonly=True), types.float64, types.float64), cache=True)
def _interpolate(field: NDArray[np.float32], row: float, column: float) -> float:
    """Return a distance field's value between its cells' centres, of those around that are finite; inf: none is."""
    i, j = math.floor(row), math.floor(column)
    total, weights = 0.0, 0.0
    for k in range(i, i + 2):
        for m in range(j, j + 2):
            if 0 <= k < field.shape[0] and 0 <= m < field.shape[1] and math.isfinite(field[k, m]):
                weight = (1.0 - abs(row - k)) * (1.0 - abs(column - m))
                total += weight * field[k, m]
                weights += weight
    return total / weights if weights > 0.0 else math.inf


@njit(
    types.UniTuple(types.int64, 2)(
        types.Array(types.float32, 2, "A", readonly=True), types.int64, types.int64, types.int64
    ),
    cache=True,
)
def _descend(field: NDArray[np.float32], i: int, j: int, cells: int) -> tuple[int, int]:
    """Return the cell that a path down a distance field leads to in so many cells, or where it ends."""
    rows, columns = field.shape
    for _ in range(cells):
        best, at_i, at_j = field[i, j], i, j
        for di in range(-1, 2):
            for dj in range(-1, 2):
                k, m = i + di, j + dj
                if 0 <= k < rows and 0 <= m < columns and field[k, m] < best:
                    best, at_i, at_j = field[k, m], k, m
        if at_i == i and at_j == j:
            break
        i, j = at_i, at_j
    return i, j
