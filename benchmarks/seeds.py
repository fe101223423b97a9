"""What one training command comes to with several seeds: each run's success on unseen apartments, and their mean.

    tpsrl train-skill SKILL --out runs/0 train.seed=0    # and 1, 2
    python benchmarks/seeds.py runs/0 runs/1 runs/2 [--split val] [--episodes 200] [--workers 2]

For each run: decisions, minutes, the decisions after which 0.5 and 0.8 of the last 100 training episodes had succeeded,
and what `tpsrl eval` measures. The mean over the runs has rliable's interval (Agarwal et al. 2021), if rliable is there
(benchmarks/pql/requirements.txt): with three runs, that is their range.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from training_runs import Row, first_over, interval, rows

from eval.evaluate import EpisodeResult, Request, evaluate
from eval.statistics import wilson
from planner.agent import Agent
from planner.zoo import run_entry

BARS = (0.5, 0.8)


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("runs", nargs="+", type=Path, metavar="RUN", help="a folder of tpsrl train-skill")
    parser.add_argument("--split", default="val")
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    rates = []
    for run in options.runs:
        known = rows(run)
        told = [f"{known[-1]['steps']:,} decisions, {known[-1]['seconds'] / 60.0:.0f} min"]
        told += [f"{bar:g} after {_when(first_over(known, bar))}" for bar in BARS]
        done = [result.success for result in _played(run, options.split, options.episodes, options.workers)]
        rates.append(sum(done) / len(done))
        low, high = wilson(sum(done), len(done))
        print(f"{run}: {'; '.join(told)}; {options.split} {rates[-1]:.3f} ({low:.2f}-{high:.2f})", flush=True)
    bounds = interval(rates)
    print(f"mean {np.mean(rates):.3f}" + (f" ({bounds[0]:.3f}-{bounds[1]:.3f})" if bounds else ""))


def _when(row: Row | None) -> str:
    return f"{row['steps']:,}" if row else "-"


def _played(run: Path, split: str, episodes: int, workers: int) -> list[EpisodeResult]:
    config = run_entry(run).config
    with tempfile.TemporaryDirectory() as skills:
        (Path(skills) / "run").symlink_to(run.resolve())
        agent = Agent(skills, skill_nav=config.nav)
        evaluation = evaluate(Request(config.skill, agent, split, episodes, obs=config.obs), workers)
    if evaluation.error or evaluation.interrupted:
        raise SystemExit(evaluation.error or "interrupted")
    return evaluation.results


if __name__ == "__main__":
    main()
