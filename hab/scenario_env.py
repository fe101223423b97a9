"""The three scenarios as gymnasium environments: the whole task at once, every sensor, every action part.

Time limit and reward: habitat-lab's 3000 control steps, times 2.5 because our base is that much slower; 100 when every
object is placed and the hand is free. Stop ends the episode.
"""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from hab import IDS
from hab.actions import SIZES, Action, action_space, stop_called
from hab.backend import make_simulator
from hab.episodes import SCENARIOS, TARGETS, make_episode
from hab.measures import PLACED_M
from hab.observation_sets import DEFAULT
from hab.sampler import EpisodeSampler
from hab.sensors import Observation, ScenarioSensors, scenario_space

__all__ = ["IDS", "MAX_STEPS", "SUCCESS_REWARD", "TARGETS", "ScenarioEnv"]

MAX_STEPS = 7500
SUCCESS_REWARD = 100.0
PLACED_LOOSELY_M = 0.3
"""Radius of habitat's PDDL predicate `object_at`, recorded beside the papers' 0.15 m."""


class ScenarioEnv(gymnasium.Env[Any, Any]):
    """One scenario on a simulator (`hab.backend`).

    `index` fixes the episode; None draws one at each reset. `reset(options={"index": i})` plays episode i.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 30}

    def __init__(
        self,
        scenario: str,
        split: str = "train",
        obs: str = DEFAULT,
        index: int | None = None,
        render_mode: str | None = None,
        sim: str = "mujoco",
    ) -> None:
        if scenario not in SCENARIOS:
            raise ValueError(f"unknown scenario {scenario!r}; choose from {', '.join(SCENARIOS)}")
        self.scenario, self.split, self.obs, self.render_mode = scenario, split, obs, render_mode
        self._sampler = EpisodeSampler(split, index)
        self.sim = make_simulator(sim, films=render_mode == "rgb_array")
        self.action_space = action_space(tuple(SIZES))
        self.observation_space = scenario_space(obs, TARGETS[scenario])

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        episode = make_episode(
            self.scenario, self.split, self._sampler.draw(self.np_random, options, restart=seed is not None)
        )
        self.sim.reset(episode)
        self._sensors = ScenarioSensors(self.sim, self.obs)
        self._objects = tuple(target.object for target in episode.targets)
        self._goals = [target.goal_pos for target in episode.targets]
        self._stages = [False] * (2 * len(self._objects))
        return self._sensors.read(), self._info()

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        self.sim.step(action)
        info = self._info()
        success = info["success"]
        terminated = success or stop_called(action)
        truncated = not terminated and self.sim.steps >= MAX_STEPS
        return self._sensors.read(), SUCCESS_REWARD if success else 0.0, terminated, truncated, info

    def render(self) -> NDArray[np.uint8] | None:
        """(480, 640, 3) third-person view, if `render_mode` is "rgb_array"."""
        return self.sim.render_rgb(640, 480) if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        self.sim.close()

    def _info(self) -> dict[str, Any]:
        """Measure; plain Python, which for a handful of numbers is faster than arrays."""
        held = self.sim.held
        positions = self.sim.object_positions(self._objects).tolist()
        error_m = [math.dist(position, goal) for position, goal in zip(positions, self._goals, strict=True)]
        free = [name != held for name in self._objects]
        placed = [error < PLACED_M and let_go for error, let_go in zip(error_m, free, strict=True)]
        self._reach_stages(placed)
        return {
            "success": held == "" and all(placed),
            "object_to_goal_distance": error_m,
            "placed": placed,
            "placed_0_3m": [error < PLACED_LOOSELY_M and let_go for error, let_go in zip(error_m, free, strict=True)],
            "stage_goals": self._stages.copy(),
            "num_steps": self.sim.steps,
            "robot_force": self.sim.force_n,
            "index": self.sim.episode.index,
        }

    def _reach_stages(self, placed: list[bool]) -> None:
        """Note the stage goals that hold: "object k in hand, all earlier ones placed", "k and earlier ones placed"."""
        held, earlier = self.sim.held, 0
        while earlier < len(placed) and placed[earlier]:
            earlier += 1
            if held == "":
                self._stages[2 * earlier - 1] = True
        if earlier < len(placed) and held == self._objects[earlier]:
            self._stages[2 * earlier] = True
