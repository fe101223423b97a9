"""The entry point: runs the commands so that Ctrl-C and SIGTERM end in one line, even while they are imported."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


def main() -> None:
    """Run the command line and exit."""
    try:
        with _sigterm_is_ctrl_c():
            from tpsrl.commands import run

            code = run()
    except KeyboardInterrupt:
        print("tpsrl: interrupted", file=sys.stderr)
        code = 1
    sys.exit(code)


@contextmanager
def _sigterm_is_ctrl_c() -> Iterator[None]:
    """Let `kill` and `timeout` end a command as Ctrl-C does."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
