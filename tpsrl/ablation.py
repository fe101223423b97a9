"""`tpsrl ablate`: measure, print, write the report, and film what is worth watching."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import click
from rich.console import Console

from eval.ablation import Ablation, Cell, RecordsError, ablate
from eval.ablation_page import Shown, page
from eval.ablation_report import summarize, tables, to_csv, typical
from eval.evaluate import Request
from hab.simulator import SimulationError
from planner.agent import AgentError, chain_limits
from tpsrl.inputs import BadInput, Failure, json_lines, write_text
from tpsrl.progress import episode_progress, frame_progress

if TYPE_CHECKING:
    from configs.schema import VideoConfig

FILMS = "videos"


def run_ablation(
    request: Request, cells: Sequence[Cell], skills: str, folder: Path, workers: int, video: VideoConfig | None
) -> None:
    """Measure `cells` and write all into `folder`; `video`: how films look, None for none.

    Raises `BadInput` and `Failure`.
    """
    try:
        ablation = ablate(
            request, cells, skills, folder, workers, lambda cell, count: episode_progress(cell.key, count)
        )
    except (AgentError, RecordsError) as error:
        raise BadInput(str(error)) from error
    summary = summarize(ablation)
    if not summary["cells"]:
        raise Failure(ablation.error or "interrupted before the first episode ended: nothing was measured")
    Console(width=max(Console().width, 150)).print(tables(summary))
    write_text(folder / "summary.json", json.dumps(summary, indent=1) + "\n")
    write_text(folder / "success.csv", to_csv(summary))
    report = folder / "report.html"
    write_text(report, page(summary))
    if ablation.error:
        raise Failure(f"{ablation.error} (what was measured is in {folder})")
    if ablation.interrupted:
        click.echo(f"interrupted; the same command goes on in {folder}")
        return
    if video is not None:
        from videos.gallery import GalleryError

        try:
            shown = _film(ablation, cells, folder, video)
        except GalleryError as error:
            raise BadInput(f"{error} (delete that film, and the same command goes on in {folder})") from error
        write_text(report, page(summary, shown))
    click.echo(f"{report}: tables and curves")


def _film(ablation: Ablation, cells: Sequence[Cell], folder: Path, video: VideoConfig) -> list[Shown]:
    """Film what is typical, unless it is there already, and make the gallery of it."""
    from videos.gallery import build_gallery, rollouts, thumbnail
    from videos.render import Style, render_scenario

    request, style = ablation.request, Style(video.height, video.fps, video.max_s)
    limits = chain_limits(request.episode_steps, request.skill_steps)
    shown = []
    for cell in cells:
        for kind, index in typical(ablation.cells[cell.key].results).items():
            film = folder / FILMS / f"{cell.key}_{index}.mp4"
            trace = film.with_suffix(".jsonl")
            if not (film.exists() and trace.exists()):
                agent = cell.agent(ablation.skills)
                played = (request.name, request.split, index, request.obs, agent)
                same = (request.seed, request.sim, request.objects, request.depth_noise)
                try:
                    with frame_progress(f"{cell.key} {index}") as on_frame:
                        _, rows = render_scenario(*played, limits, style, film, on_frame, *same)
                except SimulationError as error:
                    said = f"{cell.key}, {request.split} episode {index}: {error}"
                    raise Failure(f"{said} (what was measured is in {folder})") from error
                write_text(trace, json_lines(rows))
            place = f"{FILMS}/{quote(film.name)}"
            shown.append(Shown(f"{cell.title}, episode {index}: {kind}", place, thumbnail(film)))
    films = folder / FILMS
    build_gallery(
        rollouts(films), films, f"{request.name}, {request.split}: typical successes, and every cause of failure"
    )
    return shown
