"""What a training option is worth: skills trained from random weights, with it and without, and how fast they learn.

    python benchmarks/learning.py --out runs/learning
    python benchmarks/learning.py --tasks pick --seeds 0 1 2 --variant "" --variant "train.rollout_length=1024"

A variant is a set of Hydra overrides on top of the default recipe ("" is that itself). Runs are made one after
the other, task by task and seed by seed, so that all variants have the machine alike. Each has a folder in `--out`; a
run that is there is taken up where it was left, so the command may be interrupted and given again, with more variants.

Printed for each task and variant, by seed: decisions until `BAR` of the last 100 training episodes succeeded; success
and mean return of the last 100 at the end; decisions per second; and what was learnt of exploration: the Gaussian
deviations of the last checkpoint as shares of their first values, least and most, and the entropy coefficient at the
end.
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

from training_runs import Row, first_over, rows, train

from planner.zoo import WEIGHTS

BAR = 0.80


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", nargs="+", default=["pick", "open_fridge"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1])
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--until", type=int, help="stop earlier, on the way to --steps (the learning rate's schedule)")
    parser.add_argument("--variant", action="append", help="overrides, separated by blanks; may be given several times")
    parser.add_argument("--out", type=Path, default=Path("outputs/learning"))
    parser.add_argument("--only-report", action="store_true", help="train nothing, print what is there")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="16,384 decisions of one seed, to see that it works")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.seeds, arguments.steps = [0], 16384  # the first 8,192 are random steps
    found: dict[str, dict[str, Any]] = {}
    for seed in arguments.seeds:
        for task in arguments.tasks:
            for variant in arguments.variant or [""]:
                folder = arguments.out / f"{task}_{seed}_{_name(variant)}"
                if not arguments.only_report:
                    _train(task, seed, variant, arguments.steps, arguments.until or arguments.steps, folder)
                if (measured := _measure(folder, arguments.until or arguments.steps)) is not None:
                    found.setdefault(task, {}).setdefault(variant or "default", {})[seed] = measured
    _print(found)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _name(variant: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.=-]+", "_", variant).strip("_") or "default"


def _train(task: str, seed: int, variant: str, steps: int, until: int, folder: Path) -> None:
    command = ["train-skill", task, "--nav", "--steps", str(steps)]

    def there(known: list[Row]) -> bool:
        return until < steps and bool(known) and known[-1]["steps"] >= until

    train(command, [f"train.seed={seed}", *variant.split()], folder, until, there)


def _measure(folder: Path, steps: int) -> dict[str, float | None] | None:
    known = [row for row in rows(folder) if "episode/success" in row and "learn/entropy_coef" in row]
    if not known or not (folder / WEIGHTS).is_file():
        return None
    there = next((number for number, row in enumerate(known) if row["steps"] >= steps), len(known))
    known = known[: there + 1]
    over = first_over(known, BAR)
    speeds = sorted(row["train/sps"] for row in known)
    return {
        "decisions": known[-1]["steps"],
        f"decisions_to_{BAR:.2f}": over and over["steps"],
        "success_at_end": known[-1]["episode/success"],
        "return_at_end": known[-1]["episode/return"],
        "entropy_coef": known[-1]["learn/entropy_coef"],
        **_deviations(folder),
        "decisions_per_s": speeds[len(speeds) // 2],
    }


def _deviations(folder: Path) -> dict[str, float]:
    from safetensors.torch import load_file

    weights = load_file(folder / WEIGHTS)
    shares = weights["action_head.log_std"].exp() / weights["action_head.mean_scale"]
    return {"least_deviation": shares.min().item(), "most_deviation": shares.max().item()}


def _print(found: dict[str, dict[str, Any]]) -> None:
    for task, variants in found.items():
        print(
            f"\n{task}: by seed, decisions to {BAR:.2f} | success, return at the end (decisions) | decisions/s | "
            "deviations | entropy coefficient"
        )
        for variant, seeds in variants.items():
            print(f"  {variant}")
            for seed, run in seeds.items():
                reached = run[f"decisions_to_{BAR:.2f}"]
                print(
                    f"    {seed}: {'-' if reached is None else f'{reached:,.0f}':>9} | {run['success_at_end']:.2f}, "
                    f"{run['return_at_end']:.1f} ({run['decisions']:,.0f}) | {run['decisions_per_s']:,.0f} | "
                    f"{run['least_deviation']:.2f}-{run['most_deviation']:.2f} | {run['entropy_coef']:.1e}"
                )


if __name__ == "__main__":
    main()
