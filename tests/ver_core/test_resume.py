"""Resuming: what is trained after a stop, bit for bit, against the training that was not stopped."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import torch
from faulty_envs import POLICY, Ledger, Walk, config
from test_robustness import quiet, same

from ver_core import checkpoint, collector
from ver_core.config import ConfigError
from ver_core.inference import Inference
from ver_core.reporting import RECENT_EPISODES, Update
from ver_core.trainer import Result, Trainer

STEPS, HALF = 360, 150
"""Twelve rollouts, and five."""
IN_LOCKSTEP = {"min_batch": 3, "max_batch": 3}
"""For ver and nover: every batch is of all environments, so nothing depends on who is faster."""
CASES = {
    "ddppo": {"scheduler": "ddppo"},
    "ver": {"scheduler": "ver", **IN_LOCKSTEP},
    "nover": {"scheduler": "nover", **IN_LOCKSTEP},
}


def training(out: Path, case: dict[str, Any], resume: bool = False) -> Trainer:
    # With this seed, an environment has ended an episode on its present seed when the first half is over.
    return quiet(Walk, out, resume=resume, **{"total_steps": STEPS, "seed": 5, **case})


def rows(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "scalars.jsonl").read_text().splitlines()]


def learnt(row: dict[str, float]) -> dict[str, float]:
    """Return the scalars that do not depend on the clock."""
    told = ("learn/", "episode/")
    return {key: value for key, value in row.items() if key.startswith(told) or key in ("steps", "train/preempted")}


class Last:
    """Looks on, and counts the episodes that were finished in a session (fewer than are averaged over)."""

    def __init__(self, stop_at: int = STEPS) -> None:
        self.stop_at = stop_at
        self.count = 0

    def __call__(self, update: Update) -> bool:
        self.count = update.episode_count
        return update.steps >= self.stop_at


@cache
def uninterrupted(case: str) -> tuple[Path, Last]:
    """Train without a stop, and check that this puts a resume to the test."""
    out = Path(mkdtemp(prefix=f"whole_{case}_"))
    atexit.register(shutil.rmtree, out)
    whole, last = training(out, CASES[case]), Last()
    ledger = Ledger(3)
    ledger.watch(whole.learner)
    assert whole.train(last).steps == STEPS
    assert min(ledger.ended.values()) > 5 and ledger.breaks == [0, 0, 0]
    return out, last


def send_sigterm() -> None:
    assert signal.getsignal(signal.SIGTERM) is not signal.SIG_DFL
    os.kill(os.getpid(), signal.SIGTERM)


def at_call(number: int, act: Callable[[], None], function: Any) -> Any:
    """Return `function`, which acts first at its call with this number."""
    calls = [0]

    def called(*arguments: Any, **named: Any) -> Any:
        calls[0] += 1
        if calls[0] == number:
            act()
        return function(*arguments, **named)

    return called


def stop_first(out: Path, case: dict[str, Any], how: str, last: Last) -> Result:
    """Train the first five rollouts."""
    first = training(out, case)
    if how == "between rollouts":
        last.stop_at = HALF
    if how == "in a rollout":  # the sixth: a call for each round of the environments, and some
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Inference, "__call__", at_call(11 * 5 + 2, send_sigterm, Inference.__call__))
            return first.train(last)
    if how == "in learning":  # the sixth: four mini-batches each
        first.learner._step = at_call(4 * 5 + 3, send_sigterm, first.learner._step)
    return first.train(last)


@pytest.mark.parametrize("how", ["between rollouts", "in a rollout", "in learning"])
@pytest.mark.parametrize("case", CASES)
def test_a_resumed_training_is_the_uninterrupted_one(tmp_path: Path, case: str, how: str) -> None:
    before, after = Last(), Last()
    result = stop_first(tmp_path, CASES[case], how, before)
    assert (result.steps, result.interrupted) == (HALF, how != "between rollouts")
    middle = checkpoint.load(tmp_path / "checkpoint.pt")
    collector = middle["processes"][0]["collector"]
    assert middle["steps"] == result.steps
    # There is something to get wrong: seeds beyond the first, more than one episode since, and the last one goes on.
    assert max(collector["group"].tolist()) >= 1 and max(map(len, collector["history"])) > 17
    assert not all(collector["begin"].tolist()) and collector["state"].any()
    assert collector["pending"].all() == collector["pending"].any() == (case != "ddppo")

    second = training(tmp_path, CASES[case], resume=True)
    assert second.steps == result.steps
    assert second.train(after).steps == STEPS

    whole, last = uninterrupted(case)
    one, other = (checkpoint.load(out / "checkpoint.pt") for out in (whole, tmp_path))
    assert len(one["learner"]["policy"]) > 5
    for name, parameter in one["learner"]["policy"].items():
        assert torch.equal(parameter, other["learner"]["policy"][name]), name
    assert same(one["learner"]["optimizer"], other["learner"]["optimizer"])
    assert same(one, other)  # all the rest: what the next rollout would start from
    assert not same(middle["learner"]["policy"], other["learner"]["policy"])
    assert (whole / "policy.safetensors").read_bytes() == (tmp_path / "policy.safetensors").read_bytes()
    assert [learnt(row) for row in rows(whole)] == [learnt(row) for row in rows(tmp_path)]
    assert len(rows(whole)) == STEPS // 30
    assert before.count + after.count == last.count < RECENT_EPISODES and min(before.count, after.count) > 5


def test_a_checkpoint_that_is_older_than_the_last_episodes_in_it_can_be_resumed(tmp_path: Path) -> None:
    training(tmp_path, {"total_steps": HALF}).train()
    saved = checkpoint.load(tmp_path / "checkpoint.pt")
    assert saved.pop("recent")
    checkpoint.save(tmp_path / "checkpoint.pt", saved)
    assert training(tmp_path, {"total_steps": HALF}, resume=True).train().steps == HALF
    assert checkpoint.load(tmp_path / "checkpoint.pt")["recent"] == []


@pytest.mark.parametrize("case", ["ddppo", "ver"])
def test_how_many_environments_share_a_process_makes_no_difference(tmp_path: Path, case: str) -> None:
    """Two and one of them, then all three, against one each."""
    result = stop_first(tmp_path, {**CASES[case], "envs_per_worker": 2}, "in a rollout", Last())
    assert (result.steps, result.interrupted, result.restarts) == (HALF, True, 0)
    result = training(tmp_path, {**CASES[case], "envs_per_worker": 3}, resume=True).train()
    assert (result.steps, result.restarts) == (STEPS, 0)
    whole, _ = uninterrupted(case)
    one, other = (checkpoint.load(out / "checkpoint.pt") for out in (whole, tmp_path))
    assert other.pop("configs")["train"]["envs_per_worker"] == 3 and one.pop("configs")
    assert same(one, other)
    assert [learnt(row) for row in rows(whole)] == [learnt(row) for row in rows(tmp_path)]


def test_a_stop_after_every_rollout(tmp_path: Path) -> None:
    """Ten sessions meet more of what a step in flight may lead to: an episode's end, and the next seed."""
    case = {**CASES["ver"], "rollout_length": 6, "total_steps": 180}
    whole, last, counts = training(tmp_path / "whole", case), Last(), []
    whole.train(last)
    for number in range(10):
        session = Last(0)
        result = training(tmp_path / "parts", case, resume=number > 0).train(session)
        assert (result.steps, result.restarts) == (18 * (number + 1), 0)
        counts.append(session.count)
    one, other = (checkpoint.load(tmp_path / name / "checkpoint.pt") for name in ("whole", "parts"))
    assert same(one, other)
    assert sum(counts) == last.count > 10


