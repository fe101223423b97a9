"""Inference: takes requests, runs the policy on them, sends the actions off, writes finished steps to the rollout."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from ver_core.inference import DeviceInference, Inference
from ver_core.policy import RecurrentPolicy
from ver_core.rollout import WIDE, Native, Rollout, native, wide_columns
from ver_core.schedulers import Scheduler
from ver_core.shared_rows import RUNNING, TERMINATED, TRUNCATED, Layout
from ver_core.worker_pool import Replay, WorkerPool

POLL_S = 0.1
"""Longest wait before signals and preemption are looked at again."""
HISTORY_LIMIT = 50_000
"""Most actions of an environment that a resume replays."""
NOISE_BLOCK = 256
"""Steps of noise drawn at once for an environment."""


@dataclass
class Collection:
    """How one rollout was collected."""

    seconds: float = 0.0
    wait_s: float = 0.0
    """Spent waiting for environments."""
    inference_s: float = 0.0
    """Spent on the policy and on bookkeeping."""
    batches: int = 0
    requests: int = 0
    complete: bool = True
    """False if `stop` ended it: then it must not be learnt from."""
    preempted: bool = False
    error: BaseException | None = None
    """The first that an inference worker raised; the others end at their next request."""


class Noise:
    """Uniform numbers for sampling actions: a stream for each environment, wherever its requests are served."""

    def __init__(self, seed: tuple[int, ...], num_envs: int, size: int) -> None:
        self._seed, self._size = seed, size
        self.used = np.zeros(num_envs, np.int64)
        """Numbers of steps drawn for."""
        self._block = np.full(num_envs, -1)
        self._values = np.zeros((num_envs, NOISE_BLOCK, size), np.float32)

    def draw(self, envs: NDArray[np.int64]) -> NDArray[np.float32]:
        """Return (n, size) numbers in (0, 1), the next ones of each environment."""
        used = self.used[envs]
        for env in envs[self._block[envs] != used // NOISE_BLOCK]:
            block = int(self.used[env]) // NOISE_BLOCK
            rng = np.random.default_rng((*self._seed, int(env), block))
            # The middle of each of 2^24 equal bins: never 0 or 1.
            bins = rng.integers(0, 2**24, (NOISE_BLOCK, self._size), dtype=np.int64)
            self._values[env] = ((bins + 0.5) / 2**24).astype(np.float32).clip(2.0**-25, 1 - 2.0**-24)
            self._block[env] = block
        self.used[envs] = used + 1
        return self._values[envs, used % NOISE_BLOCK]

    def middle(self, count: int) -> NDArray[np.float32]:
        """Return (count, size) numbers for rows whose actions nobody plays."""
        return np.full((count, self._size), 0.5, np.float32)


class Collector:
    """The inference workers of one process, and what they remember of each environment between its steps."""

    def __init__(
        self,
        pool: WorkerPool,
        policy: RecurrentPolicy,
        scheduler: Scheduler,
        layout: Layout,
        device: torch.device,
        seed: tuple[int, ...],
        workers: int = 1,
    ) -> None:
        n = layout.num_envs
        self.pool, self.scheduler = pool, scheduler
        self._layout, self._device = layout, device
        self.use(policy, 0)
        self.episodes: deque[dict[str, float | str]] = deque(maxlen=10_000)
        """What finished episodes came to; the caller takes them out."""
        self._noise = Noise((*seed, 1), n, policy.noise_size)
        # What every environment's next or pending step starts from.
        self._state: Native = native(torch.zeros((n, policy.state_size), device=device))
        self._last_action: Native = native(torch.zeros((n, layout.action), device=device))
        self._no_action = self._native(policy.action_layout.none)
        self._begin = np.ones(n, np.bool_)
        # Actions since the environment's seed; None: too many of them.
        self._history: list[list[NDArray[np.float32]] | None] = [[] for _ in range(n)]
        self._group = np.zeros(n, np.int64)
        # The step that is in flight, or has come back and waits to be completed.
        self._pending = np.zeros(n, np.bool_)
        wide = wide_columns(n, layout, policy.state_size, device)
        self._wide = {name: native(column) for name, column in wide.items()}
        self._log_prob, self._value = np.zeros(n, np.float32), np.zeros(n, np.float32)
        self._start, self._version = np.zeros(n, np.bool_), np.zeros(n, np.int64)
        self._sent_at = np.full(n, np.nan)
        self._cycle_s, self._cycles = np.zeros(n), np.zeros(n, np.int64)
        self._waiting: list[int] = []
        self._taking, self._booking = threading.Lock(), threading.Lock()
        self._in_service = 0
        self._threads = ThreadPoolExecutor(workers - 1, "inference") if workers > 1 else None
        self._workers = workers

    def use(self, policy: RecurrentPolicy, version: int) -> None:
        """Act by `policy` from the next batch on; every step says by which version its action was chosen.

        Its weights must not change while a rollout is being collected.
        """
        self._weights = (Inference(policy) if self._device.type == "cpu" else DeviceInference(policy)), version

    def collect(
        self,
        rollout: Rollout,
        stop: Callable[[], bool] = lambda: False,
        preempt: Callable[[], bool] | None = None,
    ) -> Collection:
        """Fill `rollout` as the scheduler says, until it is complete, `preempt()` or `stop()`."""
        started = time.perf_counter()
        rollout.clear()
        self.scheduler.begin()
        self._cycle_s[:], self._cycles[:] = 0.0, 0
        self._sent_at[:] = np.nan  # learning does not count as the time of a step
        result = Collection()
        others = [
            self._threads.submit(self._work, rollout, result, stop, preempt)
            for _ in range(self._workers - 1)
            if self._threads
        ]
        self._work(rollout, result, stop, preempt)
        for other in others:
            other.result()
        if result.error is not None:
            raise result.error
        result.seconds = time.perf_counter() - started
        return result

    def step_times_s(self) -> NDArray[np.float64]:
        """(N,) mean seconds from one action of an environment to its next, in the last rollout; nan if it made none."""
        with np.errstate(invalid="ignore"):
            return self._cycle_s / self._cycles

    def close(self) -> None:
        if self._threads:
            self._threads.shutdown()

    # -- resuming --------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Copy all that has to be known to go on from here, between rollouts.

        An environment whose history has grown too long starts afresh then.
        """
        afresh = np.array([history is None for history in self._history])
        return {
            "noise_used": self._noise.used.copy(),
            "state": _copy(self._state),
            "last_action": _copy(self._last_action),
            "begin": self._begin | afresh,
            "group": self._group + afresh,
            # Lists that only ever grow: their lengths are all that has to be copied now.
            "history": [(history or [], len(history or [])) for history in self._history],
            "pending": self._pending & ~afresh,
            "wide": {name: _copy(column) for name, column in self._wide.items()},
            "log_prob": self._log_prob.copy(),
            "value": self._value.copy(),
            "start": self._start.copy(),
            "version": self._version.copy(),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from a snapshot; the pool must have been started with its `replays`."""
        self._noise.used[:] = saved["noise_used"]
        self._state[:] = saved["state"]
        self._last_action[:] = saved["last_action"]
        for name, column in self._wide.items():
            column[:] = saved["wide"][name]
        for name in ("begin", "group", "pending", "log_prob", "value", "start", "version"):
            getattr(self, f"_{name}")[:] = np.asarray(saved[name])
        self._history = [list(replay.actions) for replay in replays(saved)]

    # -- one inference worker --------------------------------------------------------------------------------------

    def _work(
        self, rollout: Rollout, result: Collection, stop: Callable[[], bool], preempt: Callable[[], bool] | None
    ) -> None:
        try:
            while True:
                # Leader and followers: one worker waits for requests while the others compute.
                with self._taking:
                    envs, act = self._take(result, stop, preempt)
                if not envs:
                    return
                started = time.perf_counter()
                try:
                    # Sorted: no sum is rounded otherwise because somebody else asked first.
                    self._serve(np.sort(envs), act, rollout)
                finally:
                    with self._booking:
                        self._in_service -= 1
                        result.inference_s += time.perf_counter() - started
        except BaseException as error:
            result.error = result.error or error

    def _take(
        self, result: Collection, stop: Callable[[], bool], preempt: Callable[[], bool] | None
    ) -> tuple[list[int], bool]:
        """Wait until the scheduler lets somebody step. Nobody: the rollout is over."""
        fresh = True
        while not self.scheduler.complete and result.error is None:
            if stop():
                result.complete = False
                break
            if preempt is not None and not result.preempted and preempt():
                result.preempted = True
                self.scheduler.preempt()
                continue
            started = time.perf_counter()
            found = self.pool.take(self._layout.num_envs, 0.0 if fresh and self._waiting else POLL_S)
            result.wait_s += time.perf_counter() - started
            if self.pool.lost:
                self._forget_lost()
            self._waiting += found
            envs, act = self.scheduler.choose(self._waiting, self._pending)
            if envs:
                if act:  # else they still wait
                    chosen = set(envs)
                    self._waiting = [env for env in self._waiting if env not in chosen]
                with self._booking:
                    self._in_service += 1
                result.batches += 1
                result.requests += len(envs)
                return envs, act
            fresh = False
        return [], True

    def _forget_lost(self) -> None:
        """Drop the pending steps of environments whose worker was replaced."""
        while self._in_service:  # another thread may be writing down such a step right now
            time.sleep(1e-3)
        for env in self.pool.lost:
            self._pending[env], self._begin[env] = False, True
            self._history[env], self._group[env] = [], self.pool.groups[env]
            self._sent_at[env] = np.nan
            self._waiting = [other for other in self._waiting if other != env]
        self.pool.lost.clear()

    def _serve(self, envs: NDArray[np.int64], act: bool, rollout: Rollout) -> None:
        """Answer the environments' requests and complete the steps that led to them."""
        rows, n = self.pool.rows, len(envs)
        pending = self._pending[envs]
        status = np.where(pending, rows.status[envs], RUNNING)
        floats, bytes_, reward = rows.floats[envs], rows.bytes[envs], rows.reward[envs]
        ended = status != RUNNING
        if ended.any():
            self._note_episodes(envs[ended])
            self._begin[envs] |= ended
        begin = self._begin[envs]
        index = self._native(envs)
        state, previous = self._state[index], self._last_action[index]
        cut = np.flatnonzero(status == TRUNCATED)
        noise = self._noise.draw(envs) if act else self._noise.middle(n)
        if len(cut):
            # The final observation of a truncated episode is one more row, which goes on from the episode's state.
            floats = np.concatenate((floats, rows.final_floats[envs[cut]]))
            bytes_ = np.concatenate((bytes_, rows.final_bytes[envs[cut]]))
            again = self._native(np.append(np.arange(n), cut))
            state, previous = state[again], previous[again]
            noise = np.concatenate((noise, self._noise.middle(len(cut))))
        if begin.any():
            fresh = self._native(np.flatnonzero(begin))
            state[fresh], previous[fresh] = 0.0, self._no_action
        inference, version = self._weights
        seen = self._native(floats), self._native(bytes_), previous, state
        answer = inference(*seen, self._native(noise))
        values = answer.value
        if act:
            flat = answer.host_action[:n]
            rows.action[envs] = flat
            if self._threads is None:  # the rest is done while they step
                self.pool.send(envs.tolist())
        next_value = np.where(status == TERMINATED, 0.0, values[:n])
        next_value[cut] = values[n:]
        with self._booking:
            if pending.all():
                self._complete(rollout, envs, index, reward, next_value)
            elif pending.any():
                some = np.flatnonzero(pending)
                self._complete(rollout, envs[some], self._native(envs[some]), reward[some], next_value[some])
            self._pending[envs] = act
            if act:
                self._depart(envs, index, (*(column[:n] for column in seen), answer.action[:n]))
                self._log_prob[envs], self._value[envs] = answer.log_prob[:n], values[:n]
                self._version[envs], self._start[envs], self._begin[envs] = version, begin, False
                self._state[index], self._last_action[index] = answer.state[:n], answer.action[:n]
                for env, row in zip(envs.tolist(), flat, strict=True):
                    history = self._history[env]
                    if history is not None:
                        history.append(row)
                        if len(history) > HISTORY_LIMIT:
                            self._history[env] = None
        if act and self._threads is not None:
            # Their next requests may come to another thread, which has to find this step written down.
            self.pool.send(envs.tolist())

    def _complete(
        self,
        rollout: Rollout,
        envs: NDArray[np.int64],
        index: Native,
        reward: NDArray[np.float32],
        next_value: NDArray[np.float32],
    ) -> None:
        """Write pending steps, whose outcome is known now, to the rollout."""
        rows = rollout.extend(len(envs))
        for name in WIDE:
            rollout.native[name][rows] = self._wide[name][index]
        rollout.env[rows], rollout.start[rows], rollout.version[rows] = envs, self._start[envs], self._version[envs]
        rollout.log_prob[rows], rollout.value[rows] = self._log_prob[envs], self._value[envs]
        rollout.reward[rows], rollout.next_value[rows] = reward, next_value

    def _depart(self, envs: NDArray[np.int64], index: Native, columns: tuple[Native, ...]) -> None:
        """Remember the steps just sent off."""
        for name, column in zip(WIDE, columns, strict=True):
            self._wide[name][index] = column
        now = time.perf_counter()
        cycle = now - self._sent_at[envs]
        known = np.isfinite(cycle)
        self._cycle_s[envs] += np.where(known, cycle, 0.0)
        self._cycles[envs] += known
        self._sent_at[envs] = now

    def _native(self, array: NDArray[Any]) -> Native:
        """Return an array as the device's columns take it."""
        return array if self._device.type == "cpu" else torch.from_numpy(array).to(self._device)

    def _note_episodes(self, envs: NDArray[np.int64]) -> None:
        for env in envs.tolist():
            episode = self.pool.episode(env)
            if episode is not None:
                self.episodes.append(episode)
            if self.pool.rows.group[env] != self._group[env]:
                self._group[env] = self.pool.rows.group[env]
                self._history[env] = []


def afresh(saved: dict[str, Any], groups: dict[int, int]) -> dict[str, Any]:
    """Return a snapshot in which some environments start anew, each with the seed of that number."""
    changed = {name: np.array(saved[name]) for name in ("group", "begin", "pending")}
    history = list(saved["history"])
    for env, group in groups.items():
        changed["group"][env], changed["begin"][env], changed["pending"][env] = group, True, False
        history[env] = ([], 0)
    return {**saved, **changed, "history": history}


def plain(saved: dict[str, Any]) -> dict[str, Any]:
    """Turn a snapshot into what can be saved: its histories as arrays (n, A)."""
    size = saved["last_action"].shape[1]
    histories = [np.array(actions[:length], np.float32).reshape(-1, size) for actions, length in saved["history"]]
    return {**saved, "history": histories}


def replays(saved: dict[str, Any]) -> list[Replay]:
    """Return what a pool has to replay to stand where a snapshot, made `plain`, was taken."""
    return [
        Replay(int(group), np.asarray(actions, np.float32), bool(pending))
        for group, actions, pending in zip(saved["group"], saved["history"], saved["pending"], strict=True)
    ]


def _copy(column: Native) -> torch.Tensor:
    """Copy to the processor's memory: another process that reads it may not have this device."""
    if isinstance(column, torch.Tensor):
        return column.detach().to("cpu", copy=True)
    return torch.from_numpy(column.copy())
