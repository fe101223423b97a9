"""The task without skills: the skills' oracles, one after the other, do it; what they are told and rewarded for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hab.measures import heading_error, planar_distance
from skills import make_env, task_class
from skills.oracle import make_oracle
from skills.skill import Goal, Progress


def play(env: Any, skill: str, goal: Goal, infos: list[dict[str, Any]]) -> bool:
    """Play an oracle until its skill ends; return whether the task is over."""
    oracle, progress = make_oracle(skill, True), Progress()
    oracle.reset(env.sim, goal)
    for _ in range(750):
        wanted = oracle.act(env.sim)
        action = {part: wanted.get(part, np.zeros(box.shape)) for part, box in env.action_space.items()}
        if skill == "navigate":
            action |= {"grip_action": np.ones(1) if env.sim.held else -np.ones(1)}
        _, _, terminated, truncated, info = env.step(action)
        infos.append(info)
        if terminated or truncated:
            return True
        if task_class(skill).ended(env.sim, goal, wanted, progress):
            return False
    return False


def test_the_skills_oracles_do_it_together() -> None:
    won = 0
    for index in range(6):
        env: Any = make_env("rearrange", "train", index=index).unwrapped
        env.reset(seed=0)
        goal, began = env.goal, env._state.floor_m
        first, then = Goal(goal.position, goal.object), Goal(goal.then, goal.object)
        infos: list[dict[str, Any]] = []
        for skill, at in (("navigate", first), ("pick", first), ("navigate", then), ("place", then)):
            if play(env, skill, at, infos):
                break
        assert infos[-1]["success"] == (env.sim.held == "" and infos[-1]["object_to_goal_distance"] < 0.15)
        if infos[-1]["success"]:
            won += 1
            paid = {name: sum(i["reward_terms"].get(name, 0.0) for i in infos) for name in infos[-1]["reward_terms"]}
            assert (paid["pick"], paid["place"], paid["success"]) == (2.0, 5.0, 10.0)
            assert paid["distance"] > began - 1.0 and paid["reach"] > 1.0 and paid["wrong_object"] == 0.0
        env.close()
    assert won >= 4


def test_it_is_told_of_the_goal_once_the_object_is_in_hand() -> None:
    env: Any = make_env("rearrange", index=3).unwrapped
    told = []
    for held in (False, True):
        env.reset(seed=0)
        if held:
            env.sim.hold(env.goal.object)
        told.append(env.observation()["goal_to_agent_gps_compass"])
    for seen, place in zip(told, (env.goal.position, env.goal.then), strict=True):
        assert seen[0] == pytest.approx(planar_distance(env.sim, place), abs=1e-5)
        assert seen[1] == pytest.approx(-heading_error(env.sim, place), abs=1e-5)


def test_earlier_objects_are_where_they_belong_and_a_wrong_one_ends_it() -> None:
    numbers = set()
    for index in range(12):
        env: Any = make_env("rearrange", index=index).unwrapped
        env.reset(seed=0)
        targets = env.start.episode.targets
        number = next(i for i, target in enumerate(targets) if target.object == env.goal.object)
        numbers.add(number)
        for i, target in enumerate(targets):
            place = target.goal_pos if i < number else target.start_pos
            assert env.sim.object_pos(target.object) == pytest.approx(place, abs=0.02)
        other = next(target.object for target in targets if target.object != env.goal.object)
        env.sim.hold(other)
        if env.sim.collides():  # the seal breaks
            continue
        _, _, terminated, _, info = env.step({"grip_action": np.ones(1)})
        assert terminated and info["reason"] == "wrong object" and not info["success"]
    assert len(numbers) > 2
