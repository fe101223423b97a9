"""`tpsrl`: train-skill, publish-skill, skills, eval, ablate, render, gallery, plan, export, data, doctor.

Exit codes: 0 done, 2 bad usage or input, 1 failure. Bad input of any kind ends in one line on stderr. Rooms are
imported inside the commands, so `--help` is immediate.
"""

from __future__ import annotations

import json
import math
import shlex
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource
from rich.console import Console

from hab.backend import unavailable
from hab.episodes import POLICIES, SCENARIOS, SPLITS
from hab.mujoco.gl import RenderingUnavailable, wanted_backends
from hab.objects import HOUSE_OBJECTS
from hab.observation_sets import DEFAULT, OBSERVATION_SETS
from planner.state import STATES
from tpsrl import __version__
from tpsrl.inputs import (
    BadInput,
    Failure,
    Name,
    check_options_apply,
    check_somebody_sees,
    json_lines,
    output_files,
    write_text,
)

if TYPE_CHECKING:
    from configs.schema import EvalConfig
    from planner.agent import Agent

Command = Callable[..., Any]


def run() -> int:
    """Run the command line; return its exit code."""
    try:
        wanted_backends()  # before anything imports MuJoCo, which would fail on an unknown MUJOCO_GL
    except ValueError as error:
        return _complain(error, 2)
    try:
        code = cli.main(standalone_mode=False)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.format_message())
        return 2
    except click.ClickException as error:
        return _complain(error.format_message(), 2)
    except RenderingUnavailable as error:
        return _complain(error, 2)
    except click.Abort:
        return _complain("interrupted", 1)
    except Failure as error:
        return _complain(error, 1)
    except OSError as error:  # a full disk, a closed pipe
        return _complain(error, 1)
    return code if isinstance(code, int) else 0


def _complain(message: object, code: int) -> int:
    click.echo(f"tpsrl: {' '.join(str(message).split())}", err=True)
    return code


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="tpsrl")
def cli() -> None:
    """Home rearrangement with a Fetch robot in MuJoCo: a task planner chains skills (TP-SRL)."""


obs_option = click.option(
    "--obs",
    type=Name("observation set", tuple(OBSERVATION_SETS)),
    help="What the skills have to see; as the override sim.obs=…. Default: each as it is, laser before laser+map.",
)


def agent_options(command: Command) -> Command:
    """Add the options that say which agent plays which episodes."""
    options = [
        click.argument("name", metavar="SCENARIO|SKILL", type=Name("scenario or skill", SCENARIOS + POLICIES)),
        click.argument("overrides", nargs=-1),
        click.option("--skills", default="zoo", show_default=True, help="oracle, zoo, or a folder of runs."),
        click.option("--skill-nav/--no-skill-nav", default=True, help="Manipulation skills may drive the base."),
        click.option("--nav-skill/--no-nav-skill", default=True, help="Play the plan's Navigate steps."),
        click.option("--stop-mask/--no-stop-mask", default=True, help="Navigate may stop only within 2 m."),
        click.option("--monolithic", is_flag=True, help="One policy, rearrange, instead of a plan and its skills."),
        click.option(
            "--replan",
            type=Name("state", STATES),
            help="Plan anew after each call that did not do its job, by what the robot senses (sensed) or by the "
            "simulator's state (oracle). Default: the paper's chain, planned once.",
        ),
        click.option("--split", default="val", show_default=True, type=Name("split", SPLITS)),
        click.option("--sim", help="mujoco or habitat; as the override sim.name=…, whose default is mujoco."),
        obs_option,
    ]
    for option in reversed(options):
        command = option(command)
    return command


