"""Run an agent on episodes of a scenario, or on the start states of one skill, in parallel processes.

An episode's result depends on the agent, the configuration, the seed and the episode's index only: never on the
number of worker processes or on the episodes before it.
"""

from __future__ import annotations

import multiprocessing
import random
import signal
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from typing import Any

import numpy as np

from hab.episodes import SCENARIOS, make_episode
from hab.mujoco.simulator import MujocoSimulator
from planner.agent import Agent, chain_limits, load_policies, play_episode, play_skill
from skills.skill import SkillPolicy


class EvaluationError(RuntimeError):
    """A worker process died; the message says which episodes it may have been."""


@dataclass(frozen=True)
class Request:
    """What to evaluate; picklable, it is all a worker gets."""

    name: str
    """A scenario or a skill."""
    agent: Agent
    split: str = "val"
    episodes: int = 100
    seed: int = 0
    """Of whatever an agent draws at random; the episodes themselves are fixed by split and index."""
    obs: str = "laser"
    episode_steps: int = 7500
    """Control steps an episode of a scenario may take."""
    skill_steps: dict[str, int | None] = field(default_factory=dict)
    """Control steps a skill may take in the chain, by name; None or missing: the skill's own limit."""


@dataclass(frozen=True)
class EpisodeResult:
    """One episode's line of the report."""

    index: int
    scene: int
    success: bool
    interactions: list[bool]
    """Cumulative; empty when a single skill is evaluated."""
    failed_skill: str
    reason: str
    steps: int
    trace: list[dict[str, Any]]
    """One row per skill call."""


@dataclass
class Evaluation:
    """All that was measured."""

    request: Request
    results: list[EpisodeResult]
    """By episode index."""
    seconds: float
    interrupted: bool
    """Ctrl-C came before all episodes were done."""


def evaluate(
    request: Request, workers: int = 1, on_result: Callable[[EpisodeResult], None] | None = None
) -> Evaluation:
    """Evaluate with `workers` processes (1: in this one). Ctrl-C returns what was measured so far."""
    start = time.perf_counter()
    results: list[EpisodeResult] = []
    interrupted = False
    source = _in_process(request) if workers == 1 else _in_pool(request, workers)
    try:
        for result in source:
            results.append(result)
            if on_result is not None:
                on_result(result)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        source.close()
    results.sort(key=lambda r: r.index)
    return Evaluation(request, results, time.perf_counter() - start, interrupted)


def run_episode(request: Request, index: int) -> EpisodeResult:
    """Run one episode to its end."""
    random.seed(f"{request.seed} {index}")
    np.random.seed([request.seed, index])
    if request.name in SCENARIOS:
        return _run_scenario(request, index)
    return _run_skill(request, index)


def _run_scenario(request: Request, index: int) -> EpisodeResult:
    episode = make_episode(request.name, request.split, index)
    limits = chain_limits(request.episode_steps, request.skill_steps)
    result = play_episode(_simulator(), episode, request.agent, _policies(request.agent), limits)
    return EpisodeResult(
        index,
        episode.scene_seed,
        result.success,
        result.interactions,
        result.failed_skill,
        result.reason,
        result.steps,
        result.trace_rows(),
    )


def _run_skill(request: Request, index: int) -> EpisodeResult:
    """Play one start state of a skill's own task."""
    from skills import make_env

    skill, agent = request.name, request.agent
    env = make_env(skill, split=request.split, obs=request.obs, base_movement=agent.skill_nav, index=index)
    try:
        env.reset(seed=request.seed)
        task: Any = env.unwrapped
        row = play_skill(skill, env, _policies(agent)[skill])
        scene = task.sim.episode.scene_seed
    finally:
        env.close()
    success = row.outcome == "success"
    return EpisodeResult(index, scene, success, [], "" if success else skill, row.reason, row.end_step, [asdict(row)])


@lru_cache(maxsize=1)
def _simulator() -> MujocoSimulator:
    """One simulator a process: it keeps its compiled apartment between episodes."""
    return MujocoSimulator()


@lru_cache(maxsize=2)
def _policies(agent: Agent) -> dict[str, SkillPolicy]:
    return load_policies(agent)


def _in_process(request: Request) -> Generator[EpisodeResult]:
    for index in range(request.episodes):
        yield run_episode(request, index)


def _in_pool(request: Request, workers: int) -> Generator[EpisodeResult]:
    """Yield results as they come. Fresh (spawned) processes: OpenGL and threads do not survive a fork."""
    others = multiprocessing.active_children()
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"))
    waiting: set[Future[EpisodeResult]] = set()
    try:
        with _interrupts_ignored():
            waiting |= {pool.submit(run_episode, request, index) for index in range(request.episodes)}
        while waiting:
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()
        pool.shutdown()
    except BrokenProcessPool as error:
        raise EvaluationError("a worker process died (out of memory?); try fewer --workers") from error
    finally:
        # Reached early by Ctrl-C or an error: episodes under way are given up, not waited for.
        pool.shutdown(wait=False, cancel_futures=True)
        if waiting:
            for process in multiprocessing.active_children():
                if process not in others:
                    process.terminate()


@contextmanager
def _interrupts_ignored() -> Iterator[None]:
    """Start processes that leave Ctrl-C, which the terminal sends to all of them, to this one (they inherit it)."""
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)
