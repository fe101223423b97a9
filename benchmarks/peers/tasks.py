"""The environments that every training system is measured on, as all of them can take them: flat boxes.

What our own training has and the others do not, dictionaries and switches, is left out for all: observations are one
vector (and one image), actions one box, the suction is on above 0. Each environment notes what it does in a file of its
own, in the folder that `PEER_LOG` names, so that all systems' steps and episodes are counted by the same code.
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from ver_core.examples import memory_cartpole

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT), str(ROOT / "benchmarks")]

LOG_VARIABLE = "PEER_LOG"
TASKS = ("synthetic", "pick", "open_fridge", "pick_depth", "cartpole", "learn_pick", "learn_open_fridge")
"""`learn_`: how long it takes to a success; the others: how fast steps are made."""
ACTION_REPEAT = 3
"""Control steps that an action is held for, as our training has it; a step here is one of these."""
EASED = {"base_vel": (np.float32(0.6), np.float32(0.0)), "grip_action": (np.float32(1.0), np.float32(1.0))}
"""Scale and offset of parts of the action where learning is measured."""
_NOTE_EVERY = 32


def make(task: str) -> gymnasium.Env[Any, Any]:
    """Return one environment of a task, which notes its steps."""
    if task == "synthetic":
        from tiny_envs import Straggler

        return Noted(Straggler())
    if task == "cartpole":
        return Noted(BlindCartPole())
    from skills import make_env

    obs = "depth" if task.endswith("_depth") else "laser"
    skill = task.removesuffix("_depth").removeprefix("learn_")
    env = make_env(skill, split="train", obs=obs, action_repeat=ACTION_REPEAT)
    return Noted(Flat(env, eased=task.startswith("learn_")))


class Flat(gymnasium.Env[Any, Any]):
    """A skill's task with its observations and its actions in one box each; an image (H, W, C) stays apart.

    eased: what our own recipe sets apart for parts of the action is so for all: the base is moved by less than the arm,
    and the suction holds on unless it is told to let go with all decision.
    """

    def __init__(self, env: gymnasium.Env[Any, Any], eased: bool = False) -> None:
        self._env, self._eased = env, eased
        keys, parts = env.observation_space, env.action_space
        assert isinstance(keys, spaces.Dict) and isinstance(parts, spaces.Dict)
        self._vectors = [key for key, box in keys.items() if len(box.shape or ()) == 1]
        self._images = [key for key, box in keys.items() if len(box.shape or ()) == 3]
        self._parts = [(key, int(np.prod(box.shape or ()))) for key, box in parts.items()]
        vector = spaces.Box(-np.inf, np.inf, (sum((keys[k].shape or (0,))[0] for k in self._vectors),), np.float32)
        self.observation_space: spaces.Space[Any] = vector
        if self._images:
            self.observation_space = spaces.Dict({"image": keys[self._images[0]], "vector": vector})
        self.action_space = spaces.Box(-1.0, 1.0, (sum(size for _, size in self._parts),), np.float32)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        seen, info = self._env.reset(seed=seed, options=options)
        return self._flat(seen), {}

    def step(self, action: np.ndarray[Any, Any]) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        parts, begin = {}, 0
        clipped = np.clip(action, -1.0, 1.0).astype(np.float32)
        for key, size in self._parts:
            parts[key] = clipped[begin : begin + size]
            begin += size
            if self._eased and key in EASED:
                scale, offset = EASED[key]
                parts[key] = scale * parts[key] + offset
        seen, reward, terminated, truncated, info = self._env.step(parts)
        return self._flat(seen), float(reward), terminated, truncated, {"success": bool(info["success"])}

    def close(self) -> None:
        self._env.close()

    def _flat(self, seen: dict[str, Any]) -> Any:
        vector = np.concatenate([seen[key] for key in self._vectors])
        return {"image": seen[self._images[0]], "vector": vector} if self._images else vector


class BlindCartPole(gymnasium.Env[Any, Any]):
    """CartPole without velocities, pushed to the right above 0: what all systems can learn in minutes.

    What is seen, a step's reward and when it counts as solved are the example's (ver_core/examples/memory_cartpole.py).
    Its wrappers are not: Gymnasium 0.29, which Sample Factory needs, has others.
    """

    observation_space = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = spaces.Box(-1.0, 1.0, (1,), np.float32)

    def __init__(self) -> None:
        self._env = gymnasium.make("CartPole-v1")
        self._steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        self._steps = 0
        return self._positions(self._env.reset(seed=seed)[0]), {}

    def step(self, action: np.ndarray[Any, Any]) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        seen, reward, terminated, truncated, _ = self._env.step(int(action[0] > 0.0))
        self._steps += 1
        success = self._steps >= memory_cartpole.SOLVED
        reward = memory_cartpole.REWARD * float(reward)
        return self._positions(seen), reward, terminated, truncated, {"success": success}

    def _positions(self, state: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
        return state[memory_cartpole.POSITIONS] / memory_cartpole.SCALE


class Noted(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Writes `time steps` every few steps and `time steps success return` at an episode's end; steps of this one."""

    def __init__(self, env: gymnasium.Env[Any, Any]) -> None:
        super().__init__(env)
        self._file = (Path(os.environ[LOG_VARIABLE]) / f"{uuid.uuid4().hex}.txt").open("w", buffering=1)
        self._steps = 0
        self._return = 0.0

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        seen, reward, terminated, truncated, info = self.env.step(action)
        self._steps += 1
        self._return += float(reward)
        if terminated or truncated:
            won = int(bool(info.get("success", False)))
            self._file.write(f"{time.time():.3f} {self._steps} {won} {self._return:.3f}\n")
            self._return = 0.0
        elif self._steps % _NOTE_EVERY == 0:
            self._file.write(f"{time.time():.3f} {self._steps}\n")
        return seen, float(reward), terminated, truncated, info
