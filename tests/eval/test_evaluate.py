"""Evaluations on the real simulator, cut short by a small step limit."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eval.evaluate import EpisodeResult, Request, evaluate
from eval.report import to_json
from planner.agent import Agent

SHORT = Request("tidy_house", Agent(), episodes=3, episode_steps=150)


def test_results_do_not_depend_on_the_number_of_workers() -> None:
    alone, together = evaluate(SHORT, workers=1), evaluate(SHORT, workers=2)
    assert alone.results == together.results
    assert [r.index for r in alone.results] == [0, 1, 2]
    report = to_json(alone)
    assert report["steps"] == sum(r.steps for r in alone.results) <= 450


def test_the_step_limit_is_a_cause() -> None:
    (result,) = evaluate(Request("set_table", Agent(), episodes=1, episode_steps=20)).results
    assert (result.steps, result.failed_skill, result.reason) == (20, "navigate", "episode's step limit")
    assert result.interactions == [False] * 4 and not result.success
    assert result.trace[0]["outcome"] == "timeout"


@pytest.mark.parametrize("workers", [1, 2])
def test_an_interrupt_keeps_what_was_measured(workers: int) -> None:
    seen: list[EpisodeResult] = []

    def interrupt_after_two(result: EpisodeResult) -> None:
        seen.append(result)
        if len(seen) == 2:
            raise KeyboardInterrupt

    request = Request("tidy_house", Agent(), episodes=20, episode_steps=20)
    evaluation = evaluate(request, workers, interrupt_after_two)
    assert evaluation.interrupted and len(evaluation.results) == 2


def test_a_skill_is_evaluated_on_its_own_task() -> None:
    evaluation = evaluate(Request("navigate", Agent(), episodes=2))
    assert all(r.interactions == [] and r.steps > 0 for r in evaluation.results)
    assert to_json(evaluation)["interactions"] == []


def test_ctrl_c_ends_with_the_table_and_exit_code_0(tmp_path: Path) -> None:
    file = tmp_path / "report.json"
    command = [sys.executable, "-m", "tpsrl", "eval", "tidy_house", "--episodes", "5000", "--workers", "2"]
    process = subprocess.Popen(
        [*command, "--json", str(file), "--trace", str(tmp_path / "trace.jsonl"), "chain.episode_steps=100"],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
        start_new_session=True,
    )
    time.sleep(8)
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=30)
    assert process.returncode == 0
    assert "interrupted after" in out and "whole task" in out
    measured = json.loads(file.read_text())["episodes"]
    assert 0 < measured < 5000
