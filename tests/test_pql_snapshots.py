"""benchmarks/pql/snapshots.py: that kept policies are dated by their saves, and not by the rows around them."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from safetensors.torch import save_file
from torch import zeros

from ver_core import checkpoint

FOLDER = Path(__file__).parents[1] / "benchmarks" / "pql"
BEGAN_NS = 1_700_000_000 * 10**9
"""When the session's clock stood at 0 s."""


def save(run: Path, steps: int, seconds: float) -> None:
    """As both trainers do."""
    checkpoint.save(run / "checkpoint.pt", {"steps": steps})
    save_file({"weights": zeros(1)}, run / "policy.safetensors")
    stamp(run / "policy.safetensors", seconds)


def row(run: Path, steps: int, seconds: float, written: float | None = None) -> None:
    with (run / "scalars.jsonl").open("a") as file:
        file.write(json.dumps({"steps": steps, "seconds": seconds}) + "\n")
    stamp(run / "scalars.jsonl", seconds if written is None else written)


def stamp(file: Path, seconds: float) -> None:
    os.utime(file, ns=(BEGAN_NS, BEGAN_NS + round(seconds * 1e9)))


def test_a_policy_is_of_the_moment_it_was_saved_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    from snapshots import Keeper

    keeper = Keeper(tmp_path)
    row(tmp_path, 1000, 5.0)
    keeper.look()  # nothing saved yet
    save(tmp_path, 1800, 8.5)
    keeper.look()  # between two rows, as VER's trainer lets one look
    row(tmp_path, 2000, 10.0)
    keeper.look()  # the same policy
    save(tmp_path, 2900, 14.25)
    row(tmp_path, 3000, 15.0)
    keeper.look()  # after the next row, as PQL's
    save(tmp_path, 3100, 15.5)
    save(tmp_path, 3100, 15.75)
    keeper.look()  # the end
    # An hour later it is resumed: the clock goes on from the last row, and the first save comes before a row.
    resumed = Keeper(tmp_path)
    save(tmp_path, 3500, 3618.0)
    resumed.look()
    row(tmp_path, 3600, 20.0, written=3620.0)
    resumed.look()
    index = [json.loads(line) for line in (tmp_path / "policies.jsonl").read_text().splitlines()]
    assert [kept["steps"] for kept in index] == [1800, 2900, 3100, 3500]
    assert [kept["seconds"] for kept in index] == pytest.approx([8.5, 14.25, 15.75, 18.0])
    assert {int(file.stem) for file in (tmp_path / "policies").iterdir()} == {1800, 2900, 3100, 3500}
