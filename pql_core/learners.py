"""Those who learn from what the Actor hands on: two processes beside it (PQL), or one after the other in its own."""

from __future__ import annotations

import logging
import math
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing.connection import Connection
from multiprocessing.context import BaseContext
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from pql_core import replay
from pql_core.channel import (
    FAILURE,
    P_LEARNER,
    QUIT,
    REPLAY,
    STATE,
    V_LEARNER,
    Bell,
    Channel,
    Counters,
    Ring,
    Slot,
    parameters,
)
from pql_core.learning import PolicyLearner, ValueLearner
from pql_core.processes import Job, Networks, PLearner, VLearner, diverged, from_bytes, run, to_bytes
from pql_core.ratios import Ratios
from pql_core.replay import DRAWN_AT_ONCE, Batch, Records, Replay
from ver_core.learner import LearningFailure
from ver_core.worker_pool import starting

ACTOR = 2
"""Whose bell is the third."""
NAMES = ("V-learner", "P-learner")
RING_STEPS = 4
"""Steps of all environments that the ring has room for, …"""
RING_LEAST = 4096
"""… and records at least."""
GRACE_S = 2.0
"""What training ends with has so long to find room there."""
State = dict[str, Any]


@dataclass
class Saved:
    """What a run to resume has of its learners."""

    states: tuple[State, State]
    """The V-learner's and the P-learner's."""
    e: int
    v: int
    p: int
    replay: Path | None


class Learners(ABC):
    """The V-learner and the P-learner, as the Actor's process sees them."""

    stored: int
    """Steps that replay begins with; known, as the next two are, once they are ready."""
    lost: bool
    """Whether there is a file of replay that cannot be read, or does not fit: it is filled anew."""
    nbytes: tuple[int, int]
    """Of memory: the V-learner's buffer, and the P-learner's (0 if it draws from the former)."""
    counters: Counters
    wait_s: float
    """Seconds that the Actor has waited for them."""

    @abstractmethod
    def ready(self) -> None:
        """Wait until they are. Before all other calls but `close`. Raises `LearningFailure`."""

    @abstractmethod
    def hand_on(self, records: Records) -> bool:
        """Store records; False: stopped."""

    @abstractmethod
    def begin(self) -> None:
        """Let learning begin: the warm-up is over."""

    @abstractmethod
    def stepped(self, steps: int) -> bool:
        """Account for steps handed on, bring the Actor's policy up to date, and keep the ratios; False: stopped."""

    @abstractmethod
    def catch_up(self) -> None:
        """Let them make the updates that are still due."""

    @abstractmethod
    def states(self) -> tuple[State, State]:
        """Return what a resume needs. Raises `LearningFailure`."""

    @abstractmethod
    def save_replay(self, path: Path) -> str:
        """Write the replay buffer; return what went wrong, or ""."""

    @abstractmethod
    def scalars(self) -> dict[str, float]:
        """Return those of the last updates."""

    @abstractmethod
    def close(self) -> None:
        """End them."""


