"""The Fetch for MuJoCo: gymnasium-robotics' links, inertias and meshes, with HAB's base, arm drives and suction cup.

Collision and depth use one or two primitives a link (group 1); the meshes are drawn only by the third-person
camera (group 2), because their 20,000 triangles would cost more than the rest of the apartment.
"""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import mujoco
import numpy as np

from hab import robot

_UPSTREAM = "robot0:"
_ATTACHED = "fetch/"


def attached(name: str) -> str:
    """Return the name that a part of the robot ("gripper_link", a joint …) has in a model made by `add_fetch`."""
    return f"{_ATTACHED}{_UPSTREAM}{name}"


BASE, GRIPPER, CUP, EE = attached("base_link"), attached("gripper_link"), attached("cup"), attached("ee")
BASE_JOINTS = tuple(attached(name) for name in ("base_x", "base_y", "base_yaw"))
ARM_JOINTS = tuple(attached(name) for name in robot.ARM_JOINTS)
HEAD_CAMERA = attached("head")
GROUP_COLLISION, GROUP_MESH = 1, 2

_BASE_GAIN = (6000.0, 6000.0, 600.0)
ARM_KP = np.array([4000.0, 4000.0, 2500.0, 2500.0, 900.0, 900.0, 400.0])
ARM_KV = np.array([250.0, 250.0, 140.0, 140.0, 36.0, 36.0, 14.0])
_ARM_ARMATURE = np.array([0.4, 0.4, 0.25, 0.25, 0.12, 0.12, 0.08])

# link, shape, from/to or position, size: base frame of each link, read off the mesh extents.
PRIMITIVES: tuple[tuple[str, str, tuple[float, ...], tuple[float, ...]], ...] = (
    ("base_link", "prism", (0.0, 0.0, 0.195), (0.28, 0.165)),
    ("torso_lift_link", "box", (-0.05, 0.0, 0.3), (0.115, 0.16, 0.29)),
    ("torso_fixed_link", "box", (-0.1, 0.0, 0.21), (0.068, 0.155, 0.22)),
    ("head_pan_link", "box", (0.05, 0.0, 0.055), (0.12, 0.12, 0.058)),
    ("shoulder_pan_link", "capsule", (0.0, 0.0, 0.035, 0.117, 0.0, 0.05), (0.058,)),
    ("shoulder_lift_link", "capsule", (0.02, 0.0, 0.0, 0.2, 0.0, 0.0), (0.056,)),
    ("upperarm_roll_link", "capsule", (0.0, 0.0, 0.0, 0.13, 0.0, 0.0), (0.055,)),
    ("elbow_flex_link", "capsule", (0.0, 0.0, 0.0, 0.18, 0.0, 0.0), (0.053,)),
    ("forearm_roll_link", "capsule", (0.0, 0.0, 0.0, 0.12, 0.0, 0.0), (0.053,)),
    ("wrist_flex_link", "capsule", (0.0, 0.0, 0.0, 0.13, 0.0, 0.0), (0.053,)),
    ("gripper_link", "box", (-0.093, 0.0, 0.0), (0.061, 0.062, 0.038)),
)
# Neighbours (and neighbours' neighbours, whose thick primitives overlap at a bent joint) never collide.
_EXCLUDE = (
    ("base_link", "torso_lift_link"),
    ("base_link", "torso_fixed_link"),
    ("torso_lift_link", "torso_fixed_link"),
    ("torso_lift_link", "head_pan_link"),
    ("torso_lift_link", "shoulder_pan_link"),
    ("torso_fixed_link", "shoulder_pan_link"),
    ("head_pan_link", "shoulder_pan_link"),
    ("torso_lift_link", "shoulder_lift_link"),
    ("base_link", "shoulder_pan_link"),
    ("shoulder_pan_link", "shoulder_lift_link"),
    ("shoulder_pan_link", "upperarm_roll_link"),
    ("shoulder_lift_link", "upperarm_roll_link"),
    ("shoulder_lift_link", "elbow_flex_link"),
    ("upperarm_roll_link", "elbow_flex_link"),
    ("upperarm_roll_link", "forearm_roll_link"),
    ("elbow_flex_link", "forearm_roll_link"),
    ("elbow_flex_link", "wrist_flex_link"),
    ("forearm_roll_link", "wrist_flex_link"),
    ("forearm_roll_link", "gripper_link"),
    ("wrist_flex_link", "gripper_link"),
)
_DROPPED_BODIES = (
    "mocap",
    "r_gripper_finger_link",
    "l_gripper_finger_link",
    "external_camera_body_0",
    "head_camera_link",
    "gripper_camera_link",
    "estop_link",
    "laser_link",
)
_SHAPES = {
    "box": mujoco.mjtGeom.mjGEOM_BOX,
    "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER,
    "capsule": mujoco.mjtGeom.mjGEOM_CAPSULE,
    "prism": mujoco.mjtGeom.mjGEOM_MESH,
}
_PRISM_SIDES = 32


