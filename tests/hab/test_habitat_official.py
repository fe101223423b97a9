"""Folders in the layout of HAB's official data: an export of ours moved into it, and one written by hand.

The export's apartments are known to the millimetre, from the generator; of the other, numbers were worked out by hand
or by MuJoCo, which reads its URDFs.
"""

from __future__ import annotations

import contextlib
import gzip
import json
import math
import shutil
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest
import trimesh
from click.testing import CliRunner, Result

from hab.backend import unavailable
from hab.episodes import (
    SCENARIOS,
    Episode,
    Unsolvable,
    apartments,
    approach_poses,
    data_split,
    load_grid,
    load_scene,
    make_episode,
    scene_seed,
)
from hab.habitat.apartments import DATASET
from hab.habitat.assets import DataError, read_urdf
from hab.habitat.dataset import SceneDataset
from hab.habitat.export import export
from hab.habitat.fetch import URDF
from hab.habitat.frames import from_habitat, to_habitat
from hab.habitat.official import DataFolder, check_playable, data_folder, read_episode
from hab.habitat.played import CACHE_VARIABLE, played
from hab.openings import footprint, handle_at
from hab.scene import Scene
from tpsrl.commands import cli

SEEDS = (1000, 1001)
EPISODES = 5
_YCB = "data/objects/ycb/configs/"
_DATASET = "data/replica_cad/replicaCAD.scene_dataset_config.json"


def write_json(path: Path, content: object) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(content))


def write_episodes(path: Path, episodes: list[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps({"episodes": episodes}).encode(), mtime=0))


