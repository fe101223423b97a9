"""Where doors and drawers are at a joint position: their handles, and the floor they take when they stand open.

Pure functions of the scene and of joint positions (m or rad, 0 closed); a missing joint is closed.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from hab.kitchen import FRIDGE_RANGE_RAD
from hab.navgrid import NavGrid, OrientedBox
from hab.scene import DRAWER_OPEN_M, FRIDGE_OPEN_RAD, Articulation, Scene, Vec3

FRIDGE_START_RAD = 2.0
"""The fridge's door where a scenario starts with it open, or as far as it opens."""
AJAR_RAD_OR_M = 0.05
"""What is open less than this is no obstacle of its own."""
_OPENED_POSITIONS = 6
"""A fridge's door turns by a fifth of a radian from one to the next."""


def widest(articulation: Articulation) -> float:
    """Return how far a door or drawer opens (m or rad)."""
    return articulation.joint_range[1]


def fridge_start(fridge: Articulation) -> float:
    """Return where a scenario's fridge is that starts open (rad)."""
    return min(FRIDGE_START_RAD, widest(fridge))


def against_wall(articulation: Articulation) -> bool:
    """Whether a wall beside its hinge keeps a door from opening as far as others."""
    return articulation.kind == "fridge" and widest(articulation) < FRIDGE_RANGE_RAD[1]


def opened_position(rng: np.random.Generator, articulation: Articulation, between: tuple[float, float]) -> float:
    """Draw a joint position between two, or up to where the joint ends if that comes first."""
    least, most = between
    return float(rng.uniform(least, min(most, widest(articulation))))


def swing(articulation: Articulation, position: float) -> float:
    """Return the angle (rad, counter-clockwise) by which the link has turned: 0 for a drawer."""
    return position * math.copysign(1.0, articulation.axis[2]) if articulation.kind == "fridge" else 0.0


def link_to_world(articulation: Articulation, position: float, point: Sequence[float]) -> Vec3:
    """Return where a point of the link frame (m) is in the world."""
    local = np.asarray(point[:2], dtype=np.float64)
    if articulation.kind == "fridge":
        anchor = np.asarray(articulation.anchor[:2])
        local = anchor + rotated(swing(articulation, position), local - anchor)
    else:
        local = local + np.array([position, 0.0])
    x, y = np.asarray(articulation.pos[:2]) + rotated(articulation.yaw, local)
    return float(x), float(y), articulation.pos[2] + float(point[2])


def world_to_link(articulation: Articulation, position: float, point: Sequence[float]) -> Vec3:
    """Return where a point of the world (m) is in the link frame."""
    x, y = np.asarray(point[:2], dtype=np.float64) - np.asarray(articulation.pos[:2])
    local = rotated(-articulation.yaw, (float(x), float(y)))
    if articulation.kind == "fridge":
        anchor = np.asarray(articulation.anchor[:2])
        local = anchor + rotated(-swing(articulation, position), local - anchor)
    else:
        local = local - np.array([position, 0.0])
    return float(local[0]), float(local[1]), float(point[2]) - articulation.pos[2]


def free_edge(door: Articulation) -> Vec3:
    """Return a door's free edge at its handle's height, in the link frame (m)."""
    panel = max(door.geoms, key=lambda geom: geom.size[1])
    return panel.pos[0], math.copysign(panel.size[1], -door.anchor[1]), door.handle_pos[2]


def handle_at(articulation: Articulation, position: float) -> Vec3:
    """Return the centre of the handle in the world (m)."""
    return link_to_world(articulation, position, articulation.handle_pos)


def joint_of(articulation: Articulation, hand: Vec3) -> float:
    """Return the position (m or rad) of a joint whose handle is where the hand is (m, world)."""
    x, y, _ = world_to_link(articulation, 0.0, hand)
    if articulation.kind != "fridge":
        return max(0.0, x - articulation.handle_pos[0])
    anchor = np.asarray(articulation.anchor[:2])
    shut, now = np.asarray(articulation.handle_pos[:2]) - anchor, (x, y) - anchor
    turned = math.atan2(now[1], now[0]) - math.atan2(shut[1], shut[0])
    return max(0.0, math.remainder(turned, math.tau) * math.copysign(1.0, articulation.axis[2]))


def drawn_out(articulation: Articulation, position: float, point: Vec3) -> Vec3:
    """Return where a point of the world (m) has got to, if it came along with a drawer; a fridge's content stays."""
    if articulation.kind == "fridge":
        return point
    out = rotated(articulation.yaw, (position, 0.0))
    return point[0] + float(out[0]), point[1] + float(out[1]), point[2]


def footprint(articulation: Articulation, position: float) -> OrientedBox:
    """Return the rectangle on the floor (world) over which the link reaches."""
    boxes = [g for g in articulation.geoms if g.shape == "box"]
    low = np.min([(g.pos[0] - g.size[0], g.pos[1] - g.size[1]) for g in boxes], axis=0)
    high = np.max([(g.pos[0] + g.size[0], g.pos[1] + g.size[1]) for g in boxes], axis=0)
    center, half = (low + high) / 2.0, (high - low) / 2.0
    x, y, _ = link_to_world(articulation, position, (*center, 0.0))
    return x, y, articulation.yaw + swing(articulation, position), float(half[0]), float(half[1])


def opened_boxes(scene: Scene, joints: Mapping[str, float]) -> list[OrientedBox]:
    """Return the footprints of the doors and drawers that stand open."""
    return [footprint(a, joints[a.name]) for a in _standing_open(scene, joints)]


def door_boxes(scene: Scene, joints: Mapping[str, float]) -> list[OrientedBox]:
    """Return the footprints of the fridges' doors that stand open (a drawer is reached into, not past)."""
    return opened_boxes(scene, {name: at for name, at in joints.items() if scene.articulation(name).kind == "fridge"})


def _standing_open(scene: Scene, joints: Mapping[str, float]) -> list[Articulation]:
    return [a for a in scene.articulations if abs(joints.get(a.name, 0.0)) > AJAR_RAD_OR_M]


def in_the_way(scene: Scene, joints: Mapping[str, float]) -> bool:
    """Whether two doors or drawers that stand open overlap: physics would throw them apart."""
    boxes = [(a, footprint(a, joints[a.name])) for a in _standing_open(scene, joints)]
    return any(
        _level_with(one, other) and overlapping(box, other_box)
        for (one, box), (other, other_box) in itertools.combinations(boxes, 2)
    )


def obstruct(one: Articulation, other: Articulation) -> bool:
    """Whether two doors or drawers, each opened as far as Open brings it or farther, may be in each other's way."""
    if not _level_with(one, other):
        return False
    ways = [[footprint(each, position) for position in _opened(each)] for each in (one, other)]
    return any(overlapping(box, other_box) for box, other_box in itertools.product(*ways))


def _opened(articulation: Articulation) -> NDArray[np.float64]:
    """Return positions from Open's goal to where the joint ends."""
    least = FRIDGE_OPEN_RAD if articulation.kind == "fridge" else DRAWER_OPEN_M
    return np.linspace(least, max(least, widest(articulation)), _OPENED_POSITIONS)


def overlapping(a: OrientedBox, b: OrientedBox) -> bool:
    """Whether two rectangles overlap: no direction of a side of theirs keeps them apart (separating axis theorem)."""
    between = np.array([b[0] - a[0], b[1] - a[1]])
    sides = [(rotated(box[2], (box[3], 0.0)), rotated(box[2], (0.0, box[4]))) for box in (a, b)]
    return all(
        abs(float(between @ axis)) < sum(abs(float(half @ axis)) for pair in sides for half in pair)
        for yaw in (a[2], b[2])
        for axis in (rotated(yaw, (1.0, 0.0)), rotated(yaw, (0.0, 1.0)))
    )


def _level_with(one: Articulation, other: Articulation) -> bool:
    """Whether there is a height that both links reach over."""
    (low, high), (other_low, other_high) = _heights(one), _heights(other)
    return low < other_high and other_low < high


def _heights(articulation: Articulation) -> tuple[float, float]:
    """Return from where up to where (m) a link's boxes reach."""
    boxes = [g for g in articulation.geoms if g.shape == "box"]
    z = articulation.pos[2]
    return z + min(g.pos[2] - g.size[2] for g in boxes), z + max(g.pos[2] + g.size[2] for g in boxes)


def grid_with_openings(scene: Scene, grid: NavGrid, joints: Mapping[str, float]) -> NavGrid:
    """Return the navigation grid with what stands open as obstacles."""
    boxes = opened_boxes(scene, joints)
    return grid.with_boxes(boxes) if boxes else grid


def rotated(angle: float, vector: Sequence[float] | NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a planar vector (2,) turned counter-clockwise by an angle (rad)."""
    cos, sin = math.cos(angle), math.sin(angle)
    return np.array([cos * vector[0] - sin * vector[1], sin * vector[0] + cos * vector[1]])
