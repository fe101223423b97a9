"""What any policy's card holds: how it was trained, by the run's own files, and its curve."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from planner.zoo import CONFIG, WEIGHTS
from skills.trained import without_critic
from ver_core.reporting import RECENT_EPISODES

CARD, CURVE, CURVE_DATA, TEXT = "card.json", "curve.png", "curve.json", "README.md"
BEFORE = "before.json"
"""In a run's folder: what is known of the trainings whose weights it began with."""
_POINTS = 300
"""Of a curve, at most."""
_PROGRAMS = ("train-skill", "train-nav")
Curve = list[list[float]]
"""[decisions, success of the last training episodes], in the order of training."""


class CardError(RuntimeError):
    """A run that cannot be published; the message is one line."""


def copy_policy(run: Path, folder: Path, name: str) -> None:
    """Copy a run's policy, without what is for training alone, and its configuration into a folder, with its curve.

    Matrices are rounded to half precision: what is measured later is measured of those. Raises `CardError`.
    """
    rows, curve = _scalars(run), training_curve(run)
    folder.mkdir(parents=True, exist_ok=True)
    weights = without_critic(load_file(run / WEIGHTS))
    save_file({name: t.half() if t.ndim > 1 else t for name, t in weights.items()}, folder / WEIGHTS)
    shutil.copyfile(run / CONFIG, folder / CONFIG)
    _draw_curve(rows, name, folder / CURVE)
    (folder / CURVE_DATA).write_text(json.dumps(curve) + "\n", encoding="utf-8")


def rate(result: dict[str, Any], measure: str = "success", digits: int = 2) -> str:
    """Return "0.93 (0.89–0.96)"."""
    low, high = result[f"{measure}_ci95"]
    return f"{result[measure]:.{digits}f} ({low:.{digits}f}–{high:.{digits}f})"


def trainings_before(run: Path) -> tuple[list[dict[str, Any]], Curve]:
    """Return what `model_card.keep_facts` noted: the facts of each training, the first one first, and their curve."""
    if not (run / BEFORE).exists():
        return [], []
    noted = read_json(run / BEFORE)
    return noted["trainings"], noted["curve"]


def read_json(path: Path) -> Any:
    """Return what a file holds. Raises `CardError`."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CardError(f"{path}: cannot be read ({' '.join(str(error).split())})") from error


def read_card(folder: Path) -> dict[str, Any]:
    """Return a published policy's facts. Raises `CardError`."""
    card: dict[str, Any] = read_json(folder / CARD)
    return card


def training_facts(run: Path) -> dict[str, Any]:
    """Return with what commands, when, where and how long a run was trained. Raises `CardError`."""
    rows = _scalars(run)
    try:
        return _facts(rows, json.loads((run / "run.json").read_text(encoding="utf-8"))["sessions"])
    except (OSError, ValueError, LookupError, TypeError) as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise CardError(f"{run}: its run.json or scalars.jsonl is not as training writes it ({said})") from error


def _facts(rows: list[dict[str, Any]], sessions: list[dict[str, Any]]) -> dict[str, Any]:
    last = sessions[-1]
    steps, seconds = int(rows[-1]["steps"]), float(rows[-1]["seconds"])
    git = last["git"]
    return {
        "command": shlex.join(["tpsrl", *_after_program(sessions[0]["command"])]),
        "resumed": [shlex.join(["tpsrl", *_after_program(s["command"]), "--out", "RUN"]) for s in sessions[1:]],
        "steps": steps,
        "seconds": round(seconds),
        "steps_per_s": round(steps / seconds),
        "success": _mean_of_last(rows, "episode/success"),
        "date": last["date"][:10],
        "machine": f"{last['cores']} cores, {last['cpu']}" + "".join(f", {gpu}" for gpu in last["gpus"]),
        # A text where tpsrl lay in no repository: installed from a wheel.
        "revision": git["revision"] + (" with changes" if git["dirty"] else "") if isinstance(git, dict) else "",
        "torch": last["torch"],
    }


def _after_program(command: list[str]) -> list[str]:
    """Return a command's arguments without the program and without the folder it wrote to."""
    program = next((name for name in _PROGRAMS if name in command), None)
    arguments = command[1:] if program is None else command[command.index(program) :]
    if "--out" in arguments:
        at = arguments.index("--out")
        arguments = arguments[:at] + arguments[at + 2 :]
    return arguments


def training_curve(run: Path) -> Curve:
    """Return a run's curve, of `_POINTS` points at most, after that of the trainings before it. Raises `CardError`."""
    _, curve = trainings_before(run)
    known = [
        [int(row["steps"]), round(row["episode/success"], 3)]
        for row in _scalars(run)
        if row.get("episode/success") is not None
    ]
    done = curve[-1][0] if curve else 0
    return [*curve, *([done + steps, success] for steps, success in known[:: -(-len(known) // _POINTS) or 1])]


def effort(card: dict[str, Any]) -> tuple[int, float]:
    """Return the steps (decisions) and seconds of all trainings that a policy's weights have gone through."""
    parts = [*(before["training"] for before in card.get("before", [])), card["training"]]
    return sum(part["steps"] for part in parts), sum(part["seconds"] for part in parts)


def described(training: dict[str, Any]) -> str:
    """Return the card's lines on the commands of a training."""
    return "\n".join(["```", training["command"], *training["resumed"], "```"])


def write_card(folder: Path, facts: dict[str, Any], text: str) -> None:
    """Write the facts, and what they say in words, into a policy's folder."""
    (folder / CARD).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    (folder / TEXT).write_text(text, encoding="utf-8")


def _scalars(run: Path) -> list[dict[str, Any]]:
    try:
        rows = [json.loads(line) for line in (run / "scalars.jsonl").read_text(encoding="utf-8").splitlines()]
    except (OSError, ValueError) as error:
        raise CardError(f"{run / 'scalars.jsonl'}: cannot be read ({' '.join(str(error).split())})") from error
    if not rows:
        raise CardError(f"{run}: has trained for no step yet")
    return rows


def _mean_of_last(rows: list[dict[str, Any]], key: str) -> float | None:
    known = [row[key] for row in rows if row.get(key) is not None]
    return round(known[-1], 3) if known else None


def _draw_curve(rows: list[dict[str, Any]], name: str, path: Path) -> None:
    os.environ.setdefault("MPLBACKEND", "Agg")
    from matplotlib.figure import Figure  # slow to import

    figure = Figure(figsize=(6.4, 3.2), layout="constrained")
    left = figure.subplots()
    right = left.twinx()
    millions = [row["steps"] / 1e6 for row in rows]
    for axes, key, colour in ((left, "success", "C0"), (right, "return", "C1")):
        values = [row.get(f"episode/{key}") for row in rows]
        axes.plot(millions, [float("nan") if v is None else v for v in values], colour, linewidth=1.2)
        axes.set_ylabel(f"{key}, mean of {RECENT_EPISODES} episodes", color=colour)
    left.set_ylim(0.0, 1.0)
    left.set_xlabel(f"million steps ({rows[-1]['seconds'] / 60:.0f} min)")
    left.set_title(f"{name}: training starts", fontsize=10)
    figure.savefig(path, dpi=110, metadata={"Software": None})
