"""Does Pick learn to drive to what it is to take? NoNav (VER, section 5.2) by where training begins and how long it is.

    python benchmarks/emergent_navigation.py --out runs/emergent

Pick is trained from random weights on its own start states (none of the chain's): `near` ones, at the navigable point
nearest to the object, and `wide` ones, up to 2 m off. Its policy is kept about every --every decisions. Those nearest
to --at then play Tidy House without Navigate in the plan, beside the packaged Place: the success of the first pick and
of the first place, of Pick's calls by the distance that they began at, and how far the successful ones drove (median).
A run that is in --out is taken up where it was left, and episodes that were played are not played again.
"""

from __future__ import annotations

import argparse
import json
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from training_runs import rows, train

from eval.ablation import CELLS, Cell, ablate
from eval.ablation_report import START_M, summarize
from eval.evaluate import Request
from eval.statistics import wilson
from planner.zoo import CONFIG, WEIGHTS, ZOO

NONAV = next(cell for cell in CELLS if cell.key == "nonav")
PLACE = "place_nav_laser"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--starts", nargs="+", default=["near", "wide"])
    parser.add_argument("--seeds", nargs="+", type=int, default=[0])
    parser.add_argument("--steps", type=int, default=1_500_000)
    parser.add_argument("--every", type=int, default=100_000)
    parser.add_argument("--at", nargs="+", type=int, default=[300_000, 600_000, 1_000_000, 1_500_000])
    parser.add_argument("--episodes", type=int, default=60)
    parser.add_argument("--split", default="val")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--override", nargs="*", default=[], help="Hydra overrides of the trainings")
    parser.add_argument("--out", type=Path, default=Path("outputs/emergent"))
    parser.add_argument("--only-report", action="store_true", help="train nothing, play what is there")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--quick", action="store_true", help="16,384 decisions and 2 episodes, to see that it works")
    arguments = parser.parse_args()
    if arguments.quick:
        arguments.steps, arguments.every, arguments.at, arguments.episodes = 16384, 8192, [16384], 2
    found = []
    for starts in arguments.starts:
        for seed in arguments.seeds:
            run = arguments.out / f"{starts}_{seed}"
            if not arguments.only_report:
                _train(run, starts, seed, arguments.steps, arguments.every, arguments.override)
            for decisions in _kept_nearest(run, arguments.at):
                played = _play(run, decisions, arguments.split, arguments.episodes, arguments.workers)
                found.append({"starts": starts, "seed": seed, "decisions": decisions, **played})
    _print(found)
    if arguments.json:
        arguments.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _train(run: Path, starts: str, seed: int, steps: int, every: int, overrides: list[str]) -> None:
    """Train to `steps` decisions, and keep the policy where it was saved at least `every` decisions later."""
    command = ["train-skill", "pick", "--nav", "--steps", str(steps)]
    first = [f"starts={starts}", "chain_starts=0", f"train.seed={seed}", "train.checkpoint_every_s=30", *overrides]
    train(command, first, run, steps, meanwhile=lambda: _keep(run, every))
    _keep(run, 1)


def _keep(run: Path, every: int) -> None:
    last = max(_kept(run), default=0)
    if _decisions(run) - last >= every and (run / WEIGHTS).is_file():
        saved = (run / WEIGHTS).stat().st_mtime
        if not last or saved > (run / "policies" / str(last) / WEIGHTS).stat().st_mtime:
            folder = run / "policies" / str(_decisions(run, saved))
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copy2(run / WEIGHTS, folder)


def _decisions(run: Path, at: float | None = None) -> int:
    """Return how many decisions a run has made: now, or when a file was written."""
    known = rows(run)
    if at is not None and known:
        begun = (run / "scalars.jsonl").stat().st_mtime - known[-1]["seconds"]
        known = [row for row in known if begun + row["seconds"] <= at + 1.0]
    return int(known[-1]["steps"]) if known else 0


def _kept(run: Path) -> list[int]:
    return sorted(int(path.parent.name) for path in run.glob(f"policies/*/{WEIGHTS}"))


def _kept_nearest(run: Path, wanted: list[int]) -> list[int]:
    there = _kept(run)
    return sorted({min(there, key=lambda kept: abs(kept - at)) for at in wanted}) if there else []


def _play(run: Path, decisions: int, split: str, episodes: int, workers: int) -> dict[str, Any]:
    folder = run / "policies" / str(decisions)
    skills = run / "skills" / str(decisions)
    for name, files in (("pick_nav_laser", (folder / WEIGHTS, run / CONFIG)), (PLACE, _zoo_files())):
        (skills / name).mkdir(parents=True, exist_ok=True)
        for file in files:
            shutil.copy2(file, skills / name)
    asked = Request("tidy_house", NONAV.agent(str(skills)), split, episodes)
    ablation = ablate(asked, [NONAV], str(skills), run / "played" / str(decisions), workers, _quietly)
    if ablation.error or ablation.interrupted:
        raise SystemExit(ablation.error or "interrupted; give the same command again to go on")
    cell: dict[str, Any] = summarize(ablation)["cells"][NONAV.key]
    return {"episodes": cell["episodes"], "interactions": cell["successes"][:2], **cell["driving"][0]}


def _zoo_files() -> tuple[Path, Path]:
    return ZOO / PLACE / WEIGHTS, ZOO / PLACE / CONFIG


@contextmanager
def _quietly(cell: Cell, episodes: int) -> Iterator[Callable[[Any], None]]:
    yield lambda result: None


def _print(found: list[dict[str, Any]]) -> None:
    begun = [f"Pick from {low:g} m" for low in START_M[:-1]]
    print("| starts | seed | decisions | pick 1 | place 1 | driven, m | " + " | ".join(begun) + " |")
    print("| --- " * (6 + len(begun)) + "|")
    for row in found:
        shares = [_share(count, row["episodes"]) for count in row["interactions"]]
        calls = [f"{part['successes']} of {part['calls']}" for part in row["by_start"]]
        driven = row["driven_m_of_successes"]
        print(
            f"| {row['starts']} | {row['seed']} | {row['decisions']:,} | {' | '.join(shares)} | "
            f"{'' if driven is None else driven} | {' | '.join(calls)} |"
        )


def _share(count: int, episodes: int) -> str:
    low, high = wilson(count, episodes)
    return f"{count / episodes:.2f} ({low:.2f}–{high:.2f})"


if __name__ == "__main__":
    main()
