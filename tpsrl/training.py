"""Training one skill: what `tpsrl train-skill` and `python -m tpsrl.train` share."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import click
from safetensors import SafetensorError
from safetensors.torch import load_file

from configs.schema import ConfigError, TrainSkillConfig, changed_key, read_train_config, train_config_yaml
from eval.model_card import keep_facts
from eval.training_facts import CardError
from hab.backend import PLANAR
from hab.episodes import data_split
from hab.observation_sets import CRITIC_KEYS, DEPTH, LASER_MAP, OBSERVATION_SETS
from hab.scene import FLOOR, SURFACES
from hab.storage import SEEN_FURNITURE
from planner.zoo import WEIGHTS, ZOO, ZooError, run_entry
from pql_core.trainer import PqlTrainer
from skills import TASKS, always_drives, recorded, task_class
from skills.starts import STARTS
from skills.taught import TEACHER, Teacher, make_taught_env
from skills.trained import is_critics, without_critic
from skills.training import env_factory, fit_policy
from tpsrl.inputs import BadInput, Failure, check_data_is_played, check_simulator, checked_data
from ver_core.checkpoint import CheckpointError
from ver_core.config import PolicyConfig
from ver_core.learner import LearningFailure
from ver_core.policy import RecurrentPolicy
from ver_core.reporting import RECENT_EPISODES
from ver_core.run_directory import RunError
from ver_core.spaces import UnsupportedSpace
from ver_core.trainer import Result, Trainer
from ver_core.worker_pool import EnvironmentFailure

MAY_CHANGE = ("out", "train.total_steps", "pql.total_steps")
"""What a resumed run may do otherwise than before."""
CRITIC_WARMUP = 10
"""Rollouts that teach a fresh critic alone, where the other weights are a trained policy's: what it says at first would
take that policy apart."""


def resumed_config(out: Path) -> TrainSkillConfig:
    """Return the configuration of the run in `out`."""
    try:
        return read_train_config(out / "config.yaml")
    except ConfigError as error:
        raise BadInput(str(error)) from error


def total_steps(config: TrainSkillConfig) -> int:
    """Return how many steps the training has, whichever the algorithm is."""
    return config.pql.total_steps if config.algorithm == "pql" else config.train.total_steps


def train_skill(config: TrainSkillConfig, out: Path, resume: bool) -> Result:
    """Train, print what came of it, and return that. Raises `BadInput`, `RenderingUnavailable` or `Failure`."""
    if config.chain_states:  # a resume may be asked for from elsewhere
        config = replace(config, chain_states=str(Path(config.chain_states).resolve()))
    if config.data:
        config = replace(config, data=str(Path(config.data).resolve()))
    _check_task(config)
    config = replace(config, policy=fit_policy(config.policy, config.skill, config.obs, config.nav))
    # A run that began when every recipe had a coefficient goes on.
    if not resume and bool(config.teacher) != (config.train.teacher_coef > 0.0):
        given, missing = ("teacher", "train=taught") if config.teacher else ("train=taught", "teacher=FOLDER")
        raise BadInput(f"{given} does nothing without {missing}; give both")
    teacher = None
    if config.teacher:
        config, teacher = _with_teacher(config)
    if config.initial_weights:
        config = _as_begun(config, resumed_config(out)) if resume else _with_initial_weights(config)
    if resume and (change := changed_key(resumed_config(out), config, MAY_CHANGE)):
        key, old, new = change
        raise BadInput(f"{key}={new}: the run in {out} has {key}={old}; leave it so, or train in another folder")
    if config.obs == DEPTH and config.sim == "mujoco":
        from videos.render import prepare_rendering

        prepare_rendering()
    name = f"{config.skill} ({'nav' if config.nav else 'no nav'}, {config.obs})"
    task: dict[str, Any] = {
        "obs": config.obs,
        "base_movement": config.nav,
        "action_repeat": config.action_repeat,
        "starts": config.starts,
        "chain_starts": config.chain_starts,
        "chain_states": config.chain_states,
        "retries": config.retries,
        "practised": dict(config.practised),
        "sim": config.sim,
        "depth_noise": config.depth_noise,
        "split": data_split("train", config.data) if config.data else "train",
        "critic_keys": tuple(key for key in CRITIC_KEYS if key in config.policy.critic_keys),
    }
    make_env = env_factory(config.skill, **task)
    if teacher is not None:
        make_env = partial(make_taught_env, make_env, teacher)
    shared: dict[str, Any] = {
        "out": out,
        "resume": resume,
        "config_yaml": train_config_yaml(config),
        "wandb_mode": config.wandb.mode,
        "description": name,
    }
    trainer: Trainer | PqlTrainer
    with opening_run():
        if config.algorithm == "pql":
            trainer = PqlTrainer(make_env, config.pql, config.policy, **shared)
        else:
            begin = partial(_take_weights, Path(config.initial_weights), out) if config.initial_weights else None
            trainer = Trainer(make_env, config.train, config.policy, begin=begin, **shared)
    before = trainer.steps
    with learning():
        result = trainer.train()
    if isinstance(trainer, PqlTrainer) or trainer.world.rank == 0:
        command = f"train-skill {config.skill}"
        click.echo(summary(name, command, total_steps(config), result, before, out))
    return result


@contextmanager
def opening_run() -> Iterator[None]:
    """Raise `BadInput` or `Failure` for what can go wrong while a `Trainer` is made."""
    try:
        yield
    except (ConfigError, UnsupportedSpace, RunError, CheckpointError) as error:
        raise BadInput(str(error)) from error
    except EnvironmentFailure as error:
        raise Failure(str(error)) from error


@contextmanager
def learning() -> Iterator[None]:
    """Raise `BadInput` or `Failure` for what can go wrong while it trains."""
    try:
        yield
    except RunError as error:
        raise BadInput(str(error)) from error
    except (EnvironmentFailure, LearningFailure, CheckpointError) as error:
        raise Failure(str(error)) from error


@contextmanager
def _another_policy(key: str) -> Iterator[None]:
    """Raise `BadInput` where the policy that a key names cannot be read."""
    try:
        yield
    except (ZooError, SafetensorError) as error:
        raise BadInput(f"{key}: {error}; give a run's folder, or one of {ZOO}") from error


def _with_teacher(config: TrainSkillConfig) -> tuple[TrainSkillConfig, Teacher]:
    """Return the configuration of a training beside a teacher, and who that is."""
    with _another_policy("teacher"):
        entry = run_entry(Path(config.teacher).resolve())
    theirs, policy = entry.config, config.policy
    if theirs.algorithm != "ver":
        raise BadInput(f"teacher={config.teacher}: was trained by {theirs.algorithm}, whose policies know no chance")
    for key in ("skill", "nav", "action_repeat"):
        if (old := getattr(theirs, key)) != (new := getattr(config, key)):
            raise BadInput(f"teacher={config.teacher}: has {key}={old}, the training {key}={new}; give another")
    if not policy.critic_mlp:
        raise BadInput("teacher: is told to a critic of its own; set policy.critic_mlp, or leave it out")
    if TEACHER not in policy.critic_keys:
        policy = replace(policy, critic_keys=[*policy.critic_keys, TEACHER], teacher_key=TEACHER)
    return (
        replace(config, teacher=str(entry.folder), policy=policy),
        Teacher(theirs.obs, theirs.policy, entry.folder / WEIGHTS),
    )


def _with_initial_weights(config: TrainSkillConfig) -> TrainSkillConfig:
    """Check that another policy's weights fit; let the critic learn alone at first, if they come without one."""
    with _another_policy("initial_weights"):
        entry = run_entry(Path(config.initial_weights).resolve())
        weights = load_file(entry.folder / WEIGHTS)
    theirs, mine = (
        TrainSkillConfig(skill="", nav=c.nav, obs=c.obs, policy=_actor(c.policy)) for c in (entry.config, config)
    )
    if change := changed_key(theirs, mine, ()):
        key, old, new = change
        raise BadInput(f"{key}={new}: the policy in {config.initial_weights} has {key}={old}; give that")
    same_critic = any(map(is_critics, weights)) and _critic(entry.config.policy) == _critic(config.policy)
    if config.policy.critic_mlp and not config.train.critic_warmup and not same_critic:
        config = replace(config, train=replace(config.train, critic_warmup=CRITIC_WARMUP))
    return replace(config, initial_weights=str(entry.folder))


