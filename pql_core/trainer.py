"""Off-policy training: environments and a configuration in, a run directory with a trained policy out.

docs/pql.md has an example. Env workers and learners import the main script, so a script needs
`if __name__ == "__main__":`.
"""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium.vector import VectorEnv
from omegaconf import OmegaConf
from safetensors.torch import save as to_safetensors

from pql_core.actor import Actor
from pql_core.batches import EnvironmentBatch, Episode, Vector, Workers
from pql_core.channel import P_LEARNER, V_LEARNER
from pql_core.config import PqlConfig, check_network
from pql_core.learners import Learners, Parallel, Saved, Sequential
from pql_core.networks import Policy
from pql_core.processes import Job, build
from ver_core import checkpoint
from ver_core.config import ConfigError, PolicyConfig
from ver_core.env_worker import MakeEnv
from ver_core.learner import LearningFailure
from ver_core.progress import TrainingProgress
from ver_core.reporting import RECENT_EPISODES, means
from ver_core.run_directory import RunDirectory
from ver_core.signals import StopSignals
from ver_core.telemetry import Telemetry
from ver_core.trainer import Result, choose_device
from ver_core.worker_pool import EnvironmentFailure, Replay, WorkerPool, context, probe

MAY_CHANGE = (
    "total_steps", "envs_per_worker", "min_batch", "step_timeout_s", "start_timeout_s", "max_restarts", "device",
    "threads", "greedy_episodes", "save_replay", "checkpoint_every_s", "log_every_s",
)  # fmt: skip
"""Parameters of `PqlConfig` that a resumed run may have otherwise than before."""
REPLAY = "replay.pt"
"""In a run's folder: the V-learner's buffer, written when training stops."""
Row = dict[str, float]


