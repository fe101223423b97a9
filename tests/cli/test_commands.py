"""What the commands print and write when all is well."""

from __future__ import annotations

import itertools
import json
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from hab.backend import unavailable
from tpsrl import __version__
from tpsrl.cli import main

ROOT = Path(__file__).parents[2]
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


def test_ablate_writes_its_files_and_plays_no_episode_twice(tpsrl: Run, tmp_path: Path) -> None:
    asked = (
        "ablate",
        "set_table",
        "--skills",
        "oracle",
        "--agent",
        "nonav",
        "--agent",
        "skillnav",
        "--out",
        str(tmp_path),
    )
    code, out = tpsrl(*asked, "--episodes", "2", "chain.episode_steps=30")
    assert code == 0 and "TP-SRL(NoNav)" in out and "sense-plan-act" not in out
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert {key: cell["episodes"] for key, cell in summary["cells"].items()} == {"skillnav": 2, "nonav": 2}
    assert "<svg" in (tmp_path / "report.html").read_text() and "nonav" in (tmp_path / "success.csv").read_text()
    kept = (tmp_path / "nonav.jsonl").read_text()
    code, out = tpsrl(*asked, "--episodes", "3", "chain.episode_steps=30")
    assert code == 0 and (tmp_path / "nonav.jsonl").read_text().startswith(kept)
    assert json.loads((tmp_path / "summary.json").read_text())["cells"]["nonav"]["episodes"] == 3
    assert tpsrl(*asked, "--episodes", "3", "chain.episode_steps=31")[0] == 2


def test_ablate_leaves_out_whoever_lacks_a_policy_unless_asked_for(tpsrl: Run, tmp_path: Path) -> None:
    """No oracle does a whole object at once."""
    asked = ("ablate", "set_table", "--skills", "oracle", "--episodes", "1", "chain.episode_steps=5", "--out")
    assert tpsrl(*asked, str(tmp_path / "all"))[0] == 0
    summary = json.loads((tmp_path / "all" / "summary.json").read_text())
    assert "monolithic" not in summary["cells"] and {"tpsrl", "skillnav", "nonav", "oracle"} <= summary["cells"].keys()
    assert tpsrl(*asked, str(tmp_path / "asked"), "--agent", "monolithic", "--agent", "nonav")[0] == 2


def test_ablate_films_what_is_typical_and_gallery_shows_it(tpsrl: Run, tmp_path: Path) -> None:
    from hab.mujoco.gl import RenderingUnavailable, make_gl_context

    try:
        make_gl_context(16, 16).free()
    except RenderingUnavailable as error:
        pytest.skip(str(error))
    asked = ("ablate", "set_table", "--skills", "oracle", "--agent", "nonav", "--out", str(tmp_path), "--videos")
    small = ("--episodes", "2", "chain.episode_steps=20", "video.height=144", "video.fps=5", "video.max_s=1")
    assert tpsrl(*asked, *small)[0] == 0
    (film,) = (tmp_path / "videos").glob("*.mp4")
    report, made = (tmp_path / "report.html").read_text(), film.stat().st_mtime_ns
    assert f"videos/{film.name}" in report and "data:image/jpeg" in report and "step limit" in report
    assert film.name in (tmp_path / "videos" / "index.html").read_text()
    assert tpsrl(*asked, *small)[0] == 0 and film.stat().st_mtime_ns == made
    code, out = tpsrl("gallery", str(tmp_path), "--title", "All")
    assert code == 0 and out.strip() == str(tmp_path / "index.html")
    assert f"videos/{film.name}" in (tmp_path / "index.html").read_text()


def test_record_starts_writes_what_training_takes(tpsrl: Run, tmp_path: Path) -> None:
    file = tmp_path / "chain.npz"
    code, out = tpsrl("record-starts", str(file), "--skills", "oracle", "--episodes", "2", "--shoved", "1")
    assert code == 0 and re.search(r"navigate \d+, pick \d+, place \d+", out)
    picks, places = (int(re.search(rf"{skill} (\d+)", out)[1]) for skill in ("pick", "place"))
    assert picks > places  # the oracle places all that it picks
    tiny = ["train.num_envs=2", "train.rollout_length=16", "train.min_batch=1", "train.learner_threads=1"]
    asked = ["--obs", "laser", "--steps", "32", f"chain_states={file}", "chain_starts=0.5", *tiny]
    assert tpsrl("train-skill", "place", *asked, "--out", str(tmp_path / "run"))[0] == 0
    assert tpsrl("train-skill", "open_cabinet", *asked, "--out", str(tmp_path / "other"))[0] == 2


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
    assert "mujoco: works" in out and f"habitat: {unavailable('habitat') or 'installed'}" in out
    assert "tpsrl data habitat data --run" in out
    assert all(f"  {kind}: " in out for kind in ("egl", "osmesa", "glfw"))