class Sequential(Learners):
    """DDPG(n) and SAC(n): environments, Q functions and policy take turns, with one buffer."""

    def __init__(self, job: Job, nets: Networks, saved: Saved | None, stop: Callable[[], bool]) -> None:
        """`nets` are used as they are: the Actor's policy is the one that learns."""
        config = job.config
        self._config, self._stop = config, stop
        self._v = ValueLearner(nets.q, nets.policy, nets.temperature, config)
        self._p = PolicyLearner(nets.policy, nets.temperature, nets.q, config)
        nets.statistics.add(self._v.target)
        layout, actions = nets.policy.obs_layout, nets.policy.scale.size
        device = torch.device(job.device)
        self._replay = Replay(config.num_envs, config.replay_size, layout, actions, nets.half, device)
        self.counters, self.wait_s = Counters(), 0.0
        self._scalars: dict[str, Tensor] = {}
        self.lost = False
        torch.manual_seed(config.seed)
        if saved is not None:
            self._v.restore(saved.states[V_LEARNER])
            self._p.restore(saved.states[P_LEARNER])
            self.counters.e, self.counters.v, self.counters.p = saved.e, saved.v, saved.p
            torch.manual_seed(hash((config.seed, saved.v)))
            if saved.replay is not None:
                self.lost = not replay.take_up(self._replay, saved.replay)
        self.stored, self.nbytes = self._replay.steps, (self._replay.nbytes, 0)

    def ready(self) -> None:
        """See `Learners`."""

    def hand_on(self, records: Records) -> bool:
        """See `Learners`."""
        self._replay.append(records)
        return True

    def begin(self) -> None:
        """See `Learners`."""
        self.counters.begun = True

    def stepped(self, steps: int) -> bool:
        """See `Learners`."""
        if not self.counters.begun:
            return True
        self.counters.e += steps
        self.catch_up()
        return True

    def catch_up(self) -> None:
        """See `Learners`."""
        counters, config = self.counters, self._config
        due = int(counters.e * config.critic_updates_per_step / config.num_envs)
        batches: list[Batch] = []
        while counters.v < due and not self._stop():
            started = time.perf_counter()
            if not batches:
                most = min(DRAWN_AT_ONCE, due - counters.v)
                batches = self._replay.sample(config.batch_size, config.n_step, config.gamma, most)
            self._note(self._v.update(batches.pop()), self._v.guarded)
            counters.v += 1
            between = time.perf_counter()
            while counters.v >= config.critic_updates_per_policy_update * (counters.p + 1):
                self._note(self._p.update(*self._replay.states(config.batch_size)), self._p.guarded)
                counters.p += 1
            counters.seconds[V_LEARNER, 0] += between - started
            counters.seconds[P_LEARNER, 0] += time.perf_counter() - between

    def _note(self, scalars: dict[str, Tensor], guarded: tuple[str, ...]) -> None:
        """Keep an update's scalars. Raises `LearningFailure` if it diverged."""
        if not bool(torch.stack([scalars[name] for name in guarded]).isfinite().all()):
            raise LearningFailure(diverged(guarded[0]))
        self._scalars |= scalars

    def states(self) -> tuple[State, State]:
        """See `Learners`."""
        return self._v.state(), self._p.state()

    def save_replay(self, path: Path) -> str:
        """See `Learners`."""
        return self._replay.try_to_save(path)

    def scalars(self) -> dict[str, float]:
        """See `Learners`."""
        return {name: float(value) for name, value in self._scalars.items()}

    def close(self) -> None:
        """See `Learners`."""


