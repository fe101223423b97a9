"""What a structured-light depth camera gets wrong (`depth_noise`; docs/hab.md).

Range noise, quantisation and ragged edges are Handa et al.'s (2014, "A benchmark for RGB-D visual odometry", section
III; after Barron & Malik 2013): a pixel shows what lies beside it, and its range is that of a whole number of
disparities, a Kinect's, after noise. Holes are a model of our own: at the edge of what is nearer the projector's light
does not arrive, and dark or shiny surfaces do not send it back; which those are no renderer of ours knows, so they are
patches anywhere.
"""

from __future__ import annotations

import zlib

import numpy as np
from numpy.typing import NDArray

from hab.robot import DEPTH_MAX_M

SHIFT_PIXELS = 0.5
"""Deviation of where a pixel looks, in each direction."""
DISPARITY_M = 351.3
"""Disparity times range: a Kinect's 35,130 cm (focal length x baseline x 8 steps a pixel)."""
DISPARITY_NOISE = 1.0 / 6.0
"""Its deviation, in steps."""
EDGE, EDGE_HOLES = 0.1, 0.5
"""Neighbours whose ranges differ by this share are at an edge; the share of such pixels that see nothing."""
PATCH_PIXELS, PATCH_HOLES = 8, 0.005
"""Side of the patches that see nothing, and their share."""


def noisy(image: NDArray[np.float32], state: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return a depth image (H, W, 1), metres / 10 in [0, 1], as such a camera has it; a hole is 0.

    The same numbers in `state` (any), the same noise.
    """
    rng = np.random.default_rng(zlib.crc32(np.ascontiguousarray(state).tobytes()))
    height, width = image.shape[:2]
    metres = image[:, :, 0] * np.float32(DEPTH_MAX_M)
    shift = np.rint(SHIFT_PIXELS * rng.standard_normal((2, height, width), np.float32)).astype(np.intp)
    rows = np.clip(np.arange(height)[:, None] + shift[0], 0, height - 1)
    columns = np.clip(np.arange(width) + shift[1], 0, width - 1)
    steps = DISPARITY_M / np.maximum(metres[rows, columns], 1e-3)
    steps = np.rint(steps + DISPARITY_NOISE * rng.standard_normal((height, width), np.float32))
    seen = DISPARITY_M / np.maximum(steps, 1.0)
    holes = _edges(metres) & (rng.random((height, width), np.float32) < EDGE_HOLES)
    patches = rng.random((-(-height // PATCH_PIXELS), -(-width // PATCH_PIXELS))) < PATCH_HOLES
    holes |= patches.repeat(PATCH_PIXELS, 0).repeat(PATCH_PIXELS, 1)[:height, :width]
    seen[holes] = 0.0
    return np.clip(seen / DEPTH_MAX_M, 0.0, 1.0).astype(np.float32)[:, :, None]


def _edges(metres: NDArray[np.float32]) -> NDArray[np.bool_]:
    """Return which pixels have a much nearer or farther one beside, below or above them."""
    found = np.zeros(metres.shape, bool)
    for one, other in (
        ((slice(None), slice(None, -1)), (slice(None), slice(1, None))),
        ((slice(None, -1),), (slice(1, None),)),
    ):
        apart = np.abs(metres[one] - metres[other]) > EDGE * np.minimum(metres[one], metres[other])
        found[one] |= apart
        found[other] |= apart
    return found
