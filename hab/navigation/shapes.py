"""The shapes of an apartment that stand still, in the world: what the laser and the camera of navigation see."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hab.mujoco.rays import SHAPE_KINDS
from hab.openings import link_to_world, swing
from hab.scene import Geom, Scene, axes_of


@dataclass(frozen=True)
class Standing:
    """A geom and its pose in the world."""

    geom: Geom
    pos: NDArray[np.float64]
    """(3,) m."""
    mat: NDArray[np.float64]
    """(3, 3): its axes as columns."""


def standing(scene: Scene) -> Iterator[Standing]:
    """Give every geom of the furniture, and of doors and drawers, which are closed."""
    yield from of_furniture(scene)
    yield from of_links(scene, {})


def of_furniture(scene: Scene) -> Iterator[Standing]:
    """Give every geom of the furniture."""
    for piece in scene.furniture:
        for geom in piece.geoms:
            yield Standing(geom, np.array(geom.pos, np.float64), axes_of(geom.quat))


def of_links(scene: Scene, joints: Mapping[str, float]) -> Iterator[Standing]:
    """Give every geom of doors and drawers, open as far as `joints` says (m or rad; not named: closed)."""
    for link in scene.articulations:
        position = joints.get(link.name, 0.0)
        half = 0.5 * (link.yaw + swing(link, position))
        turn = axes_of((math.cos(half), 0.0, 0.0, math.sin(half)))
        for geom in link.geoms:
            yield Standing(geom, np.array(link_to_world(link, position, geom.pos)), turn @ axes_of(geom.quat))


class Columns(NamedTuple):
    """n shapes as `hab.mujoco.rays.StillShapes` takes them."""

    kinds: NDArray[np.int64]
    """(n,) MuJoCo's geom types."""
    sizes: NDArray[np.float64]
    """(n, 3) as MuJoCo has them (m)."""
    pos: NDArray[np.float64]
    """(n, 3) centres (m, world)."""
    mat: NDArray[np.float64]
    """(n, 3, 3) axes in their columns (world)."""
    decoration: NDArray[np.bool_]
    """(n,) whether it is only drawn, and touches nothing."""

    def with_(self, others: Columns) -> Columns:
        """Return these shapes and others."""
        return Columns(
            np.concatenate((self.kinds, others.kinds)),
            np.concatenate((self.sizes, others.sizes)),
            np.concatenate((self.pos, others.pos)),
            np.concatenate((self.mat, others.mat)),
            np.concatenate((self.decoration, others.decoration)),
        )


def columns(shapes: Iterable[Standing]) -> Columns:
    """Return shapes as arrays."""
    found = list(shapes)
    return Columns(
        np.array([SHAPE_KINDS[shape.geom.shape] for shape in found], np.int64),
        np.array([shape.geom.size for shape in found], np.float64).reshape(-1, 3),
        np.array([shape.pos for shape in found]).reshape(-1, 3),
        np.array([shape.mat.ravel() for shape in found]).reshape(-1, 9),
        np.array([not shape.geom.collides for shape in found], np.bool_),
    )
