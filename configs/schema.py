"""The typed form of the YAML files: Hydra composes, these dataclasses check names, types and ranges."""

from __future__ import annotations

from dataclasses import dataclass, field

from hydra import compose, initialize_config_module
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException


class ConfigError(ValueError):
    """An override that does not fit; the message is one line."""


@dataclass
class SimConfig:
    name: str = "mujoco"
    obs: str = "laser"


@dataclass
class ChainConfig:
    """Time limits in control steps (1/30 s)."""

    episode_steps: int = 7500
    skill_steps: dict[str, int | None] = field(default_factory=dict)


@dataclass
class VideoConfig:
    height: int = 480
    """Pixels."""
    fps: int = 15
    max_s: int = 25
    """Seconds."""


@dataclass
class EvalConfig:
    """`configs/eval.yaml`; its comments say what the values mean."""

    sim: SimConfig = field(default_factory=SimConfig)
    chain: ChainConfig = field(default_factory=ChainConfig)
    video: VideoConfig = field(default_factory=VideoConfig)


def load_eval_config(overrides: list[str]) -> EvalConfig:
    """Compose `eval.yaml` with Hydra overrides; raises `ConfigError` with one line that says what is wrong."""
    try:
        with initialize_config_module("configs"):
            composed = compose("eval", overrides=overrides)
        typed = OmegaConf.merge(OmegaConf.structured(EvalConfig), composed)
        config = OmegaConf.to_object(typed)
    except (HydraException, OmegaConfBaseException) as error:
        cause = error.__cause__ or error
        raise ConfigError(f"bad override: {' '.join(str(cause).split())}") from error
    assert isinstance(config, EvalConfig)
    _check(config)
    return config


def _check(config: EvalConfig) -> None:
    if config.sim.name != "mujoco":
        raise ConfigError(f"sim.name={config.sim.name}: only mujoco is built in; `tpsrl doctor` says more")
    if config.sim.obs not in ("laser", "depth"):
        raise ConfigError(f"sim.obs={config.sim.obs}: choose laser or depth")
    numbers = {
        "chain.episode_steps": config.chain.episode_steps,
        **{f"chain.skill_steps.{name}": n for name, n in config.chain.skill_steps.items() if n is not None},
        "video.height": config.video.height,
        "video.fps": config.video.fps,
        "video.max_s": config.video.max_s,
    }
    for name, value in numbers.items():
        if value < 1:
            raise ConfigError(f"{name}={value}: must be at least 1")
