"""The env workers' processes: starting, waking, watching and replacing them.

A request travels as four bytes in a pipe that all workers write to: one read takes every outstanding request at once,
sleeping costs nothing, and a worker killed at any moment leaves no lock behind. An action travels as a row in shared
memory and two bytes in the worker's own pipe.

A worker plays one environment, or several in turn. It is the unit that fails: what one of its environments does wrong
costs all of them their episodes.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import select
import signal
import sys
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
from ver_core.env_worker import REQUEST, WAKE, Assignment, MakeEnv
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
    envs: range
    process: BaseProcess
    wake: Connection
    mailboxes: list[Connection]
    """One for each of `envs`."""
    incarnation: int
    due: float
    """When it counts as hung (time.monotonic); infinity while it waits for an action."""
    owed: list[int]
    """Environments whose requests are to come; once started, in the order in which it plays them."""
    new: bool
    """Whether it is the first of a run that is not resumed: if it cannot even begin, nobody will."""
    started: bool = False
    """Whether its first observations have come."""

    def __str__(self) -> str:
        first, last = self.envs[0], self.envs[-1]
        return f"environment {first}" if first == last else f"environments {first} to {last}"


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
    with starting():
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
    """N environments, in processes of `envs_per_worker` each; the last one may have fewer."""

    rows: SharedRows
    restarts: int
    """Workers replaced so far."""
    nonfinite: int
    """Of these, how many because of an observation or a reward that was NaN or infinite."""
    failed: set[int]
    """Environments whose worker failed since the caller last emptied this set."""
    groups: list[int]
    """The seed that each environment was last started with."""
    lost: list[int]
    """Environments whose worker was replaced since the caller last emptied this list, all that it played; each will
    post a request with the first observation of a new episode."""

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
        envs_per_worker: int = 1,
        logger: logging.Logger | None = None,
    ) -> None:
        self._make_env, self._seed = make_env, seed
        self._episodes_per_seed = episodes_per_seed
        self._step_timeout_s, self._start_timeout_s = step_timeout_s, start_timeout_s
        self._max_restarts, self._fruitless = max_restarts, 0
        self._logger = logger or logging.getLogger(__name__)
        self._layout = Layout.of(num_envs, obs, action)
        self.rows = SharedRows(self._layout)
        self.restarts, self.nonfinite, self.lost, self.failed = 0, 0, [], set()
        self._context = context(make_env)
        self._requests, self._post = self._context.Pipe(duplex=False)
        self._poll = select.poll()
        self._poll.register(self._requests.fileno(), select.POLLIN)
        self._by_sentinel: dict[int, int] = {}  # numbers of workers
        self._next_watch = time.monotonic() + WATCH_S
        no_actions = np.zeros((0, action.size), np.float32)
        self.groups = [0] * num_envs
        self._asked = [False] * num_envs
        self._lock = threading.Lock()
        self._envs_per_worker = envs_per_worker
        self._workers: list[_Worker] = []
        replays = replays or [Replay(0, no_actions)] * num_envs
        try:
            for first in range(0, num_envs, envs_per_worker):
                envs = range(first, min(first + envs_per_worker, num_envs))
                self._workers.append(self._start(envs, 0, replays[envs.start : envs.stop]))
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
                worker = self._workers[self._by_sentinel[descriptor]]
                failed = [env for env in worker.envs if self.rows.status[env] == FAILED]
                if failed:
                    self._failed(failed[0])
                else:
                    self._bury(worker, str(worker), "died")
        found = self._read(limit) if self._requests.fileno() in ready else []
        if time.monotonic() > self._next_watch:
            self._watch()
        return [env for env in found if self._asked[env]]  # not those that fell with another one of their worker's

    def send(self, envs: Sequence[int]) -> None:
        """Let environments make the step that `rows.action` asks of them."""
        with self._lock:
            turns: dict[int, list[int]] = {}
            for env in envs:
                if not self._asked[env]:
                    continue  # its worker was replaced in the meantime
                self._asked[env] = False
                turns.setdefault(env // self._envs_per_worker, []).append(env)
            for number, turn in turns.items():
                worker = self._workers[number]
                if not worker.owed:
                    worker.due = time.monotonic() + self._step_timeout_s
                worker.owed += turn
                with suppress(BrokenPipeError):  # dead: the next `take` finds out
                    os.write(worker.wake.fileno(), b"".join(map(WAKE.pack, turn)))

    def episode(self, env: int) -> dict[str, float | str] | None:
        """Return what the episode that just ended came to: its info's numbers and words, `return` and `length`.

        None if the worker, which waited for an action, has been replaced in the meantime.
        """
        with self._lock:
            if not self._asked[env]:
                return None
            self._fruitless = 0
            found: dict[str, float | str] = self._mailbox(env).recv()
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
            for mailbox in worker.mailboxes:
                mailbox.close()
            worker.process.close()
        self._workers = []
        self._requests.close()
        self._post.close()
        self.rows.close()

    def pids(self) -> list[int]:
        """Return the workers' process ids, in the order of their environments."""
        return [worker.process.pid or 0 for worker in self._workers]

    # -- inside ----------------------------------------------------------------------------------------------------

    def _worker(self, env: int) -> _Worker:
        return self._workers[env // self._envs_per_worker]

    def _mailbox(self, env: int) -> Connection:
        return self._worker(env).mailboxes[env % self._envs_per_worker]

    def _start(self, envs: range, incarnation: int, replays: Sequence[Replay]) -> _Worker:
        theirs_wake, ours_wake = self._context.Pipe(duplex=False)
        mail = [self._context.Pipe(duplex=False) for _ in envs]
        tasks: list[Assignment] = []
        for env, replay in zip(envs, replays, strict=True):
            self.groups[env] = replay.group
            tasks.append(
                Assignment(
                    env, incarnation, self._seed, self._episodes_per_seed, replay.group, replay.actions, replay.unseen
                )
            )
        process = self._context.Process(
            target=env_worker.run,
            args=(
                self._make_env, self._layout, self.rows.name, tasks, theirs_wake, self._post,
                [theirs for _, theirs in mail],
            ),
            name=f"env {envs[0]}" if len(envs) == 1 else f"env {envs[0]}-{envs[-1]}",
            daemon=True,
        )  # fmt: skip
        with starting():
            process.start()
        theirs_wake.close()
        for _, theirs in mail:
            theirs.close()
        self._poll.register(process.sentinel, select.POLLIN)
        self._by_sentinel[process.sentinel] = envs[0] // self._envs_per_worker
        # One starts after the other, and nobody answers before the last.
        patience_s = sum(self._start_timeout_s + REPLAYED_STEP_S * len(replay.actions) for replay in replays)
        due = time.monotonic() + patience_s
        new = incarnation == 0 and not any(len(replay.actions) or replay.group for replay in replays)
        return _Worker(envs, process, ours_wake, [ours for ours, _ in mail], incarnation, due, list(envs), new)

    def _read(self, limit: int) -> list[int]:
        found = []
        for env, incarnation in REQUEST.iter_unpack(os.read(self._requests.fileno(), REQUEST.size * limit)):
            worker = self._worker(env)
            if incarnation != worker.incarnation:
                continue  # the last words of a worker that has been replaced
            if self.rows.status[env] == FAILED:
                self._failed(env)
                continue
            with self._lock:  # another thread may be giving it more to do
                worker.owed.remove(env)
                # Only the next one's time begins: waiting for one's turn is not hanging.
                worker.due = time.monotonic() + self._step_timeout_s if worker.owed else float("inf")
                worker.started, self._asked[env] = True, True
            found.append(env)
        return found

    def _failed(self, env: int) -> None:
        worker = self._worker(env)
        words: Any = {}
        while isinstance(words, dict):  # an episode that ended in the same step
            words = self._mailbox(env).recv()
        kind, message, trace = words
        spoilt = kind == env_worker.NonFinite.__name__
        if not worker.started and worker.new:
            raise EnvironmentFailure(f"environment {env} could not be started: {kind}: {message}")
        self.nonfinite += spoilt
        if not spoilt:
            self._logger.info("environment %d:\n%s", env, trace)
        self._bury(worker, f"environment {env}", f"gave a {message}" if spoilt else f"raised {kind}: {message}")

    def _watch(self) -> None:
        now = time.monotonic()
        self._next_watch = now + WATCH_S
        for worker in self._workers:
            if now > worker.due:
                who = f"environment {worker.owed[0]}" if worker.started else str(worker)
                waited = self._step_timeout_s if worker.started else self._start_timeout_s * len(worker.envs)
                self._bury(worker, who, f"did not answer within {waited:g} s")

    def _bury(self, worker: _Worker, who: str, what: str) -> None:
        """Replace a worker; its environments' partial episodes are lost."""
        with self._lock:
            for env in worker.envs:
                self._asked[env] = False
                self.groups[env] = max(self.groups[env], int(self.rows.group[env]))
        self.failed.update(worker.envs)
        worker.process.kill()
        self._poll.unregister(worker.process.sentinel)
        number = self._by_sentinel.pop(worker.process.sentinel)
        worker.process.join()
        if what == "died":
            what = f"died (exit code {worker.process.exitcode})"
        for env in worker.envs:  # or the new worker would seem to have failed until it has begun
            if self.rows.status[env] == FAILED:
                self.rows.status[env] = RUNNING
        self.restarts += 1
        self._fruitless += 1
        if self._fruitless > self._max_restarts:
            raise EnvironmentFailure(
                f"{who} {what}; {self._fruitless} workers were replaced and no episode ended in between"
            )
        again = "started again" if who == str(worker) else f"{worker} started again"
        dropped = "its partial episode is" if len(worker.envs) == 1 else "their partial episodes are"
        self._logger.warning("%s %s: %s, %s dropped", who, what, again, dropped)
        # New seeds: the old ones would only lead to the same end.
        none = np.zeros((0, self._layout.action), np.float32)
        replays = [Replay(self.groups[env] + 1, none) for env in worker.envs]
        self._workers[number] = self._start(worker.envs, worker.incarnation + 1, replays)
        worker.process.close()
        worker.wake.close()
        for mailbox in worker.mailboxes:
            mailbox.close()
        self.lost += worker.envs


@contextmanager
def starting() -> Iterator[None]:
    """Start processes that leave signals to the learner's, and whose numeric libraries use one thread.

    Signals come to a whole process group (Ctrl-C, SLURM, `timeout`); the server that the workers fork from would die of
    them, so they are blocked in it from the start. There are as many environments as cores, or more. And Python 3.11's
    server does not look for the factory's module beside the script, as this process does, unless PYTHONPATH says so.
    """
    threads = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    before = {name: os.environ.get(name) for name in (*threads, "PYTHONPATH")}
    os.environ.update({name: before[name] or "1" for name in threads})
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    # It would start now, before the server. It ignores those two that it unblocks here, and would die of the others.
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, LEARNERS_SIGNALS)
    resource_tracker.ensure_running()
    signal.pthread_sigmask(signal.SIG_BLOCK, LEARNERS_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
