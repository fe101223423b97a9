"""habitat-lab's own HAB tasks as gymnasium environments with our observation and action spaces.

Start states, rewards, measures and success are habitat-lab's. `--sim habitat` is the other way round: our tasks on
habitat-lab's robot and physics (`hab.habitat.simulator`).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from hab.actions import ARM, BASE, GRIP, SIZES, STOP, Action, action_space
from hab.habitat import lab
from hab.habitat.camera import ThirdPerson
from hab.sampler import EpisodeSampler
from hab.sensors import Observation, vector_space

_FORCE = "articulated_agent_force"
_RENAMED = {"ee_to_rest_distance": "end_effector_to_rest_distance", "ee_to_goal_distance": "object_to_goal_distance"}
"""habitat-lab's measures that have another name in ours."""


class HabitatTask(gymnasium.Env[Any, Any]):
    """One of `lab.CONFIGS` on the episodes of a folder of Habitat data.

    `index` fixes the episode by its place in the folder's file; None draws one at each reset, and
    `reset(options={"index": i})` plays episode i. Start states are drawn by habitat-lab: the seed decides them.
    """

    def __init__(
        self, name: str, folder: Path, split: str = "val", index: int | None = None, films: bool = False
    ) -> None:
        """`films`: whether `render_rgb` will be called (`lab.compose`).

        Raises `ValueError` for an unknown task, `FileNotFoundError` where the folder holds no episodes of it."""
        if name not in lab.CONFIGS:
            raise ValueError(f"unknown task {name!r}; choose from {', '.join(lab.CONFIGS)}")
        if reason := lab.missing():
            raise RuntimeError(reason)
        file = folder / "episodes" / split / f"{name}.json.gz"
        if not file.is_file():
            raise FileNotFoundError(f"{file} is missing: tpsrl export habitat {folder} --split {split} writes it")
        self.name, self.split, self._films = name, split, films
        self._sampler = EpisodeSampler(split, index)
        config = lab.compose(lab.Files.of_export(folder, name), name, split, colour=films)
        from habitat.core.environments import RLTaskEnv

        self._env = RLTaskEnv(config.habitat)
        self._episodes = sorted(self._env.episodes, key=lambda episode: int(episode.episode_id))
        self._keys = [key for key in config.habitat.gym.obs_keys if key in self._env.observation_space.spaces]
        self.observation_space = spaces.Dict({key: self._space(key) for key in self._keys})
        self.action_space = action_space(tuple(SIZES))

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        if seed is not None:
            self._env.habitat_env.seed(seed)
        index = self._sampler.draw(self.np_random, options, restart=seed is not None) % len(self._episodes)
        self._env.habitat_env.current_episode = self._episodes[index]
        seen = self._env.reset()
        self._view = ThirdPerson(self.habitat.sim)
        return self._observation(seen), self._info()

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        arguments = {
            "arm_action": np.array(action.get(ARM, np.zeros(7)), dtype=np.float32),
            "grip_action": 1.0 if float(action.get(GRIP, np.zeros(1))[0]) > 0.0 else -1.0,
            "base_vel": np.array(action.get(BASE, np.zeros(2)), dtype=np.float32),
            "rearrange_stop": np.array(action.get(STOP, np.zeros(1)), dtype=np.float32),
        }
        parts = ("arm_action", "base_velocity", "rearrange_stop")
        seen, reward, done, _ = self._env.step({"action": parts, "action_args": arguments})
        info = self._info()
        truncated = done and not info["success"] and self._env.habitat_env._past_limit()
        return self._observation(seen), float(reward), done and not truncated, truncated, info

    def render_rgb(self, width: int, height: int) -> NDArray[np.uint8]:
        """(height, width, 3) third-person view, as `hab.simulator.Simulator.render_rgb`'s."""
        if not self._films:
            raise RuntimeError("this environment draws no colours: make it with films=True")
        return self._view.render(width, height)

    def close(self) -> None:
        self._env.close()

    @property
    def habitat(self) -> Any:
        """habitat-lab's environment underneath."""
        return self._env.habitat_env

    def _space(self, key: str) -> spaces.Box:
        theirs = self._env.observation_space.spaces[key]
        if key in ("head_depth", "is_holding"):
            return spaces.Box(0.0, 1.0, theirs.shape, np.float32)
        return vector_space(int(np.prod(theirs.shape)))

    def _observation(self, seen: dict[str, Any]) -> Observation:
        read = {key: np.asarray(seen[key], dtype=np.float32) for key in self._keys}
        return {key: value if value.ndim == 3 else value.reshape(-1) for key, value in read.items()}

    def _info(self) -> dict[str, Any]:
        """Return habitat-lab's measures, by our names where we have them."""
        measured = dict(self._env.habitat_env.get_metrics())
        force = measured.pop(_FORCE, {})
        return {
            **{_RENAMED.get(str(name), str(name)): value for name, value in measured.items()},
            "success": bool(self._env._episode_success()),
            "robot_force": float(force.get("instant", 0.0)),
            "accumulated_force": float(force.get("accum", 0.0)),
        }
