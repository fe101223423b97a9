"""Trains one arm of a control suite: `drive.py SUITE ARM TASK SEED SECONDS FOLDER`. An interrupted run is resumed.

The run's rows (scalars.jsonl) are the result; training ends after so many seconds of wall clock, all sessions together.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path
from typing import Any

from arms import NETWORK, SLOWED_STEP_S, SUITES
from control_env import make

from pql_core.config import PqlConfig
from pql_core.trainer import PqlTrainer
from ver_core.config import PolicyConfig, TrainConfig
from ver_core.trainer import Trainer

STEPS = 1_000_000_000
"""More than anybody makes: the clock decides."""


def main() -> None:
    suite, arm, task, seed, seconds, folder = sys.argv[1:]
    settings, out = SUITES[suite][1][arm], Path(folder)
    make_env = partial(make, task, SLOWED_STEP_S if suite == "slowed" else 0.0)
    shared: dict[str, Any] = {"out": out, "resume": (out / "checkpoint.pt").is_file(), "description": f"{arm} {task}"}
    limit = float(seconds)
    if settings["system"] == "pql":
        config = PqlConfig(**settings["config"], seed=int(seed), total_steps=STEPS)
        PqlTrainer(make_env, config, PolicyConfig(**NETWORK), **shared).train(lambda row: seconds_of(out) >= limit)
    else:
        # configs/train/small.yaml without its memory; for total_steps, which its learning rate's cosine needs, about as
        # many as it makes in the time.
        steps = int(1500 * limit)
        train = TrainConfig(
            total_steps=steps, num_envs=32, envs_per_worker=16, rollout_length=256, epochs=4, mini_batches=8,
            learning_rate=3e-4, std_learning_rate=2e-3, entropy_coef_learning_rate=1e-2, max_grad_norm=1.0,
            normalize_advantage=True, min_batch=16, learner_threads=2, target_entropy=-20.0, seed=int(seed),
        )  # fmt: skip
        policy = PolicyConfig(**{**NETWORK, "mlp": [256, 128]}, initial_std=0.5)
        Trainer(make_env, train, policy, **shared).train(lambda update: seconds_of(out) >= limit)


def seconds_of(run: Path) -> float:
    """Return the wall clock that a run has taken, all sessions together."""
    import json

    lines = (run / "scalars.jsonl").read_text(encoding="utf-8").splitlines()
    return float(json.loads(lines[-1])["seconds"]) if lines else 0.0


if __name__ == "__main__":
    main()
