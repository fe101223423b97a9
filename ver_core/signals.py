"""Stop signals, recorded to be acted on between two steps: checkpoint, exit, and be queued again by SLURM."""

from __future__ import annotations

import inspect
import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

STOP = (signal.SIGINT, signal.SIGTERM)
"""The user, the system or SLURM ends the job."""
TIME_OUT = (signal.SIGUSR1, signal.SIGUSR2)
"""The job's time is nearly up, queue it again: `sbatch --signal=USR1@120`, submitit (USR2, in old versions USR1)."""


class StopSignals:
    """While entered, stop signals only set `received`; the training loop looks at it and stops in its own time.

    Off the main thread, where python takes no signals, it does nothing.
    """

    def __init__(self) -> None:
        self.received: signal.Signals | None = None
        """The signal to stop for; None: go on."""
        self._interrupted = False
        self._former: dict[signal.Signals, Callable[[int, FrameType | None], Any] | int | None] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in (*STOP, *TIME_OUT):
                self._former[number] = signal.signal(number, self._record)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._former.items():
            if handler is not None:  # None: installed by C code, python cannot put it back
                signal.signal(number, handler)

    def pass_on(self, logger: logging.Logger | None = None) -> None:
        """Have the job queued again if `received` asks for that; to be called last, everything saved, by rank 0 only.

        A signal handler that was there before us (submitit's) is called and may raise SystemExit; without one,
        SIGUSR1 in a SLURM job runs `scontrol requeue`, whose failure is a warning. After SIGINT or SIGTERM nothing is
        passed on: those mean the end.
        """
        if self.received not in TIME_OUT:
            return
        former = self._former.get(self.received)
        job = os.environ.get("SLURM_JOB_ID")
        if callable(former):
            former(self.received, inspect.currentframe())
        elif job and self.received == signal.SIGUSR1:
            _requeue(job, logger or logging.getLogger(__name__))

    def _record(self, number: int, frame: FrameType | None) -> None:
        if number == signal.SIGINT:
            if self._interrupted:
                raise KeyboardInterrupt  # the user insists
            self._interrupted = True
        # SLURM's SIGTERM of a preempted job may come before the signal that has it queued again; the latter counts.
        if self.received is None or number in TIME_OUT:
            self.received = signal.Signals(number)


def _requeue(job: str, logger: logging.Logger) -> None:
    try:
        subprocess.run(["scontrol", "requeue", job], capture_output=True, text=True, check=True, timeout=60)
    except subprocess.CalledProcessError as error:
        logger.warning("scontrol requeue %s failed (%s); queue the job again by hand", job, error.stderr.strip())
    except (OSError, subprocess.TimeoutExpired) as error:
        logger.warning("scontrol requeue %s failed (%s); queue the job again by hand", job, error)


def die_with_parent() -> None:
    """Make a worker end when its parent does, however that ended (a worker waiting for work would not notice)."""
    parent = multiprocessing.parent_process()
    assert parent is not None

    def watch() -> None:
        multiprocessing.connection.wait([parent.sentinel])
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
