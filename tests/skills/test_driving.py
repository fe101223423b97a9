"""Driving by feedback, in rooms drawn for it whose shortest ways are known."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import ndimage

from hab.robot import BASE_MAX_M_S, BASE_MAX_RAD_S
from skills.oracle.driving import HAND_AZIMUTH_RAD, HAND_M, CostToGo, Stop

CELL_M, SIZE_M = 0.05, 6.0
DT = 1.0 / 30.0


def room(walls: list[tuple[float, float, float, float]]) -> Any:
    """A square room of `SIZE_M`, with tall boxes (x from, to, y from, to) in it, as a navigation grid."""
    n = round(SIZE_M / CELL_M)
    centres = (np.arange(n) + 0.5) * CELL_M
    x, y = np.meshgrid(centres, centres)
    free = (x > CELL_M) & (x < SIZE_M - CELL_M) & (y > CELL_M) & (y < SIZE_M - CELL_M)
    for x_low, x_high, y_low, y_high in walls:
        free &= ~((x > x_low) & (x < x_high) & (y > y_low) & (y < y_high))
    clearance = (ndimage.distance_transform_edt(free) * CELL_M).astype(np.float32)

    def cell(px: float, py: float) -> tuple[int, int]:
        return math.floor(py / CELL_M), math.floor(px / CELL_M)

    return SimpleNamespace(
        clearance=clearance, tall_clearance=clearance, cell_m=CELL_M, origin=(0.0, 0.0), cell=cell, shape=(n, n)
    )


def driven(
    way: CostToGo, pose: tuple[float, float, float], end: tuple[float, float], within_m: float
) -> tuple[NDArray[np.float64], float]:
    """Integrate what `drive` says, with no dynamics, until the end is near (it stays a lattice step or two off): the
    poses, and the seconds it took."""
    poses, (x, y, yaw) = [pose], pose
    for _ in range(900):
        if math.dist((x, y), end) < within_m:
            break
        v, w = way.drive(x, y, yaw)
        assert abs(v) <= BASE_MAX_M_S and abs(w) <= BASE_MAX_RAD_S
        x, y, yaw = x + v * DT * math.cos(yaw), y + v * DT * math.sin(yaw), yaw + w * DT
        poses.append((x, y, yaw))
    return np.array(poses), (len(poses) - 1) * DT


def test_in_the_open_it_costs_the_seconds_of_the_straight_way() -> None:
    way = CostToGo(room([]), [Stop(5.0, 3.0, 0.0, 0.0)])
    for distance in (0.5, 1.0, 2.0):
        assert way.at(5.0 - distance, 3.0, 0.0) == pytest.approx(distance / BASE_MAX_M_S, abs=0.1)
    # Facing away one has to turn as well, or to reverse.
    assert way.at(3.0, 3.0, math.pi) > way.at(3.0, 3.0, 0.0) + 1.0


def test_what_a_place_lacks_is_weighed_against_the_way() -> None:
    near, far = Stop(3.0, 3.0, 0.0, 3.0), Stop(4.5, 3.0, 0.0, 0.0)
    way = CostToGo(room([]), [near, far])
    assert not way.arrived(3.0, 3.0, 0.2) and way.arrived(4.5, 3.0, 0.2)
    near_is_good = CostToGo(room([]), [Stop(3.0, 3.0, 0.0, 0.5), far])
    assert near_is_good.arrived(3.0, 3.0, 0.2)


@pytest.mark.parametrize("yaw", [0.0, 1.5, 3.0, -2.0])
def test_it_drives_there_from_any_heading(yaw: float) -> None:
    way = CostToGo(room([]), [Stop(4.5, 4.0, 0.6, 0.0)])
    poses, seconds = driven(way, (1.5, 1.5, yaw), (4.5, 4.0), 0.3)
    straight = math.dist((1.5, 1.5), (4.5, 4.0))
    assert math.dist(poses[-1, :2], (4.5, 4.0)) < 0.3
    assert np.hypot(*np.diff(poses[:, :2], axis=0).T).sum() < 1.4 * straight
    assert seconds < straight / BASE_MAX_M_S + math.pi / BASE_MAX_RAD_S + 1.5


def test_it_goes_through_the_gap_and_stays_off_the_wall() -> None:
    grid = room([(2.9, 3.1, 0.0, 3.9), (2.9, 3.1, 5.3, 6.0)])
    way = CostToGo(grid, [Stop(4.8, 1.2, -1.5, 0.0)])
    poses, _ = driven(way, (1.2, 1.2, 0.0), (4.8, 1.2), 0.3)
    assert math.dist(poses[-1, :2], (4.8, 1.2)) < 0.3
    crossing = poses[np.argmin(np.abs(poses[:, 0] - 3.0))]
    assert 3.9 < crossing[1] < 5.3
    clearances = [grid.clearance[grid.cell(x, y)] for x, y, _ in poses]
    assert min(clearances) > 0.28
    # The shortest way round the wall's end, a robot's radius off it.
    assert way.at(1.2, 1.2, math.pi / 2.0) > 2.0 * math.hypot(1.8, 4.2 - 1.2) - 0.3


def test_it_backs_out_where_the_arm_has_no_room_to_turn() -> None:
    """A corridor just wide enough for the base, closed at its end: turning would take the hand through its walls."""
    grid = room([(2.0, 6.0, 0.0, 2.6), (2.0, 6.0, 3.5, 6.0)])
    way = CostToGo(grid, [Stop(1.0, 1.0, -1.5, 0.0)])
    v, _ = way.drive(4.5, 3.1, 0.0)
    assert v < 0.0
    x, y, yaw = 4.5, 3.1, 0.0
    for _ in range(900):
        v, w = way.drive_by_nodes(x, y, yaw)
        x, y, yaw = x + v * DT * math.cos(yaw), y + v * DT * math.sin(yaw), yaw + w * DT
        assert x < 2.5 or abs(yaw) < 0.6
    assert math.dist((x, y), (1.0, 1.0)) < 0.2


@pytest.mark.parametrize(("before", "beyond"), [(0.35, 0.25), (0.35, 0.5), (0.5, 0.8)])
def test_the_arm_is_not_swept_through_a_thin_wall(before: float, beyond: float) -> None:
    """The wall is between two of the lattice's headings, and the short way round to the place leads through it."""
    grid = room([(2.95, 3.05, 3.35, 4.2)])
    across = 0.5 * math.pi - HAND_AZIMUTH_RAD
    way = CostToGo(grid, [Stop(2.9, 3.0, across + beyond, 0.0)])
    x, y, yaw = 2.9, 3.0, across - before
    for _ in range(600):
        if way.at(x, y, yaw) < 0.8:
            break
        v, w = way.drive(x, y, yaw)
        x, y, yaw = x + v * DT * math.cos(yaw), y + v * DT * math.sin(yaw), yaw + w * DT
        for reach in HAND_M:
            hand = x + reach * math.cos(yaw + HAND_AZIMUTH_RAD), y + reach * math.sin(yaw + HAND_AZIMUTH_RAD)
            assert grid.clearance[grid.cell(*hand)] > 0.0
    assert way.at(x, y, yaw) < 0.8


def test_nodes_lead_there_too() -> None:
    way = CostToGo(room([]), [Stop(4.5, 3.0, 0.0, 0.0)])
    x, y, yaw = 1.5, 2.0, 2.5
    for _ in range(900):
        v, w = way.drive_by_nodes(x, y, yaw)
        x, y, yaw = x + v * DT * math.cos(yaw), y + v * DT * math.sin(yaw), yaw + w * DT
    assert math.dist((x, y), (4.5, 3.0)) < 0.2
