"""The env workers' processes: starting, waking, watching and replacing them.

A request travels as four bytes in a pipe that all workers write to: one read takes every outstanding request at once,
sleeping costs nothing, and a worker killed at any moment leaves no lock behind. An action travels as a row in shared
memory and one byte in the worker's own pipe.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import select
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from multiprocessing.context import ForkServerContext
from multiprocessing.process import BaseProcess
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from ver_core import env_worker
from ver_core.env_worker import REQUEST, Assignment, MakeEnv
from ver_core.shared_rows import FAILED, RUNNING, Layout, SharedRows
from ver_core.spaces import ActionLayout, ObsLayout

LEARNERS_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)
REPLAYED_STEP_S = 0.2
"""A worker gets so much more time to start for each action that it has to replay."""
WATCH_S = 1.0
"""How often hung workers are looked for."""


class EnvironmentFailure(RuntimeError):
    """An environment that cannot be made or played; the message is one line."""


@dataclass
class Replay:
    """Where an environment stands: the number of its seed, and the actions (n, A) since."""

    group: int
    actions: NDArray[np.float32]
    unseen: bool = False
    """Whether the outcome of the last action is still to be learnt from."""


@dataclass
class _Worker:
    process: BaseProcess
    wake: Connection
    mailbox: Connection
    incarnation: int
    due: float
    """When it counts as hung (time.monotonic); infinity while it waits for an action."""
    started: bool = False
    """Whether its first observation has come."""


def context(make_env: MakeEnv) -> ForkServerContext:
    """Processes fork from a clean server that has imported the factory's module: they start fast and share memory."""
    chosen = multiprocessing.get_context("forkserver")
    factory: Any = make_env
    while hasattr(factory, "func"):  # functools.partial
        factory = factory.func
    module = getattr(factory, "__module__", "__main__")
    if module != "__main__":
        chosen.set_forkserver_preload([module, env_worker.__name__])
    return chosen


def probe(make_env: MakeEnv, timeout_s: float) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
    """Return the observation and action space, from a process of its own: simulators stay out of the learner's."""
    chosen = context(make_env)
    ours, theirs = chosen.Pipe(duplex=False)
    process = chosen.Process(target=_probe, args=(make_env, theirs), daemon=True)
    with _starting():
        process.start()
    theirs.close()
    try:
        if not ours.poll(timeout_s):
            raise EnvironmentFailure(
                f"the environment could not be made within {timeout_s:g} s (train.start_timeout_s)"
            )
        found = ours.recv()
    except EOFError:
        raise EnvironmentFailure("the process that made the environment died without a word") from None
    finally:
        process.kill()
        process.join()
        ours.close()
    if isinstance(found, str):
        raise EnvironmentFailure(f"the environment could not be made: {found}")
    observation_space, action_space = found
    return observation_space, action_space


def _probe(make_env: MakeEnv, answer: Connection) -> None:
    try:
        env = make_env()
        answer.send((env.observation_space, env.action_space))
    except Exception as error:
        answer.send(" ".join(f"{type(error).__name__}: {error}".split()))
    answer.close()
    os._exit(0)


