"""Whole trainings of a task of seconds: solved, at the ratios asked for, resumed, ended well when something fails."""

from __future__ import annotations

import json
import math
import multiprocessing
import os
import signal
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from point_mass import BEST, STEPS, PointMass

from pql_core import replay
from pql_core.config import PqlConfig
from pql_core.learners import Parallel
from pql_core.threads import ThreadedVectorEnv
from pql_core.trainer import PqlTrainer, Row
from ver_core import checkpoint
from ver_core.config import ConfigError, PolicyConfig
from ver_core.learner import LearningFailure
from ver_core.worker_pool import EnvironmentFailure

NETWORK = PolicyConfig(
    rnn_layers=0, previous_action=False, mlp=[32, 32], critic_mlp=[32, 32], normalize_vectors=True,
    heads={"switch": "bernoulli"},
)  # fmt: skip
CONFIG = PqlConfig(
    num_envs=16, envs_per_worker=16, batch_size=128, replay_size=20_000, total_steps=6400, warmup_steps=16,
    critic_updates_per_step=4.0, critic_learning_rate=3e-3, actor_learning_rate=3e-3, sigma_max=0.5, greedy_envs=4,
    gamma=0.9, log_every_s=0.2,
)  # fmt: skip
SHORT = replace(CONFIG, total_steps=960)


def trainer(config: PqlConfig, out: Path | None = None, **named: Any) -> PqlTrainer:
    return PqlTrainer(named.pop("make_env", PointMass), config, NETWORK, out=out, show_progress=False, **named)


def mean_return(trained: PqlTrainer, episodes: int = 100) -> float:
    """Play the policy without noise."""
    policy, total, env = trained.policy.to("cpu"), 0.0, PointMass()
    layout, none = policy.obs_layout, torch.zeros(1, 0, dtype=torch.uint8)
    for episode in range(episodes):
        seen, _ = env.reset(seed=1000 + episode)
        for _ in range(STEPS):
            floats = torch.zeros(1, layout.floats)
            layout.pack(seen, floats[0].numpy(), none[0].numpy())
            with torch.no_grad():
                flat = policy.scale(policy.scale.executed(policy(floats, none)))[0].numpy()
            seen, reward, *_ = env.step(policy.action_layout.decode(flat))
            total += reward
    return total / episodes


def rows(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "scalars.jsonl").read_text().splitlines()]


def test_pql_solves_a_task_at_the_ratios_asked_for(tmp_path: Path) -> None:
    trained = trainer(CONFIG, tmp_path)
    result = trained.train()
    assert CONFIG.total_steps <= result.steps < CONFIG.total_steps + CONFIG.num_envs and not result.interrupted
    assert mean_return(trained) > BEST - 1.5  # random actions: -12
    last = rows(tmp_path)[-1]
    saved = checkpoint.load(tmp_path / "checkpoint.pt")
    learnt = (result.steps - CONFIG.num_envs * CONFIG.warmup_steps) / CONFIG.num_envs
    assert saved["e"] / CONFIG.num_envs == pytest.approx(learnt, abs=1.0)
    assert saved["v"] / learnt == pytest.approx(4.0, rel=0.05)
    assert saved["v"] / saved["p"] == pytest.approx(2.0, rel=0.05)
    assert last["ratio/critic_updates_per_step"] == pytest.approx(4.0, rel=0.05)
    assert last["ratio/critic_updates_per_policy_update"] == pytest.approx(2.0, rel=0.05)
    # Every step is in the buffer, and none twice.
    buffer = replay.load(tmp_path / "replay.pt")
    assert buffer["steps"] == result.steps
    columns, kinds = buffer["columns"], buffer["columns"]["kind"]
    there = sum(int((kinds[env, :count] != replay.LAST).sum()) for env, count in enumerate(columns["count"].tolist()))
    assert there == result.steps


@pytest.mark.slow
def test_three_processes_learn_a_stochastic_policy(tmp_path: Path) -> None:
    trained = trainer(replace(CONFIG, learner="sac", entropy_coef=0.01), tmp_path)
    trained.train()
    assert mean_return(trained) > BEST - 1.5
    saved = checkpoint.load(tmp_path / "checkpoint.pt")
    # The V-learner's alpha and the Actor's are the P-learner's: all of them come by the same slot.
    assert float(saved["learners"][1]["temperature"]["log"]) != pytest.approx(math.log(0.01), abs=1e-6)
    last = rows(tmp_path)[-1]
    assert math.isfinite(last["learn/entropy"]) and last["learn/entropy_coef"] > 0.0


