"""Folders of trained policies: the packaged zoo, or the user's own runs of `tpsrl train-skill` side by side."""

from __future__ import annotations

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import skills
from configs.navigation import is_navigation_run
from configs.schema import ConfigError, TrainSkillConfig, read_train_config
from hab.observation_sets import LASER, LASER_MAP, OBSERVATION_SETS
from skills import TASKS, always_drives, task_class

ZOO = Path(skills.__file__).parent / "zoo"
"""The packaged policies."""
WEIGHTS, CONFIG = "policy.safetensors", "config.yaml"


class ZooError(ValueError):
    """A folder of policies that cannot be used; the message is one line."""


@dataclass(frozen=True)
class Entry:
    """One trained policy: a folder with its weights and its resolved configuration."""

    folder: Path
    config: TrainSkillConfig

    @property
    def name(self) -> str:
        """As the zoo's folders are called."""
        return entry_name(self.config)


def entry_name(config: TrainSkillConfig) -> str:
    """Return the name of a policy's folder in the zoo: pick_nav_laser."""
    return f"{job_name(config)}_{config.obs}"


def job_name(config: TrainSkillConfig) -> str:
    """Return which skill it is, and which variant: pick_nav."""
    return config.skill + ("" if always_drives(config.skill) else "_nav" if config.nav else "_nonav")


def run_entry(folder: Path) -> Entry:
    """Return the policy that a training run's folder, or one of the zoo's, holds. Raises `ZooError`."""
    file = folder / CONFIG
    try:
        now = file.stat() if file.is_file() else None
        config = deepcopy(_config(file, now and (now.st_mtime_ns, now.st_size)))
    except ConfigError as error:
        raise ZooError(str(error)) from error
    if config.skill not in TASKS:
        raise ZooError(f"{folder}: plays {config.skill!r}, which is no skill here; install the package that has it")
    if not (folder / WEIGHTS).is_file():
        raise ZooError(f"{folder}: holds no {WEIGHTS} yet; training writes it with its first checkpoint")
    return Entry(folder, config)


@lru_cache(maxsize=128)
def _config(file: Path, changed: tuple[int, int] | None) -> TrainSkillConfig:
    """Return what a file says, kept until it is `changed` (when, and its size): reading one takes a tenth of a second,
    and a command asks for all of a folder several times."""
    return read_train_config(file)


def entries(folder: Path) -> list[Entry]:
    """Return the skills' policies in the folders in `folder`, by skill; runs of navigation tasks beside them are left
    alone. Raises `ZooError` where two are for the same job."""
    found: dict[str, Entry] = {}
    for weights in sorted(folder.glob(f"*/{WEIGHTS}")):
        try:
            entry = run_entry(weights.parent)
        except ZooError:
            if is_navigation_run(weights.parent / CONFIG):
                continue
            raise
        other = found.setdefault(entry.name, entry)
        if other is not entry:
            raise ZooError(f"{other.folder} and {entry.folder} are both {entry.name}; move one of them away")
    order = list(TASKS)
    return sorted(found.values(), key=lambda e: (order.index(e.config.skill), not e.config.nav, e.config.obs))


def find(found: Iterable[Entry], skill: str, base_movement: bool, obs: str | None) -> Entry | None:
    """Return the policy for a job, if there is one; Navigate always drives.

    `obs`: what it has to see; None: of those that there are, the first in the order of `OBSERVATION_SETS`. With
    `laser+map` a skill that draws no map sees `laser`.
    """
    drives = base_movement or always_drives(skill)
    if obs == LASER_MAP and not task_class(skill).map_room_m:
        obs = LASER
    fit = {e.config.obs: e for e in found if (e.config.skill, e.config.nav) == (skill, drives)}
    return next((fit[name] for name in OBSERVATION_SETS if name in fit and obs in (None, name)), None)
