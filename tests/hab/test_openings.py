"""Doors and drawers in each other's way."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.optimize import linprog

from hab.episodes import load_scene
from hab.openings import against_wall, fridge_start, in_the_way, obstruct, opened_position, overlapping, widest
from hab.scene import DRAWER_OPEN_M, FRIDGE_OPEN_RAD

Box = tuple[float, float, float, float, float]
SIZE = st.floats(0.05, 1.0)
BOXES = st.tuples(st.floats(-1.5, 1.5), st.floats(-1.5, 1.5), st.floats(-4.0, 4.0), SIZE, SIZE)


def common_depth(a: Box, b: Box) -> float:
    """How deep (m) a point can lie in both rectangles, by linear programming; negative where they are apart."""
    rows, bounds = [], []
    for x, y, yaw, *halves in (a, b):
        for turn, half in zip((0.0, math.pi / 2.0), halves, strict=True):
            axis = np.array([math.cos(yaw + turn), math.sin(yaw + turn)])
            for sign in (1.0, -1.0):
                rows.append([*(sign * axis), 1.0])
                bounds.append(half + sign * float(axis @ (x, y)))
    found = linprog([0.0, 0.0, -1.0], rows, bounds, bounds=[(None, None)] * 3)
    assert found.success
    return float(found.x[2])


@given(BOXES, BOXES)
def test_rectangles_overlap_where_a_point_lies_in_both(a: Box, b: Box) -> None:
    depth = common_depth(a, b)
    assume(abs(depth) > 1e-6)
    assert overlapping(a, b) == overlapping(b, a) == (depth > 0.0)


@pytest.mark.parametrize(
    ("drawer_m", "door_rad", "expected"), [(0.49, 1.89, True), (0.0, 1.89, False), (0.49, 0.0, False)]
)
def test_a_door_stands_in_a_drawer_only_if_both_are_open(drawer_m: float, door_rad: float, expected: bool) -> None:
    """Training start 3098 of Pick was drawn like this: the door flew shut."""
    scene = load_scene(3098 % 120)
    assert in_the_way(scene, {"drawer_4": drawer_m, "fridge": door_rad}) == expected


def test_what_obstructs_the_fridge_are_the_drawers_beside_it() -> None:
    """Those that its door may stand in, wherever both are; it does not matter which is first."""
    rng, met = np.random.default_rng(0), 0
    for seed in range(20):
        scene = load_scene(seed)
        door, drawers = scene.articulation("fridge"), [a for a in scene.articulations if a.kind == "cabinet"]
        beside = {drawer.name for drawer in drawers if obstruct(door, drawer)}
        assert beside == {drawer.name for drawer in drawers if obstruct(drawer, door)} and len(beside) <= 2
        assert not any(obstruct(one, two) for one, two in itertools.combinations(drawers, 2))
        for drawer in drawers:
            drawn = {drawer.name: opened_position(rng, drawer, (DRAWER_OPEN_M, 0.5))}
            if in_the_way(scene, {**drawn, "fridge": opened_position(rng, door, (FRIDGE_OPEN_RAD, 2.3))}):
                assert drawer.name in beside
                met += 1
    assert met
    scene = load_scene(3098 % 120)
    assert obstruct(scene.articulation("fridge"), scene.articulation("drawer_4"))


@pytest.mark.parametrize("seed", [1002, 1003])
def test_positions_are_drawn_within_the_doors_range(seed: int) -> None:
    """Apartment 1002 has its fridge in a corner."""
    door = load_scene(seed).articulation("fridge")
    assert against_wall(door) == (seed == 1002)
    rng = np.random.default_rng(0)
    drawn = [opened_position(rng, door, (1.25, 2.1)) for _ in range(300)]
    end = min(2.1, widest(door))
    assert 1.25 <= min(drawn) < 1.25 + 0.1 * (end - 1.25) and end - 0.1 * (end - 1.25) < max(drawn) <= end
    assert fridge_start(door) == min(2.0, widest(door))
    drawer = load_scene(seed).articulation("drawer_0")
    assert not against_wall(drawer) and 0.42 <= opened_position(rng, drawer, (0.42, 0.50)) <= 0.50
