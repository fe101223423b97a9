"""The typed form of `train_nav.yaml` (see configs/schema.py)."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, DictConfig, OmegaConf

from configs.schema import WANDB_MODES, WandbConfig, compose_config, read_run, typed_config
from ver_core.config import ConfigError, PolicyConfig, TrainConfig


@dataclass
class TrainNavConfig:
    """`configs/train_nav.yaml`: which navigation task is trained, how, and where the results go."""

    task: str = MISSING
    obs: str = "laser"
    gps: bool = True
    turn_deg: int = 10
    noise: bool = False
    in_view: bool = False
    initial_weights: str = ""
    """A run's folder: begin with its weights; "": random ones."""
    out: str = ""
    """The run's folder."""
    train: TrainConfig = field(default_factory=TrainConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    wandb: WandbConfig = field(default_factory=WandbConfig)


TASK_KEYS = ("obs", "gps", "turn_deg", "noise", "in_view")
"""What `hab.navigation.env.NavigationEnv` takes, under the same names."""


def load_nav_config(overrides: list[str]) -> TrainNavConfig:
    """Compose `train_nav.yaml` with Hydra overrides; raises `ConfigError` with one line that says what is wrong."""
    return _checked(compose_config("train_nav", overrides))


def read_nav_config(path: Path) -> TrainNavConfig:
    """Read the file that a run keeps; raises `ConfigError`."""
    return read_run(path, _checked, "the configuration of a navigation run")


def is_navigation_run(path: Path) -> bool:
    """Whether a run's file is of a navigation task, not of a skill."""
    try:
        read_nav_config(path)
    except ConfigError:
        return False
    return True


def _checked(composed: DictConfig) -> TrainNavConfig:
    config: TrainNavConfig = typed_config(TrainNavConfig, composed)
    config.train.check()
    config.policy.check()
    if config.wandb.mode not in WANDB_MODES:
        raise ConfigError(f"wandb.mode={config.wandb.mode}: choose from {', '.join(WANDB_MODES)}")
    return config


ConfigStore.instance().store("train_nav_schema", OmegaConf.structured(TrainNavConfig))
