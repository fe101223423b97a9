"""The graspable household objects: rough shapes, sizes and masses of the YCB objects HAB rearranges.

Reference: Calli et al., "The YCB Object and Model Set", 2015 (sizes and masses of its table of objects).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hab.scene import Geom, Quat, Rgba, Vec3


@dataclass(frozen=True)
class ObjectModel:
    """One rigid object. Its frame has the origin at the centre of mass and z up when it stands upright."""

    name: str
    mass_kg: float
    geoms: tuple[Geom, ...]
    """Object frame; those with `collides` share the mass by volume."""
    half_height_m: float
    """Height of the centre of mass above the supporting surface, standing upright."""
    radius_m: float
    """Radius of the smallest upright cylinder around the origin that holds it."""
    half_extents: tuple[float, float, float]
    """Half sizes of the box around it (m), upright; symmetric about the origin in x and y."""

    @property
    def grasp_height_m(self) -> float:
        """Height above the centre of mass at which a cup coming straight down meets the object."""
        return self.geoms[0].pos[2] + self.geoms[0].size[{"box": 2, "cylinder": 1, "sphere": 0}[self.geoms[0].shape]]


def held_pose(name: str, ee_pos: NDArray[np.float64], yaw: float, tilt_rad: float) -> tuple[Vec3, Quat]:
    """Return the position (m) and orientation (scalar first) of an object put to the cup by its grasp point.

    It is upright, or leans: its foot towards a robot whose base heads for `yaw`, by `tilt_rad`.
    """
    # Its axis, from the grasp point down, swings back in the robot's vertical plane.
    back, depth = math.sin(tilt_rad), OBJECTS[name].grasp_height_m
    axis = np.array([-back * math.cos(yaw), -back * math.sin(yaw), -math.cos(tilt_rad)])
    x, y, z = (ee_pos + depth * axis).tolist()
    lean = math.sin(0.5 * tilt_rad)
    return (x, y, z), (math.cos(0.5 * tilt_rad), -lean * math.sin(yaw), lean * math.cos(yaw), 0.0)


def _box(name: str, mass_kg: float, size_m: tuple[float, float, float], rgba: Rgba, label: Rgba) -> ObjectModel:
    """A printed carton: a box with a band around it as its label."""
    hx, hy, hz = (s / 2 for s in size_m)
    geoms = (
        Geom("shell", "box", (0, 0, 0), (hx, hy, hz), rgba),
        Geom("label", "box", (0, 0, 0.15 * hz), (hx + 0.0006, hy * 0.8, hz * 0.45), label, collides=False),
    )
    return ObjectModel(name, mass_kg, geoms, hz, math.hypot(hx, hy), (hx, hy, hz))


def _can(name: str, mass_kg: float, radius_m: float, height_m: float, rgba: Rgba, label: Rgba) -> ObjectModel:
    """A tin: a cylinder with a paper sleeve."""
    half = height_m / 2
    geoms = (
        Geom("shell", "cylinder", (0, 0, 0), (radius_m, half, 0), rgba, material="steel"),
        Geom("label", "cylinder", (0, 0, 0), (radius_m + 0.0006, half * 0.86, 0), label, collides=False),
    )
    return ObjectModel(name, mass_kg, geoms, half, radius_m, (radius_m, radius_m, half))


def _ball(name: str, mass_kg: float, radius_m: float, rgba: Rgba) -> ObjectModel:
    """A fruit: a sphere with a stub of its stem."""
    geoms = (
        Geom("shell", "sphere", (0, 0, 0), (radius_m, 0, 0), rgba),
        Geom("stem", "cylinder", (0, 0, radius_m), (0.003, 0.006, 0), (0.35, 0.24, 0.12, 1), collides=False),
    )
    return ObjectModel(name, mass_kg, geoms, radius_m, radius_m, (radius_m, radius_m, radius_m))


def _bowl(name: str, mass_kg: float, radius_m: float, height_m: float, rgba: Rgba, segments: int = 8) -> ObjectModel:
    """A bowl of convex pieces: a disc as bottom and tilted slabs as rim."""
    foot, thickness = 0.55 * radius_m, 0.003
    run, rise = radius_m - foot, height_m - 2 * thickness
    tilt = math.atan2(run, rise)
    slab = (thickness, math.pi * radius_m / segments, 0.5 * math.hypot(run, rise))
    disc_volume = math.pi * foot**2 * 2 * thickness
    rim_volume = segments * 8 * slab[0] * slab[1] * slab[2]
    rim_z = 2 * thickness + rise / 2
    com_z = (disc_volume * thickness + rim_volume * rim_z) / (disc_volume + rim_volume)
    geoms = [Geom("bottom", "cylinder", (0, 0, thickness - com_z), (foot, thickness, 0), rgba)]
    for i in range(segments):
        angle = 2 * math.pi * i / segments
        # Turn about z to the segment, then lean its top outwards (rotation about local y).
        cz, sz, cy, sy = math.cos(angle / 2), math.sin(angle / 2), math.cos(tilt / 2), math.sin(tilt / 2)
        mid = (radius_m + foot) / 2 - thickness
        pos = (mid * math.cos(angle), mid * math.sin(angle), rim_z - com_z)
        geoms.append(Geom(f"rim_{i}", "box", pos, slab, rgba, quat=(cz * cy, -sz * sy, cz * sy, sz * cy)))
    half = (radius_m, radius_m, max(com_z, height_m - com_z))
    # The slabs' corners stick out a little beyond the circle they approximate.
    return ObjectModel(name, mass_kg, tuple(geoms), com_z, radius_m / math.cos(math.pi / segments), half)


_METAL: Rgba = (0.78, 0.78, 0.80, 1.0)

OBJECTS: dict[str, ObjectModel] = {
    model.name: model
    for model in (
        _can("002_master_chef_can", 0.414, 0.051, 0.140, _METAL, (0.13, 0.25, 0.55, 1)),
        _box("003_cracker_box", 0.411, (0.060, 0.158, 0.210), (0.78, 0.12, 0.10, 1), (0.93, 0.80, 0.30, 1)),
        _box("004_sugar_box", 0.514, (0.038, 0.089, 0.175), (0.95, 0.82, 0.18, 1), (0.95, 0.95, 0.95, 1)),
        _can("005_tomato_soup_can", 0.349, 0.033, 0.101, _METAL, (0.80, 0.14, 0.12, 1)),
        _can("007_tuna_fish_can", 0.171, 0.0425, 0.033, _METAL, (0.20, 0.45, 0.72, 1)),
        _box("008_pudding_box", 0.187, (0.035, 0.110, 0.089), (0.42, 0.23, 0.12, 1), (0.95, 0.90, 0.82, 1)),
        _box("009_gelatin_box", 0.097, (0.028, 0.085, 0.073), (0.86, 0.18, 0.28, 1), (0.97, 0.93, 0.93, 1)),
        _box("010_potted_meat_can", 0.370, (0.050, 0.097, 0.082), (0.13, 0.28, 0.60, 1), (0.93, 0.77, 0.20, 1)),
        _bowl("024_bowl", 0.147, 0.0795, 0.055, (0.75, 0.20, 0.16, 1)),
        _ball("013_apple", 0.068, 0.0375, (0.72, 0.10, 0.12, 1)),
        _ball("017_orange", 0.047, 0.0365, (0.95, 0.52, 0.08, 1)),
    )
}
"""The catalogue by name."""