def add_fetch(spec: mujoco.MjSpec) -> None:
    """Attach the robot to an apartment, its base at the world's origin (base frame = world frame at zero joints)."""
    spec.attach(_fetch_spec(), prefix=_ATTACHED, frame=spec.worldbody.add_frame())


def _fetch_spec() -> mujoco.MjSpec:
    spec = _upstream_spec()
    for name in _DROPPED_BODIES:
        spec.delete(spec.body(_UPSTREAM + name))
    for camera in list(spec.cameras):
        spec.delete(camera)
    for pair in list(spec.excludes) + list(spec.equalities):
        spec.delete(pair)
    used = {geom.meshname for geom in spec.geoms}
    for mesh in list(spec.meshes):
        if mesh.name not in used:
            spec.delete(mesh)
    _fix_torso_and_head(spec)
    for geom in spec.geoms:
        geom.group, geom.contype, geom.conaffinity = GROUP_MESH, 0, 0
    for body in spec.bodies:
        if body.name.startswith(_UPSTREAM):
            body.gravcomp = 1.0
    _add_base(spec)
    _add_arm(spec)
    _add_collision(spec)
    _add_cup_and_camera(spec)
    return spec


def _upstream_spec() -> mujoco.MjSpec:
    # find_spec, not import: importing gymnasium_robotics registers dozens of environments and prints warnings.
    package = find_spec("gymnasium_robotics")
    if package is None or package.origin is None:
        raise ModuleNotFoundError("gymnasium-robotics is not installed: pip install 'gymnasium-robotics>=1.4'")
    assets = Path(package.origin).parent / "envs" / "assets"
    return mujoco.MjSpec.from_string(
        f"""<mujoco><compiler angle="radian" meshdir="{assets / "stls" / "fetch"}" texturedir="{assets / "textures"}"/>
        <include file="{assets / "fetch" / "shared.xml"}"/>
        <worldbody><include file="{assets / "fetch" / "robot.xml"}"/></worldbody></mujoco>"""
    )


def _fix_torso_and_head(spec: mujoco.MjSpec) -> None:
    """HAB holds the torso at 0.15 m and the head still: no joints."""
    spec.delete(spec.joint(_UPSTREAM + "torso_lift_joint"))
    spec.delete(spec.joint(_UPSTREAM + "head_pan_joint"))
    spec.delete(spec.joint(_UPSTREAM + "head_tilt_joint"))
    torso = spec.body(_UPSTREAM + "torso_lift_link")
    torso.pos = torso.pos + np.array([0.0, 0.0, robot.TORSO_LIFT_M])
    for texture in list(spec.textures):
        spec.delete(texture)
    for material in list(spec.materials):
        if not material.name.startswith(_UPSTREAM):
            spec.delete(material)


