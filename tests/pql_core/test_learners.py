"""The learners, all in this process: what they draw, and that nothing of a diverged update can reach a checkpoint."""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn

from pql_core.channel import Bell, Channel, Counters, Ring, Slot, parameters
from pql_core.config import PqlConfig
from pql_core.learners import Sequential
from pql_core.processes import Job, NotANumber, PLearner, VLearner, build
from pql_core.replay import STEP, Batch, Records, Replay
from ver_core.config import PolicyConfig
from ver_core.learner import LearningFailure

CPU = torch.device("cpu")
CONFIG = PqlConfig(num_envs=2, replay_size=1000, batch_size=8, critic_updates_per_policy_update=1.0)
NETWORK = PolicyConfig(rnn_layers=0, previous_action=False, mlp=[8], critic_mlp=[8])
JOB = Job(spaces.Box(-np.inf, np.inf, (3,)), spaces.Box(-1.0, 1.0, (2,)), NETWORK, CONFIG, "cpu")


def steep(module: nn.Module, arguments: Any, output: Tensor) -> Tensor:
    """Leave the output as it is; but the root's slope at 0 is infinite, and 0 times that is no number."""
    return output + (output * 0.0).sqrt()


def steps(n: int) -> Records:
    zeros, none = torch.zeros(2 * n), torch.zeros(2 * n, 0, dtype=torch.uint8)
    kind = torch.full((2 * n,), STEP, dtype=torch.uint8)
    return Records(torch.arange(2).repeat(n), torch.randn(2 * n, 3), none, torch.rand(2 * n, 2), zeros + 1.0, kind)


@pytest.mark.parametrize("what", ["critic", "policy"])
def test_taking_turns_ends_at_a_gradient_that_is_no_number(what: str) -> None:
    nets = build(JOB)
    learners = Sequential(JOB, nets, None, lambda: False)
    learners.hand_on(steps(20))
    learners.begin()
    learners.stepped(2)
    before = learners.scalars()
    assert all(math.isfinite(before[f"{what}_{name}"]) for name in ("loss", "grad_norm"))
    (nets.q.first if what == "critic" else nets.policy.mlp).register_forward_hook(steep)
    with pytest.raises(LearningFailure, match=f"{what}_loss or its gradient is NaN or infinite"):
        learners.stepped(2)


@pytest.mark.parametrize(("what", "kind"), [("critic", VLearner), ("policy", PLearner)])
def test_a_process_ends_at_a_gradient_that_is_no_number(what: str, kind: Callable[..., Any]) -> None:
    learner = kind(JOB, channel())
    learner._channel.ring.write(steps(20), lambda: False)
    learner.read()
    learner._channel.counters.e = 2
    learner._report(learner.update())
    (learner.nets.q.first if what == "critic" else learner.nets.policy.mlp).register_forward_hook(steep)
    spoilt = learner.update()
    assert bool(spoilt[f"{what}_loss"].isfinite()) and not bool(spoilt[f"{what}_grad_norm"].isfinite())
    with pytest.raises(NotANumber, match=f"{what}_loss or its gradient"):
        learner._report(spoilt)


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the batches of each draw from now on."""
    found: list[int] = []
    sample = Replay.sample

    def noted(self: Replay, size: int, n_step: int, gamma: float, batches: int) -> list[Batch]:
        found.append(batches)
        return sample(self, size, n_step, gamma, batches)

    monkeypatch.setattr(Replay, "sample", noted)
    return found


def test_taking_turns_draws_for_the_updates_that_are_due(drawn: list[int]) -> None:
    job = replace(JOB, config=replace(CONFIG, critic_updates_per_step=10.5))
    learners = Sequential(job, build(job), None, lambda: False)
    learners.hand_on(steps(20))
    learners.begin()
    for _ in range(4):
        learners.stepped(2)
    assert drawn == [8, 2, 8, 3, 8, 2, 8, 3] and learners.counters.v == 42


def test_the_v_learner_draws_for_the_updates_that_the_data_is_there_for(drawn: list[int]) -> None:
    learner = VLearner(replace(JOB, config=replace(CONFIG, critic_updates_per_step=10.5)), channel())
    learner._channel.ring.write(steps(20), lambda: False)
    learner.read()
    counters, updates = learner._channel.counters, 0
    counters.p = 10_000  # never waited for
    for counters.e in (2, 4, 5):
        while learner.may():
            learner.update()
            updates += 1
        assert sum(drawn) == updates == counters.v
    assert drawn == [8, 3, 8, 2, 6]  # 10.5, 21 and 26.25 are there for, and the last of them is begun
    free = VLearner(replace(JOB, config=replace(CONFIG, keep_ratios=False)), channel())
    free._channel.ring.write(steps(20), lambda: False)
    free.read()
    drawn.clear()
    for _ in range(17):
        free.update()
    assert drawn == [8, 8, 8]


def channel() -> Channel:
    nets, context = build(JOB), multiprocessing.get_context("forkserver")
    policy, q = (sum(p.numel() for p in parameters(*of)) for of in ((nets.policy, nets.temperature), (nets.q,)))
    return Channel(
        Ring(100, 3, 0, 2, CPU), Slot(policy, torch.float32, CPU), Slot(q, torch.float32, CPU),
        Slot(nets.statistics.size, torch.float64, CPU), Counters(), (Bell(context), Bell(context), Bell(context)),
    )  # fmt: skip
