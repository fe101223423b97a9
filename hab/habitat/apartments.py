"""Our apartments as a Habitat scene dataset: stages, articulated kitchens, objects and scene instances.

Folders and conventions are ReplicaCAD's: y up, a stage per apartment, `kitchen_counter` and `fridge` as articulated
objects with a handle each drawer and door. What the tasks of habitat-lab take for granted is kept: a counter of eight
joints, a fridge whose second joint is its door, links whose +x points to whoever opens them.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hab.habitat.frames import TO_HABITAT, matrix, quat_to_habitat, to_habitat, yaw_quat
from hab.habitat.meshes import geom_part, write_glb, write_parts
from hab.habitat.urdf import Link, Shape, write_urdf
from hab.mujoco.build import (
    DOOR_DAMPING,
    DOOR_FRICTION,
    DOOR_KG,
    DRAWER_DAMPING,
    DRAWER_FRICTION,
    DRAWER_KG,
    FLOOR_MARGIN_M,
    ROLLING_M,
)
from hab.objects import OBJECTS
from hab.openings import link_to_world, rotated
from hab.scene import Articulation, Furniture, Geom, Quat, Receptacle, Rgba, Scene, Vec3, volume

DATASET = "tpsrl.scene_dataset_config.json"
PHYSICS = "physics_config.json"
COUNTER, FRIDGE = "kitchen_counter", "fridge"
COUNTER_JOINTS, FIRST_DRAWER = 8, 2
"""ReplicaCAD's counter has eight joints; ours, from the third on, are the drawers."""
FRIDGE_JOINTS, FRIDGE_DOOR = 2, 1
"""ReplicaCAD's fridge has two doors; our freezer's stays shut."""
FLOOR_THICK_M = 0.1
_FLOORS: dict[str, Rgba] = {
    "wood_floor": (0.74, 0.59, 0.42, 1.0),
    "dark_floor": (0.48, 0.35, 0.25, 1.0),
    "tile_floor": (0.71, 0.69, 0.65, 1.0),
}
"""The mean colours of the floors' textures in MuJoCo."""
_ANNOTATED, _ANNOTATED_M = "receptacle_aabb_", 0.1
"""What names of annotated boxes over surfaces begin with, as ReplicaCAD's; how high they are, at most."""
_STEP_S = 0.008
_OPENING_PER_S = 0.3
"""m or rad: how fast a drawer or a door is drawn."""
_FRICTION = 0.8
"""Of walls and furniture."""
_MARGIN_M = 0.004
"""Bullet's collision margin. Its default of 4 cm is as much as a can's radius."""


def scene_name(seed: int) -> str:
    return f"apartment_{seed}"


def articulated_name(kind: str, seed: int) -> str:
    """Return the template's name of an apartment's counter or fridge; habitat-sim calls the only one NAME_:0000."""
    return f"{COUNTER if kind == 'cabinet' else FRIDGE}_{seed}"


def link_name(articulation: Articulation) -> str:
    return f"{articulation.name}_link"


def joint_index(articulation: Articulation) -> int:
    """Return an articulation's place among its counter's, or its fridge's, joints."""
    if articulation.kind == "fridge":
        return FRIDGE_DOOR
    return FIRST_DRAWER + int(articulation.name.removeprefix("drawer_"))


def handle_offset(articulation: Articulation) -> Vec3:
    """Return the handle's centre in the frame of its link as exported (m, y up), whose origin is the joint's."""
    return to_habitat(np.subtract(articulation.handle_pos, articulation.anchor))


def receptacle_name(scene: Scene, receptacle: Receptacle) -> str:
    """Return what habitat-lab calls a receptacle (`Receptacle.unique_name`)."""
    owner = "stage"
    if receptacle.articulation:
        kind = scene.articulation(receptacle.articulation).kind
        owner = f"{articulated_name(kind, scene.seed)}_:0000"
    return f"{owner}|{_ANNOTATED}{receptacle.name}"


