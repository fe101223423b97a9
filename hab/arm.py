"""Kinematics of the Fetch's arm: forward for any joint positions, and closed-form inverse with its three rolls at zero.

With rolls at zero pan turns a vertical plane in which lift, elbow and wrist are a planar three-link arm: any point in
reach, at any pitch of the cup, has an exact solution, the same one every time. An optimiser (mink, say) would use the
rolls as well, but stays iterative and start-dependent, and no oracle skill needs a tilted cup.
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

_TURNS = np.array([(0, 0, 1), (0, 1, 0), (1, 0, 0), (0, 1, 0), (1, 0, 0), (0, 1, 0), (1, 0, 0)], np.float64)
"""(7, 3) the joints' axes where all are at zero: pan, lift, roll, elbow, roll, wrist, roll."""
_BEFORE_M = np.array(
    [(PAN_X_M, 0, 0), (LIFT_RADIUS_M, 0, LIFT_Z_M), (0, 0, 0), (UPPER_M, 0, 0), (0, 0, 0), (FORE_M, 0, 0), (0, 0, 0)]
)
"""(7, 3) from each joint to the next, likewise; a roll's place on its axis is of no matter."""


def hand_frame(q: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the end-effector's place (3,) (m) and axes (3, 3), base frame, for any joint positions (7,) (rad)."""
    places, _, axes = _joints(q)
    return places[-1] + axes @ (HAND_M, 0.0, 0.0), axes


def jacobian(q: NDArray[np.float64], point: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return (6, 7) how a point (3,) of the base frame that goes with the hand moves (m), and how the hand turns (rad),
    for each joint's move (rad)."""
    places, turns, _ = _joints(q)
    return np.concatenate((np.cross(turns, point - places), turns), axis=1).T


@njit("Tuple((float64[:, ::1], float64[:, ::1], float64[:, ::1]))(float64[::1])", cache=True)
def _joints(q: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return the joints' places and axes (7, 3), and the hand's axes (3, 3), in the base frame."""
    places, turns, axes, at = np.empty((7, 3)), np.empty((7, 3)), np.eye(3), np.zeros(3)
    for k in range(7):
        at = at + axes @ _BEFORE_M[k]
        places[k], turns[k] = at, axes @ _TURNS[k]
        cos, sin = math.cos(q[k]), math.sin(q[k])
        a, b = (1, 2) if _TURNS[k, 0] == 1.0 else (2, 0) if _TURNS[k, 1] == 1.0 else (0, 1)
        turned = axes.copy()
        turned[:, a], turned[:, b] = cos * axes[:, a] + sin * axes[:, b], cos * axes[:, b] - sin * axes[:, a]
        axes = turned
    return places, turns, axes


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
    # From the lift joint to the wrist.
    out = pose.radius - LIFT_RADIUS_M - HAND_M * math.cos(pose.pitch)
    down = LIFT_Z_M - pose.z - HAND_M * math.sin(pose.pitch)
    cosine = (out * out + down * down - UPPER_M**2 - FORE_M**2) / (2.0 * UPPER_M * FORE_M)
    if abs(cosine) > 1.0:
        return None
    elbow = math.acos(cosine)
    lift = math.atan2(down, out) - math.atan2(FORE_M * math.sin(elbow), UPPER_M + FORE_M * math.cos(elbow))
    q = np.array([pose.azimuth, lift, 0.0, elbow, 0.0, pose.pitch - lift - elbow, 0.0])
    return q if np.all(q > robot.Q_MIN) and np.all(q < robot.Q_MAX) else None


def forward(q: NDArray[np.float64]) -> ArmPose:
    """Return the cup's pose for joint positions (7,) whose rolls are zero; the inverse of `solve`."""
    azimuth, lift, _, elbow, _, wrist, _ = q.tolist()
    first, second, third = lift, lift + elbow, lift + elbow + wrist
    radius = LIFT_RADIUS_M + UPPER_M * math.cos(first) + FORE_M * math.cos(second) + HAND_M * math.cos(third)
    z = LIFT_Z_M - UPPER_M * math.sin(first) - FORE_M * math.sin(second) - HAND_M * math.sin(third)
    return ArmPose(azimuth, radius, z, third)


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