@cli.command("eval")
@agent_options
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Of what skills draw.")
@click.option("--episodes", default=100, show_default=True, type=click.IntRange(min=1))
@click.option("--workers", default=1, show_default=True, type=click.IntRange(min=1), help="Parallel processes.")
@click.option("--json", "json_file", type=Path, metavar="FILE", help="Write the report here.")
@click.option("--trace", "trace_file", type=Path, metavar="FILE", help="Write one JSON line per skill call here.")
@click.option("--video", "videos", default=0, type=click.IntRange(min=0), help="Also render the first N episodes.")
def evaluate_command(
    name: str,
    overrides: tuple[str, ...],
    seed: int,
    episodes: int,
    workers: int,
    json_file: Path | None,
    trace_file: Path | None,
    videos: int,
    **flags: Any,
) -> None:
    """Measure success per interaction, with 95 % intervals. OVERRIDES are Hydra overrides of configs/eval.yaml.

    Ctrl-C ends early with what was measured so far (table and files are written, exit code 0); so does SIGTERM.
    """
    from eval.evaluate import Request, evaluate
    from eval.report import tables, to_json, trace_rows
    from hab.scenario_env import MAX_STEPS
    from planner.agent import sees_depth
    from tpsrl.progress import episode_progress

    config = _config(name, overrides, flags)
    agent = _agent(name, flags, config)
    films = [_film(name, flags["split"], index) for index in range(min(videos, episodes))]
    output_files(
        [("--json", json_file), ("--trace", trace_file)]
        + [
            (f"--video {index}", path)
            for index, film in enumerate(films)
            for path in (film, film.with_suffix(".jsonl"))
        ]
    )
    if films or sees_depth(agent, name, config.sim.obs):
        _check_rendering(config)
    request = Request(
        name,
        agent,
        flags["split"],
        episodes,
        seed,
        config.sim.obs,
        config.sim.name,
        config.chain.episode_steps or MAX_STEPS,
        config.chain.skill_steps,
        config.sim.objects or HOUSE_OBJECTS,
    )
    with episode_progress(name, episodes) as on_result:
        evaluation = evaluate(request, workers, on_result)
    measured = len(evaluation.results)
    if measured:
        Console().print(tables(evaluation))
        if json_file:
            write_text(json_file, json.dumps(to_json(evaluation), indent=1) + "\n")
        if trace_file:
            write_text(trace_file, json_lines(trace_rows(evaluation)))
    if evaluation.error:
        raise Failure(f"{evaluation.error} ({measured} of {episodes} episodes were measured)")
    if not measured:
        raise Failure("interrupted before the first episode ended: nothing was measured")
    if evaluation.interrupted:
        click.echo(f"interrupted after {measured} of {episodes} episodes")
        return
    for index, film in enumerate(films):
        _render(name, index, film, config, agent, flags["split"])


