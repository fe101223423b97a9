"""`tpsrl publish-skill`."""

from __future__ import annotations

from pathlib import Path

import click

from hab.episodes import SPLITS
from tpsrl.inputs import BadInput, Failure, Name


@click.command("publish-skill")
@click.argument("run_folder", metavar="RUN", type=Path)
@click.option("--zoo", type=Path, metavar="DIR", help="Where to; default: the packaged zoo.")
@click.option("--split", "splits", multiple=True, default=("val",), show_default=True, type=Name("split", SPLITS))
@click.option("--episodes", default=200, show_default=True, type=click.IntRange(min=1))
@click.option("--workers", default=1, show_default=True, type=click.IntRange(min=1), help="Parallel processes.")
def publish_skill_command(
    run_folder: Path, zoo: Path | None, splits: tuple[str, ...], episodes: int, workers: int
) -> None:
    """Copy a training run's policy to a zoo, measure it and write its model card.

    RUN may be a folder of the zoo itself: then only what --split names is measured again.
    """
    from eval.evaluate import Request, evaluate
    from eval.model_card import CARD, CardError, publish, rate, read_card, record
    from planner.agent import Agent
    from planner.zoo import ZOO, ZooError, run_entry
    from tpsrl.progress import episode_progress

    try:
        entry = run_entry(run_folder)
        folder = run_folder if (run_folder / CARD).exists() else publish(run_folder, entry, zoo or ZOO)
    except (ZooError, CardError) as error:
        raise BadInput(str(error)) from error
    config = entry.config
    agent = Agent(str(folder.parent), skill_nav=config.nav)
    for split in splits:
        request = Request(config.skill, agent, split, episodes, obs=config.obs)
        with episode_progress(f"{entry.name} {split}", episodes) as on_result:
            evaluation = evaluate(request, workers, on_result)
        if evaluation.error or evaluation.interrupted:
            raise Failure(evaluation.error or f"interrupted: {split} is not in the card")
        record(folder, evaluation)
        click.echo(f"{folder}: {split} {rate(read_card(folder)['results'][split])}")
