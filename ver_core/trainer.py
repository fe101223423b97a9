"""Training: an environment factory and a configuration in, a run directory with a trained policy out.

docs/training.md has an example. Env workers import the main script, so a script needs `if __name__ == "__main__":`.
"""

from __future__ import annotations

import copy
import os
import time
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from omegaconf import OmegaConf
from safetensors.torch import save as to_safetensors

from ver_core import checkpoint
from ver_core.collector import Collection, Collector, replays
from ver_core.config import ConfigError, PolicyConfig, TrainConfig
from ver_core.distributed import World, join
from ver_core.env_worker import MakeEnv
from ver_core.feeds import Alongside, Feed, InTurn
from ver_core.learner import Interrupted, Learner
from ver_core.policy import RecurrentPolicy
from ver_core.preemption import FinishedCount, best_duration_s
from ver_core.progress import TrainingProgress
from ver_core.rollout import Rollout
from ver_core.run_directory import RunDirectory
from ver_core.schedulers import SCHEDULERS
from ver_core.shared_rows import Layout
from ver_core.signals import StopSignals
from ver_core.spaces import ActionLayout, ObsLayout
from ver_core.telemetry import Telemetry
from ver_core.worker_pool import EnvironmentFailure, WorkerPool, probe

RECENT_EPISODES = 100
"""Over which success and return are averaged."""
LEARN_WINDOW = 5
"""Updates over which the learning time is averaged for preemption."""


@dataclass
class Update:
    """One rollout collected and learnt from."""

    steps: int
    """Of the whole training so far."""
    fresh_steps: int
    """Of this rollout, of all processes."""
    seconds: float
    """Wall clock, from the end of the update before."""
    learn_s: float
    collection: Collection
    scalars: dict[str, float]
    """What the learner reports."""
    episodes: dict[str, float]
    """Means over the last `RECENT_EPISODES` episodes: return, length, the info's numbers; shares of its words."""
    episode_count: int
    """Episodes finished so far in this session."""


@dataclass
class Result:
    """How a training ended."""

    steps: int
    seconds: float
    """Of this session, from the first action."""
    interrupted: bool
    """By a signal; it can be resumed."""
    restarts: int
    """Env workers that had to be replaced."""
    env_steps: int
    """Made by this process's environments."""
    env_busy_s: float
    """Seconds that they spent in these steps, resets included; added up over the environments."""
    episodes: dict[str, float] = field(default_factory=dict)


