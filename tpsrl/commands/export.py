"""`tpsrl export`."""

from __future__ import annotations

from pathlib import Path

import click

from hab.episodes import SPLITS
from tpsrl.inputs import BadInput, Name


@click.group("export")
def export_group() -> None:
    """Write apartments and episodes for other simulators."""


@export_group.command("habitat")
@click.argument("folder", metavar="DIR", type=Path)
@click.option("--split", default="val", show_default=True, type=Name("split", SPLITS))
@click.option("--scenes", default=1, show_default=True, type=click.IntRange(min=1), help="The split's first N.")
@click.option("--episodes", default=20, show_default=True, type=click.IntRange(min=1), help="Per scenario and skill.")
def export_habitat_command(folder: Path, split: str, scenes: int, episodes: int) -> None:
    """Write a Habitat scene dataset: apartments, the Fetch, and HAB episodes of every skill and scenario."""
    from hab.habitat.export import export
    from hab.layout import SPLIT_SEEDS
    from tpsrl.progress import count_progress

    if scenes > len(SPLIT_SEEDS[split]):
        raise BadInput(f"--scenes {scenes}: {split} has {len(SPLIT_SEEDS[split])} apartments")
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file; name a folder")
    with count_progress(f"{split} apartments", scenes) as done:
        made = export(folder, split, scenes, episodes, done)
    click.echo(
        f"{folder}: {scenes} apartments ({', '.join(map(str, made.seeds))}), the robot, "
        f"and {episodes} episodes of each of {len(made.files)} tasks; "
        + ("with navigation meshes" if made.navmeshes else "no navigation meshes: they need habitat-sim")
    )
