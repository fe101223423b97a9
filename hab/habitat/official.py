"""A folder of Habitat data in the layout of HAB's official release: where its files are, and its episodes as ours.

    DIR/replica_cad/replicaCAD.scene_dataset_config.json     (or DIR/scene_datasets/replica_cad/...)
    DIR/datasets/replica_cad/rearrange/v2/val/tidy_house_10k_1k.json.gz     (or v1, or without _10k_1k)
    DIR/objects/ycb/configs/*.object_config.json
    DIR/robots/hab_fetch/robots/hab_suction.urdf

That is what habitat-sim's `datasets_download` writes and habitat-lab's configurations name. A folder of `tpsrl export
habitat` is read alike: it has the same files in places of its own. Episode files are habitat-lab's
`RearrangeDataset-v0`; everything but the robot's start is theirs. Nothing here needs habitat-sim.
"""

from __future__ import annotations

import gzip
import json
import math
import re
import zlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hab.episodes import SCENARIOS, TARGETS, Episode, Target, Unsolvable, robot_start
from hab.habitat.assets import DataError
from hab.habitat.dataset import SceneDataset, scene_dataset
from hab.habitat.frames import TO_HABITAT, from_habitat
from hab.habitat.scenes import Apartment, Handle, read_apartment
from hab.objects import OBJECTS
from hab.openings import drawn_out, grid_with_openings, rotated
from hab.scene import Quat, Receptacle, Vec3

EPISODE_FILES = tuple(
    f"datasets/replica_cad/rearrange/{version}/{{split}}/{{name}}{size}.json.gz"
    for version in ("v2", "v1")
    for size in ("_10k_1k", "")
) + ("episodes/{split}/{name}.json.gz",)
"""Where a scenario's episodes are: habitat-lab's places, and that of our export."""
DATASET_PLACES = ("replica_cad", "scene_datasets/replica_cad", ".")
"""Where a scene dataset is that is not where its episodes say."""
ROBOTS = ("robots/hab_fetch/robots/hab_suction.urdf", "robots/fetch_suction.urdf")
OBJECT_PLACES = ("objects/ycb/configs",)
_ENDING = ".object_config.json"
_NEAR_M, _SUNK_M = 0.10, 0.05
"""An object lies on a surface if its centre is not so far beside it, nor so deep in it: HAB's were let fall."""
_ROTATION_SLACK = 1e-3


