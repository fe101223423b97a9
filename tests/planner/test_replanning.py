"""Plans from any state of the closed loop's domain: valid by the independent interpreter, and the cheapest."""

from __future__ import annotations

import os
import random
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from interpreter import World

from hab.episodes import SCENARIOS, load_scene, make_episode
from planner.problem import ROBOT, Atom, domain_text, goal_name, initial_atoms, object_name, problem_pddl
from planner.replanning import DOMAIN, DOMAIN_FILE, Action, Replanner, _Search

few = settings(max_examples=25, deadline=None, derandomize=True)


@cache
def planner_of(scenario: str, index: int) -> Replanner:
    episode = make_episode(scenario, "train", index)
    return Replanner(episode, load_scene(episode.scene_seed))


def world_of(planner: Replanner, atoms: frozenset[Atom]) -> World:
    """The same state for the interpreter."""
    world = World(domain_text(DOMAIN_FILE), problem_pddl(planner.episode, planner.scene, DOMAIN))
    belongs = {("belongs", object_name(t), goal_name(t)) for t in planner.episode.targets}
    world.state = set(atoms) | belongs
    return world


def goals_of(planner: Replanner) -> list[Atom]:
    places = [(object_name(t), goal_name(t)) for t in planner.episode.targets]
    done: list[Atom] = [(fact, *at) for fact in ("object_at", "confirmed") for at in places]
    return [*done, ("not_holding", ROBOT)]


def wander(planner: Replanner, steps: int, seed: int) -> frozenset[Atom]:
    """A state that so many random actions lead to, with something gone wrong now and then."""
    rng, atoms = random.Random(seed), frozenset(initial_atoms(planner.episode, planner.scene))
    for _ in range(steps):
        choices = list(planner.actions(atoms))
        if not choices:
            break
        atoms = planner.expected(atoms, rng.choice(choices))
        wrong: list[Atom] = [("stuck", ROBOT), ("arm_out", ROBOT)]
        wrong += [("hard", name) for name in (*map(object_name, planner.episode.targets), *planner.containers)]
        if rng.random() < 0.2:
            atoms |= {rng.choice(wrong)}
        if rng.random() < 0.2:
            fell_shut = [atom for atom in sorted(atoms) if atom[0].startswith("opened") and rng.random() < 0.5]
            atoms = (atoms - {*fell_shut}) | {(f[0].replace("opened", "closed"), f[1]) for f in fell_shut}
        if rng.random() < 0.2:
            atoms = frozenset(atom for atom in atoms if atom[0] != "confirmed")
    return frozenset(atom for atom in atoms if atom[0] != "was_at")


def plan_from(planner: Replanner, atoms: frozenset[Atom]) -> list[Action] | None:
    where = {object_name(t): t.start_pos for t in planner.episode.targets}
    return planner.plan(atoms, where, planner.episode.robot[:2], goals_of(planner))


@few
@given(st.sampled_from(SCENARIOS), st.integers(0, 2), st.integers(0, 25), st.integers(0, 10**6))
def test_any_reachable_state_has_a_valid_plan(scenario: str, index: int, steps: int, seed: int) -> None:
    planner = planner_of(scenario, index)
    atoms = wander(planner, steps, seed)
    plan = plan_from(planner, atoms)
    assert plan is not None
    world = world_of(planner, atoms)
    for action in plan:
        world.apply(str(action))
    assert set(goals_of(planner)) <= world.state


@few
@given(
    st.sampled_from([("prepare_groceries", 0), ("prepare_groceries", 1), ("prepare_groceries", 2), ("set_table", 31)]),
    st.integers(0, 15),
    st.integers(0, 10**6),
)
def test_plans_are_the_cheapest(episode: tuple[str, int], steps: int, seed: int) -> None:
    """Against the same search without an estimate of what is left (Dijkstra's), also where calls have failed, or (the
    last episode) an open door is in the way."""
    planner = planner_of(*episode)
    atoms = wander(planner, steps, seed)
    planner.failures.clear()
    planner.failures[object_name(planner.episode.targets[seed % 2])] = seed % 4
    found = plan_from(planner, atoms)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_Search, "least", lambda self, state: 0.0)
        reference = plan_from(planner, atoms)
    assert found is not None and reference is not None
    assert cost_of(planner, atoms, found) == pytest.approx(cost_of(planner, atoms, reference))
    planner.failures.clear()


def cost_of(planner: Replanner, atoms: frozenset[Atom], plan: list[Action]) -> float:
    from pddlpy.planning import State

    where = {object_name(t): t.start_pos for t in planner.episode.targets}
    search = _Search(planner, frozenset(goals_of(planner)), {**planner._places, **where}, planner.episode.robot[:2])
    total = 0.0
    for action in plan:
        total += search.cost(action, State(atoms))
        atoms = planner.expected(atoms, action)
    return total


HASHED = """
from hab.episodes import load_scene, make_episode
from planner.problem import ROBOT, goal_name, initial_atoms, object_name
from planner.replanning import Replanner
for index in range(3):
    episode = make_episode("prepare_groceries", "train", index)
    atoms = {(a[0].replace("opened", "closed"), *a[1:]) for a in initial_atoms(episode, load_scene(episode.scene_seed))}
    planner = Replanner(episode, load_scene(episode.scene_seed))
    where = {object_name(t): t.start_pos for t in episode.targets}
    goals = [("object_at", object_name(t), goal_name(t)) for t in episode.targets]
    print(*planner.plan(atoms, where, episode.robot[:2], [*goals, ("not_holding", ROBOT)]))
"""


