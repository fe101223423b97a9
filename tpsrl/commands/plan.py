"""`tpsrl plan`."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from hab.episodes import SCENARIOS, SPLITS
from tpsrl.inputs import BadInput, Name


@click.command("plan")
@click.argument("scenario", type=Name("scenario", SCENARIOS))
@click.option("--split", default="val", show_default=True, type=Name("split", SPLITS))
@click.option("--episode", default=0, show_default=True, type=click.IntRange(min=0))
@click.option("--nav-skill/--no-nav-skill", default=True, help="With the Navigate steps, or without (NoNav).")
@click.option("--pddl", is_flag=True, help="Print the domain and problem files instead.")
@click.option("--data", "folder", type=Path, metavar="DIR", help="Episode N of a folder of Habitat data.")
def plan_command(scenario: str, split: str, episode: int, nav_skill: bool, pddl: bool, folder: Path | None) -> None:
    """Print an episode's plan: ground actions, the skills that play them and the interactions they make."""
    from rich.table import Table

    from hab.episodes import data_split, load_scene, make_episode
    from hab.habitat.assets import DataError
    from planner.problem import problem_pddl
    from planner.task_planner import domain_pddl, plan

    try:
        start = make_episode(scenario, split if folder is None else data_split(split, str(folder)), episode)
    except DataError as error:
        raise BadInput(f"--data: {error}") from error
    scene = load_scene(start.scene_seed)
    if pddl:
        click.echo(domain_pddl(nav_skill) + "\n" + problem_pddl(start, scene), nl=False)
        return
    table = Table(title=f"{scenario}, {split} episode {episode}")
    for heading in ("", "action", "skill", "interaction"):
        table.add_column(heading)
    for number, step in enumerate(plan(start, scene, nav_skill), start=1):
        table.add_row(str(number), step.action, step.skill, step.interaction)
    Console(width=max(Console().width, 120)).print(table)  # a wrapped ground action is hard to read and to grep
