"""The graspable household objects: rough shapes, sizes and masses of the YCB objects HAB rearranges.

A kind ("013_apple") is a model of the catalogue. A house holds instances of kinds ("013_apple-1", "013_apple-2").

Reference: Calli et al., "The YCB Object and Model Set", 2015 (sizes and masses of its table of objects).
"""

from __future__ import annotations

import functools
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hab.scene import Geom, Quat, Rgba, Vec3, volume, yaw_of

HOUSE_OBJECTS = 30
"""Objects in a house, as in HAB's Tidy House."""
FEWEST_KINDS, MOST_KINDS, MOST_OF_A_KIND, MOST_BOWLS = 13, 17, 4, 2
"""How many different kinds a house holds, besides those that Set Table asks for, and how many of one; bowls are of many
parts, which take time."""


UPRIGHT_M = 0.01
"""An object whose centre of mass is as high as its kind's, to so much, stands upright."""


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
    """Half sizes of the box around it (m), upright; symmetric about the origin."""

    def reaches_m(self, low_m: float) -> float:
        """Return how high above a surface it reaches whose centre of mass lies so much above that (m): upright, if that
        is its kind's; else as if it were as high above its centre as below it."""
        stands = abs(low_m - self.half_height_m) < UPRIGHT_M
        return low_m + (self.half_extents[2] if stands else low_m)  # a bottle's centre of mass is not its middle

    @property
    def grasp_height_m(self) -> float:
        """Height above the centre of mass at which a cup coming straight down meets the object."""
        return self.geoms[0].pos[2] + self.geoms[0].size[{"box": 2, "cylinder": 1, "sphere": 0}[self.geoms[0].shape]]


TALL_M = 0.065
"""What is so much higher than its middle."""


def object_kind(name: str) -> str:
    """Return the kind of an instance: "013_apple" of "013_apple-2"."""
    return name.rpartition("-")[0]


def is_object(name: str) -> bool:
    """Whether a name is an instance's, rather than a drawer's, a door's or nothing's."""
    return object_kind(name) in OBJECTS


@functools.cache
def object_model(name: str) -> ObjectModel:
    """Return the model of an instance."""
    return OBJECTS[object_kind(name)]


def is_tall(name: str) -> bool:
    """Whether an instance topples easily."""
    return object_model(name).half_extents[2] > TALL_M


def by_kind(names: Iterable[str]) -> dict[str, list[str]]:
    """Return instances by their kinds, both in order."""
    kinds: dict[str, list[str]] = {}
    for name in sorted(names, key=lambda name: (object_kind(name), int(name.rpartition("-")[2]))):
        kinds.setdefault(object_kind(name), []).append(name)
    return kinds


def draw_objects(rng: np.random.Generator, split: str) -> tuple[str, ...]:
    """Draw what a house of a split holds: `HOUSE_OBJECTS` instances, several of a kind among them.

    There is a bowl and two fruits at least, as Set Table needs them. What is drawn hangs on `KINDS[split]` alone.
    """
    kinds = KINDS[split]
    counts = Counter([BOWL, *(FRUITS[i] for i in rng.integers(len(FRUITS), size=2))])
    few = rng.permutation(len(kinds))[: int(rng.integers(FEWEST_KINDS, MOST_KINDS + 1))]
    counts.update(kinds[i] for i in few)
    while counts.total() < HOUSE_OBJECTS:
        kind = kinds[few[rng.integers(len(few))]]
        counts[kind] += counts[kind] < (MOST_BOWLS if kind == BOWL else MOST_OF_A_KIND)
    return tuple(f"{kind}-{number}" for kind in sorted(counts) for number in range(1, counts[kind] + 1))


def held_pose(name: str, ee_pos: NDArray[np.float64], yaw: float, tilt_rad: float) -> tuple[Vec3, Quat]:
    """Return the position (m) and orientation (scalar first) of an instance put to the cup by its grasp point.

    It is upright, or leans: its foot towards a robot whose base heads for `yaw`, by `tilt_rad`.
    """
    # Its axis, from the grasp point down, swings back in the robot's vertical plane.
    back, depth = math.sin(tilt_rad), object_model(name).grasp_height_m
    axis = np.array([-back * math.cos(yaw), -back * math.sin(yaw), -math.cos(tilt_rad)])
    x, y, z = (ee_pos + depth * axis).tolist()
    lean = math.sin(0.5 * tilt_rad)
    return (x, y, z), (math.cos(0.5 * tilt_rad), -lean * math.sin(yaw), lean * math.cos(yaw), 0.0)


