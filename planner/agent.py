"""The TP-SRL agent: a task planner over skills, and how to play one episode with it."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from hab.actions import SIZES, Action
from hab.episodes import Episode, load_scene, make_episode
from hab.measures import planar_distance
from hab.observation_sets import DEPTH
from hab.scene import Scene
from hab.simulator import Simulator
from planner.chain import ChainResult, Limits, OnCall, OnStep, Skills, TraceRow, run_chain
from planner.closed_loop import ClosedLoop
from planner.task_planner import PLANNED, PlanStep, plan, whole_steps
from planner.zoo import CONFIG, WEIGHTS, ZOO, Entry, ZooError, entries, find, job_name
from skills import TASKS, always_drives, task_class
from skills.oracle import make_oracle
from skills.skill import SkillPolicy


class AgentError(ValueError):
    """The agent that was asked for cannot be had; the message says what to do."""


@dataclass(frozen=True)
class Agent:
    """Which skills, and the paper's switches (docs/hab.md, "Planning")."""

    skills: str = "oracle"
    """"oracle", "zoo" (the packaged policies) or a folder of training runs; for `tpsrl watch` also "teleoperation"."""
    skill_nav: bool = True
    """Manipulation skills may drive the base."""
    nav_skill: bool = True
    """The plan contains Navigate; without it (NoNav) the other skills must drive."""
    stop_mask: bool = True
    """Navigate's stop is ignored while its target is more than 2 m away."""
    monolithic: bool = False
    """One policy does it all, without skills and without a plan (skills/rearrange.py)."""
    replan: str = ""
    """Closed loop (planner/closed_loop.py) by one of `planner.state.STATES`; "": the paper's chain, planned once."""


@lru_cache(maxsize=16)
def skills_needed(name: str, agent: Agent) -> tuple[str, ...]:
    """Return the skills that `name`, a scenario or a skill, is played with."""
    if name in TASKS:
        return (name,)
    if agent.monolithic:
        return ("rearrange",)
    # What its objects are in is the same in all its episodes. A door that is open at the start may be pushed shut.
    episode = make_episode(name, "train", 0)
    scene = load_scene(episode.scene_seed)
    places = [scene.receptacle(at) for t in episode.targets for at in (t.start_receptacle, t.goal_receptacle)]
    doors = [place.articulation for place in places if place.articulation]
    opening = {f"open_{scene.articulation(d).kind}": None for d in doors if agent.replan or d not in episode.joints}
    return (*(("navigate",) if agent.nav_skill else ()), *opening, "pick", "place")


def check_agent(agent: Agent, name: str, obs: str | None) -> None:
    """Raise `AgentError` if the agent lacks a skill to play `name`, a scenario or a skill."""
    if agent.skills == "oracle":
        for skill in skills_needed(name, agent):
            if task_class(skill).oracle is None:
                raise AgentError(f"{skill} has no oracle; name zoo or a folder of runs")
        return
    _entries(agent, name, obs)


def load_policies(agent: Agent, name: str, obs: str | None = None) -> dict[str, SkillPolicy]:
    """Return a policy for every skill that `name`, a scenario or a skill, needs, one that sees `obs` if that is given.
    Raises `AgentError`."""
    if agent.skills == "oracle":
        return {skill: make_oracle(skill, agent.skill_nav) for skill in skills_needed(name, agent)}
    found = _entries(agent, name, obs)
    import torch  # slow to import, and oracles do without

    from skills.trained import TrainedPolicy, WeightsError

    torch.set_num_threads(1)  # for one row, more only get in each other's way
    policies: dict[str, SkillPolicy] = {}
    for skill, entry in found.items():
        config = entry.config
        try:
            policies[skill] = TrainedPolicy(
                skill,
                config.obs,
                config.nav,
                config.policy,
                config.action_repeat,
                entry.folder / WEIGHTS,
                config.pql.learner if config.algorithm == "pql" else "",
            )
        except (WeightsError, OSError) as error:
            raise AgentError(str(error)) from error
    return policies


def weights_of(agent: Agent, name: str, obs: str | None = None) -> dict[str, Path]:
    """Return the weights that `name` is played with, by the job that they do ("pick_nav"); none for oracles.

    Raises `AgentError`.
    """
    if agent.skills == "oracle":
        return {}
    return {job_name(entry.config): entry.folder / WEIGHTS for entry in _entries(agent, name, obs).values()}