@cli.command("ablate")
@click.argument("scenario", metavar="SCENARIO", type=Name("scenario", SCENARIOS))
@click.argument("overrides", nargs=-1)
@click.option("--skills", default="zoo", show_default=True, help="oracle, zoo, or a folder of runs.")
@click.option("--split", default="val", show_default=True, type=Name("split", SPLITS))
@click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Of what skills draw.")
@click.option("--episodes", default=100, show_default=True, type=click.IntRange(min=1), help="Per agent.")
@click.option("--workers", default=1, show_default=True, type=click.IntRange(min=1), help="Parallel processes.")
@click.option("--agent", "keys", multiple=True, metavar="AGENT", help="Only this one; may be given again.")
@obs_option
@click.option("--videos", is_flag=True, help="Also film a typical success of each agent, and one of every failure.")
@click.option("--out", type=Path, metavar="DIR", help="Default: outputs/ablate/SCENARIO_SPLIT.")
def ablate_command(
    scenario: str,
    overrides: tuple[str, ...],
    skills: str,
    split: str,
    seed: int,
    episodes: int,
    workers: int,
    keys: tuple[str, ...],
    obs: str | None,
    videos: bool,
    out: Path | None,
) -> None:
    """Play the same episodes with the paper's agents and compare them: its Figure 6.

    The agents: tpsrl (the manipulation skills stand), skillnav (they drive), both again without stop-masking
    (tpsrl_nomask, skillnav_nomask), nonav (they drive, and the plan has no Navigate), monolithic (one policy for all,
    without skills or plan), oracle (scripted skills), and replan_sensed and replan_oracle (as skillnav, with --replan).
    Writes summary.json, success.csv and report.html to DIR. Episodes that DIR holds are not played again, so an
    ablation that was interrupted goes on where it stopped. OVERRIDES are Hydra overrides of configs/eval.yaml.
    """
    from eval.ablation import CELLS
    from eval.evaluate import Request
    from hab.scenario_env import MAX_STEPS
    from planner.agent import AgentError, sees_depth
    from tpsrl.ablation import run_ablation

    config = _config(scenario, overrides, {"skills": skills, "obs": obs})
    known = Name("agent", [cell.key for cell in CELLS])
    wanted = {known.convert(key, None, None) for key in keys}
    cells = [cell for cell in CELLS if not wanted or cell.key in wanted]
    folder = out or Path("outputs") / "ablate" / f"{scenario}_{split}"
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"--out {folder}: is a file; name a folder")
    output_files([("--out", folder / "summary.json")])
    try:
        looks = any(sees_depth(cell.agent(skills), scenario, config.sim.obs) for cell in cells)
    except AgentError as error:
        raise BadInput(f"--skills: {error}") from error
    if videos or looks:
        _check_rendering(config)
    limits = config.chain.episode_steps or MAX_STEPS, config.chain.skill_steps, config.sim.objects or HOUSE_OBJECTS
    request = Request(scenario, cells[0].agent(skills), split, episodes, seed, config.sim.obs, config.sim.name, *limits)
    run_ablation(request, cells, skills, folder, workers, config.video if videos else None)


@cli.command("render")
@agent_options
@click.option("--episode", default=0, show_default=True, type=click.IntRange(min=0))
@click.option("--out", type=Path, metavar="FILE", help="Default: outputs/SCENARIO_SPLIT_EPISODE.mp4, or .rrd.")
@click.option("--rerun", is_flag=True, help="A Rerun recording (.rrd) of a scenario instead of a video.")
def render_command(
    name: str, overrides: tuple[str, ...], episode: int, out: Path | None, rerun: bool, **flags: Any
) -> None:
    """Write a video of one episode, and its trace beside it (.jsonl).

    With --rerun: a recording for the Rerun viewer (rerun FILE.rrd) of the robot, the apartment, objects and goals, the
    laser, the head's depth, the plan's stage, what the policy's critic expects and how probable its stop is.
    """
    config = _config(name, overrides, flags)
    agent = _agent(name, flags, config)
    kind = ".rrd" if rerun else ".mp4"
    out = out or _film(name, flags["split"], episode).with_suffix(kind)
    if out.suffix != kind:
        raise BadInput(f"--out {out}: the file's name must end in {kind}")
    if rerun:
        if config.sim.name != "mujoco":
            raise BadInput(f"--rerun: records the embedded simulator only; leave sim.name={config.sim.name} out")
        if name not in SCENARIOS:
            raise BadInput(f"--rerun: shows a plan; {name} has none, choose from {', '.join(SCENARIOS)}")
        output_files([("--out", out)])
        _record(name, episode, out, config, agent, flags["split"])
        return
    output_files([("--out", out), ("--out's trace", out.with_suffix(".jsonl"))])
    _check_rendering(config)
    _render(name, episode, out, config, agent, flags["split"])


@cli.command("gallery")
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


@cli.command("houses")
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