class WorkerPool:
    """N environments, each in a process of its own."""

    rows: SharedRows
    restarts: int
    """Workers replaced so far."""
    groups: list[int]
    """The seed that each environment was last started with."""
    lost: list[int]
    """Environments whose worker was replaced since the caller last emptied this list; each will post a request with
    the first observation of a new episode."""

    def __init__(
        self,
        make_env: MakeEnv,
        obs: ObsLayout,
        action: ActionLayout,
        num_envs: int,
        seed: tuple[int, ...],
        replays: Sequence[Replay] | None = None,
        episodes_per_seed: int = 8,
        step_timeout_s: float = 60.0,
        start_timeout_s: float = 300.0,
        max_restarts: int = 20,
        logger: logging.Logger | None = None,
    ) -> None:
        self._make_env, self._seed = make_env, seed
        self._episodes_per_seed = episodes_per_seed
        self._step_timeout_s, self._start_timeout_s = step_timeout_s, start_timeout_s
        self._max_restarts, self._fruitless = max_restarts, 0
        self._logger = logger or logging.getLogger(__name__)
        self._layout = Layout.of(num_envs, obs, action)
        self.rows = SharedRows(self._layout)
        self.restarts, self.lost = 0, []
        self._context = context(make_env)
        self._requests, self._post = self._context.Pipe(duplex=False)
        self._poll = select.poll()
        self._poll.register(self._requests.fileno(), select.POLLIN)
        self._by_sentinel: dict[int, int] = {}
        self._next_watch = time.monotonic() + WATCH_S
        no_actions = np.zeros((0, action.size), np.float32)
        self.groups = [0] * num_envs
        self._asked = [False] * num_envs
        self._lock = threading.Lock()
        self._workers: list[_Worker] = []
        try:
            for env in range(num_envs):
                replay = replays[env] if replays else Replay(0, no_actions)
                self.groups[env] = replay.group
                self._workers.append(self._start(env, 0, replay))
        except BaseException:
            self.close()
            raise

    def take(self, limit: int, timeout_s: float) -> list[int]:
        """Return up to `limit` environments that have posted a request, waiting for the first one if there is none.

        Each of them waits for an action now; its row holds what the last one led to. Empty after `timeout_s`, after a
        signal, or when a worker had to be replaced. Raises `EnvironmentFailure` if that was once too often.
        """
        ready = [descriptor for descriptor, _ in self._poll.poll(timeout_s * 1e3)]
        for descriptor in ready:
            if descriptor in self._by_sentinel:  # before the requests: a dead worker's last one is void
                env = self._by_sentinel[descriptor]
                if self.rows.status[env] == FAILED:
                    self._failed(env)
                else:
                    self._bury(env, "died")
        found = self._read(limit) if self._requests.fileno() in ready else []
        if time.monotonic() > self._next_watch:
            self._watch()
        return found

    def send(self, envs: Sequence[int]) -> None:
        """Let environments make the step that `rows.action` asks of them."""
        due = time.monotonic() + self._step_timeout_s
        with self._lock:
            for env in envs:
                if not self._asked[env]:
                    continue  # its worker was replaced in the meantime
                self._asked[env] = False
                worker = self._workers[env]
                worker.due = due
                with suppress(BrokenPipeError):  # dead: the next `take` finds out
                    os.write(worker.wake.fileno(), b"s")

    def episode(self, env: int) -> dict[str, float | str] | None:
        """Return what the episode that just ended came to: its info's numbers and words, `return` and `length`.

        None if the worker, which waited for an action, has been replaced in the meantime.
        """
        with self._lock:
            if not self._asked[env]:
                return None
            self._fruitless = 0
            found: dict[str, float | str] = self._workers[env].mailbox.recv()
            return found

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.wake.close()  # the end of its pipe tells it to quit
        deadline = time.monotonic() + 1.0
        for worker in self._workers:
            worker.process.join(max(0.0, deadline - time.monotonic()))
            if worker.process.is_alive():
                worker.process.kill()
                worker.process.join()
            worker.mailbox.close()
            worker.process.close()
        self._workers = []
        self._requests.close()
        self._post.close()
        self.rows.close()

    def pids(self) -> list[int]:
        """Return the workers' process ids."""
        return [worker.process.pid or 0 for worker in self._workers]

    # -- inside ----------------------------------------------------------------------------------------------------

    def _start(self, env: int, incarnation: int, replay: Replay) -> _Worker:
        theirs_wake, ours_wake = self._context.Pipe(duplex=False)
        ours_mail, theirs_mail = self._context.Pipe(duplex=False)
        task = Assignment(
            env, incarnation, self._seed, self._episodes_per_seed, replay.group, replay.actions, replay.unseen
        )
        process = self._context.Process(
            target=env_worker.run,
            args=(self._make_env, self._layout, self.rows.name, task, theirs_wake, self._post, theirs_mail),
            name=f"env {env}",
            daemon=True,
        )
        with _starting():
            process.start()
        theirs_wake.close()
        theirs_mail.close()
        self._poll.register(process.sentinel, select.POLLIN)
        self._by_sentinel[process.sentinel] = env
        due = time.monotonic() + self._start_timeout_s + REPLAYED_STEP_S * len(replay.actions)
        return _Worker(process, ours_wake, ours_mail, incarnation, due)

    def _read(self, limit: int) -> list[int]:
        found = []
        for env, incarnation in REQUEST.iter_unpack(os.read(self._requests.fileno(), REQUEST.size * limit)):
            worker = self._workers[env]
            if incarnation != worker.incarnation:
                continue  # the last words of a worker that has been replaced
            if self.rows.status[env] == FAILED:
                self._failed(env)
                continue
            worker.due, worker.started, self._asked[env] = float("inf"), True, True
            found.append(env)
        return found

    def _failed(self, env: int) -> None:
        words: Any = {}
        while isinstance(words, dict):  # an episode that ended in the same step
            words = self._workers[env].mailbox.recv()
        kind, message, trace = words
        if kind == env_worker.NonFinite.__name__:
            raise EnvironmentFailure(message)
        if not self._workers[env].started and self._workers[env].incarnation == 0:
            raise EnvironmentFailure(f"environment {env} could not be started: {kind}: {message}")
        self._logger.info("environment %d:\n%s", env, trace)
        self._bury(env, f"raised {kind}: {message}")

    def _watch(self) -> None:
        now = time.monotonic()
        self._next_watch = now + WATCH_S
        for env, worker in enumerate(self._workers):
            if now > worker.due:
                waited = self._step_timeout_s if worker.started else self._start_timeout_s
                self._bury(env, f"did not answer within {waited:g} s")

    def _bury(self, env: int, what: str) -> None:
        """Replace a worker; its partial episode is lost."""
        with self._lock:
            self._asked[env] = False
        worker = self._workers[env]
        worker.process.kill()
        self._poll.unregister(worker.process.sentinel)
        del self._by_sentinel[worker.process.sentinel]
        worker.process.join()
        if what == "died":
            what = f"died (exit code {worker.process.exitcode})"
        if self.rows.status[env] == FAILED:  # or the new worker would seem to have failed until it has begun
            self.rows.status[env] = RUNNING
        self.restarts += 1
        self._fruitless += 1
        if self._fruitless > self._max_restarts:
            raise EnvironmentFailure(
                f"environment {env} {what}; {self._fruitless} workers were replaced and no episode ended in between"
            )
        self._logger.warning("environment %d %s: started again, its partial episode is dropped", env, what)
        # A new seed: the old one would only lead to the same end.
        group = max(self.groups[env], int(self.rows.group[env])) + 1
        self.groups[env] = group
        none = np.zeros((0, self._layout.action), np.float32)
        self._workers[env] = self._start(env, worker.incarnation + 1, Replay(group, none))
        worker.process.close()
        worker.wake.close()
        worker.mailbox.close()
        self.lost.append(env)


@contextmanager
def _starting() -> Iterator[None]:
    """Start processes that leave signals to the learner's, and whose numeric libraries use one thread.

    Signals come to a whole process group (Ctrl-C, SLURM, `timeout`); the server that the workers fork from would die of
    them, so they are blocked in it from the start. There are as many environments as cores, or more.
    """
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in names}
    os.environ.update({name: value or "1" for name, value in before.items()})
    resource_tracker.ensure_running()  # or it would start now, before the server, and unblock some of them
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, LEARNERS_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
