"""What the oracles do, written down for a policy to clone; and what they would do where that policy has got to."""

from __future__ import annotations

import math
import multiprocessing
import signal
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from hab.actions import ARM, BASE, GRIP, STOP, Action, stop_called
from skills.oracle import make_oracle
from skills.task import SkillTask
from skills.training import env_factory
from ver_core.cloning import Demonstrations, clone
from ver_core.config import PolicyConfig
from ver_core.distributed import World
from ver_core.policy import RecurrentPolicy
from ver_core.signals import die_with_parent

NOISE = 0.3
"""Most noise (standard deviation, of the arm's action) that an oracle is disturbed with, to show how it recovers; it is
drawn for each episode. The base gets half of it. (Laskey et al. 2017, DART.)"""
HANDLE_NOISE = 0.3
"""Share of the noise with a handle in hand: the cup slips off a door that is jerked."""
PATIENCE = 2.0
"""Oracles take their time: they may take this many times a task's steps."""
LEARNER_BEGINS = 0.75
"""Share of episodes that the learner begins, once there is one."""
DONE_SHARE = 0.2
"""Share of the steps at which stopping, or letting go, is right in which a demonstration really does so: one such step
in an episode would be too few to learn from."""
EARLY_EPOCHS = 0.5
"""Share of the epochs that all rounds but the last are cloned for."""
STILL = 0.15
"""m, rad: a learner is still while neither base nor arm has moved by more."""
ASKED_STILL, STUCK = 10, 30
"""Actions for which it may be still until the oracle is asked at each of them, and until it takes over."""
EPISODES_PER_JOB = 25
HOPELESS = 100
"""Episodes without any success after which no more are played."""


class NothingShown(RuntimeError):
    """The oracle never succeeded; the message is one line."""


@dataclass(frozen=True)
class Job:
    """Episodes for one process to play."""

    skill: str
    task: dict[str, Any]
    """Arguments of skills/task.py."""
    gamma: float
    policy: PolicyConfig
    """Complete (skills.training.fit_policy)."""
    weights: dict[str, NDArray[Any]] | None
    """The learner's; None: the oracle begins every episode."""
    episodes: int
    seed: tuple[int, ...]
    learner_share: float
    """Of a task's steps, for which the learner begins an episode at most."""
    asked_share: float
    """Of the learner's steps, at which the oracle is asked what it would do there."""


def clone_oracle(
    policy: RecurrentPolicy,
    job: Job,
    rounds: int,
    epochs: int,
    world: World,
    workers: int,
    on_episodes: Callable[[int, str], None] = lambda episodes, state: None,
) -> None:
    """Give a policy its first weights: rounds of showing and cloning (DAgger, Ross et al. 2011).

    From the second round on most episodes are begun by what was cloned so far, and the oracle takes over wherever that
    has led. `on_episodes` is told how many more were played, and how it goes.
    """
    parts: list[Demonstrations] = []
    for number in range(rounds):
        state = f"round {number + 1} of {rounds}"
        if number:
            weights = {name: value.cpu().numpy().copy() for name, value in policy.state_dict().items()}
            job = replace(job, weights=weights)
        total = 0
        for shown, played in demonstrate(replace(job, seed=(*job.seed, number)), workers):
            parts.append(shown)
            on_episodes(played, state)
            total += played
            if total >= min(HOPELESS, job.episodes) and not any(part.expert.any() for part in parts):
                raise NothingShown(f"the oracle succeeded in none of {total} episodes of {job.skill}")
        joined = Demonstrations.join(parts)

        def on_epoch(epoch: int, loss: float, state: str = state) -> None:
            on_episodes(0, f"{state}, epoch {epoch}, loss {loss:.2f}")

        # What only begins the next round's episodes need not fit as well as what is kept.
        fitted = epochs if number == rounds - 1 else math.ceil(epochs * EARLY_EPOCHS)
        clone(policy, joined, fitted, number, world, on_epoch)


