"""Makes training environments in env workers, with all that they run imported beforehand.

The server that the workers are forked from imports a factory's module (ver_core/worker_pool.py): MuJoCo, numba and the
compiled functions are loaded once then, before the first step, and shared. Not for images: a display that MuJoCo has
opened for rendering does not outlive a fork.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import gymnasium

import hab.mujoco.simulator  # noqa: F401
from skills import TASKS, SkillError, make_env, task_class

for _skill in TASKS:
    with suppress(SkillError):  # another package's, which is for those to know who want it
        task_class(_skill)


def make_training_env(skill: str, split: str = "train", **task: Any) -> gymnasium.Env[Any, Any]:
    """Return a skill's task (the arguments: skills/task.py) on its training starts."""
    return make_env(skill, split=split, **task)
