"""Apartments in Habitat's formats, read back by others: trimesh for GLB, MuJoCo for URDF, json for the rest."""

from __future__ import annotations

import gzip
import json
import math
import re
import xml.etree.ElementTree as ET
from collections import Counter
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
import trimesh
from click.testing import CliRunner
from numpy.typing import NDArray

from hab import robot
from hab.backend import make_simulator
from hab.episodes import load_scene, make_episode
from hab.habitat import apartments, fetch
from hab.habitat.episodes import FRIDGE_MARKER, TASK_MARKER, handles
from hab.habitat.export import export
from hab.habitat.frames import from_habitat, roll_pitch_yaw, to_habitat
from hab.habitat.lab import CONFIGS
from hab.objects import HOUSE_OBJECTS, OBJECTS, object_kind
from hab.openings import handle_at
from tpsrl.commands import cli

SEED = 1000
"""The first val apartment."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp("habitat")
    export(path, "val", scenes=2, episodes=5)
    return path


def read(path: Path) -> Any:
    return json.loads(path.read_text())


def load_urdf(path: Path) -> mujoco.MjModel:
    """Compile a URDF without its meshes to look at: MuJoCo reads no GLB."""
    tree = ET.parse(path)
    for link in tree.getroot().iter("link"):
        for visual in link.findall("visual"):
            link.remove(visual)
    return mujoco.MjModel.from_xml_string(ET.tostring(tree.getroot(), encoding="unicode"))


def first_hit(triangles: NDArray[np.float64], origin: NDArray[np.float64], ray: NDArray[np.float64]) -> float:
    """Distance to the nearest of (n, 3, 3) triangles along a ray of length 1; Möller and Trumbore, 1997."""
    corner, first, second = triangles[:, 0], triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]
    across = np.cross(ray, second)
    volume = np.einsum("ij,ij->i", first, across)
    with np.errstate(divide="ignore", invalid="ignore"):
        away = origin - corner
        u = np.einsum("ij,ij->i", away, across) / volume
        side = np.cross(away, first)
        v = side @ ray / volume
        distance = np.einsum("ij,ij->i", second, side) / volume
    inside = (np.abs(volume) > 1e-12) & (u >= 0) & (v >= 0) & (u + v <= 1) & (distance > 0)
    return float(distance[inside].min(initial=math.inf))


def test_every_file_that_a_config_names_is_there(folder: Path) -> None:
    keys = {"render_asset", "collision_asset", "urdf_filepath"}
    named = 0
    for config in folder.rglob("*_config.json"):
        for key in keys & set(content := read(config)):
            assert (config.parent / content[key]).is_file(), f"{config}: {key}"
            named += 1
    for urdf in folder.rglob("*.urdf"):
        for mesh in ET.parse(urdf).getroot().iter("mesh"):
            assert (urdf.parent / mesh.attrib["filename"]).is_file(), urdf
            named += 1
    assert named == 2 * len(OBJECTS) + 2 * 2 + 2 * (2 + 7) + 13


def test_scene_dataset_finds_what_it_lists(folder: Path) -> None:
    dataset = read(folder / apartments.DATASET)
    for kind, ending in (
        ("stages", "stage_config"),
        ("objects", "object_config"),
        ("articulated_objects", "ao_config"),
        ("scene_instances", "scene_instance"),
    ):
        ((extension, (pattern,)),) = dataset[kind]["paths"].items()
        found = [p for place in folder.glob(pattern) for p in place.glob(f"*.{ending}{extension}")]
        assert (
            len(found) == {"stages": 2, "objects": len(OBJECTS), "articulated_objects": 4, "scene_instances": 2}[kind]
        )


def test_stage_has_the_apartments_extent(folder: Path) -> None:
    scene = load_scene(SEED)
    stage = trimesh.load(folder / "stages" / f"apartment_{SEED}.glb", force="mesh")
    x0, y0, x1, y1 = scene.bounds
    corners = sorted([to_habitat((x0, y0, 0.0)), to_habitat((x1, y1, 0.0))])
    low, high = np.min(corners, axis=0), np.max(corners, axis=0)
    # Outer walls and the floor's edge lie within half a metre around the inner faces.
    assert np.all(stage.bounds[0][[0, 2]] < low[[0, 2]]) and np.all(stage.bounds[0][[0, 2]] > low[[0, 2]] - 0.5)
    assert np.all(stage.bounds[1][[0, 2]] > high[[0, 2]]) and np.all(stage.bounds[1][[0, 2]] < high[[0, 2]] + 0.5)
    assert stage.bounds[0][1] == pytest.approx(-apartments.FLOOR_THICK_M)


@pytest.mark.parametrize("seed", [SEED, SEED + 1])
def test_rays_meet_the_stage_where_they_meet_the_apartment(folder: Path, seed: int) -> None:
    """Rays from a metre above free floor, straight down and level, against MuJoCo's own geometry."""
    sim = make_simulator()
    episode = make_episode("tidy_house", "val", seed - SEED)
    sim.reset(episode)
    model, data = sim.model, sim.data  # type: ignore[attr-defined]
    stage = trimesh.load(folder / "stages" / f"apartment_{seed}.glb", force="mesh")
    rng = np.random.default_rng(seed)
    origins = np.array([(*sim.nav.sample(rng), 0.6) for _ in range(20)])
    angles = rng.uniform(-math.pi, math.pi, 20)
    directions = np.stack([np.cos(angles), np.sin(angles), rng.uniform(-0.6, 0.3, 20)], axis=1)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    # Furniture, decorations and drawers; neither the robot nor the objects, which are no part of the stage.
    groups = np.array([1, 0, 0, 0, 1, 0], dtype=np.uint8)
    agree = 0
    for origin, direction in zip(origins, directions, strict=True):
        geom = np.zeros(1, dtype=np.int32)
        expected = mujoco.mj_ray(model, data, origin, direction, groups, 1, -1, geom, None)
        name = model.body(int(model.geom_bodyid[geom[0]])).name
        moving = {a.name for a in sim.scene.articulations} | set(sim.scene.objects)
        if expected < 0 or name in moving:
            continue
        nearest = first_hit(np.asarray(stage.triangles), np.array(to_habitat(origin)), np.array(to_habitat(direction)))
        assert nearest == pytest.approx(expected, abs=0.01), f"from {origin} along {direction}: {name}"
        agree += 1
    assert agree >= 10


