"""Training: an environment factory and a configuration in, a run directory with a trained policy out.

docs/training.md has an example. Env workers import the main script, so a script needs `if __name__ == "__main__":`.
"""

from __future__ import annotations

import math
import os
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from omegaconf import OmegaConf
from safetensors.torch import save as to_safetensors

from ver_core import checkpoint
from ver_core.collector import Collector, afresh, plain, replays
from ver_core.config import ConfigError, PolicyConfig, TrainConfig
from ver_core.distributed import World, join
from ver_core.env_worker import MakeEnv
from ver_core.feeds import Alongside, Feed, InTurn
from ver_core.learner import Interrupted, Learner, LearningFailure
from ver_core.policy import RecurrentPolicy
from ver_core.preemption import Preemption
from ver_core.progress import TrainingProgress
from ver_core.reporting import RECENT_EPISODES, Clock, Update, means, row
from ver_core.rollout import Rollout
from ver_core.run_directory import RunDirectory, RunError
from ver_core.schedulers import SCHEDULERS
from ver_core.shared_rows import Layout
from ver_core.signals import StopSignals
from ver_core.spaces import ActionLayout, ObsLayout
from ver_core.telemetry import Telemetry
from ver_core.worker_pool import EnvironmentFailure, WorkerPool, probe

MAY_CHANGE = (
    "total_steps", "envs_per_worker", "preempt", "step_timeout_s", "start_timeout_s", "max_restarts", "device",
    "learner_threads", "checkpoint_every_s", "log_every_s",
)  # fmt: skip
"""Parameters of `TrainConfig` that a resumed run may have otherwise than before."""