class Parallel(Learners):
    """PQL: a process each. The Actor's policy is a copy of the P-learner's."""

    def __init__(
        self,
        job: Job,
        nets: Networks,
        saved: Saved | None,
        stop: Callable[[], bool],
        context: BaseContext,
        logger: logging.Logger,
    ) -> None:
        """Start the processes; other things may be started before one waits for them (`ready`)."""
        config, device = job.config, torch.device(job.device)
        self._nets, self._stop, self._logger = nets, stop, logger
        self._ratios = Ratios(
            config.num_envs, config.critic_updates_per_step, config.critic_updates_per_policy_update,
            config.keep_ratios,
        )  # fmt: skip
        layout, rows = nets.policy.obs_layout, max(RING_STEPS * config.num_envs, RING_LEAST)
        self._policy = parameters(nets.policy, nets.temperature)
        self._q = parameters(nets.q)
        self._channel = Channel(
            Ring(rows, layout.floats, layout.bytes, nets.policy.scale.size, device),
            Slot(sum(p.numel() for p in self._policy), torch.float32, device),
            Slot(sum(p.numel() for p in self._q), torch.float32, device),
            Slot(nets.statistics.size, torch.float64, device),
            Counters(),
            (Bell(context), Bell(context), Bell(context)),
        )
        self.counters, self.wait_s, self._have = self._channel.counters, 0.0, 0
        if saved is not None:
            nets.policy.load_state_dict(saved.states[P_LEARNER]["policy"])
            self.counters.e, self.counters.v, self.counters.p = saved.e, saved.v, saved.p
        self._processes: list[BaseProcess] = []
        self._commands: list[Connection] = []
        try:
            for role in (V_LEARNER, P_LEARNER):
                theirs_job = job
                if saved is not None:
                    theirs_job = replace(job, saved=to_bytes(saved.states[role]), replay=saved.replay)
                ours, theirs = context.Pipe()
                process = context.Process(  # type: ignore[attr-defined]
                    target=run, args=(role, theirs_job, self._channel, theirs), name=NAMES[role], daemon=True
                )
                with starting():
                    process.start()
                theirs.close()
                self._processes.append(process)
                self._commands.append(ours)
        except BaseException:
            self.close()
            raise

    def ready(self) -> None:
        """See `Learners`."""
        told = [from_bytes(self._answer(role)) for role in (V_LEARNER, P_LEARNER)]
        self.stored = int(told[V_LEARNER]["stored"])
        self.lost = any(answer["lost"] for answer in told)
        self.nbytes = (int(told[V_LEARNER]["nbytes"]), int(told[P_LEARNER]["nbytes"]))

    def pids(self) -> tuple[int, int]:
        """Return the process ids of the V-learner and the P-learner."""
        first, second = (process.pid or 0 for process in self._processes)
        return first, second

    def hand_on(self, records: Records) -> bool:
        """See `Learners`."""

        give_up = math.inf

        def wait() -> bool:
            nonlocal give_up
            self._rest()
            if self._stop():
                give_up = min(give_up, time.monotonic() + GRACE_S)
            return time.monotonic() < give_up

        if not self._channel.ring.write(records, wait):
            return False
        self._wake()
        return True

    def begin(self) -> None:
        """See `Learners`."""
        self._publish()
        self.counters.begun = True
        self._wake()

    def stepped(self, steps: int) -> bool:
        """See `Learners`."""
        self._check()
        counters = self.counters
        if counters.begun:
            counters.e += steps
            self._publish()
            self._wake()
            started = time.perf_counter()
            while not self._ratios.actor_may(counters.e, counters.v):
                if self._stop():
                    return False
                self._rest()
            self.wait_s += time.perf_counter() - started
        self._have = self._channel.policy.fetch(self._policy, self._have)
        return True

    def catch_up(self) -> None:
        """See `Learners`."""
        counters, ratios = self.counters, self._ratios
        while ratios.kept and counters.begun and not self._stop():
            if not ratios.v_may(counters.e, counters.v, counters.p) and not ratios.p_may(counters.v, counters.p):
                break
            self._wake()
            self._rest()
        self._have = self._channel.policy.fetch(self._policy, self._have)

    def states(self) -> tuple[State, State]:
        """See `Learners`."""
        for role in (V_LEARNER, P_LEARNER):
            self._order(role, STATE)
        return from_bytes(self._answer(V_LEARNER)), from_bytes(self._answer(P_LEARNER))

    def save_replay(self, path: Path) -> str:
        """See `Learners`."""
        self._order(V_LEARNER, REPLAY + str(path).encode())
        return str(from_bytes(self._answer(V_LEARNER))["problem"])

    def scalars(self) -> dict[str, float]:
        """See `Learners`."""
        found: dict[str, float] = {}
        for role, names in ((V_LEARNER, VLearner.names), (P_LEARNER, PLearner.names)):
            values = self.counters.scalars[role].tolist()
            found |= {name: value for name, value in zip(names, values, strict=False) if value == value}
        return found

    def close(self) -> None:
        """See `Learners`."""
        for commands in self._commands:
            with suppress(OSError):  # it is gone
                commands.send_bytes(QUIT)
        self._wake()
        deadline = time.monotonic() + 2.0
        for process in self._processes:
            process.join(max(0.0, deadline - time.monotonic()))
            if process.is_alive():
                process.kill()
                process.join()
        for commands in self._commands:
            commands.close()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _publish(self) -> None:
        if self._nets.statistics.size:
            self._channel.statistics.publish([self._nets.statistics.read()])

    def _wake(self) -> None:
        for role in (V_LEARNER, P_LEARNER):
            self._channel.bells[role].ring()

    def _rest(self) -> None:
        self._channel.bells[ACTOR].wait(0.1)
        self._check()

    def _check(self) -> None:
        """Raise `LearningFailure` if one of them has failed."""
        for role, (process, commands) in enumerate(zip(self._processes, self._commands, strict=True)):
            if commands.poll():
                self._answer(role)  # nothing was asked: a failure
            elif process.exitcode is not None:
                raise LearningFailure(f"the {NAMES[role]} died (exit code {process.exitcode}); --resume goes on")

    def _order(self, role: int, order: bytes) -> None:
        try:
            self._commands[role].send_bytes(order)
        except OSError:
            self._died(role)
        self._channel.bells[role].ring()

    def _answer(self, role: int) -> bytes:
        commands = self._commands[role]
        try:
            while not commands.poll(0.2):
                if self._processes[role].exitcode is not None and not commands.poll():
                    self._died(role)
            answer = commands.recv_bytes()
        except (EOFError, OSError):
            self._died(role)
        if answer[:1] == FAILURE:
            told, _, trace = answer[1:].decode().partition("\n")
            self._logger.info("%s:\n%s", NAMES[role], trace)
            raise LearningFailure(f"the {NAMES[role]} failed: {told}")
        return answer[1:]

    def _died(self, role: int) -> None:
        self._processes[role].join(1.0)
        raise LearningFailure(
            f"the {NAMES[role]} died (exit code {self._processes[role].exitcode}); the last checkpoint can be resumed"
        )
