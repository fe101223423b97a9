"""The witness: Stable-Baselines3's SAC with its own defaults: `drive_sb3.py TASK SEED SECONDS KEEP_S
FOLDER`.

Runs in a virtual environment of its own (requirements.txt). Its policy is played as the others' are (snapshots.py),
every KEEP_S seconds; the clock stands still meanwhile, and begins, as theirs, before anything is made that learns. It
is not resumed: an interrupted run begins anew.
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

EPISODES = 10
"""As in snapshots.py, which cannot be imported here."""


class Watch(BaseCallback):
    """Writes rows and ends training when the time is up, of which the first moment is this object's making."""

    def __init__(self, task: str, limit_s: float, every_s: float, file: Path) -> None:
        super().__init__()
        self._envs: Any = make_vec_env(task, n_envs=EPISODES, seed=10_000)
        self._limit_s, self._every_s, self._file = limit_s, every_s, file
        self._start, self._asleep, self._next = time.monotonic(), 0.0, every_s

    def _on_step(self) -> bool:
        seconds = time.monotonic() - self._start - self._asleep
        if seconds >= min(self._next, self._limit_s):
            self._next += self._every_s
            began = time.monotonic()
            self._envs.seed(10_000)
            mean, _ = evaluate_policy(self.model, self._envs, EPISODES)
            self._asleep += time.monotonic() - began
            row = {"steps": self.num_timesteps, "seconds": seconds, "played/return": float(mean)}
            with self._file.open("a", encoding="utf-8") as file:
                file.write(json.dumps(row) + "\n")
        return seconds < self._limit_s


def main() -> None:
    task, seed, seconds, keep_s, folder = sys.argv[1:]
    torch.set_num_threads(2)
    out = Path(folder)
    out.mkdir(parents=True, exist_ok=True)
    file = out / "played.jsonl"
    file.unlink(missing_ok=True)
    watch = Watch(task, float(seconds), float(keep_s), file)
    SAC("MlpPolicy", gymnasium.make(task), seed=int(seed), device="cpu").learn(1_000_000_000, callback=watch)


if __name__ == "__main__":
    main()
