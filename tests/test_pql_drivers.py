"""benchmarks/pql: what the runs of a suite are told, and how VER's schedule gets its length."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks" / "pql"


@pytest.mark.parametrize("system", ["pql", "sb3"])
def test_policies_are_played_as_often_whoever_learns(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    import run

    options = Namespace(suite="control", seconds=400, keep_s=40.0, train_only=False, venv=Path("venv"))
    command = run._command(options, system, "arm", "Ant-v5", 3, Path("out"))
    assert command[-5:] == ["Ant-v5", "3", "400", "40.0", "out"]
