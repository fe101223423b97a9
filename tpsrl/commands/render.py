"""`tpsrl render`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hab.episodes import SCENARIOS
from hab.objects import HOUSE_OBJECTS
from tpsrl.commands.options import agent_options, check_rendering, chosen_agent, eval_config, film_path, seed_option
from tpsrl.inputs import BadInput, Failure, json_lines, output_files, write_text

if TYPE_CHECKING:
    from configs.schema import EvalConfig
    from planner.agent import Agent


@click.command("render")
@agent_options
@seed_option
@click.option("--episode", default=0, show_default=True, type=click.IntRange(min=0))
@click.option("--out", type=Path, metavar="FILE", help="Default: outputs/SCENARIO_SPLIT_EPISODE.mp4, or .rrd.")
@click.option("--rerun", is_flag=True, help="A Rerun recording (.rrd) of a scenario instead of a video.")
def render_command(
    name: str, overrides: tuple[str, ...], seed: int, episode: int, out: Path | None, rerun: bool, **flags: Any
) -> None:
    """Write a video of one episode, and its trace beside it (.jsonl).

    With --rerun: a recording for the Rerun viewer (rerun FILE.rrd) of the robot, the apartment, objects and goals, the
    laser, the head's depth, the plan's stage, what the policy's critic expects and how probable its stop is.
    """
    config = eval_config(name, overrides, flags)
    agent = chosen_agent(name, flags, config)
    kind = ".rrd" if rerun else ".mp4"
    out = out or film_path(name, flags["split"], episode).with_suffix(kind)
    if out.suffix != kind:
        raise BadInput(f"--out {out}: the file's name must end in {kind}")
    if rerun:
        if config.sim.name != "mujoco":
            raise BadInput(f"--rerun: records the embedded simulator only; leave sim.name={config.sim.name} out")
        if config.sim.depth_noise:
            raise BadInput("--rerun: records the camera without noise; leave sim.depth_noise out")
        if name not in SCENARIOS:
            raise BadInput(f"--rerun: shows a plan; {name} has none, choose from {', '.join(SCENARIOS)}")
        output_files([("--out", out)])
        _record(name, episode, out, config, agent, flags["split"], seed)
        return
    output_files([("--out", out), ("--out's trace", out.with_suffix(".jsonl"))])
    check_rendering(config)
    render_episode(name, episode, out, config, agent, flags["split"], seed)


def render_episode(name: str, index: int, path: Path, config: EvalConfig, agent: Agent, split: str, seed: int) -> None:
    from hab.habitat.assets import DataError
    from hab.scenario_env import MAX_STEPS
    from hab.simulator import SimulationError
    from planner.agent import chain_limits
    from tpsrl.progress import frame_progress
    from videos.render import Style, render_scenario, render_skill

    style = Style(config.video.height, config.video.fps, config.video.max_s)
    try:
        with frame_progress(f"{name} {index}") as on_frame:
            if name in SCENARIOS:
                limits = chain_limits(config.chain.episode_steps or MAX_STEPS, config.chain.skill_steps)
                success, rows = render_scenario(
                    name,
                    split,
                    index,
                    config.sim.obs,
                    agent,
                    limits,
                    style,
                    path,
                    on_frame,
                    seed,
                    simulator=config.sim.name,
                    objects=config.sim.objects or HOUSE_OBJECTS,
                    depth_noise=config.sim.depth_noise,
                )
            else:
                success, rows = render_skill(
                    name,
                    split,
                    index,
                    config.sim.obs,
                    agent,
                    style,
                    path,
                    on_frame,
                    seed,
                    config.sim.name,
                    config.sim.depth_noise,
                )
    except DataError as error:
        raise BadInput(f"--data: {error}") from error
    except SimulationError as error:
        raise Failure(f"{name}, {split} episode {index}: {error}") from error
    write_text(path.with_suffix(".jsonl"), json_lines(rows))
    last = rows[-1]
    click.echo(f"{path}: " + ("success" if success else f"{last['outcome']} ({last['reason']})"))


def _record(name: str, index: int, path: Path, config: EvalConfig, agent: Agent, split: str, seed: int) -> None:
    from hab.scenario_env import MAX_STEPS
    from hab.simulator import SimulationError
    from planner.agent import chain_limits
    from tpsrl.progress import frame_progress
    from videos.recording import RerunMissing, check_rerun, record_scenario

    limits = chain_limits(config.chain.episode_steps or MAX_STEPS, config.chain.skill_steps)
    try:
        check_rerun()
        with frame_progress(f"{name} {index}"):
            success = record_scenario(
                name, split, index, config.sim.obs, agent, limits, path, seed, config.sim.objects or HOUSE_OBJECTS
            )
    except RerunMissing as error:
        raise BadInput(str(error)) from error
    except SimulationError as error:
        raise Failure(f"{name}, {split} episode {index}: {error}") from error
    click.echo(f"{path}: " + ("success" if success else "failed") + f"; look at it with: rerun {path}")
