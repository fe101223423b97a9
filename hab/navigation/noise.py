"""Noise of motion and sensors, as an option.

Motion: the LoCoBot under its ILQR controller, as PyRobot measured it (Murali et al. 2019) and habitat-sim has it
(habitat_sim/agent/controls/pyrobot_noisy_controls.py): Gaussians with a diagonal covariance, cut off at three
deviations; a motion keeps at least a twentieth of what was intended. Laser: the statistical error of the SICK TiM571
that the Fetch carries, 20 mm (data sheet). Depth: axial noise of a Kinect, Nguyen, Izadi and Lovell, "Modeling Kinect
Sensor Noise for Improved 3D Reconstruction and Tracking", 2012, equation 3 (frontal surfaces).
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

LINEAR = ((0.014, 0.006), (0.009, 0.005), (0.008, 0.004))
ROTATIONAL = ((0.003, 0.002), (0.003, 0.003), (0.023, 0.012))
"""Mean and variance of what is added to a motion forward, and to a turn: forward (m), left (m), turn (rad)."""
LASER_M = 0.02
CUT = 3.0


def _draw(rng: np.random.Generator, mean: float, variance: float, least: float = -math.inf) -> float:
    deviation = math.sqrt(variance)
    while True:
        drawn = float(rng.standard_normal())
        if abs(drawn) <= CUT and mean + deviation * drawn >= least:
            return mean + deviation * drawn


def noisy_motion(rng: np.random.Generator, forward_m: float, turn_rad: float) -> tuple[float, float, float]:
    """Return forward (m), left (m) and turn (rad) as they come out; either `forward_m` or `turn_rad` is 0."""
    if turn_rad == 0.0:
        ahead, left, turn = LINEAR
        forward_m += _draw(rng, *ahead, least=-0.95 * forward_m)
        return forward_m, _draw(rng, *left), _draw(rng, *turn)
    ahead, left, turn = ROTATIONAL
    forward_m, left_m = _draw(rng, *ahead), _draw(rng, *left)
    # A turn overshoots to its own side.
    turned = _draw(rng, *turn, least=-0.95 * abs(turn_rad))
    return forward_m, left_m, turn_rad + math.copysign(1.0, turn_rad) * turned


def noisy_laser(rng: np.random.Generator, ranges: NDArray[np.float32], max_m: float) -> NDArray[np.float32]:
    """Return ranges (n,), shares of the longest in [0, 1], with noise; a ray that met nothing is left as it is."""
    noise = rng.standard_normal(len(ranges), np.float32) * np.float32(LASER_M / max_m)
    return np.where(ranges < 1.0, np.clip(ranges + noise, 0.0, 1.0), ranges).astype(np.float32)


def noisy_depth(rng: np.random.Generator, depth: NDArray[np.float32], max_m: float) -> NDArray[np.float32]:
    """Return an image of depths, shares of the deepest in [0, 1], with noise; what is beyond is left as it is."""
    metres = depth * np.float32(max_m)
    deviation = 0.0012 + 0.0019 * np.square(metres - 0.4)
    noise = rng.standard_normal(depth.shape, np.float32) * (deviation / max_m)
    return np.where(depth < 1.0, np.clip(depth + noise, 0.0, 1.0), depth).astype(np.float32)