def box(name: str, mass_kg: float, size_m: tuple[float, float, float], rgba: Rgba, label: Rgba) -> ObjectModel:
    """A printed carton: a box with a band around it as its label."""
    hx, hy, hz = (s / 2 for s in size_m)
    geoms = (
        Geom("shell", "box", (0, 0, 0), (hx, hy, hz), rgba),
        Geom("label", "box", (0, 0, 0.15 * hz), (hx + 0.0006, hy * 0.8, hz * 0.45), label, collides=False),
    )
    return ObjectModel(name, mass_kg, geoms, hz, math.hypot(hx, hy), (hx, hy, hz))


def can(name: str, mass_kg: float, radius_m: float, height_m: float, rgba: Rgba, label: Rgba) -> ObjectModel:
    """A tin: a cylinder with a paper sleeve."""
    half = height_m / 2
    geoms = (
        Geom("shell", "cylinder", (0, 0, 0), (radius_m, half, 0), rgba, material="steel"),
        Geom("label", "cylinder", (0, 0, 0), (radius_m + 0.0006, half * 0.86, 0), label, collides=False),
    )
    return ObjectModel(name, mass_kg, geoms, half, radius_m, (radius_m, radius_m, half))


def ball(name: str, mass_kg: float, radius_m: float, rgba: Rgba) -> ObjectModel:
    """A fruit: a sphere with a stub of its stem."""
    geoms = (
        Geom("shell", "sphere", (0, 0, 0), (radius_m, 0, 0), rgba),
        Geom("stem", "cylinder", (0, 0, radius_m), (0.003, 0.006, 0), (0.35, 0.24, 0.12, 1), collides=False),
    )
    return ObjectModel(name, mass_kg, geoms, radius_m, radius_m, (radius_m, radius_m, radius_m))


RIM_SLABS = 8
"""A bowl's rim is of so many convex pieces."""


def bowl(name: str, mass_kg: float, radius_m: float, height_m: float, rgba: Rgba) -> ObjectModel:
    """A bowl of convex pieces: a disc as bottom and tilted slabs as rim."""
    foot, thickness = 0.55 * radius_m, 0.003
    run, rise = radius_m - foot, height_m - 2 * thickness
    tilt = math.atan2(run, rise)
    slab = (thickness, math.pi * radius_m / RIM_SLABS, 0.5 * math.hypot(run, rise))
    disc_volume = math.pi * foot**2 * 2 * thickness
    rim_volume = RIM_SLABS * 8 * slab[0] * slab[1] * slab[2]
    rim_z = 2 * thickness + rise / 2
    com_z = (disc_volume * thickness + rim_volume * rim_z) / (disc_volume + rim_volume)
    geoms = [Geom("bottom", "cylinder", (0, 0, thickness - com_z), (foot, thickness, 0), rgba)]
    for i in range(RIM_SLABS):
        angle = 2 * math.pi * i / RIM_SLABS
        # Turn about z to the segment, then lean its top outwards (rotation about local y).
        cz, sz, cy, sy = math.cos(angle / 2), math.sin(angle / 2), math.cos(tilt / 2), math.sin(tilt / 2)
        mid = (radius_m + foot) / 2 - thickness
        pos = (mid * math.cos(angle), mid * math.sin(angle), rim_z - com_z)
        geoms.append(Geom(f"rim_{i}", "box", pos, slab, rgba, quat=(cz * cy, -sz * sy, cz * sy, sz * cy)))
    half = (radius_m, radius_m, max(com_z, height_m - com_z))
    # The slabs' corners stick out a little beyond the circle they approximate.
    return ObjectModel(name, mass_kg, tuple(geoms), com_z, radius_m / math.cos(math.pi / RIM_SLABS), half)


def _stacked(name: str, mass_kg: float, parts: Sequence[Geom], radius_m: float) -> ObjectModel:
    """Something of several convex parts, given in a frame whose origin is under its middle, at its foot.

    The first part is the one that a cup from above meets.
    """
    sizes = [volume(part) for part in parts]
    com = np.average([part.pos for part in parts], axis=0, weights=sizes)
    placed = tuple(
        Geom(part.name, part.shape, _minus(part.pos, com), part.size, part.rgba, part.quat, material=part.material)
        for part in parts
    )
    corners = np.array([np.abs(part.pos) + reach(part) for part in placed])
    x, y, z = corners.max(axis=0).tolist()
    return ObjectModel(name, mass_kg, placed, float(com[2]), radius_m, (x, y, z))


def _minus(pos: Vec3, other: NDArray[np.float64]) -> Vec3:
    x, y, z = (np.asarray(pos) - other).tolist()
    return x, y, z


def reach(geom: Geom) -> NDArray[np.float64]:
    """Return half the sizes (3,) of the box around a sphere, an upright cylinder or a box turned about the vertical."""
    a, b, c = geom.size
    if geom.shape == "sphere":
        return np.array([a, a, a])
    if geom.shape == "cylinder":
        return np.array([a, a, b])
    yaw = yaw_of(geom.quat)
    cos, sin = abs(math.cos(yaw)), abs(math.sin(yaw))
    return np.array([cos * a + sin * b, sin * a + cos * b, c])


