"""The map that the laser draws, in rooms whose ways are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from hab import robot
from hab.mapping import BODY_M, LOOK_AHEAD_M, LaserMap

NOTHING = np.ones(robot.HEAD_SCAN_RAYS, np.float32)
ANGLES = np.linspace(-0.5, 0.5, robot.LASER_RAYS) * robot.LASER_FOV_RAD


def laser_of(walls: list[tuple[float, float, float]], x: float, y: float, yaw: float) -> NDArray[np.float32]:
    """Ranges, as a share of the longest, from a pose among walls (x, from y, to y), each along y."""
    px = x + robot.LASER_POS[0] * math.cos(yaw)
    py = y + robot.LASER_POS[0] * math.sin(yaw)
    ranges = np.full(robot.LASER_RAYS, robot.LASER_MAX_M)
    for wall_x, low, high in walls:
        for i, angle in enumerate(ANGLES + yaw):
            if abs(math.cos(angle)) > 1e-6:
                distance = (wall_x - px) / math.cos(angle)
                if 0.0 < distance < ranges[i] and low <= py + distance * math.sin(angle) <= high:
                    ranges[i] = distance
    return (ranges / robot.LASER_MAX_M).astype(np.float32)


def test_with_nothing_in_sight_the_way_is_straight() -> None:
    for angle in (0.0, math.pi / 4.0, -math.pi / 2.0, math.pi):
        drawn = LaserMap(12.0)
        drawn.read(0.0, 0.0, 0.0, np.ones(robot.LASER_RAYS, np.float32), NOTHING)
        told = drawn.route(0.0, 0.0, 0.0, (4.0 * math.cos(angle), 4.0 * math.sin(angle)))
        for sine, cosine in (told[:2], told[2:4]):
            assert math.remainder(math.atan2(sine, cosine) - angle, math.tau) == pytest.approx(0.0, abs=0.25)
        assert told[-1] == pytest.approx(4.0, rel=0.1)


@pytest.mark.parametrize("gap", [1.5, -1.5])
def test_the_way_goes_through_the_gap(gap: float) -> None:
    """A wall 2 m ahead with one gap, the goal behind it: straight on until the wall is seen, then by the gap."""
    walls = [(2.0, -4.0, gap - 0.5), (2.0, gap + 0.5, 4.0)]
    drawn, x, y, yaw, driven = LaserMap(12.0), 0.0, 0.0, 0.0, 0.0
    crossed = math.nan
    for _ in range(200):
        drawn.read(x, y, yaw, laser_of(walls, x, y, yaw), NOTHING)
        told = drawn.route(x, y, yaw, (4.0, 0.0))
        yaw += math.atan2(told[0], told[1])
        step = 0.1
        if x < 2.0 <= x + step * math.cos(yaw):
            crossed = y
        x, y, driven = x + step * math.cos(yaw), y + step * math.sin(yaw), driven + step
        if math.dist((x, y), (4.0, 0.0)) < 0.2:
            break
    shortest = 2.0 * math.hypot(2.0, abs(gap) - 0.5)
    assert abs(crossed - gap) < 0.5 - BODY_M + 0.11
    assert shortest < driven < 1.35 * shortest


@pytest.mark.parametrize("turned", [0.0, 0.2, 0.4, 0.6, 1.0])
def test_no_way_leads_between_the_cells_of_a_wall(turned: float) -> None:
    """However it lies on the map's grid: round its end, 8 m to the left, not through, though that is far shorter."""
    walls, drawn = [(2.0, -12.0, 8.0)], LaserMap(12.0)
    cos, sin = math.cos(turned), math.sin(turned)

    def at(x: float, y: float) -> tuple[float, float]:
        return cos * x - sin * y, sin * x + cos * y

    for y in np.arange(-12.0, 9.0, 0.5).tolist():
        drawn.read(*at(1.0, y), turned, laser_of(walls, 1.0, y, 0.0), NOTHING)
    told = drawn.route(*at(1.0, 0.0), turned, at(3.5, 0.0))
    assert told[-1] > math.hypot(1.0, 8.0) + math.hypot(1.5, 8.0)


def test_where_the_robot_has_not_got_through_it_tries_another_way_at_last() -> None:
    """A gap in a wall that is half as wide as the robot, and the wall's end 8 m to the left."""
    walls, drawn, tries = [(2.0, -12.0, -0.15), (2.0, 0.15, 8.0)], LaserMap(12.0), 0
    for y in np.arange(-12.0, 9.0, 0.5).tolist():
        drawn.read(1.0, y, 0.0, laser_of(walls, 1.0, y, 0.0), NOTHING)
    while (length := drawn.route(1.0, 0.0, 0.0, (3.5, 0.0))[-1]) < 10.0:
        drawn.block()
        tries += 1
        assert tries < 4
    assert tries > 0 and length > math.hypot(1.0, 8.0) + math.hypot(1.5, 8.0)


@pytest.mark.parametrize("side", [1.0, -1.0])
def test_the_way_goes_round_what_is_known_to_stand_there(side: float) -> None:
    """A wall across the straight way that no sensor has met, longer on one side: on the other one, in a circuit of two
    straight lines round its end."""
    drawn, end_m = LaserMap(12.0), 1.0
    assert drawn.route(0.0, 0.0, 0.0, (4.0, 0.0))[-1] == pytest.approx(4.0, rel=0.05)
    drawn.mark(np.array([(2.0, side * y) for y in np.arange(-end_m, 6.0, 0.05)]))
    told = drawn.route(0.0, 0.0, 0.0, (4.0, 0.0))
    sine, _, _, _, length = told.tolist()
    assert sine * side < 0.0
    assert 2.0 * math.hypot(2.0, end_m) < length < 1.3 * 2.0 * math.hypot(2.0, end_m + BODY_M)
    drawn.mark(np.array([(2.0, side * y) for y in np.arange(-end_m, 6.0, 0.05)]))  # known already
    assert drawn.route(0.0, 0.0, 0.0, (4.0, 0.0)).tolist() == told.tolist()