@pytest.mark.parametrize("changes", [{"scheduler": "async"}, {"overlap": True}, {"inference_workers": 2}],
                         ids=lambda changes: "_".join(changes))  # fmt: skip
@pytest.mark.parametrize("how", ["between rollouts", "in learning"])
def test_other_trainings_go_on_from_the_saved_step(tmp_path: Path, changes: dict[str, Any], how: str) -> None:
    result = stop_first(tmp_path, changes, how, Last())
    assert result.steps == HALF
    saved = checkpoint.load(tmp_path / "checkpoint.pt")
    second = training(tmp_path, changes, resume=True)
    assert second.steps == HALF and second.learner.version == 5
    assert same(saved["learner"], checkpoint.plain(second.learner.snapshot()))
    assert second.train().steps == STEPS
    assert second.learner.version == STEPS // 30
    assert [row["steps"] for row in rows(tmp_path)] == list(range(30, STEPS + 1, 30))


class Noted(Walk):
    """Keeps in a file which seeds it has been given."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.file = file

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            with self.file.open("a") as file:
                file.write(f"{seed}\n")
        return super().reset(seed=seed, options=options)


@pytest.mark.parametrize(
    "case", [{"overlap": True}, pytest.param({"scheduler": "async"}, marks=pytest.mark.slow)], ids=["overlap", "async"]
)
def test_what_starts_afresh_plays_other_episodes(tmp_path: Path, case: dict[str, Any]) -> None:
    seeds = tmp_path / "seeds"
    make, sessions = partial(Noted, seeds), []
    for resume in (False, True):
        trainer = quiet(make, tmp_path / "run", resume=resume, total_steps=STEPS, seed=5, **case)
        trainer.train(Last(STEPS if resume else HALF))
        sessions.append(set(seeds.read_text().splitlines()))
        seeds.unlink()
    assert all(len(session) >= 3 for session in sessions) and not sessions[0] & sessions[1]


def test_another_number_of_environments_is_refused(tmp_path: Path) -> None:
    training(tmp_path, CASES["ddppo"]).train(lambda update: True)
    with pytest.raises(ConfigError, match=r"train\.num_envs=3"):
        training(tmp_path, {**CASES["ddppo"], "num_envs": 2}, resume=True)


def test_another_network_or_method_is_refused(tmp_path: Path) -> None:
    training(tmp_path, CASES["ddppo"]).train(lambda update: True)
    with pytest.raises(ConfigError, match=r"had train\.gamma=0\.99, not 0\.9; leave it so"):
        training(tmp_path, {**CASES["ddppo"], "gamma": 0.9}, resume=True)
    other = replace(POLICY, rnn_size=POLICY.rnn_size + 1)
    same_training = config(total_steps=STEPS, seed=5, scheduler="ddppo")
    with pytest.raises(ConfigError, match=r"had policy\.rnn_size="):
        Trainer(Walk, same_training, other, out=tmp_path, resume=True, show_progress=False)


def test_a_run_from_before_a_parameter_existed_goes_on_with_its_default(tmp_path: Path) -> None:
    training(tmp_path, CASES["ddppo"]).train(lambda update: True)
    saved = checkpoint.load(tmp_path / "checkpoint.pt")
    for section, key in (("train", "critic_warmup"), ("policy", "critic_mlp")):
        del saved["configs"][section][key]
    checkpoint.save(tmp_path / "checkpoint.pt", saved)
    with pytest.raises(ConfigError, match=r"had policy\.critic_mlp=\[\], not \[8\]; leave it so"):
        changed = replace(POLICY, critic_mlp=[8])
        same_training = config(total_steps=STEPS, seed=5, scheduler="ddppo")
        Trainer(Walk, same_training, changed, out=tmp_path, resume=True, show_progress=False)
    assert training(tmp_path, CASES["ddppo"], resume=True).train().steps == STEPS


def test_an_environment_with_too_long_a_history_starts_afresh(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a resume replays is bounded, whether or not episodes ever end."""
    monkeypatch.setattr(collector, "HISTORY_LIMIT", 5)
    training(tmp_path, CASES["ddppo"]).train(lambda update: update.steps >= HALF)
    saved = checkpoint.load(tmp_path / "checkpoint.pt")["processes"][0]["collector"]
    histories = [len(actions) for actions in saved["history"]]
    assert max(histories) <= 5 and min(histories) == 0
    dropped = [env for env, length in enumerate(histories) if length == 0]
    assert all(saved["begin"][env] and not saved["pending"][env] for env in dropped)
    assert training(tmp_path, CASES["ddppo"], resume=True).train().steps == STEPS