def bottle(
    name: str,
    mass_kg: float,
    size_m: tuple[float, float, float],
    cap: tuple[float, float],
    rgba: Rgba,
    label: Rgba,
    cap_rgba: Rgba,
) -> ObjectModel:
    """A flat bottle with a cap of that radius and height on top; its size includes the cap."""
    radius, high = cap
    x, y, z = size_m[0] / 2, size_m[1] / 2, (size_m[2] - high) / 2
    top = Geom("cap", "cylinder", (0, 0, 2 * z + high / 2), (radius, high / 2, 0), cap_rgba)
    body = Geom("body", "box", (0, 0, z), (x, y, z), rgba)
    model = _stacked(name, mass_kg, (top, body), math.hypot(x, y))
    middle = next(geom for geom in model.geoms if geom.name == "body").pos
    sleeve = Geom("label", "box", middle, (x + 0.0006, 0.8 * y, 0.5 * z), label, collides=False)
    return ObjectModel(name, mass_kg, (*model.geoms, sleeve), *_figures(model))


def _figures(model: ObjectModel) -> tuple[float, float, tuple[float, float, float]]:
    return model.half_height_m, model.radius_m, model.half_extents


def lemon(name: str, mass_kg: float, length_m: float, radius_m: float, rgba: Rgba) -> ObjectModel:
    """A fruit that lies on its side: a sphere between two smaller ones."""
    end = 0.74 * radius_m
    off = length_m / 2 - end
    parts = [Geom("middle", "sphere", (0, 0, radius_m), (radius_m, 0, 0), rgba)]
    parts += [Geom(f"end_{i}", "sphere", (s * off, 0, radius_m), (end, 0, 0), rgba) for i, s in enumerate((1, -1))]
    return _stacked(name, mass_kg, parts, length_m / 2)


def pear(name: str, mass_kg: float, radius_m: float, height_m: float, rgba: Rgba) -> ObjectModel:
    """A fruit that stands: a sphere, its flat foot, and a smaller sphere on it."""
    neck, foot = 0.6 * radius_m, 0.65 * radius_m
    parts = (
        Geom("neck", "sphere", (0, 0, height_m - neck), (neck, 0, 0), rgba),
        Geom("body", "sphere", (0, 0, radius_m + 0.001), (radius_m, 0, 0), rgba),
        Geom("foot", "cylinder", (0, 0, 0.006), (foot, 0.006, 0), rgba),
    )
    return _stacked(name, mass_kg, parts, radius_m)


def banana(name: str, mass_kg: float, length_m: float, thick_m: float, rgba: Rgba) -> ObjectModel:
    """A fruit that lies: three straight pieces in a bow."""
    half, third, bend = thick_m / 2, length_m / 6, 0.35
    over = 0.006
    parts = [Geom("middle", "box", (0, 0, half), (third + over, half, half), rgba)]
    for i, s in enumerate((1, -1)):
        x, y = s * third * (1 + math.cos(bend)), third * math.sin(bend)
        quat = (math.cos(s * bend / 2), 0.0, 0.0, math.sin(s * bend / 2))
        parts.append(Geom(f"end_{i}", "box", (x, y, half), (third, 0.8 * half, 0.9 * half), rgba, quat))
    return _stacked(name, mass_kg, parts, length_m / 2)


def mug(name: str, mass_kg: float, radius_m: float, height_m: float, rgba: Rgba) -> ObjectModel:
    """A mug as habitat-sim has it, the convex hull of its body, with a handle."""
    half = height_m / 2
    parts = (
        Geom("body", "cylinder", (0, 0, half), (radius_m, half, 0), rgba),
        Geom("handle", "box", (radius_m + 0.012, 0, half), (0.014, 0.006, 0.6 * half), rgba),
    )
    model = _stacked(name, mass_kg, parts, 0.0)
    radius = max(math.hypot(*(np.abs(part.pos[:2]) + reach(part)[:2])) for part in model.geoms[1:])
    return ObjectModel(name, mass_kg, model.geoms, model.half_height_m, radius, model.half_extents)


_METAL: Rgba = (0.78, 0.78, 0.80, 1.0)
_PAPER: Rgba = (0.95, 0.95, 0.95, 1.0)

