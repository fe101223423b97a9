"""`tpsrl collect`: episodes of any agent as a dataset to take away."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hab.observation_sets import DEPTH, LASER, OBSERVATION_SETS
from tpsrl.commands.options import agent_options, check_rendering, chosen_agent, eval_config, request_of, seed_option
from tpsrl.inputs import BadInput, Failure, Name, output_files

if TYPE_CHECKING:
    from eval.collect import Kept

FORMATS = ("minari", "lerobot")


@click.command("collect")
@agent_options
@click.option(
    "--episodes", default=100, show_default=True, type=click.IntRange(min=1), help="The first N of the split."
)
@seed_option
@click.option("--workers", default=1, show_default=True, type=click.IntRange(min=1), help="Parallel processes.")
@click.option("--format", "form", default="minari", show_default=True, type=Name("format", FORMATS))
@click.option(
    "--observe",
    type=Name("observation set", tuple(OBSERVATION_SETS)),
    help="The dataset's observations, whatever the skills see. Default: laser, and for lerobot depth.",
)
@click.option("--out", required=True, type=Path, metavar="DIR")
def collect_command(
    name: str,
    overrides: tuple[str, ...],
    episodes: int,
    seed: int,
    workers: int,
    form: str,
    observe: str | None,
    out: Path,
    **flags: Any,
) -> None:
    """Write episodes, failures included, as a Minari or a LeRobot dataset in DIR (docs/datasets.md).

    Each episode's actions are played again in its Gymnasium environment, which has to come to the same states; what is
    kept is what that shows. DIR/episodes holds an episode a file: a collection that was interrupted goes on where it
    stopped, one with more --episodes adds to them, and another --format takes them as they are. OVERRIDES are Hydra
    overrides of configs/eval.yaml.
    """
    from eval.collect import collect, held
    from eval.evaluate import INTERRUPTED
    from eval.records import RecordsError
    from planner.agent import sees_depth
    from tpsrl.progress import episode_progress

    config = eval_config(name, overrides, flags)
    agent = chosen_agent(name, flags, config)
    if config.sim.name != "mujoco":
        raise BadInput(f"collect: replays what the embedded simulator did; leave sim.name={config.sim.name} out")
    if config.sim.depth_noise:
        raise BadInput("collect: keeps what the camera sees without noise; leave sim.depth_noise out")
    if config.sim.objects is not None:
        raise BadInput(f"collect: replays in the environment's full house; leave sim.objects={config.sim.objects} out")
    observe = observe or (DEPTH if form == "lerobot" else LASER)
    check_format(form)
    check_folder("--out", out)
    if observe == DEPTH or sees_depth(agent, name, config.sim.obs):
        check_rendering(config)
    request = request_of(name, agent, flags["split"], episodes, seed, config)
    try:
        known = sum(episode.number < episodes for episode in held(out))
        with episode_progress(name, episodes - known) as on_episode:
            kept, problem = collect(request, observe, out, workers, on_episode)
    except RecordsError as error:
        raise BadInput(str(error)) from error
    if problem == INTERRUPTED:
        click.echo(f"interrupted after {len(kept)} of {episodes} episodes; the same command goes on in {out}")
        return
    if problem:
        raise Failure(f"{problem} ({len(kept)} of {episodes} episodes are in {out})")
    click.echo(write_dataset(form, kept, observe, out))


def check_folder(option: str, folder: Path) -> None:
    """Refuse a folder that cannot be written to."""
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{option} {folder}: is a file; name a folder")
    output_files([(option, folder / "settings.json")])


def check_format(form: str) -> None:
    from eval.lerobot_dataset import LeRobotMissing, check_lerobot
    from eval.minari_dataset import MinariMissing, check_minari

    try:
        check_minari() if form == "minari" else check_lerobot()
    except (MinariMissing, LeRobotMissing) as error:
        raise BadInput(str(error)) from error


def write_dataset(form: str, kept: list[Kept], observe: str, folder: Path) -> str:
    """Make a dataset of the episodes that a folder holds; return what to say of it."""
    from eval.collect import files
    from eval.lerobot_dataset import write_lerobot
    from eval.minari_dataset import MINARI, write_minari
    from tpsrl.progress import count_progress

    steps, good = sum(episode.steps for episode in kept), sum(episode.success for episode in kept)
    said = f"{len(kept)} episodes, {good} of them successes, {steps} steps"
    paths = files(folder, kept)
    with count_progress(form, len(paths)) as on_file:
        if form == "minari":
            name = write_minari(paths, observe, folder, on_file)
            return f"{said}: minari.load_dataset({name!r}) with MINARI_DATASETS_PATH={folder / MINARI}"
        name, root = write_lerobot(paths, folder, on_file)
    return f"{said}: LeRobotDataset({name!r}, root={str(root)!r})"
