"""Progress bars on stderr, so that stdout stays the result."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn


class Outcome(Protocol):
    """What is known of an episode that ended."""

    @property
    def success(self) -> bool: ...


@contextmanager
def episode_progress(name: str, episodes: int) -> Iterator[Callable[[Outcome], None]]:
    """Show episodes done and the success rate so far; yields the function to call with each result."""
    done = successes = 0
    with _bar("{task.fields[success]}") as bar:
        task = bar.add_task(name, total=episodes, success="")

        def on_result(result: Outcome) -> None:
            nonlocal done, successes
            done, successes = done + 1, successes + result.success
            bar.update(task, advance=1, success=f"success {successes / done:.2f}")

        yield on_result


@contextmanager
def frame_progress(name: str) -> Iterator[Callable[[int, int], None]]:
    """Show a video's progress; yields the function to call with frames done and in all (0: still playing)."""
    with _bar("{task.fields[phase]}") as bar:
        task = bar.add_task(name, total=None, phase="playing")

        def on_frame(done: int, total: int) -> None:
            bar.update(task, completed=done, total=total, phase="rendering")

        yield on_frame


@contextmanager
def count_progress(name: str, total: int) -> Iterator[Callable[[], None]]:
    """Show things done; yields the function to call after each."""
    with _bar("") as bar:
        task = bar.add_task(name, total=total)
        yield lambda: bar.update(task, advance=1)


def _bar(extra: str) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        TextColumn(extra),
        console=Console(stderr=True),
    )
