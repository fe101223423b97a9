"""A benchmark's trainings: each in a folder of its own, taken up there where it was left; and means over them."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

Row = dict[str, float]
TPSRL = (sys.executable, "-m", "tpsrl")
REPETITIONS = 2000


def rows(folder: Path) -> list[Row]:
    """Return what a run has written down of itself so far."""
    file = folder / "scalars.jsonl"
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()] if file.is_file() else []


def train(
    command: Sequence[str],
    overrides: Sequence[str],
    folder: Path,
    steps_in_all: int,
    stop: Callable[[list[Row]], bool] = lambda known: False,
    meanwhile: Callable[[], None] = lambda: None,
    launcher: Sequence[str] = TPSRL,
) -> None:
    """Train in `folder` until the run has made its steps, or `stop` says of what it wrote down that it is enough.

    overrides: of a run that begins; one that is resumed has its own. Raises `SystemExit` if it fails or is interrupted.
    """

    def over(known: list[Row]) -> bool:
        return stop(known) or (bool(known) and known[-1]["steps"] >= steps_in_all)

    if over(rows(folder)):
        return
    begun = (folder / "checkpoint.pt").is_file()
    full = [*launcher, *command, "--out", str(folder), *(["--resume"] if begun else overrides)]
    stopped = False
    with subprocess.Popen(full) as training:
        while training.poll() is None:
            time.sleep(1.0)
            meanwhile()
            if stop(rows(folder)):
                stopped = True
                training.terminate()  # it saves, and can be resumed
                training.wait()
    if training.returncode != 0 and not stopped:  # torchrun that is told to stop ends with an error
        raise SystemExit(f"{' '.join(full)}: failed")
    if not over(rows(folder)):
        raise SystemExit("interrupted; give the same command again to go on")


def first_over(known: list[Row], bar: float) -> Row | None:
    """Return the first row in which the success of the last training episodes is at the bar."""
    return next((row for row in known if row.get("episode/success", 0.0) >= bar), None)


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """Return rliable's 95 % interval of the mean over runs; None where rliable is not installed."""
    try:
        from rliable import library
    except ImportError:
        return None
    scores = {"": np.array(values)[:, None]}
    _, intervals = library.get_interval_estimates(scores, lambda x: np.array([x.mean()]), reps=REPETITIONS)
    low, high = intervals[""][:, 0]
    return float(low), float(high)
