"""The folder of one training run: what was run, where, by which code, and everything that came out of it."""

from __future__ import annotations

import json
import logging
import os
import platform
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ver_core.checkpoint import write_atomically


class RunError(RuntimeError):
    """A run folder that cannot be used as asked; the message is one line that says how to mend it."""


class RunDirectory:
    """Paths of a run, and its log. Made by `create`, in one process only (rank 0)."""

    def __init__(self, path: Path) -> None:
        """Open the log of the existing folder `path`. Raises OSError."""
        self.path = path
        self.show: Callable[[str], None] = _to_stderr
        """Where warnings are shown besides the log; a progress bar puts its own `print` here while it is drawn."""
        self.logger = logging.Logger("ver_core")  # of this run alone: not in logging's tree of loggers
        self._file = _LogFile(self.log, encoding="utf-8")
        self._file.setFormatter(_utc_formatter())
        self.logger.addHandler(self._file)
        self.logger.addHandler(_Shown(self))

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint.pt"

    @property
    def scalars(self) -> Path:
        return self.path / "scalars.jsonl"

    @property
    def log(self) -> Path:
        return self.path / "log.txt"

    @property
    def tensorboard(self) -> Path:
        return self.path / "tensorboard"

    @property
    def config(self) -> Path:
        return self.path / "config.yaml"

    @property
    def record(self) -> Path:
        """`{"sessions": [...]}`: one entry each time the run was started or resumed, oldest first."""
        return self.path / "run.json"

    @classmethod
    def create(cls, path: Path, config_yaml: str, resume: bool) -> RunDirectory:
        """Make the folder (or take up the one to resume) and write down config, code, command line and machine.

        Raises `RunError` if a new run would mix with an old one's results, if there is nothing to resume, or if the
        folder cannot be written to.
        """
        has_checkpoint = (path / "checkpoint.pt").exists()
        if resume and not has_checkpoint:
            raise RunError(f"{path}: holds no checkpoint to resume from; leave out --resume to start a new run")
        if not resume and has_checkpoint:
            raise RunError(f"{path}: holds a run already; use --resume to continue it, or another --out")
        # A run that died before its first row leaves an empty file behind; nothing is lost by starting over in it.
        if not resume and _size(path / "scalars.jsonl") > 0:
            raise RunError(f"{path}: holds what a run without a checkpoint has left; remove it, or use another --out")
        try:
            path.mkdir(parents=True, exist_ok=True)
            run = cls(path)
            sessions = _sessions(run.record) if resume else []
            if resume and run.config.exists() and run.config.read_text() != config_yaml:
                # What the steps so far were trained with must stay on record.
                shutil.copyfile(run.config, path / f"config.{len(sessions)}.yaml")
            write_atomically(run.config, config_yaml.encode())
            record = {"sessions": [*sessions, session_record()]}
            write_atomically(run.record, (json.dumps(record, indent=2) + "\n").encode())
        except OSError as error:
            raise RunError(
                f"{path}: cannot be the run's folder: {error.strerror or error}; use another --out"
            ) from error
        return run

    def close(self) -> None:
        """Close the log."""
        self._file.close()


def session_record() -> dict[str, Any]:
    """Describe this process: what runs, from which code, on which machine, since when."""
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": [*sys.orig_argv],
        "folder": os.getcwd(),
        "git": git_revision(Path(__file__)),
        "hostname": socket.gethostname(),
        "cpu": _cpu_name(),
        "cores": os.cpu_count(),
        "gpus": _gpu_names(),
        "python": platform.python_version(),
        "torch": torch.__version__,
        "numpy": np.__version__,
    }


def git_revision(file: Path) -> dict[str, Any] | str:
    """Return {"revision": its commit, "dirty": whether anything differs from it} of the repository that `file` is in.

    "no git" where there is none, or where the repository around it ignores the file (site-packages in a project's
    virtual environment: that repository's revision says nothing about our code).
    """

    def git(*arguments: str) -> str | None:
        return _output(["git", "-C", str(file.parent), *arguments])

    revision, status = git("rev-parse", "HEAD"), git("status", "--porcelain")
    if revision is None or status is None or git("check-ignore", "-q", str(file)) is not None:
        return "no git"
    return {"revision": revision.strip(), "dirty": bool(status.strip())}


def _output(command: list[str]) -> str | None:
    """Return a command's stdout; None if it is missing, fails or hangs."""
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=20).stdout
    except (OSError, subprocess.SubprocessError):
        return None


def _gpu_names() -> list[str]:
    # Not asked of torch: that would start CUDA in this process before the env workers are forked from it.
    return (_output(["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]) or "").splitlines()


def _cpu_name() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:  # not Linux
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _sessions(record: Path) -> list[Any]:
    """Return the sessions so far; none if the record is lost or spoilt, which is no reason not to resume."""
    try:
        return list(json.loads(record.read_text())["sessions"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return []


def _to_stderr(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _utc_formatter() -> logging.Formatter:
    formatter = logging.Formatter("%(asctime)sZ %(levelname)s %(message)s", datefmt="%Y-%m-%dT%H:%M:%S")
    formatter.converter = time.gmtime
    return formatter


class _LogFile(logging.FileHandler):
    def handleError(self, record: logging.LogRecord) -> None:
        """Let a line go that a full disk refuses: logging would print a traceback for each."""

    def close(self) -> None:
        with suppress(OSError):  # the same, of what was still buffered
            super().close()


class _Shown(logging.Handler):
    def __init__(self, run: RunDirectory) -> None:
        super().__init__(logging.WARNING)
        self.run = run

    def emit(self, record: logging.LogRecord) -> None:
        with suppress(OSError):  # nobody reads stderr any more; it is in the log
            self.run.show(f"{record.levelname.lower()}: {record.getMessage()}")