def test_doctor_says_when_rendering_is_switched_off(tpsrl: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MUJOCO_GL", "disable")
    code, out = tpsrl("doctor")
    assert code == 0 and "MUJOCO_GL=disable switches rendering off" in out and "used: " not in out


def test_doctor_says_when_the_wanted_back_end_does_not_work(monkeypatch: pytest.MonkeyPatch) -> None:
    from tpsrl.doctor import _gl_verdict

    errors = {"egl": "", "osmesa": "no library", "glfw": "no display"}
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    assert _gl_verdict(errors) == "used: egl"
    monkeypatch.setenv("MUJOCO_GL", "glfw")
    assert "MUJOCO_GL=glfw does not work" in _gl_verdict(errors)


def test_a_failing_episode_keeps_the_others(
    tpsrl: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from eval import evaluate
    from hab.episodes import make_episode

    def broken(scenario: str, split: str, index: int, objects: int) -> object:
        if index == 2:
            raise IndexError("nothing\nhere")
        return make_episode(scenario, split, index, objects)

    monkeypatch.setattr(evaluate, "make_episode", broken)
    report = tmp_path / "report.json"
    monkeypatch.setattr(
        sys,
        "argv",
        [
            "tpsrl",
            "eval",
            "set_table",
            "--skills",
            "oracle",
            "--episodes",
            "9",
            "--json",
            str(report),
            "chain.episode_steps=5",
        ],
    )
    with pytest.raises(SystemExit) as exit_info:
        main()
    assert exit_info.value.code == 1
    out, err = capsys.readouterr()
    assert "whole task" in out and json.loads(report.read_text())["episodes"] == 2
    last = err.splitlines()[-1]
    assert "set_table, val episode 2: IndexError: nothing here (2 of 9 episodes were measured)" in last


def test_an_interrupted_start_is_one_line() -> None:
    """Imports take a second, in which Ctrl-C is as likely as later."""
    command = [sys.executable, "-m", "tpsrl", "plan", "set_table"]
    for delay_s in (0.15, 0.3, 0.45):
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)
        wait_for_handlers(process)
        time.sleep(delay_s)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=20)
        # By the signal where CPython notices that one interrupted an `exec` of an import, although it was handled.
        assert process.returncode in (0, 1, -signal.SIGINT)
        assert err.strip() == ("tpsrl: interrupted" if process.returncode == 1 or err else "")


def test_an_interrupt_where_python_ignores_exceptions_comes_a_little_later() -> None:
    script = """if True:
        import os, signal, sys, time, types, weakref

        class Lock: ...

        code = "def cb(_):\\n    os.kill(os.getpid(), signal.SIGINT)\\n    sum(range(10))"
        exec(compile(code, "<frozen importlib._bootstrap>", "exec"))

        def run():
            lock = Lock()
            forgotten = weakref.ref(lock, cb)
            del lock
            time.sleep(10.0)
            return 0

        sys.modules["tpsrl.commands"] = commands = types.ModuleType("tpsrl.commands")
        commands.run = run
        signal.signal(signal.SIGINT, signal.default_int_handler)  # the tests may run in a shell's background
        from tpsrl.cli import main
        main()
    """
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=False)
    assert (done.returncode, done.stderr.strip()) == (1, "tpsrl: interrupted")


def wait_for_handlers(process: subprocess.Popen[str]) -> None:
    """Wait until a `tpsrl` process handles SIGTERM, the first thing it does."""
    status = Path(f"/proc/{process.pid}/status")
    if not status.exists():
        pytest.skip("needs Linux's /proc")
    for _ in range(1000):
        caught = next(line for line in status.read_text().splitlines() if line.startswith("SigCgt"))
        if int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.005)
    raise AssertionError("no SIGTERM handler")


def test_houses_draws_what_it_is_asked_for(tpsrl: Run, tmp_path: Path) -> None:
    sheet = tmp_path / "houses.png"
    code, out = tpsrl("houses", "--split", "train", "--count", "3", "--columns", "2", "--out", str(sheet))
    if code and "OpenGL" in out:
        pytest.skip(out)
    assert (code, out.strip()) == (0, str(sheet))
    picture = np.asarray(Image.open(sheet)).astype(int)
    wide, high = picture.shape[1] // 2, picture.shape[0] // 2
    tiles = [picture[y : y + high, x : x + wide] for y in (0, high) for x in (0, wide)]
    floor = [tile[: high - 60].std() for tile in tiles]
    assert min(floor[:3]) > 10.0 and floor[3] < 5.0  # three houses and an empty place
    assert all(np.abs(a - b).mean() > 3.0 for a, b in itertools.combinations(tiles[:3], 2))


def test_a_film_draws_as_the_evaluation_that_it_shows(
    tpsrl: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a scenario and of a skill, by `render` and by `eval --video`."""
    seeds: list[tuple[int, int]] = []
    monkeypatch.setattr("videos.render.seed_draws", lambda seed, index: seeds.append((seed, index)))
    monkeypatch.setattr("videos.render._write", lambda *told: None)
    monkeypatch.setattr("videos.render.prepare_rendering", lambda: None)
    for module in ("render", "options"):
        monkeypatch.setattr(f"tpsrl.commands.{module}.check_rendering", lambda config: None)
    monkeypatch.chdir(tmp_path)
    short = ["--skills", "oracle", "chain.episode_steps=1"]
    assert tpsrl("render", "tidy_house", "--seed", "7", "--episode", "2", *short)[0] == 0
    assert tpsrl("render", "pick", "--seed", "8", *short[:2])[0] == 0
    assert tpsrl("eval", "tidy_house", "--seed", "9", "--episodes", "1", "--video", "1", *short)[0] == 0
    assert seeds == [(7, 2), (8, 0), (9, 0)]
