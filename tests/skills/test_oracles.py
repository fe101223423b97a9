"""The oracle skills do their jobs on train episodes, through actions alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from hab.actions import ARM, BASE, GRIP, SIZES, STOP, stop_called
from hab.arm import forward, resting_near, solve
from hab.episodes import SCENARIOS, make_episode
from hab.measures import NAV_ANGLE_RAD, NAV_DISTANCE_M, heading_error, planar_distance
from hab.mujoco.simulator import MujocoSimulator
from hab.robot import REST_Q
from planner.agent import Agent, chain_limits, load_policies, play_episode, play_skill
from skills import TASKS, make_env, task_class
from skills.oracle import make_oracle
from skills.skill import Goal

LIMITS = chain_limits(7500, {})
SKILLS = [skill for skill in TASKS if task_class(skill).oracle]


def successes(scenario: str, indices: range) -> int:
    sim = MujocoSimulator()
    policies = load_policies(Agent(), scenario)
    return sum(
        play_episode(sim, make_episode(scenario, "train", index), Agent(), policies, LIMITS).success
        for index in indices
    )


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_most_scenarios_are_carried_out(scenario: str) -> None:
    assert successes(scenario, range(4)) >= 3


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "least"), [("tidy_house", 35), ("prepare_groceries", 33), ("set_table", 35)])
def test_success_rates(scenario: str, least: int) -> None:
    assert successes(scenario, range(40)) >= least


@pytest.mark.parametrize("skill", SKILLS)
def test_each_skill_does_its_own_task(skill: str) -> None:
    won = 0
    for index in range(5):
        env = make_env(skill, split="train", index=index)
        env.reset(seed=0)
        won += play_skill(skill, env, make_oracle(skill, True)).outcome == "success"
    assert won >= 3


@pytest.mark.parametrize(
    ("skill", "base_movement", "index"),
    [
        # A tall can hangs lower than the counter that the arm brings it to rest over.
        ("pick", False, 3017),
        ("pick", False, 3105),
        # A table right behind the base: it cannot back out with the door; the folded hand has to get round its edge.
        ("open_fridge", True, 3028),
        ("open_fridge", True, 3094),
        # The arm comes to the end of what a flat hand reaches; its shoulder meets the head beside it.
        ("open_fridge", False, 3041),
        ("open_fridge", False, 3059),
    ],
)
def test_they_get_out_of_where_they_were_stuck(skill: str, base_movement: bool, index: int) -> None:
    env = make_env(skill, split="train", base_movement=base_movement, index=index)
    env.reset(seed=0)
    env.unwrapped.sim.episode = replace(env.unwrapped.sim.episode, targets=())  # type: ignore[attr-defined]
    assert play_skill(skill, env, make_oracle(skill, base_movement)).outcome == "success"


def test_an_arm_that_a_wall_has_pushed_aside_gets_free() -> None:
    """Asked anew at each step: what frees it does not depend on what it remembers, so it can be learned from."""
    sim = MujocoSimulator()
    episode = make_episode("tidy_house", "train", 24)
    sim.reset(episode)
    sim.place_robot(np.array([-2.039, 4.241, -1.43]))
    for _ in range(90):
        sim.step({BASE: np.array([0.0, -1.0], np.float32)})
    assert sim.arm[0] - REST_Q[0] > 1.5  # the wall's end keeps it behind
    goal = Goal(episode.targets[0].start_pos, episode.targets[0].object)
    for _ in range(500):
        oracle = make_oracle("navigate", base_movement=True)
        oracle.reset(sim, goal)
        action = oracle.act(sim)
        if stop_called(action):
            break
        sim.step({BASE: action[BASE]})
    assert abs(sim.arm[0] - REST_Q[0]) < 0.1
    assert planar_distance(sim, goal.position) < NAV_DISTANCE_M
    assert abs(heading_error(sim, goal.position)) < NAV_ANGLE_RAD


@pytest.mark.parametrize("skill", ["pick", "place"])
def test_they_go_round_with_an_arm_that_is_not_at_rest(skill: str) -> None:
    """Nothing has pushed it aside: it is where a policy that they take over from has brought it."""
    sim = MujocoSimulator()
    episode = make_episode("tidy_house", "train", 24)
    sim.reset(episode)
    sim.place_robot(np.array(episode.robot), REST_Q + np.eye(7)[0])
    target = episode.targets[0]
    if skill == "place":
        sim.hold(target.object)
    oracle = make_oracle(skill, base_movement=True)
    oracle.reset(sim, Goal(target.goal_pos if skill == "place" else target.start_pos, target.object))
    for _ in range(150):
        sim.step(oracle.act(sim))
    assert sim.path_m > 0.3


@pytest.mark.parametrize("base_movement", [True, False])
def test_a_door_that_stands_open_is_let_go_of(base_movement: bool) -> None:
    """Taken over at any time, Open Fridge ends: hand on the handle of an open door, or on its way to rest."""
    env: Any = make_env("open_fridge", split="train", base_movement=base_movement, index=1).unwrapped
    env.reset(seed=0)
    oracle, taken = make_oracle("open_fridge", base_movement), 0
    oracle.reset(env.sim, env.goal)
    for _ in range(600):
        first = taken == 0 and env.sim.joint_pos(env.goal.articulation) > 1.2
        if first or (0 < taken < 3 and env.sim.steps % 20 == 0):
            taken += 1
            oracle = make_oracle("open_fridge", base_movement)
            oracle.reset(env.sim, env.goal)
        wanted = oracle.act(env.sim)
        _, _, over, _, info = env.step({part: wanted[part] for part in env.action_space})
        if over:
            break
    assert taken > 1 and info["success"]


@pytest.mark.parametrize("skill", [skill for skill in SKILLS if skill != "navigate"])
def test_they_can_do_without_the_base(skill: str) -> None:
    won = 0
    for index in range(6):
        env = make_env(skill, split="train", base_movement=False, index=index)
        env.reset(seed=0)
        start = env.unwrapped.sim.base  # type: ignore[attr-defined]
        won += play_skill(skill, env, make_oracle(skill, False)).outcome == "success"
        # Its drives hold a velocity, not a place: the arm's pushes may shift the base a little, but it never drives.
        assert np.hypot(*(env.unwrapped.sim.base - start)[:2]) < 0.2  # type: ignore[attr-defined]
    assert won >= 5


@pytest.mark.parametrize("lost_rad", [0.8, 1.0, 1.13])
def test_a_door_that_slips_off_the_hand_is_opened_all_the_same(lost_rad: float) -> None:
    env = make_env("open_fridge", split="train", index=1)
    env.reset(seed=0)
    task: Any = env.unwrapped
    sim, goal = task.sim, task.goal
    oracle = make_oracle("open_fridge", True)
    oracle.reset(sim, goal)
    while sim.held != goal.articulation or sim.joint_pos(goal.articulation) < lost_rad:
        assert task.control_step(oracle.act(sim), {}) == (False, "")
    sim.step({**oracle.act(sim), GRIP: np.array([-1.0], np.float32)})
    assert sim.held == ""
    oracle.reset(sim, goal)
    success, reason = False, ""
    while not (success or reason):
        success, reason = task.control_step(oracle.act(sim), {})
        assert sim.held == "", "drawn by its handle again"
    assert success


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_acting_writes_no_state_and_stays_in_the_action_space(scenario: str) -> None:
    sim = MujocoSimulator()
    policies = load_policies(Agent(), scenario)
    checked = 0

    class Watched:
        def __init__(self, policy) -> None:
            self.policy = policy

        def reset(self, sim, goal) -> None:
            before = sim.state()
            self.policy.reset(sim, goal)
            np.testing.assert_array_equal(sim.state(), before)

        def act(self, sim):
            nonlocal checked
            before = sim.state()
            action = self.policy.act(sim)
            np.testing.assert_array_equal(sim.state(), before)
            assert set(action) <= {ARM, GRIP, BASE, STOP}
            for part, values in action.items():
                assert values.shape == (SIZES[part],) and np.abs(values).max() <= 1.0 + 1e-6
            checked += 1
            return action

    watched = {name: Watched(policy) for name, policy in policies.items()}
    result = play_episode(sim, make_episode(scenario, "train", 1), Agent(), watched, LIMITS)
    assert checked > 300 and result.steps >= checked


@pytest.mark.parametrize(("scenario", "index"), [("tidy_house", 2), ("set_table", 3)])
def test_replaying_an_oracles_actions_reproduces_the_state(scenario: str, index: int) -> None:
    sim, episode = MujocoSimulator(), make_episode(scenario, "train", index)
    actions, states = [], []

    def watch(stage, action, interactions) -> None:
        actions.append(action)
        states.append(sim.state())

    play_episode(sim, episode, Agent(), load_policies(Agent(), scenario), LIMITS, watch)
    assert any(len(a) != len(b) for a, b in zip(states, states[1:], strict=False)), "nothing was ever held"
    sim.reset(make_episode("prepare_groceries", "train", index))
    sim.reset(episode)
    for action, state in zip(actions, states, strict=True):
        sim.step(action)
        np.testing.assert_array_equal(sim.state(), state)


def test_the_resting_poses_count_as_at_rest() -> None:
    for q in (np.zeros(7), np.array([0.3, 1.0, 0.0, 1.2, 0.0, 0.5, 0.0])):
        rest = resting_near(q)
        pose = forward(rest)
        solved = solve(pose)
        assert solved is not None
        np.testing.assert_allclose(solved, rest, atol=1e-9)
        assert np.hypot(pose.radius + 0.0326 - 0.5, pose.z - 1.0) < 0.15
