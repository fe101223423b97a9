"""Run an agent on episodes of a scenario, or on the start states of one skill, in parallel processes.

An episode's result depends on the agent, the configuration, the seed and the episode's index only: never on the
number of worker processes or on the episodes before it.
"""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import signal
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from functools import lru_cache, partial
from queue import SimpleQueue
from typing import Any, TypeVar

from hab.actions import Action
from hab.backend import SIMULATORS, make_simulator
from hab.episodes import SCENARIOS, Episode, asked_kinds, is_unseen, load_scene, make_episode
from hab.objects import HOUSE_OBJECTS, object_kind
from hab.observation_sets import LASER
from hab.scenario_env import MAX_STEPS
from hab.scene import Scene
from hab.simulator import SimulationError, Simulator
from planner.agent import Agent, chain_limits, load_policies, play_episode, play_skill, seed_draws
from planner.chain import TraceRow
from planner.task_planner import PlanStep, interactions
from skills.skill import Goal, SkillPolicy
from ver_core.signals import die_with_parent

T = TypeVar("T")
INTERRUPTED = "interrupted"
"""Ctrl-C came before all episodes were done."""
UNSTABLE = "unstable physics"
"""Why an episode failed that the simulator could not go on with."""


class EvaluationError(RuntimeError):
    """An episode raised an exception, or a worker process died; the message is one line and says which."""


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
    obs: str | None = None
    """What the skills' policies have to see; None: each as it is."""
    sim: str = SIMULATORS[0]
    episode_steps: int = MAX_STEPS
    """Control steps an episode of a scenario may take."""
    skill_steps: dict[str, int | None] = field(default_factory=dict)
    """Control steps a skill may take in the chain, by name; None or missing: the skill's own limit."""
    objects: int = HOUSE_OBJECTS
    """Objects in a scenario's house."""
    depth_noise: bool = False
    """Whether depth images have a real camera's flaws."""


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
    kinds: list[str] = field(default_factory=list)
    """Of objects and furniture that the episode is about (`hab.episodes.asked_kinds`)."""
    succeeded_after: int | None = None
    """Control steps at the end of the call that made it a success; None: it was none."""

    @property
    def asks_for_unseen(self) -> bool:
        """Whether one of them is in houses of test alone."""
        return any(map(is_unseen, self.kinds))


@dataclass
class Evaluation:
    """All that was measured."""

    request: Request
    results: list[EpisodeResult]
    """By episode index."""
    seconds: float
    interrupted: bool
    """Ctrl-C came before all episodes were done."""
    error: str = ""
    """Why not all episodes could be done, in one line."""


def evaluate(
    request: Request,
    workers: int = 1,
    on_result: Callable[[EpisodeResult], None] | None = None,
    known: Sequence[EpisodeResult] = (),
) -> Evaluation:
    """Evaluate with `workers` processes (1: in this one). Ctrl-C and errors return what was measured so far.

    `known`: episodes that were measured before, and are not played again.
    """
    start = time.perf_counter()
    results = list(known)
    indices = sorted(set(range(request.episodes)) - {result.index for result in known})
    problem = gather(partial(run_episode, request), workers, indices, results, on_result)
    results.sort(key=lambda r: r.index)
    interrupted = problem == INTERRUPTED
    return Evaluation(request, results, time.perf_counter() - start, interrupted, "" if interrupted else problem)


def run_episode(request: Request, index: int) -> EpisodeResult:
    """Run one episode to its end. Raises `EvaluationError`, which names the episode, for any failure of the code."""
    seed_draws(request.seed, index)
    try:
        return _run_scenario(request, index) if request.name in SCENARIOS else _run_skill(request, index)
    except Exception as error:
        raise failure_of(request.name, request.split, index, error) from error


def failure_of(name: str, split: str, index: int, error: Exception) -> EvaluationError:
    """Return any failure of the code as one that names the episode."""
    said = " ".join(f"{type(error).__name__}: {error}".split())
    return EvaluationError(f"{name}, {split} episode {index}: {said}")


def _run_scenario(request: Request, index: int) -> EpisodeResult:
    episode = make_episode(request.name, request.split, index, objects=request.objects)
    kinds = list(asked_kinds(load_scene(episode.scene_seed), episode.targets))
    limits = chain_limits(request.episode_steps, request.skill_steps)
    sim = cached_simulator(request.sim, request.depth_noise)
    stage, called = 0, PlanStep("", "", Goal((0.0, 0.0, 0.0)), "")
    done: Sequence[bool] = [False] * len(interactions(episode))

    def on_call(label: str, step: PlanStep) -> None:
        nonlocal called
        called = step

    def on_step(now: int, action: Action, achieved: Sequence[bool]) -> None:
        nonlocal stage, done
        stage, done = now, achieved  # the chain's own list, which goes on being filled in

    try:
        policies = cached_policies(request.agent, request.name, request.obs)
        result = play_episode(sim, episode, request.agent, policies, limits, on_step, on_call)
    except SimulationError:
        row = TraceRow(stage, called.skill, called.action, called.interaction, 0, sim.steps, "failed", UNSTABLE)
        return EpisodeResult(
            index, episode.scene_seed, False, list(done), called.skill, UNSTABLE, sim.steps, [asdict(row)], kinds
        )
    return EpisodeResult(
        index,
        episode.scene_seed,
        result.success,
        result.interactions,
        result.failed_skill,
        result.reason,
        result.steps,
        result.trace_rows(),
        kinds,
        result.succeeded_after,
    )


