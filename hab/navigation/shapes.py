"""The shapes of an apartment that stand still, in the world: what the laser and the camera of navigation see."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hab.scene import Geom, Quat, Scene


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
    for piece in scene.furniture:
        for geom in piece.geoms:
            yield Standing(geom, np.array(geom.pos, np.float64), _matrix(geom.quat))
    for link in scene.articulations:
        turn = _matrix((math.cos(0.5 * link.yaw), 0.0, 0.0, math.sin(0.5 * link.yaw)))
        for geom in link.geoms:
            pos = np.add(link.pos, turn @ np.array(geom.pos, np.float64))
            yield Standing(geom, pos, turn @ _matrix(geom.quat))


def _matrix(quat: Quat) -> NDArray[np.float64]:
    w, x, y, z = np.divide(quat, np.linalg.norm(quat)).tolist()
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )
