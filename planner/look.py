"""What the head's depth camera tells the planner: how far doors are open, and, in the closed loop, where a thing lies
that has been set down, shoved or dropped.

Two looks at a surface, from wherever the robot stood: what a ray of the second one meets where one of the first went
through, was not there before. The floor is empty but for what has fallen, so that one look at it will do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hab import robot
from hab.openings import link_to_world, rotated, widest
from hab.ray_fans import HEAD_LOOK_DIRECTIONS, ends
from hab.scene import Articulation, Geom, Vec3
from hab.simulator import Simulator

LOOK_EVERY = 15
"""Who looks while a skill plays does so after so many control steps."""
HUNG_M = 0.25
"""What is so near a hand that holds something is that."""
NEAR_M = 0.25
"""Nothing rolls or tips farther from where it was let go without falling off."""
FREE_M = 0.03
"""A ray has gone through a point if it goes so much farther."""
AROUND = 0.03 * np.array([(0, 0, 0), (1, 0, 0), (-1, 0, 0), (0, 1, 0), (0, -1, 0)])
"""From a place to what is beside it (m)."""
ON_M = 0.008
"""What is so little above the surface is the surface."""
TALLER_M = 0.03
"""A thing that has tipped over is at most so much taller than it was."""
TALLEST_M = 0.45
"""No object reaches so far above what it stands on."""
FELL_M = 0.5
"""What falls to the floor lies so near to where it was lost …"""
ROLLED_M = 1.2
"""… and so near later, if it is round."""
UNDER_M = 0.025
"""What is so near below something taller than an object, seen from above, is furniture."""
LONGEST_M = 0.28
"""No object is longer, across."""
LARGER_M, LEAST = 0.03, 0.6
"""A thing looks at most so much larger than it is, and at least so much of its least measure high as it lies."""
LOW_M, DOWN = 0.05, 0.8
"""What stands on the floor is seen down to such a share of its height, unless it is lower: then its top may be all."""
KNOWN_M = 0.025
"""What is so near to something that was seen before is an edge of that."""
BESIDE_M = 0.08
"""What is so near to where something else lies is that."""
TOUCHING_M = 0.05
"""Points so near each other are of one thing, …"""
APART_M = 0.03
"""… and of things that stand side by side, where all of a surface is seen."""
WHOLE = 0.6
"""A thing of which so much of its least measure is seen, across, is seen whole."""
MOSTLY = 0.5
"""A thing of which so much was not there before is new; of which so much is under something, stands below it."""
ASIDE_M = 0.02
"""Another thing's middle lies farther from an object's than that is wide, by so much."""
HIDING_M = 0.05
"""What is seen so far before a thing's edge may hide more of it."""
OVERHANG_M = 0.02
"""A sideboard's plinth lies so much farther back than what is above it."""
CLOSELY_M = 1.8
"""A small thing may lie between the rays of a look from farther off."""
FEWEST = 4
"""Fewer points are an edge of something."""
STEPS = {"cabinet": 0.01, "fridge": 0.05}
"""A drawer (m), a door (rad) is looked for at positions so far apart …"""
BELOW_EDGE_M, PANEL_M = 0.02, 0.04
"""… by points so far below its edge, which a ray has to meet to within so much …"""
MOST = 0.6
"""… in such a share of what is seen."""
RAYS_APART_RAD = float(robot.HEAD_LOOK_YAWS_RAD[1] - robot.HEAD_LOOK_YAWS_RAD[0])
SHIFTED_M, SHIFTED = 0.035, 0.25
"""What is seen so far from where it was believed to lie, and such a share of its least half width besides, has been
shifted: the middles of large things are less sure."""
HALF_M = 0.02
"""The middle of a thing lies so far behind what one sees of it."""


