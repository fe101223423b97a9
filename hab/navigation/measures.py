"""Measures of an episode (Anderson et al., "On Evaluation of Embodied Navigation Agents", 2018)."""

from __future__ import annotations


def spl(success: bool, shortest_m: float, path_m: float) -> float:
    """Return success weighted by path length: S l / max(l, p); the shortest way is longer than 0."""
    return shortest_m / max(shortest_m, path_m) if success else 0.0


def soft_spl(start_m: float, end_m: float, path_m: float) -> float:
    """Return habitat-lab's SoftSPL: the share of the way that was made good, instead of success.

    start_m and end_m: the distance to the goal at the episode's start and now; start_m is the shortest way.
    """
    return max(0.0, 1.0 - end_m / start_m) * start_m / max(start_m, path_m)
