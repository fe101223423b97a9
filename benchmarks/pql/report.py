"""What the runs of `run.py` came to: by wall clock and by steps, over the seeds, with rliable's intervals.

    VENV/bin/python benchmarks/pql/report.py runs/pql/control --bar Ant-v5=1500 --bar Humanoid-v5=500 --json FILE

For each task and arm: the score (returns played without noise, snapshots.py; of skills the training success) at
quarters of the time that all arms had, and at 25,000 steps, 50,000, 100,000, ... as far as each of an arm's seeds came;
seconds and steps to the bars; the shares of the Actor's time and the learners'; the ratios as reached. The mean over
the seeds at the last moment that all had, for each task and over the tasks (scores divided by the last bar), with its
95 % stratified bootstrap interval, and the probability that the suite's first arm does better than another (rliable,
Agarwal et al. 2021). `--keep DIR` writes there what has been read: `report.py DIR` says the same again.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
from arms import SUITES

PLAYED, SCALARS, DONE = "played.jsonl", "scalars.jsonl", "done.json"
SCORES = ("played/return", "greedy/success", "episode/success")
"""Names of the score: the first one that a run's rows have."""
SHARES = ("time/env", "time/inference", "time/wait", "time/v_learn", "time/v_wait", "time/p_learn", "time/p_wait")
REACHED = ("ratio/critic_updates_per_step", "ratio/critic_updates_per_policy_update", "train/sps")
BARS = {
    "Ant-v5": [1500.0, 2000.0], "Humanoid-v5": [500.0, 1000.0], "HalfCheetah-v5": [1000.0, 2000.0],
    "InvertedDoublePendulum-v5": [500.0, 1000.0], "pick": [0.5, 0.8], "open_fridge": [0.5, 0.8],
}  # fmt: skip
"""Above what a policy gets that does nothing: about 1,000 in Ant-v5, which stands still, 120 in Humanoid-v5, 0 in
HalfCheetah-v5, and 90 in InvertedDoublePendulum-v5."""
LASTING = 5
"""Rows in succession in which training success has to be at a bar: a resumed run's first ones are of few episodes."""
PLAYED_LASTING = 2
"""The same of policies that are kept and played: one alone may have been lucky in its episodes."""
FIRST_STEPS = 25_000
REPETITIONS = 2000
Run = dict[str, np.ndarray[Any, Any]]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("suite", type=Path, help="folder of a suite's runs")
    parser.add_argument("--bar", action="append", default=[], metavar="TASK=SCORE", help="may be given again")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--keep", type=Path, metavar="DIR", help="copy there what has been read")
    options = parser.parse_args()
    given: dict[str, list[float]] = {}
    for task, _, score in (bar.partition("=") for bar in options.bar):
        given.setdefault(task, []).append(float(score))
    bars = {**BARS, **given}
    runs: dict[str, dict[str, dict[int, Run]]] = {}
    for file in sorted(options.suite.glob(f"*/*/*/{DONE}")):
        task, arm, seed = file.parts[-4:-1]
        runs.setdefault(task, {}).setdefault(arm, {})[int(seed)] = read(file.parent)
        if options.keep:
            keep(file.parent, options.keep / task / arm / seed)
    found = {
        task: {arm: summary(seeds, bars[task], arms) for arm, seeds in arms.items()} for task, arms in runs.items()
    }
    report = {
        "tasks": found,
        "bars": {task: bars[task] for task in runs},
        "statistics": statistics(runs, bars, first_arm(options.suite.name)),
    }
    show(report)
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")


def read(folder: Path) -> Run:
    """Return a run's columns; before an episode has ended, of no rows."""
    rows = rows_of(folder / SCALARS)
    played = rows_of(folder / PLAYED) or rows
    name = next((name for name in SCORES if any(row.get(name) is not None for row in played)), SCORES[-1])
    scored = [row for row in played if row.get(name) is not None]
    columns = {"steps": "steps", "seconds": "seconds", "score": name}
    run = {key: np.array([row[source] for row in scored], float) for key, source in columns.items()}
    run["lasting"] = np.array([LASTING if played is rows else PLAYED_LASTING])
    for name in (*SHARES, *REACHED):
        run[name] = np.array([row[name] for row in rows if row.get(name) is not None], float)
    return run


def rows_of(file: Path) -> list[dict[str, Any]]:
    """Return the rows of a file; none if there is no such file."""
    whole = file.read_text(encoding="utf-8").split("\n")[:-1] if file.is_file() else []  # the last may be half written
    return [json.loads(line) for line in whole]


def keep(run: Path, folder: Path) -> None:
    """Copy what `read` reads of a run."""
    folder.mkdir(parents=True, exist_ok=True)
    wanted = {"steps", "seconds", *SCORES, *SHARES, *REACHED}
    for name in (PLAYED, SCALARS):
        rows = [
            {k: round(v, 4) for k, v in row.items() if k in wanted and v is not None} for row in rows_of(run / name)
        ]
        if rows:
            (folder / name).write_text("\n".join(map(json.dumps, rows)) + "\n", encoding="utf-8")
    (folder / DONE).write_text("{}\n", encoding="utf-8")


def first_arm(suite: str) -> str:
    """Return the arm that the others are compared with."""
    return next(iter(SUITES[suite][1]))


def at(run: Run, axis: str, where: float) -> float:
    """Return the score at a time or number of steps, between rows interpolated; NaN before the first.

    Not the latest one before: of two runs kept at 403.0 and 403.4 s the second's would be 40 s old.
    """
    return float(np.interp(where, run[axis], run["score"], left=np.nan))


