"""A person at the keys as a skill's policy: base, hand and suction.

A key that is pressed moves the robot for `NUDGE_S`; held down, browsers repeat it, and it goes on. `WAIT_S` after the
last key the simulation waits for the next one: what was done by hand is no shorter for thinking, and holds no waiting.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from threading import Lock

import numpy as np
from numpy.typing import NDArray

from hab import arm, robot
from hab.actions import ARM, BASE, CONTROL_HZ, GRIP, SIZES, STOP, Action
from hab.robot import ARM_DELTA_RAD
from hab.simulator import Simulator
from skills.skill import Goal, towards_rest

NUDGE_S = 0.2
WAIT_S = 1.0
HAND_M = 0.4 / CONTROL_HZ
"""Of the hand, a control step (0.4 m/s) at most, in each direction of the cylinder round the shoulder: the arm's joints
may be slower."""
TILT_RAD = 0.8 / CONTROL_HZ
DRIVE, TURN = 0.6, 0.6
"""Of the base, as fractions of its limits."""

KEYS: dict[str, tuple[str, str]] = {
    "forward": ("I", "drive forward"),
    "back": ("K", "drive back"),
    "left": ("J", "turn left"),
    "right": ("L", "turn right"),
    "up": ("R", "hand up"),
    "down": ("F", "hand down"),
    "out": ("T", "hand out"),
    "in": ("G", "hand in"),
    "hand_left": ("Y", "hand left"),
    "hand_right": ("H", "hand right"),
    "tilt_down": ("U", "tilt the cup down"),
    "tilt_up": ("O", "tilt the cup up"),
    "rest": ("Z", "arm to rest"),
    "suction": ("space", "suction on, off"),
    "stop": ("enter", "the step is done: stop"),
}
"""What can be done: its key, and in words. viser's own keys (W, A, S, D, Q, E, arrows) move the camera."""
_OPPOSITE = {"up": "down", "out": "in", "hand_left": "hand_right", "tilt_down": "tilt_up"}


class Keys:
    """Which keys count as held down; pressed in one thread, asked in another."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock, self._lock = clock, Lock()
        self._until: dict[str, float] = {}
        self._last = -WAIT_S
        self.suction = False
        self._stop = False

    def press(self, name: str) -> None:
        """Take note of a key."""
        with self._lock:
            self._last = self._clock()
            if name == "suction":
                self.suction = not self.suction
            elif name == "stop":
                self._stop = True
            else:
                self._until[name] = self._last + NUDGE_S

    def held(self) -> set[str]:
        """Return what is asked for now."""
        with self._lock:
            now = self._clock()
            return {name for name, until in self._until.items() if until > now}

    def waits(self) -> bool:
        """Say whether nothing has been pressed for a while."""
        with self._lock:
            return self._clock() - self._last > WAIT_S

    def take_stop(self) -> bool:
        """Say whether stop has been asked for since the last time."""
        with self._lock:
            asked, self._stop = self._stop, False
            return asked

    def clear(self) -> None:
        """Forget all keys."""
        with self._lock:
            self._until.clear()
            self._last, self.suction, self._stop = -WAIT_S, False, False


class Teleoperation:
    """Plays whatever skill it is asked to by the keys."""

    def __init__(self, keys: Keys, idle: Callable[[], None]) -> None:
        """`idle`: called again and again while it waits for a key; may raise to end the episode."""
        self._keys, self._idle = keys, idle

    def reset(self, sim: Simulator, goal: Goal) -> None:
        """Start a call: what is in hand stays there."""
        self._keys.suction = sim.held != ""

    def tell(self, goal: Goal) -> None:
        pass

    def act(self, sim: Simulator) -> Action:
        """Wait for a key, and return what is asked for."""
        while self._keys.waits():
            self._idle()
        held = self._keys.held()
        stop = self._keys.take_stop()
        return {
            ARM: self._arm(sim, held),
            GRIP: np.array([1.0 if self._keys.suction else -1.0], np.float32),
            BASE: np.array(
                [DRIVE * (("forward" in held) - ("back" in held)), TURN * (("left" in held) - ("right" in held))],
                np.float32,
            ),
            STOP: np.array([1.0 if stop else -1.0], np.float32),
        }

    def _arm(self, sim: Simulator, held: set[str]) -> NDArray[np.float32]:
        """Return increments that take the cup on, by the closed form of hab/arm.py, or none out of reach."""
        if "rest" in held:
            return towards_rest(sim)[ARM]
        moves = {one: (one in held) - (other in held) for one, other in _OPPOSITE.items()}
        if not any(moves.values()):
            return np.zeros(SIZES[ARM], np.float32)
        now = sim.arm_target
        pose = arm.forward(now)
        wanted = arm.solve(
            arm.ArmPose(
                pose.azimuth + moves["hand_left"] * HAND_M / max(pose.radius, 0.3),
                pose.radius + moves["out"] * HAND_M,
                pose.z + moves["up"] * HAND_M,
                pose.pitch + moves["tilt_down"] * TILT_RAD,
            )
        )
        if wanted is None:
            return np.zeros(SIZES[ARM], np.float32)
        # The closed form has the rolls at zero; at rest they are not quite.
        steps = (np.clip(wanted, robot.Q_MIN, robot.Q_MAX) - now) / ARM_DELTA_RAD
        return np.asarray(steps / max(1.0, float(np.abs(steps).max())), np.float32)
