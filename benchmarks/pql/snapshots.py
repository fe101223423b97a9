"""Policies kept while a control run learns, and played afterwards, all alike: without noise, while no clock runs.

A run's own scores are no measure: off-policy learners explore, and the episodes that they are averaged over began long
ago, when the policy was another.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium.vector import SyncVectorEnv
from safetensors.torch import load_file

from pql_core.networks import InUse, Policy
from ver_core import checkpoint
from ver_core.config import PolicyConfig
from ver_core.policy import RecurrentPolicy

EPISODES = 10
FOLDER, INDEX, PLAYED = "policies", "policies.jsonl", "played.jsonl"
"""In a run's folder: the policies; when each was kept; and what it was worth."""


class Keeper:
    """Keeps what a trainer saves, dated by the save itself: rows are written at other times."""

    def __init__(self, run: Path) -> None:
        self._run, self._saved, self._rows = run, run / "policy.safetensors", run / "scalars.jsonl"
        (run / FOLDER).mkdir(parents=True, exist_ok=True)
        self._last, self._before = (written_ns(file) for file in (self._saved, self._rows))

    def look(self) -> None:
        """Keep the policy if there is a new one, once this session has a row to tell the time by."""
        saved, row = written_ns(self._saved), written_ns(self._rows)
        if saved == self._last or row == self._before:
            return
        self._last = saved
        steps = int(checkpoint.load(self._run / "checkpoint.pt")["steps"])  # written with it, just before
        kept = self._run / FOLDER / f"{steps}.safetensors"
        if kept.is_file():  # saved once more at the end, with no step since
            return
        seconds = round(last_row(self._run)["seconds"] + (saved - row) / 1e9, 3)
        shutil.copy(self._saved, kept)
        with (self._run / INDEX).open("a", encoding="utf-8") as file:
            file.write(json.dumps({"steps": steps, "seconds": seconds}) + "\n")


def written_ns(file: Path) -> int:
    """Return when a file was last written; 0 if there is none."""
    return file.stat().st_mtime_ns if file.is_file() else 0


def last_row(run: Path) -> dict[str, Any]:
    """Return the last row of scalars; the clock goes on where an earlier session left it."""
    file = run / "scalars.jsonl"
    lines = file.read_text(encoding="utf-8").splitlines() if file.is_file() else []
    return dict(json.loads(lines[-1])) if lines else {"steps": 0, "seconds": 0.0}


def play_run(run: Path, task: str, network: PolicyConfig, learner: str) -> None:
    """Play the policies of a run that have not been played; `learner`: `pql.learner`, or "ver"."""
    lines = (run / INDEX).read_text(encoding="utf-8").splitlines() if (run / INDEX).is_file() else []
    played = (run / PLAYED).read_text(encoding="utf-8").splitlines() if (run / PLAYED).is_file() else []
    for line in lines[len(played) :]:
        row = json.loads(line)
        row["played/return"] = worth(task, network, learner, run / FOLDER / f"{row['steps']}.safetensors")
        with (run / PLAYED).open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")


@torch.inference_mode()
def worth(task: str, network: PolicyConfig, learner: str, weights: Path) -> float:
    """Return the mean return of EPISODES episodes without noise; of a Gaussian, its mean is played."""
    envs = SyncVectorEnv([lambda: gymnasium.make(task)] * EPISODES)
    space, actions = envs.single_observation_space, envs.single_action_space
    trained: RecurrentPolicy | InUse
    if learner == "ver":
        trained = RecurrentPolicy(space, actions, network)
        trained.load_state_dict(load_file(weights))
    else:
        policy = Policy(space, actions, network, learner)
        policy.load_state_dict(load_file(weights))
        trained = InUse(policy)
    trained.eval()
    observation, _ = envs.reset(seed=10_000)
    total, over = np.zeros(EPISODES), np.zeros(EPISODES, bool)
    none, state = torch.zeros(EPISODES, 0, dtype=torch.uint8), torch.zeros(EPISODES, trained.state_size)
    before = torch.from_numpy(trained.action_layout.none).repeat(EPISODES, 1)
    while not over.all():
        seen = torch.from_numpy(np.asarray(observation, np.float32))
        action: Any = trained(seen, none, before, state, torch.tensor([EPISODES])).distribution.mode().numpy()
        observation, reward, terminated, truncated, _ = envs.step(np.clip(action, actions.low, actions.high))  # type: ignore[attr-defined]
        total += np.where(over, 0.0, reward)
        over |= terminated | truncated
    envs.close()
    return float(total.mean())
