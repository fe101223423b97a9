"""`tpsrl train-skill`."""

from __future__ import annotations

from pathlib import Path

import click

from hab.episodes import POLICIES
from hab.observation_sets import DEFAULT, OBSERVATION_SETS
from tpsrl.inputs import BadInput, Name, check_resume, check_resumed


@click.command("train-skill")
@click.argument("skill", metavar="SKILL", type=Name("skill", POLICIES))
@click.argument("overrides", nargs=-1)
@click.option("--nav/--no-nav", default=True, show_default=True, help="Whether the skill may drive the base.")
@click.option("--obs", default=DEFAULT, show_default=True, type=Name("observation set", tuple(OBSERVATION_SETS)))
@click.option("--sim", default="mujoco", show_default=True, help="The simulator.")
@click.option("--data", type=Path, metavar="DIR", help="Train on a folder of Habitat data (docs/habitat.md).")
@click.option("--algorithm", default="ver", show_default=True, type=Name("algorithm", ("ver", "pql")))
@click.option("--steps", type=click.IntRange(min=1), help="Of all environments together: train.total_steps.")
@click.option("--out", type=Path, metavar="DIR", help="Default: outputs/train/SKILL_nav|nonav_OBS_TIME.")
@click.option("--resume", is_flag=True, help="Go on with the run in --out, with its own configuration.")
def train_skill_command(
    skill: str,
    overrides: tuple[str, ...],
    nav: bool,
    obs: str,
    sim: str,
    data: Path | None,
    algorithm: str,
    steps: int | None,
    out: Path | None,
    resume: bool,
) -> None:
    """Train a skill's policy. OVERRIDES are Hydra overrides of configs/train_skill.yaml, as train.num_envs=32.

    Ctrl-C and SIGTERM save a checkpoint and end with exit code 0; --resume goes on. docs/training.md says more.
    """
    from configs.schema import ConfigError, load_train_config, override_key
    from tpsrl import algorithms

    task = {
        "skill": skill,
        "nav": nav,
        "obs": obs,
        "sim": sim,
        "data": str(data.resolve()) if data else "",
        "algorithm": algorithm,
    }
    keys = [override_key(override) for override in overrides]
    for key, override in zip(keys, overrides, strict=True):
        if key in (*task, "out"):
            raise BadInput(f"bad override: {override}: the command line has an argument or option for {key}")
    total = algorithms.total_key(algorithm)
    if steps is not None and total in keys:
        raise BadInput(f"--steps and {total} say the same; give one of them")
    check_resume(resume, out, keys, total)
    quoted = {**task, "data": "'" + folder.replace("'", "\\'") + "'"}  # a path may have any characters
    settings = [f"{key}={value}" for key, value in quoted.items()] + list(overrides)
    settings += algorithms.settings(algorithm, overrides, keys, steps)
    try:
        config = load_train_config(settings)
    except ConfigError as error:
        raise BadInput(str(error)) from error
    from tpsrl.training import resumed_config, train_skill  # loads torch: bad input is answered before

    if resume and out is not None:
        fresh, config = config, resumed_config(out)
        check_resumed(out, *({option: getattr(each, option) for option in task} for each in (fresh, config)))
        if steps is not None or keys:
            algorithms.set_total_steps(config, fresh)
    train_skill(config, out or Path(config.out), resume)
