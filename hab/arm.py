"""Closed-form inverse kinematics of the Fetch's arm with its three roll joints at zero.

Then pan turns a vertical plane in which lift, elbow and wrist are a planar three-link arm: any point in reach, at any
pitch of the cup, has an exact solution, the same one every time. An optimiser (mink, say) would use the rolls as
well, but stays iterative and start-dependent, and no oracle skill needs a tilted cup.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hab import robot
from hab.measures import AT_REST_M
from hab.robot import ARM_DELTA_RAD, FORE_M, HAND_M, LIFT_RADIUS_M, LIFT_Z_M, PAN_X_M, UPPER_M

APPROACHES = tuple((math.radians(pitch), back_m) for pitch, back_m in ((82.0, 0.12), (50.0, 0.12), (24.0, 0.12)))
"""Pitches of the cup (rad) and distances (m) before a point, along the cup's axis, that `joints_to_goal` tells of."""


@dataclass(frozen=True)
class ArmPose:
    """Where the cup's rim is, in cylindrical coordinates about the pan axis."""

    azimuth: float
    """rad, left positive, from the base's heading."""
    radius: float
    """m from the pan axis."""
    z: float
    """m above the floor."""
    pitch: float
    """rad below the horizon: 0 points ahead, pi/2 straight down."""


def cup_pose(point_base: NDArray[np.float64], pitch: float) -> ArmPose:
    """Return the pose that puts the rim's centre on a point of the base frame."""
    dx, dy = float(point_base[0]) - PAN_X_M, float(point_base[1])
    return ArmPose(math.atan2(dy, dx), math.hypot(dx, dy), float(point_base[2]), pitch)


def solve(pose: ArmPose) -> NDArray[np.float64] | None:
    """Return joint positions (7,) with the elbow up, or None if the pose is out of reach or of the joints' limits."""
    out, down, cosine = _fold(pose.radius, pose.z, pose.pitch, HAND_M)
    if abs(cosine) > 1.0:
        return None
    elbow = math.acos(cosine)
    lift = _lift(out, down, elbow)
    q = np.array([pose.azimuth, lift, 0.0, elbow, 0.0, pose.pitch - lift - elbow, 0.0])
    return q if np.all(q > robot.Q_MIN) and np.all(q < robot.Q_MAX) else None


@njit("UniTuple(float64, 3)(float64, float64, float64, float64)", cache=True)
def _fold(radius: float, z: float, pitch: float, hand_m: float) -> tuple[float, float, float]:
    """Return where the wrist is from the lift joint (m out, m down) and the cosine of the elbow that takes it there."""
    out = radius - LIFT_RADIUS_M - hand_m * math.cos(pitch)
    down = LIFT_Z_M - z - hand_m * math.sin(pitch)
    return out, down, (out * out + down * down - UPPER_M**2 - FORE_M**2) / (2.0 * UPPER_M * FORE_M)


@njit("float64(float64, float64, float64)", cache=True)
def _lift(out: float, down: float, elbow: float) -> float:
    return math.atan2(down, out) - math.atan2(FORE_M * math.sin(elbow), UPPER_M + FORE_M * math.cos(elbow))


def forward(q: NDArray[np.float64]) -> ArmPose:
    """Return the cup's pose for joint positions (7,) whose rolls are zero; the inverse of `solve`."""
    radius, z, pitch = reach_and_pitch(q)
    return ArmPose(float(q[0]), radius, z, pitch)


