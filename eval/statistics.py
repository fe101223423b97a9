"""Intervals for success rates."""

from __future__ import annotations


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Return the 95 % Wilson score interval of a success rate.

    Reference: Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", 1927.
    """
    from scipy.stats import binomtest  # imported late: it takes a second

    interval = binomtest(successes, trials).proportion_ci(0.95, method="wilson")
    return float(interval.low), float(interval.high)
