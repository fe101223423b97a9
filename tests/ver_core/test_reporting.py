"""Where the time goes, and how old what is learnt from may be, as a training reports them."""

from __future__ import annotations

import json
import time
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from faulty_envs import POLICY, Walk, config

from ver_core.collector import Collection
from ver_core.reporting import Clock, Update
from ver_core.trainer import Trainer


def update(steps: int, seconds: float, wait_s: float, inference_s: float, learn_s: float) -> Update:
    collection = Collection(seconds=wait_s + inference_s, wait_s=wait_s, inference_s=inference_s)
    return Update(steps, steps, seconds, learn_s, collection, {}, {}, 0)


def test_shares_of_the_time() -> None:
    rows: Any = SimpleNamespace(busy_s=np.array([1.0, 3.0]), steps=np.array([10, 10]))
    clock = Clock(1000, SimpleNamespace(rows=rows))  # type: ignore[arg-type]
    clock.add(update(1100, 4.0, 2.0, 1.0, 0.5))
    clock.add(update(1200, 6.0, 1.0, 1.0, 3.5))
    rows.busy_s, rows.steps = np.array([2.0, 6.0]), np.array([110, 110])
    speed, shares = clock.read(1200)
    assert speed == pytest.approx(200 / 10.0)
    assert shares == pytest.approx({"env": 0.3, "inference": 0.2, "learn": 0.4, "wait": 0.1})
    assert clock.step_ms == pytest.approx(1e3 * 4.0 / 200)


def test_the_log_has_the_measured_shares(tmp_path: Path) -> None:
    updates: list[Update] = []

    def over(seen: Update) -> bool:
        updates.append(seen)
        return len(updates) == 4

    Trainer(partial(Walk, 0.01), config(), POLICY, out=tmp_path, show_progress=False).train(over)
    rows = [json.loads(line) for line in (tmp_path / "scalars.jsonl").read_text().splitlines()]
    assert len(rows) == len(updates)  # a row for each
    for row, seen in zip(rows, updates, strict=True):
        assert row["time/env"] == pytest.approx(seen.collection.wait_s / seen.seconds)
        assert row["time/inference"] == pytest.approx(seen.collection.inference_s / seen.seconds)
        assert row["time/learn"] == pytest.approx(seen.learn_s / seen.seconds)
    assert len({row["time/env"] for row in rows}) == 4 and min(row["time/env"] for row in rows) > 0.0


@pytest.mark.parametrize("bound", [1, 3])
def test_async_waits_for_the_learner_when_enough_rollouts_lie_there(bound: int) -> None:
    """A learner that sleeps, beside environments that are always ready: as many rollouts wait as may, and no more."""
    seen: list[float] = []

    def slow(update: Update) -> bool:
        time.sleep(0.3)
        seen.append(update.scalars["policy_lag_max"])
        return len(seen) == 8

    changes = {"scheduler": "async", "max_policy_lag": bound}
    Trainer(Walk, config(**changes), POLICY, show_progress=False).train(slow)
    # One more: each environment has a step in flight while the rollout before its own is handed over.
    assert bound <= max(seen) <= bound + 1
