"""The action space: habitat-lab's parts, names and scaling (docs/hab.md, "Actions").

An `Action` maps part names to float arrays in [-1, 1]; a missing part means zeros (no motion, suction released).
"""

from __future__ import annotations

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

ARM = "arm_action"
"""(7,) joint-target increments, times 0.0125 rad per control step."""
GRIP = "grip_action"
"""(1,) > 0 asks for suction, <= 0 releases."""
BASE = "base_vel"
"""(2,) forward speed and yaw rate as fractions of the base's limits."""
STOP = "rearrange_stop"
"""(1,) > 0 calls stop; the simulator ignores it, tasks read it."""

SIZES = {ARM: 7, GRIP: 1, BASE: 2, STOP: 1}
CONTROL_HZ = 30
PHYSICS_HZ = 120

Action = dict[str, NDArray[np.float32]]


def action_space(parts: tuple[str, ...]) -> spaces.Dict:
    """Return the Dict space of the named parts, each a Box in [-1, 1]."""
    return spaces.Dict({part: spaces.Box(-1.0, 1.0, (SIZES[part],), np.float32) for part in parts})


def stop_called(action: Action) -> bool:
    """Say whether an action asks to stop; a missing part means zeros."""
    return STOP in action and float(action[STOP][0]) > 0.0
