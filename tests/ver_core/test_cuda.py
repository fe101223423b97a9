"""Training on a GPU, against the same on a processor. Skipped where there is none."""

from __future__ import annotations

import copy
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from faulty_envs import POLICY, Ledger, Walk, config
from torch import nn

from ver_core import checkpoint
from ver_core.distributed import World
from ver_core.learner import Learner
from ver_core.policy import RecurrentPolicy
from ver_core.recurrence import run_lstm
from ver_core.rollout import Rollout
from ver_core.shared_rows import Layout
from ver_core.trainer import Trainer

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no GPU")
CPU = torch.device("cpu")
CLOSE = {"atol": 2e-4, "rtol": 2e-3}
"""Sums differ by their order."""


@pytest.mark.parametrize("sizes", [[5], [4, 3, 3, 1], [6] * 40 + [2] * 9])
def test_the_lstm_is_the_same(sizes: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # cuDNN's LSTM has 10 bits of mantissa by default
    torch.manual_seed(0)
    lstm, rows, state = nn.LSTM(6, 7, 2), torch.randn(sum(sizes), 6), torch.randn(sizes[0], 2 * 2 * 7)
    weight, results = torch.randn(sum(sizes), 7), []
    for device in ("cpu", "cuda"):
        there = copy.deepcopy(lstm).to(device)
        inputs = [tensor.detach().to(device).requires_grad_() for tensor in (rows, state)]
        out, after = run_lstm(there, *inputs, torch.tensor(sizes))
        (weight.to(device) * out).sum().backward()
        gradients = [tensor.grad for tensor in (*inputs, *there.parameters())]
        results.append([tensor.detach().cpu() for tensor in (out, after, *gradients) if tensor is not None])
    assert len(results[0]) == len(results[1]) == 2 + 2 + 8
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, **CLOSE)


def rollout(policy: RecurrentPolicy, device: torch.device) -> Rollout:
    """Return 3 x 20 random steps, the same on each device."""
    rng, n = np.random.default_rng(0), 60
    made = Rollout(Layout.of(3, policy.obs_layout, policy.action_layout), 20, policy.state_size, device)
    rows = made.extend(n)
    made.env[rows], made.start[rows] = rng.permutation(np.repeat(np.arange(3), 20)), rng.random(n) < 0.2
    for name in ("reward", "value", "next_value"):
        getattr(made, name)[rows] = rng.normal(size=n)
    made.log_prob[rows] = rng.normal(-3.0, 0.3, n)
    for name in ("floats", "bytes", "state"):
        column = made.wide[name]
        column[rows] = torch.from_numpy(rng.normal(size=(n, column.shape[1]))).to(column)
    made.wide["action"][rows, 0] = torch.from_numpy(rng.integers(0, 3, n)).to(made.wide["action"])
    made.wide["previous_action"][rows, 0] = torch.from_numpy(rng.integers(-1, 3, n)).to(made.wide["action"])
    return made


def test_an_update_is_the_same() -> None:
    parameters = []
    for device in (CPU, torch.device("cuda")):
        torch.manual_seed(1)
        policy = RecurrentPolicy(Walk.observation_space, Walk.action_space, POLICY).to(device)
        settings = config(rollout_length=20, epochs=1, mini_batches=1, device=device.type)
        learner = Learner(policy, settings, device, World())
        learner.update(rollout(policy, device), 0)
        parameters.append([parameter.detach().cpu() for parameter in policy.parameters()])
    for one, other in zip(*parameters, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-2)


@pytest.mark.parametrize(
    "changes",
    [{}, {"inference_workers": 2}, {"scheduler": "ddppo"}, {"overlap": True}, {"scheduler": "async"}],
    ids=["ver", "inference workers", "ddppo", "overlap", "async"],
)
def test_steps_follow_one_another(changes: dict[str, Any]) -> None:
    ledger = Ledger(3)
    training = Trainer(Walk, config(device="cuda", **changes), POLICY, show_progress=False)
    ledger.watch(training.learner)
    seen: list[int] = []
    training.train(lambda update: seen.append(1) or len(seen) == 30)  # type: ignore[func-returns-value]
    assert sum(ledger.steps) == 900 and sum(ledger.ended.values()) > 0 and ledger.breaks == [0, 0, 0]


@pytest.mark.parametrize(("first", "then"), [("cuda", "cpu"), ("cpu", "cuda")])
def test_a_run_is_resumed_on_another_device(first: str, then: str, tmp_path: Path) -> None:
    network = replace(POLICY, normalize_vectors=True)
    Trainer(Walk, config(device=first, total_steps=90), network, out=tmp_path, show_progress=False).train()
    assert checkpoint.load(tmp_path / "checkpoint.pt")["steps"] == 90
    later = config(device=then, total_steps=180)
    resumed = Trainer(Walk, later, network, out=tmp_path, resume=True, show_progress=False)
    assert resumed.train().steps == 180


SCRIPT = """
import sys
from pathlib import Path
import torch
from faulty_envs import POLICY, Walk, config
from ver_core.trainer import Trainer

if __name__ == "__main__":
    training = Trainer(Walk, config(total_steps=90, device="cuda"), POLICY, out=Path(sys.argv[1]), show_progress=False)
    assert training.device == torch.device("cuda:0")
    print(training.train().steps)
"""


def test_it_learns_under_torchrun(tmp_path: Path) -> None:
    """One process joins nobody: this is about the device that it is given, not about nccl."""
    (tmp_path / "script.py").write_text(SCRIPT, encoding="utf-8")
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parents[1]), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=1"]
    done = subprocess.run(
        [*command, str(tmp_path / "script.py"), str(tmp_path / "run")],
        env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[-1] == "90"