def write_dataset(folder: Path) -> None:
    """Write what all apartments share: the dataset's description and the objects."""
    paths = {
        "stages": [".json", "stages"],
        "objects": [".json", "objects"],
        "articulated_objects": [".json", "urdf/*"],
        "scene_instances": [".json", "scenes"],
    }
    _write_json(
        folder / DATASET,
        {key: {"paths": {extension: [place]}} for key, (extension, place) in paths.items()} | {"navmesh_instances": {}},
    )
    write_physics(folder / PHYSICS)
    for name, model in OBJECTS.items():
        solid = [geom for geom in model.geoms if geom.collides]
        write_glb(folder / "objects" / f"{name}.glb", [geom_part(geom) for geom in model.geoms])
        write_parts(folder / "objects" / f"{name}_collision.glb", [geom_part(geom) for geom in solid])
        _write_json(
            folder / "objects" / f"{name}.object_config.json",
            {
                "render_asset": f"{name}.glb",
                "collision_asset": f"{name}_collision.glb",
                "mass": model.mass_kg,
                "COM": [0.0, 0.0, 0.0],
                "join_collision_meshes": len(solid) == 1,
                "margin": _MARGIN_M,
                "friction_coefficient": 0.9,
                # Bullet multiplies it by the friction of what is rolled on.
                "rolling_friction_coefficient": max(ROLLING_M.get(geom.shape, 0.0) for geom in solid) / _FRICTION,
                "restitution_coefficient": 0.0,
                "units_to_meters": 1.0,
                "requires_lighting": True,
            },
        )


def write_physics(file: Path) -> None:
    """Write habitat's own defaults of the physics."""
    _write_json(
        file,
        {
            "physics_simulator": "bullet",
            "timestep": _STEP_S,
            "gravity": [0, -9.8, 0],
            "friction_coefficient": 0.4,
            "restitution_coefficient": 0.1,
        },
    )


def write_apartment(folder: Path, scene: Scene) -> None:
    """Write one apartment: its stage, its kitchen's articulated objects and the scene instance that joins them."""
    name = scene_name(scene.seed)
    articulated = {articulation.furniture for articulation in scene.articulations}
    everything = [_floor(scene)] + [geom for piece in scene.furniture for geom in piece.geoms]
    fixed = [_floor(scene)] + [g for piece in scene.furniture if piece.name not in articulated for g in piece.geoms]
    stages = folder / "stages"
    write_glb(stages / f"{name}.glb", [geom_part(geom) for geom in everything])
    # Counter and fridge are seen with the stage, because the navigation mesh is made from what is seen, and touched
    # with their drawers and doors, because parts of one articulated object do not collide.
    write_glb(stages / f"{name}_collision.glb", [geom_part(geom) for geom in fixed if geom.collides])
    _write_json(
        stages / f"{name}.stage_config.json",
        {
            "render_asset": f"{name}.glb",
            "collision_asset": f"{name}_collision.glb",
            "up": [0.0, 1.0, 0.0],
            "front": [0.0, 0.0, -1.0],
            "margin": _MARGIN_M,
            "friction_coefficient": _FRICTION,
            "restitution_coefficient": 0.0,
            "requires_lighting": True,
            "user_defined": _annotations([r for r in scene.receptacles if not r.articulation], np.eye(4)),
        },
    )
    instances = []
    for kind in ("cabinet", "fridge"):
        position, quat = _write_articulated(folder, scene, kind)
        instances.append(
            {
                "template_name": articulated_name(kind, scene.seed),
                "translation": list(position),
                "rotation": list(quat),
                "fixed_base": True,
                "motion_type": "DYNAMIC",
                "auto_clamp_joint_limits": True,
            }
        )
    _write_json(
        folder / "scenes" / f"{name}.scene_instance.json",
        {
            "translation_origin": "asset_local",
            "stage_instance": {"template_name": name},
            "default_lighting": "",
            "object_instances": [],
            "articulated_object_instances": instances,
            "navmesh_instance": "",
        },
    )


