"""PointNav with the laser whose steps cost what depth's do: each draws the depth image, too, and nobody looks at it."""

from __future__ import annotations

from typing import Any

import gymnasium

from hab.navigation.env import NavigationEnv, make_navigation_env


class Drawing(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Draws at each step what the head camera sees."""

    def step(self, action: Any) -> Any:
        task = self.unwrapped
        assert isinstance(task, NavigationEnv)
        task.apartment.camera.depth(task.pose)
        return super().step(action)


def drawing_pointnav() -> gymnasium.Env[Any, Any]:
    """Return the environment, of training apartments."""
    return Drawing(make_navigation_env("pointnav", split="train"))
