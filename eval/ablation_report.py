"""What an ablation prints and writes: a summary as JSON, and from it the tables, the CSV and the page."""

from __future__ import annotations

import csv
import io
from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Any

from rich.console import Group
from rich.table import Table

from eval.ablation import CELLS, COMPARISONS, Ablation
from eval.evaluate import UNSTABLE, EpisodeResult
from eval.report import share
from eval.statistics import paired_difference, wilson
from hab.episodes import make_episode
from planner.chain import SUCCESS, came_to
from planner.task_planner import interactions

START_M = (0.0, 1.5, 3.0, 5.0, 100.0)
"""Bounds of the start distances that Pick's and Place's success is told by: within reach, in sight, across the room."""
NOVELTY = (("seen", "whole task, seen kinds alone"), ("unseen", "whole task, unseen kinds"))
"""Keys of a cell, and what they are called: objects and furniture that the episode asks for."""
Pair = tuple[EpisodeResult, EpisodeResult]
TITLES = {cell.key: cell.title for cell in CELLS}


def summarize(ablation: Ablation) -> dict[str, Any]:
    """Return all that the report says, ready for JSON. Cells without episodes are left out."""
    request = ablation.request
    cells = {key: evaluation.results for key, evaluation in ablation.cells.items() if evaluation.results}
    names = interactions(make_episode(request.name, request.split, 0))
    return {
        "scenario": request.name,
        "sim": request.sim,
        "split": request.split,
        "seed": request.seed,
        "skills": ablation.skills,
        "objects": request.objects,
        "obs": request.obs or "each policy's own",
        "depth_noise": request.depth_noise,
        "interactions": list(names),
        "cells": {key: _cell(key, results, len(names)) for key, results in cells.items()},
        "comparisons": [
            _comparison(title, ours, theirs, pairs, len(names))
            for title, ours, theirs in COMPARISONS
            if (pairs := _together(cells.get(ours, ()), cells.get(theirs, ())))
        ],
        "seconds": round(sum(evaluation.seconds for evaluation in ablation.cells.values()), 1),
    }


def _cell(key: str, results: Sequence[EpisodeResult], stages: int) -> dict[str, Any]:
    episodes = len(results)
    counts = [sum(result.interactions[i] for result in results) for i in range(stages)]
    causes = Counter((result.failed_skill, result.reason) for result in results if not result.success)
    return {
        "title": TITLES[key],
        "episodes": episodes,
        "successes": counts,
        "success": [round(count / episodes, 4) for count in counts],
        "ci95": [[round(bound, 4) for bound in wilson(count, episodes)] for count in counts],
        "seen": share([result for result in results if not result.asks_for_unseen]),
        "unseen": share([result for result in results if result.asks_for_unseen]),
        "failures": [{"skill": s, "reason": r, "episodes": n} for (s, r), n in causes.most_common()],
        "driving": [_driving(skill, results) for skill in ("pick", "place")],
    }


def _driving(skill: str, results: Sequence[EpisodeResult]) -> dict[str, Any]:
    """Tell how far a skill's calls began from their goal, how far they drove, and how they went."""
    played = [result for result in results if result.reason != UNSTABLE]  # whose trace is no more than that
    calls = [row for result in played for row in result.trace if row["skill"] == skill]
    begun = [[row for row in calls if low <= row["start_m"] < high] for low, high in pairwise(START_M)]
    return {
        "skill": skill,
        "calls": len(calls),
        "start_m": _median([row["start_m"] for row in calls]),
        "driven_m": _median([row["driven_m"] for row in calls]),
        "driven_m_of_successes": _median([row["driven_m"] for row in calls if row["outcome"] == "success"]),
        "by_start": [
            {"from_m": low, "calls": len(rows), "successes": sum(row["outcome"] == "success" for row in rows)}
            for low, rows in zip(START_M[:-1], begun, strict=True)
        ],
    }


def _median(values: Sequence[float]) -> float | None:
    return round(median(values), 2) if values else None


def _together(ours: Sequence[EpisodeResult], theirs: Sequence[EpisodeResult]) -> list[Pair]:
    """Return the results of the episodes that both have."""
    other = {result.index: result for result in theirs}
    return [(result, other[result.index]) for result in ours if result.index in other]


def _comparison(title: str, ours: str, theirs: str, pairs: Sequence[Pair], stages: int) -> dict[str, Any]:
    rows = []
    for i in range(stages):
        sides = [a.interactions[i] for a, _ in pairs], [b.interactions[i] for _, b in pairs]
        difference, low, high = paired_difference(*sides)
        rows.append({"difference": round(difference, 4), "ci95": [round(low, 4), round(high, 4)]})
    return {"title": title, "with": ours, "without": theirs, "episodes": len(pairs), "interactions": rows}