@dataclass(frozen=True)
class DataFolder:
    """One split of a folder of Habitat data. Everything raises `DataError` where something is not as it should be."""

    root: Path
    split: str

    def episode_file(self, scenario: str) -> Path:
        places = [self.root / place.format(split=self.split, name=scenario) for place in EPISODE_FILES]
        for file in places:
            if file.is_file():
                return file
        if not self.root.is_dir():
            raise DataError(f"{self.root}: is no folder")
        looked = ", ".join(str(file.relative_to(self.root)) for file in places)
        raise DataError(f"{self.root}: has no {self.split} episodes of {scenario}; looked for {looked}")

    def has(self, scenario: str) -> bool:
        """Whether it has episodes of a scenario."""
        return any((self.root / file.format(split=self.split, name=scenario)).is_file() for file in EPISODE_FILES)

    @property
    def robot(self) -> Path:
        """The Fetch with a suction gripper, as URDF."""
        for place in ROBOTS:
            if (self.root / place).is_file():
                return self.root / place
        raise DataError(f"{self.root}: has no robot; looked for {', '.join(ROBOTS)}")

    def raw(self, scenario: str) -> list[dict[str, Any]]:
        """Return a scenario's episodes, checked, in the order in which they are played: apartments in turn.

        Those are in the order of their names; what they have more of is left to the end, so the first ones, as many as
        the apartments all have, number alike in every scenario."""
        return _raw(self, scenario)

    def scenes(self, scenario: str) -> tuple[str, ...]:
        """Return the names of the apartments in which a scenario plays."""
        return tuple(sorted({scene_stem(fields["scene_id"]) for fields in self.raw(scenario)}))

    @cached_property
    def common(self) -> tuple[tuple[str, ...], int]:
        """The apartments that all scenarios play in, and how many episodes each has in every scenario at least: what
        skills, whose start states are drawn from all three, are practised on."""
        by_scenario = {scenario: self.scenes(scenario) for scenario in SCENARIOS}
        first = by_scenario[SCENARIOS[0]]
        for scenario, scenes in by_scenario.items():
            if scenes != first:
                odd = sorted(set(scenes) ^ set(first))
                raise DataError(
                    f"{self.root}: skills start in the apartments of all three scenarios, but {odd[0]} is not in the "
                    f"{self.split} episodes of both {SCENARIOS[0]} and {scenario}"
                )
        counts = [Counter(scene_stem(f["scene_id"]) for f in self.raw(s)) for s in SCENARIOS]
        return first, min(min(count.values()) for count in counts)

    @property
    def starts(self) -> int:
        """How many start states of a skill there are."""
        scenes, rounds = self.common
        return len(scenes) * rounds

    def dataset(self, fields: dict[str, Any]) -> SceneDataset:
        """Return the scene dataset of an episode: where the episode says, seen from here, or where it usually is."""
        named = Path(fields["scene_dataset_config"])
        tried = [*_places(self.root, named), *(self.root / place / named.name for place in DATASET_PLACES)]
        file = next((file for file in tried if file.is_file()), None)
        if file is None:
            raise DataError(f"{self.root}: has no {named.name}, which its episodes name as {named}")
        return scene_dataset(file.resolve())

    def object_folders(self, fields: dict[str, Any]) -> tuple[Path, ...]:
        """Return the folders of the objects that an episode is played with, besides the scene dataset's own."""
        named = [Path(path) for path in fields.get("additional_obj_config_paths", ())]
        tried = [place for path in named for place in _places(self.root, path)]
        tried += [self.root / place for place in OBJECT_PLACES]
        return tuple(dict.fromkeys(place.resolve() for place in tried if place.is_dir()))

    def apartment(self, name: str) -> Apartment:
        """Return an apartment, read once a process."""
        return _apartment(self, name)

    def number(self, name: str) -> int:
        """Return the number that an apartment goes by as `Scene.seed`: below 0, which no generated one's is."""
        number = -1 - zlib.crc32(f"{self.root.resolve()}|{self.split}|{name}".encode())
        _NUMBERED[number] = (self, name)
        return number


_NUMBERED: dict[int, tuple[DataFolder, str]] = {}


def numbered(number: int) -> Apartment:
    """Return the apartment with a number that `DataFolder.number` gave in this process."""
    folder, name = _NUMBERED[number]
    return folder.apartment(name)


@lru_cache(maxsize=8)
def data_folder(root: str, split: str) -> DataFolder:
    return DataFolder(Path(root), split)


def scene_stem(scene_id: str) -> str:
    """Return a scene's name, of its name or its file's path."""
    return Path(scene_id).name.removesuffix(".scene_instance.json")


def _places(root: Path, named: Path) -> Iterator[Path]:
    """Yield where a path may lead to that is told from beside a folder called data."""
    parts = [part for part in named.parts if part != "."]
    if named.is_absolute():
        yield named
        return
    if parts and parts[0] in ("data", root.name):
        yield root.joinpath(*parts[1:])
    yield root / named
    yield named


# -- checks ------------------------------------------------------------------------------------------------------------


@lru_cache(maxsize=8)
def _raw(folder: DataFolder, scenario: str) -> list[dict[str, Any]]:
    file = folder.episode_file(scenario)
    try:
        episodes = json.loads(gzip.decompress(file.read_bytes()))["episodes"]
    except (OSError, EOFError, ValueError, KeyError, TypeError, zlib.error) as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise DataError(f"{file}: holds no episodes ({said})") from error
    if not isinstance(episodes, list) or not episodes:
        raise DataError(f"{file}: holds no episodes")
    rounds: Counter[str] = Counter()
    order = []
    for number, fields in enumerate(episodes):
        _check(f"{file}: episode {number}", fields, scenario)
        _make_small(fields, episodes[number - 1] if number else {})
        scene = scene_stem(fields["scene_id"])
        order.append((rounds[scene], scene, number))
        rounds[scene] += 1
    return [episodes[number] for _, _, number in sorted(order)]


