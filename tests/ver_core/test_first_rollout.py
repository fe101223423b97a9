"""The observations' statistics are there before anything is learnt: the first rollout serves them alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from faulty_envs import POLICY, Walk, config

from ver_core.collector import Collector
from ver_core.policy import RecurrentPolicy
from ver_core.reporting import Update
from ver_core.trainer import Trainer


def train(
    out: Path, updates: int, resume: bool = False, normalize: bool = True, **changes: Any
) -> list[dict[str, Any]]:
    """Train for so many updates; return the weights and the statistics after each, and what was observed in it."""
    policy = replace(POLICY, normalize_vectors=normalize)
    trainer = Trainer(
        Walk, config(**{"scheduler": "ddppo", **changes}), policy, out=out, resume=resume, show_progress=False
    )
    seen: list[dict[str, Any]] = [{"weights": [p.detach().clone() for p in trainer.policy.parameters()]}]

    def note(update: Update) -> bool:
        normalizer = trainer.policy.inputs.normalizer
        seen.append(
            {
                "weights": [p.detach().clone() for p in trainer.policy.parameters()],
                "count": normalizer and float(normalizer.count),
                "mean": normalizer and normalizer.mean.tolist(),
                "update": update,
            }
        )
        return len(seen) > updates

    trainer.train(note)
    return seen


def changed(a: dict[str, Any], b: dict[str, Any]) -> bool:
    return not all(torch.equal(x, y) for x, y in zip(a["weights"], b["weights"], strict=True))


def test_the_first_rollout_gives_statistics_and_is_not_learnt_from(tmp_path: Path) -> None:
    before, first, second = train(tmp_path, 2)
    steps = first["update"].fresh_steps
    assert not changed(before, first) and first["count"] == steps == first["update"].steps
    assert changed(first, second) and second["count"] == 2 * steps == second["update"].steps
    rows = [json.loads(line) for line in (tmp_path / "scalars.jsonl").read_text().splitlines()]
    assert [row["train/random_steps"] for row in rows] == [steps, steps]
    assert "learn/policy_loss" not in rows[0] and np.isfinite(rows[1]["learn/policy_loss"])


def test_a_resumed_run_has_its_statistics(tmp_path: Path) -> None:
    train(tmp_path, 1)
    loaded, first = train(tmp_path, 1, resume=True)
    assert changed(loaded, first)
    assert first["update"].random_steps * 2 == first["update"].steps == first["count"]


def test_weights_and_statistics_go_on_bit_for_bit(tmp_path: Path) -> None:
    *_, whole = train(tmp_path / "whole", 6)
    train(tmp_path / "parts", 3)
    *_, resumed = train(tmp_path / "parts", 3, resume=True)
    assert not changed(whole, resumed) and whole["count"] == resumed["count"] == 180
    assert whole["mean"] == resumed["mean"]


def test_collecting_alongside_uses_the_learners_statistics(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scheduler async collects with copies of the policy: what they normalise by is as new as their weights."""
    given: dict[int, tuple[float, list[float]]] = {}
    use = Collector.use

    def spy(collector: Collector, policy: RecurrentPolicy, version: int) -> None:
        normalizer = policy.inputs.normalizer
        assert normalizer is not None
        given.setdefault(version, (float(normalizer.count), normalizer.mean.tolist()))
        use(collector, policy, version)

    monkeypatch.setattr(Collector, "use", spy)
    _, *learnt = train(tmp_path, 5, scheduler="async")
    assert given[0][0] == 0.0
    for version, after in enumerate(learnt[:-1], 1):
        assert given[version] == (after["count"], after["mean"])


def test_without_statistics_the_first_rollout_is_learnt_from(tmp_path: Path) -> None:
    before, first = train(tmp_path, 1, normalize=False)
    assert changed(before, first) and first["update"].random_steps == 0


def test_the_steps_after_it_are_normalised(tmp_path: Path) -> None:
    """What the second rollout's actions were drawn from is what its first optimiser step finds: the ratio is 1."""
    # One mini-batch, once: all ratios are those before any step.
    _, _, second = train(tmp_path, 2, epochs=1, mini_batches=1)
    assert abs(second["update"].scalars["kl"]) < 1e-6 and second["update"].scalars["clip_fraction"] == 0.0
