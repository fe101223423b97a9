"""The scalars of a run, to a JSONL file always, to TensorBoard and Weights & Biases besides. Never a reason to stop."""

from __future__ import annotations

import json
import logging
import math
import secrets
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from ver_core.checkpoint import write_atomically
from ver_core.run_directory import RunDirectory, RunError

if TYPE_CHECKING:
    import wandb
    from torch.utils.tensorboard import SummaryWriter

WANDB_FINISH_S = 10.0
"""Longest that closing waits for uploads: after SIGTERM there are only seconds. `wandb sync` uploads the rest."""


class Telemetry:
    """Writes rows of scalars; what a full disk or a network swallows is counted and reported, training goes on.

    W&B, whose calls may block, is given up at its first failure: its rows are in the JSONL too.
    """

    def __init__(
        self,
        run: RunDirectory,
        wandb_mode: str = "disabled",
        config: Mapping[str, Any] | None = None,
        resume_steps: int | None = None,
    ) -> None:
        """Open the files of `run`.

        wandb_mode: disabled, offline or online. config: shown at W&B.
        resume_steps: the step count of the checkpoint that training resumes from; rows beyond it are forgotten.
        Raises `RunError` if the JSONL cannot be opened.
        """
        self.run = run
        try:
            seconds = 0.0 if resume_steps is None else _rewind(run, resume_steps)
            self._rows = _RowFile(run)
        except OSError as error:
            raise RunError(f"{run.scalars}: cannot be written to: {error.strerror or error}") from error
        self._start = time.monotonic() - seconds
        self._rows_guard = _Guard("scalars.jsonl", run.logger)
        self._tensorboard_guard = _Guard("TensorBoard", run.logger)
        self._tensorboard: SummaryWriter | None = None
        self._tensorboard_guard.call(lambda: self._open_tensorboard(resume_steps), rows=0)
        self._wandb_guard = _Guard("W&B", run.logger)
        self._wandb: wandb.Run | None = None
        if wandb_mode != "disabled":
            new = resume_steps is None
            self._wandb_guard.call(lambda: self._open_wandb(wandb_mode, config, new), rows=0)

    def log(self, steps: int, scalars: Mapping[str, float]) -> None:
        """Write one row: {"steps": steps, "seconds": training's wall-clock time so far, all sessions, **scalars}.

        Numbers that are not finite become null in the JSONL.
        """
        values = {key: float(value) for key, value in scalars.items()}
        row = {"steps": int(steps), "seconds": round(time.monotonic() - self._start, 3), **values}
        written = self._rows_guard.call(lambda: self._rows.write(_json_line(row)))
        # After a failure its writing thread is dead; but each new one makes a file, so not while the disk refuses rows.
        if self._tensorboard is None and written:
            self._tensorboard_guard.call(self._open_tensorboard, rows=0)
        if self._tensorboard is None:
            self._tensorboard_guard.lost += 1
        elif not self._tensorboard_guard.call(lambda: self._log_tensorboard(steps, values)):
            self._tensorboard = None
        if self._wandb is None:
            self._wandb_guard.lost += self._wandb_guard.failed
        elif not self._wandb_guard.call(lambda: self._log_wandb(row)):
            self._wandb = None

    def close(self) -> None:
        """Flush and close everything, and report what was lost."""
        self._rows_guard.call(self._rows.close, rows=0)
        if self._tensorboard is not None:
            self._tensorboard_guard.call(self._tensorboard.close, rows=0)
        if self._wandb is not None:
            self._wandb_guard.call(self._wandb.finish, rows=0)
        for guard in (self._rows_guard, self._tensorboard_guard, self._wandb_guard):
            guard.report()

    def _open_tensorboard(self, resume_steps: int | None = None) -> None:
        from torch.utils.tensorboard import SummaryWriter

        purge = None if resume_steps is None else resume_steps + 1  # hides events from this step on
        self._tensorboard = SummaryWriter(str(self.run.tensorboard), purge_step=purge, flush_secs=10)

    def _log_tensorboard(self, steps: int, values: Mapping[str, float]) -> None:
        assert self._tensorboard is not None
        for key, value in values.items():
            self._tensorboard.add_scalar(key, value, steps)

    def _open_wandb(self, mode: str, config: Mapping[str, Any] | None, new: bool) -> None:
        import wandb

        run = wandb.init(
            project="tpsrl",
            name=self.run.path.resolve().name,
            config=dict(config or {}),
            dir=str(self.run.path),
            mode=mode,  # type: ignore[arg-type]
            id=self._wandb_id(new),
            resume="allow" if mode == "online" else None,
            # console: W&B would otherwise take over stderr, where the progress bar is drawn.
            settings=wandb.Settings(console="off", finish_timeout=WANDB_FINISH_S),
        )
        # Their own step counter refuses to go back, as it must after a resume from an older checkpoint.
        run.define_metric("*", step_metric="steps")
        self._wandb = run

    def _log_wandb(self, row: dict[str, Any]) -> None:
        assert self._wandb is not None
        self._wandb.log(row)

    def _wandb_id(self, new: bool) -> str:
        """Return the id under which W&B knows this run; kept in a file, so that a resume continues it."""
        file = self.run.path / "wandb_id.txt"
        if new or not file.exists():
            write_atomically(file, secrets.token_hex(4).encode())
        return file.read_text().strip()