OBJECTS: dict[str, ObjectModel] = {
    model.name: model
    for model in (
        can("001_chips_can", 0.205, 0.0375, 0.250, (0.72, 0.10, 0.12, 1), (0.95, 0.78, 0.20, 1)),
        can("002_master_chef_can", 0.414, 0.051, 0.140, _METAL, (0.13, 0.25, 0.55, 1)),
        box("003_cracker_box", 0.411, (0.060, 0.158, 0.210), (0.78, 0.12, 0.10, 1), (0.93, 0.80, 0.30, 1)),
        box("004_sugar_box", 0.514, (0.038, 0.089, 0.175), (0.95, 0.82, 0.18, 1), _PAPER),
        can("005_tomato_soup_can", 0.349, 0.033, 0.101, _METAL, (0.80, 0.14, 0.12, 1)),
        bottle(
            "006_mustard_bottle", 0.603, (0.058, 0.095, 0.190), (0.016, 0.035), (0.95, 0.80, 0.10, 1),
            (0.85, 0.15, 0.10, 1), (0.95, 0.85, 0.30, 1),
        ),
        can("007_tuna_fish_can", 0.171, 0.0425, 0.033, _METAL, (0.20, 0.45, 0.72, 1)),
        box("008_pudding_box", 0.187, (0.035, 0.110, 0.089), (0.42, 0.23, 0.12, 1), (0.95, 0.90, 0.82, 1)),
        box("009_gelatin_box", 0.097, (0.028, 0.085, 0.073), (0.86, 0.18, 0.28, 1), (0.97, 0.93, 0.93, 1)),
        box("010_potted_meat_can", 0.370, (0.050, 0.097, 0.082), (0.13, 0.28, 0.60, 1), (0.93, 0.77, 0.20, 1)),
        banana("011_banana", 0.066, 0.190, 0.036, (0.95, 0.82, 0.22, 1)),
        ball("012_strawberry", 0.018, 0.0219, (0.82, 0.10, 0.14, 1)),
        ball("013_apple", 0.068, 0.0375, (0.72, 0.10, 0.12, 1)),
        lemon("014_lemon", 0.029, 0.068, 0.027, (0.96, 0.87, 0.20, 1)),
        ball("015_peach", 0.033, 0.0295, (0.95, 0.62, 0.38, 1)),
        pear("016_pear", 0.049, 0.0331, 0.100, (0.66, 0.72, 0.22, 1)),
        ball("017_orange", 0.047, 0.0365, (0.95, 0.52, 0.08, 1)),
        ball("018_plum", 0.025, 0.026, (0.36, 0.10, 0.28, 1)),
        bottle(
            "021_bleach_cleanser", 1.131, (0.065, 0.098, 0.250), (0.018, 0.045), (0.92, 0.93, 0.95, 1),
            (0.10, 0.35, 0.70, 1), (0.10, 0.30, 0.65, 1),
        ),
        bowl("024_bowl", 0.147, 0.0795, 0.055, (0.75, 0.20, 0.16, 1)),
        mug("025_mug", 0.118, 0.040, 0.082, (0.70, 0.16, 0.14, 1)),
        box("026_sponge", 0.0062, (0.072, 0.114, 0.014), (0.90, 0.78, 0.25, 1), (0.20, 0.55, 0.30, 1)),
        box("036_wood_block", 0.729, (0.085, 0.085, 0.200), (0.72, 0.55, 0.36, 1), (0.68, 0.51, 0.33, 1)),
        ball("056_tennis_ball", 0.058, 0.03235, (0.78, 0.88, 0.20, 1)),
        box("061_foam_brick", 0.028, (0.050, 0.075, 0.050), (0.62, 0.22, 0.18, 1), (0.62, 0.22, 0.18, 1)),
        can("065-f_cups", 0.026, 0.040, 0.070, (0.90, 0.45, 0.60, 1), (0.90, 0.45, 0.60, 1)),
        box("077_rubiks_cube", 0.094, (0.057, 0.057, 0.057), (0.10, 0.35, 0.75, 1), (0.95, 0.55, 0.10, 1)),
    )
}  # fmt: skip
"""The catalogue by kind. Houses are drawn from the lists below: a kind more here changes none."""

BOWL = "024_bowl"
FRUITS = ("013_apple", "014_lemon", "015_peach", "016_pear", "017_orange", "018_plum")
"""What Set Table asks for."""
SEEN = (
    "002_master_chef_can", "003_cracker_box", "004_sugar_box", "005_tomato_soup_can", "006_mustard_bottle",
    "007_tuna_fish_can", "008_pudding_box", "009_gelatin_box", "010_potted_meat_can", "012_strawberry", "013_apple",
    "014_lemon", "015_peach", "016_pear", "017_orange", "018_plum", "024_bowl", "025_mug", "026_sponge",
    "061_foam_brick", "077_rubiks_cube",
)  # fmt: skip
UNSEEN = ("001_chips_can", "011_banana", "021_bleach_cleanser", "036_wood_block", "056_tennis_ball", "065-f_cups")
"""Kinds in houses of test alone."""
KINDS: dict[str, tuple[str, ...]] = {"train": SEEN, "val": SEEN, "test": (*SEEN, *UNSEEN)}
"""Frozen: houses are functions of these lists."""
