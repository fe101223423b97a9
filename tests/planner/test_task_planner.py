"""Plans are valid PDDL, follow the benchmark's fixed order, and carry the right goals."""

from __future__ import annotations

import math

import pytest
from interpreter import World

from hab.episodes import SCENARIOS, Episode, load_scene, make_episode
from hab.openings import handle_at
from hab.scene import Scene
from planner.problem import problem_pddl
from planner.task_planner import domain_pddl, interactions, plan

STEPS = {"tidy_house": 20, "prepare_groceries": 12, "set_table": 12}
FETCH = ["navigate", "pick", "navigate", "place"]


def start(scenario: str, index: int) -> tuple[Episode, Scene]:
    episode = make_episode(scenario, "val", index)
    return episode, load_scene(episode.scene_seed)


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("index", range(3))
@pytest.mark.parametrize("nav_skill", [True, False])
def test_every_step_is_applicable_and_the_goal_is_reached(scenario: str, index: int, nav_skill: bool) -> None:
    episode, scene = start(scenario, index)
    world = World(domain_pddl(nav_skill), problem_pddl(episode, scene))
    assert not world.goal_reached()
    for step in plan(episode, scene, nav_skill):
        world.apply(step.action)
    assert world.goal_reached()


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_number_of_steps_and_interactions(scenario: str) -> None:
    episode, scene = start(scenario, 0)
    steps = plan(episode, scene)
    assert len(steps) == STEPS[scenario]
    assert [s.interaction for s in steps if s.interaction] == interactions(episode)
    assert [s.goal.object for s in steps if s.skill == "pick"] == [t.object for t in episode.targets]


def test_open_receptacles_are_fetched_from_in_benchmark_order() -> None:
    for scenario in ("tidy_house", "prepare_groceries"):
        episode, scene = start(scenario, 0)
        assert [s.skill for s in plan(episode, scene)] == FETCH * len(episode.targets)


def test_set_table_opens_and_drives_again() -> None:
    episode, scene = start("set_table", 0)
    steps = plan(episode, scene)
    assert [s.skill for s in steps] == ["navigate", "open_cabinet", *FETCH, "navigate", "open_fridge", *FETCH]
    to_drawer, open_drawer = steps[:2]
    assert to_drawer.goal == open_drawer.goal
    assert open_drawer.goal.articulation == scene.receptacle(episode.targets[0].start_receptacle).articulation
    assert open_drawer.goal.position == handle_at(scene.articulation(open_drawer.goal.articulation), 0.0)
    assert steps[7].goal.articulation == "fridge"
    # What lies in a drawer has come out with it, as far as that goes; the fridge's content stays.
    before, (dx, dy, dz) = episode.targets[0].start_pos, steps[2].goal.position
    assert steps[2].goal.position == steps[3].goal.position
    assert math.hypot(dx - before[0], dy - before[1]) == pytest.approx(0.5) and dz == before[2]
    assert steps[7].skill == "open_fridge" and steps[9].goal.position == episode.targets[1].start_pos


def test_goals_are_the_objects_starts_and_goals() -> None:
    episode, scene = start("tidy_house", 1)
    for number, target in enumerate(episode.targets):
        to_object, pick, to_goal, place = plan(episode, scene)[4 * number : 4 * number + 4]
        assert to_object.goal.position == pick.goal.position == target.start_pos
        assert to_goal.goal.position == place.goal.position == target.goal_pos
        assert {s.goal.object for s in (to_object, pick, to_goal, place)} == {target.object}


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_nonav_is_the_same_plan_without_navigate(scenario: str) -> None:
    episode, scene = start(scenario, 1)
    kept = [s for s in plan(episode, scene) if s.skill != "navigate"]
    assert plan(episode, scene, nav_skill=False) == kept


def test_the_interpreter_refuses_a_pick_from_a_closed_drawer() -> None:
    episode, scene = start("set_table", 0)
    world = World(domain_pddl(), problem_pddl(episode, scene))
    navigate_to_bowl, pick = plan(episode, scene)[2:4]
    world.apply(navigate_to_bowl.action)
    with pytest.raises(AssertionError, match="precondition"):
        world.apply(pick.action)
