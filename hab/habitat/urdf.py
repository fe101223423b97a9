"""URDF files: links with a mesh to be seen and primitives to be touched, joined by joints.

Positions are metres in the frame of the parent, rotations (3, 3) or none.
"""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hab.habitat.frames import roll_pitch_yaw

Pose = tuple[Sequence[float] | NDArray[np.float64], NDArray[np.float64]]
"""Position (3,) in m and rotation (3, 3)."""


@dataclass
class Shape:
    """A primitive to collide with: "box" (full sizes), "cylinder" or "capsule" (radius, length; along z), "sphere"."""

    kind: str
    size: tuple[float, ...]
    pose: Pose


@dataclass
class Link:
    """One rigid part and the joint that hangs it on its parent (the first link of a file has none)."""

    name: str
    parent: str = ""
    joint: str = "fixed"
    """"fixed", "revolute", "continuous" or "prismatic"."""
    pose: Pose = field(default_factory=lambda: ((0.0, 0.0, 0.0), np.eye(3)))
    """Of the link in its parent, at joint position 0."""
    axis: tuple[float, float, float] = (1.0, 0.0, 0.0)
    limits: tuple[float, float] = (0.0, 0.0)
    """Of the joint (m or rad)."""
    effort: float = 1000.0
    """Most the joint bears (N or N m)."""
    damping: float = 0.0
    """As habitat-sim reads it: dry friction, as the impulse a physics step (N s or N m s)."""
    mass_kg: float = 0.01
    inertia: tuple[float, float, float] = (1e-5, 1e-5, 1e-5)
    """About the link's origin, along its axes (kg m^2): the centre of mass is written there, because habitat-sim tells
    links' poses by it."""
    mesh: str = ""
    """File to be drawn, relative to the URDF; in the link's frame."""
    mesh_pose: Pose = field(default_factory=lambda: ((0.0, 0.0, 0.0), np.eye(3)))
    shapes: list[Shape] = field(default_factory=list)


_DYNAMIC = "8"
"""habitat_sim.physics.CollisionGroups.Dynamic."""


def write_urdf(path: Path, name: str, links: Sequence[Link], furniture: bool = False) -> None:
    """Write the links, each after its parent, as one robot.

    `furniture`: into Bullet's group of things that can be moved. habitat-sim takes every URDF for a robot, and
    habitat-lab lets what is held, or was let go of within reach, pass through robots.
    """
    robot = ET.Element("robot", name=name)
    for link in links:
        _add_link(robot, link, {"group": _DYNAMIC} if furniture else {})
        if link.parent:
            _add_joint(robot, link)
    ET.indent(robot)
    path.parent.mkdir(parents=True, exist_ok=True)
    ET.ElementTree(robot).write(path, encoding="unicode", xml_declaration=True)


def _add_link(robot: ET.Element, link: Link, filters: dict[str, str]) -> None:
    element = ET.SubElement(robot, "link", name=link.name)
    inertial = ET.SubElement(element, "inertial")
    _add_origin(inertial, ((0.0, 0.0, 0.0), np.eye(3)))
    ET.SubElement(inertial, "mass", value=_number(link.mass_kg))
    ixx, iyy, izz = (_number(value) for value in link.inertia)
    ET.SubElement(inertial, "inertia", ixx=ixx, iyy=iyy, izz=izz, ixy="0", ixz="0", iyz="0")
    if link.mesh:
        visual = ET.SubElement(element, "visual")
        _add_origin(visual, link.mesh_pose)
        ET.SubElement(ET.SubElement(visual, "geometry"), "mesh", filename=link.mesh, scale="1 1 1")
    for shape in link.shapes:
        collision = ET.SubElement(element, "collision", filters)
        _add_origin(collision, shape.pose)
        geometry = ET.SubElement(collision, "geometry")
        if shape.kind == "box":
            ET.SubElement(geometry, "box", size=_numbers(shape.size))
        elif shape.kind == "sphere":
            ET.SubElement(geometry, "sphere", radius=_number(shape.size[0]))
        else:
            radius, length = shape.size
            ET.SubElement(geometry, shape.kind, radius=_number(radius), length=_number(length))


def _add_joint(robot: ET.Element, link: Link) -> None:
    joint = ET.SubElement(robot, "joint", name=f"{link.name}_joint", type=link.joint)
    _add_origin(joint, link.pose)
    ET.SubElement(joint, "parent", link=link.parent)
    ET.SubElement(joint, "child", link=link.name)
    if link.joint == "fixed":
        return
    ET.SubElement(joint, "axis", xyz=_numbers(link.axis))
    ET.SubElement(joint, "dynamics", damping=_number(link.damping))
    if link.joint != "continuous":
        lower, upper = (_number(value) for value in link.limits)
        ET.SubElement(joint, "limit", lower=lower, upper=upper, effort=_number(link.effort), velocity="3")


def _add_origin(element: ET.Element, pose: Pose) -> None:
    position, rotation = pose
    ET.SubElement(element, "origin", xyz=_numbers(position), rpy=_numbers(roll_pitch_yaw(rotation)))


def _numbers(values: Sequence[float] | NDArray[np.float64]) -> str:
    return " ".join(_number(float(value)) for value in values)


def _number(value: float) -> str:
    return f"{value:.9g}"
