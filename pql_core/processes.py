"""The V-learner and the P-learner as processes (Algorithms 2 and 3)."""

from __future__ import annotations

import io
import os
import signal
import time
import traceback
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from gymnasium import spaces
from torch import Tensor

from pql_core import replay
from pql_core.channel import (
    ANSWER,
    FAILURE,
    P_LEARNER,
    QUIT,
    REPLAY,
    STATE,
    V_LEARNER,
    Channel,
    parameters,
)
from pql_core.config import PqlConfig
from pql_core.learning import PolicyLearner, Temperature, ValueLearner
from pql_core.networks import DoubleQ, Policy, Statistics
from pql_core.ratios import Ratios
from pql_core.replay import DRAWN_AT_ONCE, Batch, Replay, StateBuffer, half_columns
from ver_core.config import PolicyConfig
from ver_core.signals import die_with_parent
from ver_core.worker_pool import LEARNERS_SIGNALS

WAIT_S = 0.2
"""Longest sleep between two looks at what has changed; bells end it sooner."""
CHECK_EVERY = 16
"""Updates between two looks at whether loss and gradient are numbers: on a GPU each look costs time."""


@dataclass
class Job:
    """What a learner's process is told. Picklable."""

    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    network: PolicyConfig
    config: PqlConfig
    device: str
    saved: bytes = b""
    """Its `state`, to go on from."""
    replay: Path | None = None
    """A replay buffer's file, to go on from."""


@dataclass
class Networks:
    """A process's own copies; the same in all of them before learning begins."""

    policy: Policy
    q: DoubleQ
    temperature: Temperature
    statistics: Statistics
    half: Tensor
    """(F,) which float entries replay keeps in float16."""


def build(job: Job) -> Networks:
    """Build them from the run's seed. Raises `UnsupportedSpace` or `ConfigError`."""
    device = torch.device(job.device)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(job.config.seed)
        policy = Policy(job.observation_space, job.action_space, job.network, job.config.learner)
        q = DoubleQ(policy.obs_layout, policy.action_layout, job.network, job.config)
    policy, q, temperature = policy.to(device), q.to(device), Temperature(job.config).to(device)
    half = half_columns(job.observation_space, policy.obs_layout, job.config.half_keys)
    return Networks(policy, q, temperature, Statistics(policy, q), half)


class NotANumber(RuntimeError):
    """A loss or a gradient that is NaN or infinite."""


def run(role: int, job: Job, channel: Channel, commands: Connection) -> None:
    """Be the V-learner or the P-learner until told to quit, or until the Actor's process ends."""
    for number in LEARNERS_SIGNALS:
        signal.signal(number, signal.SIG_IGN)  # a signal to the whole group is the Actor's business
    die_with_parent()
    torch.set_num_threads(job.config.threads)
    learner: _Learner | None = None
    try:
        learner = (VLearner if role == V_LEARNER else PLearner)(job, channel)
        begun = {"stored": learner.stored, "lost": learner.lost, "nbytes": learner.nbytes}
        commands.send_bytes(ANSWER + to_bytes(begun))
        learner.run(commands)
    except (BrokenPipeError, EOFError):
        pass  # the Actor is gone
    except Exception as error:
        kind = "" if isinstance(error, NotANumber) else f"{type(error).__name__}: "
        told = f"{kind}{' '.join(str(error).split())[:1000]}\n{traceback.format_exc()[:10_000]}"
        with suppress(OSError):
            commands.send_bytes(FAILURE + told.encode())
    finally:
        # A GPU's memory that another process was given has to be let go of before that process ends.
        learner = None
        vars(channel).clear()
        os._exit(0)


