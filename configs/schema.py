"""The typed form of the YAML files: Hydra composes, these dataclasses check names, types and ranges."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Any, TypeVar

from hydra import compose, initialize_config_module
from hydra.core.config_store import ConfigStore
from hydra.errors import HydraException
from omegaconf import MISSING, DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from hab.episodes import FEWEST_OBJECTS
from hab.objects import HOUSE_OBJECTS
from hab.observation_sets import DEFAULT, OBSERVATION_SETS
from pql_core.config import PqlConfig, check_network
from ver_core.config import ConfigError, PolicyConfig, TrainConfig

T = TypeVar("T")

HEIGHT_STEP = 48
"""Videos of such heights have sides that are multiples of 16 (the strip of text is 64 high), as codecs want."""
ALGORITHMS = ("ver", "pql")
WANDB_MODES = ("disabled", "offline", "online")


@dataclass
class SimConfig:
    name: str = MISSING
    obs: str | None = None
    objects: int | None = None
    depth_noise: bool = False


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


@dataclass
class WandbConfig:
    mode: str = "disabled"
    """disabled, offline or online."""


@dataclass
class TrainSkillConfig:
    """`configs/train_skill.yaml`: what is trained, how, and where the results go."""

    skill: str = MISSING
    nav: bool = True
    """Whether the skill may drive the base."""
    obs: str = DEFAULT
    sim: str = "mujoco"
    data: str = ""
    """A folder of Habitat data whose training episodes start states are made of; "": they are of our apartments."""
    depth_noise: bool = False
    """Whether depth images have a real camera's flaws (hab/depth_noise.py)."""
    action_repeat: int = 1
    """Control steps (1/30 s) that each action is held for. Training's steps are such actions."""
    starts: str = "wide"
    """Start states of Pick and Place: `wide`, or `near` (skills/starts.py)."""
    chain_starts: float = 0.0
    """Share of the start states that are as the chain hands over, instead of the task's own."""
    chain_states: str = ""
    """The file that they are from (`tpsrl record-starts`); "": they are drawn (skills/starts.py)."""
    retries: float = 0.0
    """Share of the training episodes that are failed ones of the same apartment again, where there are such."""
    practised: dict[str, float] = field(default_factory=dict)
    """By kind of furniture, or `floor`: how much likelier than others Pick's and Place's calls are about what lies, or
    is to lie, there (skills/task.py)."""
    initial_weights: str = ""
    """A run's folder, or a packaged policy's: begin with its weights; "": random ones."""
    teacher: str = ""
    """A run's folder, or a packaged policy's, of the same skill, that sees something else: it is imitated at first
    (`train.teacher_coef`); "": none."""
    out: str = ""
    """The run's folder."""
    algorithm: str = "ver"
    """ver: on-policy, with the parameters in `train`; pql: off-policy, with those in `pql`."""
    train: TrainConfig = field(default_factory=TrainConfig)
    pql: PqlConfig = field(default_factory=PqlConfig)
    policy: PolicyConfig = field(default_factory=PolicyConfig)
    wandb: WandbConfig = field(default_factory=WandbConfig)


def load_eval_config(overrides: list[str]) -> EvalConfig:
    """Compose `eval.yaml` with Hydra overrides; raises `ConfigError` with one line that says what is wrong."""
    config = typed_config(EvalConfig, compose_config("eval", overrides))
    _check_eval(config)
    return config


def load_train_config(overrides: list[str]) -> TrainSkillConfig:
    """Compose `train_skill.yaml` with Hydra overrides; raises `ConfigError` with one line that says what is wrong."""
    return typed_train_config(compose_config("train_skill", overrides))


def typed_train_config(composed: DictConfig) -> TrainSkillConfig:
    """Turn what Hydra composed of `train_skill.yaml` into its dataclass, checked; raises `ConfigError`."""
    config = typed_config(TrainSkillConfig, composed)
    if config.algorithm not in ALGORITHMS:
        raise ConfigError(f"algorithm={config.algorithm}: choose from {', '.join(ALGORITHMS)}")
    config.train.check()
    config.policy.check()
    if config.algorithm == "pql":
        config.pql.check()
        check_network(config.policy)
    if config.action_repeat < 1:
        raise ConfigError(f"action_repeat={config.action_repeat}: must be at least 1")
    for name in ("chain_starts", "retries"):
        if not 0.0 <= (share := getattr(config, name)) <= 1.0:
            raise ConfigError(f"{name}={share}: must lie between 0 and 1")
    if config.wandb.mode not in WANDB_MODES:
        raise ConfigError(f"wandb.mode={config.wandb.mode}: choose from {', '.join(WANDB_MODES)}")
    return config


def train_config_yaml(config: Any) -> str:
    """Return the file that a run keeps; without the folder, which may be moved."""
    masked = OmegaConf.masked_copy(OmegaConf.structured(config), [key for key in vars(config) if key != "out"])
    return OmegaConf.to_yaml(masked)


