"""Runs the command line in the tests' own process."""

from __future__ import annotations

import sys

import pytest

from tpsrl.cli import main


def run(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """Run `tpsrl` with these arguments; return its exit code."""
    monkeypatch.setattr(sys, "argv", ["tpsrl", *arguments])
    monkeypatch.setattr(sys, "orig_argv", [sys.executable, "-m", "tpsrl", *arguments])  # what a run notes down
    with pytest.raises(SystemExit) as exit_info:
        main()
    assert isinstance(exit_info.value.code, int)
    return exit_info.value.code