def _run_skill(request: Request, index: int) -> EpisodeResult:
    """Play one start state of a skill's own task."""
    from skills import make_env

    skill, agent = request.name, request.agent
    # Policies read the sensors themselves: the task's own observations are for nobody, so the cheapest.
    env = make_env(
        skill,
        split=request.split,
        obs=LASER,
        base_movement=agent.skill_nav,
        index=index,
        sim=request.sim,
        depth_noise=request.depth_noise,
    )
    try:
        env.reset(seed=request.seed)
        task: Any = env.unwrapped
        try:
            row = play_skill(skill, env, cached_policies(agent, skill, request.obs)[skill])
        except SimulationError:
            row = TraceRow(0, skill, "", "", 0, task.sim.steps, "failed", UNSTABLE)
        scene, kinds = task.sim.episode.scene_seed, _goal_kinds(task.sim.scene, task.sim.episode, task.goal)
    finally:
        env.close()
    success = row.outcome == "success"
    blamed, after = ("", row.end_step) if success else (skill, None)
    return EpisodeResult(index, scene, success, [], blamed, row.reason, row.end_step, [asdict(row)], kinds, after)


def _goal_kinds(scene: Scene, episode: Episode, goal: Goal) -> list[str]:
    """Return the kinds that one call of a skill is about: its object, and where that is or is to be."""
    if not goal.object:
        return [scene.articulation(goal.articulation).kind]
    target = episode.target(goal.object)
    ends = {target.start_pos: target.start_receptacle, target.goal_pos: target.goal_receptacle}
    places = [ends[end] for end in (goal.position, goal.then) if end in ends]
    return list(dict.fromkeys([object_kind(goal.object), *(scene.receptacle(place).kind for place in places)]))


@lru_cache(maxsize=1)
def cached_simulator(name: str, depth_noise: bool) -> Simulator:
    """One simulator a process: it keeps its compiled apartment between episodes."""
    return make_simulator(name, depth_noise=depth_noise)


@lru_cache(maxsize=2)
def cached_policies(agent: Agent, name: str, obs: str | None) -> dict[str, SkillPolicy]:
    """The same of policies: what they remember of a call ends with it."""
    return load_policies(agent, name, obs)


def gather(
    play: Callable[[int], T],
    workers: int,
    indices: Sequence[int],
    into: list[T],
    on_item: Callable[[T], None] | None = None,
) -> str:
    """Append what `each` yields, as it comes; return why it ended early: `INTERRUPTED`, an error, or "": it did not."""
    source = each(play, workers, indices)
    try:
        for item in source:
            into.append(item)
            if on_item is not None:
                on_item(item)
    except KeyboardInterrupt:
        return INTERRUPTED
    except EvaluationError as error:
        return str(error)
    finally:
        source.close()
    return ""


def each(play: Callable[[int], T], workers: int, indices: Sequence[int]) -> Generator[T]:
    """Yield what comes of each index as it comes, from `workers` processes (1: this one). `play` is picklable.

    Raises `EvaluationError` if a process dies.
    """
    return (play(index) for index in indices) if workers == 1 else _in_pool(play, workers, indices)


def _in_pool(play: Callable[[int], T], workers: int, indices: Sequence[int]) -> Generator[T]:
    """Fresh (spawned) processes: OpenGL and threads do not survive a fork."""
    others = multiprocessing.active_children()
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=die_with_parent)
    # Not `concurrent.futures.wait`: an interrupt in it can leave futures locked, and then the pool never ends.
    done: SimpleQueue[Future[T]] = SimpleQueue()
    waiting = len(indices)
    try:
        with _signals_held_back():
            for index in indices:
                pool.submit(play, index).add_done_callback(done.put)
        while waiting:
            result = done.get().result()
            waiting -= 1
            yield result
        pool.shutdown()
    except BrokenProcessPool as error:
        raise EvaluationError("a worker process died (out of memory?); try fewer --workers") from error
    finally:
        # Reached early by Ctrl-C or an error: episodes under way are given up, not waited for.
        pool.shutdown(wait=False, cancel_futures=True)
        if waiting:
            for process in multiprocessing.active_children():
                if process not in others:
                    process.kill()  # they do not listen to SIGTERM


@contextmanager
def _signals_held_back() -> Iterator[None]:
    """Start processes that leave Ctrl-C and SIGTERM, which may go to all of them, to this one (by its mask)."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
