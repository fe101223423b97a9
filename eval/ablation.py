"""The paper's ablation (VER, section 5.2 and Figure 6): the same episodes played by several agents.

What was measured is kept, an episode a line, in a folder: an ablation that was interrupted goes on where it stopped.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from eval.evaluate import EpisodeResult, Evaluation, Request, evaluate
from eval.records import RecordsError, check_settings, code_digest
from planner.agent import Agent, weights_of


@dataclass(frozen=True)
class Cell:
    """One agent of the table."""

    key: str
    """Its name on the command line, and its file's."""
    title: str
    skill_nav: bool
    nav_skill: bool
    stop_mask: bool
    oracle: bool = False
    monolithic: bool = False
    replan: str = ""

    def agent(self, skills: str) -> Agent:
        """Return the agent with the skills (planner/agent.py) that are measured."""
        played = "oracle" if self.oracle else skills
        return Agent(played, self.skill_nav, self.nav_skill, self.stop_mask, self.monolithic, self.replan)


CELLS = (
    Cell("tpsrl", "TP-SRL", False, True, True),
    Cell("tpsrl_nomask", "TP-SRL, no stop-masking", False, True, False),
    Cell("skillnav", "TP-SRL + skill navigation", True, True, True),
    Cell("skillnav_nomask", "TP-SRL + skill navigation, no stop-masking", True, True, False),
    Cell("nonav", "TP-SRL(NoNav) + skill navigation", True, False, True),
    Cell("monolithic", "MonolithicRL (one policy, no skills, no plan)", True, True, True, monolithic=True),
    Cell("oracle", "sense-plan-act (oracle skills)", True, True, True, oracle=True),
    Cell("replan_sensed", "TP-SRL + skill navigation, closed loop", True, True, True, replan="sensed"),
    Cell("replan_oracle", "… by the simulator's state", True, True, True, replan="oracle"),
)
"""Without Navigate there is no stop to mask, so NoNav is one cell. The paper's agents mask unless they say so."""
COMPARISONS = (
    ("skill navigation", "skillnav", "tpsrl"),
    ("Navigate in the plan", "skillnav", "nonav"),
    ("stop-masking, with skill navigation", "skillnav", "skillnav_nomask"),
    ("stop-masking, without skill navigation", "tpsrl", "tpsrl_nomask"),
    ("the closed loop", "replan_sensed", "skillnav"),
    ("knowing the state, in the closed loop", "replan_oracle", "replan_sensed"),
)
"""What is compared over the same episodes: a name, the cell with it and the one without it."""


@dataclass(frozen=True)
class Ablation:
    """What was measured, by cell."""

    request: Request
    """Of the first cell; the others differ in the agent only."""
    skills: str
    """The learned ones (planner/agent.py)."""
    cells: dict[str, Evaluation]

    @property
    def interrupted(self) -> bool:
        return any(evaluation.interrupted for evaluation in self.cells.values())

    @property
    def error(self) -> str:
        return next((evaluation.error for evaluation in self.cells.values() if evaluation.error), "")


def ablate(
    request: Request,
    cells: Sequence[Cell],
    skills: str,
    folder: Path,
    workers: int,
    progress: Callable[[Cell, int], Any],
) -> Ablation:
    """Measure cells on `request`'s episodes, those that `folder` does not hold yet.

    `progress(cell, episodes)` is a context manager that yields what is called with each result. Raises `RecordsError`
    if the folder's records were made with other settings.
    """
    _check_settings(request, cells, skills, folder)
    measured: dict[str, Evaluation] = {}
    for cell in cells:
        asked = replace(request, agent=cell.agent(skills))
        with _records(folder / f"{cell.key}.jsonl") as (known, keep):
            known = [result for result in known if result.index < request.episodes]
            with progress(cell, request.episodes - len(known)) as on_result:

                def on_episode(result: EpisodeResult, shown: Any = on_result, keep: Any = keep) -> None:
                    keep(result)
                    shown(result)

                evaluation = evaluate(asked, workers, on_episode, known)
        measured[cell.key] = evaluation
        if evaluation.interrupted or evaluation.error:
            break
    return Ablation(request, skills, measured)


def _check_settings(request: Request, cells: Sequence[Cell], skills: str, folder: Path) -> None:
    """Make sure that a folder's records, if there are any, are of the same episodes, policies and code."""
    wanted = {key: value for key, value in asdict(request).items() if key not in ("agent", "episodes")}
    wanted["code"] = code_digest()
    weights: dict[str, Path] = {}
    for cell in cells:
        weights |= weights_of(cell.agent(skills), request.name, request.obs)
    check_settings(folder, wanted, weights)


@contextmanager
def _records(path: Path) -> Iterator[tuple[list[EpisodeResult], Callable[[EpisodeResult], None]]]:
    """Open a cell's file: yields the results that it holds, and what adds one."""
    known: dict[int, EpisodeResult] = {}
    whole = 0
    if path.exists():
        for line in path.read_bytes().splitlines(keepends=True):
            if not line.endswith(b"\n"):
                break  # a process that was killed wrote half a line
            try:
                result = EpisodeResult(**json.loads(line))
            except (ValueError, TypeError) as error:
                raise RecordsError(f"{path}: holds a line that is no episode; delete the file") from error
            known[result.index] = result
            whole += len(line)
    with path.open("ab") as file:
        file.truncate(whole)

        def keep(result: EpisodeResult) -> None:
            file.write((json.dumps(asdict(result)) + "\n").encode())
            file.flush()
            os.fsync(file.fileno())

        yield list(known.values()), keep