def first_over(run: Run, axis: str, bar: float) -> float | None:
    """Return when a score first reached the bar, to stay there for as many rows as `lasting`."""
    over, rows = run["score"] >= bar, int(run["lasting"][0])
    if len(over) < rows:
        return None
    starts = np.flatnonzero(np.lib.stride_tricks.sliding_window_view(over, rows).all(axis=1))
    return float(run[axis][starts[0]]) if len(starts) else None


def summary(seeds: dict[int, Run], bars: list[float], arms: dict[str, dict[int, Run]]) -> dict[str, Any]:
    runs = [run for _, run in sorted(seeds.items())]
    end = last_common(arms, "seconds")
    shortest = min(float(run["steps"][-1]) for run in runs)
    points = {
        "seconds": [end * quarter / 4 for quarter in (1, 2, 3, 4)],
        "steps": [point for k in range(16) if (point := FIRST_STEPS * 2.0**k) <= shortest],
    }
    result: dict[str, Any] = {"seeds": sorted(seeds)}
    for axis, where in points.items():
        result[f"score_by_{axis}"] = {f"{point:.0f}": [at(run, axis, point) for run in runs] for point in where}
        result[f"{axis}_to_bar"] = {f"{bar:g}": [first_over(run, axis, bar) for run in runs] for bar in bars}
    for name in (*SHARES, *REACHED):
        values = [run[name][len(run[name]) // 2 :].mean() for run in runs if len(run[name])]
        if values:
            result[name] = float(np.mean(values))
    return result


def last_common(arms: dict[str, dict[int, Run]], axis: str) -> float:
    """Return how far the run that ended first came."""
    return min(float(run[axis][-1]) for seeds in arms.values() for run in seeds.values())


def statistics(runs: dict[str, dict[str, dict[int, Run]]], bars: dict[str, list[float]], first: str) -> dict[str, Any]:
    """Return rliable's statistics of scores at the last common moment, of each task and over the tasks."""
    try:
        import rliable  # noqa: F401
    except ImportError:
        print("no rliable here (requirements.txt): no intervals")
        return {}
    found = {task: of_tasks({task: of_task}, {task: 1.0}, first) for task, of_task in runs.items()}
    if len(runs) > 1:
        found["over the tasks, in units of the last bar"] = of_tasks(
            runs, {task: bars[task][-1] for task in runs}, first
        )
    return found


def of_tasks(runs: dict[str, dict[str, dict[int, Run]]], units: dict[str, float], first: str) -> dict[str, Any]:
    from rliable import library, metrics

    arms = set.intersection(*(set(of_task) for of_task in runs.values()))
    seeds = min((len(runs[task][arm]) for task in runs for arm in arms), default=0)
    scores = {}
    for arm in sorted(arms):
        columns = []
        for task, of_task in runs.items():
            end = last_common(of_task, "seconds")
            columns.append([at(run, "seconds", end) / units[task] for _, run in sorted(of_task[arm].items())][:seeds])
        scores[arm] = np.nan_to_num(np.array(columns).T)  # (seeds, tasks)
    if not scores or not seeds:
        return {}
    means, intervals = library.get_interval_estimates(
        scores, lambda x: np.array([metrics.aggregate_mean(x)]), reps=REPETITIONS
    )
    found: dict[str, Any] = {
        "mean": {arm: {"value": float(means[arm][0]), "ci95": intervals[arm][:, 0].tolist()} for arm in scores}
    }
    pairs = {f"{first},{arm}": (scores[first], scores[arm]) for arm in scores if arm != first and first in scores}
    if pairs:
        chance, of = library.get_interval_estimates(pairs, metrics.probability_of_improvement, reps=REPETITIONS)
        found["probability_of_improvement"] = {
            pair: {"value": float(np.ravel(chance[pair])[0]), "ci95": np.ravel(of[pair]).tolist()} for pair in pairs
        }
    return found


def show(report: dict[str, Any]) -> None:
    for task, arms in report["tasks"].items():
        print(f"\n{task}: mean score by seconds | by steps | seconds, steps to a score, by seed")
        for arm, row in arms.items():
            parts = [
                " ".join(
                    f"{np.nanmean(scores):.3g}@{point}"
                    for point, scores in row[f"score_by_{axis}"].items()
                    if known(scores)
                )
                for axis in ("seconds", "steps")
            ]
            print(f"  {arm}: {' | '.join(parts)}")
            for bar in row["seconds_to_bar"]:
                reached = [
                    " ".join("-" if value is None else f"{value:,.0f}" for value in row[f"{axis}_to_bar"][bar])
                    for axis in ("seconds", "steps")
                ]
                print(f"    to {bar}: {', '.join(reached)}")
            told = [f"{name.partition('/')[2]} {row[name]:.2f}" for name in (*SHARES, *REACHED) if name in row]
            if told:
                print(f"    {'  '.join(told)}")
    for task, kinds in report["statistics"].items():
        for name, values in kinds.items():
            print(f"\n{task}: {name}")
            for key, row in values.items():
                print(f"  {key}: {row['value']:.3f} ({row['ci95'][0]:.3f} to {row['ci95'][1]:.3f})")


def known(scores: list[float]) -> bool:
    """Return whether any seed has a score."""
    return any(score == score for score in scores)


if __name__ == "__main__":
    main()