@pytest.mark.parametrize(
    "case",
    [
        pytest.param({"critic": "c51", "support_min": -8.0, "support_max": 1.0}, marks=pytest.mark.slow),
        {"learner": "sac", "entropy_coef": 0.01},
    ],
    ids=["ddpg, c51", "sac"],
)
def test_the_sequential_baselines_solve_it(case: dict[str, Any]) -> None:
    trained = trainer(replace(CONFIG, parallel=False, **case))
    trained.train()
    assert mean_return(trained) > BEST - 1.5


@pytest.mark.parametrize("per_policy_update", [0.5, 1.5])
def test_taking_turns_keeps_the_ratios_exactly(tmp_path: Path, per_policy_update: float) -> None:
    config = replace(SHORT, parallel=False, critic_updates_per_policy_update=per_policy_update)
    trainer(config, tmp_path).train()
    saved = checkpoint.load(tmp_path / "checkpoint.pt")
    assert saved["v"] == 4 * saved["e"] // 16 > 100
    assert saved["p"] == saved["v"] // per_policy_update


def test_taking_turns_is_the_same_each_time() -> None:
    weights = []
    for _ in range(2):
        trained = trainer(replace(SHORT, parallel=False))
        trained.train()
        weights.append(torch.cat([p.detach().reshape(-1) for p in trained.policy.parameters()]))
    assert torch.equal(*weights)


@pytest.mark.parametrize("parallel", [True, False])
def test_a_resumed_training_goes_on_where_it_stopped(tmp_path: Path, parallel: bool) -> None:
    config = replace(SHORT, parallel=parallel)
    first = trainer(replace(config, total_steps=640), tmp_path)
    first.train()
    before = checkpoint.load(tmp_path / "checkpoint.pt")
    again = trainer(config, tmp_path, resume=True)
    assert again.steps == before["steps"] >= 640
    for mine, saved in zip(again.policy.state_dict().values(), before["learners"][1]["policy"].values(), strict=True):
        assert torch.equal(mine.cpu(), saved)
    again.train()
    after = checkpoint.load(tmp_path / "checkpoint.pt")
    assert after["steps"] >= 960
    # Nothing was collected without learning: the buffer was there.
    assert after["e"] - before["e"] == after["steps"] - before["steps"]
    assert after["v"] * 16 / after["e"] == pytest.approx(4.0, rel=0.05)
    assert replay.load(tmp_path / "replay.pt")["steps"] == after["steps"]
    with pytest.raises(ConfigError, match=r"pql.tau=0.05, not 0.1"):
        trainer(replace(config, tau=0.1), tmp_path, resume=True)


def numbers(tree: Any) -> list[torch.Tensor]:
    """Return all tensors and numbers of a nested tree, in order."""
    if isinstance(tree, dict):
        return [number for key in sorted(tree, key=str) for number in numbers(tree[key])]
    if isinstance(tree, list | tuple):
        return [number for part in tree for number in numbers(part)]
    return [] if tree is None else [torch.as_tensor(tree)]


@pytest.mark.parametrize("parallel", [True, False])
def test_a_resume_takes_up_all_that_was_learnt(tmp_path: Path, parallel: bool) -> None:
    """With nothing left to do, it saves what it read: targets, moments of both optimisers, alpha and its, and noise."""
    config = replace(SHORT, learner="sac", entropy_coef=0.01, parallel=parallel, total_steps=480)
    trainer(config, tmp_path).train()
    before = checkpoint.load(tmp_path / "checkpoint.pt")
    value, policy = before["learners"]
    assert any(not torch.equal(value["q"][name], value["target"][name]) for name in value["q"])
    assert float(policy["temperature"]["log"]) != pytest.approx(math.log(0.01), abs=1e-6)
    trainer(config, tmp_path, resume=True).train()
    after = checkpoint.load(tmp_path / "checkpoint.pt")
    assert after["sessions"] == before["sessions"] + 1
    assert before["recent"] and (after["recent"], after["greedy"]) == (before["recent"], before["greedy"])
    for key in ("steps", "random_steps", "e", "v", "p", "learners", "statistics", "rng"):
        mine, saved = numbers(after[key]), numbers(before[key])
        assert len(mine) == len(saved) > 0
        assert all(torch.equal(a, b) for a, b in zip(mine, saved, strict=True)), key


