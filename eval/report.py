"""What an evaluation prints and writes: the JSON of docs/hab.md, "Reports", and its tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.console import Group
from rich.table import Table

from eval.evaluate import EpisodeResult, Evaluation
from eval.statistics import wilson
from hab.episodes import SCENARIOS, make_episode
from planner.task_planner import interactions

STEPS_APART = 750
"""Control steps between the points of success over steps: a tenth of a scenario's limit."""


def to_json(evaluation: Evaluation) -> dict[str, Any]:
    """Return the report of `--json FILE`."""
    request, results = evaluation.request, evaluation.results
    agent, scenario = request.agent, request.name in SCENARIOS
    successes = sum(r.success for r in results)
    measured = [
        {"name": name, "success": _rate(achieved, len(results)), "ci95": _interval(achieved, len(results))}
        for name, achieved in _interaction_counts(evaluation)
    ]
    return {
        "scenario": request.name,
        "sim": request.sim,
        "obs": request.obs,
        "depth_noise": request.depth_noise,
        "split": request.split,
        "episodes": len(results),
        "seed": request.seed,
        "agent": {
            "skills": agent.skills,
            "skill_nav": agent.skill_nav,
            # The chain's switches: a skill on its own task has no chain.
            "nav_skill": agent.nav_skill if scenario else None,
            "stop_mask": agent.stop_mask if scenario else None,
            "monolithic": agent.monolithic if scenario else None,
            "replan": agent.replan or None,
        },
        "episode_steps": request.episode_steps if scenario else None,
        "skill_steps": {skill: steps for skill, steps in request.skill_steps.items() if steps is not None},
        "success": _rate(successes, len(results)),
        "success_ci95": _interval(successes, len(results)),
        "interactions": measured,
        "objects": request.objects if scenario else None,
        "seen": share([r for r in results if not r.asks_for_unseen]),
        "unseen": share([r for r in results if r.asks_for_unseen]),
        "by_kind": {kind: share([r for r in results if kind in r.kinds]) for kind in _kinds(results)},
        "success_over_steps": _success_over_steps(evaluation),
        "steps": sum(r.steps for r in results),
        "seconds": round(evaluation.seconds, 1),
        "episode_results": [
            {**{k: v for k, v in asdict(r).items() if k != "trace"}, "asks_for_unseen": r.asks_for_unseen}
            for r in results
        ],
    }


def trace_rows(evaluation: Evaluation) -> list[dict[str, Any]]:
    """Return every skill call of every episode, ready for JSON Lines."""
    return [{"episode": r.index, "scene": r.scene, **row} for r in evaluation.results for row in r.trace]


def tables(evaluation: Evaluation) -> Group:
    """Return the per-interaction table and, if anything failed, the causes."""
    request, results = evaluation.request, evaluation.results
    kind = "scenario" if request.name in SCENARIOS else "skill"
    success = Table(title=f"{request.name} ({kind}), {request.split}, {request.agent.skills} skills")
    for heading in ("interaction", "success", "95 % interval", "episodes"):
        success.add_column(heading, justify="left" if heading == "interaction" else "right")
    rows = _interaction_counts(evaluation)
    for name, achieved in rows:
        success.add_row(name, *_cells(achieved, len(results)))
    if rows:
        success.add_section()
    success.add_row("whole task" if rows else request.name, *_cells(sum(r.success for r in results), len(results)))

    unseen = [r for r in results if r.asks_for_unseen]
    if unseen:
        success.add_section()
        for label, those in (("unseen kinds", unseen), ("seen alone", [r for r in results if r not in unseen])):
            if those:
                success.add_row(label, *_cells(sum(r.success for r in those), len(those)))

    parts: list[Any] = [success]
    causes = Counter((r.failed_skill, r.reason) for r in results if not r.success)
    if causes:
        failures = Table(title="what failed")
        failures.add_column("skill")
        failures.add_column("reason")
        failures.add_column("episodes", justify="right")
        for (skill, reason), count in causes.most_common():
            failures.add_row(skill, reason, str(count))
        parts.append(failures)
    steps = sum(r.steps for r in results)
    parts.append(f"{steps} control steps in {evaluation.seconds:.1f} s ({steps / evaluation.seconds:.0f} steps/s)")
    return Group(*parts)


def _kinds(results: Sequence[EpisodeResult]) -> list[str]:
    return sorted({kind for r in results for kind in r.kinds})


def share(results: Sequence[EpisodeResult]) -> dict[str, Any] | None:
    """Return how many of some episodes succeeded; None: there are none."""
    if not results:
        return None
    successes = sum(r.success for r in results)
    return {
        "episodes": len(results),
        "success": _rate(successes, len(results)),
        "ci95": _interval(successes, len(results)),
    }


def _success_over_steps(evaluation: Evaluation) -> list[list[float]]:
    """Return the share of a scenario's episodes that had succeeded by so many control steps, for every 750."""
    request, results = evaluation.request, evaluation.results
    if request.name not in SCENARIOS:
        return []
    marks = range(STEPS_APART, request.episode_steps + 1, STEPS_APART)
    after = [r.succeeded_after for r in results if r.succeeded_after is not None]
    return [[n, _rate(sum(steps <= n for steps in after), len(results))] for n in marks]


def _interaction_counts(evaluation: Evaluation) -> list[tuple[str, int]]:
    request, results = evaluation.request, evaluation.results
    if request.name not in SCENARIOS:
        return []
    names = interactions(make_episode(request.name, request.split, results[0].index))
    return [(name, sum(r.interactions[i] for r in results)) for i, name in enumerate(names)]


def _cells(successes: int, trials: int) -> tuple[str, str, str]:
    low, high = wilson(successes, trials)
    return f"{successes / trials:.2f}", f"{low:.2f} – {high:.2f}", f"{successes}/{trials}"


def _rate(successes: int, trials: int) -> float:
    return round(successes / trials, 4)


def _interval(successes: int, trials: int) -> list[float]:
    return [round(bound, 4) for bound in wilson(successes, trials)]
