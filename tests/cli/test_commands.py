"""What the commands print and write when all is well."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tpsrl import __version__
from tpsrl.cli import main

Run = Callable[..., tuple[int, str]]


@pytest.fixture
def tpsrl(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """Run `tpsrl …` in this process; returns the exit code and what it printed."""

    def run(*arguments: str) -> tuple[int, str]:
        monkeypatch.setattr(sys, "argv", ["tpsrl", *arguments])
        with pytest.raises(SystemExit) as exit_info:
            main()
        assert isinstance(exit_info.value.code, int)
        return exit_info.value.code, capsys.readouterr().out

    return run


def test_version(tpsrl: Run) -> None:
    assert tpsrl("--version") == (0, f"tpsrl, version {__version__}\n")


def test_plan(tpsrl: Run) -> None:
    code, out = tpsrl("plan", "set_table")
    assert code == 0
    assert "open_cabinet" in out and "nav_to_receptacle" in out and "place 2" in out
    code, out = tpsrl("plan", "set_table", "--no-nav-skill")
    assert code == 0 and "navigate" not in out


def test_plan_prints_both_files(tpsrl: Run) -> None:
    code, out = tpsrl("plan", "tidy_house", "--episode", "3", "--pddl")
    assert code == 0
    assert "(define (domain home_rearrangement)" in out and "(define (problem tidy_house_val_3)" in out


def test_eval_writes_the_report_and_the_trace(tpsrl: Run, tmp_path: Path) -> None:
    report, trace = tmp_path / "new" / "report.json", tmp_path / "trace.jsonl"
    code, out = tpsrl(
        *("eval", "tidy_house", "--episodes", "2", "--json", str(report), "--trace", str(trace)),
        "chain.episode_steps=30",
    )
    assert code == 0 and "pick 1" in out and "episode's step limit" in out
    assert json.loads(report.read_text())["steps"] == 60
    rows = [json.loads(line) for line in trace.read_text().splitlines()]
    assert [(r["episode"], r["skill"], r["outcome"]) for r in rows] == [
        (0, "navigate", "timeout"),
        (1, "navigate", "timeout"),
    ]


def test_doctor_names_simulators_and_back_ends(tpsrl: Run) -> None:
    code, out = tpsrl("doctor")
    assert code == 0
    assert "mujoco: works" in out and "habitat: not installed" in out
    assert all(f"  {kind}: " in out for kind in ("egl", "osmesa", "glfw"))