@dataclass
class Result:
    """How a training ended."""

    steps: int
    seconds: float
    """Of this session, from the start of the environments."""
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
        begin: Callable[[RecurrentPolicy], None] | None = None,
    ) -> None:
        """`make_env` is pickled and called in every env worker.

        begin: gives a new run's policy its first weights.

        out: the run's folder; None keeps nothing. config_yaml: what is written there as the resolved configuration
        (default: `train` and `policy`). Raises `ConfigError`, `RunError`, `CheckpointError`, `UnsupportedSpace`,
        `EnvironmentFailure`, each with one line.
        """
        train.check()
        self._configs = {"train": asdict(train), "policy": asdict(policy)}
        self.config, self._make_env = train, make_env
        self._description, self._show_progress, self._wandb_mode = description, show_progress, wandb_mode
        self.device = choose_device(train.device)
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
        self.steps = self._random_steps = 0
        self._recent: deque[dict[str, float | str]] = deque(maxlen=RECENT_EPISODES)
        self._collector_state: dict[str, Any] | None = None
        if saved is not None:
            self._restore(saved)
        if config_yaml is None:
            config_yaml = OmegaConf.to_yaml(OmegaConf.create(self._configs))
        self._config_yaml = config_yaml
        self.run = self._open_run(out, resume)
        self._begin = begin if saved is None else None
        self._resume_steps = self.steps if saved is not None else None
        alone = self.world.size == 1 or self._alongside or not train.preempt
        self._preemption = None if alone else Preemption(self.world, train)

    def train(self, on_update: Callable[[Update], bool] | None = None) -> Result:
        """Train until `total_steps`, a stop signal, or until `on_update` returns True. Saves a checkpoint at the end.

        Raises `EnvironmentFailure` (what was learnt until then is saved), `LearningFailure` (the last checkpoint stays)
        and `CheckpointError`.
        """
        threads = torch.get_num_threads()
        try:
            if self._begin is not None:
                begin = self._begin
                try:
                    self.world.rank_0_first(lambda: begin(self.policy))
                except RuntimeError as error:
                    if self.world.rank == 0:
                        raise
                    raise LearningFailure(f"process 0 failed before learning began: {error}") from error
                self.world.broadcast(self.policy)
            with StopSignals() as signals:
                result = self._train(signals, on_update)
                if self.world.rank == 0 and result.interrupted:
                    signals.pass_on(self.run.logger if self.run else None)  # may end this process at once
        finally:
            torch.set_num_threads(threads)
            self.world.leave()
            if self.run:
                self.run.close()
        return result

    # -- inside ----------------------------------------------------------------------------------------------------

    def _train(self, signals: StopSignals, on_update: Callable[[Update], bool] | None) -> Result:
        config = self.config
        self._learner_threads, self._inference_threads = _threads(config, self.world, self._alongside)
        torch.set_num_threads(self._inference_threads)
        state, self._collector_state = self._collector_state, None
        seed: tuple[int, ...] = (config.seed, self.world.rank)
        if self._resume_steps and state is None:
            seed = (*seed, self._resume_steps)  # the first episodes and draws are those that the run began with
        with ExitStack() as stack:
            telemetry = None
            if self.run:
                telemetry = Telemetry(
                    self.run,
                    self._wandb_mode,
                    config=OmegaConf.to_container(OmegaConf.create(self._config_yaml)),  # type: ignore[arg-type]
                    resume_steps=self._resume_steps,
                )
                stack.callback(telemetry.close)
            pool = WorkerPool(
                self._make_env,
                self.obs_layout,
                self.action_layout,
                config.num_envs,
                seed,
                replays(state) if state else None,
                config.episodes_per_seed,
                config.step_timeout_s,
                config.start_timeout_s,
                config.max_restarts,
                config.envs_per_worker,
                self.run.logger if self.run else None,
            )
            stack.callback(pool.close)
            collector = self._collector(pool, seed, state)
            stack.callback(collector.close)
            feed = self._feed(collector)
            stack.callback(feed.close)
            shown = self._show_progress and self.world.rank == 0
            progress = stack.enter_context(TrainingProgress(config.total_steps, self._description, shown))
            if self.run:
                stack.callback(setattr, self.run, "show", self.run.show)
                self.run.show = progress.print
            return self._loop(feed, collector, signals, progress, telemetry, on_update)

    @property
    def _alongside(self) -> bool:
        """Whether collecting and learning run side by side."""
        return self.config.overlap or self.config.scheduler == "async"

    def _open_run(self, out: Path | None, resume: bool) -> RunDirectory | None:
        """Make or take up the run's folder, in rank 0; if that fails, every process gets to know."""
        run, problem = None, ""
        if out and self.world.rank == 0:
            try:
                run = RunDirectory.create(out, self._config_yaml, resume)
            except RunError as error:
                problem = str(error)
        (problem, *_) = self.world.gather(problem)
        if problem:
            raise RunError(problem)
        return run

    def _collector(self, pool: WorkerPool, seed: tuple[int, ...], state: dict[str, Any] | None) -> Collector:
        config = self.config
        collector = Collector(
            pool,
            self.policy,
            SCHEDULERS[config.scheduler](config.num_envs, config.rollout_length, config.min_batch, config.max_batch),
            self.layout,
            self.device,
            seed,
            config.inference_workers,
        )
        collector.use(self.policy, self.learner.version)
        if state:
            collector.restore(state)
        return collector

    def _feed(self, collector: Collector) -> Feed:
        config = self.config

        def rollout() -> Rollout:
            return Rollout(self.layout, config.rollout_length, self.policy.state_size, self.device)

        if config.scheduler == "async":
            rollouts = [rollout() for _ in range(1 + config.max_policy_lag)]
            return Alongside(collector, self.policy, self.learner.version, rollouts, lockstep=False)
        if config.overlap:
            return Alongside(collector, self.policy, self.learner.version, [rollout(), rollout()], lockstep=True)
        return InTurn(collector, self.policy, rollout())

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
        # The first one comes before any row is written: what has rows can be resumed.
        saved_at = -math.inf if self._resume_steps is None else time.monotonic()
        clock = Clock(self.steps, pool)
        episodes, update = 0, None
        interrupted = done = False

        def stop() -> bool:
            return signals.received is not None

        while self.steps < config.total_steps and not done:
            boundary = self._boundary(collector if resumable else None)
            pool.failed.clear()
            preempt, failure, fed = None, None, None
            first = self.policy.lacks_statistics
            if self._preemption and isinstance(feed, InTurn) and not first:
                preempt = self._preemption.begin(feed.rollout, collector.step_times_s())
            try:
                fed = feed.next(stop, preempt)
            except EnvironmentFailure as error:
                failure = error
            if self._preemption and not first:
                self._preemption.collected()
            due = self.run is not None and time.monotonic() - saved_at > config.checkpoint_every_s
            size = 0 if fed is None else fed[0].size
            flags = (fed is None or stop(), failure is not None, due)
            fresh, stopping, failing, saving = world.sum([float(size), *map(float, flags)])
            if failing or stopping or fed is None:
                if failing and boundary["collector"]:
                    # Replayed, what failed would fail again: the same seeds, actions and noise.
                    others = {env: pool.groups[env] + 1 for env in pool.failed}
                    boundary["collector"] = afresh(boundary["collector"], others)
                self._save(boundary)
                if failing:
                    raise failure or EnvironmentFailure("another process's environment failed; its message says how")
                interrupted = True
                break
            if saving:
                self._try_to_save(boundary)
                saved_at = time.monotonic()
            rollout, collection = fed
            learning = time.perf_counter()
            try:
                # Several processes learn in lockstep: none may leave before the others.
                scalars = self._learn(rollout, first, stop if world.size == 1 else lambda: False)
            except Interrupted:
                self.learner.restore(boundary["learner"])
                interrupted = True
                self._save(boundary)
                break
            feed.learned(rollout, self.learner.version)
            self.steps += int(fresh)
            self._random_steps += int(fresh) if first else 0
            now = time.perf_counter()
            learn_s, seconds, ended = now - learning, now - ended, now
            if self._preemption and not first:
                self._preemption.learned(learn_s)
            while collector.episodes:
                self._recent.append(collector.episodes.popleft())
                episodes += 1
            update = Update(
                self.steps, int(fresh), seconds, learn_s, collection, scalars, means(self._recent), episodes,
                self._random_steps,
            )  # fmt: skip
            clock.add(update)
            if clock.seconds >= config.log_every_s or self.steps >= config.total_steps:
                sps, shares = clock.read(self.steps)
                if telemetry:
                    telemetry.log(self.steps, row(update, sps, shares, clock.step_ms, pool.restarts, pool.nonfinite))
                progress.update(self.steps, sps, update.episodes.get("success"), update.episodes.get("return"), shares)
                clock = Clock(self.steps, pool)
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

    def _learn(self, rollout: Rollout, first: bool, stop: Callable[[], bool]) -> dict[str, float]:
        if first:  # by a policy that has learnt nothing, whose inputs nobody has normalised
            self.learner.observe(rollout)
            rollout.discard()
            return {}
        torch.set_num_threads(self._learner_threads)
        try:
            return self.learner.update(rollout, self.steps / self.config.total_steps, stop)
        finally:
            torch.set_num_threads(self._inference_threads)

    def _boundary(self, collector: Collector | None) -> dict[str, Any]:
        """Copy all that a resume needs. Without a collector (it is at work) a resume's environments start afresh."""
        return {
            "steps": self.steps,
            "random_steps": self._random_steps,
            "recent": list(self._recent),
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
        collected = boundary["collector"]
        parts = self.world.gather((collected and plain(collected), boundary["learner"]["rng"]))
        if self.run is None:
            return
        state = {
            **boundary,
            "configs": self._configs,
            "collector": None,
            "processes": [{"collector": c, "rng": r} for c, r in parts],
        }
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
        defaults = {"train": asdict(TrainConfig()), "policy": asdict(PolicyConfig())}
        for section, values in self._configs.items():
            for key, value in values.items():
                # A parameter that is newer than the run is what it is by default: without effect.
                before = saved["configs"][section].get(key, defaults[section][key])
                if before != value and key not in MAY_CHANGE:
                    raise ConfigError(f"the run to resume had {section}.{key}={before}, not {value}; leave it so")
        mine = parts[self.world.rank]
        try:
            self.learner.restore({**saved["learner"], "rng": mine["rng"]})
        except (RuntimeError, ValueError) as error:
            raise ConfigError(
                "the run to resume had other observations or actions, and so another network; resume it with the "
                "environment it was started with"
            ) from error
        self.steps, self._random_steps = int(saved["steps"]), int(saved["random_steps"])
        self._recent.extend(saved.get("recent", ()))
        self._collector_state = mine["collector"]


def choose_device(name: str, key: str = "train.device") -> torch.device:
    """Return the device that a parameter (`key`) asks for. Raises `ConfigError`."""
    if name == "auto":
        name = "cuda" if torch.cuda.is_available() else "cpu"
    if name == "cuda":
        name = f"cuda:{os.environ.get('LOCAL_RANK', '0')}"
    try:
        torch.empty(0, device=name)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(f"{key}={name}: {' '.join(str(error).split())}"[:200]) from error
    return torch.device(name)


def _threads(config: TrainConfig, world: World, alongside: bool) -> tuple[int, int]:
    """Return the CPU threads for learning and for inference.

    Only half of the cores by default, and never more than this process may run on: with one thread too many for the
    cores that are free, torch's threads wait for each other actively, and learning takes twice as long or more.
    """
    usable = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    cores = max(1, usable // world.local_size)
    learning = min(config.learner_threads, usable) or max(1, cores // 2)
    return learning, learning if alongside else 1  # alongside each other they share torch's one setting
