"""The process of one or several environments: waits for an action, steps, writes the outcome to the environment's
shared row, says so.

It sleeps in a pipe read while it has nothing to do, and ends when the learner's process does. Several environments it
steps one at a time, in the order in which their actions came. No torch here.
"""

from __future__ import annotations

import gc
import os
import signal
import struct
import time
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from ver_core.shared_rows import FAILED, RUNNING, TERMINATED, TRUNCATED, Layout, SharedRows
from ver_core.spaces import ActionLayout, ObsLayout

MakeEnv = Callable[[], gymnasium.Env[Any, Any]]
"""Makes an environment; must be picklable, since it is called in the worker's process."""
REQUEST = struct.Struct("<HH")
"""What a worker posts when a row is ready: environment and incarnation."""
WAKE = struct.Struct("<H")
"""What wakes a worker: the environment whose next action lies in its row."""
LARGEST = float(np.finfo(np.float32).max)
"""A reward beyond would be infinite in its row."""


class NonFinite(ValueError):
    """NaN or infinity in an observation or a reward: learnt from, it would spoil the policy silently."""


@dataclass(frozen=True)
class Assignment:
    """An environment for a worker to play. Its state is never saved: it is replayed from the last seed."""

    env: int
    incarnation: int
    """Counts the restarts, so that a dead worker's last request is not taken for the new one's."""
    entropy: tuple[int, ...]
    """Seed of the run and rank of the process."""
    episodes_per_seed: int
    group: int
    """Number of the seed to start from."""
    actions: NDArray[np.float32]
    """(n, A) actions to replay since then."""
    unseen: bool
    """Whether the learner has yet to see what the last of them led to."""


def run(
    make_env: MakeEnv,
    layout: Layout,
    rows_name: str,
    tasks: Sequence[Assignment],
    wake: Connection,
    requests: Connection,
    mailboxes: Sequence[Connection],
) -> None:
    """Play until told to quit (the end of `wake`). Each task has a mailbox."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, signal.SIG_IGN)  # a signal to the whole group is the learner's business
    gc.freeze()  # the collector would write to, and so copy, all that the workers share with the server
    rows = SharedRows(layout, rows_name)
    wake_fd, requests_fd = wake.fileno(), requests.fileno()
    posts = {task.env: REQUEST.pack(task.env, task.incarnation) for task in tasks}
    mail = {task.env: mailbox for task, mailbox in zip(tasks, mailboxes, strict=True)}
    players: dict[int, _Player] = {}
    env = tasks[0].env  # whose turn it is
    try:
        try:
            for task in tasks:
                env = task.env
                players[env] = _Player(make_env(), rows, task, mail[env])
                players[env].begin()
            for post in posts.values():  # not before: an answer would have to wait until the others are made
                os.write(requests_fd, post)
            while woken := os.read(wake_fd, WAKE.size * len(tasks)):
                for (env,) in WAKE.iter_unpack(woken):
                    players[env].play(rows.action[env])
                    os.write(requests_fd, posts[env])
            for env in players:  # noqa: B007 - whose turn it is
                players[env].env.close()
        except (BrokenPipeError, KeyboardInterrupt):
            pass  # the learner is gone
        except Exception as error:
            # Cut off, to fit into the pipe: nobody reads it before the request is posted.
            mail[env].send((type(error).__name__, _one_line(error), traceback.format_exc()[:10_000]))
            rows.status[env] = FAILED
            os.write(requests_fd, posts[env])
    except OSError:
        pass
    finally:
        os._exit(0)  # no destructors: simulators and GL drivers like to hang or crash in theirs


class _Player:
    """An environment with its seeds and its episode's sums."""

    def __init__(self, env: gymnasium.Env[Any, Any], rows: SharedRows, task: Assignment, mailbox: Connection) -> None:
        self.env, self._rows, self._task, self._mailbox = env, rows, task, mailbox
        self._obs_layout = ObsLayout(env.observation_space)
        self._action_layout = ActionLayout(env.action_space)
        self._group, self._episode = task.group, 0
        self._return, self._length = 0.0, 0
        index = task.env
        self._floats, self._bytes = rows.floats[index], rows.bytes[index]
        self._final_floats, self._final_bytes = rows.final_floats[index], rows.final_bytes[index]

    def begin(self) -> None:
        """Reset with the group's seed, then replay."""
        self._rows.status[self._task.env] = RUNNING
        self._reset(self._seed())
        last = len(self._task.actions) - 1
        for number, action in enumerate(self._task.actions):
            self._step(action, replay=number < last or not self._task.unseen)

    def play(self, flat: NDArray[np.float32]) -> None:
        """Make one step and account for it."""
        rows, index = self._rows, self._task.env
        start = time.perf_counter()
        self._step(flat, replay=False)
        rows.busy_s[index] += time.perf_counter() - start
        rows.steps[index] += 1

    def _step(self, flat: NDArray[np.float32], replay: bool) -> None:
        rows, index = self._rows, self._task.env
        observation, reward, terminated, truncated, info = self.env.step(self._action_layout.decode(flat))
        gained = float(reward)
        self._return += gained
        self._length += 1
        if not abs(gained) <= LARGEST:  # NaN neither
            raise NonFinite(f"reward of {gained} in {self._where()}")
        rows.reward[index] = gained
        if not (terminated or truncated):
            self._write(observation, self._floats, self._bytes)
            rows.status[index] = RUNNING
            return
        if not terminated:
            self._write(observation, self._final_floats, self._final_bytes)
        rows.status[index] = TERMINATED if terminated else TRUNCATED
        if not replay:
            self._mailbox.send({**_scalars(info), "return": self._return, "length": self._length})
        self._episode += 1
        if self._episode == self._task.episodes_per_seed:
            self._group, self._episode = self._group + 1, 0
        self._reset(self._seed() if self._episode == 0 else None)

    def _reset(self, seed: int | None) -> None:
        observation, _ = self.env.reset(seed=seed)
        self._return, self._length = 0.0, 0
        self._write(observation, self._floats, self._bytes)
        self._rows.group[self._task.env] = self._group

    def _seed(self) -> int:
        entropy = (*self._task.entropy, self._task.env, self._group)
        return int(np.random.SeedSequence(entropy).generate_state(1)[0])

    def _write(self, observation: Any, floats: NDArray[np.float32], bytes_: NDArray[np.uint8]) -> None:
        self._obs_layout.pack(observation, floats, bytes_)
        finite = np.isfinite(floats)
        if not finite.all():
            key = self._obs_layout.name_at(int(np.flatnonzero(~finite)[0]))
            raise NonFinite(f"NaN or infinity as observation {key!r} in {self._where()}")

    def _where(self) -> str:
        return f"environment {self._task.env}, step {self._length} of episode {self._episode} since seed {self._seed()}"


def _scalars(info: dict[str, Any]) -> dict[str, float | str]:
    """What can be averaged or counted over episodes."""
    return {
        key: value if isinstance(value, str) else float(value)
        for key, value in info.items()
        if isinstance(value, bool | int | float | np.number | np.bool_ | str)
    }


def _one_line(error: Exception) -> str:
    return " ".join(str(error).split())[:1000] or type(error).__name__
