"""`tpsrl houses`."""

from __future__ import annotations

from pathlib import Path

import click

from hab.episodes import SCENARIOS, SPLITS
from tpsrl.inputs import BadInput, Name, output_files


@click.command("houses")
@click.option("--split", default="val", show_default=True, type=Name("split", SPLITS))
@click.option("--scenario", default="tidy_house", show_default=True, type=Name("scenario", SCENARIOS))
@click.option("--count", default=10, show_default=True, type=click.IntRange(min=1, max=40), help="Apartments.")
@click.option("--columns", default=5, show_default=True, type=click.IntRange(min=1), help="Of the sheet.")
@click.option("--out", type=Path, metavar="FILE", help="A .png or .jpg. Default: outputs/houses_SPLIT.png.")
def houses_command(split: str, scenario: str, count: int, columns: int, out: Path | None) -> None:
    """Draw the first apartments of a split from above, as episodes begin in them."""
    from videos.houses import FORMATS, draw_houses

    out = out or Path("outputs") / f"houses_{split}.png"
    if out.suffix not in FORMATS:
        raise BadInput(f"--out {out}: the file's name must end in {' or '.join(FORMATS)}")
    output_files([("--out", out)])
    draw_houses(scenario, split, count, columns, out)
    click.echo(str(out))
