"""Intervals for success rates, and for their differences over the same episodes."""

from __future__ import annotations

from collections.abc import Sequence

RESAMPLES = 9999


def wilson(successes: int, trials: int) -> tuple[float, float]:
    """Return the 95 % Wilson score interval of a success rate.

    Reference: Wilson, "Probable Inference, the Law of Succession, and Statistical Inference", 1927.
    """
    from scipy.stats import binomtest  # imported late: it takes a second

    interval = binomtest(successes, trials).proportion_ci(0.95, method="wilson")
    return float(interval.low), float(interval.high)


def paired_difference(ours: Sequence[bool], theirs: Sequence[bool]) -> tuple[float, float, float]:
    """Return by how much a success rate exceeds another over the same episodes, and its 95 % bootstrap interval.

    Episodes are drawn anew as pairs (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, section 13.3).
    """
    import numpy as np

    if len(ours) != len(theirs) or not ours:
        raise ValueError(
            f"{len(ours)} and {len(theirs)} episodes: a paired difference needs the same ones, at least one"
        )
    differences = np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)
    drawn = np.random.default_rng(0).integers(len(differences), size=(RESAMPLES, len(differences)))
    low, high = np.quantile(differences[drawn].mean(axis=1), (0.025, 0.975))
    return float(differences.mean()), float(low), float(high)


def bootstrap_mean(values: Sequence[float]) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of a mean (Efron and Tibshirani, 1993, section 13.3)."""
    import numpy as np

    measured = np.asarray(values, np.float64)
    rng = np.random.default_rng(0)
    means = [measured[rng.integers(len(measured), size=len(measured))].mean() for _ in range(RESAMPLES)]
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)
