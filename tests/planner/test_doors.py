"""Where fridges' doors are believed to stand."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hab.backend import make_simulator
from hab.episodes import make_episode
from hab.openings import door_boxes, footprint, fridge_start, handle_at
from hab.scene import Articulation
from hab.simulator import Simulator
from planner.doors import OpenDoors, hidden
from planner.look import LOOK_EVERY

EPISODE = make_episode("prepare_groceries", "train", 1)
"""The fridge stands open in it, with room on both sides of its door."""


@pytest.fixture(scope="module")
def sim() -> Iterator[Simulator]:
    made = make_simulator("mujoco", False, False)
    yield made
    made.close()


def fridge_of(sim: Simulator) -> Articulation:
    return next(a for a in sim.scene.articulations if a.kind == "fridge")


def outwards_of(fridge: Articulation, position: float) -> np.ndarray:
    """Return the direction (2,) in which the door opens farther."""
    (x, y, *_), (wider_x, wider_y, *_) = footprint(fridge, position), footprint(fridge, position + 0.01)
    return np.array((wider_x - x, wider_y - y)) / math.dist((x, y), (wider_x, wider_y))


def test_doors_are_where_they_are_seen_or_were_left(sim: Simulator) -> None:
    """As the scenario begins, until the head's camera sees otherwise, or the hand has brought it elsewhere."""
    sim.reset(EPISODE)
    fridge = fridge_of(sim)
    doors = OpenDoors(sim.scene)
    doors.begin([fridge.name])
    assert doors.joints == {fridge.name: fridge_start(fridge)}
    truly = 1.4
    sim.reset(replace(EPISODE, joints={fridge.name: truly}))
    x, y, *_ = footprint(fridge, truly)
    outwards = outwards_of(fridge, truly)
    before, away = np.array((x, y)) + 1.2 * outwards, math.atan2(outwards[1], outwards[0])
    sim.place_robot(np.array((*before, away)), sim.arm)  # its back to the door
    doors.watch(sim)
    assert doors.joints == {fridge.name: fridge_start(fridge)}
    sim.place_robot(np.array((*before, away + math.pi)), sim.arm)
    for _ in range(LOOK_EVERY):
        doors.watch(sim)
    assert abs(doors.joints[fridge.name] - truly) < 0.1
    doors.bring(fridge.name, np.array(handle_at(fridge, 0.9)))
    doors.begin([fridge.name])
    assert doors.joints[fridge.name] == pytest.approx(0.9, abs=0.01)
    doors.begin([])
    assert doors.joints == {} and doors.boxes() == []
    doors.begin([fridge.name])
    assert doors.joints[fridge.name] == pytest.approx(0.9, abs=0.01)


numbers = st.floats(-1.0, 1.0)


@given(numbers, numbers, st.floats(-3.0, 3.0), st.floats(0.02, 0.5), st.floats(0.02, 0.5), st.tuples(*[numbers] * 4))
@settings(deadline=None, max_examples=100)
def test_what_is_hidden_has_the_door_between(
    x: float, y: float, yaw: float, half_x: float, half_y: float, ends: tuple[float, float, float, float]
) -> None:
    """Against many points of the straight line."""
    line = np.linspace(ends[:2], ends[2:], 2001) - (x, y)
    ahead = line @ (math.cos(yaw), math.sin(yaw))
    aside = line @ (-math.sin(yaw), math.cos(yaw))
    within = np.maximum(np.abs(ahead) - half_x, np.abs(aside) - half_y).min()
    if abs(within) > 0.002:  # not just touched
        assert hidden([(x, y, yaw, half_x, half_y)], ends[:2], ends[2:]) == (within < 0.0)
    assert not hidden([], ends[:2], ends[2:])


def test_doors_that_are_shut_hide_nothing(sim: Simulator) -> None:
    sim.reset(EPISODE)
    fridge = fridge_of(sim)
    assert door_boxes(sim.scene, {fridge.name: 0.02}) == [] == door_boxes(sim.scene, {})
    drawer = next(a for a in sim.scene.articulations if a.kind != "fridge")
    assert door_boxes(sim.scene, {drawer.name: 0.4}) == []
    assert door_boxes(sim.scene, {fridge.name: 1.5}) == [footprint(fridge, 1.5)]