def sees_depth(agent: Agent, name: str, obs: str | None = None) -> bool:
    """Whether any policy that `name` is played with reads images. Raises `AgentError`."""
    return agent.skills != "oracle" and any(e.config.obs == DEPTH for e in _entries(agent, name, obs).values())


def _entries(agent: Agent, name: str, obs: str | None) -> dict[str, Entry]:
    """Return the trained policy of every skill that `name` needs. Raises `AgentError`."""
    folder = _folder(agent)
    if (folder / CONFIG).is_file():
        raise AgentError(f"{agent.skills!r} is a run itself; give the folder that it lies in, {str(folder.parent)!r}")
    try:
        there = entries(folder)
    except ZooError as error:
        raise AgentError(str(error)) from error
    needed = skills_needed(name, agent)
    found = {skill: entry for skill in needed if (entry := find(there, skill, agent.skill_nav, obs))}
    missing = [skill for skill in needed if skill not in found]
    if missing:
        variant = (
            "" if all(map(always_drives, missing)) else f" {'with' if agent.skill_nav else 'without'} base movement"
        )
        seeing = f" for {obs} observations" if obs else ""
        raise AgentError(
            f"{agent.skills!r} holds no policy of {', '.join(missing)}{variant}{seeing}: train it with "
            "tpsrl train-skill, or use --skills oracle"
        )
    return found


def _folder(agent: Agent) -> Path:
    folder = ZOO if agent.skills == "zoo" else Path(agent.skills)
    if not folder.is_dir():
        raise AgentError(f"no skills in {agent.skills!r}: no such folder; use zoo, oracle or a folder of runs")
    return folder


def seed_draws(seed: int, index: int) -> None:
    """Seed whatever an agent draws while it plays episode `index`: the same in an evaluation and in its video."""
    random.seed(f"{seed} {index}")
    np.random.seed([seed, index])


def chain_limits(episode_steps: int, skill_steps: Mapping[str, int | None]) -> Limits:
    """Fill in the skills' own time limits (control steps) where none is given."""
    return Limits(episode_steps, {s: skill_steps.get(s) or task_class(s).chain_spec().max_steps for s in PLANNED})


def steps_of(agent: Agent, episode: Episode, scene: Scene) -> list[PlanStep]:
    """Return what an agent is to do in an episode: its planner's plan, or one object after the other."""
    return whole_steps(episode) if agent.monolithic else plan(episode, scene, agent.nav_skill)


def skills_of(agent: Agent, policies: Mapping[str, SkillPolicy]) -> Skills:
    """Return what plays the calls of a plan for an agent."""
    specs = {skill: task_class(skill).chain_spec() for skill in PLANNED}
    return Skills(policies, specs, agent.skill_nav, agent.skills in ("oracle", "teleoperation"))


def play_episode(
    sim: Simulator,
    episode: Episode,
    agent: Agent,
    policies: Mapping[str, SkillPolicy],
    limits: Limits,
    on_step: OnStep | None = None,
    on_call: OnCall | None = None,
) -> ChainResult:
    """Lay an episode out, plan it and play the plan."""
    sim.reset(episode)
    skills = skills_of(agent, policies)
    if agent.replan:
        return ClosedLoop(sim, episode, skills, limits, agent.replan, agent.stop_mask, on_step, on_call).run()
    steps = steps_of(agent, episode, sim.scene)
    return run_chain(sim, episode, steps, skills, limits, agent.stop_mask, on_step, on_call)


def play_skill(
    skill: str,
    env: gymnasium.Env[Any, Any],
    policy: SkillPolicy,
    on_step: Callable[[Action], None] | None = None,
) -> TraceRow:
    """Play one start state of a skill's own task; `env` was just reset."""
    task: Any = env.unwrapped
    policy.reset(task.sim, task.goal)
    spaces = env.action_space.spaces  # type: ignore[attr-defined]
    steps, over, info = 0, False, dict[str, Any]()
    start_m = planar_distance(task.sim, task.goal.position)
    while not over:
        wanted = policy.act(task.sim)
        action = {part: wanted.get(part, np.zeros(SIZES[part], np.float32)) for part in spaces}
        _, _, terminated, truncated, info = env.step(action)
        steps, over = steps + 1, terminated or truncated
        if on_step is not None:
            on_step(action)
    reason = "" if info["success"] else str(info.get("reason") or "timeout")
    outcome = "success" if info["success"] else "timeout" if reason == "timeout" else "failed"
    return TraceRow(0, skill, "", "", 0, steps, outcome, reason, round(start_m, 3), round(task.sim.path_m, 3))
