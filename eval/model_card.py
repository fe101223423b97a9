"""Publishing a training run to a zoo: weights, resolved configuration, training curve, measured success, model card."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from configs.schema import TrainSkillConfig
from eval.evaluate import Evaluation
from eval.report import to_json
from eval.training_facts import (
    BEFORE,
    CARD,
    CURVE_DATA,
    copy_policy,
    described,
    rate,
    read_card,
    read_json,
    training_curve,
    training_facts,
    trainings_before,
    write_card,
)
from hab.observation_sets import LASER_MAP
from planner.zoo import Entry, run_entry
from skills import always_drives, task_class
from skills.articulated import Articulated


def publish(run: Path, entry: Entry, zoo: Path) -> Path:
    """Copy a run's policy into a zoo, with its curve and the facts of its training; return the folder."""
    folder = zoo / entry.name
    facts: dict[str, Any] = {**_origin(run, entry), "results": {}}
    before, _ = trainings_before(run)
    if before:
        facts["before"] = before
    copy_policy(run, folder, entry.name)
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
        curve = read_json(origin / CURVE_DATA) if (origin / CURVE_DATA).exists() else []
    else:
        before, _ = trainings_before(origin)
        before, curve = [*before, _origin(origin, run_entry(origin))], training_curve(origin)
    (run / BEFORE).write_text(json.dumps({"trainings": before, "curve": curve}) + "\n", encoding="utf-8")


def _origin(run: Path, entry: Entry) -> dict[str, Any]:
    """Return what a run's policy is and how it was trained."""
    return {"policy": _policy_facts(entry.config), "training": training_facts(run)}


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
        "practised": dict(config.practised),
        "depth_noise": config.depth_noise,
        "teacher": Path(config.teacher).name,
    }


def _computed(obs: str) -> list[str]:
    if obs != LASER_MAP:
        return []
    return [
        "- Besides its sensors it is told the way to its goal on a map drawn from laser, head scan and odometry since "
        "the call (in a plan, the episode) began (docs/hab.md)."
    ]


def _chain_starts(policy: dict[str, Any]) -> list[str]:
    if not policy["chain_starts"]:
        return []
    if issubclass(task_class(policy["skill"]), Articulated) and not policy["base_movement"]:
        starts = "with the joint part of the way to its goal"
    else:
        starts = "as the chain of skills hands over "
        starts += "(recorded: `skills/recorded.py`)" if policy.get("chain_states") else "(`skills/starts.py`)"
    return [
        f"- {policy['chain_starts']:.0%} of the training episodes start {starts}; evaluation has the task's own starts "
        "only. The curve is of both together, and of actions drawn with all their noise."
    ]


def _taught(policy: dict[str, Any]) -> list[str]:
    if not policy.get("teacher"):
        return []
    return [
        f"- It learnt beside a teacher, `{policy['teacher']}`: being far from what that would do in the same state was "
        "part of the loss, the less the further training went (kickstarting, Schmitt et al. 2018; docs/training.md). "
        "The policy itself sees nothing of the teacher or of its sensors."
    ]


def _earlier(training: dict[str, Any]) -> str:
    """Describe a training that another one went on from."""
    return (
        f"- Before, its weights were trained by `{training['command']}`: {training['steps']:,} steps in "
        f"{training['seconds'] / 60:.0f} min, {training['date']}, revision {training['revision'] or 'unknown'}."
    )


def _write(folder: Path, facts: dict[str, Any]) -> None:
    write_card(folder, facts, card_text(folder.name, facts))


def card_text(name: str, facts: dict[str, Any]) -> str:
    """Return a model card in Markdown: what a policy's name and facts say."""
    policy, training = facts["policy"], facts["training"]
    repeat = policy["action_repeat"]
    variant = f" {'with' if policy['base_movement'] else 'without'} base movement"
    if always_drives(policy["skill"]):
        variant = ""
    noise = "modelled sensor noise" if policy.get("depth_noise") else "no sensor noise"
    lines = [
        f"# {name}",
        "",
        f"A policy for `{policy['skill']}`{variant} on `{policy['obs']}` observations in tpsrl's embedded simulator. "
        f"Not for real robots: it has seen no other simulator, {noise} and generated apartments only.",
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
        + "`; unseen apartments. Actions are drawn, as in training.",
    ]
    for split, result in sorted(facts["results"].items(), reverse=True):
        if result["failures"]:
            causes = ", ".join(f"{reason} {count}" for reason, count in result["failures"].items())
            lines += ["", f"Failures on {split}: {causes}."]
    lines += [
        "",
        "## Training",
        "",
        described(training),
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
        *_chain_starts(policy),
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
                "- How much likelier than others the training episodes were whose object lies, or is to lie, there: "
                + ", ".join(f"{kind} {times:g} times" for kind, times in policy["practised"].items())
                + "."
            ]
            if policy.get("practised")
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
        *(
            ["- In training its camera had a real one's flaws (docs/hab.md, depth noise); it is evaluated without."]
            if policy.get("depth_noise")
            else []
        ),
        *_computed(policy["obs"]),
        *_taught(policy),
        *(_earlier(before["training"]) for before in facts.get("before", [])),
        # What was done to the weights by hand, if anything.
        *(f"- {note}" for note in facts.get("notes", [])),
        "",
    ]
    return "\n".join(lines)
