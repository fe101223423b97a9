"""What a video shows that is not in the world (VER, appendix C): objects to pick, their goals, where to drive."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from hab.episodes import Episode
from hab.objects import object_model
from hab.scene import Geom, Vec3
from hab.simulator import Overlay, Simulator
from skills.skill import Goal

WHITE = (1.0, 1.0, 1.0, 1.0)
GREY = (0.6, 0.6, 0.6, 1.0)
WIRE_RADIUS_M = 0.004
GOAL_OPACITY = 0.45
SPHERE_RADIUS_M = 0.1


def overlays(sim: Simulator, episode: Episode, goal: Goal) -> list[Overlay]:
    """Return white boxes round the objects, translucent copies at their goals and a grey sphere at the skill's goal."""
    shapes: list[Overlay] = []
    for target in episode.targets:
        model = object_model(target.object)
        rotation = np.reshape(matrix(sim.object_quat(target.object)), (3, 3))
        shapes += wireframe_box(sim.object_pos(target.object), rotation, model.half_extents)
        shapes += [ghost(geom, target.goal_pos) for geom in model.geoms]
    on_floor = (goal.position[0], goal.position[1], 0.0)
    shapes.append(Overlay("sphere", on_floor, (SPHERE_RADIUS_M, 0.0, 0.0), GREY))
    return shapes


def wireframe_box(
    center: NDArray[np.float64], rotation: NDArray[np.float64], half_extents: Vec3, margin_m: float = 0.02
) -> list[Overlay]:
    """Return the 12 edges, as thin bars, of a box of these half sizes (m) and a margin; `rotation` is (3, 3)."""
    half = np.asarray(half_extents) + margin_m
    mat = tuple(float(v) for v in rotation.flat)
    edges = []
    for axis in range(3):
        first, second = (a for a in range(3) if a != axis)
        for signs in product((-1.0, 1.0), repeat=2):
            offset, size = np.zeros(3), np.full(3, WIRE_RADIUS_M)
            offset[[first, second]] = half[[first, second]] * signs
            size[axis] = half[axis]
            edges.append(Overlay("box", _vec3(center + rotation @ offset), _vec3(size), WHITE, mat))
    return edges


def ghost(geom: Geom, origin: Vec3) -> Overlay:
    """Copy a geom of an object whose centre of mass is at `origin`, upright and unturned."""
    pos = (origin[0] + geom.pos[0], origin[1] + geom.pos[1], origin[2] + geom.pos[2])
    return Overlay(geom.shape, pos, geom.size, (*geom.rgba[:3], GOAL_OPACITY), matrix(geom.quat))


def matrix(quat: Sequence[float] | NDArray[np.float64]) -> tuple[float, ...]:
    """Return a unit quaternion (scalar first) as a rotation matrix, row by row."""
    w, x, y, z = (float(part) for part in quat)
    return (
        *(1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)),
        *(2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)),
        *(2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)),
    )


def _vec3(values: NDArray[np.float64]) -> Vec3:
    return float(values[0]), float(values[1]), float(values[2])
