"""Scalars as other programs read them back (json, tensorboard, W&B's own file), resumes, full disks; the bar."""

from __future__ import annotations

import json
import math
import re
import resource
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator  # type: ignore[import-untyped]

from ver_core import progress
from ver_core.progress import TrainingProgress
from ver_core.run_directory import RunDirectory, RunError
from ver_core.telemetry import Telemetry


def open_run(path: Path, resume: bool = False) -> RunDirectory:
    if resume:
        (path / "checkpoint.pt").touch()
    return RunDirectory.create(path, "", resume)


def refuse_constant(name: str) -> float:
    raise AssertionError(f"{name} is not JSON")


def rows(path: Path) -> list[dict[str, Any]]:
    text = (path / "scalars.jsonl").read_text()
    assert text == "" or text.endswith("\n")
    return [json.loads(line, parse_constant=refuse_constant) for line in text.splitlines()]


def events(path: Path, key: str) -> list[tuple[int, float]]:
    """Return the (step, value) pairs that TensorBoard would draw."""
    accumulator = EventAccumulator(str(path / "tensorboard"))
    accumulator.Reload()
    return [(event.step, event.value) for event in accumulator.Scalars(key)]


def leveldb_records(log: bytes) -> Iterator[bytes]:
    """Yield the records of a LevelDB log (W&B's file format), from github.com/google/leveldb (its doc/log_format).

    W&B's magic number of 7 bytes counts as part of the first block of 32 KiB.
    """
    at, record = 0, b""
    while at + 7 <= len(log):
        if (left := 32768 - (at + 7) % 32768) < 7:
            at += left  # too short for a header: padding
            continue
        size, kind = int.from_bytes(log[at + 4 : at + 6], "little"), log[at + 6]
        record += log[at + 7 : at + 7 + size]
        at += 7 + size
        if kind in (1, 4):  # full, last; not first or middle
            yield record
            record = b""


def wandb_history(path: Path) -> list[dict[str, Any]]:
    """Read the rows of an offline run, of all its sessions, oldest first."""
    return [
        {item.key or item.nested_key[0]: json.loads(item.value_json) for item in record.history.item}
        for file in sorted(path.glob("wandb/offline-run-*/*.wandb"))
        for record in wandb_records(file)
        if record.HasField("history")
    ]


def wandb_records(file: Path) -> list[Any]:
    """Read one session; W&B's own process may take a moment longer than ours to write its end."""
    from wandb.proto import wandb_internal_pb2

    deadline = time.monotonic() + 60
    while True:
        parse = wandb_internal_pb2.Record.FromString  # type: ignore[attr-defined]
        records = [parse(data) for data in leveldb_records(file.read_bytes()[7:])]  # 7: the magic number
        if records and records[-1].HasField("exit"):
            return records
        assert time.monotonic() < deadline, f"{file} has no end"
        time.sleep(0.02)


def test_every_row_is_in_all_three_places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WANDB_SILENT", "true")
    run = open_run(tmp_path)
    telemetry = Telemetry(run, wandb_mode="offline", config={"seed": 3})
    telemetry.log(128, {"train/success": 0.25, "train/reward": -1.5})
    assert [row["steps"] for row in rows(tmp_path)] == [128]  # at once, not when closed
    telemetry.log(256, {"train/success": 0.5, "train/reward": math.nan})
    telemetry.close()

    first, second = rows(tmp_path)
    assert list(first) == ["steps", "seconds", "train/success", "train/reward"]
    assert 0 <= first["seconds"] <= second["seconds"]
    assert (first["train/success"], first["train/reward"]) == (0.25, -1.5)
    assert (second["train/success"], second["train/reward"]) == (0.5, None)
    assert events(tmp_path, "train/success") == [(128, 0.25), (256, 0.5)]
    history = wandb_history(tmp_path)
    assert [(row["steps"], row["train/success"]) for row in history] == [(128, 0.25), (256, 0.5)]
    assert run.log.read_text() == ""

    # A resume from step 128 goes on under the same W&B id, though its steps go back.
    run = open_run(tmp_path, resume=True)
    telemetry = Telemetry(run, wandb_mode="offline", resume_steps=128)
    telemetry.log(200, {"train/success": 0.75})
    telemetry.close()
    assert [(row["steps"], row["train/success"]) for row in rows(tmp_path)] == [(128, 0.25), (200, 0.75)]
    assert rows(tmp_path)[1]["seconds"] >= first["seconds"]
    assert events(tmp_path, "train/success") == [(128, 0.25), (200, 0.75)]
    assert [row["steps"] for row in wandb_history(tmp_path)] == [128, 256, 200]
    assert len({file.name for file in tmp_path.glob("wandb/offline-run-*/*.wandb")}) == 1


