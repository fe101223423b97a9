"""`tpsrl data`."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import click

from hab.backend import unavailable
from hab.episodes import SCENARIOS, SPLITS
from tpsrl.inputs import BadInput, Failure, Name


@click.group("data")
def data_group() -> None:
    """Get data that others publish."""


@data_group.command("habitat")
@click.argument("folder", metavar="DIR", type=Path)
@click.option("--run", is_flag=True, help="Download it now, instead of printing the command.")
def data_habitat_command(folder: Path, run: bool) -> None:
    """Say which of HAB's official data DIR lacks, and the command of habitat-sim that downloads it."""
    from hab.habitat.data import absent, download_command

    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file; name a folder")
    missing = absent(folder)
    for dataset in missing:
        click.echo(f"missing: {dataset.what} ({folder / dataset.place}); licence: {dataset.page}", err=True)
    if not missing:
        click.echo(f"{folder}: nothing is missing")
        return
    command = download_command(folder, missing)
    if not run:
        click.echo(shlex.join(command))
        return
    if reason := unavailable("habitat"):
        raise BadInput(f"--run: {reason}")
    if code := subprocess.run(command, check=False).returncode:
        raise Failure(f"habitat-sim's downloader ended with exit code {code}: {shlex.join(command)}")


@data_group.command("check")
@click.argument("folder", metavar="DIR", type=Path)
@click.option("--split", default="val", show_default=True, type=Name("split", SPLITS))
def check_data_command(folder: Path, split: str) -> None:
    """Read every apartment and episode of a folder of Habitat data, as --data DIR does, and say what is in it.

    It takes no habitat-sim. What cannot be used is one line, and exit code 2.
    """
    from hab.habitat.assets import DataError
    from hab.habitat.official import check_playable, data_folder, read_episode
    from tpsrl.progress import count_progress

    data = data_folder(str(folder), split)
    there = [scenario for scenario in SCENARIOS if data.has(scenario)]
    try:
        if not there:
            data.episode_file(SCENARIOS[0])
        for scenario in there:
            check_playable(data, scenario)
            count = len(data.raw(scenario))
            with count_progress(scenario, count) as done:
                for index in range(count):
                    read_episode(data, scenario, index)
                    done()
            click.echo(f"{scenario}: {count} episodes in {len(data.scenes(scenario))} apartments")
        click.echo(f"skills: {data.starts} start states" if len(there) == len(SCENARIOS) else _ALL_THREE)
    except DataError as error:
        raise BadInput(str(error)) from error


_ALL_THREE = f"skills: none can be played or trained; that takes episodes of {', '.join(SCENARIOS)}"
