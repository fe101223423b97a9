"""Motor primitives that the oracle skills are written with: each yields actions until its motion is done.

They act through the same action space as a learned skill (30 Hz, clipped to [-1, 1]) and read the simulator's state.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hab.actions import ARM, BASE, CONTROL_HZ, GRIP, STOP, Action
from hab.arm import ArmPose, forward, solve
from hab.robot import ARM_DELTA_RAD, BASE_MAX_M_S, BASE_MAX_RAD_S
from hab.simulator import Simulator
from skills.skill import Goal

Script = Iterator[Action]
ARM_DONE_RAD = 0.03
BRAKE_M_S2 = 1.5
"""Deceleration that the base's drives hold with ease."""


class Scripted(ABC):
    """A `skills.skill.SkillPolicy` that is written as one generator of actions, from the call's start to its end."""

    def __init__(self, base_movement: bool) -> None:
        self._base_movement = base_movement
        """Whether the manipulation skills may drive (Navigate then stops further off)."""

    def reset(self, sim: Simulator, goal: Goal) -> None:
        self._script = self._run(sim, goal)

    def tell(self, goal: Goal) -> None:
        raise NotImplementedError("a script reads where things are")

    def act(self, sim: Simulator) -> Action:
        return next(self._script)

    @abstractmethod
    def _run(self, sim: Simulator, goal: Goal) -> Script:
        """Yield actions for ever: the skill's termination rule decides when it is over."""


class Motion:
    """One robot's motor primitives; keeps the suction's state and the arm's goal between them."""

    def __init__(self, sim: Simulator) -> None:
        self.sim = sim
        self.suction = sim.held != ""
        self.arm_goal = sim.arm_target

    def action(self, forward_m_s: float = 0.0, turn_rad_s: float = 0.0, stop: bool = False) -> Action:
        """Return one action: arm straight (in joint space) towards its goal, base at the velocities given."""
        delta = (self.arm_goal - self.sim.arm_target) / ARM_DELTA_RAD
        return {
            ARM: (delta / max(1.0, float(np.abs(delta).max()))).astype(np.float32),
            GRIP: np.array([1.0 if self.suction else -1.0], np.float32),
            BASE: np.clip([forward_m_s / BASE_MAX_M_S, turn_rad_s / BASE_MAX_RAD_S], -1.0, 1.0).astype(np.float32),
            STOP: np.array([1.0 if stop else -1.0], np.float32),
        }

    def arm_done(self) -> bool:
        return bool(np.abs(self.arm_goal - self.sim.arm).max() < ARM_DONE_RAD)

    def wait(self, steps: int) -> Script:
        for _ in range(steps):
            yield self.action()

    def arm_to(self, q: NDArray[np.float64], timeout: int = 250) -> Script:
        """Move the arm to joint positions (7,), base still."""
        self.arm_goal = q
        for _ in range(timeout):
            yield self.action()
            if self.arm_done():
                return

    def arm_line(self, start: ArmPose, end: ArmPose, step_m: float = 0.008) -> Script:
        """Move the cup along a straight line in the arm's plane (azimuth, radius, height and pitch together)."""
        length = math.hypot(end.radius - start.radius, end.z - start.z)
        length = max(length, abs(end.azimuth - start.azimuth) * end.radius, abs(end.pitch - start.pitch) * 0.5)
        for fraction in np.linspace(0.0, 1.0, max(2, math.ceil(length / step_m) + 1))[1:]:
            pose = ArmPose(*(a + fraction * (b - a) for a, b in zip(_tuple(start), _tuple(end), strict=True)))
            q = solve(pose)
            if q is None:
                continue
            self.arm_goal = q
            yield self.action()
            # Never run ahead of the joints: a fast line would otherwise be cut into a joint-space chord.
            while np.abs(self.arm_goal - self.sim.arm_target).max() > ARM_DELTA_RAD:
                yield self.action()

    def pose(self) -> ArmPose:
        """Return where the arm's goal has the cup."""
        return forward(self.arm_goal)

    def turn_to(self, yaw: float, tolerance: float = 0.03, timeout: int = 150) -> Script:
        """Turn in place to a heading (rad, world)."""
        for _ in range(timeout):
            error = math.remainder(yaw - self.sim.base[2], math.tau)
            if abs(error) < tolerance:
                return
            yield self.action(turn_rad_s=turn_rate(error))

    def drive_line(self, end: tuple[float, float], yaw: float, speed_m_s: float = 0.8, timeout: int = 200) -> Script:
        """Drive straight to a point while facing `yaw`, forwards or backwards, whichever it is."""
        heading = np.array([math.cos(yaw), math.sin(yaw)])
        left = np.array([-heading[1], heading[0]])
        stuck, last = 0, self.sim.base[:2]
        for _ in range(timeout):
            offset = np.asarray(end) - self.sim.base[:2]
            ahead = float(offset @ heading)
            if abs(ahead) < 0.01:
                return
            speed = math.copysign(min(speed_m_s, approach_speed(abs(ahead))), ahead)
            # Steer towards the line, the other way round when reversing.
            aim = yaw + math.copysign(1.0, ahead) * max(-0.3, min(0.3, 2.0 * float(offset @ left)))
            if abs(ahead) < 0.1:
                aim = yaw
            yield self.action(speed, turn_rate(math.remainder(aim - self.sim.base[2], math.tau)))
            moved = float(np.hypot(*(self.sim.base[:2] - last)))
            stuck = stuck + 1 if moved < 0.1 * abs(speed) / CONTROL_HZ else 0
            last = self.sim.base[:2]
            if stuck > 15:
                return


def approach_speed(distance_m: float) -> float:
    """Fastest speed from which the base still stops in `distance_m`."""
    return max(0.05, min(BASE_MAX_M_S, math.sqrt(2.0 * BRAKE_M_S2 * distance_m) * 0.8))


def turn_rate(error_rad: float) -> float:
    """Yaw rate that closes a heading error without overshoot."""
    return max(-BASE_MAX_RAD_S, min(BASE_MAX_RAD_S, 4.0 * error_rad))


def _tuple(pose: ArmPose) -> tuple[float, float, float, float]:
    return pose.azimuth, pose.radius, pose.z, pose.pitch
