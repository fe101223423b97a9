"""Two learning processes under torchrun: gradients, parameters, preemption, stopping and resuming together.

The processes run `SCRIPT` once and write down what they saw; the tests judge it.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ver_core import checkpoint

HERE = Path(__file__).parent
SCRIPT = """
import hashlib, json, os, signal, sys, time
from dataclasses import replace
from datetime import timedelta
from functools import partial
from pathlib import Path

import numpy as np
import torch
from faulty_envs import POLICY, Walk, config
from torch import nn

from ver_core import distributed
from ver_core.distributed import World, join
from ver_core.inference import Inference
from ver_core.learner import Learner
from ver_core.policy import RecurrentPolicy
from ver_core.rollout import Rollout
from ver_core.shared_rows import Layout
from ver_core.trainer import Trainer

FOLDER, RANK = Path(sys.argv[1]), int(os.environ["RANK"])
ENVS, LENGTH = 3, 8
CPU = torch.device("cpu")


def policy():
    torch.manual_seed(5)
    return RecurrentPolicy(Walk.observation_space, Walk.action_space, POLICY)


def rollout(halves):
    # Steps of 3 environments a half, in random order, with random episodes; of any of the two halves, or of both.
    network = policy()
    layout = Layout.of(ENVS * len(halves), network.obs_layout, network.action_layout)
    made = Rollout(layout, LENGTH, network.state_size, CPU)
    for half in halves:
        rng = np.random.default_rng(half)
        n = ENVS * LENGTH
        rows = made.extend(n)
        # Not equally many of each: the sampling weights matter.
        made.env[rows] = rng.permutation(np.repeat(np.arange(ENVS), (14, 7, 3))) + ENVS * halves.index(half)
        made.start[rows] = rng.random(n) < 0.2
        for name in ("reward", "value", "next_value"):
            getattr(made, name)[rows] = rng.normal(half, size=n)  # other advantages in each half
        made.log_prob[rows] = rng.normal(-3.0, 0.3, n)
        for name, column in made.wide.items():
            column[rows] = torch.from_numpy(rng.normal(size=(n, column.shape[1]))).to(column.dtype)
        made.wide["action"][rows, 0] = torch.from_numpy(rng.integers(0, 3, n)).float()
        made.wide["previous_action"][rows, 0] = torch.from_numpy(rng.integers(-1, 3, n)).float()
    return made


def gradients(world, halves):
    settings = config(
        num_envs=ENVS * len(halves), rollout_length=LENGTH, epochs=1, mini_batches=1, max_grad_norm=1e9,
        target_entropy=1.0, normalize_advantage=True,
    )
    learner = Learner(policy(), settings, CPU, world)
    learner.update(rollout(halves), 0.0)
    return {
        "gradients": [p.grad.flatten().tolist() for p in (*learner.policy.parameters(), learner.log_entropy_coef)],
        "parameters": digest(learner.policy.state_dict()),
    }


def plain_average(world):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(4, 5), nn.Tanh(), nn.Linear(5, 1))
    unused = nn.Parameter(torch.ones(3))
    inputs = torch.randn(2, 6, 4, generator=torch.Generator().manual_seed(1))
    targets = torch.randn(2, 6, 1, generator=torch.Generator().manual_seed(2))
    (net(inputs.flatten(0, 1)) - targets.flatten(0, 1)).square().mean().backward()
    joined = [p.grad.flatten().tolist() for p in net.parameters()]
    net.zero_grad()
    (net(inputs[RANK]) - targets[RANK]).square().mean().backward()
    own = [p.grad.flatten().tolist() for p in net.parameters()]
    world.average_gradients([*net.parameters(), unused])
    return {"joined": joined, "own": own, "averaged": [p.grad.flatten().tolist() for p in net.parameters()]}


def digest(tree):
    found = hashlib.sha256()
    for name in sorted(tree):
        found.update(name.encode() + tree[name].numpy().tobytes())
    return found.hexdigest()


infer = Inference.__call__


def train(name, stop=None, resume=False, step_s=0.0, **changes):
    training = Trainer(
        partial(Walk, step_s), config(**changes), POLICY, out=FOLDER / name, resume=resume, show_progress=False
    )
    seen, sizes, data = [], [], []
    update = training.learner.update

    def spy(rollout, *arguments):
        sizes.append(rollout.size)
        data.append(hashlib.sha256(rollout.wide["floats"].numpy().tobytes()).hexdigest())
        return update(rollout, *arguments)

    def on_update(done):
        optimizer = training.learner.optimizer.state_dict()["state"]
        moments = {str(k): v["exp_avg"] for k, v in optimizer.items()}
        seen.append({
            "steps": done.steps, "fresh": done.fresh_steps, "preempted": done.collection.preempted,
            "stale": done.scalars["stale_fraction"], "age": done.scalars["stale_age_max"],
            "size": sizes[-1], "data": data[-1],
            "parameters": digest(training.policy.state_dict()), "optimizer": digest(moments),
            "coefficient": training.learner.log_entropy_coef.item(),
        })
        return stop is not None and len(seen) == stop

    training.learner.update = spy
    if name == "stopped" and not resume and RANK == 1:
        # In the midst of the fourth rollout.
        calls = []

        def signalled(*arguments):
            calls.append(1)
            if len(calls) == 3 * 11 + 5:
                os.kill(os.getpid(), signal.SIGTERM)
            return infer(*arguments)

        Inference.__call__ = signalled
    result = training.train(on_update)
    Inference.__call__ = infer
    together = join(use_cuda=False)
    together.sum([0.0])  # rank 0 has saved before the other resumes
    together.leave()
    return {"updates": seen, "interrupted": result.interrupted, "steps": result.steps, "start": digest({})}


