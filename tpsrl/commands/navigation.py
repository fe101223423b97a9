"""`tpsrl train-nav`, and `eval` and `render` of the navigation tasks (docs/navigation.md).

`eval` and `render` hand over to these where a navigation task is named.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from hab.episodes import SCENARIOS, SPLITS
from hab.navigation import TASKS
from skills import TASKS as SKILLS
from tpsrl.commands.evaluate import evaluate_command
from tpsrl.commands.options import Command
from tpsrl.commands.render import render_command
from tpsrl.inputs import BadInput, Failure, Name, check_resume, check_resumed, output_files, write_text
from ver_core.config import SCHEDULERS

if TYPE_CHECKING:
    from eval.navigation import EpisodeResult
    from skills.navigator import Navigator

OBS = ("laser", "depth", "rgb")
ORACLE, PACKAGED = "oracle", "zoo"
WITH_GOAL = ("pointnav", "objectnav")
KNOWN = Name("scenario, skill or navigation task", (*SCENARIOS, *SKILLS, *TASKS))
"""What `eval` and `render` play."""


class _OrNavigation(click.Command):
    """A command of scenarios and skills, or the one of navigation if the arguments name one of its tasks."""

    def __init__(self, usual: click.Command, navigation: click.Command) -> None:
        other = f"Navigation tasks ({', '.join(TASKS)}) have other options: tpsrl {usual.name} {TASKS[0]} --help."
        usual.help = f"{inspect.cleandoc(usual.help or '')}\n\n{other}"
        super().__init__(usual.name, help=usual.help, params=usual.params)
        self._usual, self._navigation = usual, navigation

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        if args and not args[0].startswith("-"):
            KNOWN.convert(args[0], None, None)
        chosen = self._navigation if self._name_in(args) in TASKS else self._usual
        return chosen.make_context(info_name, args, parent, **extra)

    def _name_in(self, args: list[str]) -> str:
        """Return the first argument that is no option's, nor its value."""
        options = [p for p in (*self._usual.params, *self._navigation.params) if isinstance(p, click.Option)]
        valued = {name for option in options if not option.is_flag for name in option.opts}
        before = ""
        for argument in args:
            if not argument.startswith("-") and before not in valued:
                return argument
            before = argument
        return ""


@click.command("train-nav")
@click.argument("task", metavar="TASK", type=Name("task", TASKS))
@click.argument("overrides", nargs=-1)
@click.option("--obs", default="laser", show_default=True, type=Name("sensor", OBS))
@click.option("--gps/--no-gps", default=True, show_default=True, help="Whether it has GPS and compass.")
@click.option("--scheduler", type=Name("scheduler", SCHEDULERS), help="train.scheduler; default: ver.")
@click.option("--steps", type=click.IntRange(min=1), help="Of all environments together: train.total_steps.")
@click.option("--out", type=Path, metavar="DIR", help="Default: outputs/train/TASK_OBS_TIME.")
@click.option("--resume", is_flag=True, help="Go on with the run in --out, with its own configuration.")
def train_nav_command(
    task: str,
    overrides: tuple[str, ...],
    obs: str,
    gps: bool,
    scheduler: str | None,
    steps: int | None,
    out: Path | None,
    resume: bool,
) -> None:
    """Train a navigation task: pointnav, objectnav, flee or explore.

    OVERRIDES are Hydra overrides of configs/train_nav.yaml, as train.num_envs=32. Ctrl-C and SIGTERM save a checkpoint
    and end with exit code 0; --resume goes on.
    """
    from configs.navigation import load_nav_config
    from configs.schema import ConfigError, override_key

    keys = [override_key(override) for override in overrides]
    options = {"task": task, "obs": obs, "gps": gps}
    for key, override in zip(keys, overrides, strict=True):
        if key in (*options, "out", "nav_recipe"):
            raise BadInput(f"bad override: {override}: the command line has an argument or option for it")
    settings = [f"{key}={value}" for key, value in options.items()]
    settings += [f"nav_recipe={'laser' if obs == 'laser' else 'depth'}", *overrides]
    for option, key, value in (
        ("--steps", "train.total_steps", steps),
        ("--scheduler", "train.scheduler", scheduler),
    ):
        if value is not None and key in keys:
            raise BadInput(f"{option} and {key} say the same; give one of them")
        settings += [] if value is None else [f"{key}={value}"]
    check_resume(resume, out, keys, "train.total_steps")
    try:
        config = load_nav_config(settings)
    except ConfigError as error:
        raise BadInput(str(error)) from error
    from tpsrl.navigation_training import nav_run, train_nav  # loads torch: bad input is answered before

    if resume and out is not None:
        fresh, config = config, nav_run(out)
        given, saved = (
            {option: getattr(each, option) for option in options} | {"scheduler": each.train.scheduler}
            for each in (fresh, config)
        )
        check_resumed(out, given, saved)
        if steps is not None or keys:
            config.train.total_steps = fresh.train.total_steps
    train_nav(config, out or Path(config.out), resume)


