"""Publishing a training run of a navigation task: weights, configuration, curve, what was measured, model card."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from configs.navigation import TASK_KEYS, TrainNavConfig
from eval.navigation import EpisodeResult, summary
from eval.training_facts import copy_policy, described, rate, read_card, training_facts, write_card
from skills.navigator import policy_name


def publish_navigation(run: Path, config: TrainNavConfig, zoo: Path) -> Path:
    """Copy a run's policy into a folder of such, with its curve and facts; return where. Raises `CardError`."""
    folder = zoo / policy_name(config.task, config.obs, config.gps)
    policy = {key: getattr(config, key) for key in ("task", *TASK_KEYS)}
    facts = {"policy": policy, "training": training_facts(run), "results": {}}
    copy_policy(run, folder, folder.name)
    _write(folder, facts)
    return folder


def record_navigation(folder: Path, split: str, results: Sequence[EpisodeResult], seed: int) -> None:
    """Write what an evaluation measured into a policy's card. Raises `CardError`."""
    facts = read_card(folder)
    measured: dict[str, Any] = {"episodes": len(results), "seed": seed}
    for name, found in summary(list(results)).items():
        measured |= {name: round(found["mean"], 4), f"{name}_ci95": [round(end, 4) for end in found["ci95"]]}
    facts["results"][split] = measured | {"date": datetime.now(UTC).strftime("%Y-%m-%d")}
    _write(folder, facts)


def success_and_spl(result: dict[str, Any]) -> list[str]:
    """Return both as "0.930 (0.920–0.940)"; "–" for each that was not measured, as of a task without a goal."""
    return [rate(result, name, 3) if name in result else "–" for name in ("success", "spl")]


def _write(folder: Path, facts: dict[str, Any]) -> None:
    write_card(folder, facts, _text(folder.name, facts))


def _text(name: str, facts: dict[str, Any]) -> str:
    """Return a model card in Markdown."""
    policy, training = facts["policy"], facts["training"]
    results = sorted(facts["results"].items(), reverse=True)
    lines = [
        f"# {name}",
        "",
        f"A policy for `{policy['task']}` with `{policy['obs']}` and {'' if policy['gps'] else 'no '}GPS+compass, "
        f"turns of {policy['turn_deg']}°, {'with' if policy['noise'] else 'without'} noise (docs/navigation.md). "
        "Not for real robots: it has seen generated apartments only.",
        "",
        "| split | success (95 % interval) | SPL | episodes | date |",
        "| --- | --- | --- | --- | --- |",
        *(
            f"| {split} | {' | '.join(success_and_spl(result))} | {result['episodes']} | {result['date']} |"
            for split, result in results
        ),
        "",
        f"`tpsrl eval {policy['task']} --obs {policy['obs']}{'' if policy['gps'] else ' --no-gps'} --split SPLIT`: "
        "unseen apartments, actions drawn, as in training.",
        "",
        "## Training",
        "",
        described(training),
        "",
        f"{training['steps']:,} steps in {training['seconds'] / 60:.0f} min, {training['steps_per_s']:,} steps/s, one "
        f"seed, {training['date']}, {training['machine']}, torch {training['torch']}, revision "
        f"{training['revision'] or 'unknown'}. `config.yaml` holds all parameters.",
        "",
        "![success and return while training](curve.png)",
        "",
    ]
    return "\n".join(lines)