@settings(max_examples=50, deadline=None)
@given(
    st.dictionaries(st.text(min_size=1).filter(lambda key: key not in ("steps", "seconds")), st.floats(), max_size=4)
)
def test_any_numbers_and_names_make_valid_json(
    tmp_path_factory: pytest.TempPathFactory, values: dict[str, float]
) -> None:
    path = tmp_path_factory.mktemp("json")
    telemetry = Telemetry(open_run(path))
    telemetry.log(7, values)
    telemetry.close()
    (row,) = rows(path)
    expected = {key: value if math.isfinite(value) else None for key, value in values.items()}
    assert {key: row[key] for key in values} == expected and row["steps"] == 7


def write_rows(path: Path, tail: str = "") -> None:
    text = "".join(f'{{"steps": {n}, "seconds": {n / 10}, "x": 1.0}}\n' for n in (10, 20, 30, 40))
    (path / "scalars.jsonl").write_text(text + tail)


@pytest.mark.parametrize(
    ("resume_steps", "kept"),
    [(0, []), (9, []), (10, [10]), (25, [10, 20]), (40, [10, 20, 30, 40]), (99, [10, 20, 30, 40])],
)
@pytest.mark.parametrize("tail", ["", '{"steps": 5, "sec', '{"steps": 6, "seconds": 1}', "\0\0\0\n", "3\n", "\xff\n"])
def test_a_resume_drops_later_and_torn_rows(tmp_path: Path, resume_steps: int, kept: list[int], tail: str) -> None:
    write_rows(tmp_path, tail)
    telemetry = Telemetry(open_run(tmp_path, resume=True), resume_steps=resume_steps)
    assert [row["steps"] for row in rows(tmp_path)] == kept
    telemetry.log(50, {"x": 2.0})
    telemetry.close()
    *old, new = rows(tmp_path)
    assert [row["steps"] for row in old] == kept and new["steps"] == 50
    assert new["seconds"] >= (kept[-1] / 10 if kept else 0)


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


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # TensorBoard's writing thread
def test_a_disk_full_for_a_while_costs_rows_but_not_training(tmp_path: Path) -> None:
    run = open_run(tmp_path)
    shown: list[str] = []
    run.show = shown.append
    telemetry = Telemetry(run)
    telemetry.log(1, {"x": 0.5})
    size = run.scalars.stat().st_size
    with files_can_grow_to(size + 10):  # part of the next row fits
        telemetry.log(2, {"x": 0.5})
        assert run.scalars.stat().st_size == size + 10
        lost, deadline = 1, time.monotonic() + 60
        while len(shown) < 2 and time.monotonic() < deadline:  # TensorBoard's thread notices a little later
            lost += 1
            telemetry.log(1 + lost, {"x": 0.5})
            time.sleep(0.01)
    telemetry.log(1000, {"x": 0.25})
    telemetry.log(1001, {"x": 0.25})
    telemetry.close()
    assert [row["steps"] for row in rows(tmp_path)] == [1, 1000, 1001]
    assert events(tmp_path, "x")[-2:] == [(1000, 0.25), (1001, 0.25)]
    of_rows, of_tensorboard, *at_the_end = shown
    assert of_rows.startswith("warning: scalars.jsonl: OSError: ") and "File too large" in of_rows
    assert of_tensorboard.startswith("warning: TensorBoard: ")
    assert at_the_end[0] == f"warning: scalars.jsonl: {lost} rows were lost"
    assert len(at_the_end) == 2 and re.fullmatch(r"warning: TensorBoard: \d+ rows were lost", at_the_end[1])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_row_torn_at_the_end_is_gone_when_closed(tmp_path: Path) -> None:
    run = open_run(tmp_path)
    telemetry = Telemetry(run)
    telemetry.log(1, {"x": 0.5})
    size = run.scalars.stat().st_size
    with files_can_grow_to(size + 5):
        telemetry.log(2, {"x": 0.5})
    assert run.scalars.stat().st_size == size + 5
    telemetry.close()
    assert [row["steps"] for row in rows(tmp_path)] == [1]


def test_a_disk_that_stays_full(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "scalars.jsonl").symlink_to("/dev/full")
    run = open_run(tmp_path / "run")
    shown: list[str] = []
    run.show = shown.append
    telemetry = Telemetry(run)
    for step in range(5):
        telemetry.log(step, {"x": 1.0})
    telemetry.close()
    of_rows = [line for line in shown if "scalars.jsonl" in line]
    assert of_rows[0].startswith("warning: scalars.jsonl: OSError: ") and "No space left" in of_rows[0]
    assert of_rows[1:] == ["warning: scalars.jsonl: 5 rows were lost"]
    assert events(run.path, "x") == [(step, 1.0) for step in range(5)]