@dataclass(frozen=True)
class Look:
    """One look, and where the base was."""

    ranges: NDArray[np.float64]
    """(n,) metres along `HEAD_LOOK_DIRECTIONS`; 0 where nothing is known."""
    base: NDArray[np.float64]
    """(3,) x, y (m), yaw (rad)."""

    @classmethod
    def of(cls, sim: Simulator) -> Look:
        """Take one."""
        return cls(sim.head_look().astype(np.float64) * robot.HEAD_SCAN_MAX_M, sim.base)

    @property
    def camera(self) -> NDArray[np.float64]:
        """(3,) where it looks from (m, world)."""
        return np.append(self.base[:2] + rotated(self.base[2], robot.HEAD_CAMERA_POS[:2]), robot.HEAD_CAMERA_POS[2])

    def points(self) -> NDArray[np.float64]:
        """Return (m, 3) what it sees (m, world)."""
        return self._ends()[(self.ranges > 0.0) & (self.ranges < 0.999 * robot.HEAD_SCAN_MAX_M)]

    def without(self, places: Sequence[Vec3]) -> Look:
        """Return the look as if there had been nothing at some places (m, world)."""
        met = self._ends()
        gone = np.zeros(len(met), bool)
        for place in places:
            gone |= (np.linalg.norm(met - place, axis=1) < BESIDE_M) & (self.ranges > 0.0)
        return Look(np.where(gone, robot.HEAD_SCAN_MAX_M, self.ranges), self.base)

    def past(self, hand: NDArray[np.float64]) -> Look:
        """Return the look with nothing known where what a hand (3,) (m, world) holds is seen."""
        near = np.linalg.norm(self._ends() - hand, axis=1) < HUNG_M
        return Look(np.where(near, 0.0, self.ranges), self.base)

    def empty(self, place: Vec3, free_m: float = FREE_M) -> bool:
        """Whether there is nothing at a place (m, world), nor beside it: rays go farther, by so much."""
        return bool((self.beyond(np.array(place) + AROUND) > free_m).all())

    def bare(self, place: Vec3, surface_m: float, within_m: float) -> bool:
        """Whether rays go through a place (m, world), and nothing that stands on the surface is seen so near to it: a
        bowl's middle is free."""
        seen = self.points()
        seen = seen[(seen[:, 2] > surface_m + ON_M) & (seen[:, 2] < surface_m + TALLEST_M)]
        beside = np.hypot(*(seen[:, :2] - place[:2]).T) < within_m
        return bool(self.beyond(np.array([place]))[0] > FREE_M and not beside.any())

    def passes_over(self, place: Vec3, surface_m: float) -> bool:
        """Whether the ray through a place (m, world) goes on so far before it meets the surface below (m) that it would
        miss what lies lower there."""
        drop = self.camera[2] - place[2]
        return drop <= 0.0 or math.dist(self.camera, place) * (place[2] - surface_m) / drop > 2.0 * FREE_M

    def is_close(self, place: Vec3) -> bool:
        """Whether it has looked at a place (m, world) from so near that it has missed nothing."""
        return math.dist(self.camera, place) < CLOSELY_M

    def _ends(self) -> NDArray[np.float64]:
        """Return (n, 3) where the rays end (m, world)."""
        return ends(self.base, robot.HEAD_CAMERA_POS, HEAD_LOOK_DIRECTIONS, self.ranges)

    def beyond(self, points: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return (m,) how much farther (m) the rays nearest to points (m, 3) go; NaN where nothing is known."""
        away = points - self.camera
        far = np.linalg.norm(away, axis=1)
        ahead, left = rotated(-self.base[2], away[:, :2].T)
        column = _nearest(np.arctan2(left, ahead), robot.HEAD_LOOK_YAWS_RAD)
        row = _nearest(np.arcsin(away[:, 2] / far), robot.HEAD_LOOK_PITCHES_RAD)
        known = (column >= 0) & (row >= 0)
        met = self.ranges[np.where(known, column * len(robot.HEAD_LOOK_PITCHES_RAD) + row, 0)]
        return np.where(known & (met > 0.0), met - far, np.nan)


def appeared(
    before: Look,
    after: Look,
    near: tuple[float, float],
    surface_m: float,
    height_m: float,
    half: Vec3,
    within_m: float = NEAR_M,
    besides: Sequence[Vec3] | None = None,
) -> Vec3 | None:
    """Return the middle (m, world) of the largest thing on a surface that was not there before and might be an object;
    None if none is seen.

    near: x, y where it was let go; surface_m: the height of what it lies on; height_m, half: its own, as it was to
    stand, and its half sizes; besides: where other things lie that may have come there since: then the nearest one is
    meant.
    """
    whole = [
        thing
        for thing in _on(after, near, surface_m, within_m)
        if _fits(thing, after, surface_m, height_m, half) and np.mean(before.beyond(thing) > FREE_M) > MOSTLY
    ]
    middles = [_middle(thing, after, surface_m) for thing in whole]
    middles = [m for m in middles if before.is_close(m) and _is_apart(m, besides or ())]
    if middles:
        return min(middles, key=lambda middle: math.dist(middle[:2], near))
    things = _new(before, after, near, surface_m, TALLEST_M, within_m, besides or ())
    things = [thing for thing in things if _no_larger(thing, surface_m, height_m, half)]
    if besides is not None:
        things = sorted(things, key=lambda thing: float(np.hypot(*(thing[:, :2] - near).T).min()))[:1]
    return _largest(things, after, surface_m)


def located(
    look: Look, place: Vec3, surface_m: float, height_m: float, half: Vec3, within_m: float | None = None
) -> Vec3 | None:
    """Return the middle (m, world) of the thing nearest to an object's place, on the same surface, that is seen whole
    and might be it; None if there is none within so much of it (None: shifted by no more than the object is wide)."""
    near = min(half[:2]) + ASIDE_M if within_m is None else within_m
    whole = [
        _middle(thing, look, surface_m)
        for thing in _on(look, place[:2], surface_m, near)
        if _fits(thing, look, surface_m, height_m, half) and not _is_hidden(thing, look)
    ]
    return min(whole, key=lambda middle: math.dist(middle[:2], place[:2]), default=None)


def is_shifted(at: Vec3, place: Vec3, half: Vec3) -> bool:
    """Whether what is seen in a place is so far from where an object of those half sizes (m) was to be that it has been
    moved."""
    return math.dist(at[:2], place[:2]) > SHIFTED_M + SHIFTED * min(half[:2])


def fell(before: Look, after: Look, near: tuple[float, float], half: Vec3, besides: Sequence[Vec3] = ()) -> Vec3 | None:
    """Return the middle (m, world) of what lies on the floor near x, y and did not before; None if nothing is seen that
    might be an object of those half sizes (m). (What else is new is the side of some furniture, not seen before.)

    besides: where other things lie.
    """
    things = _new(before, after, near, 0.0, 2.0 * max(half) + LARGER_M, FELL_M, besides)
    return _largest([thing for thing in things if _might_be(thing, half)], after, 0.0)


def fallen(look: Look, near: tuple[float, float], half: Vec3) -> Vec3 | None:
    """Return the middle (m, world) of what lies on the floor nearest to x, y; None if nothing is seen that might be an
    object of those half sizes (m), whichever side it lies on."""
    seen = look.points()
    seen = seen[(seen[:, 2] > ON_M) & (np.hypot(*(seen[:, :2] - near).T) < ROLLED_M + LONGEST_M)]
    things = _things(seen[_low(seen, 2.0 * max(half) + LARGER_M)])
    things = [thing for thing in things if _might_be(thing, half) and not _is_overhung(thing, look)]
    middles = [_middle(thing, look, 0.0) for thing in things]
    there = [middle for middle in middles if math.dist(middle[:2], near) < ROLLED_M]
    return min(there, key=lambda middle: math.dist(middle[:2], near), default=None)


def joint_seen(look: Look, articulation: Articulation) -> float | None:
    """Return how far a drawer (m) or fridge's door (rad) is open, by where its front is seen; None if it is not, or of
    furniture whose fronts are not known (HAB's own, of which there is a box about the whole)."""
    positions, points = _fronts(articulation)
    if not points.size:
        return None
    off = look.beyond(points.reshape(-1, 3)).reshape(points.shape[:2])
    known = ~np.isnan(off)
    met = known & (np.abs(off) < PANEL_M)
    count, seen = met.sum(axis=1), known.sum(axis=1)
    apart = np.where(met, np.abs(off), 0.0).sum(axis=1) / np.maximum(count, 1)
    score = np.where((count >= FEWEST) & (count >= MOST * seen), count - apart / PANEL_M, 0.0)
    best = int(score.argmax())
    return float(positions[best]) if score[best] > 0.0 else None


@lru_cache(maxsize=256)
def _fronts(articulation: Articulation) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the positions at which a front is looked for, and points across it at each (positions, n, 3; world, m);
    none of furniture whose fronts are not known."""
    name = f"{articulation.name}/{'door' if articulation.kind == 'fridge' else 'front'}"
    front = next((geom for geom in articulation.geoms if geom.name == name), None)
    if front is None:
        return np.empty(0), np.empty((0, 0, 3))
    points = _door(front, articulation.handle_pos[1]) if articulation.kind == "fridge" else _front(front)
    positions = np.arange(0.0, widest(articulation) + 0.001, STEPS[articulation.kind])
    placed = [[link_to_world(articulation, float(position), point) for point in points] for position in positions]
    return np.asarray(positions, np.float64), np.array(placed, np.float64)


def _front(front: Geom) -> list[Vec3]:
    """Return points across a drawer's front, below its upper edge, which rises above all else of it (link frame)."""
    x, half_y, top = front.pos[0] + front.size[0], front.size[1], front.pos[2] + front.size[2]
    return [(x, side * half_y, top - BELOW_EDGE_M) for side in np.linspace(-0.8, 0.8, 9)]


def _door(door: Geom, handle_y: float) -> list[Vec3]:
    """Return points in the middle of a fridge's door, where the head looks (link frame)."""
    (x, _, z), (_, half_y, half_z) = door.pos, door.size
    away = math.copysign(half_y, handle_y)
    return [(x, f * away, z + g * half_z) for f in (0.1, 0.3, 0.5, 0.7, 0.9) for g in np.linspace(-0.6, 0.4, 6)]


def _new(
    before: Look,
    after: Look,
    near: tuple[float, float],
    surface_m: float,
    up_to_m: float,
    within_m: float,
    besides: Sequence[Vec3] = (),
) -> list[NDArray[np.float64]]:
    """Return what is seen now and was not there before, up to so high above a surface."""
    seen, known = (
        points[(points[:, 2] > surface_m + ON_M) & (np.hypot(*(points[:, :2] - near).T) < within_m + KNOWN_M)]
        for points in (after.points(), before.points())
    )
    low = seen[:, 2] < surface_m + up_to_m if surface_m > 0.0 else _low(seen, up_to_m)
    seen = seen[low]
    seen = seen[before.beyond(seen) > FREE_M]
    for place in besides:
        seen = seen[np.hypot(*(seen[:, :2] - place[:2]).T) > BESIDE_M]
    return _things(seen[(_apart(seen, known) > KNOWN_M).all(axis=1)])


def _on(look: Look, near: tuple[float, float], surface_m: float, within_m: float) -> list[NDArray[np.float64]]:
    """Return the things on a surface whose middle is seen so near to x, y."""
    seen = look.points()
    away = np.hypot(*(seen[:, :2] - near).T)
    seen = seen[(seen[:, 2] > surface_m + ON_M) & (seen[:, 2] < surface_m + TALLEST_M) & (away < within_m + LONGEST_M)]
    things = _things(seen, APART_M)
    return [thing for thing in things if math.dist(_middle(thing, look, surface_m)[:2], near) < within_m]


def _fits(thing: NDArray[np.float64], look: Look, surface_m: float, height_m: float, half: Vec3) -> bool:
    """Whether a thing on a surface is seen whole and might be an object."""
    away = thing[:, :2].mean(axis=0) - look.camera[:2]
    across = float(np.ptp(thing[:, :2] @ (-away[1], away[0]))) / float(np.linalg.norm(away))
    whole = across > WHOLE * 2.0 * min(half) and _high_enough(thing, surface_m, half)
    return whole and _no_larger(thing, surface_m, height_m, half)


def _is_hidden(thing: NDArray[np.float64], look: Look) -> bool:
    """Whether a part of a thing may be hidden: beside or above it nothing is known, or something nearer is seen."""
    away = thing - look.camera
    far = np.linalg.norm(away[:, :2], axis=1, keepdims=True)
    left = np.column_stack((-away[:, 1], away[:, 0], np.zeros(len(away)))) * RAYS_APART_RAD
    above = np.column_stack((np.zeros((len(away), 2)), far * RAYS_APART_RAD))
    beyond = look.beyond(np.concatenate([thing + left, thing - left, thing + above]))
    return not bool((beyond > -HIDING_M).all())


def _is_overhung(thing: NDArray[np.float64], look: Look) -> bool:
    """Whether something nearer is seen right above a thing: it is what that stands on."""
    tops = thing[thing[:, 2] > thing[:, 2].max() - ON_M]
    above = np.zeros_like(tops)
    above[:, 2] = 2.0 * RAYS_APART_RAD * np.linalg.norm(tops - look.camera, axis=1)
    return float(np.mean(look.beyond(tops + above) < -OVERHANG_M)) > MOSTLY


def _no_larger(thing: NDArray[np.float64], surface_m: float, height_m: float, half: Vec3) -> bool:
    """Whether a thing on a surface is no taller than an object, as it was to stand, nor wider."""
    _, middle, longest = sorted(half)
    wide, top = float(np.ptp(thing[:, :2], axis=0).max()), float(thing[:, 2].max()) - surface_m
    return wide < 2.0 * math.hypot(middle, longest) + LARGER_M and top < height_m + TALLER_M


def _is_apart(middle: Vec3, others: Sequence[Vec3]) -> bool:
    return all(math.dist(middle[:2], other[:2]) > BESIDE_M for other in others)


def _low(points: NDArray[np.float64], up_to_m: float) -> NDArray[np.bool_]:
    """Return which points (n, 3) lie below a height (m, world) with nothing above them that is seen to be taller: what
    stands or lies before furniture, without that."""
    from scipy.spatial import cKDTree  # imported late: it takes a while

    low = points[:, 2] < up_to_m
    if low.any() and not low.all():
        away, _ = cKDTree(points[~low, :2]).query(points[low, :2])
        low[low] = away > UNDER_M
    return low


def _might_be(thing: NDArray[np.float64], half: Vec3) -> bool:
    """Whether a thing on the floor is no wider than an object of those half sizes, nor lower than it can lie, and is
    seen to stand there: a shelf's lowest board does not."""
    top = float(thing[:, 2].max())
    stands = top < LOW_M or float(thing[:, 2].min()) < DOWN * top
    return stands and _no_larger(thing, 0.0, 2.0 * max(half), half) and _high_enough(thing, 0.0, half)


def _high_enough(thing: NDArray[np.float64], surface_m: float, half: Vec3) -> bool:
    """Whether a thing is no lower than an object of those half sizes can lie."""
    return bool(thing[:, 2].max() - surface_m > LEAST * 2.0 * min(half))


def _things(points: NDArray[np.float64], touching_m: float = TOUCHING_M) -> list[NDArray[np.float64]]:
    """Return points (n, 3) by what they are of, seen from above."""
    from scipy.sparse import coo_array, csgraph  # imported late: it takes a while
    from scipy.spatial import cKDTree

    if not len(points):
        return []
    near = cKDTree(points[:, :2]).query_pairs(touching_m, output_type="ndarray")
    graph = coo_array((np.ones(len(near), bool), near.T), shape=(len(points), len(points)))
    count, groups = csgraph.connected_components(graph, directed=False)
    return [points[groups == k] for k in range(count) if np.count_nonzero(groups == k) >= FEWEST]


def _largest(things: list[NDArray[np.float64]], look: Look, surface_m: float) -> Vec3 | None:
    """Return the middle of the one of most points; None if there is none."""
    return _middle(max(things, key=len), look, surface_m) if things else None


def _middle(thing: NDArray[np.float64], look: Look, surface_m: float) -> Vec3:
    """Return the middle of what one sees a side of."""
    middle = (thing.min(axis=0) + thing.max(axis=0)) / 2.0
    at = (middle[:2] + thing[:, :2].mean(axis=0)) / 2.0
    back = at - look.camera[:2]
    x, y = at + HALF_M * back / np.linalg.norm(back)
    return float(x), float(y), float((surface_m + thing[:, 2].max()) / 2.0)


def _apart(ones: NDArray[np.float64], others: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (n, m) distances."""
    return np.linalg.norm(ones[:, None] - others[None], axis=2)


def _nearest(angles: NDArray[np.float64], rays: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return the numbers of the evenly spread rays nearest to angles; -1 beside them all."""
    number = np.rint((angles - rays[0]) / (rays[1] - rays[0]))
    return np.where((number >= 0) & (number < len(rays)), number, -1).astype(np.int64)