def test_the_look_ahead_ends_at_the_goal() -> None:
    told = LaserMap(12.0).route(0.0, 0.0, 0.5, (0.2, 0.0))
    assert told[-1] < min(LOOK_AHEAD_M)


def test_what_the_resting_hand_holds_is_no_obstacle() -> None:
    """The head sees what hangs from the resting hand wherever the robot goes; a table top further ahead is one."""
    pitches = np.tile(robot.HEAD_SCAN_PITCHES_RAD, len(robot.HEAD_SCAN_YAWS_RAD))
    flat = 0.3
    held = np.where(np.abs(pitches + 0.5) < 0.2, flat / np.cos(pitches) / robot.HEAD_SCAN_MAX_M, 1.0).astype(np.float32)
    table = np.where(np.abs(pitches + 0.3) < 0.2, 1.2 / np.cos(pitches) / robot.HEAD_SCAN_MAX_M, 1.0).astype(np.float32)
    nothing = np.ones(robot.LASER_RAYS, np.float32)
    for scan, length in ((held, 3.0), (table, 3.2)):
        drawn = LaserMap(12.0)
        drawn.read(0.0, 0.0, 0.0, nothing, scan)
        told = drawn.route(0.0, 0.0, 0.0, (3.0, 0.0))
        assert told[-1] == pytest.approx(3.0, abs=0.15) if scan is held else told[-1] >= length


@pytest.mark.parametrize(("off_m", "least_m", "most_m"), [(0.0, 2.9, 3.15), (0.6, 3.2, 4.0), (None, 3.2, 4.0)])
def test_what_a_hand_farther_off_holds_is_none_either(off_m: float | None, least_m: float, most_m: float) -> None:
    """The head sees a long box that hangs from a hand 0.9 m before the base, wherever the robot goes."""
    pitches = np.tile(robot.HEAD_SCAN_PITCHES_RAD, len(robot.HEAD_SCAN_YAWS_RAD))
    flat, low, high = 0.8, 0.75, 0.95
    height = robot.HEAD_CAMERA_POS[2] + flat * np.tan(pitches)
    straight = np.repeat(np.abs(robot.HEAD_SCAN_YAWS_RAD) < 0.15, len(robot.HEAD_SCAN_PITCHES_RAD))
    met = straight & (height > low) & (height < high)
    assert met.any()
    scan = np.where(met, flat / np.cos(pitches) / robot.HEAD_SCAN_MAX_M, 1.0).astype(np.float32)
    hand = None if off_m is None else (float(robot.HEAD_CAMERA_POS[0]) + flat, off_m, (low + high) / 2.0)
    drawn = LaserMap(12.0)
    drawn.read(0.0, 0.0, 0.0, np.ones(robot.LASER_RAYS, np.float32), scan, hand)
    assert least_m < drawn.route(0.0, 0.0, 0.0, (3.0, 0.0))[-1] < most_m


def test_rays_that_meet_the_robots_own_arm_tell_nothing() -> None:
    drawn = LaserMap(12.0)
    own = np.full(robot.LASER_RAYS, robot.UNKNOWN_RANGE, np.float32), np.full_like(NOTHING, robot.UNKNOWN_RANGE)
    for step in range(10):
        drawn.read(0.2 * step, 0.0, 0.0, *own)
    clear = LaserMap(12.0)
    np.testing.assert_array_equal(drawn.route(2.0, 0.0, 0.0, (0.0, 3.0)), clear.route(2.0, 0.0, 0.0, (0.0, 3.0)))


@pytest.mark.parametrize(("seen_over", "least_m", "most_m"), [(True, 2.2, 3.0), (False, 6.0, 9.0)])
def test_the_way_does_not_lead_through_a_wall_to_what_lies_behind_it(
    seen_over: bool, least_m: float, most_m: float
) -> None:
    """The goal lies 0.4 m behind what the laser meets 2 m ahead: furniture if the head sees over it, else a wall, whose
    end is 3 m to the left."""
    walls = [(2.0, -12.0, 3.0)]
    pitches = np.tile(robot.HEAD_SCAN_PITCHES_RAD, len(robot.HEAD_SCAN_YAWS_RAD))
    yaws = np.repeat(robot.HEAD_SCAN_YAWS_RAD, len(robot.HEAD_SCAN_PITCHES_RAD))
    drawn = LaserMap(12.0)
    for x in np.linspace(0.0, 0.8, 9):
        to_wall = (2.0 - x - robot.HEAD_CAMERA_POS[0]) / np.cos(pitches) / np.cos(yaws)
        to_floor = np.where(pitches < 0.0, robot.HEAD_CAMERA_POS[2] / np.sin(np.maximum(-pitches, 1e-6)), np.inf)
        met = to_floor if seen_over else np.minimum(to_wall, to_floor)
        scan = np.minimum(met / robot.HEAD_SCAN_MAX_M, 1.0).astype(np.float32)
        drawn.read(float(x), 0.0, 0.0, laser_of(walls, float(x), 0.0, 0.0), scan)
    assert least_m < drawn.route(0.0, 0.0, 0.0, (2.4, 0.0))[-1] < most_m
