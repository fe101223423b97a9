"""Skills: what they are, their tasks, and who can play them.

Importing it registers the tasks with gymnasium.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium

from hab.observation_sets import DEFAULT

TASKS: dict[str, tuple[str, str]] = {
    "navigate": ("tpsrl/Navigate-v0", "skills.navigate:Navigate"),
    "pick": ("tpsrl/Pick-v0", "skills.pick:Pick"),
    "place": ("tpsrl/Place-v0", "skills.place:Place"),
    "open_fridge": ("tpsrl/OpenFridge-v0", "skills.articulated:OpenFridge"),
    "close_fridge": ("tpsrl/CloseFridge-v0", "skills.articulated:CloseFridge"),
    "open_cabinet": ("tpsrl/OpenCabinet-v0", "skills.articulated:OpenCabinet"),
    "close_cabinet": ("tpsrl/CloseCabinet-v0", "skills.articulated:CloseCabinet"),
    "rearrange": ("tpsrl/Rearrange-v0", "skills.rearrange:Rearrange"),
}
"""Skill -> gymnasium id and class."""

for _id, _entry_point in TASKS.values():
    gymnasium.register(_id, entry_point=_entry_point, disable_env_checker=True)


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
    sim: str = "mujoco",
    critic_keys: Sequence[str] = (),
) -> gymnasium.Env[Any, Any]:
    """Return a skill's task (the arguments: skills/task.py); `index` fixes its start state (None: drawn)."""
    if skill not in TASKS:
        raise ValueError(f"unknown skill {skill!r}; choose from {', '.join(TASKS)}")
    return gymnasium.make(
        TASKS[skill][0],
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
        sim=sim,
        critic_keys=critic_keys,
    )


__all__ = ["TASKS", "make_env"]
