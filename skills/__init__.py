"""Skills: what they are, their tasks, and who can play them.

Importing it registers the tasks with gymnasium. How to add a skill: docs/howto/new_skill.md.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

import gymnasium

from hab.actions import BASE
from hab.observation_sets import DEFAULT

if TYPE_CHECKING:
    from skills.task import SkillTask

TASKS: dict[str, str] = {
    "navigate": "skills.navigate:Navigate",
    "pick": "skills.pick:Pick",
    "place": "skills.place:Place",
    "open_fridge": "skills.articulated:OpenFridge",
    "close_fridge": "skills.articulated:CloseFridge",
    "open_cabinet": "skills.articulated:OpenCabinet",
    "close_cabinet": "skills.articulated:CloseCabinet",
    "rearrange": "skills.rearrange:Rearrange",
}
"""Skill -> its class, which says all else: ours, then what other packages have as entry points of `tpsrl.skills`."""

for _other in entry_points(group="tpsrl.skills"):
    TASKS.setdefault(_other.name, _other.value)


class SkillError(ValueError):
    """A skill of another package that cannot be used; the message is one line."""


def env_id(skill: str) -> str:
    """Return the gymnasium id of a skill's task: tpsrl/OpenFridge-v0."""
    return f"tpsrl/{skill.title().replace('_', '')}-v0"


for _skill, _class in TASKS.items():
    gymnasium.register(env_id(_skill), entry_point=_class, disable_env_checker=True)


def task_class(skill: str) -> type[SkillTask[Any]]:
    """Return a skill's task. Raises `SkillError`."""
    module, _, name = TASKS[skill].partition(":")
    try:
        task: type[SkillTask[Any]] = getattr(import_module(module), name)
    except (ImportError, AttributeError) as error:
        raise SkillError(f"skill {skill!r}: {TASKS[skill]} cannot be loaded: {error}") from error
    if getattr(task, "skill", None) != skill:
        raise SkillError(f"skill {skill!r}: {TASKS[skill]} has to have skill = {skill!r}, as its entry point is called")
    for attribute in ("number", "parts", "keys", "surroundings_size"):
        if not hasattr(task, attribute):
            raise SkillError(f"skill {skill!r}: {TASKS[skill]} lacks `{attribute}` (skills/task.py)")
    return task


def always_drives(skill: str) -> bool:
    """Whether a skill is nothing without the base, and so has one variant."""
    return BASE in task_class(skill).parts


def make_env(
    skill: str,
    split: str = "val",
    obs: str = DEFAULT,
    base_movement: bool = True,
    index: int | None = None,
    render_mode: str | None = None,
    action_repeat: int = 1,
    starts: str = "wide",
    chain_starts: float = 0.0,
    chain_states: str = "",
    retries: float = 0.0,
    practised: Mapping[str, float] | None = None,
    sim: str = "mujoco",
    depth_noise: bool = False,
    critic_keys: Sequence[str] = (),
) -> gymnasium.Env[Any, Any]:
    """Return a skill's task (the arguments: skills/task.py); `index` fixes its start state (None: drawn)."""
    if skill not in TASKS:
        raise ValueError(f"unknown skill {skill!r}; choose from {', '.join(TASKS)}")
    return gymnasium.make(
        env_id(skill),
        split=split,
        obs=obs,
        base_movement=base_movement,
        index=index,
        render_mode=render_mode,
        action_repeat=action_repeat,
        starts=starts,
        chain_starts=chain_starts,
        chain_states=chain_states,
        retries=retries,
        practised=practised,
        sim=sim,
        depth_noise=depth_noise,
        critic_keys=critic_keys,
    )


__all__ = ["TASKS", "SkillError", "always_drives", "env_id", "make_env", "task_class"]