def statistics():
    # What each process observed, and what both made of it.
    training = Trainer(Walk, config(), replace(POLICY, normalize_vectors=True), show_progress=False)
    learn, seen = training.policy.learn_normalization, []

    def spy(floats, bytes_, world):
        seen.append(floats.clone())
        learn(floats, bytes_, world)

    training.policy.learn_normalization = spy
    updates = []
    training.train(lambda update: updates.append(update) or len(updates) == 3)
    normalizer = training.policy.inputs.normalizer
    return {
        "observed": torch.cat(seen).tolist(), "count": float(normalizer.count),
        "mean": normalizer.mean.tolist(), "variance": normalizer.variance.tolist(),
    }


def begins(begin):
    # With a time-out that is shorter than what comes before learning.
    distributed.TIMEOUT = timedelta(seconds=8)
    training = Trainer(Walk, config(), POLICY, show_progress=False, begin=begin)
    before = digest(training.policy.state_dict())
    try:
        result = training.train(lambda update: True)
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"}
    finally:
        distributed.TIMEOUT = timedelta(minutes=30)
    return {"steps": result.steps, "parameters": digest(training.policy.state_dict()), "before": before}


def takes_its_time(policy):
    assert RANK == 0
    time.sleep(11.0)
    for parameter in policy.parameters():
        nn.init.constant_(parameter, 0.01)


def has_nothing_to_show(policy):
    raise ValueError("nothing to show")


def main():
    torch.set_num_threads(1)
    report = {}
    world = join(use_cuda=False)
    assert (world.rank, world.size) == (RANK, 2)
    report["plain"] = plain_average(world)
    report["own"] = gradients(World(), [RANK])
    report["averaged"] = gradients(world, [RANK])
    report["joined"] = gradients(World(), [0, 1])
    world.leave()
    exact = {"scheduler": "ddppo", "preempt": False, "total_steps": 480}
    report["whole"] = train("whole", **exact)
    report["stopped"] = train("stopped", **exact)
    report["resumed"] = train("stopped", resume=True, **exact)
    slow = {"step_s": 0.02 * RANK, "num_envs": 2, "rollout_length": 12, "stop": 5}
    report["ver"] = train("ver", **slow)
    report["ver resumed"] = train("ver", resume=True, **{**slow, "stop": 2})
    report["nover"] = train("nover", scheduler="nover", **slow)
    report["ddppo"] = train("ddppo", scheduler="ddppo", sync_fraction=0.5, **slow)
    report["one stops"] = train("one stops", **{**slow, "stop": 2 if RANK == 0 else None})
    report["statistics"] = statistics()
    report["cannot begin"] = begins(has_nothing_to_show)
    report["begins late"] = begins(takes_its_time)
    (FOLDER / f"{RANK}.json").write_text(json.dumps(report))
"""
# Env workers import the main module, which had better not import torch.
START = """
if __name__ == "__main__":
    import both
    both.main()
"""

Reports = list[dict[str, Any]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Run the script."""
    folder = tmp_path_factory.mktemp("torchrun")
    (folder / "both.py").write_text(SCRIPT)
    (folder / "start.py").write_text(START)
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    path = os.pathsep.join([str(HERE), str(HERE.parents[1])])
    process = subprocess.Popen(
        [*command, str(folder / "start.py"), str(folder)],
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    )
    try:
        out, _ = process.communicate(timeout=240)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        out, _ = process.communicate()
    assert process.returncode == 0, out
    return folder


@pytest.fixture(scope="module")
def reports(folder: Path) -> Reports:
    return [json.loads((folder / f"{rank}.json").read_text()) for rank in range(2)]


def test_what_comes_before_learning_may_take_longer_than_the_time_out(reports: Reports) -> None:
    ours, theirs = (report["begins late"] for report in reports)
    assert ours == theirs and ours["steps"] == 60 and ours["parameters"] != ours["before"]


def test_if_it_fails_nobody_waits(reports: Reports) -> None:
    ours, theirs = (report["cannot begin"]["error"] for report in reports)
    assert ours == "ValueError: nothing to show"
    assert theirs == "LearningFailure: process 0 failed before learning began: ValueError: nothing to show"


def test_observations_are_normalised_by_the_statistics_of_all(reports: Reports) -> None:
    observed = [np.array(report["statistics"]["observed"]) for report in reports]
    assert abs(observed[0].mean(0) - observed[1].mean(0)).max() > 0.01  # whose they are would show
    joined = np.concatenate(observed)
    for statistics in (report["statistics"] for report in reports):
        assert statistics["count"] == len(joined) == 180
        np.testing.assert_allclose(statistics["mean"], joined.mean(0), rtol=1e-6, atol=1e-6)
        np.testing.assert_allclose(statistics["variance"], joined.var(0), rtol=1e-5, atol=1e-6)