def test_objects_have_their_size(folder: Path) -> None:
    for name, model in OBJECTS.items():
        mesh = trimesh.load(folder / "objects" / f"{name}_collision.glb", force="mesh")
        x, y, z = (2 * half for half in model.half_extents)
        z += model.half_height_m - model.half_extents[2]  # a bottle is heavier below
        x -= 0.022 if name == "025_mug" else 0.0  # its handle is on one side
        # Round things are polygons of 24 sides, and the bowl's slabs reach a little beyond its circle.
        assert mesh.extents == pytest.approx((x, z, y), rel=0.03, abs=0.008), name
        assert read(folder / "objects" / f"{name}.object_config.json")["mass"] == model.mass_kg


def test_robot_has_habitats_numbers(folder: Path) -> None:
    """The places of the parts that habitat-lab's FetchRobot and FetchSuctionRobot name by number."""
    links = [link.attrib["name"] for link in ET.parse(folder / fetch.URDF).getroot().iter("link")]
    assert links[0] == "base_link"
    assert tuple(links[1:]) == fetch.LINKS
    assert [links[1 + i] for i in range(15, 22)] == [name.replace("_joint", "_link") for name in robot.ARM_JOINTS]
    parts = {2: "r_wheel_link", 4: "l_wheel_link", 6: "torso_lift_link", 8: "head_pan_link", 9: "head_tilt_link"}
    assert {i: links[1 + i] for i in parts} == parts
    assert links[1 + 22] == "gripper_link" and links[1 + 23] == fetch.SUCTION
    joints = {j.find("child").attrib["link"]: j.attrib["type"] for j in ET.parse(folder / fetch.URDF).iter("joint")}  # type: ignore[union-attr]
    assert joints[fetch.SUCTION] != "fixed"  # habitat-lab wants a motor there