def _write_articulated(folder: Path, scene: Scene, kind: str) -> tuple[Vec3, Quat]:
    """Write a kitchen piece as URDF; return where its root is (the floor under its middle), in habitat's frame."""
    parts = [a for a in scene.articulations if a.kind == kind]
    carcass = next(p for p in scene.furniture if p.name == parts[0].furniture)
    yaw = parts[0].yaw
    root, turn = to_habitat((*_middle(carcass, yaw), 0.0)), yaw_quat(yaw)
    base = Link("base", mass_kg=50.0, inertia=(10.0, 10.0, 10.0))
    inverse = np.linalg.inv(matrix(root, turn))
    for geom in carcass.geoms:
        if geom.collides:
            pose = inverse @ matrix(to_habitat(geom.pos), quat_to_habitat(geom.quat))
            base.shapes.append(_shape(geom, pose))
    by_joint = {joint_index(part): part for part in parts}
    count = COUNTER_JOINTS if kind == "cabinet" else FRIDGE_JOINTS
    name = articulated_name(kind, scene.seed)
    place = folder / "urdf" / name
    links = [base]
    surfaces: dict[str, Any] = {}
    for i in range(count):
        part = by_joint.get(i)
        if part is None:
            links.append(Link(f"unused_{i}_link", "base", "prismatic", limits=(0.0, 1e-4)))
        else:
            links.append(_moving(place, part, inverse))
            # What lies in the fridge stays where it is when its door opens.
            parent, frame = (links[-1], _link_frame(part)) if kind == "cabinet" else (base, matrix(root, turn))
            inside = [r for r in scene.receptacles if r.articulation == part.name]
            surfaces |= _annotations(inside, np.linalg.inv(frame).astype(np.float64), parent.name)
    write_urdf(place / f"{name}.urdf", name, links, furniture=True)
    _write_json(
        place / f"{name}.ao_config.json",
        {
            "urdf_filepath": f"{name}.urdf",
            "base_type": "fixed",
            "inertia_source": "urdf",
            "link_order": "urdf_order",
            "render_mode": "link_visuals",
            "user_defined": surfaces,
        },
    )
    return root, turn


def _annotations(receptacles: Sequence[Receptacle], to_frame: NDArray[np.float64], link: str = "") -> dict[str, Any]:
    """Return the boxes over surfaces as habitat-lab's `parse_receptacles_from_user_config` reads them.

    They lie in the frame that `to_frame` (4, 4) takes habitat's world to: quarter turns of the apartment's axes."""
    boxes: dict[str, Any] = {}
    for receptacle in receptacles:
        x, y, z = receptacle.center
        high = min(_ANNOTATED_M, receptacle.clearance_m) / 2.0
        half = np.array((receptacle.half_extents[0], high, receptacle.half_extents[1]))
        center = to_frame @ np.array((*to_habitat((x, y, z + high)), 1.0))
        turn = to_frame[:3, :3] @ matrix((0.0, 0.0, 0.0), yaw_quat(receptacle.yaw))[:3, :3]
        boxes[f"{_ANNOTATED}{receptacle.name}"] = {
            "position": center[:3].round(9).tolist(),
            "scale": (np.abs(turn.round(6)) @ half).round(9).tolist(),  # half its sides
            **({"parent_link": link} if link else {}),
        }
    return boxes


def _link_frame(part: Articulation) -> NDArray[np.float64]:
    """Return where a drawer's or a door's link is in habitat's world (4, 4), closed."""
    return matrix(to_habitat(link_to_world(part, 0.0, part.anchor)), yaw_quat(part.yaw))


