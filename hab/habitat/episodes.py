"""Our episodes as habitat-lab's: the files that `RearrangeDataset-v0` reads, one per scenario and skill.

A skill's episode is a scenario's with one of its objects to rearrange, as HAB's are: habitat-lab's tasks draw their
start states themselves. Handles end in the number that habitat-sim gives to each of a kind, from `_:0000` on.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from hab.episodes import SCENARIOS, Episode, lies_on, load_scene, make_episode
from hab.habitat import apartments
from hab.habitat.frames import matrix, to_habitat, yaw_quat
from hab.habitat.lab import CONFIGS
from hab.objects import by_kind, object_kind
from hab.scene import Scene, Vec3

MARKER = "cab_push_point_{}"
TASK_MARKER = MARKER.format(5)
"""The drawer of habitat-lab's Open and Close Cabinet tasks, and of Set Table's plan."""
FRIDGE_MARKER = "fridge_push_point"
LABELS = {
    "tidy_house": ("any_targets|0", "any_targets|1", "any_targets|2", "any_targets|3", "any_targets|4"),
    "prepare_groceries": ("obj0_target|0", "obj1_target|1", "obj2_target|2"),
    "set_table": ("bowl_target|0", "fruit_target|1"),
}
"""What habitat-lab's PDDL problems call the objects to rearrange, in order."""
SKILL_LABEL = "any_targets|0"


def skill_episode(skill: str, split: str, index: int) -> Episode:
    """Return the scenario's episode that a skill's is made of, with the one target that it is about."""
    if skill in ("navigate", "pick", "place"):
        episode = make_episode("tidy_house", split, index)
        target = episode.targets[index % len(episode.targets)]
    else:
        episode = make_episode("set_table", split, index)
        target = episode.targets[0 if skill.endswith("cabinet") else 1]
    return replace(episode, targets=(target,))


def handle(template: str, number: int = 0) -> str:
    """Return what habitat-sim calls an object made from a template: the first, or a later one."""
    return f"{template}_:{number:04d}"


def handles(objects: Iterable[str]) -> dict[str, str]:
    """Return what habitat-sim calls the objects of an episode, by our names, in the order in which it makes them."""
    return {name: handle(kind, number) for kind, names in by_kind(objects).items() for number, name in enumerate(names)}


def transform(position: Vec3, yaw: float) -> list[list[float]]:
    """Return the (4, 4) pose, row by row, of an upright object of our frame in habitat's."""
    return matrix(to_habitat(position), yaw_quat(yaw)).round(9).tolist()


def markers(scene: Scene, drawer: str) -> list[dict[str, Any]]:
    """Return the handles of an apartment; `drawer` ("" for none) gets the name that the tasks open."""
    names = {
        a.name: FRIDGE_MARKER if a.kind == "fridge" else MARKER.format(apartments.joint_index(a))
        for a in scene.articulations
    }
    if drawer:
        other = next(name for name, marker in names.items() if marker == TASK_MARKER)
        names[drawer], names[other] = names[other], names[drawer]
    return [
        {
            "name": names[a.name],
            "type": "articulated_object",
            "params": {
                "offset": list(apartments.handle_offset(a)),
                "link": apartments.link_name(a),
                "object": handle(apartments.articulated_name(a.kind, scene.seed)),
            },
        }
        for a in scene.articulations
    ]


def habitat_episode(episode: Episode, number: int, dataset: str, labels: tuple[str, ...]) -> dict[str, Any]:
    """Return one episode as `RearrangeEpisode`'s fields; `dataset` is the path of the scene dataset's description."""
    scene = load_scene(episode.scene_seed)
    x, y, yaw = episode.robot
    w, qx, qy, qz = yaw_quat(yaw)
    drawers = {r.name: r.articulation for r in scene.receptacles if r.kind == "drawer"}
    named = handles(episode.objects)
    states: dict[str, dict[str, float]] = {}
    for name, position in episode.joints.items():
        part = scene.articulation(name)
        states.setdefault(handle(apartments.articulated_name(part.kind, scene.seed)), {})[
            str(apartments.joint_index(part))
        ] = position
    return {
        "episode_id": str(number),
        "scene_id": apartments.scene_name(scene.seed),
        "scene_dataset_config": dataset,
        "additional_obj_config_paths": [],
        "start_position": list(to_habitat((x, y, 0.0))),
        "start_rotation": [qx, qy, qz, w],
        "info": {
            "object_labels": {named[t.object]: label for t, label in zip(episode.targets, labels, strict=True)},
            "tpsrl": {"scenario": episode.scenario, "split": episode.split, "index": episode.index},
        },
        "ao_states": states,
        "rigid_objs": [
            [f"{object_kind(name)}.object_config.json", transform(*episode.objects[name])] for name in named
        ],
        "targets": {named[t.object]: transform(t.goal_pos, 0.0) for t in episode.targets},
        "markers": markers(
            scene, next((drawers[t.start_receptacle] for t in episode.targets if t.start_receptacle in drawers), "")
        ),
        "target_receptacles": [_receptacle(scene, t.start_receptacle) for t in episode.targets],
        "goal_receptacles": [_receptacle(scene, t.goal_receptacle) for t in episode.targets],
        "name_to_receptacle": {
            named[name]: apartments.receptacle_name(scene, lies)
            for name, (position, _) in episode.objects.items()
            # Not what lies on furniture of the stage: habitat-lab looks for an object that it belongs to, and fails.
            if (lies := lies_on(scene, position)) is not None and lies.articulation
        },
    }


def write_episodes(folder: Path, split: str, indices: list[int], dataset: str) -> dict[str, Path]:
    """Write a file of each scenario and skill with the episodes of these indices; return the files by name."""
    files = {}
    for name in CONFIGS:
        labels = LABELS.get(name, (SKILL_LABEL,))
        made = [
            habitat_episode(
                make_episode(name, split, index) if name in SCENARIOS else skill_episode(name, split, index),
                number,
                dataset,
                labels,
            )
            for number, index in enumerate(indices)
        ]
        files[name] = folder / "episodes" / split / f"{name}.json.gz"
        files[name].parent.mkdir(parents=True, exist_ok=True)
        content = json.dumps({"episodes": made}, separators=(",", ":")).encode()
        files[name].write_bytes(gzip.compress(content, mtime=0))
    return files


def _receptacle(scene: Scene, name: str) -> list[str | int]:
    """Return the articulated object and the link that a receptacle belongs to; the stage is called so, link -1."""
    receptacle = scene.receptacle(name)
    if not receptacle.articulation:
        return ["stage", -1]
    part = scene.articulation(receptacle.articulation)
    link = apartments.joint_index(part) if part.kind == "cabinet" else -1
    return [handle(apartments.articulated_name(part.kind, scene.seed)), link]
