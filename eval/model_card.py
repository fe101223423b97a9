"""Publishing a training run to a zoo: weights, resolved configuration, training curve, measured success, model card."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file

from configs.schema import TrainSkillConfig
from eval.evaluate import Evaluation
from eval.report import to_json
from hab.observation_sets import LASER_MAP
from planner.zoo import CONFIG, WEIGHTS, Entry, run_entry
from skills import always_drives
from skills.trained import without_critic
from ver_core.reporting import RECENT_EPISODES

CARD, CURVE, CURVE_DATA, TEXT = "card.json", "curve.png", "curve.json", "README.md"
BEFORE = "before.json"
"""In a run's folder: what is known of the trainings whose weights it began with."""
_POINTS = 300
"""Of a curve, at most."""
Curve = list[list[float]]
"""[decisions, success of the last training episodes], in the order of training."""


class CardError(RuntimeError):
    """A run that cannot be published; the message is one line."""


def publish(run: Path, entry: Entry, zoo: Path) -> Path:
    """Copy a run's policy into a zoo, with its curve and the facts of its training; return the folder."""
    folder = zoo / entry.name
    rows = _scalars(run)
    facts: dict[str, Any] = {**_origin(run, entry, rows), "results": {}}
    before, curve = _before(run)
    if before:
        facts["before"] = before
    folder.mkdir(parents=True, exist_ok=True)
    save_file(without_critic(load_file(run / WEIGHTS)), folder / WEIGHTS)
    shutil.copyfile(run / CONFIG, folder / CONFIG)
    _draw_curve(rows, entry, folder / CURVE)
    (folder / CURVE_DATA).write_text(json.dumps(_joined(curve, _curve(rows))) + "\n", encoding="utf-8")
    _write(folder, facts)
    return folder


def record(folder: Path, evaluation: Evaluation) -> None:
    """Write what an evaluation measured into a policy's card."""
    facts = read_card(folder)
    report = to_json(evaluation)
    keys = ("episodes", "seed", "success", "success_ci95", "steps", "seconds")
    failures = Counter(result.reason for result in evaluation.results if not result.success)
    facts["results"][evaluation.request.split] = {
        **{key: report[key] for key in keys},
        "failures": dict(failures.most_common()),
        "date": datetime.now(UTC).strftime("%Y-%m-%d"),
    }
    _write(folder, facts)


def keep_facts(origin: Path, run: Path) -> None:
    """Note in a run's folder what is known of the policy, published or another run's, whose weights it begins with.

    Raises `CardError`.
    """
    if (origin / CARD).exists():
        card = read_card(origin)
        before = [*card.get("before", []), {key: card[key] for key in ("policy", "training")}]
        curve = _read(origin / CURVE_DATA) if (origin / CURVE_DATA).exists() else []
    else:
        rows = _scalars(origin)
        before, curve = _before(origin)
        before, curve = [*before, _origin(origin, run_entry(origin), rows)], _joined(curve, _curve(rows))
    (run / BEFORE).write_text(json.dumps({"trainings": before, "curve": curve}) + "\n", encoding="utf-8")


def _before(run: Path) -> tuple[list[dict[str, Any]], Curve]:
    """Return what `keep_facts` noted: the facts of each training, the first one first, and their curve."""
    if not (run / BEFORE).exists():
        return [], []
    noted = _read(run / BEFORE)
    return noted["trainings"], noted["curve"]


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CardError(f"{path}: cannot be read ({' '.join(str(error).split())})") from error


def read_card(folder: Path) -> dict[str, Any]:
    """Return a published policy's facts. Raises `CardError`."""
    card: dict[str, Any] = _read(folder / CARD)
    return card


def rate(result: dict[str, Any]) -> str:
    """Return "0.93 (0.89–0.96)"."""
    low, high = result["success_ci95"]
    return f"{result['success']:.2f} ({low:.2f}–{high:.2f})"


def _origin(run: Path, entry: Entry, rows: list[dict[str, Any]]) -> dict[str, Any]:
    """Return what a run's policy is and how it was trained."""
    return {"policy": _policy_facts(entry.config), "training": _training_facts(run, rows)}


def _policy_facts(config: TrainSkillConfig) -> dict[str, Any]:
    return {
        "skill": config.skill,
        "base_movement": config.nav,
        "obs": config.obs,
        "action_repeat": config.action_repeat,
        "starts": config.starts,
        "chain_starts": config.chain_starts,
        "chain_states": bool(config.chain_states),
        "retries": config.retries,
    }


def _training_facts(run: Path, rows: list[dict[str, Any]]) -> dict[str, Any]:
    try:
        sessions = json.loads((run / "run.json").read_text(encoding="utf-8"))["sessions"]
        last = sessions[-1]
    except (OSError, ValueError, LookupError) as error:
        raise CardError(f"{run / 'run.json'}: cannot be read ({' '.join(str(error).split())})") from error
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
    arguments = command[command.index("train-skill") :] if "train-skill" in command else command[1:]
    if "--out" in arguments:
        at = arguments.index("--out")
        arguments = arguments[:at] + arguments[at + 2 :]
    return arguments