class _Learner(ABC):
    """A process's loop: read what has come, answer, make an update if the ratios let it, else sleep."""

    role: int
    names: tuple[str, ...]
    """Of the scalars that an update reports, …"""
    guarded: tuple[str, ...]
    """… and of those that have to be finite."""

    def __init__(self, job: Job, channel: Channel) -> None:
        self._channel, self._config = channel, job.config
        config = job.config
        self._ratios = Ratios(
            config.num_envs, config.critic_updates_per_step, config.critic_updates_per_policy_update,
            config.keep_ratios,
        )  # fmt: skip
        self.nets = build(job)
        self._have = {"statistics": 0, "policy": 0, "q": 0}
        self._statistics = torch.zeros(self.nets.statistics.size, dtype=torch.float64, device=job.device)
        self._unchecked: list[Tensor] = []
        # Draws of its own, and others after a resume.
        torch.manual_seed(hash((config.seed, self.role, channel.counters.v, channel.counters.p)))

    stored: int
    """Steps or states that it begins with."""
    lost = False
    """Whether it was told of a file of replay that it cannot read, or that does not fit."""
    nbytes: int
    """Of its buffer."""

    @abstractmethod
    def read(self) -> None:
        """Store what has come from the Actor."""

    @abstractmethod
    def may(self) -> bool:
        """Whether it may make an update now."""

    @abstractmethod
    def update(self) -> dict[str, Tensor]:
        """Fetch others' parameters, make an update, publish; return scalars."""

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return what a resume needs."""

    def answer(self, order: bytes) -> dict[str, Any]:
        """Do what was ordered; return what comes of it."""
        assert order == STATE
        self._check()
        return self.state()

    def run(self, commands: Connection) -> None:
        """Work until told to quit."""
        counters = self._channel.counters
        while True:
            begun = counters.begun  # before what has come is read, which is then at least the warm-up
            self.read()
            while commands.poll():
                order = commands.recv_bytes()
                if order == QUIT:
                    return
                commands.send_bytes(ANSWER + to_bytes(self.answer(order)))
            started = time.perf_counter()
            if begun and self.may():
                self._report(self.update())
                counters.seconds[self.role, 0] += time.perf_counter() - started
                for other, bell in enumerate(self._channel.bells):
                    if other != self.role:
                        bell.ring()
            else:
                self._channel.bells[self.role].wait(WAIT_S)
                if begun:
                    counters.seconds[self.role, 1] += time.perf_counter() - started

    def fetch_statistics(self) -> None:
        """Normalise observations as the Actor does now."""
        have = self._have["statistics"]
        if self.nets.statistics.size and have != (new := self._channel.statistics.fetch([self._statistics], have)):
            self._have["statistics"] = new
            self.nets.statistics.write(self._statistics)

    def _report(self, scalars: dict[str, Tensor]) -> None:
        self._unchecked += [scalars[name] for name in self.guarded]
        if len(self._unchecked) >= CHECK_EVERY * len(self.guarded) or not self._unchecked[-1].is_cuda:
            self._check()
            missing = torch.full((), torch.nan, device=self._statistics.device)
            self._channel.counters.scalars[self.role, : len(self.names)] = torch.stack(
                [scalars.get(name, missing).double() for name in self.names]
            )

    def _check(self) -> None:
        if self._unchecked and not bool(torch.stack(self._unchecked).isfinite().all()):
            raise NotANumber(diverged(self.guarded[0]))
        self._unchecked.clear()


class VLearner(_Learner):
    """Algorithm 3. Its replay buffer and its policy, pi^v, are its own."""

    role = V_LEARNER
    names = ("critic_loss", "q", "critic_grad_norm")
    guarded = ValueLearner.guarded

    def __init__(self, job: Job, channel: Channel) -> None:
        super().__init__(job, channel)
        nets, config = self.nets, job.config
        self._learner = ValueLearner(nets.q, nets.policy, nets.temperature, config)
        nets.statistics.add(self._learner.target)
        device = torch.device(job.device)
        layout, actions = nets.policy.obs_layout, nets.policy.scale.size
        self._replay = Replay(config.num_envs, config.replay_size, layout, actions, nets.half, device)
        self._drawn: list[Batch] = []
        """Batches for the next updates: no more than the data is there for, so none is older than a step's updates."""
        if job.saved:
            self._learner.restore(from_bytes(job.saved))
        if job.replay is not None:
            self.lost = not replay.take_up(self._replay, job.replay)
        self.stored, self.nbytes = self._replay.steps, self._replay.nbytes
        self._publish()

    def read(self) -> None:
        """See `_Learner`."""
        for records in self._channel.ring.read(V_LEARNER):
            self._replay.append(records)

    def may(self) -> bool:
        """See `_Learner`."""
        counters = self._channel.counters
        return self._ratios.v_may(counters.e, counters.v, counters.p)

    def update(self) -> dict[str, Tensor]:
        """See `_Learner`."""
        self.fetch_statistics()
        nets, have, counters = self.nets, self._have, self._channel.counters
        have["policy"] = self._channel.policy.fetch(parameters(nets.policy, nets.temperature), have["policy"])
        if not self._drawn:
            config = self._config
            most = int(min(DRAWN_AT_ONCE, self._ratios.v_due(counters.e, counters.v)))
            self._drawn = self._replay.sample(config.batch_size, config.n_step, config.gamma, most)
        scalars = self._learner.update(self._drawn.pop())
        # For each update of the policy, new Q functions.
        due = counters.v + 1
        if due % max(1, round(self._config.critic_updates_per_policy_update)) == 0:
            self._publish()
        counters.v = due
        return scalars

    def state(self) -> dict[str, Any]:
        """See `_Learner`."""
        return self._learner.state()

    def answer(self, order: bytes) -> dict[str, Any]:
        """See `_Learner`; it has the replay buffer, which can be saved."""
        if not order.startswith(REPLAY):
            return super().answer(order)
        self.read()  # the end of the Actor's steps may have come since
        return {"problem": self._replay.try_to_save(Path(order[1:].decode()))}

    def _publish(self) -> None:
        self._channel.q.publish(parameters(self.nets.q))


