"""Where Navigate comes from: before the furniture, which the planner knows as it knows what is in it.

Told nothing but where its target lies, Navigate stops where it comes from: beside a drawer, behind a headboard, on the
other side of a fridge's open door. habitat's Navigate, too, is called to where the robot may stand by its target.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hab.episodes import Unsolvable, holds
from hab.navgrid import NavGrid
from hab.openings import fridge_start, grid_with_openings, widest
from hab.scene import Scene, Vec3
from skills.navigate import FloorDistance
from skills.skill import Goal
from skills.starts import moved_receptacle, working_sides

BEFORE_FRONT_M = (1.8, 1.6, 1.4, 1.2)
"""So far before a handle, the first where the base may stand, Navigate passes on its way there: from beside it the arm
does not get hold of it."""
FRONT_PASSED_M, PASSED_M = 0.9, 1.0
"""Within so much along the floor Navigate has passed the place before a handle; where one would work at an object."""


@dataclass(frozen=True)
class Approach:
    """A place that Navigate comes by on its way to a target."""

    place: Vec3
    floor: FloorDistance
    passed_m: float

    def passed(self, base: NDArray[np.float64]) -> bool:
        """Whether a base pose (3,) is near enough to it along the floor."""
        return self.floor(base) < self.passed_m


def approach(
    scene: Scene, grid: NavGrid, goal: Goal, opened: Collection[str], base: NDArray[np.float64]
) -> Approach | None:
    """Return what Navigate comes by on its way from a base pose (3,) to a goal; None: it is to drive straight there.

    `grid`: of the apartment with all shut; `opened`: the drawers and fridges that are believed to be open.
    """
    if goal.articulation:
        return _before_front(scene, grid, goal)
    stand_open = [articulation for articulation in scene.articulations if articulation.name in opened]
    joints = {a.name: fridge_start(a) if a.kind == "fridge" else widest(a) for a in stand_open}
    receptacles = (moved_receptacle(scene, receptacle.name, joints) for receptacle in scene.receptacles)
    under = [receptacle for receptacle in receptacles if holds(receptacle, goal.position)]
    if not under:
        return None
    grid = grid_with_openings(scene, grid, joints)
    try:
        sides = working_sides(grid, max(under, key=lambda receptacle: receptacle.center[2]), goal.position)
    except Unsolvable:
        return None
    places = [(x, y) for x, y, _ in sides]
    floor = FloorDistance(grid, places)
    if floor(base) < PASSED_M:
        return None
    from_base = FloorDistance(grid, [floor.free_place(base)])
    x, y = min(places, key=lambda place: from_base.at(*place))
    return Approach((x, y, goal.position[2]), floor, PASSED_M)


def _before_front(scene: Scene, grid: NavGrid, goal: Goal) -> Approach | None:
    x, y, z = goal.position
    yaw = scene.articulation(goal.articulation).yaw
    ahead = ((x + m * math.cos(yaw), y + m * math.sin(yaw), z) for m in BEFORE_FRONT_M)
    place = next((place for place in ahead if grid.is_free(*place[:2])), None)
    if place is None:
        return None
    return Approach(place, FloorDistance(grid, [place[:2]]), FRONT_PASSED_M)
