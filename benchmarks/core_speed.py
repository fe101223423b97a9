"""How fast the training core's main process is without any environment: inference and learning, on one core and on two.

The policy reads rows of 170 floats and the previous action (10 real numbers and a switch), normalised, and is either
feed-forward (mlp [256, 256]) or recurrent (mlp [256], an LSTM of 256 units), with a critic of its own ([256, 256], 30
floats more) or without. Inference is the collector's work on a batch of requests, bookkeeping included, with rows that
are there already; batches of 8 and 32 are those of 16 and 64 environments (`train.min_batch` at half of them). Learning
is much as in configs/train/small.yaml: rollouts of 16 x 512 steps, episodes of 300, 4 epochs of 8 mini-batches.
`python benchmarks/core_speed.py` prints a table of the fastest of several passes; `--json FILE` writes the figures,
`--quick` makes one short pass.
"""

from __future__ import annotations

import argparse
import json
import os
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces

from ver_core.collector import Collector
from ver_core.config import PolicyConfig, TrainConfig
from ver_core.distributed import World
from ver_core.learner import Learner
from ver_core.policy import RecurrentPolicy
from ver_core.rollout import Rollout
from ver_core.schedulers import Ver
from ver_core.shared_rows import RUNNING, TRUNCATED, Layout, SharedRows
from ver_core.spaces import ActionLayout, ObsLayout

EPISODE_STEPS = 300
ROLLOUT_STEPS = 8192
BATCHES = (8, 16, 32)
OBSERVATION = spaces.Dict(
    {
        "seen": spaces.Box(-np.inf, np.inf, (170,), np.float32),
        "critic_state": spaces.Box(-np.inf, np.inf, (30,), np.float32),
    }
)
ACTION = spaces.Dict({"arm": spaces.Box(-1.0, 1.0, (10,), np.float32), "grip": spaces.Box(-1.0, 1.0, (1,), np.float32)})
CRITIC: dict[str, Any] = {"critic_mlp": [256, 256], "critic_keys": ["critic_state"]}
POLICIES: dict[str, dict[str, Any]] = {
    "feed-forward": {"mlp": [256, 256], "rnn_layers": 0},
    "feed-forward, own critic": {"mlp": [256, 256], "rnn_layers": 0, **CRITIC},
    "LSTM": {"mlp": [256], "rnn_layers": 1, "rnn_size": 256},
    "LSTM, own critic": {"mlp": [256], "rnn_layers": 1, "rnn_size": 256, **CRITIC},
}


class NoEnvs:
    """Stands in for a `WorkerPool`: half of the environments have always made their step already."""

    def __init__(self, layout: Layout) -> None:
        self.rows = SharedRows(layout)
        self.lost: list[int] = []
        self._rng = np.random.default_rng(0)
        self._rows = self._rng.standard_normal((1024, layout.floats), dtype=np.float32)
        self._left = self._rng.integers(1, EPISODE_STEPS, layout.num_envs)
        self._asking = list(range(layout.num_envs))

    def take(self, limit: int, timeout_s: float) -> list[int]:
        half = self.rows.status.size // 2
        envs, self._asking = self._asking[:half], self._asking[half:]
        self.rows.floats[envs] = self._rows[self._rng.integers(0, len(self._rows), len(envs))]
        self.rows.reward[envs] = self._rng.standard_normal(len(envs))
        self._left[envs] -= 1
        self.rows.status[envs] = np.where(self._left[envs] == 0, TRUNCATED, RUNNING)
        self._left[envs] += EPISODE_STEPS * (self._left[envs] == 0)
        return envs

    def send(self, envs: list[int]) -> None:
        self._asking += envs

    def episode(self, env: int) -> None:
        return None


def make_policy(name: str) -> RecurrentPolicy:
    torch.manual_seed(0)
    config = PolicyConfig(heads={"grip": "bernoulli"}, normalize_vectors=True, **POLICIES[name])
    return RecurrentPolicy(OBSERVATION, ACTION, config)


def collect(policy: RecurrentPolicy, num_envs: int, steps: int) -> tuple[Rollout, float]:
    """Collect a rollout; return it and the microseconds that a request took."""
    layout = Layout.of(num_envs, ObsLayout(OBSERVATION), ActionLayout(ACTION))
    pool: Any = NoEnvs(layout)
    device = torch.device("cpu")
    length = steps // num_envs
    collector = Collector(pool, policy, Ver(num_envs, length, num_envs // 2), layout, device, (0, 0))
    rollout = Rollout(layout, length, policy.state_size, device)
    collector.collect(rollout)  # warms up
    found = collector.collect(rollout)
    pool.rows.close()
    return rollout, 1e6 * found.inference_s / found.requests


def learn(policy: RecurrentPolicy, rollout: Rollout, sequence_length: int | None, updates: int) -> float:
    """Return the microseconds of learning for each step of the rollout, in the fastest of some updates."""
    changes = {} if sequence_length is None else {"sequence_length": sequence_length}
    train = TrainConfig(
        num_envs=16, rollout_length=ROLLOUT_STEPS // 16, epochs=4, mini_batches=8, learning_rate=1e-5,
        normalize_advantage=True, **changes,
    )  # fmt: skip
    learner = Learner(policy, train, torch.device("cpu"), World())
    seconds = []
    for _ in range(1 + updates):  # the first one warms up
        start = time.perf_counter()
        learner.update(rollout, 0.0)
        seconds.append(time.perf_counter() - start)
    return 1e6 * min(seconds[1:]) / ROLLOUT_STEPS


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--quick", action="store_true", help="one short pass")
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--only", choices=POLICIES, help="only one of the policies")
    parser.add_argument("--threads", type=int, nargs="+", default=sorted({1, min(2, os.cpu_count() or 1)}))
    parser.add_argument("--sequence-length", type=int, metavar="STEPS", help="train.sequence_length")
    options = parser.parse_args()
    passes, steps = (1, 1024) if options.quick else (options.passes, ROLLOUT_STEPS)
    report: dict[str, dict[str, float]] = {}
    for name in [options.only] if options.only else POLICIES:
        figures: dict[str, float] = {}
        for _ in range(passes):
            policy = make_policy(name)
            torch.set_num_threads(1)
            found = {
                f"inference_us_per_request_batch_{batch}": collect(policy, 2 * batch, steps)[1] for batch in BATCHES
            }
            rollout, _ = collect(policy, 16, ROLLOUT_STEPS)
            policy.learn_normalization(rollout.wide["floats"], rollout.wide["bytes"], World())
            for threads in options.threads:
                torch.set_num_threads(threads)
                key = f"learning_us_per_step_threads_{threads}"
                found[key] = learn(policy, rollout, options.sequence_length, 1 if options.quick else 2)
            figures = {key: min(value, figures.get(key, value)) for key, value in found.items()}
        report[name] = figures
    columns = list(next(iter(report.values())))
    print(f"{'':>48} " + " ".join(f"{name:>24}" for name in report))
    for column in columns:
        print(f"{column:>48} " + " ".join(f"{figures[column]:>24.1f}" for figures in report.values()))
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