def _check(where: str, fields: Any, scenario: str) -> None:
    """Refuse what is not habitat-lab's `RearrangeEpisode`, or none of a scenario's."""
    needed = {
        "scene_id": str, "scene_dataset_config": str, "start_position": list, "start_rotation": list, "ao_states": dict,
        "rigid_objs": list, "targets": dict, "info": dict,
    }  # fmt: skip
    if not isinstance(fields, dict):
        raise DataError(f"{where} is no table")
    for key, form in needed.items():
        if not isinstance(fields.get(key), form):
            raise DataError(f"{where} has no {key}, or not as habitat-lab's RearrangeEpisode has it")
    names = set()
    made: Counter[str] = Counter()
    for listed in fields["rigid_objs"]:
        if not (isinstance(listed, list) and len(listed) == 2 and isinstance(listed[0], str)):
            raise DataError(f"{where}: one of rigid_objs is no file name and pose")
        named = _kind_of(listed[0])
        if named not in OBJECTS:
            raise DataError(f"{where}: {named} is not among the objects whose shapes are known here (hab/objects.py)")
        names.add(f"{named}_:{made[named]:04d}")
        made[named] += 1
    _check_poses(where, fields["rigid_objs"])
    if len(fields["targets"]) != TARGETS[scenario]:
        raise DataError(f"{where}: {scenario} has {TARGETS[scenario]} targets, this one {len(fields['targets'])}")
    for name in fields["targets"]:
        if name not in names:
            raise DataError(f"{where}: the target {name} is none of its objects")
    _check_poses(f"{where}: the target", list(fields["targets"].items()))
    _check_numbers(f"{where}: start_position", fields["start_position"], 3)
    _check_numbers(f"{where}: start_rotation", fields["start_rotation"], 4)
    for key, form in {"markers": list, "name_to_receptacle": dict, "goal_receptacles": list}.items():
        if fields.get(key) is not None and not isinstance(fields[key], form):
            raise DataError(f"{where}: its {key} are not as habitat-lab's RearrangeEpisode has them")
    for marker in fields.get("markers") or ():
        params = marker.get("params", {}) if isinstance(marker, dict) else {}
        if not all(isinstance(params.get(key), str) for key in ("link", "object")):
            raise DataError(f"{where}: a marker names no link of an object")
        _check_numbers(f"{where}: the marker {marker.get('name')}'s offset", params.get("offset"), 3)
    for name, states in fields["ao_states"].items():
        if not isinstance(states, dict) or not all(str(link).lstrip("-").isdigit() for link in states):
            raise DataError(f"{where}: the ao_states of {name} are not by links' numbers")
        _check_numbers(f"{where}: the ao_states of {name}", list(states.values()), len(states))


def _check_poses(where: str, named: Sequence[Sequence[Any]]) -> None:
    """Refuse what are no names with a rotation and translation each."""
    if named and not _are_poses([pose for _, pose in named]):
        bad = next(name for name, pose in named if not _are_poses([pose]))
        raise DataError(f"{where} {bad} has a pose that is no rotation and translation (4 by 4)")


def _are_poses(poses: list[Any]) -> bool:
    try:
        found = np.asarray(poses, dtype=np.float64)
    except (TypeError, ValueError):
        return False
    if found.shape != (len(poses), 4, 4) or not np.isfinite(found).all():
        return False
    turns = found[:, :3, :3]
    return bool(np.allclose(turns @ turns.transpose(0, 2, 1), np.eye(3), atol=_ROTATION_SLACK))


def _make_small(fields: dict[str, Any], before: dict[str, Any]) -> None:
    """Keep of an episode what is needed, and what is as in the one before once: each process holds 10,000 of them."""
    poses = np.asarray([pose for _, pose in fields["rigid_objs"]], dtype=np.float64)
    fields["rigid_objs"] = [(file, pose) for (file, _), pose in zip(fields["rigid_objs"], poses, strict=True)]
    lying = fields.get("name_to_receptacle") or {}
    fields["name_to_receptacle"] = {name: lying[name] for name in fields["targets"] if name in lying}
    if fields.get("markers") == before.get("markers"):
        fields["markers"] = before.get("markers", [])


def _check_numbers(where: str, values: Any, count: int) -> None:
    try:
        good = len(values) == count and bool(np.isfinite(np.asarray(values, dtype=np.float64)).all())
    except (TypeError, ValueError):
        good = False
    if not good:
        raise DataError(f"{where} is not {count} numbers")


