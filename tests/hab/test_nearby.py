"""What is told of a place's surroundings, in scenes of one board or one rim whose heights are known."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from hab import robot
from hab.nearby import AROUND_SIZE, HIGH_M, Nearby

PLACE = np.array((1.3, 0.0, 0.6))
Slab = tuple[tuple[float, float], tuple[float, float], float]
"""Bounds along x and y, and height, of something flat."""


def scan_of(slab: Slab, pose: tuple[float, float, float]) -> NDArray[np.float32]:
    """Ranges at which the head's rays from a pose meet a slab, by similar triangles."""
    (x_low, x_high), (y_low, y_high), height = slab
    x, y, yaw = pose
    ranges = []
    for ray_yaw in robot.HEAD_SCAN_YAWS_RAD:
        for pitch in robot.HEAD_SCAN_PITCHES_RAD:
            drop = height - robot.HEAD_CAMERA_POS[2]
            distance = drop / math.sin(pitch) if math.sin(pitch) * drop > 0.0 else math.inf
            flat = distance * math.cos(pitch)
            hx = x + robot.HEAD_CAMERA_POS[0] * math.cos(yaw) + flat * math.cos(yaw + ray_yaw)
            hy = y + robot.HEAD_CAMERA_POS[0] * math.sin(yaw) + flat * math.sin(yaw + ray_yaw)
            hit = x_low <= hx <= x_high and y_low <= hy <= y_high
            ranges.append(min(distance / robot.HEAD_SCAN_MAX_M, 1.0) if hit else 1.0)
    return np.array(ranges, np.float32)


def driven_in(slab: Slab, hand: NDArray[np.float64] | None = None) -> NDArray[np.float32]:
    """What is told after driving straight towards the place, from 1.3 m to 0.7 m before it."""
    nearby = Nearby()
    for x in np.linspace(0.0, 0.6, 20):
        told = nearby.read(scan_of(slab, (float(x), 0.0, 0.0)), (float(x), 0.0, 0.0), PLACE, hand)
    return told


def test_nothing_seen_is_nothing_told() -> None:
    told = Nearby().read(np.ones(robot.HEAD_SCAN_RAYS, np.float32), (0.0, 0.0, 0.0), PLACE)
    assert told.shape == (AROUND_SIZE,)
    np.testing.assert_allclose(told, [HIGH_M] * 3 + [0.0] * 4)


@pytest.mark.parametrize("up", [0.2, 0.3, 0.4])
def test_a_board_is_told_with_its_height_where_it_is(up: float) -> None:
    """It covers the place and ends 0.28 m before it."""
    told = driven_in(((1.3 - 0.28, 1.8), (-0.5, 0.5), 0.6 + up))
    np.testing.assert_allclose(told[:2], up, atol=1e-5)
    assert told[2] == pytest.approx(HIGH_M)
    np.testing.assert_array_equal(told[3:], 0.0)


def test_a_rim_is_told_with_its_height_where_it_is() -> None:
    told = driven_in(((1.3 - 0.25, 1.3 - 0.2), (-0.5, 0.5), 0.6 + 0.08))
    assert told[4] == pytest.approx(0.08, abs=1e-5)
    np.testing.assert_array_equal(told[[3, 5]], 0.0)
    np.testing.assert_allclose(told[:3], HIGH_M)


@pytest.mark.parametrize("slab", [((1.0, 1.8), (-0.5, 0.5), 0.6), ((1.0, 1.8), (0.25, 0.9), 0.9)])
def test_what_it_lies_on_and_what_is_beside_do_not_count(slab: Slab) -> None:
    np.testing.assert_allclose(driven_in(slab), [HIGH_M] * 3 + [0.0] * 4)


@pytest.mark.parametrize("depth", [0.026, 0.087, 0.141])
def test_the_surface_is_told_with_its_depth(depth: float) -> None:
    """It begins 0.3 m before the place and goes on behind it."""
    assert driven_in(((1.0, 1.8), (-0.5, 0.5), 0.6 - depth))[-1] == pytest.approx(-depth, abs=1e-5)


def test_the_surface_is_what_is_seen_most_often() -> None:
    """First the face of a thing that stands there, now and then, then what it stands on."""
    nearby = Nearby()
    for depth, times in ((0.03, 1), (0.05, 1), (0.087, 3)):
        for _ in range(times):
            scan = scan_of(((1.0, 1.8), (-0.5, 0.5), 0.6 - depth), (0.3, 0.0, 0.0))
            told = nearby.read(scan, (0.3, 0.0, 0.0), PLACE)
    assert told[-1] == pytest.approx(-0.087, abs=1e-5)


def test_a_floor_far_below_is_no_surface_to_stand_on() -> None:
    assert driven_in(((1.0, 1.8), (-0.5, 0.5), 0.35))[-1] == 0.0


def test_what_a_full_hand_holds_does_not_count() -> None:
    slab = ((1.25, 1.35), (-0.05, 0.05), 0.9)
    assert driven_in(slab)[0] == pytest.approx(0.3, abs=1e-5)
    assert driven_in(slab, np.array((1.3, 0.0, 0.9)))[0] == pytest.approx(HIGH_M)


def test_it_is_the_same_wherever_the_map_began() -> None:
    """Turning and moving the whole frame changes nothing but which 3 cm a point falls into."""
    slab = ((1.3 - 0.28, 1.8), (-0.5, 0.5), 0.9)
    turn, shift = 0.7, np.array((2.0, -1.0))
    cos, sin = math.cos(turn), math.sin(turn)
    place = np.array((*(np.array(((cos, -sin), (sin, cos))) @ PLACE[:2] + shift), PLACE[2]))
    here, there = Nearby(), Nearby()
    for x in np.linspace(0.0, 0.6, 20):
        scan = scan_of(slab, (float(x), 0.0, 0.0))
        a = here.read(scan, (float(x), 0.0, 0.0), PLACE)
        b = there.read(scan, (cos * x + shift[0], sin * x + shift[1], turn), place)
    np.testing.assert_allclose(a, b, atol=1e-5)