def play_options(command: Command) -> Command:
    """Add the options that say who plays which task."""
    options = [
        click.argument("task", metavar="TASK", type=Name("task", TASKS)),
        click.option(
            "--policy",
            default=PACKAGED,
            show_default=True,
            metavar="RUN",
            help="zoo: the packaged one; a training run's folder; or oracle.",
        ),
        click.option("--deterministic", is_flag=True, help="Play the most probable action, instead of drawing it."),
        click.option("--split", default="val", show_default=True, type=Name("split", SPLITS)),
        click.option(
            "--obs",
            type=Name("sensor", OBS),
            help="What the packaged policy sees, or the oracle's film shows as seen; a run has its own.",
        ),
        click.option(
            "--gps/--no-gps", default=None, help="Whether the packaged policy has GPS and compass; a run has its own."
        ),
        click.option(
            "--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Of drawn actions, noise."
        ),
    ]
    for option in reversed(options):
        command = option(command)
    return command


@click.command("eval")
@play_options
@click.option("--episodes", default=1000, show_default=True, type=click.IntRange(min=1))
@click.option("--json", "json_file", type=Path, metavar="FILE", help="Write the report here.")
def evaluate_navigation_command(
    task: str,
    policy: str,
    deterministic: bool,
    split: str,
    obs: str | None,
    gps: bool | None,
    seed: int,
    episodes: int,
    json_file: Path | None,
) -> None:
    """Measure a navigation policy, or the shortest-path follower (oracle), with 95 % intervals.

    Ctrl-C ends early with what was measured so far.
    """
    from eval.navigation import evaluate_navigation, summary
    from tpsrl.progress import episode_progress

    output_files([("--json", json_file)])
    options, navigator = _player(task, policy, deterministic, obs, gps)
    with episode_progress(task, episodes) as on_result:
        results = evaluate_navigation(task, options, split, episodes, navigator, seed, on_result)
    if not results:
        raise Failure("interrupted before the first episode ended: nothing was measured")
    measures = summary(results)
    Console().print(_table(f"{task}, {split}, {len(results)} episodes, {policy}", measures))
    if json_file:
        report = {
            "task": task,
            "policy": policy,
            "deterministic": deterministic,
            "options": options,
            "split": split,
            "episodes": len(results),
            "seed": seed,
            "measures": measures,
            "episode_results": [_row(result) for result in results],
        }
        write_text(json_file, json.dumps(report, indent=1) + "\n")
    if len(results) < episodes:
        click.echo(f"interrupted after {len(results)} of {episodes} episodes")


