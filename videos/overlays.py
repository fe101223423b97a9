"""What a video shows that is not in the world (VER, appendix C): objects to pick, their goals, where to drive."""

from __future__ import annotations

import math
from itertools import product

import numpy as np
from numpy.typing import NDArray

from hab.episodes import Episode
from hab.objects import OBJECTS
from hab.scene import Geom, Vec3
from hab.simulator import Overlay, Simulator
from skills.skill import Goal

WHITE = (1.0, 1.0, 1.0, 1.0)
GREY = (0.6, 0.6, 0.6, 1.0)
WIRE_RADIUS_M = 0.004
BOX_MARGIN_M = 0.02
GOAL_OPACITY = 0.45
SPHERE_RADIUS_M = 0.1


def overlays(sim: Simulator, episode: Episode, goal: Goal) -> list[Overlay]:
    """Return white boxes round the objects, translucent copies at their goals and a grey sphere at the skill's goal."""
    shapes: list[Overlay] = []
    for target in episode.targets:
        shapes += wireframe_box(sim.object_pos(target.object), OBJECTS[target.object].half_extents)
        shapes += [_ghost(geom, target.goal_pos) for geom in OBJECTS[target.object].geoms]
    on_floor = (goal.position[0], goal.position[1], 0.0)
    shapes.append(Overlay("sphere", on_floor, (SPHERE_RADIUS_M, 0.0, 0.0), GREY))
    return shapes


def wireframe_box(center: NDArray[np.float64], half_extents: Vec3) -> list[Overlay]:
    """Return the 12 edges, as thin bars, of an upright box that holds an object of these half sizes (m) at any yaw."""
    around = math.hypot(*half_extents[:2]) + BOX_MARGIN_M
    half = (around, around, half_extents[2] + BOX_MARGIN_M)
    edges = []
    for axis in range(3):
        first, second = (a for a in range(3) if a != axis)
        for sign_first, sign_second in product((-1.0, 1.0), repeat=2):
            pos, size = [float(c) for c in center], [WIRE_RADIUS_M] * 3
            pos[first] += sign_first * half[first]
            pos[second] += sign_second * half[second]
            size[axis] = half[axis]
            edges.append(Overlay("box", (pos[0], pos[1], pos[2]), (size[0], size[1], size[2]), WHITE))
    return edges


def _ghost(geom: Geom, origin: Vec3) -> Overlay:
    """Copy a geom of an object whose centre of mass is at `origin`, upright and unturned."""
    pos = (origin[0] + geom.pos[0], origin[1] + geom.pos[1], origin[2] + geom.pos[2])
    return Overlay(geom.shape, pos, geom.size, (*geom.rgba[:3], GOAL_OPACITY), _matrix(geom.quat))


def _matrix(quat: tuple[float, float, float, float]) -> tuple[float, ...]:
    """Return a unit quaternion (scalar first) as a rotation matrix, row by row."""
    w, x, y, z = quat
    return (
        *(1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        *(2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        *(2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )
