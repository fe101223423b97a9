"""Our primitives as meshes in habitat's frame, and GLB files of them (trimesh)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import trimesh
from trimesh.visual.material import PBRMaterial

from hab.habitat.frames import TO_HABITAT, matrix
from hab.scene import Geom, Rgba

_ROUND = 24
"""Sides of what is round."""
_SHINY = {"steel": (1.0, 0.35), "stone": (0.0, 0.4), "tiles": (0.0, 0.4)}
"""Metalness and roughness of the surfaces of `hab.mujoco.build.MATERIALS` that are not dull."""


@dataclass(frozen=True)
class Part:
    """A mesh of one colour."""

    mesh: trimesh.Trimesh
    rgba: Rgba
    material: str = ""
    """As in `Geom`."""


def geom_part(geom: Geom) -> Part:
    """Return a primitive in habitat's axes."""
    mesh = _shape(geom)
    mesh.apply_transform(matrix(geom.pos, geom.quat))
    mesh.vertices = mesh.vertices @ TO_HABITAT.T
    if geom.shape in ("box", "cylinder"):
        mesh.unmerge_vertices()  # edges stay sharp: each face has normals of its own
    return Part(mesh, geom.rgba, geom.material)


def write_glb(path: Path, parts: Iterable[Part]) -> None:
    """Write parts into one file; those of the same looks become one."""
    groups: dict[tuple[Rgba, str], list[trimesh.Trimesh]] = {}
    for part in parts:
        groups.setdefault((part.rgba, part.material), []).append(part.mesh)
    write_parts(path, [Part(_joined(meshes), *looks) for looks, meshes in groups.items()])


def write_parts(path: Path, parts: Sequence[Part]) -> None:
    """Write parts into one file and leave them apart: of each, habitat-sim makes a convex hull to collide with."""
    scene = trimesh.Scene()
    for i, part in enumerate(parts):
        metal, rough = _SHINY.get(part.material, (0.0, 0.9))
        colour = [round(255 * value) for value in part.rgba]
        surface = PBRMaterial(baseColorFactor=colour, metallicFactor=metal, roughnessFactor=rough)
        part.mesh.visual = trimesh.visual.TextureVisuals(material=surface)
        scene.add_geometry(part.mesh, node_name=f"part_{i}", geom_name=f"part_{i}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(scene.export(file_type="glb"))


def _joined(meshes: list[trimesh.Trimesh]) -> trimesh.Trimesh:
    vertices = np.concatenate([mesh.vertices for mesh in meshes])
    starts = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes[:-1])])
    faces = np.concatenate([mesh.faces + start for mesh, start in zip(meshes, starts, strict=True)])
    normals = np.concatenate([mesh.vertex_normals for mesh in meshes])
    return trimesh.Trimesh(vertices, faces, vertex_normals=normals, process=False)


def _shape(geom: Geom) -> trimesh.Trimesh:
    a, b, c = geom.size
    match geom.shape:
        case "box":
            return trimesh.creation.box((2 * a, 2 * b, 2 * c))
        case "cylinder":
            return trimesh.creation.cylinder(a, 2 * b, sections=_ROUND)
        case "capsule":
            return trimesh.creation.capsule(2 * b, a, count=[_ROUND, _ROUND // 2])
        case "sphere":
            return trimesh.creation.uv_sphere(a, count=[_ROUND, _ROUND // 2])
        case "ellipsoid":
            mesh = trimesh.creation.uv_sphere(1.0, count=[_ROUND, _ROUND // 2])
            mesh.apply_scale((a, b, c))
            return mesh
    raise ValueError(f"no mesh for the shape {geom.shape!r} of {geom.name}")
