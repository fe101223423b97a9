"""The options that several commands have, and what follows from them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from hab.episodes import SCENARIOS, SPLITS, split_name
from hab.objects import HOUSE_OBJECTS
from hab.observation_sets import OBSERVATION_SETS
from planner.state import STATES
from skills import TASKS
from tpsrl.inputs import BadInput, Name, check_data_is_played, check_options_apply, checked_data

if TYPE_CHECKING:
    from configs.schema import EvalConfig
    from eval.evaluate import Request
    from planner.agent import Agent


Command = Callable[..., Any]


obs_option = click.option(
    "--obs",
    type=Name("observation set", tuple(OBSERVATION_SETS)),
    help="What the skills have to see; as the override sim.obs=…. Default: each as it is, laser+map before laser.",
)


seed_option = click.option(
    "--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Of what skills draw."
)


replan_option = click.option(
    "--replan",
    type=Name("state", STATES),
    help="Plan anew after each call that did not do its job, by what the robot senses (sensed) or by the "
    "simulator's state (oracle). Default: the paper's chain, planned once.",
)


data_option = click.option(
    "--data",
    type=Path,
    metavar="DIR",
    help="Play the episodes of a folder in the layout of HAB's official data (docs/habitat.md); with --sim habitat.",
)


def agent_options(command: Command) -> Command:
    """Add the options that say which agent plays which episodes."""
    options = [
        click.argument("name", metavar="SCENARIO|SKILL", type=Name("scenario or skill", (*SCENARIOS, *TASKS))),
        click.argument("overrides", nargs=-1),
        click.option("--skills", default="zoo", show_default=True, help="oracle, zoo, or a folder of runs."),
        click.option("--skill-nav/--no-skill-nav", default=True, help="Manipulation skills may drive the base."),
        click.option("--nav-skill/--no-nav-skill", default=True, help="Play the plan's Navigate steps."),
        click.option("--stop-mask/--no-stop-mask", default=True, help="Navigate may stop only within 2 m."),
        click.option("--monolithic", is_flag=True, help="One policy, rearrange, instead of a plan and its skills."),
        replan_option,
        click.option("--split", default="val", show_default=True, type=Name("split", SPLITS)),
        data_option,
        click.option("--sim", help="mujoco or habitat; as the override sim.name=…, whose default is mujoco."),
        obs_option,
    ]
    for option in reversed(options):
        command = option(command)
    return command


def eval_config(name: str, overrides: tuple[str, ...], flags: dict[str, Any]) -> EvalConfig:
    """Return the configuration, checked; with --data (ablations have none), `flags["split"]` becomes what its split is
    called."""
    from configs.schema import ConfigError, load_eval_config, override_key

    try:
        given = {"sim.name": flags.get("sim"), "sim.obs": flags.get("obs")}
        for key in map(override_key, overrides):
            if given.get(key):
                option = {"sim.name": "--sim", "sim.obs": "--obs"}[key]
                raise BadInput(f"{option} {given[key]} and {key}=… say the same thing; leave one of them out")
        config = load_eval_config([*overrides, *(f"{key}={value}" for key, value in given.items() if value)])
    except ConfigError as error:
        raise BadInput(str(error)) from error
    if flags.get("data") is not None:
        check_data_is_played("sim.name", config.sim.name)
        params = click.get_current_context().params
        count = params.get("episodes") or params.get("episode", 0) + 1
        flags["split"] = checked_data(name, flags["data"], flags["split"], count)
    check_options_apply(name, click.get_current_context(), config, flags["skills"])
    return config


def chosen_agent(name: str, flags: dict[str, Any], config: EvalConfig) -> Agent:
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


def request_of(name: str, agent: Agent, split: str, episodes: int, seed: int, config: EvalConfig) -> Request:
    """Return which episodes an agent is to play, and how."""
    from eval.evaluate import Request
    from hab.scenario_env import MAX_STEPS

    return Request(
        name,
        agent,
        split,
        episodes,
        seed,
        config.sim.obs,
        config.sim.name,
        config.chain.episode_steps or MAX_STEPS,
        config.chain.skill_steps,
        config.sim.objects or HOUSE_OBJECTS,
        config.sim.depth_noise,
    )


def check_rendering(config: EvalConfig) -> None:
    """Fail before the work starts where no OpenGL back end works."""
    from videos.render import prepare_rendering

    if config.sim.name == "mujoco":  # habitat-sim draws by itself, and not beside another OpenGL
        prepare_rendering()


def check_depth(config: EvalConfig, seen: bool) -> None:
    """Fail before the work starts where nobody sees the depth images whose noise is asked for, or nothing draws them.

    seen: whether a policy or a film has images.
    """
    if config.sim.depth_noise and not seen:
        raise BadInput("sim.depth_noise: is the camera's, and no policy here sees it; leave it out, or add --obs depth")
    if seen:
        check_rendering(config)


def film_path(name: str, split: str, index: int) -> Path:
    return Path("outputs") / f"{name}_{split_name(split)}_{index}.mp4"
