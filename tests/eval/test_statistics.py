"""Wilson intervals against published values."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.statistics import wilson


@pytest.mark.parametrize(
    ("successes", "trials", "low", "high"),
    # Newcombe, "Two-sided confidence intervals for the single proportion", 1998, table I, method 3.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_published_values(successes: int, trials: int, low: float, high: float) -> None:
    assert wilson(successes, trials) == pytest.approx((low, high), abs=1e-4)


@given(st.integers(1, 500), st.data())
def test_holds_the_rate_and_stays_in_range(trials: int, data: st.DataObject) -> None:
    successes = data.draw(st.integers(0, trials))
    low, high = wilson(successes, trials)
    assert 0.0 <= low <= successes / trials + 1e-12 and successes / trials - 1e-12 <= high <= 1.0
