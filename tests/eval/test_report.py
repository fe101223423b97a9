"""The JSON of docs/hab.md, "Reports", and the tables."""

from __future__ import annotations

import io

from rich.console import Console

from eval.evaluate import EpisodeResult, Evaluation, Request
from eval.report import tables, to_json, trace_rows
from planner.agent import Agent


def evaluation() -> Evaluation:
    row = {"stage": 1, "skill": "pick", "outcome": "timeout", "reason": "timeout"}
    results = [
        EpisodeResult(0, 7, True, [True] * 4, "", "", 1600, [], ["024_bowl", "table"], 900),
        EpisodeResult(1, 8, False, [True, False, False, False], "pick", "timeout", 812, [row], ["011_banana", "table"]),
    ]
    return Evaluation(Request("set_table", Agent(), episodes=2), results, 2.0, interrupted=False)


def test_json() -> None:
    report = to_json(evaluation())
    assert list(report) == [
        *("scenario", "sim", "obs", "depth_noise", "split", "episodes", "seed", "agent"),
        *("episode_steps", "skill_steps"),
        *("success", "success_ci95", "interactions", "objects", "seen", "unseen", "by_kind"),
        *("success_over_steps", "steps", "seconds", "episode_results"),
    ]
    assert report["objects"] == 30
    # The banana is in houses of test alone.
    assert (report["seen"]["episodes"], report["seen"]["success"]) == (1, 1.0)
    assert (report["unseen"]["episodes"], report["unseen"]["success"]) == (1, 0.0)
    counts = {kind: (those["episodes"], those["success"]) for kind, those in report["by_kind"].items()}
    assert counts == {"011_banana": (1, 0.0), "024_bowl": (1, 1.0), "table": (2, 0.5)}
    assert report["agent"] == {
        "skills": "oracle",
        "skill_nav": True,
        "nav_skill": True,
        "stop_mask": True,
        "monolithic": False,
        "replan": None,
    }
    assert report["obs"] is None and report["episode_steps"] == 7500 and report["skill_steps"] == {}
    # One of the two succeeds, in 900 steps, and looks after that for 700 more.
    assert report["success_over_steps"] == [[n, 0.5 if n >= 900 else 0.0] for n in range(750, 7501, 750)]
    assert [i["name"] for i in report["interactions"]] == ["pick 1", "place 1", "pick 2", "place 2"]
    assert [i["success"] for i in report["interactions"]] == [1.0, 0.5, 0.5, 0.5]
    assert report["success"] == 0.5 and report["success_ci95"] == report["interactions"][1]["ci95"]
    assert (report["steps"], report["seconds"]) == (2412, 2.0)
    assert report["episode_results"][1] == {
        "index": 1,
        "scene": 8,
        "success": False,
        "interactions": [True, False, False, False],
        "failed_skill": "pick",
        "reason": "timeout",
        "steps": 812,
        "kinds": ["011_banana", "table"],
        "succeeded_after": None,
        "asks_for_unseen": True,
    }


def test_a_skill_has_no_switches_of_the_chain() -> None:
    result = EpisodeResult(0, 7, True, [], "", "", 90, [])
    report = to_json(Evaluation(Request("pick", Agent(), episodes=1), [result], 1.0, interrupted=False))
    assert report["agent"]["skill_nav"] and report["agent"]["nav_skill"] is None is report["agent"]["stop_mask"]
    assert report["success_over_steps"] == [] and report["objects"] is None and report["unseen"] is None
    assert report["interactions"] == []


def test_tables_show_interactions_and_causes() -> None:
    out = io.StringIO()
    Console(width=100, file=out).print(tables(evaluation()))
    text = out.getvalue()
    assert "place 2" in text and "1/2" in text and "what failed" in text and "timeout" in text


def test_trace_rows_name_their_episode() -> None:
    (row,) = trace_rows(evaluation())
    assert (row["episode"], row["scene"], row["skill"]) == (1, 8, "pick")
