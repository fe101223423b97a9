"""Record the states in which an agent's chain, or closed loop, hands over to its skills (skills/recorded.py)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from eval.evaluate import cached_policies, cached_simulator, failure_of, gather
from hab.actions import Action
from hab.episodes import SCENARIOS, Episode, load_scene, make_episode
from hab.layout import SPLIT_SEEDS
from hab.scenario_env import MAX_STEPS
from hab.simulator import SimulationError, Simulator, Snapshot
from planner.agent import Agent, chain_limits, play_episode, seed_draws
from planner.task_planner import PlanStep
from skills.fallen import fallen, shoved_aside
from skills.pick import GRASP_M
from skills.recorded import SPLIT, Recorded, fingerprint
from skills.skill import Goal, SkillPolicy

APARTMENTS = len(SPLIT_SEEDS[SPLIT]) // 2
"""Of the split, the first so many are recorded in: the skills' own start states keep the others (hab/sampler.py)."""
ASTRAY_M = GRASP_M
"""Where an object lies farther from where a closed loop believes it to, nobody could take it."""


@dataclass(frozen=True)
class Played:
    """A recorded episode."""

    calls: list[Recorded]
    success: bool


@dataclass
class _Noting:
    """A skill's policy that says when it is told a goal: Navigate more than once in a call (planner/approach.py)."""

    skill: str
    policy: SkillPolicy
    note: Callable[[str, Goal, Simulator], None]

    def reset(self, sim: Simulator, goal: Goal) -> None:
        self.note(self.skill, goal, sim)
        self.policy.reset(sim, goal)

    def tell(self, goal: Goal) -> None:
        self.policy.tell(goal)

    def act(self, sim: Simulator) -> Action:
        return self.policy.act(sim)


def record(
    agent: Agent,
    obs: str | None,
    episodes: int,
    workers: int,
    on_episode: Callable[[Played], None] | None = None,
    on_the_floor: float = 0.0,
    shoved: float = 0.0,
) -> tuple[list[Recorded], str]:
    """Play so many training episodes, of each scenario in turn; return the calls of skills in them, and why it ended
    early ("": it did not).

    on_the_floor, shoved: so large shares of Pick's calls are there a second time, with the object on the floor, or
    shoved aside or knocked over.
    """
    played: list[Played] = []
    problem = gather(partial(_play, agent, obs, on_the_floor, shoved), workers, range(episodes), played, on_episode)
    calls = [call for episode in played for call in episode.calls]
    return sorted(calls, key=lambda call: call.index), problem


def _play(agent: Agent, obs: str | None, on_the_floor: float, shoved: float, number: int) -> Played:
    scenario, calls, success = SCENARIOS[number % len(SCENARIOS)], list[Recorded](), False
    index = number % APARTMENTS + len(SPLIT_SEEDS[SPLIT]) * (number // APARTMENTS)
    episode = make_episode(scenario, SPLIT, index)
    apartment = fingerprint(load_scene(episode.scene_seed))

    called: list[PlanStep] = []
    """The call that begins, until its policy is first told a goal."""

    def on_call(_: str, step: PlanStep) -> None:
        called[:] = [step]

    def note(skill: str, goal: Goal, sim: Simulator) -> None:
        if called:
            asked = replace(called.pop().goal, taken=goal.taken)
            if _can_be_done(sim, episode, asked):
                calls.append(Recorded(skill, scenario, index, asked, Snapshot.of(sim), apartment))

    seed_draws(0, index)
    limits = chain_limits(MAX_STEPS, {})
    try:
        loaded = cached_policies(agent, scenario, obs)
        policies = {skill: _Noting(skill, policy, note) for skill, policy in loaded.items()}
        sim = cached_simulator("mujoco", False)
        success = play_episode(sim, episode, agent, policies, limits, on_call=on_call).success
    except SimulationError:
        pass  # what came before it is as good as any
    except Exception as error:
        raise failure_of(scenario, SPLIT, index, error) from error
    rng = np.random.default_rng([index, number])
    picks = [call for call in calls if call.skill == "pick"]
    for elsewhere, share in ((fallen, on_the_floor), (shoved_aside, shoved)):
        again = [call for call in picks if rng.random() < share]
        calls += filter(None, (elsewhere(sim, call, rng) for call in again))
    return Played(calls, success)


def _can_be_done(sim: Simulator, episode: Episode, goal: Goal) -> bool:
    """Whether a call is about one of the episode's objects, and that is in hand to be brought to its goal, or lies
    where it is sought, or behind a door or in a drawer. What has been lost on the way is not; and a closed loop asks
    for other things, too."""
    if goal.object not in {target.object for target in episode.targets}:
        return False
    to_goal = goal.position == episode.target(goal.object).goal_pos
    if sim.held or to_goal:
        return to_goal and sim.held == goal.object
    return goal.articulation != "" or math.dist(goal.position, sim.object_pos(goal.object).tolist()) < ASTRAY_M
