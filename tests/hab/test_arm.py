"""The arm's closed-form kinematics against MuJoCo's forward kinematics and against mink's iterative inverse."""

from __future__ import annotations

import math

import mink
import mujoco
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hab import robot
from hab.arm import ArmPose, forward, hand_frame, jacobian, solve
from hab.episodes import make_episode
from hab.mujoco import fetch
from hab.mujoco.simulator import MujocoSimulator

SIM = MujocoSimulator()
SIM.reset(make_episode("tidy_house", "train", 0))
poses = st.builds(
    ArmPose,
    st.floats(-1.5, 1.5),
    st.floats(0.40, 1.05),
    st.floats(0.25, 1.35),
    st.floats(0.0, math.pi / 2),
)


def ee_of(q: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Cup position (3,) and rotation (3, 3) in the base frame, by MuJoCo."""
    SIM.place_robot(np.zeros(3), q)
    return SIM.ee_pos, SIM.ee_mat


def expected_ee(pose: ArmPose) -> tuple[np.ndarray, np.ndarray]:
    """The same from the pose's definition: the cup's x axis looks along azimuth and down by pitch, its y axis left."""
    c, s, cp, sp = math.cos(pose.azimuth), math.sin(pose.azimuth), math.cos(pose.pitch), math.sin(pose.pitch)
    x, y = np.array([c * cp, s * cp, -sp]), np.array([-s, c, 0.0])
    position = np.array([0.0326 + pose.radius * c, pose.radius * s, pose.z])
    return position, np.stack([x, y, np.cross(x, y)], axis=1)


@settings(max_examples=200, deadline=None, derandomize=True)
@given(poses)
def test_solve_puts_the_cup_there(pose: ArmPose) -> None:
    q = solve(pose)
    assume(q is not None)
    assert q is not None and np.all(q >= robot.Q_MIN) and np.all(q <= robot.Q_MAX)
    position, rotation = ee_of(q)
    wanted_position, wanted_rotation = expected_ee(pose)
    np.testing.assert_allclose(position, wanted_position, atol=1.5e-3)
    np.testing.assert_allclose(rotation, wanted_rotation, atol=1e-3)


@settings(max_examples=100, deadline=None, derandomize=True)
@given(poses)
def test_forward_inverts_solve(pose: ArmPose) -> None:
    q = solve(pose)
    assume(q is not None)
    assert q is not None
    back = forward(q)
    assert (back.azimuth, back.radius, back.z, back.pitch) == pytest.approx(
        (pose.azimuth, pose.radius, pose.z, pose.pitch), abs=1e-9
    )


@settings(max_examples=12, deadline=None, derandomize=True)
@given(poses)
def test_mink_finds_no_better(pose: ArmPose) -> None:
    """Started beside the closed form, mink's solver converges to the same cup pose and stays within the limits."""
    q = solve(pose)
    assume(q is not None)
    assert q is not None
    wanted_position, wanted_rotation = ee_of(q)
    configuration = mink.Configuration(SIM.model)
    start = SIM.data.qpos.copy()
    first = int(SIM.model.joint(fetch.ARM_JOINTS[0]).qposadr[0])
    dof = int(SIM.model.joint(fetch.ARM_JOINTS[0]).dofadr[0])
    start[first : first + 7] = np.clip(q + 0.15, robot.Q_MIN + 0.02, robot.Q_MAX - 0.02)
    configuration.update(start)
    task = mink.FrameTask(fetch.EE, "site", position_cost=1.0, orientation_cost=0.3)
    turn = mink.SO3.from_matrix(wanted_rotation)
    task.set_target(mink.SE3.from_rotation_and_translation(turn, wanted_position))
    moving = slice(dof, dof + 7)
    velocity = np.zeros(SIM.model.nv)
    for _ in range(60):
        jacobian, error = task.compute_jacobian(configuration)[:, moving], task.compute_error(configuration)
        velocity[moving] = -np.linalg.solve(jacobian.T @ jacobian + 1e-6 * np.eye(7), jacobian.T @ error)
        configuration.integrate_inplace(np.clip(velocity, -0.2, 0.2), 1.0)
    reached = configuration.get_transform_frame_to_world(fetch.EE, "site")
    np.testing.assert_allclose(reached.translation(), wanted_position, atol=1e-3)
    np.testing.assert_allclose(reached.rotation().as_matrix(), wanted_rotation, atol=5e-3)


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1))
def test_any_joint_positions_have_mujocos_hand_and_jacobian(seed: int) -> None:
    """Rolls, too; the Jacobian is of a point beside the hand that goes with it."""
    rng = np.random.default_rng(seed)
    q = rng.uniform(robot.Q_MIN, robot.Q_MAX)
    place, axes = hand_frame(q)
    expected = ee_of(q)
    np.testing.assert_allclose(place, expected[0], atol=1e-9)
    np.testing.assert_allclose(axes, expected[1], atol=1e-9)
    point = place + axes @ rng.uniform(-0.2, 0.2, 3)
    model, data = SIM.model, SIM.data
    moves, turns = np.zeros((3, model.nv)), np.zeros((3, model.nv))
    mujoco.mj_comPos(model, data)
    mujoco.mj_jac(model, data, moves, turns, point, model.body(fetch.GRIPPER).id)
    joints = model.jnt_dofadr[[model.joint(name).id for name in fetch.ARM_JOINTS]]
    np.testing.assert_allclose(jacobian(q, point), np.concatenate((moves, turns))[:, joints], atol=1e-9)
