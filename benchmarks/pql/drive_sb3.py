"""The witness: Stable-Baselines3's SAC with its own defaults: `drive_sb3.py TASK SEED SECONDS FOLDER`.

Runs in a virtual environment of its own (requirements.txt). Every 10,000 steps the policy plays 5 episodes without
noise; the clock stands still meanwhile. Rows go to scalars.jsonl under the names that our runs have. It is not resumed:
an interrupted run begins anew.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import gymnasium
import torch
from stable_baselines3 import SAC
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.monitor import Monitor

EVERY, EPISODES = 10_000, 5


class Watch(BaseCallback):
    """Writes rows and ends training when the time is up."""

    def __init__(self, task: str, limit_s: float, file: Path) -> None:
        super().__init__()
        self._env: Any = Monitor(gymnasium.make(task))
        self._limit_s, self._file = limit_s, file
        self._start, self._asleep, self._next = time.monotonic(), 0.0, EVERY

    def _on_step(self) -> bool:
        seconds = time.monotonic() - self._start - self._asleep
        if self.num_timesteps >= self._next or seconds >= self._limit_s:
            self._next += EVERY
            began = time.monotonic()
            mean, _ = evaluate_policy(self.model, self._env, EPISODES)
            self._asleep += time.monotonic() - began
            row = {"steps": self.num_timesteps, "seconds": seconds, "greedy/return": float(mean)}
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        return seconds < self._limit_s


def main() -> None:
    task, seed, seconds, folder = sys.argv[1:]
    torch.set_num_threads(2)
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    file = out / "scalars.jsonl"
    file.unlink(missing_ok=True)
    envs = make_vec_env(task, n_envs=4, seed=int(seed))
    model = SAC(
        "MlpPolicy", envs, seed=int(seed), device="cpu", train_freq=1, gradient_steps=-1, learning_starts=10_000
    )
    model.learn(1_000_000_000, callback=Watch(task, float(seconds), file))


if __name__ == "__main__":
    main()