def demonstrate(job: Job, workers: int) -> Iterator[tuple[Demonstrations, int]]:
    """Play a job's episodes in parallel; yields what was shown, and in how many episodes.

    The same for any number of workers.
    """
    jobs = [
        replace(job, episodes=min(EPISODES_PER_JOB, job.episodes - start), seed=(*job.seed, start))
        for start in range(0, job.episodes, EPISODES_PER_JOB)
    ]
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), initializer=_prepare)
    try:
        yield from pool.map(_play, jobs)
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _prepare() -> None:
    """Ctrl-C is the parent's business, and its end is the worker's."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    die_with_parent()
    torch.set_num_threads(1)


def _play(job: Job) -> tuple[Demonstrations, int]:
    player = _Player(job)
    return Demonstrations.join([player.episode() for _ in range(job.episodes)]), job.episodes


class _Step(NamedTuple):
    floats: NDArray[np.float32]
    bytes: NDArray[np.uint8]
    action: NDArray[np.float32]
    reward: float
    expert: bool


class _Player:
    """Plays one job's episodes: first the learner, for a while, then the oracle."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.repeat = job.task["action_repeat"]
        self.rng = np.random.default_rng(job.seed)
        env = env_factory(job.skill, **{**job.task, "action_repeat": 1})()
        task = env.unwrapped
        assert isinstance(task, SkillTask)
        self.task: SkillTask[Any] = task
        self.network = RecurrentPolicy(task.observation_space, task.action_space, job.policy)
        self.network.requires_grad_(False)
        self.switches = [part for part, head in job.policy.heads.items() if head == "bernoulli"]
        if job.weights is not None:
            self.network.load_state_dict({name: torch.from_numpy(value) for name, value in job.weights.items()})
        self.task.max_steps = int(PATIENCE * self.task.max_steps)
        self.task.reset(seed=int(self.rng.integers(2**31)))

    def episode(self) -> Demonstrations:
        """Return what the learner did, with what the oracle would have done there, and then what the oracle showed.

        What an oracle does that does not succeed is no example. What it was asked for is one even then: a learner that
        spoils an episode was in the states that matter most.
        """
        task, rng = self.task, self.rng
        self.state = torch.zeros(1, self.network.state_size)
        task.reset()
        # An oracle that knows where an object is to go takes it accordingly; a policy cannot know.
        task.sim.episode = replace(task.sim.episode, targets=())
        self.began_with = task.sim.held
        steps: list[_Step] = []
        if self.job.weights is not None and rng.random() < LEARNER_BEGINS:
            steps, over = self._learner_begins()
            if over:
                return self._shown(steps)
        asked = len(steps)
        oracle = make_oracle(self.job.skill, task.base_movement)
        oracle.reset(task.sim, task.goal)
        noise = NOISE * rng.random()
        success = done = False
        ahead: Action = {}
        first: Action = {}
        while not done:
            floats, bytes_ = self._observed()
            most = noise * (HANDLE_NOISE if task.sim.held and task.sim.held == task.goal.articulation else 1.0)
            spread = {ARM: most * rng.standard_normal(7), BASE: 0.5 * most * rng.standard_normal(2)}
            meant: list[NDArray[np.float32]] = []
            held, reward = task.sim.held, 0.0
            # An oracle stops where it had planned to, which nobody can see; here it would wherever that is right.
            may_stop, lingers = task.may_stop(), rng.random() > DONE_SHARE
            for number in count(1):
                action = dict(ahead or oracle.act(task.sim))
                ahead = {}
                if may_stop:
                    action[STOP] = np.ones(1, np.float32)
                action = {part.name: action[part.name] for part in self.network.action_layout.parts}
                alone = bool(meant) and task.acts_itself()
                if meant and not alone and any((action[p] > 0.0) != (first[p] > 0.0) for p in self.switches):
                    ahead = action  # what it lets go, or stops, at is seen first
                    break
                first = first if meant else action
                if not alone:
                    meant.append(np.concatenate(list(action.values())))
                disturbed = {part: value + spread.get(part, 0.0) for part, value in action.items()}
                if lingers and may_stop:
                    del disturbed[STOP]
                if lingers and task.sim.held and GRIP in action and action[GRIP][0] <= 0.0:
                    disturbed[GRIP], ahead = np.ones(1, np.float32), action
                terms: dict[str, float] = {}
                success, reason = task.control_step(_clipped(disturbed), terms)
                reward += sum(terms.values())
                done = success or reason != ""
                if done or task.sim.held != held or not task.goes_on(number, self.repeat):
                    break
            steps.append(_Step(floats, bytes_, self._switched(np.mean(meant, axis=0)), reward, True))
        if not success:
            steps[asked:] = [step._replace(expert=False) for step in steps[asked:]]
        return self._shown(steps)

    def _learner_begins(self) -> tuple[list[_Step], bool]:
        """Let the learner play until it is relieved; returns that, and whether the episode is over."""
        steps: list[_Step] = []
        at, still = self._pose(), 0
        for _ in range(int(self.rng.integers(self.job.learner_share * self.task.max_steps / PATIENCE / self.repeat))):
            step, over = self._learner_plays(still)
            if step is None:
                break
            steps.append(step)
            if over:
                return steps, True
            now = self._pose()
            at, still = (now, 0) if np.abs(now - at).max() > STILL else (at, still + 1)
            if still > STUCK:
                break
        return steps, False

    def _pose(self) -> NDArray[np.float64]:
        """Return where base and arm are (10,)."""
        return np.concatenate((self.task.sim.base, self.task.sim.arm))

    def _learner_plays(self, still: int) -> tuple[_Step | None, bool]:
        """Let the learner act once, still for so many actions; returns that, and whether the episode is over.

        Where it would stop it does not act: whether that is right is for the oracle to show.
        """
        floats, bytes_ = self._observed()
        network, task = self.network, self.task
        none, rows = torch.from_numpy(network.action_layout.none)[None], (floats, bytes_)
        out = network(*(torch.from_numpy(row)[None] for row in rows), none, self.state, torch.tensor([1]))
        self.state = out.state
        flat = network.play(out, torch.from_numpy(self.rng.random((1, network.noise_size))))
        action, held = network.action_layout.decode(flat[0].numpy()), task.sim.held
        if stop_called(action):
            return None, False
        share = 1.0 if self.job.asked_share and still > ASKED_STILL else self.job.asked_share
        shown = self._oracle_would() if held == self.began_with and self.rng.random() < share else None
        over, terms = False, dict[str, float]()
        for number in count(1):
            success, reason = task.control_step(action, terms)
            over = success or reason != ""
            if over or task.sim.held != held or not task.goes_on(number, self.repeat):
                break
        done = flat[0].numpy() if shown is None else shown
        return _Step(floats, bytes_, done, sum(terms.values()), shown is not None), over

    def _oracle_would(self) -> NDArray[np.float32]:
        """Return the action (A,) with which an oracle would begin here.

        Where a learner is stuck it stays for long, and what frees it are a few steps: those of an oracle that has taken
        over are too few to learn from. One whose hand has taken hold, or let go, is in the middle of its script, and
        not asked.
        """
        task = self.task
        oracle = make_oracle(self.job.skill, task.base_movement)
        oracle.reset(task.sim, task.goal)
        action = oracle.act(task.sim)
        if task.may_stop():
            action[STOP] = np.ones(1, np.float32)
        parts = self.network.action_layout.parts
        return self._switched(np.concatenate([action[part.name] for part in parts]).astype(np.float32))

    def _observed(self) -> tuple[NDArray[np.float32], NDArray[np.uint8]]:
        layout = self.network.obs_layout
        floats, bytes_ = np.zeros(layout.floats, np.float32), np.zeros(layout.bytes, np.uint8)
        layout.pack(self.task.observation(), floats, bytes_)
        return floats, bytes_

    def _switched(self, action: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return an action (A,) with what is on or off at its bounds."""
        for part in self.network.action_layout.parts:
            if part.name in self.switches:
                entries = slice(part.start, part.start + part.size)
                action[entries] = np.where(action[entries] > 0.0, 1.0, -1.0)
        return action

    def _shown(self, steps: list[_Step]) -> Demonstrations:
        observed, acted = self.network.obs_layout, self.network.action_layout
        returns, total = np.zeros(len(steps), np.float32), 0.0
        for i in reversed(range(len(steps))):
            returns[i] = total = steps[i].reward + self.job.gamma * total
        sizes = ((observed.floats, np.float32), (observed.bytes, np.uint8), (acted.size, np.float32))
        starts = np.arange(len(steps)) == 0
        expert = np.array([step.expert for step in steps], dtype=bool)
        floats, bytes_, actions = (
            np.array([step[i] for step in steps], dtype).reshape(len(steps), size)
            for i, (size, dtype) in enumerate(sizes)
        )
        return Demonstrations(floats, bytes_, actions, returns, starts, expert)


def _clipped(action: Mapping[str, NDArray[Any]]) -> Action:
    return {part: np.clip(value, -1.0, 1.0).astype(np.float32) for part, value in action.items()}