class Trainer:
    """Trains one policy on one kind of environment. Make it anew for each training; `train` can be called once."""

    def __init__(
        self,
        make_env: MakeEnv,
        train: TrainConfig,
        policy: PolicyConfig,
        *,
        out: Path | None = None,
        resume: bool = False,
        config_yaml: str | None = None,
        wandb_mode: str = "disabled",
        description: str = "training",
        show_progress: bool = True,
    ) -> None:
        """`make_env` is pickled and called in every env worker.

        out: the run's folder; None keeps nothing. config_yaml: what is written there as the resolved configuration
        (default: `train` and `policy`). Raises `ConfigError`, `RunError`, `CheckpointError`, `UnsupportedSpace`,
        `EnvironmentFailure`, each with one line.
        """
        train.check()
        self.config, self._make_env = train, make_env
        self._description, self._show_progress, self._wandb_mode = description, show_progress, wandb_mode
        self.device = _device(train.device)
        saved = checkpoint.load(out / "checkpoint.pt") if resume and out else None
        spaces = probe(make_env, train.start_timeout_s)
        self.obs_layout, self.action_layout = ObsLayout(spaces[0]), ActionLayout(spaces[1])
        self.layout = Layout.of(train.num_envs, self.obs_layout, self.action_layout)
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(train.seed)
            self.policy = RecurrentPolicy(*spaces, policy).to(self.device)
        self.world: World = join(self.device.type == "cuda")
        self.world.broadcast(self.policy)
        self.learner = Learner(self.policy, train, self.device, self.world)
        self.steps = 0
        self._collector_state: dict[str, Any] | None = None
        if saved is not None:
            self._restore(saved)
        if config_yaml is None:
            config_yaml = OmegaConf.to_yaml(OmegaConf.create({"train": asdict(train), "policy": asdict(policy)}))
        self._config_yaml = config_yaml
        self.run = RunDirectory.create(out, config_yaml, resume) if out and self.world.rank == 0 else None
        self._resume_steps = self.steps if saved is not None else None
        self._recent: deque[dict[str, float | str]] = deque(maxlen=RECENT_EPISODES)
        self._learn_s: deque[float] = deque(maxlen=LEARN_WINDOW)
        self._updates = 0
        self._count: FinishedCount | None = None

    def train(self, on_update: Callable[[Update], bool] | None = None) -> Result:
        """Train until `total_steps`, a stop signal, or until `on_update` returns True. Saves a checkpoint at the end.

        Raises `EnvironmentFailure` (what was learnt until then is saved), `LearningFailure` (the last checkpoint stays)
        and `CheckpointError`.
        """
        config = self.config
        learner_threads, inference_threads = _threads(config, self.world)
        torch.set_num_threads(inference_threads)
        self._inference_threads, self._learner_threads = inference_threads, learner_threads
        telemetry = None
        if self.run:
            telemetry = Telemetry(
                self.run,
                self._wandb_mode,
                config=OmegaConf.to_container(OmegaConf.create(self._config_yaml)),  # type: ignore[arg-type]
                resume_steps=self._resume_steps,
            )
        state, self._collector_state = self._collector_state, None
        pool = WorkerPool(
            self._make_env,
            self.obs_layout,
            self.action_layout,
            config.num_envs,
            (config.seed, self.world.rank),
            replays(state) if state else None,
            config.episodes_per_seed,
            config.step_timeout_s,
            config.start_timeout_s,
            config.max_restarts,
            self.run.logger if self.run else None,
        )
        feed: Feed | None = None
        collector: Collector | None = None
        try:
            collector = self._collector(pool, state)
            feed = self._feed(collector)
            with (
                StopSignals() as signals,
                TrainingProgress(
                    config.total_steps, self._description, self._show_progress and self.world.rank == 0
                ) as progress,
            ):
                if self.run:
                    self.run.show = progress.print
                result = self._loop(feed, collector, signals, progress, telemetry, on_update)
                if self.world.rank == 0:
                    if telemetry:
                        telemetry.close()  # being queued again may end this process at once
                        telemetry = None
                    signals.pass_on(self.run.logger if self.run else None)
                return result
        finally:
            if feed:
                feed.close()
            if collector:
                collector.close()
            pool.close()
            if telemetry:
                telemetry.close()
            self.world.leave()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _collector(self, pool: WorkerPool, state: dict[str, Any] | None) -> Collector:
        config = self.config
        alongside = config.overlap or config.scheduler == "async"
        collector = Collector(
            pool,
            copy.deepcopy(self.policy) if alongside else self.policy,
            SCHEDULERS[config.scheduler](config.num_envs, config.rollout_length, config.min_batch, config.max_batch),
            self.layout,
            self.device,
            (config.seed, self.world.rank),
            config.inference_workers,
        )
        collector.version = self.learner.version
        if state:
            collector.restore(state)
        return collector

    def _feed(self, collector: Collector) -> Feed:
        config = self.config

        def rollout() -> Rollout:
            return Rollout(self.layout, config.rollout_length, self.policy.state_size, self.device)

        if config.scheduler == "async":
            rollouts = [rollout() for _ in range(1 + config.max_policy_lag)]
            return Alongside(collector, self.policy, rollouts, lockstep=False)
        if config.overlap:
            return Alongside(collector, self.policy, [rollout(), rollout()], lockstep=True)
        return InTurn(collector, rollout())

    def _loop(
        self,
        feed: Feed,
        collector: Collector,
        signals: StopSignals,
        progress: TrainingProgress,
        telemetry: Telemetry | None,
        on_update: Callable[[Update], bool] | None,
    ) -> Result:
        config, world, pool = self.config, self.world, collector.pool
        resumable = isinstance(feed, InTurn)
        started = ended = time.perf_counter()
        saved_at = time.monotonic()
        clock = _Clock(self.steps, pool)
        episodes, update = 0, None
        interrupted = done = False

        def stop() -> bool:
            return signals.received is not None

        while self.steps < config.total_steps and not done:
            boundary = self._boundary(collector if resumable else None)
            try:
                fed = feed.next(stop, self._preemption(feed, collector))
            except EnvironmentFailure:
                if world.size == 1:
                    self._save(boundary)
                raise
            if self._count:
                self._count.finish()
            size = 0 if fed is None else fed[0].size
            due = self.run is not None and time.monotonic() - saved_at > config.checkpoint_every_s
            fresh, stopping, saving = world.sum([float(size), float(fed is None or stop()), float(due)])
            if stopping or fed is None:
                interrupted = True
                self._save(boundary)
                break
            if saving:
                self._try_to_save(boundary)
                saved_at = time.monotonic()
            rollout, collection = fed
            learning = time.perf_counter()
            try:
                # Several processes learn in lockstep: none may leave before the others.
                scalars = self._learn(rollout, stop if world.size == 1 else lambda: False)
            except Interrupted:
                self.learner.restore(boundary["learner"])
                interrupted = True
                self._save(boundary)
                break
            feed.learned(rollout, self.learner.version)
            self.steps += int(fresh)
            now = time.perf_counter()
            learn_s, seconds, ended = now - learning, now - ended, now
            self._learn_s.append(learn_s)
            self._updates += 1
            while collector.episodes:
                self._recent.append(collector.episodes.popleft())
                episodes += 1
            update = Update(
                self.steps, int(fresh), seconds, learn_s, collection, scalars, _means(self._recent), episodes
            )
            clock.add(update)
            if clock.seconds >= config.log_every_s or self.steps >= config.total_steps:
                sps, shares = clock.read(self.steps)
                if telemetry:
                    telemetry.log(self.steps, _row(update, sps, shares, clock.step_ms, pool.restarts))
                progress.update(self.steps, sps, update.episodes.get("success"), update.episodes.get("return"), shares)
                clock = _Clock(self.steps, pool)
            done = on_update is not None and on_update(update)
            if world.size > 1:
                (votes,) = world.sum([float(done)])
                done = votes > 0
        if not interrupted:
            self._save(self._boundary(collector if resumable else None))
        return Result(
            self.steps,
            time.perf_counter() - started,
            interrupted,
            pool.restarts,
            int(pool.rows.steps.sum()),
            float(pool.rows.busy_s.sum()),
            update.episodes if update else {},
        )

    def _learn(self, rollout: Rollout, stop: Callable[[], bool]) -> dict[str, float]:
        torch.set_num_threads(self._learner_threads)
        try:
            return self.learner.update(rollout, self.steps / self.config.total_steps, stop)
        finally:
            torch.set_num_threads(self._inference_threads)

    def _preemption(self, feed: Feed, collector: Collector) -> Callable[[], bool] | None:
        """Return what ends this rollout early for the other processes' sake (section 2.3); None: nothing does."""
        config, world = self.config, self.world
        # The first rollout fills the buffer and measures the times.
        if world.size == 1 or not config.preempt or not isinstance(feed, InTurn) or self._updates == 0:
            return None
        rollout = feed.rollout
        least = rollout.capacity // 4
        if config.scheduler == "ddppo":
            if self._count is None:
                assert world.store is not None
                self._count = FinishedCount(world.store, world.size, config.sync_fraction)
            count = self._count
            count.begin(self._updates)

            def enough() -> bool:
                return rollout.size >= least and count.enough()

            return enough
        times = np.stack(world.gather(collector.step_times_s()))
        learn_s, fixed = float(np.mean(self._learn_s)), config.scheduler == "nover"
        limit_s = best_duration_s(times, config.rollout_length, learn_s, fixed)
        full_s = best_duration_s(times, config.rollout_length, learn_s, fixed, min_fraction=1.0)
        if limit_s >= full_s * (1.0 - 1e-6):
            return None  # it does not pay; a deadline would only cut rollouts that take a little longer than the last
        deadline = time.perf_counter() + limit_s

        def late() -> bool:
            return rollout.size >= least and time.perf_counter() >= deadline

        return late

    def _boundary(self, collector: Collector | None) -> dict[str, Any]:
        """Copy all that a resume needs. Without a collector (it is at work) a resume's environments start afresh."""
        return {
            "steps": self.steps,
            "learner": self.learner.snapshot(),
            "collector": collector.snapshot() if collector else None,
        }

    def _try_to_save(self, boundary: dict[str, Any]) -> None:
        try:
            self._save(boundary)
        except checkpoint.CheckpointError as error:
            assert self.run is not None
            self.run.logger.warning("%s; training goes on, what was saved before is intact", error)

    def _save(self, boundary: dict[str, Any]) -> None:
        """Write the checkpoint (every process's part) and the policy's weights."""
        parts = self.world.gather((boundary["collector"], boundary["learner"]["rng"]))
        if self.run is None:
            return
        state = {**boundary, "collector": None, "processes": [{"collector": c, "rng": r} for c, r in parts]}
        checkpoint.save(self.run.checkpoint, state)
        weights = {name: tensor.contiguous().cpu() for name, tensor in boundary["learner"]["policy"].items()}
        file = self.run.path / "policy.safetensors"
        try:
            checkpoint.write_atomically(file, to_safetensors(weights))
        except OSError as error:
            raise checkpoint.CheckpointError(f"{file}: cannot save the policy: {error.strerror or error}") from error

    def _restore(self, saved: dict[str, Any]) -> None:
        parts = saved["processes"]
        if len(parts) != self.world.size:
            raise ConfigError(
                f"the run to resume had {len(parts)} learning processes, this one has {self.world.size}; start as many"
            )
        mine = parts[self.world.rank]
        self.learner.restore({**saved["learner"], "rng": mine["rng"]})
        self.steps = int(saved["steps"])
        self._collector_state = mine["collector"]
        if self._collector_state is not None and len(self._collector_state["group"]) != self.config.num_envs:
            raise ConfigError(
                f"the run to resume had train.num_envs={len(self._collector_state['group'])}; use the same number"
            )


