"""Environments for measuring the training core; in a module of their own so that env workers need not import torch."""

from __future__ import annotations

import time
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

Step = tuple[np.ndarray, float, bool, bool, dict[str, Any]]


class NoOp(gymnasium.Env[Any, Any]):
    """Eight numbers in, two out, and nothing in between."""

    observation_space = spaces.Box(-1.0, 1.0, (8,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(self) -> None:
        self._observation = np.zeros(8, np.float32)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        return self._observation, {}

    def step(self, action: np.ndarray) -> Step:
        return self._observation, 0.0, False, False, {}


MEAN_S = 16 / 442
"""Mean step time: 16 environments make 442 steps/s if nobody waits, as in the paper's Table 1."""
PARETO = 2.8
"""Tail index of an action's time; the smaller, the heavier."""
EPISODE_SIGMA = 0.25
"""Log-normal spread of an episode's time."""
LONGEST = 25.0
"""Truncation of an action's time, in units of its mean."""
EPISODE_STEPS = 128


class Straggler(gymnasium.Env[Any, Any]):
    """Sleeps in each step, as a simulator on a GPU would leave the processor free.

    A step takes MEAN_S x E x A seconds: E is drawn once an episode, log-normal with mean 1 and spread EPISODE_SIGMA; A
    is drawn for each action, Pareto with mean 1 and tail index PARETO, truncated at LONGEST. `even`: always MEAN_S.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (78,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (10,), np.float32)

    def __init__(self, even: bool = False) -> None:
        self._even = even

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        # The first episode ends anywhere, so that the environments are out of step with each other.
        self._left = EPISODE_STEPS if seed is None else int(self.np_random.integers(1, EPISODE_STEPS + 1))
        self._scale = float(np.exp(EPISODE_SIGMA * self.np_random.standard_normal() - EPISODE_SIGMA**2 / 2))
        return self._observe(), {}

    def step(self, action: np.ndarray) -> Step:
        due = time.perf_counter() + (MEAN_S if self._even else MEAN_S * self._scale * self._action_time())
        self._left -= 1
        observation = self._observe()
        time.sleep(max(0.0, due - time.perf_counter()))
        return observation, float(observation[0]), False, self._left == 0, {}

    def _observe(self) -> np.ndarray:
        return self.np_random.standard_normal(78, dtype=np.float32)

    def _action_time(self) -> float:
        least = (PARETO - 1) / PARETO
        return min(LONGEST, least * (1.0 + float(self.np_random.pareto(PARETO))))