def _as_begun(config: TrainSkillConfig, run: TrainSkillConfig) -> TrainSkillConfig:
    """Return a resume's configuration with what followed from the initial weights, which it has no more need of."""
    origin = str(Path(config.initial_weights).resolve())
    warmup = config.train.critic_warmup or run.train.critic_warmup
    return replace(config, initial_weights=origin, train=replace(config.train, critic_warmup=warmup))


def _actor(policy: PolicyConfig) -> PolicyConfig:
    """Return of a policy's configuration what its actor's weights depend on."""
    fresh = (
        "critic_mlp", "critic_keys", "predicted_keys", "teacher_key", "initial_std", "initial_part_std", "initial_bias",
    )  # fmt: skip
    return replace(policy, **{name: getattr(PolicyConfig(), name) for name in fresh})


def _critic(policy: PolicyConfig) -> tuple[list[int], list[str], list[str]]:
    """Return of a policy's configuration what its critic's weights depend on."""
    return policy.critic_mlp, policy.critic_keys, policy.predicted_keys


def _take_weights(folder: Path, out: Path, policy: RecurrentPolicy) -> None:
    """Give the policy another one's weights, and keep what is known of their training."""
    weights = load_file(folder / WEIGHTS)
    fresh, theirs = (
        {name: tensor for name, tensor in state.items() if is_critics(name)} for state in (policy.state_dict(), weights)
    )
    if {name: tensor.shape for name, tensor in fresh.items()} != {n: tensor.shape for n, tensor in theirs.items()}:
        weights = {**without_critic(weights), **fresh}
    try:
        policy.load_state_dict(weights)
    except RuntimeError as error:
        said = " ".join(str(error).split())
        raise BadInput(f"initial_weights={folder}: are of another network ({said[:200]})") from error
    try:
        keep_facts(folder, out)
    except CardError as error:
        raise BadInput(f"initial_weights: {error}") from error