class _Clock:
    """Adds up where the time goes between two reports."""

    def __init__(self, steps: int, pool: WorkerPool) -> None:
        self._steps, self._pool = steps, pool
        self._busy_s, self._env_steps = float(pool.rows.busy_s.sum()), int(pool.rows.steps.sum())
        self.seconds = 0.0
        self._env_s = self._inference_s = self._learn_s = 0.0

    def add(self, update: Update) -> None:
        self.seconds += update.seconds
        self._env_s += update.collection.wait_s
        self._inference_s += update.collection.inference_s
        self._learn_s += update.learn_s

    def read(self, steps: int) -> tuple[float, dict[str, float]]:
        """Return steps per second and the shares of the learner process's time.

        env: waiting for environments; inference: running the policy and writing steps down; learn; wait: the rest, for
        other processes and for what is done between two rollouts. Collecting alongside, env and inference are another
        thread's, so the shares add up to more than 1.
        """
        shares = {"env": self._env_s, "inference": self._inference_s, "learn": self._learn_s}
        shares = {name: seconds / self.seconds for name, seconds in shares.items()}
        shares["wait"] = max(0.0, 1.0 - sum(shares.values()))
        return (steps - self._steps) / self.seconds, shares

    @property
    def step_ms(self) -> float:
        """Mean time of one environment step, resets included."""
        steps = int(self._pool.rows.steps.sum()) - self._env_steps
        return 1e3 * (float(self._pool.rows.busy_s.sum()) - self._busy_s) / max(steps, 1)


