"""benchmarks/pql/report.py: that scores of runs are compared at one moment, and when one counts as reached."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

FOLDER = Path(__file__).parents[1] / "benchmarks" / "pql"


def test_scores_are_of_the_moment_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    import report

    run = {"seconds": np.array([40.0, 80.4]), "score": np.array([100.0, 504.0])}
    assert report.at(run, "seconds", 80.0) == pytest.approx(500.0)  # not 100, which is 40 s old
    assert report.at(run, "seconds", 80.4) == 504.0
    assert np.isnan(report.at(run, "seconds", 39.0))


def test_a_bar_is_reached_by_two_policies_in_succession(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    import report

    def written(scores: list[float]) -> dict[str, np.ndarray[Any, Any]]:
        rows = [
            {"steps": 10 * k, "seconds": float(k), "played/return": score} for k, score in enumerate(scores, start=1)
        ]
        (tmp_path / "played.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        return dict(report.read(tmp_path))

    run = written([0.0, 7.0, 1.0, 5.0, 6.0, 2.0])
    assert report.first_over(run, "seconds", 5.0) == 4.0 and report.first_over(run, "steps", 5.0) == 40.0
    assert report.first_over(run, "seconds", 7.0) is None  # one alone
    assert report.first_over(written([0.0, 5.0]), "seconds", 5.0) is None  # the last one: nobody knows whether it lasts
    assert report.first_over(written([5.0]), "seconds", 5.0) is None
