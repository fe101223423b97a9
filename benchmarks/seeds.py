"""What one training command comes to with several seeds: each run's success on unseen apartments, and their mean.

    tpsrl train-skill SKILL --out runs/0 train.seed=0    # and 1, 2
    python benchmarks/seeds.py runs/0 runs/1 runs/2 [--split val] [--episodes 200] [--workers 2]

For each run: decisions, minutes, the decisions after which 0.5 and 0.8 of the last 100 training episodes had succeeded,
and what `tpsrl eval` says. The mean over the runs has rliable's interval (Agarwal et al. 2021), if rliable is there
(benchmarks/pql/requirements.txt): with three runs, that is their range.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

BARS = (0.5, 0.8)
REPETITIONS = 2000


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a folder of tpsrl train-skill")
    parser.add_argument("--split", default="val")
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    rates = []
    for run in options.runs:
        rows = [json.loads(line) for line in (run / "scalars.jsonl").read_text(encoding="utf-8").splitlines()]
        told = [f"{rows[-1]['steps']:,} decisions, {rows[-1]['seconds'] / 60.0:.0f} min"]
        told += [f"{bar:g} after {_first(rows, bar)}" for bar in BARS]
        found = _evaluated(run, options.split, options.episodes, options.workers)
        rates.append(found["success"])
        low, high = found["success_ci95"]
        print(f"{run}: {'; '.join(told)}; {options.split} {found['success']:.3f} ({low:.2f}-{high:.2f})", flush=True)
    print(f"mean {np.mean(rates):.3f}{_interval(rates)}")


def _first(rows: list[dict[str, Any]], bar: float) -> str:
    return next((f"{row['steps']:,}" for row in rows if (row.get("episode/success") or 0.0) >= bar), "-")


def _evaluated(run: Path, split: str, episodes: int, workers: int) -> dict[str, Any]:
    from planner.zoo import run_entry

    config = run_entry(run).config
    with tempfile.TemporaryDirectory() as folder:
        skills, file = Path(folder) / "skills", Path(folder) / "eval.json"
        skills.mkdir()
        (skills / "run").symlink_to(run.resolve())
        command = [sys.executable, "-m", "tpsrl", "eval", config.skill, "--skills", str(skills), "--obs", config.obs]
        command += [] if config.nav else ["--no-skill-nav"]
        command += ["--split", split, "--episodes", str(episodes), "--workers", str(workers), "--json", str(file)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        return dict(json.loads(file.read_text(encoding="utf-8")))


def _interval(rates: list[float]) -> str:
    try:
        from rliable import library
    except ImportError:
        return ""
    scores = {"": np.array(rates)[:, None]}
    _, intervals = library.get_interval_estimates(scores, lambda x: np.array([x.mean()]), reps=REPETITIONS)
    return " ({:.3f}-{:.3f})".format(*intervals[""][:, 0])


if __name__ == "__main__":
    main()