def flat(gradients: list[list[float]]) -> np.ndarray:
    return np.concatenate([np.array(gradient) for gradient in gradients])


def test_the_averaged_gradient_is_that_of_the_mean_loss_of_both_halves(reports: Reports) -> None:
    for report in (report["plain"] for report in reports):
        assert np.allclose(flat(report["averaged"]), flat(report["joined"]), rtol=1e-5, atol=1e-7)
        assert not np.allclose(flat(report["own"]), flat(report["joined"]), rtol=1e-2, atol=1e-3)


def test_an_update_makes_the_gradient_of_the_joined_batch(reports: Reports) -> None:
    joined = flat(reports[0]["joined"]["gradients"])
    scale = np.abs(joined).max()
    assert scale > 1e-3 and joined[-1] != 0.0  # the entropy coefficient's
    for report in reports:
        assert np.abs(flat(report["averaged"]["gradients"]) - joined).max() < 1e-5 * scale
        assert np.abs(flat(report["own"]["gradients"]) - joined).max() > 1e-2 * scale
    assert reports[0]["averaged"] == reports[1]["averaged"]  # bit for bit, gradients and parameters
    assert reports[0]["own"]["parameters"] != reports[1]["own"]["parameters"]


@pytest.mark.parametrize("name", ["whole", "stopped", "resumed", "ver", "ver resumed", "nover", "ddppo", "one stops"])
def test_parameters_stay_the_same_bit_for_bit(reports: Reports, name: str) -> None:
    ours, theirs = (report[name]["updates"] for report in reports)
    assert len(ours) == len(theirs) >= 2
    for key in ("steps", "fresh", "parameters", "optimizer", "coefficient"):
        assert [update[key] for update in ours] == [update[key] for update in theirs]
    assert len({update["parameters"] for update in ours}) == len(ours)
    # Though each learnt from data of its own.
    assert not {update["data"] for update in ours} & {update["data"] for update in theirs}


def test_both_stop_on_a_signal_to_one(reports: Reports, folder: Path) -> None:
    for report in reports:
        assert report["stopped"]["interrupted"] and report["stopped"]["steps"] == 180
        assert len(report["stopped"]["updates"]) == 3
        assert not report["whole"]["interrupted"] and not report["resumed"]["interrupted"]


def test_a_resumed_training_is_the_uninterrupted_one(reports: Reports, folder: Path) -> None:
    for report in reports:
        assert report["stopped"]["updates"] + report["resumed"]["updates"] == report["whole"]["updates"]
        assert [update["steps"] for update in report["whole"]["updates"]] == list(range(60, 481, 60))
    saved = [checkpoint.load(folder / name / "checkpoint.pt") for name in ("whole", "stopped")]
    for name, tensor in saved[0]["learner"]["policy"].items():
        assert torch.equal(tensor, saved[1]["learner"]["policy"][name]), name
    assert [state["steps"] for state in saved] == [480, 480]
    assert len(saved[0]["processes"]) == 2


@pytest.mark.parametrize("name", ["ver", "nover", "ddppo"])
def test_the_slow_one_is_preempted(reports: Reports, name: str) -> None:
    """By equation 1, or because the share of finished processes is reached."""
    fast, slow = (report[name]["updates"] for report in reports)
    full = 24
    first = (fast[0], slow[0])
    assert [(u["size"], u["preempted"], u["stale"]) for u in first] == [(full, False, 0.0)] * 2
    assert any(update["preempted"] for update in slow)
    for updates in (fast, slow):
        for before, update in zip(updates, updates[1:], strict=False):
            stale = min(full - update["size"], before["size"])  # of the rollout before, and no older
            stale -= (update["size"] + stale) % 2  # two mini-batches
            assert update["stale"] == pytest.approx(stale / (update["size"] + stale)) and update["age"] == (stale > 0)
    for ours, theirs in zip(fast, slow, strict=True):
        for update in (ours, theirs):
            assert full // 4 <= update["size"] <= full
            assert update["preempted"] or update["size"] == full
        assert ours["fresh"] == theirs["fresh"] == ours["size"] + theirs["size"]
    assert min(update["size"] for update in slow) < full
    assert [update["steps"] for update in slow] == np.cumsum([update["fresh"] for update in slow]).tolist()


def test_a_preempted_training_is_resumed_with_a_full_rollout(reports: Reports) -> None:
    for report in reports:
        before, after = report["ver"], report["ver resumed"]
        assert (after["updates"][0]["size"], after["updates"][0]["stale"]) == (24, 0.0)
        assert after["updates"][0]["steps"] == before["steps"] + 48
        assert len(after["updates"]) == 2


def test_all_end_when_one_has_had_enough(reports: Reports) -> None:
    for report in reports:
        assert len(report["one stops"]["updates"]) == 2
        assert not report["one stops"]["interrupted"]
