"""Wilson intervals against published values, paired differences against scipy's bootstrap."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import bootstrap

from eval.statistics import paired_difference, wilson


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


PAIRS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=60)


@given(PAIRS)
def test_a_paired_difference_is_minus_the_other_way_round(pairs: list[tuple[bool, bool]]) -> None:
    ours, theirs = [a for a, _ in pairs], [b for _, b in pairs]
    difference, low, high = paired_difference(ours, theirs)
    assert difference == pytest.approx(sum(ours) / len(pairs) - sum(theirs) / len(pairs))
    assert low <= difference + 1e-12 and difference <= high + 1e-12
    assert paired_difference(theirs, ours) == pytest.approx((-difference, -high, -low))


def test_its_interval_is_that_of_the_paired_bootstrap() -> None:
    rng = np.random.default_rng(4)
    theirs = rng.random(150) < 0.6
    ours = np.where(rng.random(150) < 0.7, theirs, rng.random(150) < 0.9)
    reference = bootstrap(
        (ours.astype(float), theirs.astype(float)),
        lambda a, b, axis: np.mean(a - b, axis=axis),
        paired=True,
        method="percentile",
        rng=np.random.default_rng(5),
    ).confidence_interval
    _, low, high = paired_difference(ours.tolist(), theirs.tolist())
    assert (low, high) == pytest.approx((reference.low, reference.high), abs=0.014)
    # Paired, it is narrower than for two samples that have nothing to do with each other.
    apart = 1.96 * float(np.sqrt(ours.var() / 150 + theirs.var() / 150))
    assert high - low < 1.8 * apart


def test_a_difference_needs_the_same_episodes() -> None:
    with pytest.raises(ValueError, match="2 and 1 episodes"):
        paired_difference([True, False], [True])
    with pytest.raises(ValueError, match="at least one"):
        paired_difference([], [])
