"""What the runs of `run.py` came to: by wall clock and by steps, over the seeds, with rliable's intervals.

    VENV/bin/python benchmarks/pql/report.py runs/pql/control --bar Ant-v5=3000 --bar Humanoid-v5=3000 --json FILE

For each task and arm: the score (`greedy/return` where it was played without noise, else `episode/return`; of skills
the success) at quarters of the time and of the steps that all arms reached; seconds and steps to the bar; the shares of
the Actor's time and the learners'; the ratios as reached. Over the tasks, scores divided by the bar: the interquartile
mean and its 95 % stratified bootstrap interval, and for pairs of arms the probability of improvement (Agarwal et al.
2021).
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

FIRST = ("greedy/success", "episode/success", "greedy/return", "episode/return")
"""Names of the score, the first one that a run's rows have."""
SHARES = ("time/env", "time/inference", "time/wait", "time/v_learn", "time/v_wait", "time/p_learn", "time/p_wait")
REACHED = ("ratio/critic_updates_per_step", "ratio/critic_updates_per_policy_update", "train/sps")
BARS = {"Ant-v5": 3000.0, "Humanoid-v5": 3000.0, "pick": 0.8, "open_fridge": 0.8}
REPETITIONS = 2000
Run = dict[str, np.ndarray[Any, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("suite", type=Path, help="folder of a suite's runs")
    parser.add_argument("--bar", action="append", default=[], metavar="TASK=SCORE")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    bars = {**BARS, **{task: float(score) for task, _, score in (bar.partition("=") for bar in options.bar)}}
    runs: dict[str, dict[str, dict[int, Run]]] = {}
    for file in sorted(options.suite.glob("*/*/*/scalars.jsonl")):
        task, arm, seed = file.parts[-4:-1]
        if (run := read(file)) is not None:
            runs.setdefault(task, {}).setdefault(arm, {})[int(seed)] = run
    found = {
        task: {arm: summary(seeds, bars[task], arms) for arm, seeds in arms.items()} for task, arms in runs.items()
    }
    report = {"tasks": found, "bars": {task: bars[task] for task in runs}, "over_tasks": over_tasks(runs, bars)}
    show(report)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def read(file: Path) -> Run | None:
    """Return a run's columns; None while it has no score."""
    rows = [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]
    name = next((name for name in FIRST if any(row.get(name) is not None for row in rows)), None)
    scored = [row for row in rows if name and row.get(name) is not None]
    if not scored:
        return None
    columns = {"steps": "steps", "seconds": "seconds", "score": str(name)}
    run = {key: np.array([row[source] for row in scored], float) for key, source in columns.items()}
    for name in (*SHARES, *REACHED):
        run[name] = np.array([row[name] for row in scored if row.get(name) is not None], float)
    return run


def at(run: Run, axis: str, where: float) -> float:
    """Return the latest score at a time or number of steps; NaN before the first."""
    before = int(np.searchsorted(run[axis], where, side="right"))
    return float(run["score"][before - 1]) if before else float("nan")


def first_over(run: Run, axis: str, bar: float) -> float | None:
    """Return when a score first reached the bar."""
    over = np.flatnonzero(run["score"] >= bar)
    return float(run[axis][over[0]]) if len(over) else None


def mean(scores: list[float]) -> float:
    """Return the mean of the seeds that have a score; NaN where none has."""
    known = [score for score in scores if score == score]
    return float(np.mean(known)) if known else float("nan")


def summary(seeds: dict[int, Run], bar: float, arms: dict[str, dict[int, Run]]) -> dict[str, Any]:
    everybody = [run for arm in arms.values() for run in arm.values()]
    result: dict[str, Any] = {"seeds": sorted(seeds)}
    for axis in ("seconds", "steps"):
        end = min(float(run[axis][-1]) for run in everybody)
        points = [end * quarter / 4 for quarter in (1, 2, 3, 4)]
        result[f"score_by_{axis}"] = {
            f"{point:.0f}": [at(run, axis, point) for _, run in sorted(seeds.items())] for point in points
        }
        result[f"{axis}_to_bar"] = [first_over(run, axis, bar) for _, run in sorted(seeds.items())]
    for name in (*SHARES, *REACHED):
        values = [run[name][len(run[name]) // 2 :].mean() for run in seeds.values() if len(run[name])]
        if values:
            result[name] = float(np.mean(values))
    return result


def over_tasks(runs: dict[str, dict[str, dict[int, Run]]], bars: dict[str, float]) -> dict[str, Any]:
    """Return rliable's statistics of scores at the last common moment, in units of the bar."""
    try:
        from rliable import library, metrics
    except ImportError:
        print("no rliable here (requirements.txt): no intervals")
        return {}
    arms = set.intersection(*(set(of_task) for of_task in runs.values())) if runs else set()
    seeds = min((len(runs[task][arm]) for task in runs for arm in arms), default=0)
    if not arms or not seeds:
        return {}
    scores = {}
    for arm in sorted(arms):
        columns = []
        for task, of_task in runs.items():
            end = min(float(run["seconds"][-1]) for other in of_task.values() for run in other.values())
            columns.append([at(run, "seconds", end) / bars[task] for _, run in sorted(of_task[arm].items())][:seeds])
        scores[arm] = np.nan_to_num(np.array(columns).T)  # (seeds, tasks)
    means, intervals = library.get_interval_estimates(
        scores, lambda x: np.array([metrics.aggregate_iqm(x)]), reps=REPETITIONS
    )
    found: dict[str, Any] = {
        "iqm": {arm: {"iqm": float(means[arm][0]), "ci95": intervals[arm][:, 0].tolist()} for arm in scores}
    }
    first = "pql" if "pql" in scores else next(iter(scores))
    pairs = {f"{first},{arm}": (scores[first], scores[arm]) for arm in scores if arm != first}
    if pairs:
        chance, of = library.get_interval_estimates(pairs, metrics.probability_of_improvement, reps=REPETITIONS)
        found["probability_of_improvement"] = {
            pair: {"p": float(np.ravel(chance[pair])[0]), "ci95": np.ravel(of[pair]).tolist()} for pair in pairs
        }
    return found


def show(report: dict[str, Any]) -> None:
    for task, arms in report["tasks"].items():
        print(f"\n{task}: score by seconds | by steps | seconds, steps to {report['bars'][task]:g} by seed")
        for arm, row in arms.items():
            parts = [
                " ".join(f"{mean(scores):.3g}@{point}" for point, scores in row[f"score_by_{axis}"].items())
                for axis in ("seconds", "steps")
            ]
            reached = [
                " ".join("-" if value is None else f"{value:,.0f}" for value in row[f"{axis}_to_bar"])
                for axis in ("seconds", "steps")
            ]
            print(f"  {arm}: {' | '.join(parts)} | {', '.join(reached)}")
            told = [f"{name.partition('/')[2]} {row[name]:.2f}" for name in (*SHARES, *REACHED) if name in row]
            if told:
                print(f"    {'  '.join(told)}")
    for name, values in report["over_tasks"].items():
        print(f"\n{name}")
        for key, value in values.items():
            middle = value.get("iqm", value.get("p"))
            print(f"  {key}: {middle:.3f} ({value['ci95'][0]:.3f} to {value['ci95'][1]:.3f})")


if __name__ == "__main__":
    main()
