"""Start states recorded where the chain handed over to a skill, in training apartments (`tpsrl record-starts`).

One file holds those of all skills. They are what the skills before really left behind: the base and the arm where they
were, the object in hand as it hangs, doors and drawers as far open as they were drawn. A file goes with the apartments
that it was recorded in.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from zipfile import BadZipFile

import numpy as np

from hab.episodes import load_scene, make_episode, scene_seed
from hab.scene import Scene, yaw_of
from hab.simulator import Snapshot
from skills.skill import Goal
from skills.starts import Start

SPLIT = "train"


class RecordingError(ValueError):
    """A file that holds no recorded start states; the message is one line."""


@dataclass(frozen=True)
class Recorded:
    """One call of a skill in a chain."""

    skill: str
    scenario: str
    index: int
    """Of the episode, in the training split."""
    goal: Goal
    snapshot: Snapshot
    apartment: int
    """Tells the apartment as it was then from what a changed generator makes of its seed (`fingerprint`)."""


def fingerprint(scene: Scene) -> int:
    """Return a number that changes with where an apartment's walls and surfaces are (to a centimetre)."""
    places = [*scene.bounds, *(value for receptacle in scene.receptacles for value in receptacle.center)]
    return zlib.crc32(" ".join(f"{value:.2f}" for value in places).encode())


def save(path: Path, calls: Sequence[Recorded]) -> None:
    """Write calls to an npz file."""
    most = max((len(call.snapshot.positions) for call in calls), default=0)
    positions = np.full((len(calls), most), np.nan, np.float32)
    for row, call in zip(positions, calls, strict=True):
        row[: len(call.snapshot.positions)] = call.snapshot.positions
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        np.savez_compressed(
            file,
            skill=np.array([call.skill for call in calls], str),
            scenario=np.array([call.scenario for call in calls], str),
            index=np.array([call.index for call in calls], np.int64),
            goal=np.array([call.goal.position for call in calls], np.float64).reshape(-1, 3),
            object=np.array([call.goal.object for call in calls], str),
            taken=np.array([call.goal.taken or (np.nan,) * 3 for call in calls], np.float64).reshape(-1, 3),
            articulation=np.array([call.goal.articulation for call in calls], str),
            held=np.array([call.snapshot.held for call in calls], str),
            positions=positions,
            apartment=np.array([call.apartment for call in calls], np.int64),
        )
    part.replace(path)


@lru_cache(maxsize=2)
def load(path: str, skill: str) -> dict[int, list[Recorded]]:
    """Return a skill's recorded calls by apartment. Raises `RecordingError`."""
    found: dict[int, list[Recorded]] = {}
    try:
        with np.load(path, allow_pickle=False) as file:
            columns = {key: file[key] for key in file.files}
        for i in np.flatnonzero(columns["skill"] == skill).tolist():
            x, y, z = columns["goal"][i].tolist()
            # The articulated skills are about a handle, whatever lies behind it.
            articulation = str(columns["articulation"][i])
            named = "" if articulation and skill != "navigate" else str(columns["object"][i])
            tx, ty, tz = columns["taken"][i].tolist()
            taken = None if math.isnan(tx) else (tx, ty, tz)
            row = columns["positions"][i].astype(np.float64)
            call = Recorded(
                skill,
                str(columns["scenario"][i]),
                int(columns["index"][i]),
                Goal((x, y, z), named, articulation, taken=taken),
                Snapshot(row[~np.isnan(row)], str(columns["held"][i])),
                int(columns["apartment"][i]),
            )
            found.setdefault(scene_seed(SPLIT, call.index), []).append(call)
    except (OSError, EOFError, ValueError, LookupError, TypeError, BadZipFile, zlib.error) as error:
        raise RecordingError(f"{path}: holds no recorded start states ({' '.join(str(error).split())})") from error
    return found


def start_of(call: Recorded) -> Start:
    """Return a recorded call as a start state. Raises `RecordingError` if its apartment is another one now."""
    episode = make_episode(call.scenario, SPLIT, call.index)
    scene = load_scene(episode.scene_seed)
    if fingerprint(scene) != call.apartment:
        raise RecordingError(f"an apartment of {SPLIT} is no longer what it was when it was recorded")
    told = call.snapshot.read(scene)
    objects = {name: (position, yaw_of(quat)) for name, (position, quat) in told.objects.items()}
    episode = replace(episode, robot=told.base, objects=objects, joints=told.joints)
    return Start(episode, call.goal, call.snapshot.held, snapshot=call.snapshot)
