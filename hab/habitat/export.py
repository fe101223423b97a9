"""`tpsrl export habitat`: our apartments, robot and episodes in Habitat's formats."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from hab.episodes import SPLITS, load_scene
from hab.habitat import lab
from hab.habitat.apartments import DATASET, write_apartment, write_dataset
from hab.habitat.episodes import write_episodes
from hab.habitat.fetch import write_fetch
from hab.habitat.navmesh import write_navmeshes
from hab.layout import SPLIT_SEEDS


@dataclass(frozen=True)
class Exported:
    """What an export wrote."""

    seeds: list[int]
    """Of the apartments."""
    indices: list[int]
    """Our numbers of the episodes that play in them; each file holds all of them, in this order."""
    files: dict[str, Path]
    """The episodes of each scenario and skill."""
    navmeshes: bool
    """Whether navigation meshes were written; that takes habitat-sim. habitat-lab makes its own as it loads a scene."""


def export(folder: Path, split: str, scenes: int, episodes: int, done: Callable[[], None] = lambda: None) -> Exported:
    """Write a split's first apartments, and the first episodes that play in them, under a folder.

    `done` is called after each apartment. Raises `ValueError` for an unknown split or more apartments than it has.
    """
    if split not in SPLITS:
        raise ValueError(f"unknown split {split!r}; choose from {', '.join(SPLITS)}")
    seeds = SPLIT_SEEDS[split]
    if not 1 <= scenes <= len(seeds):
        raise ValueError(f"scenes={scenes}: {split} has {len(seeds)} apartments")
    write_dataset(folder)
    write_fetch(folder)
    for seed in seeds[:scenes]:
        write_apartment(folder, load_scene(seed))
        done()
    indices = [len(seeds) * (i // scenes) + i % scenes for i in range(episodes)]
    dataset = os.path.relpath(folder / DATASET)
    files = write_episodes(folder, split, indices, dataset)
    installed = not lab.missing()
    if installed:
        write_navmeshes(folder, seeds[:scenes], split)
    return Exported(list(seeds[:scenes]), indices, files, installed)
