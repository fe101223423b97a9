"""What Habitat's files look like to the touch: meshes, URDF trees and primitives as triangles."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import trimesh
from numpy.typing import NDArray

Triangles = NDArray[np.float64]
"""(n, 3, 3) corners in m."""
Matrix = NDArray[np.float64]
"""(4, 4) transform of points as columns."""


class DataError(ValueError):
    """A folder of Habitat data lacks something, or holds what cannot be used; the message is one line."""


@dataclass(frozen=True)
class UrdfLink:
    """One link, where all joints are at 0."""

    name: str
    joint: str
    """Type of the joint that moves it: "fixed", "revolute", "continuous", "prismatic"; "" for the root."""
    pose: Matrix
    """Link to root."""
    axis: NDArray[np.float64]
    """(3,) of the joint, in the link's frame."""
    limits: tuple[float, float]
    """Of the joint (m or rad)."""
    triangles: Triangles
    """What it collides with, in the link's frame."""


def moved(triangles: Triangles, pose: Matrix) -> Triangles:
    """Return triangles after a transform."""
    return triangles @ pose[:3, :3].T + pose[:3, 3]


def joined(parts: Sequence[Triangles]) -> Triangles:
    return np.concatenate([np.zeros((0, 3, 3)), *parts])


@lru_cache(maxsize=1024)
def mesh_triangles(path: Path) -> Triangles:
    """Return a mesh file's triangles in its own frame. Raises `DataError`."""
    try:
        mesh: Any = trimesh.load(path, force="mesh", process=False, skip_materials=True)
        found = np.asarray(mesh.triangles, dtype=np.float64)
    except Exception as error:  # whatever a broken or unknown file makes trimesh raise
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise DataError(f"{path}: cannot be read as a mesh ({said})") from error
    found.flags.writeable = False
    return found


@lru_cache(maxsize=256)
def read_urdf(path: Path, by_name: bool = True) -> tuple[UrdfLink, ...]:
    """Return a URDF's links in habitat-sim's order: the root, then link 0, link 1 and so on. Raises `DataError`.

    `by_name`: depth first, siblings by their joints' names (`link_order` "tree_traversal", its default, in
    `BulletURDFImporter::computeParentIndices` over a `std::map`); else as they stand in the file ("urdf_order").
    """
    try:
        robot = ET.parse(path).getroot()
        links = {link.attrib["name"]: link for link in robot.findall("link")}
        children: dict[str, list[ET.Element]] = {name: [] for name in links}
        parent_joints = {}
        for joint in robot.findall("joint"):
            parent, child = _named(joint, "parent"), _named(joint, "child")
            children[parent].append(joint)
            parent_joints[child] = joint
        (root,) = (name for name in links if name not in parent_joints)
        found: dict[str, UrdfLink] = {}

        def visit(name: str, pose: Matrix) -> None:
            joint = parent_joints.get(name)
            found[name] = _link(path, links[name], joint, pose)
            for child in sorted(children[name], key=lambda joint: joint.attrib["name"]):
                visit(_named(child, "child"), pose @ _origin(child))

        visit(root, np.eye(4))
    except (OSError, ET.ParseError, KeyError, ValueError) as error:
        if isinstance(error, DataError):
            raise
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise DataError(f"{path}: is no URDF of one tree of links ({said})") from error
    order = list(found) if by_name else [root, *(name for name in links if name != root)]
    return tuple(found[name] for name in order)


def _link(path: Path, element: ET.Element, joint: ET.Element | None, pose: Matrix) -> UrdfLink:
    solid = joined([_collision(path, shape) for shape in element.findall("collision")])
    name = element.attrib["name"]
    if joint is None:
        return UrdfLink(name, "", pose, np.array((1.0, 0.0, 0.0)), (0.0, 0.0), solid)
    axis, limit = joint.find("axis"), joint.find("limit")
    direction = np.array(_numbers(axis.attrib["xyz"]) if axis is not None else (1.0, 0.0, 0.0))
    limits = (0.0, 0.0) if limit is None else (float(limit.get("lower", 0.0)), float(limit.get("upper", 0.0)))
    return UrdfLink(name, joint.attrib["type"], pose, direction / np.linalg.norm(direction), limits, solid)


def _collision(path: Path, element: ET.Element) -> Triangles:
    geometry = element.find("geometry")
    shape = None if geometry is None else next(iter(geometry), None)
    if shape is None:
        raise DataError(f"{path}: a collision element without a geometry")
    match shape.tag:
        case "mesh":
            file = path.parent / shape.attrib["filename"]
            if not file.is_file():
                raise DataError(f"{path}: names the mesh {shape.attrib['filename']}, which is not there")
            made = mesh_triangles(file) * np.array(_numbers(shape.get("scale", "1 1 1")))
        case "box":
            made = trimesh.creation.box(_numbers(shape.attrib["size"])).triangles
        case "sphere":
            made = trimesh.creation.icosphere(radius=float(shape.attrib["radius"]), subdivisions=2).triangles
        case "cylinder":
            made = trimesh.creation.cylinder(float(shape.attrib["radius"]), float(shape.attrib["length"])).triangles
        case "capsule":
            made = trimesh.creation.capsule(float(shape.attrib["length"]), float(shape.attrib["radius"])).triangles
        case _:
            raise DataError(f"{path}: collides with a {shape.tag}, which is not known here")
    return moved(np.asarray(made, dtype=np.float64), _origin(element))


def _origin(element: ET.Element) -> Matrix:
    """Return the transform of an element's `origin`: URDF's roll, pitch and yaw turn about fixed axes."""
    pose, origin = np.eye(4), element.find("origin")
    if origin is not None:
        roll, pitch, yaw = _numbers(origin.get("rpy", "0 0 0"))
        pose[:3, :3] = trimesh.transformations.euler_matrix(roll, pitch, yaw, axes="sxyz")[:3, :3]
        pose[:3, 3] = _numbers(origin.get("xyz", "0 0 0"))
    return pose


def _named(joint: ET.Element, tag: str) -> str:
    element = joint.find(tag)
    if element is None:
        raise ValueError(f"joint {joint.get('name')} without {tag}")
    return element.attrib["link"]


def _numbers(text: str) -> list[float]:
    """Return three numbers; ReplicaCAD's files part some by commas."""
    values = [float(value) for value in re.split(r"[,\s]+", text.strip())]
    if len(values) != 3:
        raise ValueError(f"{text!r} are not three numbers")
    return values
