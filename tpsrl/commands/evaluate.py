"""`tpsrl eval`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from tpsrl.commands.options import (
    agent_options,
    check_depth,
    chosen_agent,
    eval_config,
    film_path,
    request_of,
    seed_option,
)
from tpsrl.commands.render import render_episode
from tpsrl.inputs import Failure, json_lines, output_files, write_text


@click.command("eval")
@agent_options
@seed_option
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
    from eval.evaluate import evaluate
    from eval.report import tables, to_json, trace_rows
    from planner.agent import sees_depth
    from tpsrl.progress import episode_progress

    config = eval_config(name, overrides, flags)
    agent = chosen_agent(name, flags, config)
    films = [film_path(name, flags["split"], index) for index in range(min(videos, episodes))]
    output_files(
        [("--json", json_file), ("--trace", trace_file)]
        + [
            (f"--video {index}", path)
            for index, film in enumerate(films)
            for path in (film, film.with_suffix(".jsonl"))
        ]
    )
    check_depth(config, bool(films) or sees_depth(agent, name, config.sim.obs))
    request = request_of(name, agent, flags["split"], episodes, seed, config)
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
        render_episode(name, index, film, config, agent, flags["split"], seed)