@pytest.mark.parametrize(
    ("per_step", "steps", "enough"), [(1e-3, 10**6, 100), (1e6, 960, 0)], ids=["the learners", "the Actor"]
)
def test_without_ratios_nobody_waits(tmp_path: Path, per_step: float, steps: int, enough: int) -> None:
    """Asked for an update in 16,000 steps, the learners would hardly begin; for a million a step, the Actor."""
    config = replace(CONFIG, keep_ratios=False, critic_updates_per_step=per_step, total_steps=steps)

    def over(row: Row) -> bool:
        return min(row["train/critic_updates"], row["train/policy_updates"]) > enough > 0

    result = trainer(config, tmp_path).train(over)
    saved = checkpoint.load(tmp_path / "checkpoint.pt")
    learnt = saved["e"] / 16
    if enough:
        assert result.steps < steps and saved["v"] > 10 * per_step * learnt
    else:
        assert result.steps >= steps and saved["v"] < 0.1 * per_step * learnt


def lose(file: Path) -> None:
    file.unlink()


def damage(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:1000])


def empty(file: Path) -> None:
    torch.save({"columns": {}}, file)


def make_another(file: Path) -> None:
    """Of observations that nobody has now."""
    saved = replay.load(file)
    other = {name: torch.zeros(*c.shape, 2) if c.is_floating_point() else c for name, c in saved["columns"].items()}
    torch.save({**saved, "columns": other}, file.with_suffix(".new"))
    file.with_suffix(".new").replace(file)


@pytest.mark.parametrize(
    ("happens", "parallel"),
    [*((happens, False) for happens in (lose, damage, empty, make_another)), (damage, True)]
    + [pytest.param(happens, True, marks=pytest.mark.slow) for happens in (lose, empty, make_another)],
)
def test_a_lost_replay_is_filled_anew(tmp_path: Path, happens: Callable[[Path], None], parallel: bool) -> None:
    trainer(replace(SHORT, total_steps=640, parallel=parallel), tmp_path).train()
    before = checkpoint.load(tmp_path / "checkpoint.pt")
    happens(tmp_path / "replay.pt")
    trainer(replace(SHORT, parallel=parallel), tmp_path, resume=True).train()
    warned = "replay.pt: cannot be read, or does not fit; it is filled anew" in (tmp_path / "log.txt").read_text()
    assert warned == (happens is not lose)
    after = checkpoint.load(tmp_path / "checkpoint.pt")
    refilled = (after["steps"] - before["steps"]) - (after["e"] - before["e"])
    assert refilled == pytest.approx(16 * 16, abs=16)
    assert after["random_steps"] == before["random_steps"]  # by the policy, not at random


@pytest.mark.parametrize("parallel", [True, False])
def test_a_replay_without_steps_is_not_lost(tmp_path: Path, parallel: bool) -> None:
    """It is that of a run that was stopped before its first one."""
    trainer(replace(SHORT, total_steps=16, parallel=parallel), tmp_path).train()
    columns = replay.load(tmp_path / "replay.pt")["columns"]
    none = {name: c * 0 if name == "count" else c[:, :0].clone() for name, c in columns.items()}
    (tmp_path / "replay.pt").unlink()
    torch.save({"steps": 0, "used": 0, "columns": none}, tmp_path / "replay.pt")
    trainer(replace(SHORT, total_steps=32, parallel=parallel), tmp_path, resume=True).train()
    assert "filled anew" not in (tmp_path / "log.txt").read_text()


def test_a_run_is_resumed_on_another_device(tmp_path: Path) -> None:
    """Its noise is another one then: a state of CUDA's generator has 16 bytes."""
    trainer(replace(SHORT, total_steps=640), tmp_path).train()
    saved = checkpoint.load(tmp_path / "checkpoint.pt")
    checkpoint.save(tmp_path / "checkpoint.pt", {**saved, "rng": torch.zeros(16, dtype=torch.uint8)})
    assert trainer(SHORT, tmp_path, resume=True).train().steps >= 960


def test_what_is_killed_after_its_first_row_can_be_resumed(tmp_path: Path) -> None:
    def killed(row: Row) -> bool:
        raise MemoryError

    with pytest.raises(MemoryError):
        trainer(replace(SHORT, log_every_s=0.0), tmp_path).train(killed)
    assert (tmp_path / "scalars.jsonl").stat().st_size > 0
    assert trainer(replace(SHORT, log_every_s=0.0), tmp_path, resume=True).train().steps >= 960