def test_plans_do_not_hang_on_the_processs_hash_seed() -> None:
    """With the fridge shut: it may be opened for any of the things in it."""
    root = Path(__file__).parents[2]
    told = [
        subprocess.run(
            [sys.executable, "-c", HASHED], env={**os.environ, "PYTHONHASHSEED": seed}, cwd=root,
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2", "3")
    ]  # fmt: skip
    assert "open_fridge" in told[0] and told[0] == told[1] == told[2]


def test_what_failed_is_put_off() -> None:
    planner = Replanner(
        make_episode("tidy_house", "train", 0), load_scene(make_episode("tidy_house", "train", 0).scene_seed)
    )
    atoms = frozenset(initial_atoms(planner.episode, planner.scene))
    first = next(a.arguments[0] for a in plan_from(planner, atoms) or [] if a.name == "pick")
    planner.failures[first] = 2
    picked = [a.arguments[0] for a in plan_from(planner, atoms) or [] if a.name == "pick"]
    assert picked[-1] == first and len(picked) == 5


def test_what_is_hard_is_gone_round_to_and_a_robot_that_is_stuck_backs_off() -> None:
    planner = planner_of("tidy_house", 1)
    target = object_name(planner.episode.targets[0])
    atoms = frozenset([*initial_atoms(planner.episode, planner.scene), ("hard", target), ("stuck", ROBOT)])
    plan = plan_from(planner, atoms) or []
    names = [a.name for a in plan]
    assert names[0] == "back_off"
    assert [a.arguments[0] for a in plan if a.name == "go_round"] == [target]


def test_what_does_not_open_is_gone_round_to() -> None:
    planner = planner_of("set_table", 0)
    hard: list[Atom] = [("hard", container) for container in planner.containers]
    plan = plan_from(planner, frozenset([*initial_atoms(planner.episode, planner.scene), *hard])) or []
    for container in planner.containers:
        steps = [a.name for a in plan if a.arguments[0] == container]
        assert steps[0] == "go_round" and "nav_to_receptacle" in steps[1:]


@pytest.mark.parametrize("nearer", ["drawer", "fridge"])
def test_a_drawer_behind_the_fridges_door_is_opened_first(nearer: str) -> None:
    """Whatever the robot is nearer to; where the door is open already it is opened all the same."""
    planner = next(p for p in (planner_of("set_table", i) for i in range(60)) if p.obstructing)
    assert {("fridge" in pair, pair[::-1] in planner.obstructing) for pair in planner.obstructing} == {(True, True)}
    drawer = next(name for name in planner.containers if name != "fridge")
    at = planner.place_of(drawer if nearer == "drawer" else "fridge")[:2]
    where = {object_name(t): t.start_pos for t in planner.episode.targets}
    atoms = frozenset(initial_atoms(planner.episode, planner.scene))
    plan = planner.plan(atoms, where, at, goals_of(planner)) or []
    assert [a.name for a in plan if a.name.startswith("open")] == ["open_cab", "open_fridge"]
    before = (atoms - {("closed_fridge", "fridge")}) | {("opened_fridge", "fridge")}
    plan = planner.plan(before, where, at, goals_of(planner)) or []
    assert [a.name for a in plan if a.name.startswith("open")] == ["open_cab"]


def test_an_arm_that_is_not_quite_at_rest_works_where_the_robot_stands() -> None:
    """To bring it to rest the base backs away: the robot would drive there again, and lean on the same thing."""
    planner = planner_of("tidy_house", 1)
    target = object_name(planner.episode.targets[0])
    before: list[Atom] = [("robot_at", target, ROBOT), ("arm_out", ROBOT)]
    plan = plan_from(planner, frozenset([*initial_atoms(planner.episode, planner.scene), *before])) or []
    assert [a.name for a in plan[:2]] == ["pick", "tuck"]


def test_with_a_full_hand_before_a_shut_door_the_object_is_put_back_first() -> None:
    planner = next(p for p in (planner_of("prepare_groceries", i) for i in range(3)) if p.containers)
    target = next(t for t in planner.episode.targets if planner.scene.receptacle(t.goal_receptacle).articulation)
    name, fridge = object_name(target), planner.scene.receptacle(target.goal_receptacle).articulation
    gone = {("not_holding", ROBOT), ("opened_fridge", fridge)}
    now: list[Atom] = [("holding", name, ROBOT), ("closed_fridge", fridge)]
    plan = plan_from(planner, (frozenset(initial_atoms(planner.episode, planner.scene)) - gone) | {*now}) or []
    about = [a.name for a in plan if name in a.arguments and a.name != "nav" or a.name == "open_fridge"]
    assert about.index("put_back") < about.index("open_fridge") < about.index("pick") < about.index("place")


def test_what_has_been_seen_on_the_way_can_still_be_looked_after() -> None:
    """A plan goes on although more has been confirmed meanwhile than it had expected."""
    planner = planner_of("tidy_house", 1)
    at = object_name(planner.episode.targets[0]), goal_name(planner.episode.targets[0])
    atoms = {*initial_atoms(planner.episode, planner.scene), ("object_at", *at), ("robot_at", at[1], ROBOT)}
    for known in (atoms, atoms | {("confirmed", *at)}):
        assert ("confirmed", *at) in planner.expected(known, Action("look", (*at, ROBOT)))


def test_without_the_object_there_is_no_plan() -> None:
    planner = planner_of("tidy_house", 1)
    lost: Atom = ("lost", object_name(planner.episode.targets[2]))
    assert plan_from(planner, frozenset([*initial_atoms(planner.episode, planner.scene), lost])) is None
