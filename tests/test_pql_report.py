"""benchmarks/pql/report.py: that scores of runs are compared at one moment."""

from __future__ import annotations

from pathlib import Path

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