def check_playable(folder: DataFolder, scenario: str) -> None:
    """Refuse a folder that lacks what an episode's simulation needs besides: the robot, the objects' descriptions."""
    fields = folder.raw(scenario)[0]
    _ = folder.robot
    own = folder.dataset(fields).files["objects"]
    places = folder.object_folders(fields)
    for file, _ in fields["rigid_objs"]:
        if _kind_of(file) not in own and not any((place / f"{_kind_of(file)}{_ENDING}").is_file() for place in places):
            looked = f"in the scene dataset and in {', '.join(OBJECT_PLACES)}"
            raise DataError(f"{folder.root}: has no {_kind_of(file)}{_ENDING}; looked {looked}")


# -- apartments and episodes -------------------------------------------------------------------------------------------


@lru_cache(maxsize=128)
def _apartment(folder: DataFolder, name: str) -> Apartment:
    """Read an apartment. Its drawers and doors are those that any scenario's first episode there has a marker on."""
    handles: dict[tuple[str, str], Handle] = {}
    dataset = None
    for scenario in SCENARIOS:
        episodes = folder.raw(scenario) if folder.has(scenario) else []  # a folder may have one scenario alone
        fields = next((fields for fields in episodes if scene_stem(fields["scene_id"]) == name), None)
        if fields is None:
            continue
        dataset = dataset or folder.dataset(fields)
        for marker in fields.get("markers") or ():
            told = marker["params"]
            offset = tuple(map(float, told["offset"]))
            handles.setdefault((told["object"], told["link"]), Handle(told["object"], told["link"], offset))  # type: ignore[arg-type]
    if dataset is None:
        raise DataError(f"{folder.root}: no {folder.split} episode plays in {name}")
    ordered = [handles[key] for key in sorted(handles)]
    return read_apartment(dataset, name, ordered, folder.number(name))


def read_episode(folder: DataFolder, scenario: str, index: int, objects: int | None = None) -> Episode:
    """Return one of a scenario's episodes; `objects`: with no more than so many of them, the targets among them.

    Objects, goals and joints are the file's. Where HAB draws the robot's start as the task begins (its files say the
    origin), the index draws it here. Raises `DataError`, also where the file has no such episode.
    """
    episodes = folder.raw(scenario)
    if not 0 <= index < len(episodes):
        raise DataError(f"{folder.episode_file(scenario)} holds the episodes 0 to {len(episodes) - 1}, not {index}")
    fields = episodes[index]
    apartment = folder.apartment(scene_stem(fields["scene_id"]))
    scene = apartment.scene
    joints = {}
    for name, joint in apartment.joints.items():
        state = fields["ao_states"].get(joint.object, {}).get(str(joint.link))
        if state:
            joints[name] = float(state)
    poses = object_poses(fields)
    handles = dict(zip(handles_in_order(fields), poses, strict=True))
    placed = {name: (position, _yaw(quat)) for name, (position, quat) in poses.items()}
    lying = fields["name_to_receptacle"]
    owners = {str(owner) for owner, _ in fields.get("goal_receptacles") or ()}
    targets = []
    for handle in _in_order(fields):
        name, goal = handles[handle], _position(fields["targets"][handle])
        start = placed[name][0]
        found = next((r for r in scene.receptacles if r.name == lying.get(handle)), None)
        begins = found or _under(apartment, start, joints, set(), fields)
        targets.append(Target(name, begins.name, _under(apartment, goal, joints, owners, fields).name, start, goal))
    if objects is not None and objects < len(placed):
        if objects < len(targets):
            raise DataError(f"objects={objects}: {scenario} plays with {len(targets)} at least")
        first = [target.object for target in targets]
        kept = [*first, *(name for name in placed if name not in first)][:objects]
        placed = {name: placed[name] for name in placed if name in kept}
    robot = _told_start(fields) or _drawn_start(apartment, scenario, index, joints, fields)
    return Episode(
        scenario, folder.split, index, scene.seed, robot, placed, joints, tuple(targets), data=str(folder.root)
    )


