"""Distances along the floor, at any angle: what habitat-sim's navigation mesh says, on a grid of cells.

`hab.navgrid` goes from cell to cell in eight directions, which is up to 8 % too long. Here every cell knows its anchor,
the last corner on its shortest way, so that the distance from a point is a straight line to the anchor and the anchor's
own distance. Reference: Nash et al., "Theta*: Any-Angle Path Planning on Grids", 2007, run until every cell is settled.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numba import njit
from numpy.typing import NDArray

_SQRT_2 = math.sqrt(2.0)


@dataclass(frozen=True)
class Field:
    """How far it is from every cell to the nearest goal. Arrays are indexed [row of y, column of x]."""

    distance_m: NDArray[np.float32]
    """(rows, columns) from the cell's centre; inf where no way leads."""
    anchor: NDArray[np.int32]
    """(rows, columns) flat index of the cell to which the shortest way leads straight; -1 where no way leads."""


def distance_field(free: NDArray[np.bool_], goals: NDArray[np.bool_], cell_m: float) -> Field:
    """Measure the way over free cells to the nearest goal; `goals` (rows, columns) must be free cells, one or more."""
    distance = np.full(free.shape, np.inf)
    anchor = np.full(free.shape, -1, np.int32)
    _spread(free, np.flatnonzero(goals), distance, anchor)
    return Field((distance * cell_m).astype(np.float32), anchor)


@njit("boolean(boolean[:, ::1], int64, int64, int64, int64)", cache=True)
def sees(free: NDArray[np.bool_], i0: int, j0: int, i1: int, j1: int) -> bool:
    """Whether the straight line between two cells' centres crosses free cells only (it may touch a corner)."""
    di, dj = abs(i1 - i0), abs(j1 - j0)
    step_i, step_j = (1 if i1 > i0 else -1), (1 if j1 > j0 else -1)
    i, j = i0, j0
    # Twice the distance, in units of 1 / (di dj), to the next border that the line crosses.
    next_i, next_j = dj, di
    while i != i1 or j != j1:
        if next_i == next_j:
            i, j = i + step_i, j + step_j
            next_i, next_j = next_i + 2 * dj, next_j + 2 * di
        elif (next_i < next_j and di > 0) or dj == 0:
            i, next_i = i + step_i, next_i + 2 * dj
        else:
            j, next_j = j + step_j, next_j + 2 * di
        if not free[i, j]:
            return False
    return True


@njit("boolean(int32[:, ::1], int64, int64, int64, int64, int64)", cache=True)
def _between(anchor: NDArray[np.int32], corner: int, ci: int, cj: int, i: int, j: int) -> bool:
    """Whether both cells between which the line from a corner comes to a cell have that corner for their anchor.

    Then they see it, and so does the cell: nothing as large as a cell fits in between.
    """
    di, dj = i - ci, j - cj
    back_i, back_j = i - (di > 0) + (di < 0), j - (dj > 0) + (dj < 0)
    if abs(di) >= abs(dj):
        return anchor[back_i, j] == corner and anchor[back_i, back_j] == corner
    return anchor[i, back_j] == corner and anchor[back_i, back_j] == corner


@njit("void(boolean[:, ::1], int64[::1], float64[:, ::1], int32[:, ::1])", cache=True)
def _spread(
    free: NDArray[np.bool_], sources: NDArray[np.int64], distance: NDArray[np.float64], anchor: NDArray[np.int32]
) -> None:
    """Fill in distances (in cells) and anchors.

    Cells wait in buckets one cell's width of distance wide: no step is shorter, so what is in the nearest bucket is
    settled in any order.
    """
    rows, columns = free.shape
    # A way is no longer than all cells in a row; entries wait for as long as a bucket is not emptied.
    head = np.full(2 * (rows + columns) + 8, -1)
    cells = np.empty(10 * rows * columns + len(sources), np.int64)
    after = np.empty(10 * rows * columns + len(sources), np.int64)
    settled = np.zeros((rows, columns), np.bool_)
    blocked = np.full((rows, columns), -1, np.int32)  # the corner that was found last not to be seen from here
    count = waiting = 0
    for source in sources:
        i, j = source // columns, source % columns
        distance[i, j], anchor[i, j] = 0.0, source
        cells[count], after[count], head[0] = source, head[0], count
        count, waiting = count + 1, waiting + 1
    bucket = 0
    while waiting:
        slot = bucket % len(head)
        entry = head[slot]
        if entry < 0:
            bucket += 1
            continue
        head[slot] = after[entry]
        waiting -= 1
        cell = cells[entry]
        i, j = cell // columns, cell % columns
        if settled[i, j]:
            continue
        settled[i, j] = True
        corner = anchor[i, j]
        ci, cj = corner // columns, corner % columns
        base = distance[ci, cj]
        for k in range(max(i - 1, 0), min(i + 2, rows)):
            for n in range(max(j - 1, 0), min(j + 2, columns)):
                if settled[k, n] or not free[k, n]:
                    continue
                straight = base + math.sqrt(float((k - ci) * (k - ci) + (n - cj) * (n - cj)))
                if straight >= distance[k, n] - 1e-9:  # nor is the way round shorter
                    continue
                found, by = straight, corner
                if (
                    blocked[k, n] == corner
                    or not _between(anchor, corner, ci, cj, k, n)
                    and not sees(free, ci, cj, k, n)
                ):
                    blocked[k, n] = corner
                    found, by = distance[i, j] + (_SQRT_2 if k != i and n != j else 1.0), np.int32(cell)
                    if found >= distance[k, n] - 1e-9:
                        continue
                distance[k, n], anchor[k, n] = found, by
                slot = max(int(found), bucket) % len(head)
                cells[count], after[count], head[slot] = k * columns + n, head[slot], count
                count, waiting = count + 1, waiting + 1


@njit("float64(float32[:, ::1], int32[:, ::1], float64[::1], float64, float64)", cache=True)
def distance_from(
    distance_m: NDArray[np.float32], anchor: NDArray[np.int32], frame: NDArray[np.float64], x: float, y: float
) -> float:
    """Return how far (m) it is from a world point; `frame` is the grid's corner x, y (m) and its cells' size (m)."""
    i, j = math.floor((y - frame[1]) / frame[2]), math.floor((x - frame[0]) / frame[2])
    corner = anchor[i, j]
    if corner < 0:
        return math.inf
    ci, cj = corner // anchor.shape[1], corner % anchor.shape[1]
    cx, cy = frame[0] + (cj + 0.5) * frame[2], frame[1] + (ci + 0.5) * frame[2]
    return distance_m[ci, cj] + math.hypot(x - cx, y - cy)
