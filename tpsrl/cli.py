"""`tpsrl`: eval, render, plan, doctor. Exit codes: 0 done, 2 bad usage or input, 1 failure.

Bad input of any kind ends in one line on stderr. Rooms are imported inside the commands, so `--help` is immediate.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from hab.episodes import SCENARIOS, SKILLS, SPLITS
from tpsrl import __version__
from tpsrl.inputs import BadInput, Name, output_file

if TYPE_CHECKING:
    from configs.schema import EvalConfig
    from planner.agent import Agent

Command = Callable[..., Any]


def main() -> None:
    """Run the command line and exit."""
    from hab.mujoco.render import RenderingUnavailable

    try:
        code = cli.main(standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        code = 2
    except click.ClickException as error:
        click.echo(f"tpsrl: {' '.join(error.format_message().split())}", err=True)
        code = 2
    except RenderingUnavailable as error:
        click.echo(f"tpsrl: {error}", err=True)
        code = 2
    except (click.Abort, KeyboardInterrupt):
        click.echo("tpsrl: interrupted", err=True)
        code = 1
    sys.exit(code if isinstance(code, int) else 0)


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tpsrl")
def cli() -> None:
    """Home rearrangement with a Fetch robot in MuJoCo: a task planner chains skills (TP-SRL)."""


def agent_options(command: Command) -> Command:
    """Add the options that say which agent plays which episodes."""
    options = [
        click.argument("name", metavar="SCENARIO|SKILL", type=Name("scenario or skill", SCENARIOS + SKILLS)),
        click.argument("overrides", nargs=-1),
        click.option("--skills", default="oracle", show_default=True, help="oracle, zoo, or a folder of checkpoints."),
        click.option("--skill-nav/--no-skill-nav", default=True, help="Manipulation skills may drive the base."),
        click.option("--nav-skill/--no-nav-skill", default=True, help="Play the plan's Navigate steps."),
        click.option("--stop-mask/--no-stop-mask", default=True, help="Navigate may stop only within 2 m."),
        click.option("--split", default="val", show_default=True, type=Name("split", SPLITS)),
        click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0)),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@cli.command("eval")
@agent_options
@click.option("--episodes", default=100, show_default=True, type=click.IntRange(min=1))
@click.option("--workers", default=1, show_default=True, type=click.IntRange(min=1), help="Parallel processes.")
@click.option("--json", "json_file", type=Path, metavar="FILE", help="Write the report here.")
@click.option("--trace", "trace_file", type=Path, metavar="FILE", help="Write one JSON line per skill call here.")
@click.option("--video", "videos", default=0, type=click.IntRange(min=0), help="Also render the first N episodes.")
def evaluate_command(
    name: str,
    overrides: tuple[str, ...],
    episodes: int,
    workers: int,
    json_file: Path | None,
    trace_file: Path | None,
    videos: int,
    **flags: Any,
) -> None:
    """Measure success per interaction, with 95 % intervals. OVERRIDES are Hydra overrides of configs/eval.yaml.

    Ctrl-C ends early with what was measured so far (table and files are written, exit code 0).
    """
    from eval.evaluate import EvaluationError, Request, evaluate
    from eval.report import tables, to_json, trace_rows
    from tpsrl.progress import episode_progress

    config, agent = _config(overrides), _agent(flags)
    json_path = output_file("--json", json_file)
    trace_path = output_file("--trace", trace_file)
    if videos:
        _check_rendering()
    request = Request(
        name,
        agent,
        flags["split"],
        episodes,
        flags["seed"],
        config.sim.obs,
        config.chain.episode_steps,
        config.chain.skill_steps,
    )
    try:
        with episode_progress(name, episodes) as on_result:
            evaluation = evaluate(request, workers, on_result)
    except EvaluationError as error:
        click.echo(f"tpsrl: {error}", err=True)
        sys.exit(1)
    if not evaluation.results:
        click.echo("tpsrl: interrupted before the first episode ended: nothing was measured", err=True)
        sys.exit(1)
    Console().print(tables(evaluation))
    if evaluation.interrupted:
        click.echo(f"interrupted after {len(evaluation.results)} of {episodes} episodes")
    if json_path:
        json_path.write_text(json.dumps(to_json(evaluation), indent=1) + "\n", encoding="utf-8")
    if trace_path:
        trace_path.write_text("".join(json.dumps(row) + "\n" for row in trace_rows(evaluation)), encoding="utf-8")
    if not evaluation.interrupted:
        for index in range(min(videos, episodes)):
            _render(name, index, Path("outputs") / f"{name}_{flags['split']}_{index}.mp4", config, agent, flags)


@cli.command("render")
@agent_options
@click.option("--episode", default=0, show_default=True, type=click.IntRange(min=0))
@click.option("--out", type=Path, metavar="FILE.mp4", help="Default: outputs/SCENARIO_SPLIT_EPISODE.mp4.")
def render_command(name: str, overrides: tuple[str, ...], episode: int, out: Path | None, **flags: Any) -> None:
    """Write a video of one episode, and its trace beside it (.jsonl)."""
    config, agent = _config(overrides), _agent(flags)
    out = out or Path("outputs") / f"{name}_{flags['split']}_{episode}.mp4"
    if out.suffix != ".mp4":
        raise BadInput(f"--out {out}: the file's name must end in .mp4")
    _check_rendering()
    _render(name, episode, out, config, agent, flags)


@cli.command("plan")
@click.argument("scenario", type=Name("scenario", SCENARIOS))
@click.option("--split", default="val", show_default=True, type=Name("split", SPLITS))
@click.option("--episode", default=0, show_default=True, type=click.IntRange(min=0))
@click.option("--nav-skill/--no-nav-skill", default=True, help="With the Navigate steps, or without (NoNav).")
@click.option("--pddl", is_flag=True, help="Print the domain and problem files instead.")
def plan_command(scenario: str, split: str, episode: int, nav_skill: bool, pddl: bool) -> None:
    """Print an episode's plan: ground actions, the skills that play them and the interactions they make."""
    from rich.table import Table

    from hab.episodes import load_scene, make_episode
    from planner.problem import problem_pddl
    from planner.task_planner import domain_pddl, plan

    start = make_episode(scenario, split, episode)
    scene = load_scene(start.scene_seed)
    if pddl:
        click.echo(domain_pddl() + "\n" + problem_pddl(start, scene), nl=False)
        return
    table = Table(title=f"{scenario}, {split} episode {episode}")
    for heading in ("", "action", "skill", "interaction"):
        table.add_column(heading)
    for number, step in enumerate(plan(start, scene, nav_skill), start=1):
        table.add_row(str(number), step.action, step.skill, step.interaction)
    Console(width=max(Console().width, 120)).print(table)  # a wrapped ground action is hard to read and to grep


