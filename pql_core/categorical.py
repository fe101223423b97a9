"""C51: return distributions on fixed atoms (Bellemare et al. 2017). Shapes: n rows, l atoms."""

from __future__ import annotations

import torch
from torch import Tensor


def support(low: float, high: float, atoms: int, device: torch.device) -> Tensor:
    """Return z (l,): the atoms, evenly spaced from `low` to `high`."""
    return torch.linspace(low, high, atoms, device=device)


def project(probabilities: Tensor, returns: Tensor, discounts: Tensor, z: Tensor) -> Tensor:
    """Return (n, l): the distribution of returns + discounts * Z, projected onto the atoms of Z (their equation 7).

    probabilities: (n, l), of Z. returns, discounts: (n,). Each shifted atom, clipped to the support, gives its
    probability to its two neighbours, to the nearer one more.
    """
    step = (z[-1] - z[0]) / (len(z) - 1)
    shifted = returns[:, None] + discounts[:, None] * z
    place = ((shifted - z[0]) / step).clamp(0, len(z) - 1)
    below = place.floor()
    upper_share = place - below
    lower = below.long()
    upper = (lower + 1).clamp(max=len(z) - 1)
    projected = torch.zeros_like(probabilities)
    projected.scatter_add_(1, lower, probabilities * (1.0 - upper_share))
    projected.scatter_add_(1, upper, probabilities * upper_share)
    return projected
