"""An episode as habitat-lab plays it: `RearrangeEpisode`'s fields, its files, and what its parts are called."""

from __future__ import annotations

import contextlib
import math
import os
import tempfile
from collections import Counter
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hab.episodes import Episode, load_scene
from hab.habitat import apartments, lab
from hab.habitat.episodes import LABELS, habitat_episode, handles
from hab.habitat.fetch import write_fetch
from hab.habitat.official import data_folder, handles_in_order, object_poses, scene_stem
from hab.scene import Quat, Vec3

CACHE_VARIABLE = "TPSRL_HABITAT_CACHE"
_CACHE_FORMAT = 6
"""Raise it when what is exported changes, or apartments written before would go on being played."""
_ENDING = ".object_config.json"


@dataclass(frozen=True)
class Played:
    """What habitat-lab is given, and how to find it again."""

    fields: dict[str, Any]
    """`RearrangeEpisode`'s. Joints are none of them: they are set directly."""
    files: lab.Files
    poses: dict[str, tuple[Vec3, Quat]]
    """Where the objects are, by our names (our frame)."""
    handles: dict[str, str]
    """What habitat-sim calls them, in the order in which it makes them."""
    markers: dict[str, str]
    """The articulations' markers, by our names."""


def played(episode: Episode) -> Played:
    """Return an episode as habitat-lab plays it. Raises `DataError` for one of a folder that has not all it takes."""
    return _of_data(episode) if episode.data else _of_export(episode)


def cache_folder() -> Path:
    """Return where exported apartments are kept: `TPSRL_HABITAT_CACHE`, or a folder of the user's cache."""
    named = os.environ.get(CACHE_VARIABLE)
    return (Path(named) if named else Path.home() / ".cache" / "tpsrl" / "habitat") / f"format_{_CACHE_FORMAT}"


def _of_export(episode: Episode) -> Played:
    """Return one of an apartment of ours, which is exported now if it was not before.

    Each has a folder of its own: habitat-sim reads a dataset's folders once, when it first meets them.
    """
    scene = load_scene(episode.scene_seed)
    folder = cache_folder() / apartments.scene_name(scene.seed)
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder.parent) as made:
            apartments.write_dataset(Path(made) / "new")
            write_fetch(Path(made) / "new")
            apartments.write_apartment(Path(made) / "new", scene)
            with contextlib.suppress(OSError):  # another process was first
                (Path(made) / "new").rename(folder)
    files = lab.Files.of_export(folder, episode.scenario)
    fields = habitat_episode(replace(episode, joints={}), 0, str(files.dataset), LABELS[episode.scenario])
    poses: dict[str, tuple[Vec3, Quat]] = {
        name: (position, (math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2)))
        for name, (position, yaw) in episode.objects.items()
    }
    links = {marker["params"]["link"]: marker["name"] for marker in fields["markers"]}
    markers = {part.name: links[apartments.link_name(part)] for part in scene.articulations}
    return Played(fields, files, poses, handles(episode.objects), markers)


def _of_data(episode: Episode) -> Played:
    """Return one that was read from a folder of Habitat data, with the objects that it still has.

    Handles are those of the scene, whether the episode's own markers name them or not: each gets one.
    """
    folder = data_folder(episode.data, episode.split)
    told = folder.raw(episode.scenario)[episode.index]
    apartment = folder.apartment(scene_stem(told["scene_id"]))
    dataset = folder.dataset(told).file
    physics = cache_folder() / apartments.PHYSICS
    if not physics.is_file():
        apartments.write_physics(physics)
    files = lab.Files(dataset, folder.robot.resolve(), physics, folder.object_folders(told))
    objects: list[list[Any]] = []
    poses: dict[str, tuple[Vec3, Quat]] = {}
    found: dict[str, str] = {}
    renamed: dict[str, str] = {}
    made: Counter[str] = Counter()
    # habitat-lab makes them in the order of their files' names.
    order = sorted(
        zip(object_poses(told).items(), told["rigid_objs"], handles_in_order(told), strict=True),
        key=lambda row: row[1][0],
    )
    for (name, (_, quat)), listed, handle in order:
        if name not in episode.objects:
            continue
        kind = Path(listed[0]).name.removesuffix(_ENDING)
        found[name] = renamed[handle] = f"{kind}_:{made[kind]:04d}"
        made[kind] += 1
        objects.append([listed[0], listed[1].tolist()])
        poses[name] = episode.objects[name][0], quat
    labels = told["info"].get("object_labels", {})
    fields = {
        "episode_id": "0",
        "scene_id": apartment.name,
        "scene_dataset_config": str(dataset),
        "additional_obj_config_paths": [str(place) for place in files.objects],
        "start_position": told["start_position"],
        "start_rotation": told["start_rotation"],
        "info": {"object_labels": {renamed[handle]: labels[handle] for handle in told["targets"] if handle in labels}},
        "ao_states": {},
        "rigid_objs": objects,
        "targets": {renamed[handle]: pose for handle, pose in told["targets"].items()},
        "markers": [
            {
                "name": name,
                "type": "articulated_object",
                "params": {"offset": list(handle.offset), "link": handle.link, "object": handle.object},
            }
            for name, handle in apartment.handles.items()
        ],
    }
    return Played(fields, files, poses, found, {name: name for name in apartment.handles})
