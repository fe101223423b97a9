"""Driving by feedback: how far it is from every place and heading to some places to stop at, and how to come nearer.

The resting arm sticks out, so a place is one with a heading: in a tight one it says whether to turn here, which way
round, or to back out first. What to do depends on where the robot is and on nothing that it did before, so it can be
learned from.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from scipy.ndimage import map_coordinates, minimum_filter
from scipy.sparse import csr_array
from scipy.sparse.csgraph import dijkstra

from hab.navgrid import NavGrid
from hab.robot import BASE_MAX_M_S, BASE_MAX_RAD_S

HAND_M, HAND_AZIMUTH_RAD, HAND_ROOM_M = (0.45, 0.58, 0.69), -0.36, 0.12
"""Where the resting forearm and hand are from the base's centre, and half their width with some room."""
STRIDE = 2
"""Cells of the navigation grid to one of the lattice's: 0.1 m."""
STEPS = np.array([(1, 0), (2, 1), (1, 1), (1, 2), (0, 1), (-1, 2), (-1, 1), (-2, 1)])
STEPS = np.concatenate([STEPS, -STEPS])
"""Cells (x, y) that one step forward takes, for each heading of the lattice."""
HEADINGS = len(STEPS)
YAWS = np.arctan2(STEPS[:, 1], STEPS[:, 0]) % math.tau
HALF_TURNS = 0.5 * (np.roll(YAWS, -1) - YAWS) % math.pi
"""From each heading to halfway to the next."""
Cells = tuple[slice, slice]
Coordinate = TypeVar("Coordinate", float, NDArray[np.float64])
BASE_M, ARM_HALF_M, MEET_COST = 0.29, 0.09, 60.0
"""Radius of the base, half the resting arm's width, and what (s/m) it costs that they would be in something."""
MIN_CLEARANCE_M, CLEARANCE_M = 0.25, 0.45
TIGHT_COST, HAND_COST = 6.0, 12.0
"""Times as long as the way feels with the base, or with the hand, where they should not be."""
BACKWARDS_COST, TURN_COST_S = 2.0, 0.05
FAR = 60.0
"""Cost-to-go where there is no way."""
FILLED, FILL_COST = 3, 1.0
"""Where no base can be, the cost-to-go is what it is beside that and so much more a cell."""
SPEEDS = np.array([-0.4, -0.2, 0.0, 0.15, 0.3, 0.6, 1.0]) * BASE_MAX_M_S
RATES = np.array([-1.0, -0.6, -0.3, -0.1, 0.0, 0.1, 0.3, 0.6, 1.0]) * BASE_MAX_RAD_S
LOOK_AHEAD_S, WEIGHED_S = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6), (0.3, 0.6)
"""Velocities that are tried, for how long each, and when the cost-to-go is looked up."""
NEAR_ENOUGH = 0.3
"""A place to stop at may be this much worse than the best and still do."""
NODES_ON = 3


@dataclass(frozen=True)
class Stop:
    """A place to stop at."""

    x: float
    y: float
    yaw: float
    cost: float
    """What it lacks, in metres of way."""


