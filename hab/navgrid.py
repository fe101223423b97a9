"""Where the robot's base can be: a grid of the floor, distances along it and paths.

The robot is a disc. A cell is free if the disc, centred on the cell, touches nothing static between ankle and head
height; distances to obstacles are exact (footprints are rectangles, discs and ellipses), not grid-quantised.
"""

from __future__ import annotations

import copy
import math
from collections import OrderedDict
from collections.abc import Iterable

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import ndimage
from skimage.graph import MCP_Geometric

from hab.robot import NAV_RADIUS_M
from hab.scene import Geom, Scene, yaw_of

LOW_M, HIGH_M = 0.02, 1.3
"""Geometry between these heights stops the robot."""
TALL_M = 0.70
"""Geometry whose top is above this stops the resting arm, too."""
FIELDS_CACHED = 64

OrientedBox = tuple[float, float, float, float, float]
"""cx, cy, yaw, hx, hy (world, m, rad)."""
_EIGHT = np.ones((3, 3), dtype=bool)


class NavGrid:
    """Free space of one scene (articulations closed). Arrays are indexed [i, j] = [row of y, column of x]."""

    def __init__(self, scene: Scene, radius_m: float = NAV_RADIUS_M, cell_m: float = 0.05) -> None:
        self.radius_m = radius_m
        self.cell_m = cell_m
        x_min, y_min, x_max, y_max = scene.bounds
        self.origin = (x_min, y_min)
        """World position of the grid's corner (m)."""
        self.shape = (math.ceil((y_max - y_min) / cell_m - 1e-6), math.ceil((x_max - x_min) / cell_m - 1e-6))
        self._xs = x_min + (np.arange(self.shape[1], dtype=np.float32) + 0.5) * cell_m
        self._ys = y_min + (np.arange(self.shape[0], dtype=np.float32) + 0.5) * cell_m
        border_x = np.minimum(self._xs - x_min, x_max - self._xs)
        border_y = np.minimum(self._ys - y_min, y_max - self._ys)
        self.clearance: NDArray[np.float32] = np.minimum(border_x[None, :], border_y[:, None]).astype(np.float32)
        """Distance (m) from each cell's centre to the nearest obstacle, not inflated; negative or 0 inside."""
        self.tall_clearance: NDArray[np.float32] = self.clearance.copy()
        """The same, counting only obstacles higher than `TALL_M`."""
        for geom, x, y, yaw in _static_geoms(scene):
            bottom, top = geom.pos[2] - _half_height(geom), geom.pos[2] + _half_height(geom)
            if not geom.collides or top <= LOW_M or bottom >= HIGH_M:
                continue
            layers = (self.clearance, self.tall_clearance) if top > TALL_M else (self.clearance,)
            for layer in layers:
                self._stand(layer, geom, x, y, yaw)
        self._finish()

    @classmethod
    def of_map(
        cls,
        origin: tuple[float, float],
        cell_m: float,
        clearance: NDArray[np.float32],
        tall_clearance: NDArray[np.float32],
        radius_m: float = NAV_RADIUS_M,
    ) -> NavGrid:
        """Return a grid of distances that were measured elsewhere; where the base cannot get to is no free space.

        Raises `ValueError` where there is no free space."""
        grid = cls.__new__(cls)
        rows, columns = clearance.shape
        grid.radius_m, grid.cell_m, grid.origin, grid.shape = radius_m, cell_m, origin, (rows, columns)
        grid._xs = origin[0] + (np.arange(grid.shape[1], dtype=np.float32) + 0.5) * cell_m
        grid._ys = origin[1] + (np.arange(grid.shape[0], dtype=np.float32) + 0.5) * cell_m
        grid.clearance, grid.tall_clearance = clearance.copy(), tall_clearance
        grid._finish()
        grid.clearance[grid.free & ~grid.largest_component] = 0.0
        grid._finish()
        return grid

    def with_boxes(self, boxes: Iterable[OrientedBox], radius_m: float | None = None) -> NavGrid:
        """A copy in which oriented rectangles (opened doors and drawers) are obstacles, too; perhaps for a robot of
        another radius."""
        other = copy.copy(self)
        other.radius_m = radius_m or self.radius_m
        other.clearance = self.clearance.copy()
        other.tall_clearance = self.tall_clearance.copy()
        for cx, cy, yaw, hx, hy in boxes:
            for layer in (other.clearance, other.tall_clearance):
                _stand_box(layer, self._xs, self._ys, cx, cy, yaw, hx, hy)
        other._finish()
        return other

    @property
    def frame(self) -> NDArray[np.float64]:
        """(3,) the corner's position and the cells' size (m), for compiled code."""
        return np.array([*self.origin, self.cell_m])

    def cell(self, x: float, y: float) -> tuple[int, int]:
        """Index (i, j) of the cell that holds a world point; may lie outside of the grid."""
        return math.floor((y - self.origin[1]) / self.cell_m), math.floor((x - self.origin[0]) / self.cell_m)

    def xy(self, i: int, j: int) -> tuple[float, float]:
        """World position of a cell's centre (m)."""
        return self.origin[0] + (j + 0.5) * self.cell_m, self.origin[1] + (i + 0.5) * self.cell_m

    def is_free(self, x: float, y: float) -> bool:
        """Whether the base may stand at a world point."""
        i, j = self.cell(x, y)
        return 0 <= i < self.shape[0] and 0 <= j < self.shape[1] and bool(self.free[i, j])

    def nearest_free(self, x: float, y: float) -> tuple[float, float]:
        """Centre of the cell of the largest component that is nearest to a world point."""
        return self.xy(*self._nearest_cell(x, y))

    def sample(self, rng: np.random.Generator) -> tuple[float, float]:
        """Centre of a cell of the largest component, drawn uniformly."""
        i, j = self._cells[rng.integers(len(self._cells))]
        return self.xy(int(i), int(j))

    def distance_field(self, *places: tuple[float, float]) -> NDArray[np.float32]:
        """Geodesic distance (m) of every cell to the nearest of the free cells nearest to some places; inf where
        unreachable. Read only."""
        goals = tuple(sorted({self._nearest_cell(*xy) for xy in places}))
        field = self._fields.get(goals)
        if field is None:
            costs, _ = MCP_Geometric(self._costs, fully_connected=True).find_costs(goals)
            field = (costs * self.cell_m).astype(np.float32)
            field.flags.writeable = False
            self._fields[goals] = field
            if len(self._fields) > FIELDS_CACHED:
                self._fields.popitem(last=False)
        self._fields.move_to_end(goals)
        return field

    def cells_near(self, xy: tuple[float, float], distance_m: float) -> NDArray[np.bool_]:
        """Which cells lie less than a geodesic distance from the free cell nearest `xy`; looks no further than that."""
        i, j = self._nearest_cell(*xy)
        reach = math.ceil(distance_m / self.cell_m)
        top, left = max(i - reach, 0), max(j - reach, 0)
        window = slice(top, i + reach + 1), slice(left, j + reach + 1)
        costs, _ = MCP_Geometric(self._costs[window], fully_connected=True).find_costs([(i - top, j - left)])
        near = np.zeros(self.shape, dtype=np.bool_)
        near[window] = (costs * self.cell_m).astype(np.float32) < distance_m
        return near

    def geodesic(self, a: tuple[float, float], b: tuple[float, float]) -> float:
        """Distance (m) along the floor between the free cells nearest to two points."""
        return float(self.distance_field(b)[self._nearest_cell(*a)])

    def path(self, a: tuple[float, float], b: tuple[float, float]) -> NDArray[np.float64]:
        """Shortest path over cell centres, (N, 2) world points from the free cell nearest `a` to that of `b`."""
        field = self.distance_field(b)
        i, j = self._nearest_cell(*a)
        points = [self.xy(i, j)]
        while field[i, j] > 0:
            rows, cols = slice(max(i - 1, 0), i + 2), slice(max(j - 1, 0), j + 2)
            ii, jj = np.mgrid[rows, cols][:, : field.shape[0], : field.shape[1]]
            ii, jj = ii.ravel(), jj.ravel()
            inside = (ii < self.shape[0]) & (jj < self.shape[1]) & ((ii != i) | (jj != j))
            ii, jj = ii[inside], jj[inside]
            best = int(np.argmin(field[ii, jj] + self.cell_m * np.hypot(ii - i, jj - j)))
            i, j = int(ii[best]), int(jj[best])
            points.append(self.xy(i, j))
        return np.array(points)

    def _finish(self) -> None:
        """Derive masks from the clearance."""
        self.free: NDArray[np.bool_] = self.clearance >= self.radius_m
        labels, count = ndimage.label(self.free, structure=_EIGHT)
        if count == 0:
            raise ValueError("the scene has no free floor")
        self.largest_component: NDArray[np.bool_] = labels == 1 + int(np.argmax(np.bincount(labels.ravel())[1:]))
        self._cells = np.argwhere(self.largest_component)
        self._costs = np.where(self.free, 1.0, np.inf)
        self._nearest: NDArray[np.int32] | None = None
        self._fields: OrderedDict[tuple[tuple[int, int], ...], NDArray[np.float32]] = OrderedDict()

    def _nearest_cell(self, x: float, y: float) -> tuple[int, int]:
        i, j = self.cell(x, y)
        i, j = min(max(i, 0), self.shape[0] - 1), min(max(j, 0), self.shape[1] - 1)
        if self.largest_component[i, j]:
            return i, j
        if self._nearest is None:
            self._nearest = ndimage.distance_transform_edt(
                ~self.largest_component, return_distances=False, return_indices=True
            )
        return int(self._nearest[0, i, j]), int(self._nearest[1, i, j])

    def _stand(self, clearance: NDArray[np.float32], geom: Geom, x: float, y: float, yaw: float) -> None:
        """Let a geom stand on the floor: no cell's clearance is more than its distance (m) from the footprint."""
        upright = abs(geom.quat[1]) < 1e-6 and abs(geom.quat[2]) < 1e-6
        if geom.shape == "box" and upright:
            _stand_box(clearance, self._xs, self._ys, x, y, yaw, geom.size[0], geom.size[1])
            return
        # Anything leaning: the disc around it (conservative; the generator makes few of these).
        round_ = geom.shape in ("cylinder", "capsule", "sphere") and upright
        radius = geom.size[0] if round_ else float(np.linalg.norm(_bounding_half_sizes(geom)))
        distance = np.hypot(self._xs[None, :] - x, self._ys[:, None] - y) - np.float32(radius)
        np.minimum(clearance, distance, out=clearance)


