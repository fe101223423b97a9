"""Episodes of navigation: a pure function of (task, split, index), from no file.

PointNav and ObjectNav follow habitat-lab's generator (habitat/datasets/pointnav/pointnav_generator.py): a way of 1 to
30 m, and where it is hardly longer than the straight line, most draws are rejected. Apartments take turns, as in
`hab.episodes`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hab.episodes import SPLITS, scene_seed
from hab.navigation import TASKS
from hab.navigation.apartment import Apartment, Cell, load_apartment

NEAREST_M, FARTHEST_M = 1.0, 30.0
RATIO = 1.1
"""Way by straight line, from which on every draw is taken."""
TRIES_PER_GOAL = 10
_STREAM = 33
"""Sets these draws apart from those of `hab.episodes`."""


@dataclass(frozen=True)
class NavigationEpisode:
    """Where the robot starts and where it has to go."""

    task: str
    split: str
    index: int
    scene_seed: int
    start: tuple[float, float, float]
    """x, y (m) and yaw (rad) in the world."""
    goal: tuple[float, float] | None
    """PointNav's, world (m)."""
    category: str
    """ObjectNav's; "" in other tasks."""
    geodesic_m: float
    """From the start to the goal; 0 in tasks that have none."""


def make_navigation_episode(task: str, split: str, index: int) -> NavigationEpisode:
    """Return one episode. Raises `ValueError` for an unknown task or split."""
    if task not in TASKS:
        raise ValueError(f"unknown task {task!r}; choose from {', '.join(TASKS)}")
    seed = scene_seed(split, index)
    apartment = load_apartment(seed)
    rng = np.random.default_rng([_STREAM, TASKS.index(task), SPLITS.index(split), index])
    goal: Cell | str
    while True:
        match task:
            case "pointnav":
                goal = apartment.sample(rng)
            case "objectnav":
                goal = str(rng.choice(apartment.categories))
            case _:
                x, y = apartment.xy(apartment.sample(rng))
                return NavigationEpisode(task, split, index, seed, (x, y, _yaw(rng)), None, "", 0.0)
        for _ in range(TRIES_PER_GOAL):
            x, y = apartment.xy(apartment.sample(rng))
            way_m = apartment.distance(apartment.field(goal), x, y)
            if accepted(way_m, _straight_m(apartment, goal, x, y), rng):
                point = None if isinstance(goal, str) else apartment.xy(goal)
                category = goal if isinstance(goal, str) else ""
                return NavigationEpisode(task, split, index, seed, (x, y, _yaw(rng)), point, category, way_m)


def accepted(way_m: float, straight_m: float, rng: np.random.Generator) -> bool:
    """Whether to take a draw: one in 3.5 to 125 of those whose way is less than `RATIO` times the straight line."""
    if not NEAREST_M <= way_m <= FARTHEST_M:
        return False
    ratio = way_m / straight_m
    return ratio >= RATIO or rng.random() <= 20.0 * (ratio - 0.98) ** 2


def _straight_m(apartment: Apartment, goal: Cell | str, x: float, y: float) -> float:
    if not isinstance(goal, str):
        return math.dist((x, y), apartment.xy(goal))
    rows, columns = np.nonzero(apartment.found(goal))
    left, low, size = apartment.frame.tolist()
    return float(np.hypot(left + (columns + 0.5) * size - x, low + (rows + 0.5) * size - y).min())


def _yaw(rng: np.random.Generator) -> float:
    return float(rng.uniform(-math.pi, math.pi))
