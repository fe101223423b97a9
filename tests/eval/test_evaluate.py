"""Evaluations on the real simulator, cut short by a small step limit."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from eval.evaluate import EpisodeResult, Request, cached_simulator, evaluate
from eval.report import to_json
from hab.actions import Action
from hab.mujoco.simulator import MujocoSimulator
from hab.objects import object_kind
from hab.simulator import SimulationError
from planner.agent import Agent
from skills import make_env

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


def test_unstable_physics_is_a_failed_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    step = MujocoSimulator.step

    def blow_up(sim: MujocoSimulator, action: Action) -> None:
        if sim.steps == 7:
            raise SimulationError("the physics became unstable")
        step(sim, action)

    monkeypatch.setattr(MujocoSimulator, "step", blow_up)
    for request in (Request("set_table", Agent(), episodes=2), Request("pick", Agent(), episodes=1)):
        evaluation = evaluate(request)
        assert len(evaluation.results) == request.episodes and evaluation.error == ""
        for result in evaluation.results:
            assert (result.success, result.reason, result.steps) == (False, "unstable physics", 7)
            assert result.trace[0]["reason"] == "unstable physics"
        to_json(evaluation)


def test_a_failing_worker_names_its_episode() -> None:
    evaluation = evaluate(Request("tidy_house", Agent(), "no_such_split", episodes=2), workers=2)
    assert evaluation.results == [] and "tidy_house, no_such_split episode" in evaluation.error


def start(folder: Path, workers: int, episodes: int = 5000) -> subprocess.Popen[str]:
    """Start a long evaluation that writes its files to a folder."""
    command = [sys.executable, "-m", "tpsrl", "eval", "tidy_house", "--skills", "oracle", "--episodes", str(episodes)]
    files = ["--json", str(folder / "report.json"), "--trace", str(folder / "trace.jsonl")]
    with (folder / "stderr").open("w") as err:
        return subprocess.Popen(
            [*command, "--workers", str(workers), *files, "chain.episode_steps=100"],
            stdout=subprocess.PIPE,
            stderr=err,
            text=True,
            cwd=Path(__file__).parents[2],
            env={**os.environ, "FORCE_COLOR": "1", "COLUMNS": "120"},  # a progress bar as in a terminal
            start_new_session=True,
            # A suite that runs in the background of a shell inherits that Ctrl-C is ignored.
            preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
        )


def session_of(process: subprocess.Popen[str]) -> list[int]:
    """Return the living processes of a process's session, itself included (Linux)."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, _, _, session = stat.read_text().rpartition(")")[2].split()[:4]
            if int(session) == process.pid and state != "Z":
                found.append(int(stat.parent.name))
    return found


def wait_for_an_episode(folder: Path) -> None:
    """Wait until the progress bar of `start` shows the first result."""
    for _ in range(600):
        if "success" in (folder / "stderr").read_text():
            return
        time.sleep(0.1)
    raise AssertionError("no episode ended")


def wait_until_empty(process: subprocess.Popen[str]) -> None:
    for _ in range(100):
        if not session_of(process):
            return
        time.sleep(0.1)
    raise AssertionError(f"processes left: {session_of(process)}")


@pytest.mark.parametrize(
    ("number", "workers", "to_all"),
    [
        (signal.SIGINT, 2, True),
        (signal.SIGTERM, 1, False),
        pytest.param(signal.SIGTERM, 2, False, marks=pytest.mark.slow),
        (signal.SIGTERM, 2, True),
    ],
    ids=["Ctrl-C", "SIGTERM, one process", "SIGTERM, two workers", "SIGTERM to all processes"],
)
def test_signals_end_with_the_table_and_exit_code_0(
    number: signal.Signals, workers: int, to_all: bool, tmp_path: Path
) -> None:
    process = start(tmp_path, workers)
    wait_for_an_episode(tmp_path)
    if to_all:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)
    out, _ = process.communicate(timeout=30)
    err = (tmp_path / "stderr").read_text()
    assert process.returncode == 0 and "Traceback" not in err, err
    assert "interrupted after" in out and "whole task" in out
    assert 0 < json.loads((tmp_path / "report.json").read_text())["episodes"] < 5000
    assert (tmp_path / "trace.jsonl").read_text()
    wait_until_empty(process)


def test_workers_die_with_their_parent(tmp_path: Path) -> None:
    process = start(tmp_path, 2)
    wait_for_an_episode(tmp_path)
    assert len(session_of(process)) >= 3
    process.kill()
    process.communicate(timeout=30)
    wait_until_empty(process)


def test_a_house_holds_as_many_objects_as_asked_for() -> None:
    (result,) = evaluate(Request("tidy_house", Agent(), episodes=1, episode_steps=20, objects=7)).results
    episode = cached_simulator("mujoco", False).episode
    assert len(episode.objects) == 7 and {t.object for t in episode.targets} <= set(episode.objects)
    assert set(result.kinds) >= {object_kind(t.object) for t in episode.targets} and not result.asks_for_unseen


@pytest.mark.parametrize("skill", ["pick", "place", "navigate", "open_fridge"])
def test_a_skills_kinds_are_those_of_its_goal(skill: str) -> None:
    (result,) = evaluate(Request(skill, Agent(), episodes=1, split="test")).results
    env = make_env(skill, "test", obs="laser", index=0).unwrapped
    env.reset(seed=0)
    goal, episode, scene = env.goal, env.start.episode, env.sim.scene  # type: ignore[attr-defined]
    if skill == "open_fridge":
        assert result.kinds == ["fridge"]
        return
    target = episode.target(goal.object)
    place = target.goal_receptacle if goal.position == target.goal_pos else target.start_receptacle
    expected = [object_kind(goal.object)] + ([] if goal.articulation else [scene.receptacle(place).kind])
    assert result.kinds == expected
