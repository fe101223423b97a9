"""`tpsrl ablate`."""

from __future__ import annotations

from pathlib import Path

import click

from hab.episodes import SCENARIOS, SPLITS
from tpsrl.commands.options import check_depth, eval_config, obs_option, request_of, seed_option
from tpsrl.inputs import BadInput, Name, output_files


@click.command("ablate")
@click.argument("scenario", metavar="SCENARIO", type=Name("scenario", SCENARIOS))
@click.argument("overrides", nargs=-1)
@click.option("--skills", default="zoo", show_default=True, help="oracle, zoo, or a folder of runs.")
@click.option("--split", default="val", show_default=True, type=Name("split", SPLITS))
@seed_option
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
    ablation that was interrupted goes on where it stopped. Agents that lack a policy are left out, unless --agent
    names them. OVERRIDES are Hydra overrides of configs/eval.yaml.
    """
    from eval.ablation import CELLS, Cell
    from planner.agent import AgentError, check_agent, sees_depth
    from tpsrl.ablation import run_ablation

    config = eval_config(scenario, overrides, {"skills": skills, "obs": obs})
    known = Name("agent", [cell.key for cell in CELLS])
    wanted = {known.convert(key, None, None) for key in keys}
    cells: list[Cell] = []
    lacking: list[str] = []
    for cell in CELLS:
        if wanted and cell.key not in wanted:
            continue
        try:
            check_agent(cell.agent(skills), scenario, config.sim.obs)
            cells.append(cell)
        except AgentError as error:
            if wanted:
                raise BadInput(f"--skills: {error}") from error
            lacking.append(f"{cell.key}: {error}")
    if lacking and all(cell.oracle for cell in cells):
        raise BadInput(f"--skills: {lacking[0]}")
    folder = out or Path("outputs") / "ablate" / f"{scenario}_{split}"
    if folder.exists() and not folder.is_dir():
        raise BadInput(f"--out {folder}: is a file; name a folder")
    output_files([("--out", folder / "summary.json")])
    check_depth(config, videos or any(sees_depth(cell.agent(skills), scenario, config.sim.obs) for cell in cells))
    for line in lacking:
        click.echo(f"left out: {line}", err=True)
    request = request_of(scenario, cells[0].agent(skills), split, episodes, seed, config)
    run_ablation(request, cells, skills, folder, workers, config.video if videos else None)
