"""What Pick and Place are paid for: by a twin that works out both ways anew, and in apartments with walls and doors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from hab.episodes import load_grid
from hab.openings import grid_with_openings
from skills import make_env
from skills.hand_path import HandPath
from skills.starts import moved_receptacle, working_sides

SKILLS = ["pick", "place"]


def place_of(skill: str, env: Any) -> tuple[Any, Any]:
    scene, episode = env.sim.scene, env.start.episode
    target = episode.target(env.goal.object)
    if skill == "place":
        return scene.receptacle(target.goal_receptacle), target.goal_pos
    return moved_receptacle(scene, target.start_receptacle, episode.joints), episode.objects[target.object][0]


@pytest.mark.parametrize("skill", SKILLS)
def test_it_is_the_hands_way_and_half_of_the_bases(skill: str) -> None:
    env: Any = make_env(skill, "train").unwrapped
    far = 0
    for index in range(30):
        env.reset(options={"index": index})
        sim, (receptacle, at) = env.sim, place_of(skill, env)
        point = sim.object_pos(env.goal.object) if skill == "place" else sim.ee_pos
        inside = at if skill == "place" else sim.object_pos(env.goal.object)
        hand = HandPath(receptacle)(point.tolist(), list(inside))
        grid = grid_with_openings(sim.scene, load_grid(sim.scene.seed), env.start.episode.joints)
        sides = working_sides(grid, receptacle, at)
        floor = max(0.0, min(grid.geodesic(tuple(sim.base[:2]), side[:2]) for side in sides) - 0.6)
        expected = max(hand, min(1.5, 3.0 * floor)) + 0.5 * floor
        # The twin counts from the middles of cells (5 cm).
        assert env._state.way_m == pytest.approx(expected, abs=3.5 * 0.05)
        far += expected > hand + 0.2
    assert far > 3
    env.close()


@pytest.mark.parametrize(
    ("skill", "behind"), [("pick", (17, 121, 171, 184, 259, 286)), ("place", (70, 158, 202, 274, 289))]
)
def test_a_base_that_goes_round_is_paid_for_every_step(skill: str, behind: tuple[int, ...]) -> None:
    """Along the shortest way from where it starts, with the arm at rest, nothing is lost in 0.25 m of it, however far
    off that leads the hand, until the base is about where one works: starts with a wall or an open door between."""
    env: Any = make_env(skill, "train").unwrapped
    away = 0
    for index in behind:
        env.reset(options={"index": index})
        sim, (receptacle, at) = env.sim, place_of(skill, env)
        grid = grid_with_openings(sim.scene, load_grid(sim.scene.seed), env.start.episode.joints)
        sides = working_sides(grid, receptacle, at)
        goal = min(sides, key=lambda side: grid.geodesic(tuple(sim.base[:2]), side[:2]))
        path = grid.path(tuple(sim.base[:2]), goal[:2])[::5]
        lefts, hands = [], []
        for here, there in zip(path, path[1:], strict=False):
            if grid.geodesic(tuple(here), goal[:2]) < 1.1:
                break
            sim.place_robot(np.array([*here, math.atan2(*(there - here)[::-1])]), np.array(sim.arm))
            place = sim.ee_pos.tolist()
            lefts.append(env._way(sim, place, list(at)))
            hands.append(math.dist(place, at))
        away += any(later > before + 0.03 for before, later in zip(hands, hands[1:], strict=False))
        assert all(later < before + 0.02 for before, later in zip(lefts, lefts[1:], strict=False))
    assert away > 0
    env.close()


@pytest.mark.parametrize("skill", SKILLS)
def test_a_robot_that_stands_is_paid_for_its_hand_alone(skill: str) -> None:
    env: Any = make_env(skill, "train", base_movement=False).unwrapped
    for index in range(5):
        env.reset(options={"index": index})
        receptacle, at = place_of(skill, env)
        hand = HandPath(receptacle)
        place = [1.0, 2.0, 0.9]
        assert env._way(env.sim, place, list(at)) == hand(place, at)
        assert env.surroundings()[-3:] == [0.0, 0.0, 0.0]
    env.close()