class _Guard:
    """Keeps the failures of one sink from training: the first is a warning, all are counted."""

    def __init__(self, name: str, logger: logging.Logger) -> None:
        self.name = name
        self.lost = 0
        """Rows."""
        self.failed = False
        self._logger = logger

    def call(self, action: Callable[[], object], rows: int = 1) -> bool:
        """Return whether `action` went well; else `rows` are lost."""
        try:
            action()
        except Exception as error:  # whatever W&B and TensorBoard may raise
            self.lost += rows
            if not self.failed:
                self._logger.warning("%s: %s: %s; training goes on without", self.name, type(error).__name__, error)
            self.failed = True
            return False
        return True

    def report(self) -> None:
        if self.failed and self.lost:
            self._logger.warning("%s: %d rows were lost", self.name, self.lost)


class _RowFile:
    """The JSONL. Unbuffered: a row is in the file, whole, or it is not."""

    def __init__(self, run: RunDirectory) -> None:
        self._file = open(run.scalars, "ab", buffering=0)  # noqa: SIM115
        self._end = self._file.tell()
        """Of the last whole row."""
        self._torn = False

    def write(self, line: bytes) -> None:
        """Append a row. Raises OSError; what the disk took of the row is cut off again before the next one."""
        if self._torn:
            self._file.truncate(self._end)
        self._torn = True
        start = 0
        while start < len(line):
            start += self._file.write(line[start:])
        self._torn = False
        self._end += len(line)

    def close(self) -> None:
        if self._torn:
            self._file.truncate(self._end)
        self._file.close()


def _rewind(run: RunDirectory, steps: int) -> float:
    """Drop torn rows and those beyond `steps`, atomically. Return the seconds of the last one kept. Raises OSError."""
    old = run.scalars.read_bytes() if run.scalars.exists() else b""
    kept, seconds = [], 0.0
    for line in old.splitlines(keepends=True):
        try:
            row = json.loads(line)
            if line.endswith(b"\n") and row["steps"] <= steps:
                seconds = float(row["seconds"])
                kept.append(line)
        except (ValueError, KeyError, TypeError):  # torn by a kill or a power cut
            continue
    new = b"".join(kept)
    if new != old:
        write_atomically(run.scalars, new)
    return seconds


def _json_line(row: Mapping[str, float]) -> bytes:
    finite = {key: value if math.isfinite(value) else None for key, value in row.items()}
    return json.dumps(finite, allow_nan=False).encode() + b"\n"