@njit(
    "void(float32[:, ::1], float32[::1], float32[::1], float64, float64, float64, float64, float64)",
    cache=True,
)
def _stand_box(
    clearance: NDArray[np.float32],
    xs: NDArray[np.float32],
    ys: NDArray[np.float32],
    cx: float,
    cy: float,
    yaw: float,
    hx: float,
    hy: float,
) -> None:
    """Let a rectangle stand on the floor of cells whose centres are at xs and ys; float32, as the clearance is."""
    c, s = np.float32(math.cos(yaw)), np.float32(math.sin(yaw))
    x0, y0, half_x, half_y, zero = np.float32(cx), np.float32(cy), np.float32(hx), np.float32(hy), np.float32(0.0)
    for i in range(len(ys)):
        dy = ys[i] - y0
        for j in range(len(xs)):
            dx = xs[j] - x0
            u = abs(c * dx + s * dy) - half_x
            v = abs(c * dy - s * dx) - half_y
            farther = max(u, v)
            if farther >= clearance[i, j]:  # the distance is that, or more
                continue
            distance = math.hypot(u, v) if min(u, v) > zero else farther
            clearance[i, j] = min(clearance[i, j], distance)


def _static_geoms(scene: Scene) -> Iterable[tuple[Geom, float, float, float]]:
    """Every geom with its world x, y and yaw, articulations closed (z of link frames is added to the geom)."""
    for piece in scene.furniture:
        for geom in piece.geoms:
            yield geom, geom.pos[0], geom.pos[1], yaw_of(geom.quat)
    for art in scene.articulations:
        c, s = math.cos(art.yaw), math.sin(art.yaw)
        for geom in art.geoms:
            x, y, z = geom.pos
            at_height = Geom(**{**geom.__dict__, "pos": (x, y, z + art.pos[2])})
            yield at_height, art.pos[0] + c * x - s * y, art.pos[1] + s * x + c * y, art.yaw + yaw_of(geom.quat)


def _bounding_half_sizes(geom: Geom) -> tuple[float, float, float]:
    """Half sizes of a geom's own box (its frame)."""
    a, b, c = geom.size
    match geom.shape:
        case "sphere":
            return a, a, a
        case "cylinder":
            return a, a, b
        case "capsule":
            return a, a, a + b
        case _:
            return a, b, c


def _half_height(geom: Geom) -> float:
    """Half the vertical extent of a geom in the world."""
    w, x, y, z = geom.quat
    row = (2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y))
    if geom.shape in ("sphere", "ellipsoid"):
        return math.sqrt(sum((r * h) ** 2 for r, h in zip(row, _bounding_half_sizes(geom), strict=True)))
    return sum(abs(r) * h for r, h in zip(row, _bounding_half_sizes(geom), strict=True))
