"""Several hundred environments in one process, stepped by a few threads as one batch: a `gymnasium.vector.VectorEnv`.

For simulators that let go of Python's lock while they step, as MuJoCo does. Observations, rewards and actions are
tensors on a device of choice, as simulators on a GPU have them.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from ver_core.spaces import ActionLayout, ObsLayout


class ThreadedVectorEnv(VectorEnv[Any, Any, Any]):
    """N environments. Where an episode ends, the next one begins in the same step; `infos["final_obs"]` is then a batch
    of observations that is right for those that ended, `infos["final_info"]` their infos' numbers."""

    metadata: dict[str, Any] = {"autoreset_mode": AutoresetMode.SAME_STEP}

    def __init__(
        self, make_env: Callable[[], gymnasium.Env[Any, Any]], num_envs: int, threads: int, device: str = "cpu"
    ) -> None:
        """Make them; each thread steps an equal share of them."""
        self._envs = [make_env() for _ in range(num_envs)]
        self.num_envs = num_envs
        self.single_observation_space = self._envs[0].observation_space
        self.single_action_space = self._envs[0].action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self._layout, self._actions = ObsLayout(self.single_observation_space), ActionLayout(self.single_action_space)
        self._device = torch.device(device)
        self._threads = ThreadPoolExecutor(threads)
        self._shares = [range(first, num_envs, threads) for first in range(threads)]
        shapes = (num_envs, self._layout.floats), (num_envs, self._layout.bytes)
        self._floats, self._bytes = np.zeros(shapes[0], np.float32), np.zeros(shapes[1], np.uint8)
        self._final_floats, self._final_bytes = np.zeros(shapes[0], np.float32), np.zeros(shapes[1], np.uint8)
        self._reward = np.zeros(num_envs, np.float32)
        self._terminated, self._truncated = np.zeros(num_envs, bool), np.zeros(num_envs, bool)
        self._infos: list[dict[str, Any]] = [{}] * num_envs

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Any, dict[str, Any]]:
        """Begin new episodes everywhere; environment i with seed + i."""
        for number, env in enumerate(self._envs):
            own = seed[number] if isinstance(seed, list) else None if seed is None else seed + number
            observation, _ = env.reset(seed=own, options=options)
            self._layout.pack(observation, self._floats[number], self._bytes[number])
        return self._batch(self._floats, self._bytes), {}

    def step(self, actions: Any) -> tuple[Any, Any, Any, Any, dict[str, Any]]:
        """Step all of them; `actions` and what is returned are tensors, batches of N."""
        plain = self._actions.plain
        parts = [actions if plain else actions[part.name] for part in self._actions.parts]
        flat = torch.cat([torch.as_tensor(part).reshape(self.num_envs, -1).float() for part in parts], 1).cpu().numpy()
        for done in [self._threads.submit(self._step, share, flat) for share in self._shares]:
            done.result()
        ended = np.flatnonzero(self._terminated | self._truncated)
        infos: dict[str, Any] = {}
        if len(ended):
            infos = {
                "final_obs": self._batch(self._final_floats, self._final_bytes),
                "final_info": self._numbers(ended),
            }
        outcome = (self._tensor(column) for column in (self._reward, self._terminated, self._truncated))
        return self._batch(self._floats, self._bytes), *outcome, infos

    def close(self, **kwargs: Any) -> None:
        """End the threads and close the environments."""
        self._threads.shutdown()
        for env in self._envs:
            env.close()

    def _step(self, share: range, flat: np.ndarray[Any, Any]) -> None:
        for number in share:
            env, floats, bytes_ = self._envs[number], self._floats[number], self._bytes[number]
            observation, reward, terminated, truncated, info = env.step(self._actions.decode(flat[number]))
            self._reward[number] = reward
            self._terminated[number], self._truncated[number] = terminated, truncated
            if terminated or truncated:
                self._layout.pack(observation, self._final_floats[number], self._final_bytes[number])
                self._infos[number] = info
                observation, _ = env.reset()
            self._layout.pack(observation, floats, bytes_)

    def _batch(self, floats: np.ndarray[Any, Any], bytes_: np.ndarray[Any, Any]) -> Any:
        parts = self._layout.split(self._tensor(floats), self._tensor(bytes_))
        return parts[self._layout.keys[0].name] if self._layout.plain else parts

    def _tensor(self, array: np.ndarray[Any, Any]) -> torch.Tensor:
        """Copy: the next step writes to the same memory."""
        return torch.from_numpy(array.copy()).to(self._device)

    def _numbers(self, ended: np.ndarray[Any, Any]) -> dict[str, np.ndarray[Any, Any]]:
        found: dict[str, np.ndarray[Any, Any]] = {}
        for number in ended.tolist():
            for name, value in self._infos[number].items():
                if isinstance(value, bool | int | float | np.number | np.bool_):
                    found.setdefault(name, np.zeros(self.num_envs))[number] = float(value)
        return found
