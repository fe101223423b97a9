"""What the robot does where it is in a corner: scripts that read odometry and joints.

The closed loop plans them as actions of their own, after a call has failed; Navigate backs out within its call.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hab.actions import ARM, BASE, GRIP, Action
from hab.simulator import Simulator
from planner.state import Senses
from skills.skill import towards_rest

BACK_M, BACK_STEPS = 0.7, 120
"""Back off so far, for so long at most."""
TRAIL_STEP_M, TRAIL_LENGTH = 0.05, 60
CAUGHT_STEPS, TURN_STEPS = 12, 20
"""A base that has not moved for so long turns for so long, to and fro in turn."""
REACHED_M = 0.08
TUCK_STEPS, TUCK_BACK_STEPS = 250, 100
"""The arm goes to rest for so long at most, and the base backs away meanwhile for so long, …"""
TUCK_CAUGHT_STEPS, TUCK_RAD = 25, 0.01
"""… unless the arm does not come so much nearer to rest in so many steps."""

STUCK_STEPS, STUCK_M = 150, 0.15
"""A drive that has not come so far in so long will not get anywhere."""
CAUGHT_RAD, CAUGHT_ARM_STEPS, FREE_RAD = 0.25, 10, 0.05
"""An arm whose shoulder has been pushed so far round for so long is caught; it is free where it is so near to rest."""
WANDERS_STEPS, WANDERS_M = 120, 0.35
"""A drive that has been within so much of one place for so long goes to and fro there."""
IDLE_STEPS = 200
"""A hand that has taken or let go of nothing for so long seldom will: of 1,348 calls of Pick and 1,149 of Place that
succeeded in training apartments 98 of 100 had taken 188 and 173 steps or fewer, all told (docs/tried.md)."""


class Trail:
    """Where the base has come from, by odometry: a point every few centimetres."""

    def __init__(self) -> None:
        self._points: deque[tuple[float, float]] = deque(maxlen=TRAIL_LENGTH)
        self._lately: deque[tuple[float, float]] = deque(maxlen=STUCK_STEPS)

    def begin(self) -> None:
        """Take note of a call that begins."""
        self._lately.clear()

    def stands_still(self) -> bool:
        """Whether the base has not got anywhere for long, in this call and since this was last answered with yes."""
        if len(self._lately) < STUCK_STEPS:
            return False
        still = all(math.dist(point, self._lately[-1]) < STUCK_M for point in self._lately)
        if still:
            self._lately.clear()
        return still

    def watch(self, base: NDArray[np.float64]) -> None:
        """Take note after a control step."""
        x, y = float(base[0]), float(base[1])
        self._lately.append((x, y))
        if not self._points or math.dist(self._points[-1], (x, y)) > TRAIL_STEP_M:
            self._points.append((x, y))

    def back(self, metres: float) -> list[tuple[float, float]]:
        """Return the points of so much of the way, the latest first."""
        points, length = list(reversed(self._points)), 0.0
        for i in range(1, len(points)):
            length += math.dist(points[i - 1], points[i])
            if length >= metres:
                return points[: i + 1]
        return points


class WayOut:
    """One call of Navigate: whether its arm is caught or its base gets nowhere, and the way back."""

    def __init__(self, sim: Simulator) -> None:
        self._sim, self._senses, self._trail = sim, Senses(sim), Trail()
        self._lately: deque[tuple[float, float]] = deque(maxlen=WANDERS_STEPS)
        self._pushed = 0

    def is_needed(self) -> bool:
        """Ask before each control step."""
        base = self._senses.base
        self._trail.watch(base)
        self._lately.append((float(base[0]), float(base[1])))
        self._pushed = self._pushed + 1 if self._senses.shoulder_off_rest > CAUGHT_RAD else 0
        return self._is_caught() or self._wanders()

    def back(self) -> Iterator[Action]:
        """Yield what drives the base back the way it came while the arm goes to rest; if that is caught, until it is
        free."""
        caught = self._is_caught()
        for action in back_off(self._sim, self._trail):
            if caught and self._senses.shoulder_off_rest < FREE_RAD:
                break
            yield {**action, ARM: towards_rest(self._sim)[ARM]}
        self._lately.clear()
        self._pushed = 0

    def _is_caught(self) -> bool:
        return self._pushed >= CAUGHT_ARM_STEPS

    def _wanders(self) -> bool:
        full = len(self._lately) == WANDERS_STEPS
        return full and all(math.dist(place, self._lately[-1]) < WANDERS_M for place in self._lately)


class Idleness:
    """How long the hand has neither taken nor let go of anything, in one call of a skill that works with it."""

    def __init__(self, sim: Simulator) -> None:
        self._senses, self._steps = Senses(sim), 0
        self._held = self._senses.holds

    def too_long(self) -> bool:
        """Ask after each control step."""
        holds = self._senses.holds
        self._steps = self._steps + 1 if holds == self._held else 0
        self._held = holds
        return self._steps >= IDLE_STEPS


def back_off(sim: Simulator, trail: Trail) -> Iterator[Action]:
    """Yield what drives the base back along its trail, whichever way it faces; it turns where it is caught."""
    senses, caught, side = Senses(sim), 0, 1.0
    points = trail.back(BACK_M)
    begun = senses.base[:2].copy()
    steps = 0
    while steps < BACK_STEPS and math.dist(begun, senses.base[:2]) < BACK_M:
        x, y, yaw = senses.base.tolist()
        while points and math.dist(points[0], (x, y)) < REACHED_M:
            points.pop(0)
        if caught >= CAUGHT_STEPS:
            for _ in range(TURN_STEPS):
                yield _drive(sim, -0.2, side)
            steps, caught, side = steps + TURN_STEPS, 0, -side
            continue
        forward, turn = -0.5, 0.0
        if points:
            off = math.remainder(math.atan2(points[0][1] - y, points[0][0] - x) - yaw, math.tau)
            ahead = math.cos(off) > 0.0
            turn = math.remainder(off if ahead else off - math.pi, math.tau)
            forward = (0.5 if ahead else -0.5) * max(0.0, math.cos(turn)) ** 4
        yield _drive(sim, forward, max(-1.0, min(1.0, 2.0 * turn)))
        steps += 1
        moved = math.dist((x, y), senses.base[:2]) > 0.002 or abs(float(senses.base[2]) - yaw) > 0.005
        caught = 0 if moved else caught + 1


def tuck(sim: Simulator) -> Iterator[Action]:
    """Yield what brings the arm to rest while the base backs away slowly, by half a metre at most, until the arm is
    there or caught."""
    senses, nearest, caught = Senses(sim), math.inf, 0
    for step in range(TUCK_STEPS):
        if senses.arm_rests or caught >= TUCK_CAUGHT_STEPS:
            return
        left = senses.arm_off_rest
        if left < nearest - TUCK_RAD:
            nearest, caught = left, 0
        else:
            caught += 1
        yield {**towards_rest(sim), BASE: np.array((-0.15 if step < TUCK_BACK_STEPS else 0.0, 0.0), np.float32)}


def _drive(sim: Simulator, forward: float, turn: float) -> Action:
    """Drive, the arm still; what is in hand stays there."""
    grip = np.array([1.0 if sim.held else -1.0], np.float32)
    return {BASE: np.array((forward, turn), np.float32), ARM: np.zeros(7, np.float32), GRIP: grip}
