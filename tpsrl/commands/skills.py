"""`tpsrl skills`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
from rich.console import Console

from tpsrl.inputs import BadInput, output_files


@click.command("skills")
@click.option("--zoo", type=Path, metavar="DIR", help="Another folder of published policies than the packaged one.")
@click.option("--curves", type=Path, metavar="FILE", help="Also draw their success while they were trained (.png).")
def skills_command(zoo: Path | None, curves: Path | None) -> None:
    """List the trained policies: how long all parts of their training were, and their success on unseen apartments."""
    from rich.table import Table

    from eval.curves import draw_curves
    from eval.training_facts import CardError, effort, rate, read_card
    from planner.zoo import ZOO, ZooError, entries

    if curves is not None and curves.suffix != ".png":
        raise BadInput(f"--curves {curves}: the file's name must end in .png")
    output_files([("--curves", curves)])
    folder = zoo or ZOO
    table = Table(title=f"trained policies in {folder}", expand=False)
    for heading in ("policy", "base", "million decisions", "minutes", "val", "test"):
        table.add_column(heading, justify="left" if heading in ("policy", "base") else "right")
    try:
        found = entries(folder)
        for entry in found:
            card = read_card(entry.folder)
            steps, seconds = effort(card)
            table.add_row(
                entry.name,
                "drives" if entry.config.nav else "stands",
                f"{steps / 1e6:.2f}",
                f"{seconds / 60:.0f}",
                *(rate(card["results"][split]) if split in card["results"] else "-" for split in ("val", "test")),
            )
    except (ZooError, CardError) as error:
        raise BadInput(str(error)) from error
    if not found:
        raise BadInput(f"{folder}: holds no trained policies; tpsrl publish-skill puts runs there")
    console = Console(width=max(Console().width, 110))
    console.print(table)
    if zoo is None:
        console.print(_navigation())
    if curves is not None:
        try:
            drawn = draw_curves(folder, curves)
        except ZooError as error:
            raise BadInput(str(error)) from error
        if not drawn:
            raise BadInput(f"--curves: {folder} keeps no curve of its policies; publish them anew from their runs")
        click.echo(f"{curves}: {drawn} of {len(found)} policies; of the others no curve was kept")


def _navigation() -> Any:
    """Return the table of the packaged policies of navigation tasks."""
    from rich.table import Table

    from eval.navigation_card import success_and_spl
    from eval.training_facts import read_card
    from planner.zoo import WEIGHTS
    from skills.navigator import NAVIGATION_ZOO

    table = Table(title="navigation", expand=False)
    for heading in ("policy", "million steps", "minutes", "val", "SPL", "test", "SPL"):
        table.add_column(heading, justify="left" if heading == "policy" else "right")
    for weights in sorted(NAVIGATION_ZOO.glob(f"*/{WEIGHTS}")):
        card = read_card(weights.parent)
        row = [weights.parent.name, f"{card['training']['steps'] / 1e6:.1f}", f"{card['training']['seconds'] / 60:.0f}"]
        for split in ("val", "test"):
            row += success_and_spl(card["results"].get(split, {}))
        table.add_row(*row)
    return table
