"""The entry point: runs the commands so that Ctrl-C and SIGTERM end in one line, even while they are imported."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


def main() -> None:
    """Run the command line and exit."""
    try:
        with _signals_interrupt():
            import tpsrl.navigation  # noqa: F401 - adds its commands
            from tpsrl.commands import run

            code = run()
    except KeyboardInterrupt:
        print("tpsrl: interrupted", file=sys.stderr)
        code = 1
    sys.exit(code)


@contextmanager
def _signals_interrupt() -> Iterator[None]:
    """Let `kill` and `timeout` end a command as Ctrl-C does, and let no Ctrl-C get lost."""
    if threading.current_thread() is not threading.main_thread():  # only the main thread may set handlers
        yield
        return

    def interrupt(number: int, frame: FrameType | None) -> None:
        if frame is not None and _forgets_a_lock(frame):
            threading.Timer(0.01, os.kill, (os.getpid(), number)).start()
            return
        raise KeyboardInterrupt

    # Whoever started us may have had Ctrl-C ignored (nohup, a shell's background).
    numbers = [signal.SIGINT] if signal.getsignal(signal.SIGINT) is signal.default_int_handler else []
    before = {number: signal.signal(number, interrupt) for number in (*numbers, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _forgets_a_lock(frame: FrameType) -> bool:
    """Whether this is a callback of importing, whose exceptions Python prints and ignores."""
    return (frame.f_code.co_filename, frame.f_code.co_name) == ("<frozen importlib._bootstrap>", "cb")
