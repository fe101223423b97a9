"""Record the states in which an agent's chain hands over to its skills (skills/recorded.py)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from eval.evaluate import cached_policies, cached_simulator, failure_of, gather
from hab.actions import Action
from hab.episodes import SCENARIOS, load_scene, make_episode
from hab.layout import SPLIT_SEEDS
from hab.scenario_env import MAX_STEPS
from hab.simulator import SimulationError, Simulator, Snapshot
from planner.agent import Agent, chain_limits, play_episode, seed_draws
from planner.chain import SUCCESS, ChainResult
from skills.recorded import SPLIT, Recorded, fingerprint
from skills.skill import Goal, SkillPolicy

APARTMENTS = len(SPLIT_SEEDS[SPLIT]) // 2
"""Of the split, the first so many are recorded in: the skills' own start states keep the others (hab/sampler.py)."""

ASTRAY_M = 0.3
"""An object farther from where it is believed to be is not recorded as one to pick up."""


@dataclass(frozen=True)
class Played:
    """A recorded episode."""

    calls: list[Recorded]
    success: bool


@dataclass
class _Noting:
    """A skill's policy that notes where its calls begin."""

    skill: str
    policy: SkillPolicy
    note: Callable[[str, Goal, Snapshot], None]

    def reset(self, sim: Simulator, goal: Goal) -> None:
        self.note(self.skill, goal, Snapshot.of(sim))
        self.policy.reset(sim, goal)

    def act(self, sim: Simulator) -> Action:
        return self.policy.act(sim)


def record(
    agent: Agent,
    obs: str | None,
    episodes: int,
    workers: int,
    on_episode: Callable[[Played], None] | None = None,
    failed: bool = False,
) -> tuple[list[Recorded], str]:
    """Play so many training episodes, of each scenario in turn; return the calls of skills in them, or of those that
    `failed` alone, and why it ended early ("": it did not)."""
    played: list[Played] = []
    problem = gather(partial(_play, agent, obs, failed), workers, range(episodes), played, on_episode)
    calls = [call for episode in played for call in episode.calls]
    return sorted(calls, key=lambda call: call.index), problem


def _play(agent: Agent, obs: str | None, failed: bool, number: int) -> Played:
    scenario, calls = SCENARIOS[number % len(SCENARIOS)], list[Recorded | None]()
    index = number % APARTMENTS + len(SPLIT_SEEDS[SPLIT]) * (number // APARTMENTS)
    episode = make_episode(scenario, SPLIT, index)
    apartment, targets = fingerprint(load_scene(episode.scene_seed)), {target.object for target in episode.targets}
    goals = {target.goal_pos for target in episode.targets}
    sim = cached_simulator("mujoco")

    def note(skill: str, goal: Goal, snapshot: Snapshot) -> None:
        # What has been lost on the way cannot be brought anywhere, or be found again where it was.
        if goal.position in goals:
            there = snapshot.held == goal.object
        else:
            there = skill != "pick" or math.dist(sim.object_pos(goal.object), goal.position) < ASTRAY_M
        # Other than the episode's targets are the closed loop's own ways round something.
        fit = there and goal.object in targets
        calls.append(Recorded(skill, scenario, index, goal, snapshot, apartment) if fit else None)

    seed_draws(0, index)
    limits = chain_limits(MAX_STEPS, {})
    result = ChainResult([False])
    try:
        loaded = cached_policies(agent, scenario, obs)
        policies = {skill: _Noting(skill, policy, note) for skill, policy in loaded.items()}
        result = play_episode(sim, episode, agent, policies, limits)
    except SimulationError:
        pass  # what came before it is as good as any
    except Exception as error:
        raise failure_of(scenario, SPLIT, index, error) from error
    if failed:
        of_skills = [row for row in result.trace if row.skill in loaded]
        calls = [call for call, row in zip(calls, of_skills, strict=False) if row.outcome != SUCCESS]
    return Played([call for call in calls if call is not None], result.success)
