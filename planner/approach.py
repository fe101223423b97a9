"""Where Navigate comes from: before the furniture, which the planner knows as it knows what is in it.

Told nothing but where its target lies, Navigate stops where it comes from: beside a drawer, behind a headboard, on the
other side of a fridge's open door. habitat's Navigate, too, is called to where the robot may stand by its target.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hab.episodes import approach_poses, holds
from hab.navgrid import NavGrid, OrientedBox
from hab.openings import door_boxes, grid_with_openings
from hab.scene import Receptacle, Scene, Vec3
from planner.doors import hidden
from skills.floor_distance import FloorDistance
from skills.skill import Goal
from skills.starts import by_sides, moved_receptacle

BEFORE_FRONT_M = (1.2, 1.4, 1.6, 1.8)
"""So far before a handle, the farthest up to which the base may stand, Navigate passes on its way there: from beside it
the arm does not get hold of it."""
FRONT_PASSED_M, PASSED_M = 0.9, 1.0
"""Within so much along the floor Navigate has passed the place before a handle; where one would work at an object."""
BESIDE_M, BELOW_M = 0.05, 0.03
"""So far beside a surface, or below where it lies on it, what is believed to be there may be seen."""


@dataclass(frozen=True)
class Approach:
    """A place on the floor that Navigate comes by on its way to a target."""

    place: Vec3
    floor: FloorDistance
    """To it and to what is as good."""
    passed_m: float

    def passed(self, base: NDArray[np.float64]) -> bool:
        """Whether a base pose (3,) is near enough to it along the floor."""
        return self.floor(base) < self.passed_m


def approach(
    scene: Scene, shut: NavGrid, goal: Goal, joints: Mapping[str, float], base: NDArray[np.float64]
) -> Approach | None:
    """Return what Navigate comes by on its way from a base pose (3,) to a goal; None: it is to drive straight there.

    `shut`: the grid of the apartment with all shut; `joints`: how far (m or rad) the drawers and fridges that are
    believed to be open are.
    """
    grid = grid_with_openings(scene, shut, joints)
    if goal.articulation:
        places, passed_m = _before_front(scene, grid, goal), FRONT_PASSED_M
    else:
        receptacles = [moved_receptacle(scene, receptacle.name, joints) for receptacle in scene.receptacles]
        boxes = door_boxes(scene, joints)
        places, passed_m = _before_surface(receptacles, grid, boxes, goal.position), PASSED_M
    if not places:
        return None
    floor = FloorDistance(grid, places)
    return Approach((*floor.nearest(base), 0.0), floor, passed_m)


def _before_front(scene: Scene, grid: NavGrid, goal: Goal) -> list[tuple[float, float]]:
    """Return the farthest place before a handle that nothing is between; none if the base may stand nowhere there."""
    x, y, _ = goal.position
    yaw = scene.articulation(goal.articulation).yaw
    farthest: list[tuple[float, float]] = []
    for m in BEFORE_FRONT_M:
        place = x + m * math.cos(yaw), y + m * math.sin(yaw)
        if grid.is_free(*place) and grid.largest_component[grid.cell(*place)]:
            farthest = [place]
        elif farthest:
            break
    return farthest


def _before_surface(
    receptacles: list[Receptacle], grid: NavGrid, doors: list[OrientedBox], position: Vec3
) -> list[tuple[float, float]]:
    """Return the nearest place for each side from which the arm gets to what lies there, those behind a fridge's open
    door only if there are no others; none if it is on the floor."""
    under = [receptacle for receptacle in receptacles if holds(receptacle, position, BESIDE_M, BELOW_M)]
    if not under:
        return []
    poses = approach_poses(grid, max(under, key=lambda receptacle: receptacle.center[2]), position)
    shown = [pose for pose in poses if not hidden(doors, pose, position)]
    return [(x, y) for x, y, _ in by_sides(shown or poses)]
