"""The Fetch as a URDF for habitat-lab's `FetchSuctionRobot`: links, joints, primitives and meshes as in MuJoCo.

habitat-lab knows the robot's parts by number (`arm_joints` 15-21, torso 6, head 8 and 9, suction 23), and expects a
base frame with y up; all other links have their z-up frames. Numbers are given in the order in which habitat-sim
walks the tree, depth first, so parts that our robot lacks (wheels, camera frames) are there as empty links.
"""

from __future__ import annotations

import math
from pathlib import Path

import mujoco
import numpy as np
import trimesh
from numpy.typing import NDArray

from hab import robot
from hab.habitat import meshes
from hab.habitat.frames import TO_HABITAT, matrix
from hab.habitat.urdf import Link, Pose, Shape, write_urdf
from hab.mujoco import fetch
from hab.scene import Rgba

URDF = Path("robots") / "fetch_suction.urdf"
SUCTION = "suction_link"
_HEAD_CAMERA = "head_camera_link"
_TREE: tuple[tuple[str, str], ...] = (
    ("torso_fixed_link", "base_link"),
    ("estop_link", "base_link"),
    ("r_wheel_link", "base_link"),
    ("laser_link", "base_link"),
    ("l_wheel_link", "base_link"),
    ("bellows_link", "base_link"),
    ("torso_lift_link", "base_link"),
    ("bellows_link2", "torso_lift_link"),
    ("head_pan_link", "torso_lift_link"),
    ("head_tilt_link", "head_pan_link"),
    (_HEAD_CAMERA, "head_tilt_link"),
    ("head_camera_rgb_frame", _HEAD_CAMERA),
    ("head_camera_rgb_optical_frame", "head_camera_rgb_frame"),
    ("head_camera_depth_frame", _HEAD_CAMERA),
    ("head_camera_depth_optical_frame", "head_camera_depth_frame"),
    ("shoulder_pan_link", "torso_lift_link"),
    ("shoulder_lift_link", "shoulder_pan_link"),
    ("upperarm_roll_link", "shoulder_lift_link"),
    ("elbow_flex_link", "upperarm_roll_link"),
    ("forearm_roll_link", "elbow_flex_link"),
    ("wrist_flex_link", "forearm_roll_link"),
    ("wrist_roll_link", "wrist_flex_link"),
    ("gripper_link", "wrist_roll_link"),
    (SUCTION, "gripper_link"),
)
"""Links and their parents; a link's place is its number."""
LINKS = tuple(name for name, _ in _TREE)
_ARM_LINKS = tuple(joint.replace("_joint", "_link") for joint in robot.ARM_JOINTS)
MOVING_LINKS = (*_ARM_LINKS, "gripper_link", SUCTION)
"""What of the robot range sensors take for its arm."""
_WHEELS = ("r_wheel_link", "l_wheel_link")
_LOCKED_AXES = {"head_pan_link": (0.0, 0.0, 1.0), SUCTION: (1.0, 0.0, 0.0)}
_LOCKED_RAD = 1e-4
"""Range of the joints that habitat-lab wants and ours has not: the head's pan and the suction."""
_COLOURS: dict[str, Rgba] = {"gripper_link": (0.35, 0.36, 0.38, 1.0), "base_link": (0.55, 0.56, 0.58, 1.0)}
_COLOUR: Rgba = (0.86, 0.86, 0.87, 1.0)
_CUP_KG, _CUP_KG_M2 = 1.0, (0.002, 0.002, 0.002)
"""The gripper's share that the suction link has: Bullet does not hold what is far heavier than the link it hangs on."""
CUP_CENTRE_M = robot.EE_OFFSET_M - robot.CUP_RADIUS_M
"""Of the suction cup's ball, along +x of the suction link."""
_SUCTION_GEOMS = {fetch.attached("rod"), fetch.attached("cup")}
_IDENTITY: Pose = ((0.0, 0.0, 0.0), np.eye(3))


def write_fetch(folder: Path) -> None:
    """Write the URDF and its meshes under a folder."""
    spec = mujoco.MjSpec()
    fetch.add_fetch(spec)
    model = spec.compile()
    path = folder / URDF
    links = [_link(model, path, "base_link", "")] + [_link(model, path, name, parent) for name, parent in _TREE]
    write_urdf(path, "fetch_suction", links)


def _link(model: mujoco.MjModel, path: Path, name: str, parent: str) -> Link:
    link = Link(name, parent)
    bodies = {model.body(b).name: b for b in range(model.nbody)}
    body = bodies.get(fetch.attached(name))
    if body is not None:
        turn = TO_HABITAT if not parent else np.eye(3)
        link.mass_kg = float(model.body_mass[body])
        link.inertia = _inertia(model, body, turn)
        link.mesh = _write_mesh(model, path, name, body)
        link.mesh_pose = _turned(turn, _IDENTITY)
        link.shapes = _shapes(model, body, turn)
        link.pose = model.body_pos[body], _rotation(model.body_quat[body])
    if name == "gripper_link":
        link.mass_kg -= _CUP_KG
    if name == SUCTION:
        link.mass_kg, link.inertia = _CUP_KG, _CUP_KG_M2
        # A ball for a cup, as far out: what it holds swivels on it; a rim levers (MuJoCo's ceases to collide).
        ball = Shape("sphere", (robot.CUP_RADIUS_M,), ((CUP_CENTRE_M, 0.0, 0.0), np.eye(3)))
        link.shapes = [*_shapes(model, bodies[fetch.GRIPPER], np.eye(3), fetch.attached("rod")), ball]
    if parent == "base_link":
        link.pose = _turned(TO_HABITAT, link.pose)
    _set_joint(model, link)
    return link


