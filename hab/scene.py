"""An apartment as plain data: what the generator makes, the simulators build and the planner names.

World frame: z up, metres, radians; the floor is z = 0. Nothing here knows a physics engine, so the same
`Scene` is compiled to MuJoCo (`hab.mujoco.build`) and can be exported to other simulators.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LOW_CEILING_M = 0.60
"""Less free height than this over a surface is too little for a hand from above."""

Vec3 = tuple[float, float, float]
Rgba = tuple[float, float, float, float]
Quat = tuple[float, float, float, float]
"""Orientation, scalar first."""


def yaw_of(quat: Quat) -> float:
    """Return the yaw (rad) of an orientation."""
    w, x, y, z = quat
    return math.atan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))


def axes_of(quat: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the axes of what has an orientation (scalar first, of whatever length), as a rotation's (3, 3) columns."""
    w, x, y, z = np.divide(quat, np.linalg.norm(quat)).tolist()
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


DRAWER_OPEN_M = 0.45
"""Goal position of an opened drawer (m); success when joint > 0.45 - 0.05."""
FRIDGE_OPEN_RAD = 1.2208
"""Goal angle of an opened fridge door (rad)."""


@dataclass(frozen=True)
class Geom:
    """One primitive, placed in the frame of what owns it (the world for furniture, the link for articulations)."""

    name: str
    shape: str
    """"box", "cylinder", "sphere", "ellipsoid" or "capsule"."""
    pos: Vec3
    size: Vec3
    """MuJoCo half sizes: box (hx, hy, hz); cylinder and capsule (radius, half length, 0); sphere (radius, 0, 0)."""
    rgba: Rgba
    quat: tuple[float, float, float, float] = (1.0, 0.0, 0.0, 0.0)
    """Orientation, scalar first."""
    collides: bool = True
    """False: decoration only (rugs, pictures); neither touched, nor seen by the laser or the navigation grid."""
    material: str = ""
    """Name of a surface in `hab.mujoco.build.MATERIALS` ("" = plain colour)."""


def volume(geom: Geom) -> float:
    """Return a shape's volume (m^3)."""
    a, b, c = geom.size
    match geom.shape:
        case "box":
            return 8 * a * b * c
        case "cylinder":
            return 2 * math.pi * a * a * b
        case "capsule":
            return math.pi * a * a * (2 * b + 4 / 3 * a)
        case "sphere":
            return 4 / 3 * math.pi * a**3
        case _:
            return 4 / 3 * math.pi * a * b * c


@dataclass(frozen=True)
class Furniture:
    """A static piece: a body fixed to the world with its geoms in *world* coordinates."""

    name: str
    geoms: tuple[Geom, ...]


@dataclass(frozen=True)
class Articulation:
    """A drawer or a door: one link on one joint, with a handle.

    At joint position 0 (closed) the link frame coincides with `pos`, `yaw` in the world; the link's local +x axis
    points *out of* the furniture's front, towards where a robot stands to use it.
    """

    name: str
    """"drawer_0" …, or "fridge"."""
    kind: str
    """"cabinet" (slide along local +x) or "fridge" (hinge about local +-z)."""
    furniture: str
    pos: Vec3
    yaw: float
    axis: Vec3
    """Joint axis in the link frame; a positive joint position always opens."""
    joint_range: tuple[float, float]
    geoms: tuple[Geom, ...]
    """Geoms of the link (link frame), the handle among them."""
    handle_geom: str
    handle_pos: Vec3
    """Centre of the handle, link frame: where suction may hold."""
    anchor: Vec3 = (0.0, 0.0, 0.0)
    """Hinge axis position in the link frame (fridge)."""


FLOOR = "floor"
"""Named like a kind of receptacle where there is none below a place."""
SURFACES = (
    "table",
    "counter",
    "coffee_table",
    "sofa",
    "tv_bench",
    "shelf",
    "desk",
    "bed",
    "nightstand",
    "drawer",
    "fridge",
)
"""Kinds of receptacles, besides those of `hab.storage`."""


@dataclass(frozen=True)
class Receptacle:
    """A flat surface on which objects rest, and how a robot gets at it."""

    name: str
    kind: str
    """One of `SURFACES` or a kind of `hab.storage`."""
    center: Vec3
    """Centre of the surface in the world (z = height of the surface), articulations closed."""
    yaw: float
    half_extents: tuple[float, float]
    """Half sizes of the usable rectangle along the receptacle's local x (out of its front) and y."""
    clearance_m: float
    """Free height above the surface (large where nothing is above)."""
    fronts: tuple[float, ...]
    """Local yaw angles of the sides a robot can reach it from: 0 is local +x (the front), pi/2 is local +y …"""
    articulation: str = ""
    """The drawer or fridge this surface is inside of ("" = always open). A drawer's surface moves with it."""

    @property
    def under_board(self) -> bool:
        """Whether something hangs over it, so that a hand must come in flat (not over a pulled-out drawer)."""
        return self.clearance_m < LOW_CEILING_M and self.kind != "drawer"


@dataclass(frozen=True)
class Scene:
    """One apartment, a pure function of its seed."""

    seed: int
    bounds: tuple[float, float, float, float]
    """x_min, y_min, x_max, y_max of the outer walls' inner faces (m)."""
    furniture: tuple[Furniture, ...]
    articulations: tuple[Articulation, ...]
    receptacles: tuple[Receptacle, ...]
    floor_material: str = "wood_floor"
    objects: tuple[str, ...] = ()
    """Instances (`hab.objects`) that are in the house."""

    def receptacle(self, name: str) -> Receptacle:
        return next(r for r in self.receptacles if r.name == name)

    @property
    def fridge(self) -> Articulation:
        """The one that every house has."""
        return next(a for a in self.articulations if a.kind == "fridge")

    def articulation(self, name: str) -> Articulation:
        return next(a for a in self.articulations if a.name == name)
