"""What an action asks of the robot's drives, compiled: it runs in every control step."""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hab import robot
from hab.actions import CONTROL_HZ
from hab.mujoco import fetch
from hab.robot import ARM_DELTA_RAD, BASE_MAX_M_S, BASE_MAX_RAD_S

NO_MOTION = np.zeros(0, np.float32)
"""The value of a part that the action does not have."""
_ARM_DELTA_RAD, _WINDUP_RAD = np.float32(ARM_DELTA_RAD), robot.ARM_WINDUP_RAD
_Q_MIN, _Q_MAX = robot.Q_MIN, robot.Q_MAX
_FEED_FORWARD = CONTROL_HZ * fetch.ARM_KV / fetch.ARM_KP
_ONE = np.float32(1.0)


@njit(
    "boolean(float32[::1], float32[::1], float64[::1], float64, float64[::1], float64[::1], float64[::1])", cache=True
)
def command(
    arm: NDArray[np.float32],
    velocity: NDArray[np.float32],
    q: NDArray[np.float64],
    yaw: float,
    target: NDArray[np.float64],
    arm_ctrl: NDArray[np.float64],
    base_ctrl: NDArray[np.float64],
) -> bool:
    """Move the arm's joint targets (7,), and set the controls of arm (7,) and base (3,); False: the action has a NaN.

    arm (7,) and velocity (2,) are the action's parts, or `NO_MOTION`; q (7,) joint positions and yaw (rad) of now.
    """
    for value in arm:
        if math.isnan(value):
            return False
    for value in velocity:
        if math.isnan(value):
            return False
    if len(arm) == 0:
        arm_ctrl[:] = target
    for i in range(len(arm)):
        before = target[i]
        aim = before + np.float64(_ARM_DELTA_RAD * min(max(arm[i], -_ONE), _ONE))
        aim = max(aim, max(q[i] - _WINDUP_RAD, _Q_MIN[i]))
        aim = min(aim, min(q[i] + _WINDUP_RAD, _Q_MAX[i]))
        target[i] = aim
        # Velocity feed-forward: the drives' damping would else hold the joints 0.02 rad behind a moving target.
        arm_ctrl[i] = aim + _FEED_FORWARD[i] * (aim - before)
    base_ctrl[:] = 0.0
    if len(velocity) > 0:
        forward = BASE_MAX_M_S * min(max(np.float64(velocity[0]), -1.0), 1.0)
        turn = BASE_MAX_RAD_S * min(max(np.float64(velocity[1]), -1.0), 1.0)
        # Heading half a control step ahead: the drives keep world axes for the whole step.
        heading = yaw + 0.5 * turn / CONTROL_HZ
        base_ctrl[0], base_ctrl[1], base_ctrl[2] = forward * math.cos(heading), forward * math.sin(heading), turn
    return True


@njit(
    "UniTuple(float64, 2)(float64[::1], float64[::1], float64[::1], float64[::1], float64[::1], float64[::1],"
    "float64[::1], float64[::1])",
    cache=True,
)
def strain(
    force: NDArray[np.float64],
    ee_mat: NDArray[np.float64],
    gripper: NDArray[np.float64],
    gripper_mat: NDArray[np.float64],
    body: NDArray[np.float64],
    body_mat: NDArray[np.float64],
    local: NDArray[np.float64],
    held_at: NDArray[np.float64],
) -> tuple[float, float]:
    """Return the pull or shear on the seal, squared (N^2), and how far (m) what it holds has been dragged in it.

    force: the constraint's first three numbers, what the gripper feels: along the cup's axis, which points out of it, a
    pull is positive; pressing breaks no seal. Positions (3,) and rotations (9,) of the gripper and of the body held;
    where on the body (3,) it is held, and where in the gripper's frame (3,) that was when it was.
    """
    along = force[0] * ee_mat[0] + force[1] * ee_mat[3] + force[2] * ee_mat[6]
    pressed = min(0.0, along)
    load = force[0] ** 2 + force[1] ** 2 + force[2] ** 2 - pressed**2
    away, dragged = np.empty(3), 0.0
    for i in range(3):
        m = body_mat[3 * i : 3 * i + 3]
        away[i] = body[i] + m[0] * local[0] + m[1] * local[1] + m[2] * local[2] - gripper[i]
    for i in range(3):
        here = gripper_mat[i] * away[0] + gripper_mat[3 + i] * away[1] + gripper_mat[6 + i] * away[2]
        dragged += (here - held_at[i]) ** 2
    return load, math.sqrt(dragged)