def _set_joint(model: mujoco.MjModel, link: Link) -> None:
    if link.name in _ARM_LINKS:
        i = _ARM_LINKS.index(link.name)
        joint = model.joint(fetch.ARM_JOINTS[i])
        x, y, z = (float(value) for value in joint.axis)
        link.joint, link.axis = "revolute", (x, y, z)
        link.limits, link.effort = (float(robot.Q_MIN[i]), float(robot.Q_MAX[i])), float(robot.EFFORT_NM[i])
    elif link.name == "torso_lift_link":
        # In MuJoCo the lift is part of the link's place.
        position, rotation = link.pose
        link.pose = np.asarray(position) - np.array([0.0, robot.TORSO_LIFT_M, 0.0]), rotation
        link.joint, link.axis, link.limits = "prismatic", (0.0, 0.0, 1.0), (0.0, 0.386)
    elif link.name == "head_tilt_link":
        # habitat-lab sets the tilt to 90 degrees; there, ours is level.
        position, rotation = link.pose
        link.pose = position, rotation @ matrix((0.0, 0.0, 0.0), (math.sqrt(0.5), 0.0, -math.sqrt(0.5), 0.0))[:3, :3]
        link.joint, link.axis, link.limits = "revolute", (0.0, 1.0, 0.0), (0.0, 1.6)
    elif link.name in _LOCKED_AXES:
        link.joint, link.axis, link.limits = "revolute", _LOCKED_AXES[link.name], (-_LOCKED_RAD, _LOCKED_RAD)
    elif link.name in _WHEELS:
        link.joint, link.axis = "continuous", (0.0, 1.0, 0.0)


def _write_mesh(model: mujoco.MjModel, path: Path, name: str, body: int) -> str:
    for geom in range(model.ngeom):
        if model.geom_bodyid[geom] != body or model.geom_group[geom] != fetch.GROUP_MESH:
            continue
        mesh = int(model.geom_dataid[geom])
        first, count = model.mesh_vertadr[mesh], model.mesh_vertnum[mesh]
        start, faces = model.mesh_faceadr[mesh], model.mesh_facenum[mesh]
        part = trimesh.Trimesh(
            model.mesh_vert[first : first + count], model.mesh_face[start : start + faces], process=False
        )
        part.apply_transform(matrix(model.geom_pos[geom], tuple(model.geom_quat[geom])))
        part.unmerge_vertices()
        file = f"meshes/{name}.glb"
        meshes.write_parts(path.parent / file, [meshes.Part(part, _COLOURS.get(name, _COLOUR))])
        return file
    return ""


def _shapes(model: mujoco.MjModel, body: int, turn: NDArray[np.float64], only: str = "") -> list[Shape]:
    """Return a body's collision primitives, the suction's left out; or the only one of a name."""
    found = []
    for geom in range(model.ngeom):
        if model.geom_bodyid[geom] != body or model.geom_group[geom] != fetch.GROUP_COLLISION:
            continue
        name = model.geom(geom).name
        if name != only if only else name in _SUCTION_GEOMS:
            continue
        pose = _turned(turn, (model.geom_pos[geom], _rotation(model.geom_quat[geom])))
        a, b, c = (float(value) for value in model.geom_size[geom])
        match int(model.geom_type[geom]):
            case mujoco.mjtGeom.mjGEOM_BOX:
                found.append(Shape("box", (2 * a, 2 * b, 2 * c), pose))
            case mujoco.mjtGeom.mjGEOM_CAPSULE:
                found.append(Shape("capsule", (a, 2 * b), pose))
            case mujoco.mjtGeom.mjGEOM_CYLINDER:
                found.append(Shape("cylinder", (a, 2 * b), pose))
            case _:  # the base's prism, which stands for a cylinder
                _, (_, _, z), (radius, half) = next(
                    (link, at, size) for link, kind, at, size in fetch.PRIMITIVES if kind == "prism"
                )
                found.append(Shape("cylinder", (radius, 2 * half), _turned(turn, ((0.0, 0.0, z), np.eye(3)))))
    return found


def _inertia(model: mujoco.MjModel, body: int, turn: NDArray[np.float64]) -> tuple[float, float, float]:
    """Return a body's moments about its origin (parallel axes), products left out."""
    middle, axes = turn @ model.body_ipos[body], turn @ _rotation(model.body_iquat[body])
    tensor = axes @ np.diag(model.body_inertia[body]) @ axes.T
    tensor += model.body_mass[body] * (middle @ middle * np.eye(3) - np.outer(middle, middle))
    x, y, z = (float(value) for value in np.diag(tensor))
    return x, y, z


def _turned(turn: NDArray[np.float64], pose: Pose) -> Pose:
    position, rotation = pose
    return turn @ np.asarray(position), turn @ rotation


def _rotation(quat: NDArray[np.float64]) -> NDArray[np.float64]:
    return matrix((0.0, 0.0, 0.0), tuple(quat))[:3, :3]