def read_episodes(path: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(gzip.decompress(path.read_bytes()))["episodes"]
    return found


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An export in the official layout: folders and names as habitat-sim's downloader has them, paths told from beside
    `data`, and no robot start."""
    made, data = tmp_path_factory.mktemp("export"), tmp_path_factory.mktemp("hab") / "data"
    export(made, "val", scenes=len(SEEDS), episodes=EPISODES)
    cad = data / "replica_cad"
    for place, now in (("stages", "configs/stages"), ("scenes", "configs/scenes"), ("urdf", "urdf")):
        (cad / now).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(made / place, cad / now)
    (data / "objects" / "ycb").mkdir(parents=True)
    shutil.move(made / "objects", data / "objects" / "ycb" / "configs")
    robot = data / "robots" / "hab_fetch" / "robots"
    shutil.move((made / URDF).parent, robot)
    (robot / URDF.name).rename(robot / "hab_suction.urdf")
    listed = json.loads((made / DATASET).read_text())
    listed["stages"]["paths"] = {".json": ["configs/stages"]}
    listed["scene_instances"]["paths"] = {".json": ["configs/scenes"]}
    listed["objects"]["paths"] = {".json": ["configs/objects"]}
    write_json(cad / "replicaCAD.scene_dataset_config.json", listed)
    for scenario in SCENARIOS:
        episodes = read_episodes(made / "episodes" / "val" / f"{scenario}.json.gz")
        for fields in episodes:
            fields["scene_id"] = f"data/replica_cad/configs/scenes/{fields['scene_id']}.scene_instance.json"
            fields["scene_dataset_config"] = _DATASET
            fields["additional_obj_config_paths"] = [_YCB]
            fields["start_position"], fields["start_rotation"] = [0, 0, 0], [0, 0, 0, 1]
            del fields["info"]["tpsrl"]
        write_episodes(
            data / "datasets/replica_cad/rearrange/v2/val" / f"{scenario}_10k_1k.json.gz",
            episodes,
        )
    return data


def known(index: int) -> int:
    """Our index of an exported episode."""
    return 40 * (index // len(SEEDS)) + index % len(SEEDS)


def apartment(moved: Path, seed: int) -> tuple[Scene, Any]:
    read = data_folder(str(moved), "val").apartment(f"apartment_{seed}")
    return read.scene, read.grid


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_episodes_are_read_back(moved: Path, scenario: str) -> None:
    """All that an episode says is as it was drawn, but for the robot's start, which HAB's files do not say."""
    split = data_split("val", str(moved))
    for index in range(EPISODES):
        read, ours = make_episode(scenario, split, index), make_episode(scenario, "val", known(index))
        assert (read.scenario, read.split, read.index, read.data) == (scenario, "val", index, str(moved))
        assert read.objects.keys() == ours.objects.keys()
        for name, (position, yaw) in ours.objects.items():
            assert read.objects[name][0] == pytest.approx(position, abs=1e-8)
            assert math.remainder(read.objects[name][1] - yaw, math.tau) == pytest.approx(0.0, abs=1e-6)
        assert {f"{name}_link": state for name, state in ours.joints.items()} == read.joints
        for again, target in zip(read.targets, ours.targets, strict=True):
            assert again.object == target.object
            for told, receptacle in (
                (again.start_receptacle, target.start_receptacle),
                (again.goal_receptacle, target.goal_receptacle),
            ):
                assert told.split("|")[1] == f"receptacle_aabb_{receptacle}"
                inside = load_scene(ours.scene_seed).receptacle(receptacle).articulation
                assert load_scene(read.scene_seed).receptacle(told).articulation == (inside and f"{inside}_link")
            assert again.start_pos == pytest.approx(target.start_pos, abs=1e-8)
            assert again.goal_pos == pytest.approx(target.goal_pos, abs=1e-8)
        x, y, _ = read.robot
        assert load_grid(ours.scene_seed).is_free(x, y)
        assert make_episode(scenario, split, index) == read


@pytest.mark.parametrize("seed", SEEDS)
def test_floor_is_where_the_generator_has_it(moved: Path, seed: int) -> None:
    """Distances measured on the meshes, against the exact ones to the boxes that they were made of."""
    _, grid = apartment(moved, seed)
    ours = load_grid(seed)
    off, missed = [], 0
    for i, j in np.argwhere(ours.largest_component)[::3]:
        x, y = ours.xy(int(i), int(j))
        cell = grid.cell(x, y)
        assert math.dist(grid.xy(*cell), (x, y)) < 0.04
        missed += not grid.largest_component[cell]
        off.append(grid.clearance[cell] - ours.clearance[i, j])
    assert np.quantile(np.abs(off), 0.99) < 0.01 and abs(float(np.median(off))) < 0.002
    assert missed <= 0.001 * len(off)
    assert grid.largest_component.sum() == pytest.approx(ours.largest_component.sum(), rel=0.02)


@pytest.mark.parametrize("seed", SEEDS)
def test_surfaces_are_where_the_generator_has_them(moved: Path, seed: int) -> None:
    scene, _ = apartment(moved, seed)
    ours = load_scene(seed)
    assert len(scene.receptacles) == len(ours.receptacles)
    for receptacle in ours.receptacles:
        (read,) = (r for r in scene.receptacles if r.name.endswith(f"|receptacle_aabb_{receptacle.name}"))
        assert read.center == pytest.approx(receptacle.center, abs=1e-6)
        turn = round((read.yaw - receptacle.yaw) / (math.pi / 2))
        half = receptacle.half_extents if turn % 2 == 0 else receptacle.half_extents[::-1]
        assert read.half_extents == pytest.approx(half, abs=1e-6)
        assert read.articulation == (receptacle.articulation and f"{receptacle.articulation}_link")
        assert read.kind == receptacle.kind
        assert read.clearance_m == pytest.approx(receptacle.clearance_m, abs=0.06)
        fronts = [{round(math.degrees(r.yaw + f)) % 360 for f in r.fronts} for r in (receptacle, read)]
        assert fronts[0] <= fronts[1], receptacle.name  # others may be reached over a side, too


@pytest.mark.parametrize("seed", SEEDS)
def test_drawers_and_doors_open_as_the_generator_has_them(moved: Path, seed: int) -> None:
    scene, _ = apartment(moved, seed)
    for part in load_scene(seed).articulations:
        read = scene.articulation(f"{part.name}_link")
        assert read.kind == part.kind and read.joint_range == pytest.approx(part.joint_range)
        for position in (0.0, 0.2, 0.45):
            assert handle_at(read, position) == pytest.approx(handle_at(part, position), abs=1e-6)
            assert footprint(read, position) == pytest.approx(footprint(part, position), abs=2e-3)


def test_apartments_are_visited_alike_in_every_scenario(moved: Path) -> None:
    """Skills ask which apartment an index is in before they draw the scenario."""
    split = data_split("val", str(moved))
    seeds, rounds = apartments(split)
    assert len(seeds) == 2 and rounds == 2 and all(seed < 0 for seed in seeds)
    for index in range(4):
        assert {make_episode(scenario, split, index).scene_seed for scenario in SCENARIOS} == {scene_seed(split, index)}
    with pytest.raises(ValueError, match="has 4 start states"):
        scene_seed(split, 4)
    numbers = [int(fields["episode_id"]) for fields in data_folder(str(moved), "val").raw("tidy_house")]
    assert sorted(numbers) == list(range(EPISODES))  # each is played once


def episodes_of(moved: Path, scenario: str = "tidy_house") -> list[dict[str, Any]]:
    return read_episodes(moved / "datasets/replica_cad/rearrange/v2/val" / f"{scenario}_10k_1k.json.gz")


@pytest.mark.parametrize("skill", ["navigate", "pick", "place", "open_fridge", "close_cabinet"])
def test_skills_start_in_the_folders_episodes(moved: Path, skill: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Start states, before the simulator looks whether they collide."""
    import skills.task
    from skills import TASKS, make_env

    monkeypatch.setattr(skills.task, "make_simulator", lambda *args, **options: None)
    assert skill in TASKS
    split = data_split("val", str(moved))
    task: Any = make_env(skill, split=split, sim="habitat").unwrapped
    for index in range(4):
        scene = load_scene(scene_seed(split, index))
        start: Any = None
        for attempt in range(20):
            with contextlib.suppress(Unsolvable):
                start = start or next(task.draw(scene, np.random.default_rng([index, attempt]), index, "wide"), None)
        assert start is not None and start.episode.data == str(moved)
        assert start.episode.scene_seed == scene.seed
        x, y, _ = start.episode.robot
        ours = load_grid(SEEDS[index % 2])
        assert ours.clearance[ours.cell(x, y)] > 0.27
        if start.goal.articulation:
            assert start.goal.articulation in {part.name for part in scene.articulations}


def as_habitat_lab_names(fields: dict[str, Any]) -> dict[str, Any]:
    """Poses by handle, as `RearrangeSim.reconfigure` and `_add_objs` make objects and count them."""
    made: Counter[str] = Counter()
    poses = {}
    for file, pose in sorted(fields["rigid_objs"], key=lambda row: str(row[0])):
        name = file.split(".")[0]
        poses[f"{name}_:{made[name]:04d}"] = pose
        made[name] += 1
    return poses


@pytest.mark.parametrize("objects", [None, 8])
def test_habitat_lab_is_given_the_files_own_episode(
    moved: Path, objects: int | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CACHE_VARIABLE, str(tmp_path))
    told = episodes_of(moved)[1]
    episode = read_episode(data_folder(str(moved), "val"), "tidy_house", 1, objects)
    made = played(episode)
    assert len(episode.objects) == (objects or 30)
    poses = as_habitat_lab_names(made.fields)
    assert set(made.handles.values()) == set(poses)
    for name, handle in made.handles.items():
        assert from_habitat(np.array(poses[handle])[:3, 3]) == pytest.approx(episode.objects[name][0])
        assert from_habitat(np.array(poses[handle])[:3, 3]) == pytest.approx(made.poses[name][0])
        turn = np.empty(9)
        mujoco.mju_quat2Mat(turn, np.array(made.poses[name][1]))
        ahead = np.array(poses[handle])[:3, :3] @ to_habitat((1.0, 0.0, 0.0))
        assert from_habitat(ahead) == pytest.approx(turn.reshape(3, 3)[:, 0], abs=1e-9)
    old = as_habitat_lab_names(told)
    for target, (handle, goal) in zip(episode.targets, told["targets"].items(), strict=True):
        assert made.fields["targets"][made.handles[target.object]] == goal
        assert poses[made.handles[target.object]] == old[handle]
    assert set(made.fields) <= set(told)
    assert made.fields["scene_id"] == "apartment_1001"
    assert Path(made.fields["scene_dataset_config"]) == (moved / "replica_cad" / Path(_DATASET).name).resolve()
    assert made.files.robot.name == "hab_suction.urdf" and made.files.robot.is_file()
    assert made.files.objects == ((moved / "objects" / "ycb" / "configs").resolve(),)
    assert json.loads(made.files.physics.read_text())["gravity"] == [0, -9.8, 0]
    named = {(m["params"]["object"], m["params"]["link"]): m for m in told["markers"]}
    for marker in made.fields["markers"]:
        assert named[marker["params"]["object"], marker["params"]["link"]]["params"] == marker["params"]
    assert set(made.markers) == {part.name for part in load_scene(episode.scene_seed).articulations}


# -- a folder written by hand, with ReplicaCAD's names and conventions -------------------------------------------------

FRIDGE = """<?xml version="1.0"?>
<robot name="fridge">
  <link name="root"/>
  <joint name="turned" type="fixed">
    <origin rpy="1.5707963 0 0" xyz="0 0 0"/><parent link="root"/><child link="body"/></joint>
  <link name="body">
    <collision><origin xyz="-0.31 0 0"/><geometry><box size="0.03 0.7 1.9"/></geometry></collision>
    <collision><origin xyz="0 0 0.25"/><geometry><box size="0.6 0.7 0.04"/></geometry></collision>
    <collision><origin xyz="0 0 -0.94"/><geometry><box size="0.6, 0.7, 0.02"/></geometry></collision>
    <collision><origin xyz="0 -0.34 0"/><geometry><box size="0.6 0.02 1.9"/></geometry></collision>
    <collision><origin xyz="0 0.34 0"/><geometry><box size="0.6 0.02 1.9"/></geometry></collision>
  </link>
  <joint name="top_door_hinge" type="revolute">
    <origin xyz="0.34 0.33 -0.37"/><parent link="body"/><child link="top_door"/>
    <axis xyz="0 0 1"/><limit lower="0" upper="2.3" effort="40" velocity="1"/></joint>
  <link name="top_door">
    <collision><origin xyz="0 -0.33 0"/><geometry><box size="0.1 0.7 1.1"/></geometry></collision></link>
  <joint name="bottom_door_hinge" type="revolute">
    <origin xyz="0.34 0.33 0.55"/><parent link="body"/><child link="bottom_door"/>
    <axis xyz="0 0 1"/><limit lower="0" upper="2.5" effort="40" velocity="1"/></joint>
  <link name="bottom_door">
    <collision><origin xyz="0 -0.33 0"/><geometry><box size="0.1 0.7 0.7"/></geometry></collision></link>
</robot>
"""
COUNTER = """<?xml version="1.0"?>
<robot name="kitchen_counter">
  <link name="root"/>
  <joint name="fixed" type="fixed"><origin xyz="0 0 0"/><parent link="root"/><child link="body"/></joint>
  <link name="body">
    <collision><origin xyz="-0.2 0.9 0"/><geometry><box size="0.6 0.04 2"/></geometry></collision></link>
  <joint name="right_slide" type="prismatic">
    <origin xyz="-0.16 0.6 -0.5"/><parent link="body"/><child link="drawer3"/>
    <axis xyz="1 0 0"/><limit lower="0" upper="0.5" effort="40" velocity="1"/></joint>
  <link name="drawer3">
    <collision><origin xyz="0 -0.1 0"/><geometry><box size="0.6 0.02 0.8"/></geometry></collision>
    <collision><origin xyz="0.28 0 0"/><geometry><box size="0.04 0.22 0.8"/></geometry></collision>
  </link>
  <joint name="left_slide" type="prismatic">
    <origin xyz="-0.16 0.6 0.5"/><parent link="body"/><child link="drawer1_top"/>
    <axis xyz="1 0 0"/><limit lower="0" upper="0.5" effort="40" velocity="1"/></joint>
  <link name="drawer1_top">
    <collision><origin xyz="0.28 0 0"/><geometry><box size="0.04 0.22 0.8"/></geometry></collision></link>
</robot>
"""
MARKERS = [
    {
        "name": "fridge_push_point",
        "type": "articulated_object",
        "params": {"offset": [0.1, -0.62, 0.2], "link": "top_door", "object": "fridge_:0000"},
    },
    {
        "name": "cab_push_point_5",
        "type": "articulated_object",
        "params": {"offset": [0.3, 0.0, 0.0], "link": "drawer3", "object": "kitchen_counter_:0000"},
    },
]
FRIDGE_AT, FRIDGE_YAW = (-2.5, 0.95, 1.0), 0.0
COUNTER_AT, COUNTER_YAW = (0.0, 0.0, -2.6), -math.pi / 2
"""Habitat's frame: where the roots are, and their turns about y."""
TABLE_AT = (1.0, 0.4, 0.5)
"""Its centre of mass: the table's mesh has its origin on the floor, and is 0.8 m high."""


def glb(path: Path, *boxes: tuple[tuple[float, float, float], tuple[float, float, float]]) -> None:
    """Write boxes (centre, full sizes; m, y up)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    scene = trimesh.Scene()
    for center, size in boxes:
        box = trimesh.creation.box(size)
        box.apply_translation(center)
        scene.add_geometry(box)
    path.write_bytes(scene.export(file_type="glb"))


def about_y(yaw: float) -> list[float]:
    return [math.cos(yaw / 2), 0.0, math.sin(yaw / 2), 0.0]


def pose(position: tuple[float, float, float], yaw: float = 0.0) -> list[list[float]]:
    x, y, z = position
    c, s = math.cos(yaw), math.sin(yaw)
    return [[c, 0, s, x], [0, 1, 0, y], [-s, 0, c, z], [0, 0, 0, 1]]


def hand_episode(**changes: Any) -> dict[str, Any]:
    """Return a Prepare Groceries episode as habitat-lab's generator writes them."""
    on_table, in_fridge = (1.0, 0.86, 0.4), (-2.55, 1.29, 1.0)
    return {
        "episode_id": "0",
        "scene_id": "data/replica_cad/configs/scenes/v3_sc3_staging_00.scene_instance.json",
        "scene_dataset_config": _DATASET,
        "additional_obj_config_paths": [_YCB],
        "start_position": [0, 0, 0],
        "start_rotation": [0, 0, 0, 1],
        "info": {
            "object_labels": {
                "005_tomato_soup_can_:0001": "obj1_target|1",
                "005_tomato_soup_can_:0000": "obj0_target|0",
                "004_sugar_box_:0000": "obj2_target|2",
            }
        },
        "ao_states": {"fridge_:0000": {"2": 1.5}},
        "rigid_objs": [
            ["005_tomato_soup_can.object_config.json", pose(in_fridge, 0.3)],
            ["004_sugar_box.object_config.json", pose((0.7, 0.89, 0.6), -1.2)],
            ["005_tomato_soup_can.object_config.json", pose(on_table)],
        ],
        "targets": {
            "005_tomato_soup_can_:0001": pose((-2.5, 1.29, 0.9)),
            "005_tomato_soup_can_:0000": pose((1.2, 0.86, 0.4)),
            "004_sugar_box_:0000": pose((-2.5, 1.32, 1.1)),
        },
        "markers": MARKERS,
        "target_receptacles": [["fridge_:0000", 0], ["frl_apartment_table_02_:0000", None]],
        "goal_receptacles": [["frl_apartment_table_02_:0000", None], ["fridge_:0000", 0]],
        "name_to_receptacle": {},
        **changes,
    }


@pytest.fixture
def hand(tmp_path: Path) -> Path:
    """A room of 6 by 6 m with a fridge, a counter and a table, and Prepare Groceries of v1."""
    data = tmp_path / "data"
    cad = data / "replica_cad"
    write_json(
        data / "replica_cad" / "replicaCAD.scene_dataset_config.json",
        {
            "stages": {"paths": {".json": ["configs/stages"]}},
            "objects": {"paths": {".json": ["configs/objects"]}},
            "articulated_objects": {"paths": {".urdf": ["urdf/*"]}},
            "scene_instances": {"default_attributes": {"default_lighting": ""}, "paths": {".json": ["configs/scenes"]}},
        },
    )
    walls = [((s * 3.05, 1.2, 0.0), (0.1, 2.4, 6.2)) for s in (1, -1)]
    walls += [((0.0, 1.2, s * 3.05), (6.2, 2.4, 0.1)) for s in (1, -1)]
    glb(cad / "stages" / "Stage_v3_sc3.glb", ((0.0, -0.05, 0.0), (6.2, 0.1, 6.2)), *walls)
    write_json(
        cad / "configs" / "stages" / "Stage_v3_sc3_staging.stage_config.json",
        {"render_asset": "../../stages/Stage_v3_sc3.glb", "up": [0, 1, 0], "front": [0, 0, -1]},
    )
    glb(cad / "objects" / "table.glb", ((0.0, 0.78, 0.0), (1.4, 0.04, 0.8)), ((0.0, 0.39, 0.0), (0.1, 0.78, 0.1)))
    surface = {"position": [0.0, 0.85, 0.0], "scale": [0.6, 0.05, 0.3]}
    write_json(
        cad / "configs" / "objects" / "frl_apartment_table_02.object_config.json",
        {
            "render_asset": "../../objects/table.glb",
            "user_defined": {"receptacle_aabb_Tbl2_Top1": {"name": "receptacle_aabb_Tbl2_Top1", **surface}},
        },
    )
    for name, text in (("fridge", FRIDGE), ("kitchen_counter", COUNTER)):
        (cad / "urdf" / name).mkdir(parents=True)
        (cad / "urdf" / name / f"{name}.urdf").write_text(text)
    shelf = {"position": [0.0, 0.0, -0.29], "scale": [0.2, 0.3, 0.02], "up": [0, 0, -1], "parent_link": "body"}
    drawer = {"position": [0.0, -0.04, 0.0], "scale": [0.2, 0.05, 0.3], "parent_link": "drawer3"}
    for name, box in (("fridge", shelf), ("kitchen_counter", drawer)):
        annotated: dict[str, Any] = {"user_defined": {f"receptacle_aabb_{name}": box}}
        if name == "kitchen_counter":
            annotated["user_defined"]["receptacle_aabb_shut"] = {**drawer, "parent_link": "drawer1_top"}
        write_json(cad / "urdf" / name / f"{name}.ao_config.json", annotated)
    write_json(
        cad / "configs" / "scenes" / "v3_sc3_staging_00.scene_instance.json",
        {
            "stage_instance": {"template_name": "stages/Stage_v3_sc3_staging"},
            "object_instances": [
                {
                    "template_name": "objects/frl_apartment_table_02",
                    "motion_type": "STATIC",
                    "translation_origin": "COM",
                    "translation": TABLE_AT,
                    "rotation": about_y(math.pi / 2),
                }
            ],
            "articulated_object_instances": [
                {
                    "template_name": name,
                    "fixed_base": True,
                    "translation_origin": "COM",
                    "translation": at,
                    "rotation": about_y(yaw),
                    "motion_type": "DYNAMIC",
                }
                for name, at, yaw in (
                    ("fridge", FRIDGE_AT, FRIDGE_YAW),
                    ("kitchen_counter", COUNTER_AT, COUNTER_YAW),
                )
            ],
        },
    )
    (data / "robots" / "hab_fetch" / "robots").mkdir(parents=True)
    (data / "robots" / "hab_fetch" / "robots" / "hab_suction.urdf").write_text("<robot/>")
    for kind in ("004_sugar_box", "005_tomato_soup_can"):
        write_json(data / "objects" / "ycb" / "configs" / f"{kind}.object_config.json", {"render_asset": "x.glb"})
    write_hand(data, hand_episode())
    return data


def write_hand(data: Path, *episodes: Any) -> None:
    write_episodes(data / "datasets/replica_cad/rearrange/v1/val/prepare_groceries.json.gz", list(episodes))


def read_hand(data: Path) -> Episode:
    return read_episode(DataFolder(data, "val"), "prepare_groceries", 0)


def handle_by_mujoco(urdf: str, link: str, offset: list[float], at: tuple[float, ...], yaw: float, q: float) -> Any:
    """Where a marker is (our frame), by MuJoCo's reading of the URDF."""
    spec = mujoco.MjSpec.from_string(urdf.replace(",", ""))  # it reads no commas, as ReplicaCAD's files have
    spec.compiler.fusestatic = False
    spec.compiler.balanceinertia, spec.compiler.boundmass, spec.compiler.boundinertia = True, 0.1, 0.1
    model = spec.compile()
    data = mujoco.MjData(model)
    data.qpos[int(model.jnt_qposadr[model.body(link).jntadr[0]])] = q
    mujoco.mj_kinematics(model, data)
    body = model.body(link).id
    local = data.xpos[body] + data.xmat[body].reshape(3, 3) @ offset
    turn = np.array(pose((0.0, 0.0, 0.0), yaw))[:3, :3]
    return from_habitat(turn @ local + at)


def test_links_are_numbered_as_habitat_sim_numbers_them(hand: Path) -> None:
    """Depth first, siblings by their joints' names: habitat-lab's Open Fridge moves the second of the doors."""
    links = read_urdf(hand / "replica_cad" / "urdf" / "fridge" / "fridge.urdf")
    assert [link.name for link in links] == ["root", "body", "bottom_door", "top_door"]
    links = read_urdf(hand / "replica_cad" / "urdf" / "fridge" / "fridge.urdf", by_name=False)
    assert [link.name for link in links] == ["root", "body", "top_door", "bottom_door"]


def test_official_episode_is_read(hand: Path) -> None:
    episode = read_hand(hand)
    scene = load_scene(episode.scene_seed)
    table, fridge = "frl_apartment_table_02_:0000|receptacle_aabb_Tbl2_Top1", "fridge_:0000|receptacle_aabb_fridge"
    assert episode.joints == {"top_door": 1.5}
    assert [t.object for t in episode.targets] == [
        "005_tomato_soup_can-1",
        "005_tomato_soup_can-2",
        "004_sugar_box-1",
    ]
    assert [(t.start_receptacle, t.goal_receptacle) for t in episode.targets] == [
        (fridge, table),
        (table, fridge),
        (table, fridge),
    ]
    assert episode.targets[0].start_pos == pytest.approx((-2.55, -1.0, 1.29))
    assert episode.objects["004_sugar_box-1"] == (pytest.approx((0.7, -0.6, 0.89)), pytest.approx(-1.2))
    assert scene.receptacle(table).kind == "table" and scene.receptacle(fridge).articulation == "top_door"
    # Turned by a quarter, the table is long along our y; its surface is at 0.8 m, where the box over it begins.
    assert scene.receptacle(table).center == pytest.approx((1.0, -0.5, 0.8))
    read = scene.receptacle(table)
    along_x = abs(math.cos(read.yaw)) * read.half_extents[0] + abs(math.sin(read.yaw)) * read.half_extents[1]
    assert along_x == pytest.approx(0.3)
    assert len(read.fronts) == 4 and read.clearance_m == 1.0
    # The fridge's z axis points down: the shelf is 0.27 m above its root, under a lid at 0.95 m.
    assert scene.receptacle(fridge).center == pytest.approx((-2.5, -1.0, 1.22), abs=1e-5)
    assert scene.receptacle(fridge).clearance_m == pytest.approx(0.66, abs=1e-5)
    assert scene.receptacle(fridge).yaw == pytest.approx(0.0, abs=1e-6)
    (drawer,) = (r for r in scene.receptacles if r.kind == "drawer")
    assert len(scene.receptacles) == 3  # nobody can open the drawer that no marker names
    assert drawer.articulation == "drawer3" and drawer.center[2] == pytest.approx(0.51)
    assert drawer.clearance_m == pytest.approx(0.2)  # its front's top is at 0.71 m
    assert approach_poses(load_grid(scene.seed), read, episode.targets[1].start_pos)


@pytest.mark.parametrize("position", [0.0, 0.4])
def test_official_handles_move_as_mujoco_moves_them(hand: Path, position: float) -> None:
    scene = load_scene(read_hand(hand).scene_seed)
    for part, urdf, marker, at, yaw in (
        ("top_door", FRIDGE, MARKERS[0], FRIDGE_AT, FRIDGE_YAW),
        ("drawer3", COUNTER, MARKERS[1], COUNTER_AT, COUNTER_YAW),
    ):
        told: Any = marker["params"]
        expected = handle_by_mujoco(urdf, part, told["offset"], at, yaw, position)
        assert handle_at(scene.articulation(part), position) == pytest.approx(expected, abs=1e-5)


def test_official_floor_ends_where_furniture_begins(hand: Path) -> None:
    grid = load_grid(read_hand(hand).scene_seed)
    assert grid.is_free(1.0, 2.0) and not grid.is_free(3.05, 0.0) and not grid.is_free(4.0, 0.0)
    # Room of 6 m; a table's top of 0.8 m by 1.4 m, 0.78 m high, stops the base as its foot does.
    assert not grid.is_free(1.0 + 0.4 + 0.2, -0.5) and grid.is_free(1.0 + 0.4 + 0.4, -0.5)
    assert grid.clearance[grid.cell(2.0, 2.0)] == pytest.approx(1.0, abs=0.05)  # two walls


def test_a_start_that_is_told_is_kept(hand: Path) -> None:
    write_hand(
        hand, hand_episode(start_position=[1.5, 0.0, -2.0], start_rotation=[0.0, math.sin(0.4), 0.0, math.cos(0.4)])
    )
    assert read_hand(hand).robot == pytest.approx((1.5, 2.0, 0.8))


def refit(key: str, value: Any) -> Callable[[Path], None]:
    return lambda data: write_hand(data, hand_episode(**{key: value}))


def edit(place: str, change: Callable[[dict[str, Any]], Any]) -> Callable[[Path], None]:
    def apply(data: Path) -> None:
        content = json.loads((data / place).read_text())
        change(content)
        write_json(data / place, content)

    return apply


_CAD = "replica_cad/replicaCAD.scene_dataset_config.json"
_SCENE = "replica_cad/configs/scenes/v3_sc3_staging_00.scene_instance.json"
_FRIDGE = "replica_cad/urdf/fridge/fridge.ao_config.json"
_BAD_POSE = [["004_sugar_box.object_config.json", [[2, 0, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0], [0, 0, 0, 1]]]]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda d: shutil.rmtree(d), "is no folder"),
        (lambda d: shutil.rmtree(d / "datasets"), "has no val episodes of prepare_groceries; looked for datasets/"),
        (lambda d: shutil.rmtree(d / "robots"), "has no robot"),
        (lambda d: shutil.rmtree(d / "replica_cad"), "has no replicaCAD.scene_dataset_config.json"),
        (lambda d: shutil.rmtree(d / "objects"), "has no 005_tomato_soup_can.object_config.json"),
        (lambda d: write_hand(d), "holds no episodes"),
        (refit("scene_id", None), "has no scene_id"),
        (refit("rigid_objs", _BAD_POSE), "is no rotation and translation"),
        (refit("rigid_objs", [["029_plate.object_config.json", pose((0, 0, 0))]]), "029_plate is not among the"),
        (refit("targets", {"004_sugar_box_:0000": pose((0, 0, 0))}), "prepare_groceries has 3 targets, this one 1"),
        (
            refit("targets", {f"004_sugar_box_:000{i}": pose((0, 0, 0)) for i in range(3)}),
            "004_sugar_box_:0001 is none of its objects",
        ),
        (refit("start_position", [0, math.nan, 0]), "start_position is not 3 numbers"),
        (refit("ao_states", {"fridge_:0000": {"top_door": 1.5}}), "not by links' numbers"),
        (refit("markers", [{"name": "x", "params": {"link": "top_door"}}]), "names no link of an object"),
        (refit("markers", 3), "its markers are not as"),
        (refit("name_to_receptacle", ["x"]), "its name_to_receptacle are not as"),
        (lambda d: write_hand(d, hand_episode(), None), "episode 1 is no table"),
        (edit(_CAD, lambda c: c.update(stages=[])), "stages, or its default_attributes, is no table"),
        (edit(_CAD, lambda c: c["objects"].update(default_attributes=None)), "objects, or its default_attributes, is"),
        (edit(_CAD, lambda c: c["objects"].update(paths={".json": "configs/objects"})), "a list of places each"),
        (edit(_CAD, lambda c: c["objects"].update(paths={".json": [""]})), "a list of places each"),
        (
            refit("markers", [{"name": "x", "params": {**MARKERS[0]["params"], "link": "side_door"}}]),
            "no fridge_:0000 with a link side_door",
        ),
        (
            refit("targets", {**hand_episode()["targets"], "004_sugar_box_:0000": pose((0.0, 0.5, 2.0))}),
            "no annotated receptacle is under the target at (0.00, 0.50, 2.00)",
        ),
        (edit(_SCENE, lambda c: c["object_instances"][0].update(template_name="sofa")), "its objects called sofa"),
        (edit(_SCENE, lambda c: c["object_instances"][0].update(translation=[1, 2])), "no proper translation"),
        (edit(_SCENE, lambda c: c["stage_instance"].update(translation=[0, 1, 0])), "has no floor at y = 0"),
        (edit(_FRIDGE, lambda c: c["user_defined"]["receptacle_aabb_fridge"].pop("parent_link")), "names no link of"),
        (lambda d: (d / "replica_cad/urdf/fridge/fridge.urdf").write_text("<robot"), "is no URDF"),
        (lambda d: (d / "replica_cad/objects/table.glb").write_bytes(b"glTF"), "cannot be read as a mesh"),
        (lambda d: (d / "replica_cad/objects/table.glb").unlink(), "render_asset names"),
        (lambda d: (d / _SCENE).write_text("{"), "is no JSON file"),
    ],
)  # fmt: skip
def test_what_cannot_be_used_is_said_in_one_line(hand: Path, spoil: Callable[[Path], Any], said: str) -> None:
    spoil(hand)
    folder = DataFolder(hand, "val")
    with pytest.raises(DataError) as raised:
        check_playable(folder, "prepare_groceries")
        read_episode(folder, "prepare_groceries", 0)
    assert said in str(raised.value) and "\n" not in str(raised.value)
    assert str(hand) in str(raised.value) or "v3_sc3_staging_00" in str(raised.value)