@pytest.mark.parametrize(
    ("setting", "told"),
    [
        ({"initial_std": 0.0}, r"policy.initial_std=0.0: must be positive"),
        ({"initial_std": math.nan}, r"policy.initial_std=nan: must be positive"),
        ({"initial_part_std": {"move": -1.0}}, r"policy.initial_part_std.move=-1.0: must be positive"),
        ({"initial_part_std": {"pull": 1.0}}, r"policy.initial_part_std.pull: no such action part"),
        ({"initial_bias": {"pull": 1.0}}, r"policy.initial_bias.pull: no such action part"),
        ({"initial_bias": {"move": math.nan}}, r"policy.initial_bias.move=nan: give a number"),
        ({"critic_keys": ["everything"]}, r"policy.critic_keys: no vector of floats everything"),
        ({"critic_keys": ["seen"], "teacher_key": "seen"}, r"policy.teacher_key=seen: PQL's policy has no such thing"),
    ],
)
def test_settings_that_mean_nothing_are_refused(setting: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        PqlTrainer(PointMass, SHORT, replace(NETWORK, **setting), show_progress=False)


def test_sigterm_saves_and_ends(tmp_path: Path) -> None:
    stopped = trainer(replace(CONFIG, total_steps=10**6), tmp_path)
    result = stopped.train(lambda row: bool(os.kill(os.getpid(), signal.SIGTERM)))
    assert result.interrupted and 0 < result.steps < 10**6
    saved = checkpoint.load(tmp_path / "checkpoint.pt")
    assert saved["steps"] == result.steps
    assert (tmp_path / "policy.safetensors").is_file() and (tmp_path / "replay.pt").is_file()


@pytest.mark.parametrize("parallel", [True, False])
def test_a_loss_that_is_no_number_ends_it(parallel: bool, tmp_path: Path) -> None:
    config = replace(SHORT, critic_learning_rate=1e30, max_grad_norm=1e30, parallel=parallel)
    with pytest.raises(LearningFailure, match="NaN or infinite"):
        trainer(config, tmp_path).train()


def test_a_dead_learner_ends_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[Parallel] = []
    begin = Parallel.begin

    def kill(self: Parallel) -> None:
        begin(self)
        begun.append(self)
        os.kill(self.pids()[1], signal.SIGKILL)

    monkeypatch.setattr(Parallel, "begin", kill)
    with pytest.raises(LearningFailure, match=r"P-learner died \(exit code -9\)"):
        trainer(replace(CONFIG, total_steps=10**6), tmp_path).train()
    assert all(process.exitcode is not None for process in begun[0]._processes)


def test_environments_start_while_learners_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is waited for last was started first; and if one side fails to start, both are ended."""
    started: list[Parallel] = []
    waited: list[str] = []
    begin, environments, ready = Parallel.__init__, PqlTrainer.environments, Parallel.ready

    def noted(self: Parallel, *arguments: Any) -> None:
        begin(self, *arguments)
        started.append(self)

    def beside(self: PqlTrainer) -> Any:
        assert len(started) == 1 and not waited
        waited.append("environments")
        return environments(self)

    def last(self: Parallel) -> None:
        waited.append("learners")
        ready(self)

    monkeypatch.setattr(Parallel, "__init__", noted)
    monkeypatch.setattr(PqlTrainer, "environments", beside)
    monkeypatch.setattr(Parallel, "ready", last)
    assert trainer(replace(SHORT, total_steps=16)).train().steps >= 16
    assert waited == ["environments", "learners"]

    def fail(self: PqlTrainer) -> Any:
        raise EnvironmentFailure("none starts")

    monkeypatch.setattr(PqlTrainer, "environments", fail)
    with pytest.raises(EnvironmentFailure):
        trainer(SHORT).train()
    assert all(process.exitcode is not None for process in started[1]._processes)


@pytest.mark.slow
def test_learners_that_do_not_start_end_the_environments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trainer(replace(SHORT, total_steps=320), tmp_path).train()
    (tmp_path / "replay.pt").write_bytes(b"none")
    made: list[Any] = []
    environments = PqlTrainer.environments

    def noted(self: PqlTrainer) -> Any:
        made.append(environments(self))
        return made[0]

    monkeypatch.setattr(PqlTrainer, "environments", noted)
    with pytest.raises(LearningFailure, match="V-learner failed"):
        trainer(SHORT, tmp_path, resume=True).train()
    assert len(made) == 1 and not multiprocessing.active_children()


def test_a_vector_env_trains_in_this_process() -> None:
    def make() -> ThreadedVectorEnv:
        return ThreadedVectorEnv(PointMass, 16, 2)

    with pytest.raises(ConfigError, match="pql.num_envs=4: the environments are 16"):
        trainer(replace(SHORT, num_envs=4, greedy_envs=1), make_env=make, vector=True)
    trained = trainer(SHORT, make_env=make, vector=True)
    result = trained.train()
    assert result.steps == 960 and result.env_steps == 960


def test_a_crashed_environment_is_started_again(tmp_path: Path) -> None:
    result = trainer(SHORT, make_env=partial(PointMass, tmp_path / "crashed")).train()
    assert result.restarts == 1 and result.steps >= 960