class PqlTrainer:
    """Trains one policy on one kind of environment. Make it anew for each training; `train` can be called once."""

    def __init__(
        self,
        make_env: MakeEnv | Callable[[], VectorEnv[Any, Any, Any]],
        config: PqlConfig,
        network: PolicyConfig,
        *,
        vector: bool = False,
        out: Path | None = None,
        resume: bool = False,
        config_yaml: str | None = None,
        wandb_mode: str = "disabled",
        description: str = "training",
        show_progress: bool = True,
    ) -> None:
        """`make_env` is pickled and called in every env worker; with `vector` it makes a `VectorEnv` of
        `config.num_envs`, once, in this process, whose observations and actions stay on their device.

        out: the run's folder; None keeps nothing. config_yaml: what is written there as the resolved configuration
        (default: `config` and `network`). Raises `ConfigError`, `RunError`, `CheckpointError`, `UnsupportedSpace`,
        `EnvironmentFailure`, each with one line.
        """
        config.check()
        check_network(network)
        self._configs = {"pql": asdict(config), "policy": asdict(network)}
        self.config, self._make_env = config, make_env
        self._description, self._show_progress, self._wandb_mode = description, show_progress, wandb_mode
        self.device = choose_device(config.device, "pql.device")
        saved = checkpoint.load(out / "checkpoint.pt") if resume and out else None
        self._vector: VectorEnv[Any, Any, Any] | None = None
        if vector:
            made = make_env()
            assert isinstance(made, VectorEnv)
            self._vector = made
            if made.num_envs != config.num_envs:
                raise ConfigError(f"pql.num_envs={config.num_envs}: the environments are {made.num_envs}; set that")
            spaces: Any = made.single_observation_space, made.single_action_space
        else:
            spaces = probe(make_env, config.start_timeout_s)  # type: ignore[arg-type]
        self._job = Job(spaces[0], spaces[1], network, config, str(self.device))
        self._nets = build(self._job)
        self.policy: Policy = self._nets.policy
        """The Actor's; after training, the trained one."""
        self.steps = self._random_steps = self._sessions = 0
        self._groups: list[int] | None = None
        self._rng: torch.Tensor | None = None
        self._saved: Saved | None = None
        self._recent: deque[Episode] = deque(maxlen=RECENT_EPISODES)
        self._greedy: deque[Episode] = deque(maxlen=config.greedy_episodes)
        if saved is not None:
            self._restore(saved, out)
        self._resume_steps = self.steps if saved is not None else None
        if config_yaml is None:
            config_yaml = OmegaConf.to_yaml(OmegaConf.create(self._configs))
        self._config_yaml = config_yaml
        self.run = RunDirectory.create(out, config_yaml, resume) if out else None

    def train(self, on_row: Callable[[Row], bool] | None = None) -> Result:
        """Train until `total_steps`, a stop signal, or until `on_row` returns True for a row of scalars. Saves at the
        end.

        Raises `EnvironmentFailure` (what was learnt until then is saved), `LearningFailure` (the last checkpoint stays)
        and `CheckpointError`.
        """
        threads = torch.get_num_threads()
        torch.set_num_threads(self.config.threads)
        try:
            with StopSignals() as signals:
                result = self._train(signals, on_row)
                if result.interrupted:
                    signals.pass_on(self.run.logger if self.run else None)  # may end this process at once
        finally:
            torch.set_num_threads(threads)
            if self.run:
                self.run.close()
        return result

    # -- inside ----------------------------------------------------------------------------------------------------

    def _train(self, signals: StopSignals, on_row: Callable[[Row], bool] | None) -> Result:
        config = self.config
        logger = self.run.logger if self.run else None
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
            session = _Session(self, signals)
            stack.callback(session.close)
            session.start()
            progress = stack.enter_context(TrainingProgress(config.total_steps, self._description, self._show_progress))
            if self.run and logger:
                stack.callback(setattr, self.run, "show", self.run.show)
                self.run.show = progress.print
                v, p = (f"{nbytes / 1e9:.3g} GB" for nbytes in session.learners.nbytes)
                if session.learners.lost:
                    logger.warning("%s: cannot be read, or does not fit; it is filled anew", self.run.path / REPLAY)
                logger.info("replay: %s, states %s; it begins with %d steps", v, p, session.learners.stored)
            return session.loop(progress, telemetry, on_row)

    def environments(self) -> EnvironmentBatch:
        """Start them."""
        config = self.config
        if self._vector is not None:
            seeds = np.random.SeedSequence((config.seed, self._sessions))  # environment i gets this and i more
            return Vector(self._vector, self.device, int(seeds.generate_state(1)[0]) >> 1)
        none = np.zeros((0, self.policy.action_layout.size), np.float32)
        replays = None if self._groups is None else [Replay(group + 1, none) for group in self._groups]
        pool = WorkerPool(
            self._make_env,  # type: ignore[arg-type]
            self.policy.obs_layout,
            self.policy.action_layout,
            config.num_envs,
            (config.seed, 0),
            replays,
            config.episodes_per_seed,
            config.step_timeout_s,
            config.start_timeout_s,
            config.max_restarts,
            config.envs_per_worker,
            self.run.logger if self.run else None,
        )
        # Taking turns, nobody steps while somebody learns, so nothing is gained by taking some before the others.
        least = config.min_batch or (-(-config.num_envs // 2) if config.parallel else config.num_envs)
        return Workers(pool, config.num_envs, least, self.device)

    def save(self, session: _Session) -> None:
        """Write the checkpoint and the policy's weights. Raises `CheckpointError` or `LearningFailure`."""
        if self.run is None:
            return
        states = session.learners.states()
        counters = session.learners.counters
        state = {
            "configs": self._configs,
            "steps": self.steps,
            "random_steps": self._random_steps,
            "recent": list(self._recent),
            "greedy": list(self._greedy),
            "sessions": self._sessions + 1,
            "e": counters.e,
            "v": counters.v,
            "p": counters.p,
            "learners": list(states),
            "statistics": self._nets.statistics.read() if self._nets.statistics.size else torch.zeros(0),
            "rng": session.actor.rng_state(),
            "groups": session.envs.groups(),
        }
        checkpoint.save(self.run.checkpoint, state)
        weights = {name: tensor.contiguous().cpu() for name, tensor in states[P_LEARNER]["policy"].items()}
        file = self.run.path / "policy.safetensors"
        try:
            checkpoint.write_atomically(file, to_safetensors(weights))
        except OSError as error:
            raise checkpoint.CheckpointError(f"{file}: cannot save the policy: {error.strerror or error}") from error

    def _restore(self, saved: dict[str, Any], out: Path | None) -> None:
        if "learners" not in saved:
            raise ConfigError("the run to resume is VER's; resume it as it was begun, without --algorithm pql")
        defaults = {"pql": asdict(PqlConfig()), "policy": asdict(PolicyConfig())}
        for section, values in self._configs.items():
            for key, value in values.items():
                # A parameter that is newer than the run is what it is by default: without effect.
                before = saved["configs"][section].get(key, defaults[section][key])
                if before != value and not (section == "pql" and key in MAY_CHANGE):
                    raise ConfigError(f"the run to resume had {section}.{key}={before}, not {value}; leave it so")
        v, p = saved["learners"]
        try:
            self._nets.q.load_state_dict(v["q"])
            self.policy.load_state_dict(p["policy"])
        except RuntimeError as error:
            raise ConfigError(
                "the run to resume had other observations or actions, and so another network; resume it with the "
                "environment it was started with"
            ) from error
        self._nets.statistics.write(saved["statistics"].to(self.device))
        self.steps, self._random_steps = int(saved["steps"]), int(saved["random_steps"])
        self._recent.extend(saved.get("recent", ()))
        self._greedy.extend(saved.get("greedy", ()))
        self._sessions, self._rng = int(saved["sessions"]), saved["rng"]
        self._groups = saved["groups"] or None
        replay = out / REPLAY if out and (out / REPLAY).is_file() else None
        self._saved = Saved((v, p), int(saved["e"]), int(saved["v"]), int(saved["p"]), replay)


class _Session:
    """Environments, Actor and learners of one call of `train`."""

    learners: Learners
    envs: EnvironmentBatch
    actor: Actor

    def __init__(self, trainer: PqlTrainer, signals: StopSignals) -> None:
        self._trainer, self._signals, self._config = trainer, signals, trainer.config
        self._close = ExitStack()

    def start(self) -> None:
        """Start learners and environments, side by side."""
        trainer, config = self._trainer, self._config
        job, nets, saved = trainer._job, trainer._nets, trainer._saved
        if config.parallel:
            started = context(trainer._make_env) if trainer._vector is None else get_context("forkserver")  # type: ignore[arg-type]
            logger = trainer.run.logger if trainer.run else logging.getLogger(__name__)
            self.learners = Parallel(job, nets, saved, self._stop, started, logger)
        else:
            self.learners = Sequential(job, nets, saved, self._stop)
        self._close.callback(self.learners.close)
        self.envs = trainer.environments()
        self._close.callback(self.envs.close)
        self.learners.ready()
        self.actor = Actor(self.envs, nets.policy, nets.statistics, config, trainer.device, self.learners.hand_on)
        if trainer._rng is not None:
            self.actor.set_rng_state(trainer._rng, hash((config.seed, trainer._sessions)))
        self._left = config.warmup_steps * config.num_envs
        """Steps until learning begins."""
        if saved is not None and saved.e > 0:
            self.actor.random = False
            if self.learners.stored >= self._left and not self.learners.lost:
                self._left = 0
                self.learners.begin()

    def close(self) -> None:
        """End everything."""
        self._close.close()

    def _stop(self) -> bool:
        return self._signals.received is not None

    def loop(
        self, progress: TrainingProgress, telemetry: Telemetry | None, on_row: Callable[[Row], bool] | None
    ) -> Result:
        """Collect while others learn."""
        trainer, config = self._trainer, self._config
        started = time.perf_counter()
        # The first one comes before any row is written: what has rows can be resumed.
        saved_at = -math.inf if trainer._resume_steps is None else time.monotonic()
        watch = _Watch(self, trainer.steps)
        done, episodes = False, {}
        try:
            while trainer.steps < config.total_steps and not done and not self._stop():
                if not self._step():
                    break
                if trainer.run and time.monotonic() - saved_at > config.checkpoint_every_s:
                    self._try_to_save()
                    saved_at = time.monotonic()
                if watch.due(config.log_every_s) or trainer.steps >= config.total_steps:
                    row, shares = watch.read(trainer.steps, trainer._random_steps)
                    episodes = self._episodes()
                    row |= episodes
                    if telemetry:
                        telemetry.log(trainer.steps, row)
                    of = "greedy" if config.greedy_envs else "episode"
                    success, returned = row.get(f"{of}/success"), row.get(f"{of}/return")
                    progress.update(trainer.steps, row["train/sps"], success, returned, shares)
                    done = on_row is not None and on_row(row)
        except EnvironmentFailure:
            self._finish()
            raise
        interrupted = self._stop()
        if not interrupted:
            self.learners.catch_up()
        self._finish()
        busy_s, steps = self.envs.busy()
        last = {name.partition("/")[2]: value for name, value in self._episodes().items() if name[:8] == "episode/"}
        return Result(
            trainer.steps, time.perf_counter() - started, interrupted, self.envs.restarts, steps, busy_s, last
        )

    def _step(self) -> bool:
        """Take some environments a step further; False: stopped."""
        trainer, learners, actor = self._trainer, self.learners, self.actor
        n = actor.receive(self._stop)
        if n < 0:
            return False
        trainer.steps += n
        if actor.random:
            trainer._random_steps += n
        for env, episode in actor.episodes:
            greedy = env >= self._config.noisy_envs
            trainer._recent.append(episode)
            if greedy and not actor.random:
                trainer._greedy.append(episode)
        actor.episodes.clear()
        if self._left > 0:
            self._left -= n
            if self._left <= 0:
                actor.random = False
                learners.begin()
        if not learners.stepped(n):
            return False
        actor.answer()
        return True

    def _episodes(self) -> Row:
        trainer = self._trainer
        found: Row = {}
        for name, kept in (("episode", trainer._recent), ("greedy", trainer._greedy)):
            if kept:
                found |= {f"{name}/{key}": value for key, value in means(kept).items()}
        return found

    def _finish(self) -> None:
        self.actor.finish()
        self._trainer.save(self)
        run = self._trainer.run
        if run and self._config.save_replay:
            problem = self.learners.save_replay(run.path / REPLAY)
            if problem:
                run.logger.warning("replay is not saved (%s); a resume fills it anew", problem)

    def _try_to_save(self) -> None:
        try:
            self._trainer.save(self)
        except checkpoint.CheckpointError as error:
            assert self._trainer.run is not None
            self._trainer.run.logger.warning("%s; training goes on, what was saved before is intact", error)


class _Watch:
    """Where the time goes between two rows."""

    def __init__(self, session: _Session, steps: int) -> None:
        self._session = session
        self._before = self._now(steps)

    def due(self, every_s: float) -> bool:
        """Whether it is time for a row."""
        return time.perf_counter() - self._before["time"] >= every_s

    def read(self, steps: int, random_steps: int) -> tuple[Row, Row]:
        """Return a row, and the shares of the Actor's time and of the learners' for the progress bar."""
        session, before, now = self._session, self._before, self._now(steps)
        self._before = now
        d = {name: now[name] - before[name] for name in now}
        seconds = max(d["time"], 1e-9)
        shares = {name: d[name] / seconds for name in ("env", "inference", "wait", "v_learn", "p_learn")}
        waits = {name: d[name] / seconds for name in ("v_wait", "p_wait")}
        e, v, p = (int(now[name]) for name in ("e", "v", "p"))
        ratios: Row = {}
        if v and p:
            n = session._config.num_envs
            ratios = {
                "ratio/critic_updates_per_step": v * n / max(e, 1),
                "ratio/critic_updates_per_policy_update": v / p,
            }
        row = {
            "train/sps": d["steps"] / seconds,
            "train/random_steps": float(random_steps),
            "train/critic_updates": float(v),
            "train/policy_updates": float(p),
            "train/critic_updates_per_s": d["v"] / seconds,
            "train/policy_updates_per_s": d["p"] / seconds,
            "train/env_restarts": float(session.envs.restarts),
            "train/env_nonfinite": float(session.envs.nonfinite),
            "time/env_step_ms": 1e3 * d["env_busy"] / max(d["env_steps"], 1.0),
            **{f"time/{name}": share for name, share in {**shares, **waits}.items()},
            **ratios,
            **{f"learn/{name}": value for name, value in session.learners.scalars().items()},
        }
        return row, shares

    def _now(self, steps: int) -> Row:
        session = self._session
        counters = session.learners.counters
        (v_learn, v_wait), (p_learn, p_wait) = (counters.seconds[role].tolist() for role in (V_LEARNER, P_LEARNER))
        busy_s, env_steps = session.envs.busy()
        return {
            "time": time.perf_counter(), "steps": float(steps), "e": float(counters.e), "v": float(counters.v),
            "p": float(counters.p), "env": session.actor.env_s, "inference": session.actor.infer_s,
            "wait": session.learners.wait_s, "v_learn": v_learn, "v_wait": v_wait, "p_learn": p_learn,
            "p_wait": p_wait, "env_busy": busy_s, "env_steps": float(env_steps),
        }  # fmt: skip


__all__ = ["LearningFailure", "PqlTrainer", "Result"]
