"""Place's reflex: what topples easily is let go of upright, and the hand withdraws straight from it.

The robot does it by itself, whatever the policy wants, by its joints and by what it was told. It was found by what the
packaged policies fail for (docs/tried.md); docs/hab.md, "Skill tasks", has the rules.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hab.actions import ARM, BASE, GRIP, Action
from hab.arm import hand_frame, jacobian
from hab.objects import is_tall
from hab.robot import ARM_DELTA_RAD
from hab.simulator import Simulator
from skills.skill import Goal

LEANS_RAD, UPRIGHT_RAD = math.radians(6.0), math.radians(3.0)
"""What leans more as it is to be let go of is brought upright first, to this, …"""
UPRIGHT_STEPS, CAUGHT_STEPS, CAUGHT_RAD = 90, 12, 0.01
"""… in so many control steps at most, unless it has not come so much nearer to that in so many."""
IN_PLACE_M, DAMPING = 0.1, 0.02
"""Of the damped least squares that bring it upright: its centre may stray by so much where it turns by 1 rad less."""
WITHDRAW_M, WITHDRAW_STEPS = 0.08, 8
"""So far along the cup's axis the hand is to withdraw in so many control steps; the joints get it about half as far."""
WITHDRAW_DAMPING, TURN_M = 1e-4, 0.1


class SetDown:
    """One call of Place."""

    def __init__(self, sim: Simulator, goal: Goal) -> None:
        self._sim, self._goal = sim, goal
        self._script: Iterator[tuple[NDArray[np.float64], float]] | None = None
        self._held = self._let_go = False

    def __call__(self, action: Action) -> Action:
        """Return what is done of an action. Once the hand has let go the suction stays off: what it takes hold of on
        its way back it drags along."""
        if GRIP not in action or not is_tall(self._goal.object):
            return action
        if self._sim.held:
            self._held = True
            if self._script is None and action[GRIP][0] <= 0.0:
                self._script = self._upright()
        elif self._held and not self._let_go:
            self._let_go, self._script = True, self._withdrawn()
        if self._let_go:
            action = {**action, GRIP: np.full(1, -1.0, np.float32)}
        move = None if self._script is None else next(self._script, None)
        if move is None:
            return action
        arm, grip = move
        still = {BASE: np.zeros(2, np.float32)} if BASE in action else {}
        return {**action, ARM: _deltas(arm), GRIP: np.full(1, grip, np.float32), **still}

    def _upright(self) -> Iterator[tuple[NDArray[np.float64], float]]:
        """Yield what turns what is in hand about its centre to how it stood when the cup took hold of it, and then lets
        go: joints' moves (7,) (rad) and suction."""
        sim, taken, up = self._sim, self._goal.taken, self._goal.up
        if taken is None or up is None:
            return
        begun, least, since = None, math.inf, 0
        for step in range(UPRIGHT_STEPS):
            position, axes = hand_frame(sim.arm)
            centre, axis = position + axes @ taken, axes @ up
            lean = math.acos(min(1.0, max(-1.0, float(axis[2]))))
            if step == 0 and lean < LEANS_RAD:
                return
            since = since + 1 if lean > least - CAUGHT_RAD else 0
            least = lean if since == 0 else least
            if lean < UPRIGHT_RAD or since >= CAUGHT_STEPS:
                break
            begun = centre if begun is None else begun
            turn = np.array((axis[1], -axis[0]))  # axis x (0, 0, 1); about the vertical it may turn
            turn *= lean / max(float(np.hypot(*turn)), 1e-6)
            moves = jacobian(sim.arm, centre)
            wanted = np.concatenate(((begun - centre) / IN_PLACE_M, turn))
            yield _least_squares(np.vstack((moves[:3] / IN_PLACE_M, moves[3:5])), wanted, DAMPING), 1.0
        yield np.zeros(7), -1.0

    def _withdrawn(self) -> Iterator[tuple[NDArray[np.float64], float]]:
        """Yield what draws the hand straight back from what it has let go of."""
        sim = self._sim
        begun, axes = hand_frame(sim.arm)
        for step in range(1, WITHDRAW_STEPS + 1):
            position, _ = hand_frame(sim.arm)
            moves = jacobian(sim.arm, position)
            wanted = begun - axes[:, 0] * (WITHDRAW_M * step / WITHDRAW_STEPS) - position
            held_back = sim.arm - sim.arm_target
            rows = np.vstack((moves[:3], TURN_M * moves[3:]))
            yield _least_squares(rows, np.append(wanted, np.zeros(3)), WITHDRAW_DAMPING) + held_back, -1.0


def _least_squares(rows: NDArray[np.float64], wanted: NDArray[np.float64], damping: float) -> NDArray[np.float64]:
    """Return the joints' moves (7,) of damped least squares (Wampler 1986)."""
    return rows.T @ np.linalg.solve(rows @ rows.T + damping * np.eye(len(rows)), wanted)


def _deltas(moves: NDArray[np.float64]) -> NDArray[np.float32]:
    """Return the arm's action for joints' moves (7,) (rad), as far that way as it goes in a control step."""
    return (moves / max(float(np.abs(moves).max()), ARM_DELTA_RAD)).astype(np.float32)
