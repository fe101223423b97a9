"""`tpsrl data`."""

from __future__ import annotations

import shlex
import subprocess
from pathlib import Path

import click

from hab.backend import unavailable
from tpsrl.inputs import BadInput, Failure


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