def _add_base(spec: mujoco.MjSpec) -> None:
    base = spec.body(_UPSTREAM + "base_link")
    base.pos = np.zeros(3)
    for joint in list(base.joints):
        spec.delete(joint)
    slide, hinge = mujoco.mjtJoint.mjJNT_SLIDE, mujoco.mjtJoint.mjJNT_HINGE
    axes = ((slide, (1, 0, 0)), (slide, (0, 1, 0)), (hinge, (0, 0, 1)))
    limits = (robot.BASE_FORCE_N, robot.BASE_FORCE_N, robot.BASE_TORQUE_NM)
    for name, (kind, axis), gain, limit in zip(("base_x", "base_y", "base_yaw"), axes, _BASE_GAIN, limits, strict=True):
        name = _UPSTREAM + name
        base.add_joint(name=name, type=kind, axis=axis)
        actuator = spec.add_actuator(name=name, target=name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        actuator.set_to_velocity(gain)
        actuator.forcelimited, actuator.forcerange = True, (-limit, limit)
        actuator.ctrllimited, actuator.ctrlrange = True, (-3.0 * robot.BASE_MAX_M_S, 3.0 * robot.BASE_MAX_M_S)


def _add_arm(spec: mujoco.MjSpec) -> None:
    for i, name in enumerate(robot.ARM_JOINTS):
        joint = spec.joint(_UPSTREAM + name)
        joint.limited, joint.range = True, (robot.Q_MIN[i], robot.Q_MAX[i])
        joint.armature, joint.frictionloss = _ARM_ARMATURE[i], 0.0
        joint.damping, joint.stiffness = (1.0, 0.0, 0.0), (0.0, 0.0, 0.0)  # linear, quadratic, cubic terms
        actuator = spec.add_actuator(name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT)
        actuator.set_to_position(ARM_KP[i], ARM_KV[i])
        actuator.forcelimited, actuator.forcerange = True, (-robot.EFFORT_NM[i], robot.EFFORT_NM[i])


def _add_collision(spec: mujoco.MjSpec) -> None:
    for link, shape, place, size in PRIMITIVES:
        geom = spec.body(_UPSTREAM + link).add_geom(name=_UPSTREAM + link + "/collision", type=_SHAPES[shape])
        if shape == "prism":
            geom.meshname = _add_prism(spec, *size)
        else:
            geom.size[: len(size)] = size
        if shape == "capsule":
            geom.fromto = place
        else:
            geom.pos = place
        _as_collision(geom)
    for first, second in _EXCLUDE:
        spec.add_exclude(bodyname1=_UPSTREAM + first, bodyname2=_UPSTREAM + second)


def _add_prism(spec: mujoco.MjSpec, radius_m: float, half_height_m: float) -> str:
    """Add the mesh of an upright prism and return its name.

    It stands for a cylinder: where one meets a box's corner, MuJoCo 4.0 reports a side's normal and too little depth
    (its multi-point contact; 4 cm of a table leg went unnoticed). Polyhedra it gets right.
    """
    angles = 2.0 * np.pi * np.arange(_PRISM_SIDES) / _PRISM_SIDES
    ring = radius_m * np.stack([np.cos(angles), np.sin(angles), 0.0 * angles], axis=1)
    vertices = np.concatenate([ring - (0.0, 0.0, half_height_m), ring + (0.0, 0.0, half_height_m)])
    mesh = spec.add_mesh(name=_UPSTREAM + "prism", uservert=vertices.reshape(-1).tolist())
    return str(mesh.name)


def _add_cup_and_camera(spec: mujoco.MjSpec) -> None:
    gripper = spec.body(_UPSTREAM + "gripper_link")
    rod = gripper.add_geom(name=_UPSTREAM + "rod", type=_SHAPES["capsule"], fromto=(-0.04, 0, 0, 0.040, 0, 0))
    rod.size[0] = 0.008
    _as_collision(rod)
    rim = (0.055, 0, 0, robot.EE_OFFSET_M, 0, 0)
    cup = gripper.add_geom(name=_UPSTREAM + "cup", type=_SHAPES["cylinder"], fromto=rim)
    cup.size[0] = robot.CUP_RADIUS_M
    _as_collision(cup)
    cup.rgba = (0.1, 0.1, 0.1, 1)
    gripper.add_site(name=_UPSTREAM + "ee", pos=(robot.EE_OFFSET_M, 0, 0), group=5)
    look = robot.HEAD_CAMERA_TARGET - robot.HEAD_CAMERA_POS
    right = np.array([0.0, -1.0, 0.0])
    up = np.cross(right, look / np.linalg.norm(look))
    camera = spec.body(_UPSTREAM + "base_link").add_camera(
        name=_UPSTREAM + "head", pos=robot.HEAD_CAMERA_POS, fovy=robot.HEAD_CAMERA_FOV_DEG
    )
    camera.alt.type = mujoco.mjtOrientation.mjORIENTATION_XYAXES
    camera.alt.xyaxes = np.concatenate([right, up])


def _as_collision(geom: mujoco.MjsGeom) -> None:
    geom.group, geom.contype, geom.conaffinity = GROUP_COLLISION, 1, 1
    geom.rgba = (0.36, 0.36, 0.38, 1)
    geom.material = ""
    geom.mass = 0.0
    geom.margin = 0.0
    geom.solref, geom.solimp = (0.02, 1.0), (0.9, 0.95, 0.001, 0.5, 2.0)
