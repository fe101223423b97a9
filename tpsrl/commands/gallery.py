"""`tpsrl gallery`."""

from __future__ import annotations

from pathlib import Path

import click

from tpsrl.inputs import BadInput, output_files


@click.command("gallery")
@click.argument("folder", metavar="DIR", type=Path)
@click.option("--title", help="Default: the folder's name.")
def gallery_command(folder: Path, title: str | None) -> None:
    """Write DIR/index.html: a page over the films in DIR that tpsrl render made, by outcome."""
    from tpsrl.progress import frame_progress
    from videos.gallery import PAGE, GalleryError, build_gallery, rollouts

    try:
        found = rollouts(folder)
        output_files([("DIR", folder / PAGE)])
        with frame_progress("gallery") as on_film:
            page = build_gallery(found, folder, title or folder.resolve().name, on_film)
    except GalleryError as error:
        raise BadInput(str(error)) from error
    click.echo(str(page))
