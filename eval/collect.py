"""Episodes of an agent to take away: played in parallel, kept one a file, and made into a dataset from these files.

The files are what a collection that was interrupted, or that gets more episodes, goes on from.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np

from eval.evaluate import UNSTABLE, Request, cached_policies, cached_simulator, failure_of, gather
from eval.records import RecordsError, check_settings
from hab.actions import SIZES
from hab.episodes import SCENARIOS, make_episode
from hab.observation_sets import LASER
from hab.simulator import SimulationError
from planner.agent import chain_limits, play_episode, play_skill, seed_draws, weights_of
from planner.chain import came_to
from planner.task_planner import PlanStep
from planner.trajectory import Log, Played, Told, environment, replay, told_of

EPISODES = "episodes"
"""The folder of the files, in that of the collection."""


@dataclass(frozen=True)
class Kept:
    """An episode that is in its file."""

    number: int
    told: Told
    steps: int

    @property
    def success(self) -> bool:
        return self.told.success


def collect(
    request: Request, observe: str, folder: Path, workers: int = 1, on_episode: Callable[[Kept], None] | None = None
) -> tuple[list[Kept], str]:
    """Play `request.episodes` episodes that `folder` does not hold yet, and keep them there with the observations of
    the set `observe`; return all that it holds of them, and why it ended early ("": it did not).

    Raises `RecordsError` if the folder holds others.
    """
    wanted = {key: value for key, value in asdict(request).items() if key != "episodes"}
    check_settings(folder, {**wanted, "observe": observe}, weights_of(request.agent, request.name, request.obs))
    kept = [episode for episode in held(folder) if episode.number < request.episodes]
    indices = sorted(set(range(request.episodes)) - {episode.number for episode in kept})
    problem = gather(partial(_keep, request, observe, folder), workers, indices, kept, on_episode)
    return sorted(kept, key=lambda episode: episode.number), problem


def file_of(folder: Path, number: int) -> Path:
    """Return an episode's file."""
    return folder / EPISODES / f"{number:06d}.npz"


def held(folder: Path) -> list[Kept]:
    """Return the episodes that a collection holds, in order. Raises `RecordsError` if one's file cannot be read."""
    found = []
    for path in sorted((folder / EPISODES).glob("[0-9]*.npz")):
        try:
            number = int(path.stem)
            with np.load(path) as file:
                found.append(Kept(number, told_of(file["told"]), len(file["task"])))
        except (OSError, EOFError, ValueError, LookupError, TypeError, BadZipFile, zlib.error) as error:
            said = " ".join(f"{type(error).__name__}: {error}".split())
            raise RecordsError(f"{path}: is no episode of a collection ({said}); delete it") from error
    return found


def keep(played: Played, observe: str, folder: Path, number: int) -> Kept:
    """Replay what was played in its environment, and keep it. Raises `ReplayError`."""
    trajectory = replay(played, observe)
    trajectory.save(file_of(folder, number))
    return Kept(number, trajectory.played.told, len(trajectory.rewards))


def _keep(request: Request, observe: str, folder: Path, index: int) -> Kept:
    """Play an episode and keep it. Raises `EvaluationError`, which names it, for any failure."""
    try:
        return keep(play(request, index), observe, folder, index)
    except Exception as error:
        raise failure_of(request.name, request.split, index, error) from error


def play(request: Request, index: int) -> Played:
    """Let the request's agent play an episode; one in which the physics became unstable ends there."""
    seed_draws(request.seed, index)
    return _play_scenario(request, index) if request.name in SCENARIOS else _play_skill(request, index)


def _play_scenario(request: Request, index: int) -> Played:
    agent, sim = request.agent, cached_simulator(request.sim, request.depth_noise)
    episode = make_episode(request.name, request.split, index)
    log, limits = Log(sim, tuple(SIZES)), chain_limits(request.episode_steps, request.skill_steps)
    policies = cached_policies(agent, request.name, request.obs)
    try:
        result = play_episode(sim, episode, agent, policies, limits, log.on_step, log.on_call)
        success, reason = result.success, came_to(result.failed_skill, result.reason) if not result.success else ""
    except SimulationError:
        success, reason = False, UNSTABLE
    return log.played(request.name, agent.skills, request.split, index, agent.skill_nav, success, reason)


def _play_skill(request: Request, index: int) -> Played:
    agent, skill = request.agent, request.name
    env = environment(skill, request.split, LASER, agent.skill_nav)  # the cheapest: nobody reads these
    try:
        env.reset(seed=request.seed, options={"index": index})
        task: Any = env.unwrapped
        log = Log(task.sim, tuple(env.action_space.spaces))  # type: ignore[attr-defined]
        log.on_call("", PlanStep(f"({skill})", skill, task.goal, ""))
        try:
            row = play_skill(
                skill, env, cached_policies(agent, skill, request.obs)[skill], lambda a: log.on_step(0, a, ())
            )
            success, reason = row.outcome == "success", row.reason
        except SimulationError:
            success, reason = False, UNSTABLE
    finally:
        env.close()
    return log.played(skill, agent.skills, request.split, index, agent.skill_nav, success, reason)


def files(folder: Path, kept: Sequence[Kept]) -> list[Path]:
    """Return the files of episodes that a collection holds."""
    return [file_of(folder, episode.number) for episode in kept]