def _moving(place: Path, part: Articulation, inverse: NDArray[np.floating]) -> Link:
    """Return a drawer or a door, its frame's origin on its joint."""
    pose = inverse @ _link_frame(part)
    x, y, z = part.anchor
    geoms = [replace(g, pos=(g.pos[0] - x, g.pos[1] - y, g.pos[2] - z)) for g in part.geoms]
    solid = [geom for geom in geoms if geom.collides]
    mesh = f"{part.name}.glb"
    write_glb(place / mesh, [geom_part(geom) for geom in geoms])
    door = part.kind == "fridge"
    mass, total = DOOR_KG if door else DRAWER_KG, sum(map(volume, solid))
    moments = np.sum([_moments(geom, mass * volume(geom) / total) for geom in solid], axis=0)
    return Link(
        link_name(part),
        "base",
        "revolute" if door else "prismatic",
        (pose[:3, 3], pose[:3, :3]),
        to_habitat(part.axis),
        part.joint_range,
        damping=_brake(DOOR_FRICTION, DOOR_DAMPING) if door else _brake(DRAWER_FRICTION, DRAWER_DAMPING),
        mass_kg=mass,
        inertia=(float(moments[0]), float(moments[2]), float(moments[1])),
        mesh=mesh,
        shapes=[_shape(geom, matrix(to_habitat(geom.pos), quat_to_habitat(geom.quat))) for geom in solid],
    )


def _brake(friction: float, damping: float) -> float:
    """Return `Link.damping` of a joint's dry friction (N, N m) and viscous damping, the latter as at a usual speed.

    habitat-sim makes a motor of it that wants the joint still.
    """
    return (friction + damping * _OPENING_PER_S) * _STEP_S


def _moments(box: Geom, mass_kg: float) -> NDArray[np.float64]:
    """Return a box's moments of inertia (3,) about the axes of the frame it is placed in, unturned (kg m^2)."""
    squares = np.square(box.size) / 3.0 + np.square(box.pos)
    return mass_kg * (squares.sum() - squares)


def _shape(geom: Geom, pose: NDArray[np.float64]) -> Shape:
    """Return a primitive of ours, whose axes `pose` has turned to y up, as URDF's."""
    a, b, c = geom.size
    if geom.shape == "box":
        return Shape("box", (2 * a, 2 * c, 2 * b), (pose[:3, 3], pose[:3, :3]))
    if geom.shape in ("cylinder", "capsule"):  # URDF's lie along their z axis, which was ours
        return Shape(geom.shape, (a, 2 * b), (pose[:3, 3], pose[:3, :3] @ TO_HABITAT))
    raise ValueError(f"{geom.name}: no URDF primitive for a {geom.shape}")


def _middle(piece: Furniture, yaw: float) -> tuple[float, float]:
    """Return the middle of a piece's colliding boxes on the floor (world, m)."""
    corners = []
    for geom in piece.geoms:
        if geom.collides and geom.shape == "box":
            turn = 2.0 * math.atan2(geom.quat[3], geom.quat[0]) - yaw
            reach = np.abs([[math.cos(turn), math.sin(turn)], [math.sin(turn), math.cos(turn)]]) @ geom.size[:2]
            middle = rotated(-yaw, geom.pos[:2])
            corners += [middle - reach, middle + reach]
    x, y = rotated(yaw, (np.min(corners, axis=0) + np.max(corners, axis=0)) / 2)
    return float(x), float(y)


def _floor(scene: Scene) -> Geom:
    x0, y0, x1, y1 = scene.bounds
    half = ((x1 - x0) / 2 + FLOOR_MARGIN_M, (y1 - y0) / 2 + FLOOR_MARGIN_M, FLOOR_THICK_M / 2)
    middle = ((x0 + x1) / 2, (y0 + y1) / 2, -FLOOR_THICK_M / 2)
    return Geom("floor", "box", middle, half, _FLOORS[scene.floor_material])


def _write_json(path: Path, content: dict[str, Any] | Sequence[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content, indent=1) + "\n")