def object_poses(fields: dict[str, Any]) -> dict[str, tuple[Vec3, Quat]]:
    """Return where the objects of an episode's fields are, by our names, in the file's order."""
    made: Counter[str] = Counter()
    poses = {}
    for file, pose in fields["rigid_objs"]:
        kind = _kind_of(file)
        made[kind] += 1
        poses[f"{kind}-{made[kind]}"] = _position(pose), _quat(pose)
    return poses


def handles_in_order(fields: dict[str, Any]) -> list[str]:
    """Return what habitat-lab calls an episode's objects, in the file's order."""
    made: Counter[str] = Counter()
    names = []
    for file, _ in fields["rigid_objs"]:
        kind = _kind_of(file)
        names.append(f"{kind}_:{made[kind]:04d}")
        made[kind] += 1
    return names


def _in_order(fields: dict[str, Any]) -> list[str]:
    """Return the targets' handles as their labels number them ("any_targets|0")."""
    labels = fields["info"].get("object_labels", {})
    numbers = {handle: re.search(r"\|(\d+)$", str(labels.get(handle, ""))) for handle in fields["targets"]}
    if any(number is None for number in numbers.values()):
        return list(fields["targets"])
    return sorted(numbers, key=lambda handle: int(numbers[handle][1]))  # type: ignore[index]


def _told_start(fields: dict[str, Any]) -> tuple[float, float, float] | None:
    """Return the robot's start; None: the file tells none, as HAB's."""
    x, y, z = fields["start_position"]
    _, turn, _, w = fields["start_rotation"]
    if (x, y, z) == (0, 0, 0) and turn == 0:
        return None
    ahead, left, _ = from_habitat((x, y, z))
    return ahead, left, 2.0 * math.atan2(turn, w)


def _drawn_start(
    apartment: Apartment, scenario: str, index: int, joints: dict[str, float], fields: dict[str, Any]
) -> tuple[float, float, float]:
    grid = grid_with_openings(apartment.scene, apartment.grid, joints)
    try:
        return robot_start(grid, np.random.default_rng([SCENARIOS.index(scenario), index]))
    except Unsolvable as error:
        raise DataError(f"{fields['scene_id']}: nowhere is there room for the robot to turn") from error


def _under(
    apartment: Apartment, position: Vec3, joints: dict[str, float], owners: set[str], fields: dict[str, Any]
) -> Receptacle:
    """Return the surface on which something lies: one of the owners', if it may be one of theirs."""

    def miss(receptacle: Receptacle) -> float:
        x, y, z = receptacle.center
        if receptacle.kind == "drawer":
            part = apartment.scene.articulation(receptacle.articulation)
            x, y, z = drawn_out(part, joints.get(part.name, 0.0), (x, y, z))
        local = np.abs(rotated(-receptacle.yaw, np.subtract(position[:2], (x, y))))
        beside = float(np.hypot(*np.maximum(local - receptacle.half_extents, 0.0)))
        above = position[2] - z
        fits = beside <= _NEAR_M and -_SUNK_M < above < max(receptacle.clearance_m, _NEAR_M)
        return beside + abs(above) if fits else math.inf

    of_owners = [r for r in apartment.scene.receptacles if apartment.owners[r.name] in owners]
    for among in (of_owners, apartment.scene.receptacles):
        best = min(among, key=miss, default=None)
        if best is not None and math.isfinite(miss(best)):
            return best
    at = ", ".join(f"{value:.2f}" for value in _as_habitat(position))
    raise DataError(f"{fields['scene_id']}: no annotated receptacle is under the target at ({at})")


def _as_habitat(position: Sequence[float]) -> tuple[float, float, float]:
    x, y, z = position
    return x, z, -y


def _kind_of(file: str) -> str:
    return Path(file).name.removesuffix(_ENDING)


def _position(pose: Any) -> Vec3:
    return from_habitat([pose[row][3] for row in range(3)])


def _quat(pose: Any) -> Quat:
    """Return a pose's rotation in our frame, of a body whose own axes are converted, too."""
    import trimesh

    turn: NDArray[np.float64] = np.eye(4)
    turn[:3, :3] = TO_HABITAT.T @ np.asarray(pose, dtype=np.float64)[:3, :3] @ TO_HABITAT
    w, x, y, z = trimesh.transformations.quaternion_from_matrix(turn).tolist()
    return w, x, y, z


def _yaw(quat: Quat) -> float:
    from hab.scene import yaw_of

    return yaw_of(quat)
