"""C51's projection against a naive twin and closed forms."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pql_core.categorical import project, support

CPU = torch.device("cpu")
numbers = st.floats(-3.0, 3.0, width=32)


def naive(p: list[float], r: float, gamma: float, low: float, high: float) -> list[float]:
    """Return Algorithm 1 of Bellemare et al. 2017, as it is printed."""
    atoms = len(p)
    step = (high - low) / (atoms - 1)
    m = [0.0] * atoms
    for j in range(atoms):
        shifted = min(high, max(low, r + gamma * (low + j * step)))
        b = (shifted - low) / step
        lower, upper = math.floor(b + 1e-9), math.ceil(b - 1e-9)
        if lower == upper:  # the printed algorithm loses this mass
            m[lower] += p[j]
        else:
            m[lower] += p[j] * (upper - b)
            m[upper] += p[j] * (b - lower)
    return m


@settings(deadline=None, max_examples=100)
@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.floats(0.0, 1.0), st.floats(-4.0, 4.0))
def test_it_is_the_printed_algorithm(seed: int, atoms: int, gamma: float, r: float) -> None:
    p = np.random.default_rng(seed).dirichlet(np.ones(atoms))
    z = support(-2.0, 3.0, atoms, CPU)
    row = torch.tensor(p, dtype=torch.float32)[None]
    found = project(row, torch.tensor([r]), torch.tensor([gamma]), z)[0]
    assert found.tolist() == pytest.approx(naive(p.tolist(), r, gamma, -2.0, 3.0), abs=2e-5)
    assert float(found.sum()) == pytest.approx(1.0, abs=1e-5)


@given(st.integers(0, 2**32 - 1), st.floats(-0.5, 0.5))
@settings(deadline=None, max_examples=50)
def test_the_mean_is_kept_inside_the_support(seed: int, r: float) -> None:
    z = support(-10.0, 10.0, 51, CPU)
    p = torch.tensor(np.random.default_rng(seed).dirichlet(np.ones(51)), dtype=torch.float32)[None]
    found = project(p, torch.tensor([r]), torch.tensor([0.9]), z)
    assert float((found * z).sum()) == pytest.approx(r + 0.9 * float((p * z).sum()), abs=1e-4)


def test_closed_forms() -> None:
    z = support(-1.0, 1.0, 5, CPU)  # -1, -0.5, 0, 0.5, 1
    p = torch.tensor([[0.1, 0.2, 0.3, 0.4, 0.0]] * 4)
    returns, discounts = torch.tensor([0.0, 0.25, 7.0, 0.5]), torch.tensor([1.0, 0.0, 0.5, 1.0])
    expected = [
        [0.1, 0.2, 0.3, 0.4, 0.0],  # nothing happens
        [0.0, 0.0, 0.5, 0.5, 0.0],  # a terminal state's return lies between two atoms
        [0.0, 0.0, 0.0, 0.0, 1.0],  # clipped
        [0.0, 0.1, 0.2, 0.3, 0.4],  # one atom on
    ]
    assert torch.allclose(project(p, returns, discounts, z), torch.tensor(expected), atol=1e-6)