@pytest.mark.parametrize("missing", ["markers", "name_to_receptacle", "goal_receptacles"])
def test_null_is_none_of_them(hand: Path, missing: str) -> None:
    """As where an episode does not have the key at all."""
    other = Path(shutil.copytree(hand, hand.parent / "other"))
    write_hand(hand, *(hand_episode(**{missing: None}) for _ in range(2)))
    without = hand_episode()
    del without[missing]
    write_hand(other, without)
    read = read_episode(DataFolder(hand, "val"), "prepare_groceries", 1)
    assert (read.targets, read.joints) == (read_hand(other).targets, read_hand(other).joints)


def test_a_dataset_without_scenes_is_refused(tmp_path: Path) -> None:
    write_json(tmp_path / "x.scene_dataset_config.json", {"scene_instances": {"paths": {".json": ["scenes"]}}})
    with pytest.raises(DataError, match="finds no scene"):
        SceneDataset(tmp_path / "x.scene_dataset_config.json")


# -- the command line --------------------------------------------------------------------------------------------------


def tpsrl(*words: str) -> Result:
    return CliRunner().invoke(cli, list(words))


def test_a_folder_is_checked(hand: Path, moved: Path) -> None:
    whole = tpsrl("data", "check", str(moved))
    assert whole.exit_code == 0, whole.output
    for scenario in SCENARIOS:
        assert f"{scenario}: {EPISODES} episodes in {len(SEEDS)} apartments" in whole.output
    assert "skills: 4 start states" in whole.output
    part = tpsrl("data", "check", str(hand))
    assert part.exit_code == 0 and "skills: none can be played" in part.output
    other = hand.parent / "other"
    shutil.copytree(hand, other)
    write_hand(other, hand_episode(), hand_episode(targets={}))
    bad = tpsrl("data", "check", str(other))
    assert bad.exit_code == 2 and "episode 1: prepare_groceries has 3 targets, this one 0" in bad.output


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("eval", "prepare_groceries", "--skills", "oracle"), "add --sim habitat"),
        (("render", "prepare_groceries", "--skills", "oracle"), "add --sim habitat"),
        (("train-skill", "pick"), "add --sim habitat"),
        (("eval", "prepare_groceries", "--sim", "habitat", "--episodes", "2"), "holds 1 val episodes"),
        (("render", "prepare_groceries", "--sim", "habitat", "--episode", "1"), "holds 1 val episodes"),
        (("eval", "pick", "--sim", "habitat", "--episodes", "1"), "has no val episodes of tidy_house"),
        (("train-skill", "pick", "--sim", "habitat"), "has no train episodes of tidy_house"),
        (("plan", "set_table"), "has no val episodes of set_table"),
    ],
)
def test_data_that_does_not_fit_the_command_is_refused(hand: Path, words: tuple[str, ...], said: str) -> None:
    result = tpsrl(*words, "--data", str(hand))
    assert result.exit_code == 2 and said in result.output, result.output


def test_good_data_goes_as_far_as_the_simulator(hand: Path, moved: Path) -> None:
    plan = tpsrl("plan", "prepare_groceries", "--data", str(hand))
    assert plan.exit_code == 0 and "pick" in plan.output and "open" not in plan.output  # the fridge is open
    if reason := unavailable("habitat"):
        for words in (
            ("eval", "tidy_house", "--episodes", "5"),
            ("eval", "pick", "--episodes", "4"),
            ("render", "place"),
        ):
            result = tpsrl(*words, "--sim", "habitat", "--data", str(moved))
            assert result.exit_code == 2 and reason in result.output
