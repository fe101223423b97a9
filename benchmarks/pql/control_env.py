"""The control suites' environments. No torch: env workers import it."""

from __future__ import annotations

import time
from typing import Any

import gymnasium


class Slowed(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Sleeps in each step."""

    def __init__(self, env: gymnasium.Env[Any, Any], step_s: float) -> None:
        super().__init__(env)
        self._step_s = step_s

    def step(self, action: Any) -> Any:
        time.sleep(self._step_s)
        return self.env.step(action)


def make(task: str, step_s: float = 0.0) -> gymnasium.Env[Any, Any]:
    """Return the task; each step takes `step_s` longer."""
    env = gymnasium.make(task)
    return Slowed(env, step_s) if step_s else env