@cli.command("train-skill")
@click.argument("skill", metavar="SKILL", type=Name("skill", POLICIES))
@click.argument("overrides", nargs=-1)
@click.option("--nav/--no-nav", default=True, show_default=True, help="Whether the skill may drive the base.")
@click.option("--obs", default=DEFAULT, show_default=True, type=Name("observation set", tuple(OBSERVATION_SETS)))
@click.option("--sim", default="mujoco", show_default=True, help="The simulator.")
@click.option("--steps", type=click.IntRange(min=1), help="Of all environments together: train.total_steps.")
@click.option("--out", type=Path, metavar="DIR", help="Default: outputs/train/SKILL_nav|nonav_OBS_TIME.")
@click.option("--resume", is_flag=True, help="Go on with the run in --out, with its own configuration.")
def train_skill_command(
    skill: str,
    overrides: tuple[str, ...],
    nav: bool,
    obs: str,
    sim: str,
    steps: int | None,
    out: Path | None,
    resume: bool,
) -> None:
    """Train a skill's policy. OVERRIDES are Hydra overrides of configs/train_skill.yaml, as train.num_envs=32.

    Ctrl-C and SIGTERM save a checkpoint and end with exit code 0; --resume goes on. docs/training.md says more.
    """
    from configs.schema import ConfigError, load_train_config, override_key

    task = {"skill": skill, "nav": nav, "obs": obs, "sim": sim}
    keys = [override_key(override) for override in overrides]
    for key, override in zip(keys, overrides, strict=True):
        if key in (*task, "out"):
            raise BadInput(f"bad override: {override}: the command line has an argument or option for {key}")
    if steps is not None and "train.total_steps" in keys:
        raise BadInput("--steps and train.total_steps say the same; give one of them")
    if resume and out is None:
        raise BadInput("--resume: name the run's folder with --out")
    if resume and set(keys) - {"train.total_steps"}:
        raise BadInput("--resume: the run's own configuration is used; only train.total_steps may be given anew")
    settings = [f"{key}={value}" for key, value in task.items()] + list(overrides)
    if steps is not None:
        settings.append(f"train.total_steps={steps}")
    try:
        config = load_train_config(settings)
    except ConfigError as error:
        raise BadInput(str(error)) from error
    from tpsrl.training import resumed_config, train_skill  # loads torch: bad input is answered before

    if resume and out is not None:
        fresh, config, context = config, resumed_config(out), click.get_current_context()
        for option in task:
            given, saved = getattr(fresh, option), getattr(config, option)
            if given != saved and context.get_parameter_source(option) is not ParameterSource.DEFAULT:
                raise BadInput(f"--resume: the run in {out} has {option}={saved}, not {given}")
        if steps is not None or keys:
            config.train.total_steps = fresh.train.total_steps
    train_skill(config, out or Path(config.out), resume)


@cli.command("record-starts")
@click.argument("file", metavar="FILE", type=Path)
@click.option("--skills", default="zoo", show_default=True, help="oracle, zoo, or a folder of runs.")
@click.option("--obs", type=Name("observation set", tuple(OBSERVATION_SETS)), help="As of tpsrl eval.")
@click.option("--episodes", default=1500, show_default=True, type=click.IntRange(min=1), help="Of all scenarios.")
@click.option("--workers", default=1, show_default=True, type=click.IntRange(min=1), help="Parallel processes.")
def record_starts_command(file: Path, skills: str, obs: str | None, episodes: int, workers: int) -> None:
    """Record in FILE (.npz) where the chain hands over to each skill, in training apartments.

    tpsrl train-skill SKILL chain_states=FILE chain_starts=0.5 trains from there, too.
    """
    from eval.recording import record
    from planner.agent import Agent, AgentError, check_agent, sees_depth
    from skills.recorded import save
    from tpsrl.progress import episode_progress
    from videos.render import prepare_rendering

    if file.suffix != ".npz":
        raise BadInput(f"FILE {file}: its name must end in .npz")
    if file.exists():
        raise BadInput(f"FILE {file}: is there already; remove it, or name another file")
    output_files([("FILE", file)])
    check_somebody_sees(obs, skills)
    agent = Agent(skills)
    try:
        for scenario in SCENARIOS:
            check_agent(agent, scenario, obs)
        if any(sees_depth(agent, scenario, obs) for scenario in SCENARIOS):
            prepare_rendering()
    except AgentError as error:
        raise BadInput(f"--skills: {error}") from error
    with episode_progress("recording", episodes) as on_episode:
        calls, problem = record(agent, obs, episodes, workers, on_episode)
    if not calls:
        raise Failure(f"{problem}: nothing was recorded")
    save(file, calls)
    counts = Counter(call.skill for call in calls)
    click.echo(f"{file}: " + ", ".join(f"{skill} {count}" for skill, count in sorted(counts.items())))
    if problem == "interrupted":
        click.echo("interrupted: these are of the episodes that had ended")
    elif problem:
        raise Failure(f"{problem} (what was recorded before is in {file})")


