"""The typed form of the YAML files: Hydra composes, these dataclasses check names, types and ranges."""

from __future__ import annotations

from dataclasses import dataclass, field

from hydra import compose, initialize_config_module
from hydra.errors import HydraException
from omegaconf import MISSING, OmegaConf
from omegaconf.errors import OmegaConfBaseException

HEIGHT_STEP = 48
"""Videos of such heights have sides that are multiples of 16 (the strip of text is 64 high), as codecs want."""


class ConfigError(ValueError):
    """An override that does not fit; the message is one line."""


@dataclass
class SimConfig:
    name: str = MISSING
    obs: str = MISSING


@dataclass
class ChainConfig:
    """Time limits in control steps (1/30 s); None: the scenario's or the skill's own."""

    episode_steps: int | None = None
    skill_steps: dict[str, int | None] = field(default_factory=dict)


@dataclass
class VideoConfig:
    height: int = MISSING
    """Pixels."""
    fps: int = MISSING
    max_s: int = MISSING
    """Seconds."""


@dataclass
class EvalConfig:
    """`configs/eval.yaml`, where the defaults are; its comments say what the values mean."""

    sim: SimConfig = field(default_factory=SimConfig)
    chain: ChainConfig = field(default_factory=ChainConfig)
    video: VideoConfig = field(default_factory=VideoConfig)


def load_eval_config(overrides: list[str]) -> EvalConfig:
    """Compose `eval.yaml` with Hydra overrides; raises `ConfigError` with one line that says what is wrong."""
    for override in overrides:
        if override.lstrip("+~").startswith("hydra"):
            raise ConfigError(f"bad override: {override}: only keys of configs/eval.yaml can be set")
    try:
        with initialize_config_module("configs"):
            composed = compose("eval", overrides=overrides)
        typed = OmegaConf.merge(OmegaConf.structured(EvalConfig), composed)
        config = OmegaConf.to_object(typed)
    except (HydraException, OmegaConfBaseException, ValueError, TypeError) as error:
        cause = error.__cause__ or error
        raise ConfigError(f"bad override: {' '.join(str(cause).split())}") from error
    assert isinstance(config, EvalConfig)
    _check(config)
    return config


def _check(config: EvalConfig) -> None:
    chain, video = config.chain, config.video
    if config.sim.obs not in ("laser", "depth"):
        raise ConfigError(f"sim.obs={config.sim.obs}: choose laser or depth")
    limits = {"episode_steps": chain.episode_steps, **{f"skill_steps.{s}": n for s, n in chain.skill_steps.items()}}
    for name, steps in limits.items():
        if steps is not None and steps < 1:
            raise ConfigError(f"chain.{name}={steps}: must be at least 1")
    for name, value, low, high in (
        ("height", video.height, HEIGHT_STEP * 3, HEIGHT_STEP * 22),
        ("fps", video.fps, 1, 60),
        ("max_s", video.max_s, 1, 3600),
    ):
        if not low <= value <= high:
            raise ConfigError(f"video.{name}={value}: choose from {low} to {high}")
    if video.height % HEIGHT_STEP:
        raise ConfigError(
            f"video.height={video.height}: choose a multiple of {HEIGHT_STEP}, as "
            f"{video.height - video.height % HEIGHT_STEP}"
        )