def _row(update: Update, sps: float, shares: dict[str, float], step_ms: float, restarts: int) -> dict[str, float]:
    collection = update.collection
    return {
        "train/sps": sps,
        "train/fresh_steps": update.fresh_steps,
        "train/preempted": float(collection.preempted),
        "train/requests_per_batch": collection.requests / max(collection.batches, 1),
        "train/env_restarts": restarts,
        "time/env_step_ms": step_ms,
        **{f"time/{name}": share for name, share in shares.items()},
        **{f"learn/{name}": value for name, value in update.scalars.items()},
        **{f"episode/{name}": value for name, value in update.episodes.items()},
    }


def _means(episodes: deque[dict[str, float | str]]) -> dict[str, float]:
    """Average the numbers of episodes; of their words, return how often each came."""
    sums: dict[str, float] = {}
    for episode in episodes:
        for key, value in episode.items():
            if isinstance(value, str):
                if value:
                    sums[f"{key}/{value}"] = sums.get(f"{key}/{value}", 0.0) + 1.0
            else:
                sums[key] = sums.get(key, 0.0) + value
    return {key: value / len(episodes) for key, value in sums.items()}


def _device(name: str) -> torch.device:
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda":
        name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"train.device={name}: {' '.join(str(error).split())}"[:200]) from error
    return torch.device(name)


def _threads(config: TrainConfig, world: World) -> tuple[int, int]:
    """Return the CPU threads for learning and for inference.

    Only half of the cores by default: with one thread too many for the cores that are free, torch's threads wait for
    each other actively, and learning takes ten times as long.
    """
    cores = (os.cpu_count() or 1) // world.local_size
    learning = config.learner_threads or max(1, cores // 2)
    alongside = config.overlap or config.scheduler == "async"  # they share torch's one setting
    return learning, learning if alongside else 1
