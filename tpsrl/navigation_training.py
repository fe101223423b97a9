"""Training a navigation task: what `tpsrl train-nav` does."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import click
from safetensors import SafetensorError
from safetensors.torch import load_file

from configs.navigation import TASK_KEYS, TrainNavConfig, read_nav_config
from configs.schema import ConfigError, changed_key, train_config_yaml
from hab.navigation import TASKS
from hab.navigation.env import SENSORS, TURNS_DEG, make_navigation_env
from planner.zoo import CONFIG, WEIGHTS
from skills.navigator import fit_navigation_policy
from tpsrl.inputs import BadInput
from tpsrl.training import MAY_CHANGE, learning, opening_run, summary
from ver_core.policy import RecurrentPolicy
from ver_core.trainer import Result, Trainer

FRESH = ("value_head.", "critic.", "cpc.")
"""What is not taken over from another task's policy (DD-PPO, section 6: the critic's layers begin anew)."""


def nav_run(folder: Path) -> TrainNavConfig:
    """Return the configuration of the run in a folder. Raises `BadInput`."""
    try:
        return read_nav_config(folder / CONFIG)
    except ConfigError as error:
        raise BadInput(str(error)) from error


def train_nav(config: TrainNavConfig, out: Path, resume: bool) -> Result:
    """Train, print what came of it, and return that. Raises `BadInput` or `Failure`."""
    for key, value, choices in (
        ("task", config.task, TASKS),
        ("obs", config.obs, SENSORS),
        ("turn_deg", config.turn_deg, TURNS_DEG),
    ):
        if value not in choices:
            raise BadInput(f"{key}={value}: choose from {', '.join(map(str, choices))}")
    if config.in_view and config.task != "objectnav":
        raise BadInput(f"in_view: {config.task} looks for nothing; leave it out")
    config = replace(config, policy=fit_navigation_policy(config.policy, config.task, config.obs, config.gps))
    if config.initial_weights:
        config = replace(config, initial_weights=str(Path(config.initial_weights).resolve()))
    if resume and (change := changed_key(nav_run(out), config, MAY_CHANGE)):
        key, old, new = change
        raise BadInput(f"{key}={new}: the run in {out} has {key}={old}; leave it so, or train in another folder")
    weights = Path(config.initial_weights) / WEIGHTS if config.initial_weights and not resume else None
    if weights is not None and not weights.is_file():
        raise BadInput(f"initial_weights={config.initial_weights}: holds no {WEIGHTS}; give a run's folder")
    name = f"{config.task} ({config.obs}, {'GPS+compass' if config.gps else 'no GPS'})"
    options = {key: getattr(config, key) for key in TASK_KEYS}
    with opening_run():
        trainer = Trainer(
            partial(make_navigation_env, config.task, split="train", **options),
            config.train,
            config.policy,
            out=out,
            resume=resume,
            config_yaml=train_config_yaml(config),
            wandb_mode=config.wandb.mode,
            description=name,
            begin=None if weights is None else partial(_take_weights, weights),
        )
    before = trainer.steps
    with learning():
        result = trainer.train()
    if trainer.world.rank == 0:
        click.echo(summary(name, f"train-nav {config.task}", config.train.total_steps, result, before, out))
    return result


def _take_weights(path: Path, policy: RecurrentPolicy) -> None:
    """Give the policy another one's weights, but for what every task learns anew."""
    fresh = {name: tensor for name, tensor in policy.state_dict().items() if name.startswith(FRESH)}
    try:
        kept = {name: tensor for name, tensor in load_file(path).items() if not name.startswith(FRESH)}
        policy.load_state_dict(kept | fresh)
    except (RuntimeError, SafetensorError) as error:
        said = " ".join(str(error).split())
        raise BadInput(f"initial_weights: {path} is of another network ({said[:200]})") from error
