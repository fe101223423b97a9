"""The run folder: what is written down, what is refused, what a resume keeps."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ver_core.run_directory import RunDirectory, RunError, git_revision

CONFIG = "train:\n  seed: 3\n"


def sessions(path: Path) -> list[dict[str, Any]]:
    found = json.loads((path / "run.json").read_text())
    assert list(found) == ["sessions"]
    return list(found["sessions"])


def test_a_new_run_writes_down_what_runs_where(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "nvidia-smi").write_text("#!/bin/sh\nprintf 'Some GPU\\nSome other GPU\\n'\n")
    (tmp_path / "bin" / "nvidia-smi").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:{os.environ['PATH']}")
    before = datetime.now(UTC).replace(microsecond=0)
    run = RunDirectory.create(tmp_path / "a" / "b", CONFIG, resume=False)
    run.close()
    assert run.config.read_text() == CONFIG
    (session,) = sessions(run.path)
    assert before <= datetime.fromisoformat(session["date"]) <= datetime.now(UTC)
    assert session["command"][0] == sys.orig_argv[0]
    assert session["gpus"] == ["Some GPU", "Some other GPU"]
    assert session["cpu"] and session["cpu"] in Path("/proc/cpuinfo").read_text()
    assert session["hostname"] == os.uname().nodename
    version = ".".join(map(str, sys.version_info[:3]))
    assert (session["python"], session["torch"], session["numpy"]) == (version, torch.__version__, np.__version__)
    assert not torch.cuda.is_initialized()


def test_the_paths_are_the_documented_ones(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, CONFIG, resume=False)
    run.close()
    names = {"checkpoint.pt", "scalars.jsonl", "log.txt", "tensorboard"}
    assert {p.name for p in (run.checkpoint, run.scalars, run.log, run.tensorboard)} == names
    assert {p.name for p in tmp_path.iterdir()} == {"config.yaml", "run.json", "log.txt"}


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("checkpoint.pt", "holds a run already; use --resume to continue it"),
        ("scalars.jsonl", "holds what a run without a checkpoint has left; remove it"),  # --resume would be refused
    ],
)
def test_a_new_run_refuses_a_folder_with_results(tmp_path: Path, name: str, told: str) -> None:
    (tmp_path / name).write_text("x\n")
    with pytest.raises(RunError, match=rf"^[^\n]*: {told}, or [^\n]*another --out$"):
        RunDirectory.create(tmp_path, CONFIG, resume=False)
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_a_run_that_died_before_its_first_row_can_be_started_over(tmp_path: Path) -> None:
    RunDirectory.create(tmp_path, "old", resume=False).close()
    (tmp_path / "scalars.jsonl").touch()
    RunDirectory.create(tmp_path, CONFIG, resume=False).close()
    assert (tmp_path / "config.yaml").read_text() == CONFIG
    assert len(sessions(tmp_path)) == 1


def test_resuming_needs_a_checkpoint(tmp_path: Path) -> None:
    (tmp_path / "scalars.jsonl").write_text("{}\n")
    for path in (tmp_path, tmp_path / "none"):
        with pytest.raises(RunError, match=r"^[^\n]*: holds no checkpoint to resume from; leave out --resume[^\n]*$"):
            RunDirectory.create(path, CONFIG, resume=True)
    assert [p.name for p in tmp_path.iterdir()] == ["scalars.jsonl"]


def test_a_resume_adds_a_session_and_keeps_the_log_and_former_configs(tmp_path: Path) -> None:
    run = RunDirectory.create(tmp_path, CONFIG, resume=False)
    run.logger.info("first")
    run.close()
    run.checkpoint.touch()
    first = sessions(tmp_path)
    for config in (CONFIG, "seed: 4\n", "seed: 5\n"):
        run = RunDirectory.create(tmp_path, config, resume=True)
        run.logger.info("again")
        run.close()
    assert len(sessions(tmp_path)) == 4 and sessions(tmp_path)[:1] == first
    assert run.config.read_text() == "seed: 5\n"
    # Sessions 1 and 2 ran with the first config, 3 with the second.
    assert {p.name: p.read_text() for p in tmp_path.glob("config.*.yaml")} == {
        "config.2.yaml": CONFIG,
        "config.3.yaml": "seed: 4\n",
    }
    assert [line.split()[-1] for line in run.log.read_text().splitlines()] == ["first", "again", "again", "again"]


@pytest.mark.parametrize("content", ["", "{", "[]", '{"sessions": 3}'])
def test_a_spoilt_record_is_no_reason_not_to_resume(tmp_path: Path, content: str) -> None:
    (tmp_path / "checkpoint.pt").touch()
    (tmp_path / "run.json").write_text(content)
    RunDirectory.create(tmp_path, CONFIG, resume=True).close()
    assert len(sessions(tmp_path)) == 1


def test_a_folder_that_cannot_be_made_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for path in (tmp_path / "file", tmp_path / "file" / "below"):
        with pytest.raises(RunError, match=r"^[^\n]*: cannot be the run's folder: [^\n]*; use another --out$"):
            RunDirectory.create(path, CONFIG, resume=False)


def test_the_log_has_times_and_warnings_are_shown_too(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = RunDirectory.create(tmp_path, CONFIG, resume=False)
    run.logger.info("calm")
    run.logger.warning("too %s", "hot")
    shown: list[str] = []
    run.show = shown.append
    run.logger.error("on fire")
    run.close()
    assert capsys.readouterr() == ("", "warning: too hot\n")
    assert shown == ["error: on fire"]
    time = r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"
    expected = rf"{time} INFO calm\n{time} WARNING too hot\n{time} ERROR on fire\n"
    assert re.fullmatch(expected, run.log.read_text())


def test_two_runs_do_not_write_into_each_others_logs(tmp_path: Path) -> None:
    runs = [RunDirectory.create(tmp_path / name, CONFIG, resume=False) for name in "ab"]
    for run in runs:
        run.logger.info("of %s", run.path.name)
        run.close()
    assert [run.log.read_text().split(maxsplit=2)[2:] for run in runs] == [["of a\n"], ["of b\n"]]


@contextmanager
def files_can_grow_to(size: int) -> Iterator[None]:
    """Have the kernel refuse to let files grow beyond `size` bytes, as a full disk would."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, limits[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)


