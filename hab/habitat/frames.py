"""Between our world frame (z up) and habitat's (y up): habitat's x is our x, its y our z, its z minus our y.

A rotation's axis changes with the frame and its angle does not, so a yaw of ours is the same turn about habitat's y.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hab.scene import Quat, Vec3, axes_of

TO_HABITAT = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]])
"""(3, 3) our vectors -> habitat's; its transpose goes back."""


def to_habitat(vector: Sequence[float] | NDArray[np.float64]) -> Vec3:
    """Return a vector or a position (3,) of ours in habitat's frame."""
    x, y, z = (float(value) for value in vector)
    return x, z, -y


def from_habitat(vector: Sequence[float] | NDArray[np.float64]) -> Vec3:
    """Return a vector or a position (3,) of habitat's in our frame."""
    x, y, z = (float(value) for value in vector)
    return x, -z, y


def quat_to_habitat(quat: Quat) -> Quat:
    """Return a rotation of ours, of a body whose own axes are converted, too."""
    w, x, y, z = quat
    return w, x, z, -y


def yaw_quat(yaw: float) -> Quat:
    """Return our turn about the vertical as a rotation in habitat's frame."""
    return math.cos(yaw / 2), 0.0, math.sin(yaw / 2), 0.0


def matrix(position: Sequence[float], quat: Quat) -> NDArray[np.float64]:
    """Return the (4, 4) transform of a position and a rotation, of whichever frame."""
    out = np.eye(4)
    out[:3, :3] = axes_of(quat)
    out[:3, 3] = position
    return out


def roll_pitch_yaw(rotation: NDArray[np.float64]) -> Vec3:
    """Return URDF's `rpy` (rad) of a rotation (3, 3): about the fixed x, then y, then z axis."""
    pitch = math.asin(max(-1.0, min(1.0, -float(rotation[2, 0]))))
    if abs(rotation[2, 0]) > 1.0 - 1e-9:  # straight up or down: roll and yaw turn about the same axis
        return 0.0, pitch, math.atan2(-float(rotation[0, 1]), float(rotation[1, 1]))
    return math.atan2(rotation[2, 1], rotation[2, 2]), pitch, math.atan2(rotation[1, 0], rotation[0, 0])
