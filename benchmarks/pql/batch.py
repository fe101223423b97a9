"""PQL on environments in one batch: several hundred MuJoCo models in threads, as tensors.

    python benchmarks/pql/batch.py --num-envs 256 --seconds 120

Prints the rows of a short training of Ant-v5: steps per second, time shares, ratios as reached, return.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from pathlib import Path

import gymnasium
from arms import NETWORK, PQL

from pql_core.config import PqlConfig
from pql_core.threads import ThreadedVectorEnv
from pql_core.trainer import PqlTrainer, Row
from ver_core.config import PolicyConfig


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--task", default="Ant-v5")
    parser.add_argument("--num-envs", type=int, default=256)
    parser.add_argument("--threads", type=int, default=2, help="that step the models")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--seconds", type=float, default=120.0)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    config = PqlConfig(
        **{**PQL, "num_envs": options.num_envs, "warmup_steps": 16}, total_steps=10**9, device=options.device
    )
    device = "cpu" if options.device == "auto" else options.device
    make = partial(gymnasium.make, options.task)
    trainer = PqlTrainer(
        partial(ThreadedVectorEnv, make, options.num_envs, options.threads, device),
        config,
        PolicyConfig(**NETWORK),
        vector=True,
        description=options.task,
    )
    started, rows = time.monotonic(), []

    def look(row: Row) -> bool:
        rows.append(row)
        return time.monotonic() - started > options.seconds

    result = trainer.train(look)
    last = {"steps": result.steps, "seconds": round(result.seconds, 1), **rows[-1]}
    for name, value in last.items():
        print(f"{name:44} {value:,.3f}")
    if options.json:
        options.json.write_text(json.dumps(last, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
