"""Where Navigate comes from: before the furniture."""

from __future__ import annotations

import math

import numpy as np
import pytest

from hab.episodes import Episode, load_grid, load_scene, make_episode
from hab.navgrid import NavGrid
from hab.openings import door_boxes, drawn_out, fridge_start, grid_with_openings, handle_at, rotated, widest
from hab.scene import Scene
from planner.approach import FRONT_PASSED_M, PASSED_M, approach
from planner.doors import hidden
from skills.skill import Goal
from skills.starts import working_sides

FRONT_M = (1.2, 1.4, 1.6, 1.8)
EPISODES = [("tidy_house", 0), ("tidy_house", 1), ("prepare_groceries", 2), ("prepare_groceries", 3)]


def laid_out(scenario: str, index: int) -> tuple[Episode, Scene, NavGrid]:
    episode = make_episode(scenario, "train", index)
    return episode, load_scene(episode.scene_seed), load_grid(episode.scene_seed)


def bases(grid: NavGrid, count: int = 20) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [np.array([*grid.sample(rng), rng.uniform(-math.pi, math.pi)]) for _ in range(count)]


@pytest.mark.parametrize(("scenario", "index"), EPISODES)
def test_an_object_is_come_to_where_the_arm_gets_at_it(scenario: str, index: int) -> None:
    """By way of the place before its furniture that is the nearest by the floor, with all that stands open in the way,
    and not behind an open door."""
    episode, scene, grid = laid_out(scenario, index)
    floor = grid_with_openings(scene, grid, episode.joints)
    detours = 0
    for target in episode.targets:
        for name, at in ((target.start_receptacle, target.start_pos), (target.goal_receptacle, target.goal_pos)):
            sides = [pose[:2] for pose in working_sides(floor, scene.receptacle(name), at)]
            work = [place for place in sides if not hidden(door_boxes(scene, episode.joints), place, at)]
            for base in bases(floor):
                found = approach(scene, grid, Goal(at, target.object), episode.joints, base)
                nearest_m = min(floor.geodesic((base[0], base[1]), place) for place in work)
                assert found is not None
                if abs(nearest_m - PASSED_M) > 0.15:
                    assert found.passed(base) == (nearest_m < PASSED_M)
                detours += not found.passed(base)
                assert min(math.dist(found.place[:2], place) for place in work) < 0.04  # its cell's centre
                there_m = floor.geodesic((base[0], base[1]), found.place[:2])
                assert there_m < nearest_m + 0.15
                assert found.passed(np.array([*found.place[:2], 0.0]))
    assert detours > 50


def test_what_is_near_behind_a_wall_is_far() -> None:
    """It is the way along the floor that counts, not the straight line."""
    through = 0
    for scenario, index in EPISODES:
        episode, scene, grid = laid_out(scenario, index)
        for target in episode.targets:
            near = [base for base in bases(grid, 300) if math.dist(base[:2], target.goal_pos[:2]) < 1.5]
            for base in near:
                found = approach(scene, grid, Goal(target.goal_pos, target.object), episode.joints, base)
                assert found is not None
                far = grid.geodesic((base[0], base[1]), found.place[:2]) > 2.5
                assert not (far and found.passed(base))
                through += far
    assert through > 1


def test_what_lies_in_a_drawer_is_come_to_where_that_is_out() -> None:
    episode, scene, grid = laid_out("set_table", 0)
    target = next(t for t in episode.targets if scene.receptacle(t.start_receptacle).kind == "drawer")
    drawer = scene.articulation(scene.receptacle(target.start_receptacle).articulation)
    out = drawn_out(drawer, widest(drawer), target.start_pos)
    base = max(bases(grid), key=lambda base: math.dist(base[:2], out[:2]))
    assert approach(scene, grid, Goal(out, target.object), {drawer.name: widest(drawer)}, base) is not None
    assert approach(scene, grid, Goal(out, target.object), {}, base) is None  # there is nothing there


def test_what_a_door_hides_from_all_sides_is_come_to_from_its_front() -> None:
    """A fridge whose door stands ajar: where one would work if it were open."""
    episode, scene, grid = laid_out("prepare_groceries", 2)
    fridge = next(a for a in scene.articulations if a.kind == "fridge")
    target = next(t for t in episode.targets if scene.receptacle(t.start_receptacle).articulation == fridge.name)
    found = approach(scene, grid, Goal(target.start_pos, target.object), {fridge.name: 0.3}, bases(grid)[0])
    assert found is not None and math.dist(found.place[:2], target.start_pos[:2]) < 1.5


def test_the_open_door_is_gone_round() -> None:
    """Where the fridge's open door stands nobody works."""
    episode, scene, grid = laid_out("prepare_groceries", 2)
    fridge = next(a for a in scene.articulations if a.kind == "fridge")
    opened = grid_with_openings(scene, grid, {fridge.name: fridge_start(fridge)})
    target = next(t for t in episode.targets if scene.receptacle(t.start_receptacle).articulation == fridge.name)
    goal = Goal(target.start_pos, target.object)
    round_it = [approach(scene, grid, goal, {fridge.name: fridge_start(fridge)}, base) for base in bases(opened)]
    through = [approach(scene, grid, goal, {}, base) for base in bases(opened)]
    assert all(opened.is_free(*found.place[:2]) for found in round_it if found)
    assert not all(opened.is_free(*found.place[:2]) for found in through if found)


@pytest.mark.parametrize("seed", [0, 1, 2])
def test_a_front_is_come_to_from_before_it(seed: int) -> None:
    """The base may stand all the way from there to where it is near the front."""
    scene, grid = load_scene(seed), load_grid(seed)
    found = 0
    for articulation in scene.articulations:
        handle = handle_at(articulation, 0.0)
        free = [grid.is_free(*np.add(handle[:2], rotated(articulation.yaw, (m, 0.0)))) for m in FRONT_M]
        first = free.index(True) if any(free) else 0
        blocked = free.index(False, first) if False in free[first:] else len(free)
        for base in bases(grid, 5):
            by_way_of = approach(scene, grid, Goal(handle, "", articulation.name), {}, base)
            if by_way_of is None or by_way_of.passed(base):
                continue
            found += 1
            ahead, aside = rotated(-articulation.yaw, np.subtract(by_way_of.place[:2], handle[:2]))
            assert 1.15 < ahead < 1.85 and abs(aside) < 0.04 and abs(ahead - FRONT_M[blocked - 1]) < 0.04
            assert by_way_of.passed(np.array([*by_way_of.place[:2], 0.0])) and by_way_of.passed_m == FRONT_PASSED_M
    assert found > 5


def test_nothing_is_known_of_what_lies_on_the_floor() -> None:
    episode, scene, grid = laid_out("tidy_house", 0)
    base = bases(grid)[0]
    x, y = grid.sample(np.random.default_rng(1))
    assert approach(scene, grid, Goal((x, y, 0.04), episode.targets[0].object), {}, base) is None