@click.command("render")
@play_options
@click.option("--episode", default=0, show_default=True, type=click.IntRange(min=0))
@click.option("--out", type=Path, metavar="FILE", help="Default: outputs/TASK_SPLIT_EPISODE.mp4.")
def render_navigation_command(
    task: str,
    policy: str,
    deterministic: bool,
    split: str,
    obs: str | None,
    gps: bool | None,
    seed: int,
    episode: int,
    out: Path | None,
) -> None:
    """Write a video of one episode: the camera's view beside a map of the path, the shortest path and what was seen."""
    import numpy as np

    from eval.navigation import noise_seed
    from hab.navigation.env import NavigationEnv
    from hab.navigation.oracle import shortest_path_action
    from tpsrl.progress import frame_progress
    from videos.navigation import film_navigation

    out = out or Path("outputs") / f"{task}_{split}_{episode}.mp4"
    if out.suffix != ".mp4":
        raise BadInput(f"--out {out}: the file's name must end in .mp4")
    output_files([("--out", out)])
    options, navigator = _player(task, policy, deterministic, obs, gps)
    env = NavigationEnv(task, split=split, render_mode="rgb_array", **options)
    if navigator is not None:
        navigator.start(1, [np.random.default_rng((seed, episode))])

    def act(observation: Any) -> int:
        return shortest_path_action(env) if navigator is None else navigator.act([0], [observation])[0]

    with frame_progress(f"{task} {episode}") as on_frame:
        fps = env.metadata["render_fps"]
        info = film_navigation(env, episode, act, fps, out, on_frame, noise_seed(seed, episode))
    said = ", ".join(f"{name} {value:.2f}" for name, value in info.items() if isinstance(value, float))
    click.echo(f"{out}: {'success' if info.get('success') else 'ended'} after {info['num_steps']} steps; {said}")


def _player(
    task: str, policy: str, deterministic: bool, obs: str | None, gps: bool | None
) -> tuple[dict[str, Any], Navigator | None]:
    """Return the environment's options and who plays; None: the shortest-path follower."""
    if policy == ORACLE:
        if task not in WITH_GOAL:
            raise BadInput(
                f"--policy oracle: {task} has no goal to follow; give a run, or one of {', '.join(WITH_GOAL)}"
            )
        if deterministic:
            raise BadInput("--deterministic: the oracle draws nothing; leave it out")
        if gps is not None:
            raise BadInput(f"--{'gps' if gps else 'no-gps'}: the oracle reads the simulator; leave it out")
        return {"obs": obs or "laser"}, None
    from configs.navigation import TASK_KEYS
    from planner.zoo import WEIGHTS
    from skills.navigator import Navigator
    from skills.trained import WeightsError
    from tpsrl.navigation_training import nav_run

    run = _packaged(task, obs, gps is not False) if policy == PACKAGED else Path(policy)
    config = nav_run(run)
    if config.task != task:
        raise BadInput(f"--policy {policy}: was trained for {config.task}, not for {task}")
    if obs not in (None, config.obs):
        raise BadInput(f"--obs {obs}: the policy in {policy} sees {config.obs}; leave it out")
    if gps not in (None, config.gps):
        has = "has GPS and compass" if config.gps else "has neither GPS nor compass"
        raise BadInput(f"--{'gps' if gps else 'no-gps'}: the policy in {policy} {has}; leave it out")
    try:
        navigator = Navigator(config.policy, task, config.obs, config.gps, run / WEIGHTS, deterministic)
    except (WeightsError, OSError) as error:
        raise BadInput(f"--policy {policy}: {error}") from error
    return {key: getattr(config, key) for key in TASK_KEYS}, navigator


def _packaged(task: str, obs: str | None, gps: bool) -> Path:
    """Return the folder of a task's packaged policy, one with the laser first."""
    from planner.zoo import WEIGHTS
    from skills.navigator import NAVIGATION_ZOO, policy_name

    for sensor in (obs,) if obs else OBS:
        folder = NAVIGATION_ZOO / policy_name(task, sensor, gps)
        if (folder / WEIGHTS).is_file():
            return folder
    seen = (f" that sees {obs}" if obs else "") + ("" if gps else " without GPS and compass")
    command = f"tpsrl train-nav {task}" + ("" if gps else " --no-gps")
    raise BadInput(f"no policy for {task}{seen} is packaged; train one ({command}) and give it as --policy")


def _table(title: str, measures: dict[str, dict[str, Any]]) -> Any:
    from rich.table import Table

    table = Table(title=title)
    for heading in ("measure", "mean", "95 % interval"):
        table.add_column(heading, justify="left" if heading == "measure" else "right")
    for name, found in measures.items():
        low, high = found["ci95"]
        table.add_row(name, f"{found['mean']:.3f}", f"{low:.3f}-{high:.3f}")
    return table


def _row(result: EpisodeResult) -> dict[str, Any]:
    return {"index": result.index, "scene": result.scene, **result.measures}


eval_command = _OrNavigation(evaluate_command, evaluate_navigation_command)
film_command = _OrNavigation(render_command, render_navigation_command)
"""`eval` and `render` of everything."""