def _computed(obs: str) -> list[str]:
    if obs != LASER_MAP:
        return []
    return [
        "- Besides its sensors it is told the way to its goal on a map drawn from laser, head scan and odometry since "
        "the call began (docs/hab.md)."
    ]


def _earlier(training: dict[str, Any]) -> str:
    """Describe a training that another one went on from."""
    return (
        f"- Before, its weights were trained by `{training['command']}`: {training['steps']:,} steps in "
        f"{training['seconds'] / 60:.0f} min, {training['date']}, revision {training['revision'] or 'unknown'}."
    )


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


def _draw_curve(rows: list[dict[str, Any]], entry: Entry, path: Path) -> None:
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
    left.set_title(f"{entry.name}: training starts", fontsize=10)
    figure.savefig(path, dpi=110, metadata={"Software": None})


def _curve(rows: list[dict[str, Any]]) -> Curve:
    """Return a training's curve, of `_POINTS` points at most."""
    known = [
        [int(row["steps"]), round(row["episode/success"], 3)] for row in rows if row.get("episode/success") is not None
    ]
    return known[:: -(-len(known) // _POINTS) or 1]


def _joined(before: Curve, after: Curve) -> Curve:
    """Return the curve of a training and of one that went on from it."""
    done = before[-1][0] if before else 0
    return [*before, *([done + steps, success] for steps, success in after)]


def _write(folder: Path, facts: dict[str, Any]) -> None:
    (folder / CARD).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    (folder / TEXT).write_text(card_text(folder.name, facts), encoding="utf-8")


def card_text(name: str, facts: dict[str, Any]) -> str:
    """Return a model card in Markdown: what a policy's name and facts say."""
    policy, training = facts["policy"], facts["training"]
    repeat = policy["action_repeat"]
    variant = f" {'with' if policy['base_movement'] else 'without'} base movement"
    if always_drives(policy["skill"]):
        variant = ""
    lines = [
        f"# {name}",
        "",
        f"A policy for `{policy['skill']}`{variant} on `{policy['obs']}` observations in tpsrl's embedded simulator. "
        "Not for real robots: it has seen no other simulator, no sensor noise and generated apartments only.",
        "",
        "## Success on its own task",
        "",
        "| split | success (95 % interval) | episodes | date |",
        "| --- | --- | --- | --- |",
        *(
            f"| {split} | {rate(result)} | {result['episodes']} | {result['date']} |"
            for split, result in sorted(facts["results"].items(), reverse=True)
        ),
        "",
        f"`tpsrl eval {policy['skill']} --skills zoo --split SPLIT --episodes N"
        + ("" if policy["base_movement"] else " --no-skill-nav")
        + f" --obs {policy['obs']}"
        + "`; unseen apartments. Arm and base are drawn, as in training; gripper and stop do what is likelier.",
    ]
    for split, result in sorted(facts["results"].items(), reverse=True):
        if result["failures"]:
            causes = ", ".join(f"{reason} {count}" for reason, count in result["failures"].items())
            lines += ["", f"Failures on {split}: {causes}."]
    lines += [
        "",
        "## Training",
        "",
        "```",
        training["command"],
        *training["resumed"],
        "```",
        "",
        f"{training['steps']:,} steps of {repeat} control steps each (1/30 s) in {training['seconds'] / 60:.0f} min, "
        f"{training['steps_per_s']:,} steps/s, one seed, {training['date']}, {training['machine']}, "
        f"torch {training['torch']}, revision {training['revision'] or 'unknown'}. `config.yaml` holds all parameters.",
        "",
        "![success and return while training](curve.png)",
        "",
        "Rewards, success and observations are those of `skills/`; what differs from the task that is evaluated:",
        "",
        f"- Every action is held for {repeat} control steps, in training and in use"
        + (", less where the hand takes or loses something" if repeat > 1 else "")
        + (" (and more while Pick's task lowers the arm)" if policy["skill"] == "pick" and repeat > 1 else "")
        + ".",
        f"- {policy['chain_starts']:.0%} of the training episodes start as the chain of skills hands over "
        + ("(recorded: `skills/recorded.py`)" if policy.get("chain_states") else "(`skills/starts.py`)")
        + "; evaluation has the task's own starts only. The curve is of both together, and of actions drawn with all "
        "their noise.",
        *(
            [
                f"- {policy['retries']:.0%} of the training episodes are ones again that failed in the same apartment, "
                "where there are such; the curve is lower for it."
            ]
            if policy.get("retries")
            else []
        ),
        *(
            [
                "- It was trained from the navigable point nearest to the object or goal (`starts=near`), and is "
                "evaluated from up to 2 m off (`wide`)."
            ]
            if policy.get("starts") == "near"
            else []
        ),
        *_computed(policy["obs"]),
        *(_earlier(before["training"]) for before in facts.get("before", [])),
        # What was done to the weights by hand, if anything.
        *(f"- {note}" for note in facts.get("notes", [])),
        "",
    ]
    return "\n".join(lines)
