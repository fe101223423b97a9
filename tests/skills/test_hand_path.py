"""The hand's way into a compartment, against the shortest of the ways through many points of its opening."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hab.furniture import EDGE_M
from hab.scene import Receptacle
from hab.sensors import RobotPose
from skills.hand_path import BEFORE_M, ROOM_M, HandPath

HALF_X, HALF_Y, TOP = 0.03, 0.25, 0.3
SIDE, FRONT = HALF_Y + EDGE_M, HALF_X + EDGE_M + BEFORE_M
SHELF = Receptacle("shelf_1", "shelf", (1.0, -2.0, 0.64), 0.7, (HALF_X, HALF_Y), TOP, (0.0,))
Point = tuple[float, float, float]
inside = st.tuples(st.floats(-0.03, 0.03), st.floats(-0.25, 0.25), st.floats(0.02, 0.15))
before = st.tuples(st.floats(FRONT + 1e-3, 1.5), st.floats(-1.5, 1.5), st.floats(-0.6, 1.0))
few = settings(deadline=None, max_examples=200)


def world(point: Point, receptacle: Receptacle = SHELF) -> Point:
    c, s = math.cos(receptacle.yaw), math.sin(receptacle.yaw)
    x, y, z = point
    cx, cy, cz = receptacle.center
    return cx + c * x - s * y, cy + s * x + c * y, cz + z


def way(point: Point, goal: Point) -> float:
    return HandPath(SHELF)(world(point), world(goal))


def pose(base: Point) -> RobotPose:
    standing: Any = SimpleNamespace(base=np.array(base), ee_pos=np.zeros(3), ee_mat=np.eye(3))
    return RobotPose(standing)


def shortest(point: Point, goal: Point) -> float:
    """Through the best of 40,000 points of the opening."""
    y, z = np.meshgrid(np.linspace(ROOM_M - SIDE, SIDE - ROOM_M, 200), np.linspace(ROOM_M, TOP - ROOM_M, 200))
    door = np.stack((np.full_like(y, FRONT), y, z), axis=-1)
    return float((np.linalg.norm(door - point, axis=-1) + np.linalg.norm(door - goal, axis=-1)).min())


@given(before, inside)
@few
def test_from_before_the_furniture_it_is_the_shortest_way_through_the_opening(point: Point, goal: Point) -> None:
    best = shortest(point, goal)
    assert best - 1e-3 <= way(point, goal) <= 1.01 * best


@given(before, inside, st.floats(-0.01, 0.01), st.floats(-0.01, 0.01), st.floats(-0.01, 0.01))
@few
def test_it_does_not_jump(point: Point, goal: Point, dx: float, dy: float, dz: float) -> None:
    """Before the furniture, and on the way in."""
    near = (max(FRONT, point[0] + dx), point[1] + dy, point[2] + dz)
    assert abs(way(near, goal) - way(point, goal)) < 0.2
    door = (FRONT, min(SIDE, max(-SIDE, point[1])), min(TOP, max(0.0, point[2])))
    if abs(door[1]) < SIDE - ROOM_M and ROOM_M < door[2] < TOP - ROOM_M:
        assert way((FRONT - 1e-9, *door[1:]), goal) == pytest.approx(way((FRONT + 1e-9, *door[1:]), goal), abs=5e-3)


@pytest.mark.parametrize("point", [(0.0, SIDE + 0.05, 0.1), (0.0, 0.0, TOP + 0.05), (0.05, -0.1, -0.05)])
def test_a_hand_at_a_wall_or_board_is_paid_for_going_round_it(point: Point) -> None:
    """Pressing on towards the object pays nothing; going to the front does."""
    goal = (0.0, 0.0, 0.05)
    x, y, z = point
    assert way(point, goal) > math.dist(point, goal) + 0.1
    assert way((x + 0.1, y, z), goal) < way(point, goal) - 0.03


@given(st.tuples(st.floats(-0.3, FRONT), st.sampled_from([SIDE + 0.01, -SIDE - 0.3]), st.floats(-0.4, 0.7)), inside)
@few
def test_from_beside_it_one_has_to_come_out_to_the_front_first(point: Point, goal: Point) -> None:
    assert way(point, goal) >= math.hypot(FRONT - point[0], abs(point[1]) - SIDE + ROOM_M) + FRONT - goal[0] - 1e-9


@given(inside, inside)
@few
def test_in_the_compartment_it_is_straight(point: Point, goal: Point) -> None:
    assert way(point, goal) == pytest.approx(math.dist(point, goal))


@pytest.mark.parametrize(("kind", "clearance"), [("table", 1.0), ("counter", 0.6), ("drawer", 0.17)])
def test_it_is_straight_where_nothing_is_in_the_way(kind: str, clearance: float) -> None:
    """A drawer is drawn out, and open to above."""
    open_above = Receptacle("it", kind, (0.0, 0.0, 0.7), 0.0, (0.2, 0.3), clearance, (0.0,))
    assert HandPath(open_above)((0.4, 0.5, 1.2), (0.1, 0.0, 0.75)) == math.dist((0.4, 0.5, 1.2), (0.1, 0.0, 0.75))


def test_to_what_has_left_the_compartment_it_is_straight() -> None:
    assert way((1.0, 0.3, 0.4), (0.6, 0.2, -0.6)) == pytest.approx(math.dist((1.0, 0.3, 0.4), (0.6, 0.2, -0.6)))


@given(before, inside, st.tuples(st.floats(-3.0, 3.0), st.floats(-3.0, 3.0), st.floats(-3.2, 3.2)))
@few
def test_what_is_told_of_it_leads_along_it(point: Point, goal: Point, base: Point) -> None:
    """The next point, told in the base's frame, lies in the opening, and the way there and on is as long as told."""
    path = HandPath(SHELF)
    hand, place = world(point), world(goal)
    told = path.surroundings(pose(base), hand, place)
    c, s = math.cos(base[2]), math.sin(base[2])
    door = (base[0] + c * told[0] - s * told[1], base[1] + s * told[0] + c * told[1], told[2])
    assert math.dist(hand, door) + math.dist(door, place) == pytest.approx(told[3]) == pytest.approx(path(hand, place))
    out = np.array((math.cos(SHELF.yaw), math.sin(SHELF.yaw)))
    assert out @ (np.array(door[:2]) - SHELF.center[:2]) == pytest.approx(FRONT)
    looks = SHELF.yaw - base[2]
    assert told[4:6] == pytest.approx([math.cos(looks), math.sin(looks)])
    assert told[6:] == [1.0, TOP]


def test_on_an_open_place_it_leads_straight_to_the_goal() -> None:
    table = Receptacle("table", "table", (1.0, -2.0, 0.7), 0.7, (0.3, 0.5), math.inf, (0.0,))
    told = HandPath(table).surroundings(pose((0.0, 0.0, math.pi / 2)), (0.0, 0.0, 1.0), (1.0, -2.0, 0.8))
    assert told[:4] == pytest.approx([-2.0, -1.0, 0.8, math.hypot(1.0, 2.0, 0.2)]) and told[6:] == [0.0, 0.0]
