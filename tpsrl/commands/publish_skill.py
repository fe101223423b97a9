"""`tpsrl publish-skill`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hab.episodes import SPLITS
from tpsrl.inputs import BadInput, Failure, Name

if TYPE_CHECKING:
    from configs.navigation import TrainNavConfig

SEED = 0
SKILL_EPISODES, NAVIGATION_EPISODES = 200, 1000


@click.command("publish-skill")
@click.argument("run_folder", metavar="RUN", type=Path)
@click.option("--zoo", type=Path, metavar="DIR", help="Where to; default: the packaged zoo.")
@click.option("--split", "splits", multiple=True, default=("val",), show_default=True, type=Name("split", SPLITS))
@click.option(
    "--episodes",
    type=click.IntRange(min=1),
    help=f"Default: {SKILL_EPISODES} of a skill, {NAVIGATION_EPISODES:,} of a navigation task.",
)
@click.option("--workers", default=1, show_default=True, type=click.IntRange(min=1), help="Parallel processes.")
def publish_skill_command(
    run_folder: Path, zoo: Path | None, splits: tuple[str, ...], episodes: int | None, workers: int
) -> None:
    """Copy a training run's policy to a zoo, measure it and write its model card.

    RUN is one of train-skill or of train-nav. It may be a folder of the zoo itself: then only what --split names is
    measured again.
    """
    from configs.navigation import read_nav_config
    from configs.schema import ConfigError
    from planner.zoo import CONFIG

    try:
        config = read_nav_config(run_folder / CONFIG)
    except ConfigError:
        _publish_skill(run_folder, zoo, splits, episodes or SKILL_EPISODES, workers)
    else:
        if workers > 1:
            raise BadInput(f"--workers {workers}: navigation is measured by one process; leave it out")
        _publish_navigation(run_folder, config, zoo, splits, episodes or NAVIGATION_EPISODES)


def _published(folder: Path, zoo: Path | None) -> Path | None:
    """Return a folder that is published already, of which only the measuring is left; None for a run."""
    from eval.training_facts import CARD

    if not (folder / CARD).exists():
        return None
    if zoo is not None:
        raise BadInput(f"--zoo {zoo}: {folder} is published already, and is measured where it lies; leave it out")
    return folder


def _publish_skill(run_folder: Path, zoo: Path | None, splits: tuple[str, ...], episodes: int, workers: int) -> None:
    from eval.evaluate import Request, evaluate
    from eval.model_card import publish, record
    from eval.training_facts import CardError, rate, read_card
    from planner.agent import Agent
    from planner.zoo import ZOO, ZooError, run_entry
    from tpsrl.progress import episode_progress

    try:
        entry = run_entry(run_folder)
        folder = _published(run_folder, zoo) or publish(run_folder, entry, zoo or ZOO)
    except (ZooError, CardError) as error:
        raise BadInput(str(error)) from error
    config = entry.config
    agent = Agent(str(folder.parent), skill_nav=config.nav)
    for split in splits:
        request = Request(config.skill, agent, split, episodes, seed=SEED, obs=config.obs)
        with episode_progress(f"{entry.name} {split}", episodes) as on_result:
            evaluation = evaluate(request, workers, on_result)
        if evaluation.error or evaluation.interrupted:
            raise Failure(evaluation.error or f"interrupted: {split} is not in the card")
        record(folder, evaluation)
        click.echo(f"{folder}: {split} {rate(read_card(folder)['results'][split])}")


def _publish_navigation(
    run_folder: Path, config: TrainNavConfig, zoo: Path | None, splits: tuple[str, ...], episodes: int
) -> None:
    from configs.navigation import TASK_KEYS
    from eval.navigation import evaluate_navigation
    from eval.navigation_card import publish_navigation, record_navigation
    from eval.training_facts import CardError, read_card
    from planner.zoo import WEIGHTS
    from skills.navigator import NAVIGATION_ZOO, Navigator
    from skills.trained import WeightsError
    from tpsrl.progress import episode_progress

    try:
        navigator = Navigator(config.policy, config.task, config.obs, config.gps, run_folder / WEIGHTS)
        folder = _published(run_folder, zoo) or publish_navigation(run_folder, config, zoo or NAVIGATION_ZOO)
    except (WeightsError, CardError, OSError) as error:
        raise BadInput(str(error)) from error
    options = {key: getattr(config, key) for key in TASK_KEYS}
    for split in splits:
        with episode_progress(f"{folder.name} {split}", episodes) as on_result:
            results = evaluate_navigation(config.task, options, split, episodes, navigator, SEED, on_result)
        if len(results) < episodes:
            raise Failure(f"interrupted: {split} is not in the card")
        record_navigation(folder, split, results, SEED)
        found = read_card(folder)["results"][split]
        measures = ("success", "spl", "softspl", "distance_to_goal", "return")
        said = ", ".join(f"{name} {found[name]:.3f}" for name in measures if name in found)
        click.echo(f"{folder}: {split} {said}")
