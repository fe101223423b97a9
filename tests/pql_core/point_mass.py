"""A task of seconds: bring a point to the origin, and set a switch as a lamp says. Its best return is known.

No torch: env workers import it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from faulty_envs import is_first
from gymnasium import spaces

STEPS, REACH = 16, 0.2
BEST = -sum((1.0 - REACH * k) ** 2 / 2.0 for k in range(1, 5))
"""Mean return of going straight to the origin: the sum of E max(|x| - 0.2 k, 0) for |x| drawn evenly from [0, 1]."""


class PointMass(gymnasium.Env[Any, Any]):
    """x += 0.2 a; reward -|x|, and -0.5 where the switch is not as the lamp says. Cut off after 16 steps."""

    observation_space = spaces.Dict(
        {"place": spaces.Box(-np.inf, np.inf, (1,), np.float32), "lamp": spaces.Box(0.0, 1.0, (1,), np.float32)}
    )
    action_space = spaces.Dict(
        {"move": spaces.Box(-1.0, 1.0, (1,), np.float32), "switch": spaces.Box(-1.0, 1.0, (1,), np.float32)}
    )

    def __init__(self, crash_once: Path | None = None) -> None:
        """crash_once: the process dies in its 40th step, unless another has made this file; it makes it."""
        self._crash_once, self._steps = crash_once, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self._x, self._played = float(self.np_random.uniform(-1.0, 1.0)), 0
        return self._look(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self._steps += 1
        if self._crash_once and self._steps == 40 and is_first(self._crash_once):
            os._exit(3)
        self._x += REACH * float(action["move"][0])
        wrong = (float(action["switch"][0]) > 0.0) != bool(self._lamp)
        self._played += 1
        reward = -abs(self._x) - 0.5 * wrong
        return self._look(), reward, False, self._played == STEPS, {"success": abs(self._x) < 0.1}

    def _look(self) -> dict[str, Any]:
        self._lamp = int(self.np_random.integers(2))
        return {"place": np.array([self._x], np.float32), "lamp": np.array([self._lamp], np.float32)}