def test_robot_reaches_the_same_places(folder: Path) -> None:
    """Forward kinematics of the URDF, as MuJoCo reads it, against the embedded robot's."""
    model = load_urdf(folder / fetch.URDF)
    data = mujoco.MjData(model)
    sim = make_simulator()
    sim.reset(make_episode("tidy_house", "val", 0))
    rng = np.random.default_rng(0)
    for _ in range(10):
        q = rng.uniform(robot.Q_MIN, robot.Q_MAX)
        sim.place_robot(np.zeros(3), q)
        for name, value in zip(robot.ARM_JOINTS, q, strict=True):
            joint = model.joint(name.replace("_joint", "_link_joint"))
            data.qpos[joint.qposadr[0]] = value
        data.qpos[model.joint("torso_lift_link_joint").qposadr[0]] = robot.TORSO_LIFT_M
        mujoco.mj_kinematics(model, data)
        cup = model.body(fetch.SUCTION).id
        tip = data.xpos[cup] + data.xmat[cup].reshape(3, 3) @ (robot.EE_OFFSET_M, 0.0, 0.0)
        assert from_habitat(tip) == pytest.approx(sim.ee_pos, abs=1e-5)


@pytest.mark.parametrize("kind", ["cabinet", "fridge"])
def test_handles_move_as_ours_do(folder: Path, kind: str) -> None:
    """The exported kitchen, opened by MuJoCo as it reads the URDF: handles are where `hab.openings` has them."""
    scene = load_scene(SEED)
    name = apartments.articulated_name(kind, SEED)
    model = load_urdf(folder / "urdf" / name / f"{name}.urdf")
    data = mujoco.MjData(model)
    instance = read(folder / "scenes" / f"apartment_{SEED}.scene_instance.json")
    (root,) = [i for i in instance["articulated_object_instances"] if i["template_name"] == name]
    turn = np.empty(9)
    mujoco.mju_quat2Mat(turn, np.array(root["rotation"]))
    parts = [a for a in scene.articulations if a.kind == kind]
    for part in parts:
        for position in (0.0, 0.3, part.joint_range[1]):
            data.qpos[:] = 0.0
            joint = model.joint(f"{apartments.link_name(part)}_joint")
            assert joint.range == pytest.approx(part.joint_range)
            assert int(joint.qposadr[0]) == apartments.joint_index(part)
            data.qpos[joint.qposadr[0]] = position
            mujoco.mj_kinematics(model, data)
            body = model.body(apartments.link_name(part)).id
            at = data.xpos[body] + data.xmat[body].reshape(3, 3) @ apartments.handle_offset(part)
            world = np.array(root["translation"]) + turn.reshape(3, 3) @ at
            assert from_habitat(world) == pytest.approx(handle_at(part, position), abs=1e-6)
    assert model.njnt == (apartments.COUNTER_JOINTS if kind == "cabinet" else apartments.FRIDGE_JOINTS)


@pytest.mark.parametrize("name", CONFIGS)
def test_episodes_have_habitat_labs_fields(folder: Path, name: str) -> None:
    """The fields of habitat-lab 0.3.3's RearrangeEpisode, and that names within an episode belong together."""
    episodes = json.loads(gzip.decompress((folder / "episodes" / "val" / f"{name}.json.gz").read_bytes()))["episodes"]
    assert [e["scene_id"] for e in episodes] == [f"apartment_{SEED + i % 2}" for i in range(5)]
    for episode in episodes:
        assert set(episode) == {
            "episode_id",
            "scene_id",
            "scene_dataset_config",
            "additional_obj_config_paths",
            "start_position",
            "start_rotation",
            "info",
            "ao_states",
            "rigid_objs",
            "targets",
            "markers",
            "target_receptacles",
            "goal_receptacles",
            "name_to_receptacle",
        }
        # habitat-lab counts those of a kind as it makes them, in the list's order.
        made: Counter[str] = Counter()
        objects = set()
        for file, _ in episode["rigid_objs"]:
            kind = file.removesuffix(".object_config.json")
            objects.add(f"{kind}_:{made[kind]:04d}")
            made[kind] += 1
        assert len(objects) == HOUSE_OBJECTS and set(made) <= set(OBJECTS) and max(made.values()) > 1
        assert set(episode["targets"]) == set(episode["info"]["object_labels"]) <= objects
        assert (folder / "scenes" / f"{episode['scene_id']}.scene_instance.json").is_file()
        names = {marker["name"] for marker in episode["markers"]}
        assert {FRIDGE_MARKER, *(f"cab_push_point_{i}" for i in range(2, 8))} == names
        for marker in episode["markers"]:
            template = marker["params"]["object"].removesuffix("_:0000")
            urdf = ET.parse(folder / "urdf" / template / f"{template}.urdf").getroot()
            assert marker["params"]["link"] in {link.attrib["name"] for link in urdf.iter("link")}
        for pose in [p for _, p in episode["rigid_objs"]] + list(episode["targets"].values()):
            rotation = np.array(pose)[:3, :3]
            assert rotation @ rotation.T == pytest.approx(np.eye(3), abs=1e-8)
            assert np.linalg.det(rotation) == pytest.approx(1.0)