class PLearner(_Learner):
    """Algorithm 2. Its buffer of states and its Q functions are its own."""

    role = P_LEARNER
    names = ("policy_loss", "policy_grad_norm", "saturated", "entropy", "entropy_coef")
    guarded = PolicyLearner.guarded

    def __init__(self, job: Job, channel: Channel) -> None:
        super().__init__(job, channel)
        nets, config = self.nets, job.config
        self._learner = PolicyLearner(nets.policy, nets.temperature, nets.q, config)
        self._states = StateBuffer(config.replay_size, nets.policy.obs_layout, nets.half, torch.device(job.device))
        if job.saved:
            self._learner.restore(from_bytes(job.saved))
        if job.replay is not None:
            self.lost = not replay.take_up(self._states, job.replay)
        self.stored, self.nbytes = self._states.count, self._states.nbytes
        self._publish()

    def read(self) -> None:
        """See `_Learner`."""
        for records in self._channel.ring.read(P_LEARNER):
            self._states.append(records)

    def may(self) -> bool:
        """See `_Learner`."""
        counters = self._channel.counters
        return self._ratios.p_may(counters.v, counters.p)

    def update(self) -> dict[str, Tensor]:
        """See `_Learner`."""
        self.fetch_statistics()
        self._have["q"] = self._channel.q.fetch(parameters(self.nets.q), self._have["q"])
        scalars = self._learner.update(*self._states.states(self._config.batch_size))
        self._publish()
        self._channel.counters.p += 1
        return scalars

    def state(self) -> dict[str, Any]:
        """See `_Learner`."""
        return self._learner.state()

    def _publish(self) -> None:
        self._channel.policy.publish(parameters(self.nets.policy, self.nets.temperature))


def diverged(name: str) -> str:
    """Say what a loss or a gradient that is no number means."""
    return f"{name} or its gradient is NaN or infinite: the updates diverged; lower the learning rates"


def to_bytes(state: dict[str, Any]) -> bytes:
    """Serialise a tree of tensors and plain values."""
    buffer = io.BytesIO()
    torch.save(state, buffer)
    return buffer.getvalue()


def from_bytes(data: bytes) -> dict[str, Any]:
    """Return what `to_bytes` was given, on the processor."""
    state: dict[str, Any] = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    return state