@cli.command("doctor")
def doctor_command() -> None:
    """Say what is installed, which simulators and OpenGL back ends work, and what to do about the rest."""
    from tpsrl.doctor import report

    text, healthy = report()
    click.echo(text)
    sys.exit(0 if healthy else 1)


def _config(overrides: tuple[str, ...]) -> EvalConfig:
    from configs.schema import ConfigError, load_eval_config

    try:
        return load_eval_config(list(overrides))
    except ConfigError as error:
        raise BadInput(str(error)) from error


def _agent(flags: dict[str, Any]) -> Agent:
    from planner.agent import Agent, AgentError, check_agent

    agent = Agent(flags["skills"], flags["skill_nav"], flags["nav_skill"], flags["stop_mask"])
    try:
        check_agent(agent)
    except AgentError as error:
        raise BadInput(f"--skills: {error}") from error
    return agent


def _check_rendering() -> None:
    """Fail before the work starts where no OpenGL back end works."""
    from videos.render import prepare_rendering

    prepare_rendering()


def _render(name: str, index: int, out: Path, config: EvalConfig, agent: Agent, flags: dict[str, Any]) -> None:
    from planner.agent import chain_limits
    from tpsrl.progress import frame_progress
    from videos.render import Style, render_scenario, render_skill

    path = output_file("--out", out)
    trace_path = output_file("--out", out.with_suffix(".jsonl"))
    assert path is not None and trace_path is not None
    style = Style(config.video.height, config.video.fps, config.video.max_s)
    with frame_progress(f"{name} {index}") as on_frame:
        if name in SCENARIOS:
            limits = chain_limits(config.chain.episode_steps, config.chain.skill_steps)
            rows = render_scenario(name, flags["split"], index, agent, limits, style, path, on_frame)
        else:
            rows = render_skill(name, flags["split"], index, config.sim.obs, agent, style, path, on_frame)
    trace_path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    click.echo(f"{path}: {rows[-1]['outcome']}" + (f" ({rows[-1]['reason']})" if rows[-1]["reason"] else ""))
