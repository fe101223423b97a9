"""Training beside a teacher: a trained policy that sees something else says what it would do where the learner is.

On-policy distillation: the states are the learner's own, so it learns what to do where its own mistakes lead. What the
teacher says is for training, as what the critic is told: no policy sees it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray

from hab.actions import Action
from hab.sensors import Observation
from skills.task import SkillTask
from skills.trained import TrainedPolicy
from ver_core.config import PolicyConfig
from ver_core.env_worker import MakeEnv
from ver_core.spaces import ActionLayout

TEACHER = "teacher"
"""The observation's key."""


@dataclass(frozen=True)
class Teacher:
    """Where a teacher is, and what it was trained for; the action repeat is the learner's."""

    obs: str
    policy: PolicyConfig
    weights: Path


class Taught(gymnasium.Wrapper[Observation, Action, Observation, Action]):
    """A skill's task that shows `ActionDistribution.opinion` of a teacher of the same skill, (2 A,), besides.

    The teacher remembers the whole episode, as seen by its own sensors, with the learner's actions for its own: as the
    environment took them, within their bounds (its own it knows as drawn).
    """

    def __init__(self, env: gymnasium.Env[Observation, Action], teacher: Teacher) -> None:
        """Wrap a skill's task. Raises `WeightsError` or OSError if the teacher's weights cannot be used."""
        super().__init__(env)
        task: Any = env.unwrapped
        assert isinstance(task, SkillTask) and isinstance(env.observation_space, spaces.Dict)
        self._task: SkillTask[Any] = task
        self._teacher: TrainedPolicy = TrainedPolicy(
            task.skill, teacher.obs, task.base_movement, teacher.policy, 1, teacher.weights
        )
        size = 2 * ActionLayout(env.action_space).size
        told = spaces.Box(-np.inf, np.inf, (size,), np.float32)
        self.observation_space = spaces.Dict({**env.observation_space.spaces, TEACHER: told})

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        observation, info = super().reset(seed=seed, options=options)
        self._teacher.reset(self._task.sim, self._task.goal)
        return {**observation, TEACHER: self._opinion()}, info

    def step(self, action: Action) -> tuple[Observation, Any, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        self._teacher.followed(action)
        return {**observation, TEACHER: self._opinion()}, reward, terminated, truncated, info

    def _opinion(self) -> NDArray[np.float32]:
        return self._teacher.opinion(self._task.sim)


def make_taught_env(make_env: MakeEnv, teacher: Teacher) -> gymnasium.Env[Any, Any]:
    """Return a skill's training environment beside a teacher, for an env worker."""
    torch.set_num_threads(1)
    return Taught(make_env(), teacher)