def test_a_full_disk_harms_neither_log_nor_caller(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = RunDirectory.create(tmp_path, CONFIG, resume=False)
    run.logger.info("before")
    with files_can_grow_to(10):
        run.logger.warning("during")
        run.logger.info("during")
    assert capsys.readouterr().err == "warning: during\n"
    run.logger.info("after")
    run.close()
    assert run.log.read_text().splitlines()[-1].endswith("after")


def git(folder: Path, *arguments: str) -> str:
    command = ["git", "-C", str(folder), "-c", "user.name=a", "-c", "user.email=a@b", *arguments]
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GIT_")}
    return subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout.strip()


def test_the_git_revision_and_whether_the_tree_is_dirty(tmp_path: Path) -> None:
    code = tmp_path / "code.py"
    code.write_text("1\n")
    assert git_revision(code) == "no git"
    git(tmp_path, "init", "-q")
    assert git_revision(code) == "no git"  # nothing committed yet
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    revision = git(tmp_path, "log", "-1", "--format=%H")
    assert git_revision(code) == {"revision": revision, "dirty": False}
    code.write_text("2\n")
    assert git_revision(code) == {"revision": revision, "dirty": True}


def test_the_repository_around_a_virtual_environment_is_not_ours(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    (tmp_path / ".gitignore").write_text("venv/\n")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    code = tmp_path / "venv" / "code.py"
    code.parent.mkdir()
    code.touch()
    assert git_revision(code) == "no git"
    shutil.copy(code, tmp_path / "code.py")
    assert git_revision(tmp_path / "code.py") != "no git"


def test_no_git_on_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert git_revision(Path(__file__)) == "no git"
