"""`tpsrl watch`: episodes live in a browser."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hab.objects import HOUSE_OBJECTS
from hab.observation_sets import LASER, OBSERVATION_SETS
from tpsrl.commands.collect import check_folder, check_format, write_dataset
from tpsrl.commands.options import agent_options, chosen_agent, eval_config, seed_option
from tpsrl.inputs import BadInput, Name

if TYPE_CHECKING:
    from collections.abc import Callable

    from planner.trajectory import Played

HANDS = "teleoperation"


@click.command("watch")
@agent_options
@seed_option
@click.option("--episode", default=0, show_default=True, type=click.IntRange(min=0))
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on; 0.0.0.0 for all.")
@click.option("--port", default=8080, show_default=True, type=click.IntRange(1, 65535), help="Or the next free one.")
@click.option("--paused", is_flag=True, help="Wait for Play.")
@click.option("--record", type=Path, metavar="DIR", help="Keep what is played by hand as a Minari dataset in DIR.")
@click.option(
    "--observe",
    default=LASER,
    show_default=True,
    type=Name("observation set", tuple(OBSERVATION_SETS)),
    help="The recorded dataset's observations.",
)
def watch_command(
    name: str,
    overrides: tuple[str, ...],
    seed: int,
    episode: int,
    host: str,
    port: int,
    paused: bool,
    record: Path | None,
    observe: str,
    **flags: Any,
) -> None:
    """Play episodes live in a browser: pause, step, other speeds, episodes, agents (docs/watch.md).

    --skills teleoperation: you play, by the keys that the page names. Ctrl-C ends it. OVERRIDES are Hydra overrides of
    configs/eval.yaml.
    """
    from hab.scenario_env import MAX_STEPS
    from planner.agent import Agent, chain_limits

    by_hand = flags["skills"] == HANDS
    config = eval_config(name, overrides, flags)
    if config.sim.name != "mujoco":
        raise BadInput(f"watch: shows the embedded simulator only; leave sim.name={config.sim.name} out")
    if by_hand and (flags["monolithic"] or flags["replan"]):
        raise BadInput("--skills teleoperation: plays the planned steps; leave --monolithic and --replan out")
    agent = Agent(HANDS, flags["skill_nav"], flags["nav_skill"], flags["stop_mask"]) if by_hand else None
    agent = agent or chosen_agent(name, flags, config)
    try:
        from videos.watch import Choice, Watch
    except ImportError as error:
        raise BadInput(f"watch needs mjviser and viser: pip install 'tpsrl[watch]' ({error})") from error
    if config.sim.depth_noise:
        raise BadInput("watch: shows the camera without noise; leave sim.depth_noise out")
    if record and config.sim.objects is not None:
        raise BadInput(f"--record: replays in full houses; leave sim.objects={config.sim.objects} out")
    on_played = _recording(record, agent.skill_nav, observe) if record else None
    limits = chain_limits(config.chain.episode_steps or MAX_STEPS, config.chain.skill_steps)
    choice = Choice(name, agent, flags["split"], episode, config.sim.objects or HOUSE_OBJECTS)
    watch = Watch(choice, limits, config.sim.obs, host, port, paused, seed, on_played)
    click.echo(f"look at {watch.url} (Ctrl-C ends it)")
    try:
        watch.run()
    except KeyboardInterrupt:
        pass
    finally:
        watch.close()
        if record:
            _finish(record, observe)


def _recording(folder: Path, skill_nav: bool, observe: str) -> Callable[[Played], str]:
    """Return what keeps a demonstration in a folder; it goes on with what that holds."""
    from eval.collect import held, keep
    from eval.records import RecordsError, check_settings

    check_folder("--record", folder)
    check_format("minari")
    try:
        check_settings(folder, {"agent": HANDS, "skill_nav": skill_nav, "observe": observe}, {})
        held(folder)
    except RecordsError as error:
        raise BadInput(str(error)) from error

    def on_played(played: Played) -> str:
        number = max((episode.number for episode in held(folder)), default=-1) + 1
        kept = keep(played, observe, folder, number)
        return f"demonstration {number} is kept: {kept.steps} steps, {'success' if kept.success else kept.told.reason}"

    return on_played


def _finish(folder: Path, observe: str) -> None:
    """Make a dataset of each task's demonstrations."""
    from eval.collect import held
    from eval.records import RecordsError

    try:
        kept = held(folder)
    except RecordsError as error:
        raise BadInput(str(error)) from error
    if not kept:
        click.echo("nothing was played by hand: no dataset")
        return
    for task in sorted({(episode.told.name, episode.told.split) for episode in kept}):
        same = [episode for episode in kept if (episode.told.name, episode.told.split) == task]
        click.echo(write_dataset("minari", same, observe, folder))