def read_train_config(path: Path) -> TrainSkillConfig:
    """Read what `train_config_yaml` made; raises `ConfigError`."""
    return read_run(path, typed_train_config, "a run's configuration")


def read_run(path: Path, typed: Callable[[DictConfig], T], what: str) -> T:
    """Read the configuration that a run keeps, `what` in words; raises `ConfigError`."""
    try:
        saved = OmegaConf.load(path)
        assert isinstance(saved, DictConfig)
        return typed(saved)
    except FileNotFoundError:
        raise ConfigError(f"{path.parent}: holds no run (no {path.name}); check the folder's name") from None
    except Exception as error:  # OSError, and whatever yaml raises for bytes that are none
        raise ConfigError(f"{path}: not {what}: {' '.join(str(error).split())}") from error


def changed_key(old: Any, new: Any, ignore: tuple[str, ...]) -> tuple[str, Any, Any] | None:
    """Return the first key, as in an override, whose value differs, and the two values; None: there is none."""

    def flat(node: Any, prefix: str) -> dict[str, Any]:
        if not isinstance(node, dict):
            return {prefix: node}
        return {k: v for name, child in node.items() for k, v in flat(child, f"{prefix}.{name}".lstrip(".")).items()}

    before, after = (flat(OmegaConf.to_container(OmegaConf.structured(config)), "") for config in (old, new))
    for key in {**before, **after}:
        if key not in ignore and before.get(key) != after.get(key):
            return key, before.get(key), after.get(key)
    return None


def override_key(override: str) -> str:
    """Return the key of a Hydra override."""
    return override.lstrip("+~").partition("=")[0].strip()


def compose_config(name: str, overrides: list[str]) -> DictConfig:
    """Compose a file of this package with Hydra overrides; raises `ConfigError`."""
    for override in overrides:
        if override.lstrip("+~").startswith("hydra"):
            raise ConfigError(f"bad override: {override}: only keys of configs/{name}.yaml can be set")
    try:
        with initialize_config_module("configs"):
            return compose(name, overrides=overrides)
    except (HydraException, OmegaConfBaseException, ValueError, TypeError) as error:
        raise _bad_override(error) from error


def typed_config(schema: type[Any], composed: DictConfig) -> Any:
    """Turn what Hydra composed into its dataclass; raises `ConfigError`."""
    try:
        plain = OmegaConf.to_container(composed, resolve=True)  # a typed config would bring keys added with + along
        return OmegaConf.to_object(OmegaConf.merge(_structured(schema), plain))  # type: ignore[arg-type]
    except (HydraException, OmegaConfBaseException, ValueError, TypeError) as error:
        raise _bad_override(error) from error


@lru_cache(maxsize=8)
def _structured(schema: type[Any]) -> Any:
    """Return a dataclass as OmegaConf has it, kept: a third of a configuration's time. It is merged by copy."""
    return OmegaConf.structured(schema)


def _bad_override(error: Exception) -> ConfigError:
    return ConfigError(f"bad override: {' '.join(str(error.__cause__ or error).split())}")


def _register_train_schema() -> None:
    """Let Hydra itself check names and types of `train_skill.yaml`; called on import."""
    schema = OmegaConf.structured(TrainSkillConfig)
    by_part = (schema.policy.heads, schema.policy.initial_bias, schema.policy.initial_part_std)
    for open_key in (*by_part, schema.practised):  # their keys depend on the skill, or on who asks
        OmegaConf.set_struct(open_key, False)
    ConfigStore.instance().store("train_skill_schema", schema)
    OmegaConf.register_resolver("nav_name", lambda nav: "nav" if nav else "nonav", replace=True)


_register_train_schema()


def _register_skills() -> None:
    """Let Hydra find the files of other packages' skills, each beside its module; called on import."""
    for skill in entry_points(group="tpsrl.skills"):
        node: Any = OmegaConf.create({"skill": skill.name})
        try:
            found = find_spec(skill.module)
            file = Path(found.origin).with_name(f"{skill.name}.yaml") if found and found.origin else None
            if file is not None and file.is_file():
                node = OmegaConf.merge(node, OmegaConf.load(file))
        except ImportError:
            pass  # said to who wants the skill (skills.task_class)
        except Exception as error:  # whatever yaml raises
            warnings.warn(f"skill {skill.name!r}: {' '.join(str(error).split())}", stacklevel=2)
        ConfigStore.instance().store(skill.name, node, group="skill", package="_global_")


_register_skills()


def _check_eval(config: EvalConfig) -> None:
    chain, video = config.chain, config.video
    if config.sim.obs is not None and config.sim.obs not in OBSERVATION_SETS:
        raise ConfigError(f"sim.obs={config.sim.obs}: choose from {', '.join(OBSERVATION_SETS)}")
    if config.sim.objects is not None and not FEWEST_OBJECTS <= config.sim.objects <= HOUSE_OBJECTS:
        raise ConfigError(f"sim.objects={config.sim.objects}: choose from {FEWEST_OBJECTS} to {HOUSE_OBJECTS}")
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
