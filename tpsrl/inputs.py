"""Checks of what people type, each failing with one line that says how to mend it."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from pathlib import Path

import click


class BadInput(click.ClickException):
    """Wrong input that click itself cannot see."""

    exit_code = 2


class Name(click.ParamType[str]):
    """One of a few names; a near miss is answered with "did you mean"."""

    def __init__(self, what: str, choices: Sequence[str]) -> None:
        self.name = what
        self.choices = tuple(choices)

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value in self.choices:
            return value
        near = difflib.get_close_matches(value, self.choices, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise BadInput(f"unknown {self.name} {value!r}: {hint}choose from {', '.join(self.choices)}")


def output_file(option: str, path: Path | None) -> Path | None:
    """Check, before any work, that a file can be written; makes its folder."""
    if path is None:
        return None
    if path.is_dir():
        raise BadInput(f"{option} {path}: is a folder; name a file in it")
    existed = path.exists()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a").close()
        if not existed:
            path.unlink()
    except OSError as error:
        raise BadInput(f"{option} {path}: cannot be written ({error.strerror}); name another file") from error
    return path
