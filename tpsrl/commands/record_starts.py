"""`tpsrl record-starts`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import click

from hab.episodes import SCENARIOS
from hab.observation_sets import OBSERVATION_SETS
from tpsrl.commands.options import Command, replan_option
from tpsrl.inputs import BadInput, Failure, Name, check_somebody_sees, output_files


def _share(name: str, how: str) -> Callable[[Command], Command]:
    """Return the option of a share of Pick's calls that are recorded again."""
    said, share = f"Share of Pick's calls that are recorded {how}", click.FloatRange(0.0, 1.0)
    return click.option(name, default=0.0, show_default=True, type=share, help=said)


@click.command("record-starts")
@click.argument("file", metavar="FILE", type=Path)
@click.option("--skills", default="zoo", show_default=True, help="oracle, zoo, or a folder of runs.")
@click.option("--obs", type=Name("observation set", tuple(OBSERVATION_SETS)), help="As of tpsrl eval.")
@replan_option
@click.option("--episodes", default=1500, show_default=True, type=click.IntRange(min=1), help="Of all scenarios.")
@click.option("--workers", default=1, show_default=True, type=click.IntRange(min=1), help="Parallel processes.")
@_share("--fallen", "a second time, with the object on the floor.")
@_share("--shoved", "once more, with the object shoved aside or knocked over.")
def record_starts_command(
    file: Path,
    skills: str,
    obs: str | None,
    replan: str | None,
    episodes: int,
    workers: int,
    fallen: float,
    shoved: float,
) -> None:
    """Record in FILE (.npz) where the chain, or closed loop, hands over to each skill, in training apartments.

    tpsrl train-skill SKILL chain_states=FILE chain_starts=0.5 trains from there, too.
    """
    from eval.evaluate import INTERRUPTED
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
    agent = Agent(skills, replan=replan or "")
    try:
        for scenario in SCENARIOS:
            check_agent(agent, scenario, obs)
        if any(sees_depth(agent, scenario, obs) for scenario in SCENARIOS):
            prepare_rendering()
    except AgentError as error:
        raise BadInput(f"--skills: {error}") from error
    with episode_progress("recording", episodes) as on_episode:
        calls, problem = record(agent, obs, episodes, workers, on_episode, fallen, shoved)
    if not calls:
        raise Failure(f"{problem}: nothing was recorded")
    save(file, calls)
    counts = Counter(call.skill for call in calls)
    click.echo(f"{file}: " + ", ".join(f"{skill} {count}" for skill, count in sorted(counts.items())))
    if problem == INTERRUPTED:
        click.echo("interrupted: these are of the episodes that had ended")
    elif problem:
        raise Failure(f"{problem} (what was recorded before is in {file})")
