"""An apartment as navigation needs it: free cells, goals, distances, what the sensors see; small enough to keep all."""

from __future__ import annotations

import re
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from hab.episodes import load_grid, load_scene
from hab.mujoco.rays import StillShapes
from hab.navgrid import NavGrid
from hab.navigation.camera import Camera
from hab.navigation.geodesic import Field, distance_field, distance_from
from hab.navigation.shapes import columns, standing
from hab.scene import Scene

APARTMENTS_KEPT = 1100
"""More than all of training's."""
FIELDS_KEPT = 64
"""Of all apartments; each has 0.3 MB."""
CATEGORIES = {
    "bed": ("bed",),
    "chair": ("chair",),
    "fridge": ("fridge_body",),
    "plant": ("plant",),
    "sofa": ("sofa",),
    "tv": ("tv_bench",),
}
"""What ObjectNav looks for -> the names of such furniture, less their numbers."""
NEAR_M = 1.0
"""So near, along the floor, is an instance of the category found."""

Cell = tuple[int, int]
"""Row of y, column of x."""


class Apartment:
    """One apartment with everything closed, for the base of `hab.navgrid`."""

    def __init__(self, seed: int) -> None:
        scene, grid = load_scene(seed), load_grid(seed)
        self.seed = seed
        self.free: NDArray[np.bool_] = grid.largest_component
        """(rows, columns) where the robot's centre may be."""
        self.frame = grid.frame
        """The grid's corner x, y (m) and its cells' size (m)."""
        self._cells = np.flatnonzero(self.free).astype(np.int32)
        self.shapes = StillShapes(*columns(standing(scene)))
        self._found: dict[str, NDArray[np.bool_]] = {}

    @cached_property
    def camera(self) -> Camera:
        return Camera(load_scene(self.seed))

    @cached_property
    def categories(self) -> tuple[str, ...]:
        """What of `CATEGORIES` is here and can be got at."""
        return tuple(category for category in CATEGORIES if self.found(category).any())

    def sample(self, rng: np.random.Generator) -> Cell:
        """Draw a free cell."""
        cell = int(self._cells[rng.integers(len(self._cells))])
        return cell // self.free.shape[1], cell % self.free.shape[1]

    def xy(self, cell: Cell) -> tuple[float, float]:
        """Return a cell's centre (m, world)."""
        x, y, size = self.frame.tolist()
        return x + (cell[1] + 0.5) * size, y + (cell[0] + 0.5) * size

    def cell(self, x: float, y: float) -> Cell:
        """Return the cell that holds a world point."""
        left, low, size = self.frame.tolist()
        return int((y - low) // size), int((x - left) // size)

    def field(self, goal: Cell | str) -> Field:
        """Return the distances to a cell, or to where a category counts as found."""
        return _field(self, goal)

    def distance(self, field: Field, x: float, y: float) -> float:
        """Return how far (m) a world point is from a field's goal."""
        return float(distance_from(field.distance_m, field.anchor, self.frame, x, y))

    def path(self, field: Field, x: float, y: float) -> NDArray[np.float64]:
        """Return the shortest way from a world point to a field's goal: (n, 2) its corners and ends, world (m)."""
        points, cell = [(x, y)], self.cell(x, y)
        while True:
            anchor = divmod(int(field.anchor[cell]), self.free.shape[1])
            points.append(self.xy(anchor))
            if field.distance_m[anchor] == 0.0:
                return np.array(points)
            cell = anchor

    def found(self, category: str) -> NDArray[np.bool_]:
        """Return the free cells (rows, columns) from which an instance of a category is less than `NEAR_M` away, around
        walls and other furniture."""
        cells = self._found.get(category)
        if cells is None:
            footprint = self.footprint(category)
            around = footprint | (load_grid(self.seed).clearance > 0.0)
            near = distance_field(around, footprint, self.frame[2]).distance_m < NEAR_M
            cells = self._found[category] = near & self.free
        return cells

    def footprint(self, category: str) -> NDArray[np.bool_]:
        """Return the cells (rows, columns) that instances of a category stand on, or over."""
        scene = load_scene(self.seed)
        pieces = tuple(piece for piece in scene.furniture if re.sub(r"_\d+$", "", piece.name) in CATEGORIES[category])
        if not pieces:
            return np.zeros_like(self.free)
        alone = Scene(scene.seed, scene.bounds, pieces, (), (), scene.floor_material)
        stood_on: NDArray[np.bool_] = NavGrid(alone, cell_m=float(self.frame[2])).clearance <= 0.0
        # Cells that reach beyond the outer walls count as obstacles there.
        rows, columns = self.free.shape
        last = self.cell(scene.bounds[2] - 0.5 * self.frame[2], scene.bounds[3] - 0.5 * self.frame[2])
        return stood_on & (np.arange(rows)[:, None] <= last[0]) & (np.arange(columns) <= last[1])


@lru_cache(maxsize=APARTMENTS_KEPT)
def load_apartment(seed: int) -> Apartment:
    """Return the apartment of a seed, kept for the next time."""
    return Apartment(seed)


@lru_cache(maxsize=FIELDS_KEPT)
def _field(apartment: Apartment, goal: Cell | str) -> Field:
    if isinstance(goal, str):
        goals = apartment.found(goal)
    else:
        goals = np.zeros_like(apartment.free)
        goals[goal] = True
    return distance_field(apartment.free, goals, apartment.frame[2])