def test_scalars_that_cannot_be_opened_are_told_before_training_starts(tmp_path: Path) -> None:
    run = open_run(tmp_path)
    run.scalars.mkdir()
    with pytest.raises(RunError, match=r"scalars\.jsonl: cannot be written to: Is a directory$"):
        Telemetry(run)


class FakeRun:
    def __init__(self, broken_from: int) -> None:
        self.broken_from = broken_from
        self.logged: list[int] = []

    def define_metric(self, name: str, step_metric: str) -> None:
        pass

    def log(self, row: dict[str, float]) -> None:
        self.logged.append(int(row["steps"]))
        if row["steps"] >= self.broken_from:
            raise ConnectionError("no network")

    def finish(self) -> None:
        raise AssertionError("finishing a broken run may block")


@pytest.mark.parametrize("when", ["import", "init", "log"])
def test_wandb_is_given_up_at_its_first_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, when: str) -> None:
    fake_run = FakeRun(broken_from=2)

    def init(**_: Any) -> FakeRun:
        if when == "init":
            raise ConnectionError("no network")
        return fake_run

    fake = ModuleType("wandb")
    fake.init, fake.Settings = init, dict  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", None if when == "import" else fake)
    run = open_run(tmp_path)
    shown: list[str] = []
    run.show = shown.append
    telemetry = Telemetry(run, wandb_mode="online")
    for step in range(5):
        telemetry.log(step, {"x": 1.0})
    telemetry.close()
    assert [row["steps"] for row in rows(tmp_path)] == [0, 1, 2, 3, 4]
    assert fake_run.logged == ([0, 1, 2] if when == "log" else [])
    lost = 3 if when == "log" else 5
    assert len(shown) == 2 and shown[0].startswith("warning: W&B: ")
    assert shown[1] == f"warning: W&B: {lost} rows were lost"


def test_wandb_is_not_even_imported_unless_wanted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    run = open_run(tmp_path)
    telemetry = Telemetry(run)
    telemetry.log(1, {"x": 1.0})
    telemetry.close()
    assert run.log.read_text() == ""


SHARES = {"env": 0.61, "inference": 0.2, "learn": 0.17, "wait": 0.02}


def test_without_a_terminal_there_is_a_line_every_30_s(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE"):
        monkeypatch.delenv(name, raising=False)
    now = 1000.0
    monkeypatch.setattr(progress, "monotonic", lambda: now)
    with TrainingProgress(1_000_000, "pick") as bar:
        bar.update(1_000, 500.0, success=0.25, shares=SHARES)
        now += 29.9
        bar.update(2_000, 500.0)
        first = capsys.readouterr()
        bar.print("hello")
        now += 0.1
        bar.update(10_000, 1234.4, episode_return=-12.345)
        now += 1.0
        bar.update(11_000, 0.0)
    assert first == (
        "",
        "pick 1,000/1,000,000  500 SPS  success 0.25  ETA 0:33:18  env 61 % inference 20 % learn 17 % wait 2 %\n",
    )
    assert capsys.readouterr().err.splitlines() == [
        "hello",
        "pick 10,000/1,000,000  1,234 SPS  return -12.35  ETA 0:13:22",
        "pick 11,000/1,000,000  0 SPS  ETA ?",  # the last state is always told
    ]


def test_on_a_terminal_there_is_a_bar_that_messages_do_not_tear(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("TERM", "xterm")
    with TrainingProgress(1_000_000, "pick") as bar:
        bar.update(250_000, 500.0, success=0.25, shares=SHARES)
        bar.print("[a message] of /some/path")
        bar.update(500_000, 1000.0, success=0.5, shares=SHARES)
    out, err = capsys.readouterr()
    assert out == ""
    lines = [re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", line).strip() for line in re.split(r"[\r\n]+", err)]
    assert "[a message] of /some/path" in lines
    bars = [line for line in lines if line.startswith("pick")]
    assert bars and bars[-1].endswith("500,000/1,000,000 1,000 SPS  success 0.50  ETA 0:08:20")
    assert "env 61 % inference 20 % learn 17 % wait 2 %" in lines


@pytest.mark.parametrize("terminal", ["", "1"])
def test_other_ranks_show_only_messages(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, terminal: str
) -> None:
    monkeypatch.setenv("FORCE_COLOR", terminal)
    with TrainingProgress(10, enabled=False) as bar:
        bar.update(5, 1.0)
        bar.print("hello")
    assert capsys.readouterr() == ("", "hello\n")