def _check_task(config: TrainSkillConfig) -> None:
    for key, value, choices in (
        ("skill", config.skill, tuple(TASKS)),
        ("obs", config.obs, tuple(OBSERVATION_SETS)),
        ("starts", config.starts, STARTS),
    ):
        if value not in choices:
            raise BadInput(f"{key}={value}: choose from {', '.join(choices)}")
    if config.data:
        check_data_is_played("sim", config.sim)
        checked_data(config.skill, Path(config.data), "train")
        if config.chain_states:
            raise BadInput("chain_states: were recorded in our apartments, not in those of --data; leave it out")
    check_simulator("sim", config.sim)
    if config.sim == PLANAR and (config.skill != "navigate" or config.obs == DEPTH):
        raise BadInput(f"sim={PLANAR}: moves the base alone and draws no images: for navigate without --obs {DEPTH}")
    if always_drives(config.skill) and not config.nav:
        raise BadInput(f"--no-nav (nav=false): {config.skill} has to drive the base; leave it out")
    if config.algorithm == "pql" and config.initial_weights:
        raise BadInput("initial_weights: PQL starts from random weights; leave it out")
    if config.algorithm == "pql" and config.teacher:
        raise BadInput("teacher: PQL learns from rewards alone; leave it out")
    if config.obs == LASER_MAP and not task_class(config.skill).map_room_m:
        raise BadInput(f"--obs {LASER_MAP}: {config.skill} draws no map; leave it out")
    if config.depth_noise and config.obs != DEPTH:
        raise BadInput(f"depth_noise: is the camera's, which --obs {config.obs} does not have; leave it out")
    if config.starts not in task_class(config.skill).start_kinds:
        raise BadInput(f"starts={config.starts}: {config.skill} has one kind of start states; leave it out")
    if config.starts == "near" and not config.nav:
        raise BadInput("starts=near: without base movement the base stands where the arm reaches; leave it out")
    if config.chain_states:
        _check_chain_states(config)
    if config.practised:
        _check_practised(config)


def _check_practised(config: TrainSkillConfig) -> None:
    if config.skill not in ("pick", "place"):
        raise BadInput(f"practised: is for what Pick and Place are about, not for {config.skill}; leave it out")
    known = (*SURFACES, *SEEN_FURNITURE, FLOOR)
    for kind, times in config.practised.items():
        if kind not in known:
            raise BadInput(f"practised={{{kind}: …}}: no such furniture; choose from {', '.join(known)}")
        if not times > 0.0:
            raise BadInput(f"practised={{{kind}: {times}}}: must be positive")


def _check_chain_states(config: TrainSkillConfig) -> None:
    if not config.chain_starts:
        raise BadInput("chain_states: is for a share of the start states; give chain_starts, too")
    if not config.nav:
        raise BadInput("chain_states: is recorded with skills that drive; leave it out without base movement")
    try:
        calls = recorded.load(config.chain_states, config.skill)
        for of_apartment in list(calls.values())[:1]:
            recorded.start_of(of_apartment[0])
    except recorded.RecordingError as error:
        raise BadInput(f"chain_states: {error}; make one with tpsrl record-starts") from error
    if not calls:
        raise BadInput(f"chain_states={config.chain_states}: holds no call of {config.skill}; leave it out")


def summary(name: str, command: str, total: int, result: Result, before: int, out: Path) -> str:
    """Return what came of a training; `command` is how to go on with it, less --out and --resume."""
    fresh = result.steps - before
    lines = [f"{name}: {result.steps:,} of {total:,} steps"]
    if fresh:
        lines[0] += f", {fresh:,} of them now, at {fresh / result.seconds:,.0f} SPS"
    elif not result.interrupted:
        lines[0] += ": nothing was left to do; raise --steps to go on"
    if "return" in result.episodes:
        shown = [f"{key} {result.episodes[key]:.2f}" for key in ("success", "return") if key in result.episodes]
        lines.append(f"last {RECENT_EPISODES} episodes: {', '.join(shown)}")
    elif fresh:
        lines.append("no episode ended")
    if result.restarts:
        lines.append(f"environment workers replaced: {result.restarts} (log.txt says why)")
    lines.append(f"in {out}")
    if result.interrupted:
        lines.append(f"interrupted; go on with: tpsrl {command} --out {shlex.quote(str(out))} --resume")
    return "\n".join(lines)