@njit("UniTuple(float64, 3)(float64[::1])", cache=True)
def reach_and_pitch(q: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return the cup's distance from the pan axis (m), its height (m) and its pitch (rad), as `forward` does."""
    first, second = q[1], q[1] + q[3]
    third = second + q[5]
    radius = LIFT_RADIUS_M + UPPER_M * math.cos(first) + FORE_M * math.cos(second) + HAND_M * math.cos(third)
    return radius, LIFT_Z_M - UPPER_M * math.sin(first) - FORE_M * math.sin(second) - HAND_M * math.sin(third), third


@njit("float64(float64)", cache=True)
def _wrapped(angle: float) -> float:
    """Return an angle (rad) between minus and plus half a turn."""
    return angle - math.tau * np.rint(angle / math.tau)


@njit("UniTuple(float64, 3)(float64[::1], UniTuple(float64, 3))", cache=True)
def cup_to_goal(q: NDArray[np.float64], goal_base: tuple[float, float, float]) -> tuple[float, float, float]:
    """Return how far (m) a point of the base frame is left of the cup's rim, further out, and above it, as the arm at
    joint positions (7,) can turn, stretch and lift; rolls are taken to be zero."""
    radius, z, _ = reach_and_pitch(q)
    dx, dy = goal_base[0] - PAN_X_M, goal_base[1]
    away = math.hypot(dx, dy)
    return _wrapped(math.atan2(dy, dx) - q[0]) * away, away - radius, goal_base[2] - z


@njit("float64[::1](float64[::1], UniTuple(float64, 3))", cache=True)
def joints_to_goal(q: NDArray[np.float64], goal_base: tuple[float, float, float]) -> NDArray[np.float64]:
    """Return how far (rad) lift, elbow and wrist are from having the cup at a point of the base frame, or before it:
    at the cup's pitch as it is, and for each of `APPROACHES`, (12,). Out of reach, as near as it gets."""
    lift, elbow, wrist = q[1], q[3], q[5]
    away = math.hypot(goal_base[0] - PAN_X_M, goal_base[1])
    moves = np.empty(3 + 3 * len(APPROACHES))
    for i in range(1 + len(APPROACHES)):
        pitch, back_m = lift + elbow + wrist, 0.0
        if i > 0:
            pitch, back_m = APPROACHES[i - 1]
        out, down, cosine = _fold(away, goal_base[2], pitch, HAND_M + back_m)
        bent = math.acos(max(-0.99, min(0.99, cosine)))
        first = _lift(out, down, bent)
        moves[3 * i] = _wrapped(first - lift)
        moves[3 * i + 1] = _wrapped(bent - elbow)
        moves[3 * i + 2] = _wrapped(pitch - first - bent - wrist)
    return moves


def travel_steps(q_from: NDArray[np.float64], q_to: NDArray[np.float64]) -> float:
    """Control steps that a straight joint-space motion takes."""
    return float(np.abs(q_to - q_from).max()) / ARM_DELTA_RAD


@lru_cache(maxsize=1)
def _resting() -> NDArray[np.float64]:
    """Return the arm poses (n, 7) that count as at rest with a margin: the task asks for the cup's place only."""
    found = []
    for radius in np.arange(0.36, 0.60, 0.02):
        for z in np.arange(0.90, 1.11, 0.02):
            if math.hypot(radius + PAN_X_M - robot.REST_EE_BASE[0], z - robot.REST_EE_BASE[2]) < AT_REST_M - 0.03:
                solved = (solve(ArmPose(0.0, float(radius), float(z), float(p))) for p in np.arange(0.2, 1.58, 0.1))
                found += [q for q in solved if q is not None]
    return np.array(found)


def resting_near(q: NDArray[np.float64], short_m: Callable[[ArmPose], float] | None = None) -> NDArray[np.float64]:
    """Return the pose (7,) at rest that the arm reaches soonest, the downward ones first when it is a tie.

    `short_m`: by how much a pose fails to be of use; those that fail least are chosen from.
    """
    poses = _resting()
    if short_m is not None:
        short = np.array([max(0.0, short_m(forward(pose))) for pose in poses])
        poses = poses[short <= short.min()]
    cost = np.abs(poses - q).max(axis=1) + 0.15 * np.abs(poses - robot.REST_Q).max(axis=1)
    return poses[int(np.argmin(cost))]
