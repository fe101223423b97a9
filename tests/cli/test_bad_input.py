"""Bad input: one line on stderr that says what is wrong and how to mend it, exit code 2, no traceback."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tpsrl.cli import main

CASES = {
    "unknown scenario": (["eval", "tidy_hose"], "did you mean 'tidy_house'"),
    "unknown skill": (["render", "pik"], "did you mean 'pick'"),
    "nothing like it": (["plan", "xyz"], "choose from tidy_house, prepare_groceries, set_table"),
    "a skill has no plan": (["plan", "pick"], "unknown scenario 'pick'"),
    "unknown split": (["eval", "tidy_house", "--split", "validation"], "choose from train, val, test"),
    "unknown override": (["eval", "tidy_house", "chain.episode_step=9"], "episode_step"),
    "override of the wrong type": (["eval", "tidy_house", "chain.episode_steps=soon"], "soon"),
    "override out of range": (["eval", "tidy_house", "chain.skill_steps.pick=0"], "at least 1"),
    "override without a value": (["eval", "tidy_house", "chain"], "bad override"),
    "unknown observation set": (["eval", "tidy_house", "sim.obs=rgb"], "choose laser or depth"),
    "simulator that is not there": (["eval", "tidy_house", "sim.name=habitat"], "only mujoco"),
    "no zoo yet": (["eval", "tidy_house", "--skills", "zoo"], "use --skills oracle"),
    "no checkpoint folder": (["eval", "tidy_house", "--skills", "/no/such"], "no such folder"),
    "no episodes": (["eval", "tidy_house", "--episodes", "0"], "0 is not in the range"),
    "no workers": (["eval", "tidy_house", "--workers", "0"], "0 is not in the range"),
    "negative episode": (["render", "tidy_house", "--episode", "-1"], "-1 is not in the range"),
    "unwritable report": (["eval", "tidy_house", "--json", "/dev/null/report.json"], "cannot be written"),
    "report is a folder": (["eval", "tidy_house", "--json", "/tmp"], "is a folder"),
    "not a video's name": (["render", "tidy_house", "--out", "film.avi"], "must end in .mp4"),
    "unwritable video": (["render", "tidy_house", "--out", "/dev/null/film.mp4"], "cannot be written"),
    "unknown option": (["eval", "tidy_house", "--worker", "2"], "--workers"),
    "unknown command": (["evaluate", "tidy_house"], "No such command"),
    "missing name": (["eval"], "Missing argument"),
}


def run(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(sys, "argv", ["tpsrl", *arguments])
    with pytest.raises(SystemExit) as exit_info:
        main()
    assert isinstance(exit_info.value.code, int)
    return exit_info.value.code


@pytest.mark.parametrize(("arguments", "said"), CASES.values(), ids=CASES)
def test_one_line_and_exit_code_2(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments, monkeypatch) == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err
    assert err.count("\n") == 1 and err.startswith("tpsrl: ")


def test_incomplete_checkpoints_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["eval", "pick", "--skills", str(tmp_path)], monkeypatch) == 2
    assert "no checkpoint of navigate, pick" in capsys.readouterr().err


def test_rendering_without_opengl_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from hab.mujoco import render

    monkeypatch.setattr(render, "GL_BACKENDS", ("no_such_backend",))
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    assert run(["render", "tidy_house"], monkeypatch) == 2
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "libegl1" in err