class CostToGo:
    """Seconds, more or less, from every base pose to the best of some places to stop at."""

    def __init__(self, grid: NavGrid, stops: Sequence[Stop]) -> None:
        self._grid, self._stops = grid, stops
        self._cell = STRIDE * grid.cell_m
        clearance = grid.clearance[::STRIDE, ::STRIDE]
        rows, columns = clearance.shape
        index = np.arange(rows * columns * HEADINGS).reshape(HEADINGS, rows, columns)
        base = np.where(clearance >= MIN_CLEARANCE_M, _base_weight(clearance), np.inf)
        # At the lattice's headings and halfway between: a thin wall is not to be between two of them.
        hand = self._hand_weight(np.stack([YAWS, YAWS + HALF_TURNS], axis=1).ravel(), rows, columns)
        hand, swept = hand[::2], hand[1::2]
        ends: list[NDArray[np.intp]] = []
        starts: list[NDArray[np.intp]] = []
        costs: list[NDArray[np.float64]] = []
        everywhere = (slice(None), slice(None))

        def connect(heading: int, here: Cells, turned: int, there: Cells, length: float, back: float) -> None:
            """Join a heading and the one `turned` (-1, 0, 1) on from it; `back`: times the cost the way back."""
            onto = (heading + turned) % HEADINGS
            worst = np.maximum(hand[heading][here], hand[onto][there])
            if turned:
                between = swept[heading if turned > 0 else onto]
                worst = np.maximum(worst, np.maximum(between[here], between[there]))
            cost = (length * (0.5 * (base[here] + base[there]) + worst)).ravel()
            free = np.isfinite(cost)
            a, b = index[heading][here].ravel()[free], index[onto][there].ravel()[free]
            starts.extend((a, b))
            ends.extend((b, a))
            costs.extend((cost[free], back * cost[free]))

        for heading, (dx, dy) in enumerate(STEPS):
            turn = math.remainder(float(YAWS[(heading + 1) % HEADINGS] - YAWS[heading]), math.tau) / BASE_MAX_RAD_S
            connect(heading, everywhere, 1, everywhere, turn + TURN_COST_S, 1.0)
            here = _shifted(rows, columns, -dy, -dx)
            there = _shifted(rows, columns, dy, dx)
            length = math.hypot(dx, dy) * self._cell / BASE_MAX_M_S
            for turned in (-1, 0, 1):
                connect(heading, here, turned, there, length + TURN_COST_S * abs(turned), BACKWARDS_COST)
        goal, self._shape = index.size, index.shape
        for stop in stops:
            i, j = grid.cell(stop.x, stop.y)
            i, j = min(i // STRIDE, rows - 1), min(j // STRIDE, columns - 1)
            heading = int(np.argmin(np.abs(np.angle(np.exp(1j * (YAWS - stop.yaw))))))
            starts.append(index[heading, i, j].reshape(1))
            ends.append(np.array([goal]))
            costs.append(np.array([stop.cost + 1e-3]))
        # Backwards, from the stops to everywhere.
        graph = csr_array(
            (np.concatenate(costs), (np.concatenate(ends), np.concatenate(starts))), shape=(goal + 1, goal + 1)
        )
        field, self._next = dijkstra(graph, indices=goal, return_predecessors=True)
        field = field[:goal].reshape(index.shape)
        for _ in range(FILLED):
            around = minimum_filter(field, 3, mode=("wrap", "nearest", "nearest"))
            field = np.where(np.isfinite(field), field, around + FILL_COST)
        # One heading more at either end, so that what lies between the last and the first can be read off.
        self._field = np.minimum(field, FAR)[np.arange(-1, HEADINGS + 1) % HEADINGS]
        self._yaws = np.concatenate([[YAWS[-1] - math.tau], YAWS, [math.tau]])

    def __call__(self, x: NDArray[np.float64], y: NDArray[np.float64], yaw: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return the cost-to-go of base poses (N,), interpolated."""
        row, column = self._cell_of(x, y)
        heading = np.interp(yaw % math.tau, self._yaws, np.arange(len(self._yaws)))
        return map_coordinates(self._field, (heading, row / STRIDE, column / STRIDE), order=1, mode="nearest")

    def at(self, x: float, y: float, yaw: float) -> float:
        """Return the cost-to-go of one base pose."""
        return float(self(*(np.array([value]) for value in (x, y, yaw)))[0])

    def drive(self, x: float, y: float, yaw: float) -> tuple[float, float]:
        """Return the velocity (m/s) and yaw rate (rad/s) that bring a base nearer."""
        v, w = (values.ravel() for values in np.meshgrid(SPEEDS, RATES))
        cost, overlap = np.zeros(len(v)), np.zeros(len(v))
        for seconds in LOOK_AHEAD_S:
            half = 0.5 * w * seconds
            chord = v * seconds * np.sinc(half / math.pi)
            to = x + chord * np.cos(yaw + half), y + chord * np.sin(yaw + half), yaw + 2.0 * half
            # Between the lattice's headings the cost-to-go knows of no obstacle: its slope may lead through one.
            overlap = np.maximum(overlap, self._overlap(*to))
            if seconds in WEIGHED_S:
                cost += self(*to)
        cost += MEET_COST * overlap
        best = int(np.argmin(cost + 1e-3 * np.abs(v) + 1e-3 * np.abs(w)))
        return (float(v[best]), float(w[best])) if v[best] or w[best] else self.drive_by_nodes(x, y, yaw)

    def _overlap(self, x: NDArray[np.float64], y: NDArray[np.float64], yaw: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return how deep (m) base and resting arm, at base poses (N,), would be in something."""
        grid = self._grid

        def room(clearance: NDArray[np.float32], x: NDArray[np.float64], y: NDArray[np.float64]) -> NDArray[np.float64]:
            return map_coordinates(clearance, self._cell_of(x, y), np.float64, order=1, mode="nearest")

        deep = np.maximum(0.0, BASE_M - room(grid.clearance, x, y))
        for reach in HAND_M:
            angle = yaw + HAND_AZIMUTH_RAD
            at = room(grid.tall_clearance, x + reach * np.cos(angle), y + reach * np.sin(angle))
            deep += np.maximum(0.0, ARM_HALF_M - at)
        return deep

    def _cell_of(self, x: Coordinate, y: Coordinate) -> tuple[Coordinate, Coordinate]:
        """Return where a world point is on the navigation grid: row and column, whole numbers at cells' centres."""
        grid = self._grid
        return (y - grid.origin[1]) / grid.cell_m - 0.5, (x - grid.origin[0]) / grid.cell_m - 0.5

    def drive_by_nodes(self, x: float, y: float, yaw: float) -> tuple[float, float]:
        """Return what brings the base to a node some way on from the nearest one.

        Where nodes' ways part there is a place between them from which `drive` sees none.
        """
        headings, rows, columns = self._shape
        row, column = (part / STRIDE for part in self._cell_of(x, y))
        i, j = min(max(round(row), 0), rows - 1), min(max(round(column), 0), columns - 1)
        node = int(np.argmin(np.abs(np.angle(np.exp(1j * (YAWS - yaw)))))) * rows * columns + i * columns + j
        for _ in range(NODES_ON):
            after = int(self._next[node])
            if not 0 <= after < headings * rows * columns:
                break
            node = after
        heading, to_row, to_column = np.unravel_index(node, self._shape)
        dx, dy = (to_column - column) * self._cell, (to_row - row) * self._cell
        ahead = math.cos(yaw) * dx + math.sin(yaw) * dy
        v = max(-0.4, min(0.4, 2.0 * ahead))
        return v, max(-1.0, min(1.0, 2.0 * math.remainder(float(YAWS[heading]) - yaw, math.tau)))

    def arrived(self, x: float, y: float, within_m: float, settle: float = 0.0) -> bool:
        """Whether a base stands at one of the places to stop at, and there is no better one that is near, or none that
        is better by more than `settle`."""
        here = min((s.cost for s in self._stops if math.hypot(s.x - x, s.y - y) < within_m), default=math.inf)
        if math.isinf(here):
            return False
        best = self(np.full(HEADINGS, x), np.full(HEADINGS, y), YAWS).min()
        return here < float(best) + NEAR_ENOUGH + settle

    def _hand_weight(self, yaws: NDArray[np.float64], rows: int, columns: int) -> NDArray[np.float64]:
        """Return what it costs (headings, rows, columns) that the hand meets something."""
        grid = self._grid
        tall = grid.tall_clearance
        i, j = np.mgrid[:rows, :columns] * STRIDE
        worst = np.full((len(yaws), rows, columns), np.inf)
        for reach in HAND_M:
            for heading, yaw in enumerate(yaws):
                di = round(reach * math.sin(yaw + HAND_AZIMUTH_RAD) / grid.cell_m)
                dj = round(reach * math.cos(yaw + HAND_AZIMUTH_RAD) / grid.cell_m)
                at = tall[np.clip(i + di, 0, tall.shape[0] - 1), np.clip(j + dj, 0, tall.shape[1] - 1)]
                worst[heading] = np.minimum(worst[heading], at)
        return HAND_COST * np.clip(2.0 - worst / HAND_ROOM_M, 0.0, 2.0) ** 2


@lru_cache(maxsize=4)
def cost_to_go(grid: NavGrid, stops: tuple[Stop, ...]) -> CostToGo:
    """Return the cost-to-go on a grid; an oracle that is asked anew at each step asks for the same."""
    return CostToGo(grid, stops)


def _base_weight(clearance: NDArray[np.float32]) -> NDArray[np.float64]:
    near = np.maximum(0.0, CLEARANCE_M - clearance.astype(np.float64))
    return 1.0 + TIGHT_COST * near + TIGHT_COST * (clearance < 0.30)


def _shifted(rows: int, columns: int, di: int, dj: int) -> tuple[slice, slice]:
    """Return the part of a grid that is left when those are cut off from which a step by -di, -dj leads out of it."""
    return slice(max(0, di), rows + min(0, di)), slice(max(0, dj), columns + min(0, dj))
