"""What training shows while it runs: a bar on a terminal, a line now and then in a log file. On stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from datetime import timedelta
from time import monotonic
from types import TracebackType

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

LINE_EVERY_S = 30.0
"""Where stderr is no terminal: shortest time between two lines."""


class TrainingProgress:
    """Steps done, speed, success, time left, and where the time goes; a context manager."""

    def __init__(self, total_steps: int, description: str = "training", enabled: bool = True) -> None:
        """enabled: whether to show anything but `print`'s messages (rank 0 does)."""
        self.total_steps = total_steps
        self.description = description
        console = Console(stderr=True)
        self._bar = _Bar(description, total_steps, console) if enabled and console.is_terminal else None
        self._lines = enabled and not console.is_terminal
        self._line = ""
        """The latest state, not printed yet."""
        self._line_time_s = -LINE_EVERY_S

    def __enter__(self) -> TrainingProgress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
        if self._line:
            self.print(self._line)

    def update(
        self,
        steps: int,
        sps: float,
        success: float | None = None,
        episode_return: float | None = None,
        shares: Mapping[str, float] | None = None,
    ) -> None:
        """Show a new state.

        steps: done so far, of all sessions. sps: steps/s now. success: share of episodes, 0...1; None: the environment
        has no such thing, and `episode_return` (mean) is shown instead, once there is one. shares: what the time goes
        to -> its share of it, 0...1.
        """
        facts = [f"{sps:,.0f} SPS"]
        if success is not None:
            facts.append(f"success {success:.2f}")
        elif episode_return is not None:
            facts.append(f"return {episode_return:.4g}")
        facts.append(f"ETA {_time_left(self.total_steps - steps, sps)}")
        where = " ".join(f"{name} {100 * share:.0f} %" for name, share in (shares or {}).items())
        if self._bar is not None:
            self._bar.show(steps, "  ".join(facts), where)
        elif self._lines:
            counts = f"{self.description} {steps:,}/{self.total_steps:,}"
            self._line = "  ".join(part for part in (counts, *facts, where) if part)
            if monotonic() - self._line_time_s >= LINE_EVERY_S:
                self._line_time_s = monotonic()
                self.print(self._line)
                self._line = ""

    def print(self, message: str) -> None:
        """Print a line to stderr, above the bar."""
        if self._bar is not None:
            self._bar.console.print(message, markup=False, highlight=False, soft_wrap=True)
        else:
            print(message, file=sys.stderr, flush=True)


class _Bar(Progress):
    def __init__(self, description: str, total_steps: int, console: Console) -> None:
        self._where = ""
        super().__init__(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed:,}/{task.total:,}"),
            TextColumn("{task.fields[facts]}"),
            console=console,
            refresh_per_second=4,
        )
        self._task = self.add_task(description, total=total_steps, facts="")

    def show(self, steps: int, facts: str, where: str) -> None:
        self._where = where
        self.update(self._task, completed=steps, facts=facts)

    def get_renderables(self) -> Iterable[RenderableType]:
        """Draw the bar, and a line of its own for the time shares: both would not fit into 80 columns."""
        yield from super().get_renderables()
        if self._where:
            yield Text(f"  {self._where}", style="dim", no_wrap=True, overflow="ellipsis")


def _time_left(steps: int, sps: float) -> str:
    if not sps > 0.01:
        return "?"
    return str(timedelta(seconds=max(0, round(steps / sps))))