def verdict(stage: dict[str, Any]) -> str:
    """Say what a difference's interval says: "better", "worse", or "" if it holds zero."""
    low, high = stage["ci95"]
    return "better" if low > 0.0 else "worse" if high < 0.0 else ""


def typical(results: Sequence[EpisodeResult]) -> dict[str, int]:
    """Return an episode to watch for each outcome: "success" or the skill that failed and why -> the index of the
    episode whose length is the median of its kind's. None where the physics broke down, as it would again."""
    kinds: dict[str, list[EpisodeResult]] = {}
    for result in sorted((r for r in results if r.reason != UNSTABLE), key=lambda r: (r.steps, r.index)):
        kinds.setdefault(came_to(result.failed_skill, result.reason), []).append(result)
    ordered = sorted(kinds.items(), key=lambda pair: (pair[0] != SUCCESS, -len(pair[1]), pair[0]))
    return {kind: same[(len(same) - 1) // 2].index for kind, same in ordered}


def tables(summary: dict[str, Any]) -> Group:
    """Return success by interaction and cell, the comparisons, how Pick and Place drove, and what failed."""
    cells, names = summary["cells"], summary["interactions"]
    success = Table(title=f"{summary['scenario']}, {summary['split']}, {summary['skills']} skills: cumulative success")
    success.add_column("interaction")
    for cell in cells.values():
        success.add_column(f"{cell['title']} [{cell['episodes']}]", justify="right")
    for i, name in enumerate(names):
        success.add_row(name, *(_rate(cell["success"][i], cell["ci95"][i]) for cell in cells.values()))
    if asked_for_unseen(summary):
        success.add_section()
        for key, label in NOVELTY:
            success.add_row(label, *(_whole(cell[key]) for cell in cells.values()))
    parts: list[Any] = [success]
    if summary["comparisons"]:
        gained = Table(title="gained over the same episodes (bold: the 95 % interval excludes 0)")
        gained.add_column("interaction")
        for comparison in summary["comparisons"]:
            gained.add_column(f"{comparison['title']} [{comparison['episodes']}]", justify="right")
        for i, name in enumerate(names):
            gained.add_row(name, *(_difference(row["interactions"][i]) for row in summary["comparisons"]))
        parts.append(gained)
    driving = Table(title="Pick and Place: where calls began, how far they drove (medians), success by start distance")
    bins = [f"{low:g}–{high:g} m" if high < START_M[-1] else f"> {low:g} m" for low, high in pairwise(START_M)]
    for heading in ("agent", "skill", "calls", "began m", "drove m", *bins):
        driving.add_column(heading, justify="left" if heading in ("agent", "skill") else "right")
    failures = Table(title="what failed")
    for heading in ("agent", "skill", "reason", "episodes"):
        failures.add_column(heading, justify="right" if heading == "episodes" else "left")
    for cell in cells.values():
        for row in cell["driving"]:
            shares = [f"{b['successes']}/{b['calls']}" if b["calls"] else "-" for b in row["by_start"]]
            far = ["-" if row[key] is None else f"{row[key]:.1f}" for key in ("start_m", "driven_m")]
            driving.add_row(cell["title"], row["skill"], str(row["calls"]), *far, *shares)
        for cause in cell["failures"]:
            failures.add_row(cell["title"], cause["skill"], cause["reason"], str(cause["episodes"]))
    return Group(*parts, driving, failures)


def asked_for_unseen(summary: dict[str, Any]) -> bool:
    """Return whether some episode asked for a kind of object or furniture that no training has seen."""
    return any(cell["unseen"] for cell in summary["cells"].values())


def to_csv(summary: dict[str, Any]) -> str:
    """Return one line per cell and interaction."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    about = ("scenario", "split", "cell", "agent", "interaction")
    writer.writerow((*about, "successes", "episodes", "success", "low", "high"))
    for key, cell in summary["cells"].items():
        for i, name in enumerate(summary["interactions"]):
            figures = (cell["successes"][i], cell["episodes"], cell["success"][i], *cell["ci95"][i])
            writer.writerow((summary["scenario"], summary["split"], key, cell["title"], name, *figures))
    return out.getvalue()


def _whole(those: dict[str, Any] | None) -> str:
    return f"{_rate(those['success'], those['ci95'])} [{those['episodes']}]" if those else "-"


def _rate(rate: float, ci95: Sequence[float]) -> str:
    return f"{rate:.2f} ({ci95[0]:.2f}–{ci95[1]:.2f})"


def _difference(stage: dict[str, Any]) -> str:
    low, high = stage["ci95"]
    text = f"{stage['difference']:+.2f} ({low:+.2f} to {high:+.2f})"
    return f"[bold]{text}[/bold]" if verdict(stage) else text