@cli.command("skills")
@click.option("--zoo", type=Path, metavar="DIR", help="Another folder of published policies than the packaged one.")
@click.option("--curves", type=Path, metavar="FILE", help="Also draw their success while they were trained (.png).")
def skills_command(zoo: Path | None, curves: Path | None) -> None:
    """List the trained policies: what they were trained with, and their success on unseen apartments."""
    from rich.table import Table

    from eval.curves import draw_curves
    from eval.model_card import CardError, rate, read_card
    from planner.zoo import ZOO, ZooError, entries

    if curves is not None and curves.suffix != ".png":
        raise BadInput(f"--curves {curves}: the file's name must end in .png")
    output_files([("--curves", curves)])
    folder = zoo or ZOO
    table = Table(title=f"trained policies in {folder}", expand=False)
    for heading in ("policy", "base", "million steps", "minutes", "val", "test"):
        table.add_column(heading, justify="left" if heading in ("policy", "base") else "right")
    try:
        found = entries(folder)
        for entry in found:
            card = read_card(entry.folder)
            training, results = card["training"], card["results"]
            table.add_row(
                entry.name,
                "drives" if entry.config.nav else "stands",
                f"{training['steps'] / 1e6:.2f}",
                f"{training['seconds'] / 60:.0f}",
                *(rate(results[split]) if split in results else "-" for split in ("val", "test")),
            )
    except (ZooError, CardError) as error:
        raise BadInput(str(error)) from error
    if not found:
        raise BadInput(f"{folder}: holds no trained policies; tpsrl publish-skill puts runs there")
    Console(width=max(Console().width, 110)).print(table)
    if curves is not None:
        try:
            drawn = draw_curves(folder, curves)
        except ZooError as error:
            raise BadInput(str(error)) from error
        if not drawn:
            raise BadInput(f"--curves: {folder} keeps no curve of its policies; publish them anew from their runs")
        click.echo(f"{curves}: {drawn} of {len(found)} policies; of the others no curve was kept")


@cli.command("publish-skill")
@click.argument("run_folder", metavar="RUN", type=Path)
@click.option("--zoo", type=Path, metavar="DIR", help="Where to; default: the packaged zoo.")
@click.option("--split", "splits", multiple=True, default=("val",), show_default=True, type=Name("split", SPLITS))
@click.option("--episodes", default=200, show_default=True, type=click.IntRange(min=1))
@click.option("--workers", default=1, show_default=True, type=click.IntRange(min=1), help="Parallel processes.")
def publish_skill_command(
    run_folder: Path, zoo: Path | None, splits: tuple[str, ...], episodes: int, workers: int
) -> None:
    """Copy a training run's policy to a zoo, measure it (its clone of the oracle on half as many episodes) and write
    its model card.

    RUN may be a folder of the zoo itself: then only what --split names is measured again.
    """
    from eval.evaluate import Request, evaluate
    from eval.model_card import CARD, CardError, publish, rate, read_card, record
    from planner.agent import Agent
    from planner.zoo import CLONED, ZOO, ZooError, run_entry
    from tpsrl.progress import episode_progress

    try:
        entry = run_entry(run_folder)
        folder = run_folder if (run_folder / CARD).exists() else publish(run_folder, entry, zoo or ZOO)
    except (ZooError, CardError) as error:
        raise BadInput(str(error)) from error
    config = entry.config
    agent = Agent(str(folder.parent), skill_nav=config.nav)
    measured = [(split, agent, "results", episodes) for split in splits]
    if "val" in splits and (run_folder / CLONED).exists():
        measured.append(("val", Agent(str(run_folder), skill_nav=config.nav), "cloned", math.ceil(episodes / 2)))
    for split, agent, part, count in measured:
        request = Request(config.skill, agent, split, count, obs=config.obs)
        with episode_progress(f"{entry.name} {split}", count) as on_result:
            evaluation = evaluate(request, workers, on_result)
        if evaluation.error or evaluation.interrupted:
            raise Failure(evaluation.error or f"interrupted: {split} is not in the card")
        record(folder, evaluation, part)
        click.echo(f"{folder}: {part} {split} {rate(read_card(folder)[part][split])}")


