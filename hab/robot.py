"""The Fetch as HAB configures it: joints, resting pose, limits, where its sensors sit.

Base frame: x forward, y left, z up, origin on the floor. Numbers: docs/hab.md, "Robot"; effort limits are those of
the manufacturer's URDF (fetch_description, joint `<limit effort=…>`).
"""

from __future__ import annotations

import numpy as np

ARM_JOINTS = (
    "shoulder_pan_joint",
    "shoulder_lift_joint",
    "upperarm_roll_joint",
    "elbow_flex_joint",
    "forearm_roll_joint",
    "wrist_flex_joint",
    "wrist_roll_joint",
)
REST_Q = np.array([-0.45, -1.08, 0.1, 0.935, -0.001, 1.573, 0.005])
"""(7,) resting arm pose (rad)."""
Q_MIN = np.array([-1.6056, -1.221, -np.pi, -2.251, -np.pi, -2.16, -np.pi])
Q_MAX = np.array([1.6056, 1.518, np.pi, 2.251, np.pi, 2.16, np.pi])
"""(7,) joint limits (rad); the three continuous roll joints are kept within one turn."""
EFFORT_NM = np.array([33.82, 131.76, 76.94, 66.18, 29.35, 25.70, 7.36])
"""(7,) torque limits (N m)."""
ARM_DELTA_RAD = 0.0125
"""How far a joint's target goes in a control step at most."""
ARM_WINDUP_RAD = 0.1
"""A blocked joint's target runs ahead of it by at most this much."""
PAN_X_M = 0.0326
"""Shoulder pan axis, base frame."""
LIFT_RADIUS_M = 0.117
"""Shoulder lift axis from the pan axis, and above the floor."""
LIFT_Z_M = 0.936
TORSO_LIFT_M = 0.15
REST_EE_BASE = np.array([0.5, 0.0, 1.0])
"""(3,) resting end-effector position, base frame (m)."""
EE_OFFSET_M = 0.08
"""The end-effector lies this far along +x of the gripper link: the rim of the suction cup."""
UPPER_M = 0.219 + 0.133
FORE_M = 0.197 + 0.1245
HAND_M = 0.1385 + 0.1664 + EE_OFFSET_M
"""Lengths: shoulder lift to elbow, elbow to wrist flex, wrist flex to the cup's rim."""
CUP_RADIUS_M = 0.02
BASE_RADIUS_M = 0.28
NAV_RADIUS_M = 0.30
"""Navigation grids keep so much room round the base's centre."""
BASE_MAX_M_S = 1.0
"""Forward speed at base_vel[0] = 1; habitat allows 2.5 m/s kinematically, a real Fetch about 1.0 m/s."""
BASE_MAX_RAD_S = 1.5
"""Yaw rate at base_vel[1] = 1; habitat allows 2.5 rad/s."""
BASE_FORCE_N, BASE_TORQUE_NM = 400.0, 120.0
"""Most the drive can push: about 0.35 of the robot's weight of 1,130 N."""
HEAD_CAMERA_POS = np.array([0.25, 0.0, 1.2])
HEAD_CAMERA_TARGET = np.array([0.75, 0.0, 1.0])
HEAD_CAMERA_FOV_DEG = 90.0
DEPTH_SIZE = 128
DEPTH_MAX_M = 10.0
LASER_POS = np.array([0.235, 0.0, 0.2878])
LASER_RAYS = 64
LASER_FOV_RAD = np.deg2rad(220.0)
LASER_YAWS_RAD = np.linspace(-0.5, 0.5, LASER_RAYS) * LASER_FOV_RAD
"""Right to left."""
LASER_MAX_M = 10.0
HEAD_SCAN_YAWS_RAD = np.deg2rad([-20.0, 0.0, 20.0])
HEAD_SCAN_PITCHES_RAD = np.deg2rad(np.linspace(-65.0, 15.0, 16))
"""Columns and rows of the head depth camera's image that make up the head scan: right to left, bottom to top."""
HEAD_SCAN_RAY_YAWS_RAD, HEAD_SCAN_RAY_PITCHES_RAD = (
    grid.ravel() for grid in np.meshgrid(HEAD_SCAN_YAWS_RAD, HEAD_SCAN_PITCHES_RAD, indexing="ij")
)
"""Of each ray."""
HEAD_SCAN_RAYS = len(HEAD_SCAN_RAY_YAWS_RAD)
HEAD_SCAN_MAX_M = 3.0
HEAD_LOOK_YAWS_RAD = np.deg2rad(np.linspace(-44.0, 44.0, 89))
HEAD_LOOK_PITCHES_RAD = np.deg2rad(np.linspace(-66.0, 15.0, 82))
"""The same image a ray a degree: what the planner looks at when something has been set down."""
UNKNOWN_RANGE = 0.0
"""What a range sensor says where a ray meets the robot's own arm: it knows the arm by its joints, and not what is
behind it."""
