"""The depth camera's noise against the closed forms of its model."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from hab.depth_noise import DISPARITY_M, DISPARITY_NOISE, noisy
from skills import make_env


def wall(metres: float) -> NDArray[np.float32]:
    return np.full((128, 128, 1), metres / 10.0, np.float32)


@pytest.mark.parametrize("metres", [0.5, 1.0, 2.0, 4.0, 8.0])
def test_ranges_are_those_of_whole_disparities_about_the_right_one(metres: float) -> None:
    seen = np.concatenate([10.0 * noisy(wall(metres), np.array([float(i)])).ravel() for i in range(20)])
    hit = seen[seen > 0.0]
    steps = DISPARITY_M / hit
    assert np.allclose(steps, np.rint(steps), rtol=1e-5)
    off = steps - DISPARITY_M / metres
    assert np.abs(off).max() < 0.5 + 6 * DISPARITY_NOISE
    # Of a Gaussian with deviation 1/6 that is rounded to whole numbers, about an offset of up to a half.
    assert abs(off.mean()) < 0.5 and off.std() < 0.51
    # A step is z^2 / K wide: the error grows with the square of the range.
    assert np.ptp(hit) < 3.0 * metres**2 / DISPARITY_M


def test_a_wall_has_few_holes_and_an_edge_many() -> None:
    walls = [noisy(wall(2.0), np.array([float(i)])) for i in range(40)]
    assert 0.0 < np.mean([(image == 0.0).mean() for image in walls]) < 0.02
    step = wall(2.0)
    step[:, 64:] = 0.3
    seen = noisy(step, np.zeros(1))
    assert (seen[:, 63:65] == 0.0).mean() > 0.35 and (seen[:, :60] == 0.0).mean() < 0.05
    assert {0.2, 0.3} <= {round(float(value), 1) for value in seen[:, 63, 0]}  # a pixel shows what lies beside it, too
    assert seen.shape == step.shape and seen.dtype == np.float32 and seen.min() >= 0.0 and seen.max() <= 1.0


def test_the_same_state_is_seen_with_the_same_noise() -> None:
    first, again, other = (noisy(wall(3.0), np.array([x, 1.0])) for x in (0.5, 0.5, 0.6))
    assert np.array_equal(first, again) and not np.array_equal(first, other)


def test_a_task_shows_it_if_asked_to() -> None:
    envs = [make_env("pick", "train", "depth", index=4, depth_noise=noise) for noise in (False, True, True)]
    clean, flawed, again = (env.reset()[0]["head_depth"] for env in envs)
    assert np.array_equal(flawed, again)
    assert 0.6 < (np.abs(clean - flawed) < 0.005).mean() < 0.999