@cli.command("plan")
@click.argument("scenario", type=Name("scenario", SCENARIOS))
@click.option("--split", default="val", show_default=True, type=Name("split", SPLITS))
@click.option("--episode", default=0, show_default=True, type=click.IntRange(min=0))
@click.option("--nav-skill/--no-nav-skill", default=True, help="With the Navigate steps, or without (NoNav).")
@click.option("--pddl", is_flag=True, help="Print the domain and problem files instead.")
@click.option("--habitat", "folder", type=Path, metavar="DIR", help="Episode N of a folder of tpsrl export habitat.")
def plan_command(scenario: str, split: str, episode: int, nav_skill: bool, pddl: bool, folder: Path | None) -> None:
    """Print an episode's plan: ground actions, the skills that play them and the interactions they make."""
    from rich.table import Table

    from hab.episodes import load_scene, make_episode
    from planner.problem import problem_pddl
    from planner.task_planner import domain_pddl, plan

    if folder is None:
        start = make_episode(scenario, split, episode)
    else:
        from hab.habitat.episodes import read_episode

        file = folder / "episodes" / split / f"{scenario}.json.gz"
        if not file.is_file():
            raise BadInput(f"--habitat: {file} is missing; tpsrl export habitat {folder} --split {split} writes it")
        try:
            start = read_episode(file, episode)
        except ValueError as error:
            raise BadInput(f"--habitat: {error}") from error
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


@cli.group("export")
def export_group() -> None:
    """Write apartments and episodes for other simulators."""


@export_group.command("habitat")
@click.argument("folder", metavar="DIR", type=Path)
@click.option("--split", default="val", show_default=True, type=Name("split", SPLITS))
@click.option("--scenes", default=1, show_default=True, type=click.IntRange(min=1), help="The split's first N.")
@click.option("--episodes", default=20, show_default=True, type=click.IntRange(min=1), help="Per scenario and skill.")
def export_habitat_command(folder: Path, split: str, scenes: int, episodes: int) -> None:
    """Write a Habitat scene dataset: apartments, the Fetch, and HAB episodes of every skill and scenario."""
    from hab.habitat.export import export
    from hab.layout import SPLIT_SEEDS
    from tpsrl.progress import count_progress

    if scenes > len(SPLIT_SEEDS[split]):
        raise BadInput(f"--scenes {scenes}: {split} has {len(SPLIT_SEEDS[split])} apartments")
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file; name a folder")
    with count_progress(f"{split} apartments", scenes) as done:
        made = export(folder, split, scenes, episodes, done)
    click.echo(
        f"{folder}: {scenes} apartments ({', '.join(map(str, made.seeds))}), the robot, "
        f"and {episodes} episodes of each of {len(made.files)} tasks; "
        + ("with navigation meshes" if made.navmeshes else "no navigation meshes: they need habitat-sim")
    )


@cli.group("data")
def data_group() -> None:
    """Get data that others publish."""


