"""Several learning processes under torchrun on this machine: steps per second, and what preemption does.

Environments are benchmarks/tiny_envs.py's, which sleep: processes compete for cores only to learn and to infer.

- scaling: `ver`, by environments of each process. sps: steps of all processes by time, collecting and learning.
- preemption, 16 environments each: the mean time of collecting a rollout, how it is spread over processes (standard
  deviation by mean, mean over rollouts) and over rollouts (the same, of the longest of the processes), the share of
  a rollout's steps that were collected, with preemption and without; of what was learnt from, the share that is stale,
  and how many rollouts ago the oldest of it was collected.

The first rollout, in which environments start and times are measured, is not counted.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from throughput import ROLLOUT_LENGTH
from tiny_envs import Straggler


def run(processes: int, envs: int, scheduler: str, preempt: bool, rollouts: int) -> dict[str, float]:
    """Train under torchrun and return the figures."""
    with tempfile.TemporaryDirectory() as folder:
        asked = [folder, str(envs), scheduler, str(int(preempt)), str(rollouts)]
        torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={processes}"]
        done = subprocess.run(
            [*torchrun, __file__, *asked],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise SystemExit(f"benchmarks/processes.py: {done.stderr[-2000:]}")
        rows = [json.loads((Path(folder) / f"{rank}.json").read_text()) for rank in range(processes)]
    collecting = np.array([[update["collecting_s"] for update in row] for row in rows])  # (processes, rollouts)
    steps = np.array([update["steps"] for update in rows[0]])  # of all processes together
    return {
        "sps": float(steps.sum() / sum(update["seconds"] for update in rows[0])),
        "rollout_s": float(collecting.mean()),
        "over_processes": float((collecting.std(axis=0) / collecting.mean(axis=0)).mean()),
        "over_rollouts": float(collecting.max(axis=0).std() / collecting.max(axis=0).mean()),
        "collected": float(steps.mean() / (processes * envs * ROLLOUT_LENGTH)),
        "stale": float(np.mean([update["stale"] for row in rows for update in row])),
        "oldest": max(update["oldest"] for row in rows for update in row),
    }


def train(folder: str, envs: int, scheduler: str, preempt: bool, rollouts: int) -> None:
    """Be one of torchrun's processes: train, and write what each rollout took."""
    from ver_core.config import PolicyConfig, TrainConfig
    from ver_core.reporting import Update
    from ver_core.trainer import Trainer

    config = TrainConfig(
        total_steps=10**9,
        num_envs=envs,
        rollout_length=ROLLOUT_LENGTH,
        scheduler=scheduler,
        preempt=preempt,
        learner_threads=1,
    )
    updates: list[Update] = []

    def record(update: Update) -> bool:
        updates.append(update)
        return len(updates) == rollouts + 1

    Trainer(Straggler, config, PolicyConfig(mlp=[128], rnn_layers=1, rnn_size=128), show_progress=False).train(record)
    rows = [
        {
            "steps": update.fresh_steps,
            "seconds": update.seconds,
            "collecting_s": update.collection.seconds,
            "stale": update.scalars["stale_fraction"],
            "oldest": update.scalars["stale_age_max"],
        }
        for update in updates[1:]
    ]
    (Path(folder) / f"{os.environ['RANK']}.json").write_text(json.dumps(rows))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--processes", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--envs", type=int, nargs="+", default=[4, 8, 16, 32, 64])
    parser.add_argument("--rollouts", type=int, default=3)
    parser.add_argument("--preempted-rollouts", type=int, default=8)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    found: dict[str, Any] = {"scaling": {}, "preemption": {}}
    print("ver, steps/s by environments of each process (columns) and processes")
    print(f"{'':>10}" + "".join(f"{envs:>10}" for envs in options.envs))
    for processes in options.processes:
        row = [run(processes, envs, "ver", True, options.rollouts) for envs in options.envs]
        found["scaling"][processes] = row
        print(f"{processes:>10}" + "".join(f"{figures['sps']:>10,.0f}" for figures in row), flush=True)
    many = max(options.processes)
    columns = ("sps", "rollout_s", "over_processes", "over_rollouts", "collected", "stale", "oldest")
    print(f"\n{many} processes of 16 environments" + "".join(f"{column:>16}" for column in columns))
    for scheduler in ("ddppo", "nover", "ver"):
        for preempt in (True, False):
            figures = run(many, 16, scheduler, preempt, options.preempted_rollouts)
            name = f"{scheduler}, {'preempted' if preempt else 'never preempted'}"
            found["preemption"][name] = figures
            print(f"{name:>32}" + "".join(f"{figures[column]:>16.3f}" for column in columns), flush=True)
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    if "RANK" in os.environ:
        place, count, system, preempted, length = sys.argv[1:]
        train(place, int(count), system, preempted == "1", int(length))
    else:
        main()
