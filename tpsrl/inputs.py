"""Checks of what people type, each failing with one line that says how to mend it."""

from __future__ import annotations

import difflib
import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from hab.backend import PLANAR, unavailable
from hab.episodes import SCENARIOS, data_split
from skills import always_drives

if TYPE_CHECKING:
    from configs.schema import EvalConfig


class BadInput(click.ClickException):
    """Wrong input that click itself cannot see."""

    exit_code = 2


class Failure(RuntimeError):
    """The work itself failed; the message is one line."""


class Name(click.ParamType[str]):
    """One of a few names; a near miss is answered with "did you mean"."""

    def __init__(self, what: str, choices: Sequence[str]) -> None:
        self.name = what
        self.choices = tuple(choices)

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        if value in self.choices:
            return value
        near = difflib.get_close_matches(value, self.choices, n=1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise BadInput(f"unknown {self.name} {value!r}: {hint}choose from {', '.join(self.choices)}")


def output_files(paths: Sequence[tuple[str, Path | None]]) -> None:
    """Check, before any work, that all these files (option, path) can be written and are different ones."""
    seen: dict[Path, str] = {}
    for option, path in paths:
        if path is None:
            continue
        other = seen.setdefault(path.resolve(), option)
        if other != option:
            raise BadInput(f"{option} {path}: is the file of {other}, too; name another file")
        _check_writable(option, path)


def _check_writable(option: str, path: Path) -> None:
    """Try to write a file; leaves nothing behind."""
    if path.is_dir():
        raise BadInput(f"{option} {path}: is a folder; name a file in it")
    existed = path.exists()
    made = [folder for folder in path.parents if not folder.exists()]
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.open("a").close()
        if not existed:
            path.unlink()
    except OSError as error:
        raise BadInput(f"{option} {path}: cannot be written ({error.strerror}); name another file") from error
    finally:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()


def write_text(path: Path, text: str) -> None:
    """Write a file whose folder may be missing."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def json_lines(rows: Sequence[dict[str, Any]]) -> str:
    """Return rows as JSON Lines."""
    return "".join(json.dumps(row) + "\n" for row in rows)


def check_resume(resume: bool, out: Path | None, keys: Sequence[str], total: str) -> None:
    """Refuse a resume of no run, or with overrides (their keys) of anything but `total`, the number of steps."""
    if resume and out is None:
        raise BadInput("--resume: name the run's folder with --out")
    if resume and set(keys) - {total}:
        raise BadInput(f"--resume: the run's own configuration is used; only {total} may be given anew")


def check_resumed(out: Path, given: Mapping[str, Any], saved: Mapping[str, Any]) -> None:
    """Refuse options of the present command that are given, and not as the run in `out` has them."""
    context = click.get_current_context()
    for option, value in given.items():
        if value != saved[option] and context.get_parameter_source(option) is not ParameterSource.DEFAULT:
            raise BadInput(f"--resume: the run in {out} has {option}={saved[option]}, not {value}")


def check_simulator(key: str, name: str) -> None:
    """Refuse a simulator that is unknown or not installed here."""
    try:
        reason = unavailable(name)
    except ValueError as error:
        raise BadInput(f"{key}={name}: {error}") from error
    if reason:
        raise BadInput(f"{key}={name}: {reason}")


def check_data_is_played(key: str, simulator: str) -> None:
    """Refuse a folder of Habitat data for another simulator."""
    if simulator != "habitat":
        raise BadInput(f"--data: is played on habitat-sim alone, and {key}={simulator}; add --sim habitat")


def checked_data(name: str, folder: Path, split: str, episodes: int = 1) -> str:
    """Return what a split of a folder of Habitat data is called (`data_split`).

    Refuses one without so many episodes of a scenario or a skill, or without what it takes to play the first."""
    from hab.habitat.assets import DataError
    from hab.habitat.official import check_playable, data_folder, read_episode

    data = data_folder(str(folder), split)
    scenario = name if name in SCENARIOS else SCENARIOS[0]
    try:
        held = len(data.raw(name)) if name in SCENARIOS else data.starts
        if episodes > held:
            raise BadInput(f"--data: {folder} holds {held} {split} episodes of {name}, numbered from 0")
        check_playable(data, scenario)
        read_episode(data, scenario, 0)
    except DataError as error:
        raise BadInput(f"--data: {error}") from error
    return data_split(split, str(folder.resolve()))


def check_somebody_sees(obs: str | None, skills: str) -> None:
    """Refuse an observation set for skills that see nothing."""
    if obs is not None and skills == "oracle":
        raise BadInput(f"--obs {obs}: oracle skills read no observations; leave it out")


def check_options_apply(name: str, context: click.Context, config: EvalConfig, skills: str) -> None:
    """Refuse what would silently do nothing."""
    check_simulator("sim.name", config.sim.name)
    if config.sim.name == PLANAR:
        raise BadInput(f"sim.name={PLANAR}: is for training Navigate; leave it out")
    if config.chain.skill_steps:
        from planner.task_planner import PLANNED  # slow to import

        for skill in set(config.chain.skill_steps) - set(PLANNED):
            raise BadInput(f"chain.skill_steps.{skill}: no such skill in a plan; choose from {', '.join(PLANNED)}")
    if context.params.get("monolithic"):
        _check_monolithic(name, context)
    if context.params.get("replan"):
        _check_replan(name, context)
    check_somebody_sees(config.sim.obs, skills)
    if name in SCENARIOS:
        return
    limits = {"episode_steps": config.chain.episode_steps, **config.chain.skill_steps}
    if any(steps is not None for steps in limits.values()):
        raise BadInput(
            "chain.*: limits of the chain do not apply to a single skill; leave them out, or name a scenario"
        )
    if config.sim.objects is not None:
        raise BadInput(f"sim.objects={config.sim.objects}: a single skill plays in full houses; leave it out")
    for option in ("nav_skill", "stop_mask") + (("skill_nav",) if always_drives(name) else ()):
        _refuse(option, context, f"does nothing for {name} on its own; leave it out")


def _check_monolithic(name: str, context: click.Context) -> None:
    if name not in SCENARIOS:
        raise BadInput(f"--monolithic: {name} is one policy as it is; leave it out")
    for option in ("skill_nav", "nav_skill", "stop_mask"):
        _refuse(option, context, "says how a plan's skills are played, --monolithic has none; leave one of them out")


def _check_replan(name: str, context: click.Context) -> None:
    if name not in SCENARIOS:
        raise BadInput(f"--replan: {name} on its own has no plan; leave it out, or name a scenario")
    if context.params.get("monolithic"):
        raise BadInput("--replan: --monolithic has no plan; leave one of them out")
    if not context.params["nav_skill"]:
        raise BadInput("--replan: drives to where it tries again; leave --no-nav-skill out")


def _refuse(option: str, context: click.Context, why: str) -> None:
    """Refuse an on/off option that was given."""
    if context.get_parameter_source(option) is ParameterSource.COMMANDLINE:
        flag = option.replace("_", "-")
        raise BadInput(f"--{flag}/--no-{flag}: {why}")