@data_group.command("habitat")
@click.argument("folder", metavar="DIR", type=Path)
@click.option("--run", is_flag=True, help="Download it now, instead of printing the command.")
def data_habitat_command(folder: Path, run: bool) -> None:
    """Say which of HAB's official data DIR lacks, and the command of habitat-sim that downloads it."""
    from hab.habitat.data import absent, download_command

    if folder.exists() and not folder.is_dir():
        raise BadInput(f"{folder} is a file; name a folder")
    missing = absent(folder)
    for dataset in missing:
        click.echo(f"missing: {dataset.what} ({folder / dataset.place}); licence: {dataset.page}", err=True)
    if not missing:
        click.echo(f"{folder}: nothing is missing")
        return
    command = download_command(folder, missing)
    if not run:
        click.echo(shlex.join(command))
        return
    if reason := unavailable("habitat"):
        raise BadInput(f"--run: {reason}")
    if code := subprocess.run(command, check=False).returncode:
        raise Failure(f"habitat-sim's downloader ended with exit code {code}: {shlex.join(command)}")


@cli.command("doctor")
def doctor_command() -> None:
    """Say what is installed, which simulators and OpenGL back ends work, and what to do about the rest."""
    from tpsrl.doctor import report

    text, healthy = report()
    click.echo(text)
    sys.exit(0 if healthy else 1)


def _config(name: str, overrides: tuple[str, ...], flags: dict[str, Any]) -> EvalConfig:
    from configs.schema import ConfigError, load_eval_config

    try:
        given = {"sim.name": flags.get("sim"), "sim.obs": flags.get("obs")}
        config = load_eval_config([*overrides, *(f"{key}={value}" for key, value in given.items() if value)])
    except ConfigError as error:
        raise BadInput(str(error)) from error
    check_options_apply(name, click.get_current_context(), config, flags["skills"])
    return config


def _agent(name: str, flags: dict[str, Any], config: EvalConfig) -> Agent:
    from planner.agent import Agent, AgentError, check_agent

    agent = Agent(
        flags["skills"],
        flags["skill_nav"],
        flags["nav_skill"],
        flags["stop_mask"],
        flags["monolithic"],
        flags["replan"] or "",
    )
    try:
        check_agent(agent, name, config.sim.obs)
    except AgentError as error:
        raise BadInput(f"--skills: {error}") from error
    return agent


def _check_rendering(config: EvalConfig) -> None:
    """Fail before the work starts where no OpenGL back end works."""
    from videos.render import prepare_rendering

    if config.sim.name == "mujoco":  # habitat-sim draws by itself, and not beside another OpenGL
        prepare_rendering()


def _film(name: str, split: str, index: int) -> Path:
    return Path("outputs") / f"{name}_{split}_{index}.mp4"


def _render(name: str, index: int, path: Path, config: EvalConfig, agent: Agent, split: str) -> None:
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
                    simulator=config.sim.name,
                    objects=config.sim.objects or HOUSE_OBJECTS,
                )
            else:
                success, rows = render_skill(
                    name, split, index, config.sim.obs, agent, style, path, on_frame, config.sim.name
                )
    except SimulationError as error:
        raise Failure(f"{name}, {split} episode {index}: {error}") from error
    write_text(path.with_suffix(".jsonl"), json_lines(rows))
    last = rows[-1]
    click.echo(f"{path}: " + ("success" if success else f"{last['outcome']} ({last['reason']})"))


def _record(name: str, index: int, path: Path, config: EvalConfig, agent: Agent, split: str) -> None:
    from hab.scenario_env import MAX_STEPS
    from hab.simulator import SimulationError
    from planner.agent import chain_limits
    from tpsrl.progress import frame_progress
    from videos.recording import RerunMissing, check_rerun, record_scenario

    limits = chain_limits(config.chain.episode_steps or MAX_STEPS, config.chain.skill_steps)
    try:
        check_rerun()
        with frame_progress(f"{name} {index}"):
            success = record_scenario(name, split, index, config.sim.obs, agent, limits, path)
    except RerunMissing as error:
        raise BadInput(str(error)) from error
    except SimulationError as error:
        raise Failure(f"{name}, {split} episode {index}: {error}") from error
    click.echo(f"{path}: " + ("success" if success else "failed") + f"; look at it with: rerun {path}")