def test_objects_stand_where_ours_do(folder: Path) -> None:
    file = folder / "episodes" / "val" / "set_table.json.gz"
    exported = json.loads(gzip.decompress(file.read_bytes()))["episodes"][0]
    episode = make_episode("set_table", "val", 0)
    named = {other: name for name, other in handles(episode.objects).items()}
    made: Counter[str] = Counter()
    for file, pose in exported["rigid_objs"]:
        kind = file.removesuffix(".object_config.json")
        name = named.pop(f"{kind}_:{made[kind]:04d}")
        made[kind] += 1
        assert object_kind(name) == kind
        position, yaw = episode.objects[name]
        assert from_habitat(np.array(pose)[:3, 3]) == pytest.approx(position, abs=1e-6)
        forwards = from_habitat(np.array(pose)[:3, :3] @ to_habitat((1.0, 0.0, 0.0)))
        assert forwards == pytest.approx((math.cos(yaw), math.sin(yaw), 0.0), abs=1e-6)
    assert not named
    drawer = load_scene(SEED).receptacle(episode.targets[0].start_receptacle).articulation
    (marker,) = [m for m in exported["markers"] if m["name"] == TASK_MARKER]
    assert marker["params"]["link"] == f"{drawer}_link"


def test_plan_of_an_exported_episode(folder: Path) -> None:
    def said(*more: str) -> list[str]:
        result = CliRunner().invoke(cli, ["plan", "set_table", *more])
        assert result.exit_code == 0, result.output
        return re.findall(r"[\w-]+", result.output.replace("_link", ""))

    assert said("--data", str(folder), "--episode", "1") == said("--episode", "1")
    missing = CliRunner().invoke(cli, ["plan", "set_table", "--data", str(folder), "--episode", "9"])
    assert missing.exit_code == 2 and "holds the episodes 0 to 4, not 9" in missing.output


def test_groceries_start_with_the_fridge_open(folder: Path) -> None:
    file = folder / "episodes" / "val" / "prepare_groceries.json.gz"
    episode = json.loads(gzip.decompress(file.read_bytes()))["episodes"][0]
    assert episode["ao_states"] == {f"fridge_{SEED}_:0000": {str(apartments.FRIDGE_DOOR): 2.0}}


def test_export_is_the_same_every_time(folder: Path, tmp_path: Path) -> None:
    export(tmp_path, "val", scenes=2, episodes=5)
    files = {p.relative_to(folder) for p in folder.rglob("*") if p.is_file()}
    assert files == {p.relative_to(tmp_path) for p in tmp_path.rglob("*") if p.is_file()}
    for file in files:
        if file.suffix != ".gz":  # those name the folder
            assert (folder / file).read_bytes() == (tmp_path / file).read_bytes(), file


@pytest.mark.parametrize("bad", [{"scenes": 0}, {"scenes": 41}, {"split": "all"}])
def test_what_cannot_be_exported(tmp_path: Path, bad: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"apartments|unknown split"):
        export(tmp_path, **{"split": "val", "scenes": 1, "episodes": 1, **bad})
    assert not list(tmp_path.iterdir())


def test_roll_pitch_yaw_gives_the_rotation_back() -> None:
    rng = np.random.default_rng(0)
    for i in range(50):
        quat = rng.normal(size=4)
        rotation = np.empty(9)
        mujoco.mju_quat2Mat(rotation, quat / np.linalg.norm(quat))
        if i == 0:
            rotation = np.array([0.0, 0.0, 1.0, 0.0, 1.0, 0.0, -1.0, 0.0, 0.0])  # straight up
        roll, pitch, yaw = roll_pitch_yaw(rotation.reshape(3, 3))
        again = np.eye(3)
        for axis, angle in zip(np.eye(3), (roll, pitch, yaw), strict=True):
            about, turn = np.empty(4), np.empty(9)
            mujoco.mju_axisAngle2Quat(about, axis, angle)
            mujoco.mju_quat2Mat(turn, about)
            again = turn.reshape(3, 3) @ again
        assert again == pytest.approx(rotation.reshape(3, 3), abs=1e-9)
