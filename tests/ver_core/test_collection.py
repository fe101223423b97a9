"""What the schedulers collect, against the environments' own records and a step-by-step replay with the policy."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from counting_envs import ACTION, OBSERVATION, Counting, Record, mark_of, read_logs
from numpy.typing import NDArray
from torch import Tensor, nn

from ver_core.collector import Collection, Collector
from ver_core.config import PolicyConfig, TrainConfig
from ver_core.distributed import World
from ver_core.feeds import Alongside, Feed, InTurn
from ver_core.learner import Learner
from ver_core.policy import Output, RecurrentPolicy
from ver_core.rollout import WIDE, Rollout
from ver_core.schedulers import SCHEDULERS
from ver_core.shared_rows import Layout
from ver_core.spaces import ActionLayout, ObsLayout
from ver_core.worker_pool import WorkerPool

CPU = torch.device("cpu")
N, T, ROLLOUTS = 4, 16, 3
SCALARS = ("env", "start", "reward", "log_prob", "value", "next_value", "version")
Columns = dict[str, NDArray[Any]]

SYSTEMS: dict[str, dict[str, Any]] = {
    "ver": {"scheduler": "ver"},
    "ver, two inference workers": {"scheduler": "ver", "workers": 2, "max_batch": 2},
    "ver, three environments in a process": {"scheduler": "ver", "envs_per_worker": 3},
    "nover": {"scheduler": "nover"},
    "ddppo": {"scheduler": "ddppo"},
    "async": {"scheduler": "async"},
    "overlap": {"scheduler": "ver", "overlap": True},
}


def make_policy() -> RecurrentPolicy:
    torch.manual_seed(3)
    policy = RecurrentPolicy(OBSERVATION, ACTION, PolicyConfig(mlp=[8], rnn_layers=2, rnn_size=8))
    # The head's initial gain of 0.01 would hide a wrong state or observation from the log-probabilities.
    nn.init.normal_(policy.action_head.linear.weight, std=2.0)
    nn.init.normal_(policy.value_head.weight, std=2.0)
    return policy


@contextmanager
def system(
    make_env: Any,
    policy: RecurrentPolicy,
    scheduler: str,
    overlap: bool = False,
    workers: int = 1,
    min_batch: int = 1,
    max_batch: int = 0,
    num_envs: int = N,
    length: int = T,
    envs_per_worker: int = 1,
) -> Iterator[tuple[Feed, Collector]]:
    """Start environments, collector and feed, put together as the trainer does."""
    obs, action = ObsLayout(OBSERVATION), ActionLayout(ACTION)
    layout = Layout.of(num_envs, obs, action)
    pool = WorkerPool(
        make_env, obs, action, num_envs, seed=(5, 0), episodes_per_seed=3, envs_per_worker=envs_per_worker
    )
    collector, feed = None, None
    try:
        chosen = SCHEDULERS[scheduler](num_envs, length, min_batch, max_batch)
        alongside = overlap or scheduler == "async"
        collector = Collector(pool, policy, chosen, layout, CPU, (5, 0), workers)
        rollouts = [Rollout(layout, length, policy.state_size, CPU) for _ in range(2 if alongside else 1)]
        feed = (
            Alongside(collector, policy, 0, rollouts, overlap) if alongside else InTurn(collector, policy, rollouts[0])
        )
        yield feed, collector
    finally:
        if feed:
            feed.close()
        if collector:
            collector.close()
        pool.close()


def next_of(feed: Feed, preempt: Callable[[], bool] | None = None) -> tuple[Rollout, Collection]:
    """Return the next rollout, or fail where one would wait for ever."""
    deadline = time.monotonic() + 60.0
    fed = feed.next(lambda: time.monotonic() > deadline, preempt)
    assert fed is not None, "no rollout within a minute"
    return fed


def columns_of(rollout: Rollout) -> Columns:
    """Copy the fresh rows."""
    rows = slice(rollout.size)
    scalars = {name: getattr(rollout, name)[rows].copy() for name in SCALARS}
    return {**scalars, **{name: rollout.wide[name][rows].numpy().copy() for name in WIDE}}


def rollout_of(columns: Columns, state_size: int) -> Rollout:
    """Make a full rollout of columns."""
    rollout = Rollout(Layout.of(N, ObsLayout(OBSERVATION), ActionLayout(ACTION)), T, state_size, CPU)
    rollout.clear()
    rows = rollout.extend(len(columns["env"]))
    for name in SCALARS:
        getattr(rollout, name)[rows] = columns[name]
    for name in WIDE:
        rollout.wide[name][rows] = torch.from_numpy(columns[name])
    return rollout


@dataclass
class Played:
    """Rollouts in a row, the environments' records, and how many steps these held when each rollout was handed out."""

    name: str
    policy: RecurrentPolicy
    rollouts: list[Columns]
    learner_versions: list[int]
    recorded: list[int]
    episodes: list[dict[str, float | str]]
    logs: dict[int, list[Record]]

    def joined(self) -> Columns:
        return {name: np.concatenate([part[name] for part in self.rollouts]) for name in self.rollouts[0]}

    def by_env(self) -> list[tuple[Columns, list[Record]]]:
        """Return each environment's steps, all rollouts in a row, and its record; if it made any (a busy machine)."""
        joined = self.joined()
        found = []
        for env in sorted(set(joined["env"].tolist())):
            rows = np.flatnonzero(joined["env"] == env)
            steps = {name: column[rows] for name, column in joined.items()}
            found.append((steps, self.logs[mark_of(steps["floats"][0])]))
        return found


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", params=list(SYSTEMS))
def played(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Played:
    """Three rollouts of environments of different speeds; the weights never change, though their version does."""
    log_dir = tmp_path_factory.mktemp("log")
    policy = make_policy()
    rollouts, versions, recorded = [], [], []
    processes = -(-N // SYSTEMS[request.param].get("envs_per_worker", 1))
    make_env = partial(Counting, log_dir, processes, slowest_s=4e-3)
    with system(make_env, policy, **SYSTEMS[request.param]) as (feed, collector):
        for version in range(ROLLOUTS):
            fed = next_of(feed)
            assert fed[1].complete and not fed[1].preempted
            rollouts.append(columns_of(fed[0]))
            versions.append(version)
            recorded.append(sum(map(len, read_logs(log_dir).values())))
            feed.learned(fed[0], version + 1)
        episodes = list(collector.episodes)
    return Played(request.param, policy, rollouts, versions, recorded, episodes, read_logs(log_dir))


# -- the buffer against the environments' records ---------------------------------------------------------------------


def test_every_step_played_is_there_once_and_in_order(played: Played) -> None:
    none = ActionLayout(ACTION).none
    assert len(played.logs) == N
    late = set(map(id, played.logs.values())) - {id(log) for _, log in played.by_env()}
    assert not late or played.name not in ("nover", "ddppo")
    for steps, log in played.by_env():
        unseen = len(log) - len(steps["env"])
        if played.name == "ddppo":
            assert unseen == 0
        elif played.name in ("async", "overlap"):  # they were collecting the next rollout already
            assert unseen >= 0
        else:  # the one in flight
            assert unseen in (0, 1)
        log = log[: len(steps["env"])]
        np.testing.assert_array_equal(steps["floats"], np.array([r["before"][0] for r in log], np.float32))
        np.testing.assert_array_equal(steps["bytes"], np.array([r["before"][1] for r in log], np.uint8))
        np.testing.assert_array_equal(
            np.clip(steps["action"][:, :2], -1.0, 1.0), np.array([r["arm"] for r in log], np.float32)
        )
        np.testing.assert_array_equal(steps["action"][:, 2], [r["gear"] for r in log])
        np.testing.assert_array_equal(steps["reward"], np.array([r["reward"] for r in log], np.float32))
        first = np.array([r["first"] for r in log])
        np.testing.assert_array_equal(steps["start"], first)
        before = np.concatenate((none[None], steps["action"][:-1]))
        np.testing.assert_array_equal(steps["previous_action"], np.where(first[:, None], none, before))
    assert (np.abs(played.joined()["action"][:, :2]) > 1.0).any()  # some were clipped, for the environment only


def test_all_endings_and_cuts_occur(played: Played) -> None:
    """The tests of this file would say little otherwise."""
    records = [record for _, log in played.by_env() for record in log]
    endings = {(r["terminated"], r["truncated"]) for r in records}
    assert endings == {(False, False), (True, False), (False, True), (True, True)}
    # Of any rollout alone it is chance, where a busy machine lets few environments into it.
    firsts = [r["start"][r["env"] == env][0] for r in played.rollouts[1:] for env in set(r["env"].tolist())]
    assert not all(firsts)  # a rollout began within an episode
    assert {mark_of(r["before"][0]) for r in records} > set(played.logs)  # some were seeded anew


def test_the_episodes_reported_are_those_played(played: Played) -> None:
    expected = []
    for steps, log in played.by_env():
        gained = 0.0
        for record, _ in zip(log, steps["env"], strict=False):
            gained = record["reward"] + (0.0 if record["first"] else gained)
            if record["terminated"] or record["truncated"]:
                length = round(record["after"][0][2] * 64)
                expected.append((length, gained, float(record["terminated"] and not record["truncated"])))
    found = [(e["length"], e["return"], e["success"]) for e in played.episodes]
    if played.name in ("async", "overlap"):
        assert len(found) >= len(expected) and set(expected) <= set(found)
    else:
        assert sorted(found) == sorted(expected)


# -- log-probabilities, values, recurrent states -----------------------------------------------------------------------


def one_step(policy: RecurrentPolicy, seen: Any, previous: Tensor, state: Tensor) -> Output:
    floats, bytes_ = torch.tensor([seen[0]], dtype=torch.float32), torch.tensor([seen[1]], dtype=torch.uint8)
    return policy(floats, bytes_, previous[None], state, torch.tensor([1]))


@torch.no_grad()
def test_a_replay_from_the_episodes_start_gives_what_was_stored(played: Played) -> None:
    policy, none = played.policy, torch.from_numpy(ActionLayout(ACTION).none)
    for steps, log in played.by_env():
        expected: dict[str, list[Any]] = {"state": [], "value": [], "log_prob": [], "next_value": []}
        previous, state = none, torch.zeros(1, policy.state_size)
        actions = torch.from_numpy(steps["action"])
        for action, record in zip(actions, log, strict=False):
            if record["first"]:
                previous, state = none, torch.zeros(1, policy.state_size)
            expected["state"].append(state[0].numpy())
            out = one_step(policy, record["before"], previous, state)
            expected["value"].append(out.value.item())
            expected["log_prob"].append(out.distribution.log_prob(action[None]).item())
            previous, state = action, out.state
            # A truncated episode's last observation goes on from the episode's state, too.
            after = one_step(policy, record["after"], previous, state)
            expected["next_value"].append(0.0 if record["terminated"] else after.value.item())
        for name, values in expected.items():
            np.testing.assert_allclose(steps[name], np.array(values), rtol=0, atol=1e-5, err_msg=name)
        terminated = np.array([record["terminated"] for record in log[: len(actions)]])
        assert (steps["next_value"][terminated] == 0.0).all()
        assert np.std(steps["value"]) > 0.05 and np.std(steps["log_prob"]) > 0.05


def test_next_value_is_the_next_steps_value(played: Played) -> None:
    for steps, _ in played.by_env():
        goes_on = ~steps["start"][1:]
        np.testing.assert_allclose(steps["next_value"][:-1][goes_on], steps["value"][1:][goes_on], rtol=0, atol=1e-5)


@dataclass
class Seen:
    """What the learner computed of a step."""

    row: int
    value: float
    log_prob: float


@contextmanager
def watch(policy: RecurrentPolicy, columns: Columns) -> Iterator[list[list[Seen]]]:
    """Write down every batch that goes through the policy; a step is known by its place in its episode."""
    row_of = {tuple(place): row for row, place in enumerate(columns["floats"][:, :3].tolist())}
    assert len(row_of) == len(columns["env"])
    batches: list[list[Seen]] = []

    def note(_: nn.Module, inputs: tuple[Tensor, ...], out: Output) -> None:
        rows = [row_of[tuple(place)] for place in inputs[0][:, :3].tolist()]
        log_prob = out.distribution.log_prob(torch.from_numpy(columns["action"][rows]))
        known = zip(rows, out.value.tolist(), log_prob.tolist(), strict=True)
        batches.append([Seen(*one) for one in known])

    handle = policy.register_forward_hook(note)
    yield batches
    handle.remove()


def config_for(scheduler: str = "ver", **changes: Any) -> TrainConfig:
    return TrainConfig(scheduler=scheduler, num_envs=N, rollout_length=T, learner_threads=1, device="cpu", **changes)


@pytest.mark.parametrize("mini_batches", [1, 2, 4])
def test_the_learner_recomputes_what_was_stored(played: Played, mini_batches: int) -> None:
    """Over whole sequences, and over those that the cuts between mini-batches split."""
    policy = make_policy()
    config = config_for(mini_batches=mini_batches, epochs=2, learning_rate=0.0, entropy_coef=0.01)
    learner = Learner(policy, config, CPU, World())
    for columns in played.rollouts:
        with watch(policy, columns) as batches:
            scalars = learner.update(rollout_of(columns, policy.state_size), 0.0)
        assert [len(batch) for batch in batches] == [N * T // mini_batches] * (2 * mini_batches)
        for seen in (seen for batch in batches for seen in batch):
            assert seen.value == pytest.approx(columns["value"][seen.row], rel=0, abs=1e-5)
            assert seen.log_prob == pytest.approx(columns["log_prob"][seen.row], rel=0, abs=1e-5)
        assert abs(scalars["kl"]) < 1e-8 and scalars["clip_fraction"] == 0.0


# -- whose steps, and how old -----------------------------------------------------------------------------------------


def test_a_rollout_holds_exactly_its_steps(played: Played) -> None:
    for columns in played.rollouts:
        counts = np.bincount(columns["env"], minlength=N)
        assert counts.sum() == N * T
        if played.name in ("nover", "ddppo"):
            assert (counts == T).all()


def test_how_old_the_weights_are(played: Played) -> None:
    for version, columns in zip(played.learner_versions, played.rollouts, strict=True):
        lag = version - columns["version"]
        assert (lag >= 0).all()
        first = np.zeros(N * T, bool)
        first[[np.flatnonzero(columns["env"] == env)[0] for env in set(columns["env"].tolist())]] = True
        if played.name == "ddppo":
            assert (lag == 0).all()
        elif played.name in ("async", "overlap"):
            assert (lag[~first] <= 1).all()
        else:  # only what was in flight while the learner learnt
            assert (lag[~first] == 0).all()


def test_what_is_in_flight_while_the_learner_learns(played: Played) -> None:
    for number, recorded in enumerate(played.recorded, 1):
        if played.name == "ddppo":
            assert recorded == number * N * T
        elif played.name not in ("async", "overlap"):
            assert number * N * T <= recorded <= number * N * T + N


def test_ver_goes_on_without_an_environment_that_is_busy(tmp_path: Path) -> None:
    """Its step belongs to a later rollout, with the version of the weights that chose it."""
    gate, log_dir = tmp_path / "gate", tmp_path / "log"
    gate.mkdir(), log_dir.mkdir()
    policy = make_policy()
    with system(partial(Counting, log_dir, gate=gate), policy, "ver") as (feed, _):
        parts = []
        for version in range(2):
            fed = next_of(feed)
            parts.append(columns_of(fed[0]))
            feed.learned(fed[0], version + 1)
        mark = int((gate / "owner").read_text())
        assert all(len(part["env"]) == N * T for part in parts)
        assert all(mark_of(floats) != mark for part in parts for floats in part["floats"])
        (gate / "open").touch()
        while all(mark_of(floats) != mark for floats in parts[-1]["floats"]):
            fed = next_of(feed)
            parts.append(columns_of(fed[0]))
            feed.learned(fed[0], len(parts))
    row = [mark_of(floats) for floats in parts[-1]["floats"]].index(mark)
    assert parts[-1]["version"][row] == 0 and parts[-1]["start"][row]
    log = read_logs(log_dir)[mark]
    assert log[0]["first"] and parts[-1]["reward"][row] == np.float32(log[0]["reward"])


def test_ver_takes_more_steps_of_fast_environments() -> None:
    slowness: dict[int, int] = {}
    steps, rollouts = np.zeros(N, int), 0
    with system(partial(Counting, longest=10**6, slowest_s=0.5), make_policy(), "ver") as (feed, _):
        while len(slowness) < N or rollouts < 3:
            fed = next_of(feed)
            columns, rollouts = columns_of(fed[0]), rollouts + 1
            steps += np.bincount(columns["env"], minlength=N)
            for env, floats in zip(columns["env"].tolist(), columns["floats"], strict=True):
                slowness[env] = mark_of(floats) % 4
    fast = [steps[env] for env in range(N) if slowness[env] == 0]
    slow = [steps[env] for env in range(N) if slowness[env] == 3]
    assert fast and slow, "the seeds have no fast and no slow environment: take another one"
    assert max(fast) > rollouts * T > max(slow)


@pytest.mark.parametrize("scheduler", ["ver", "nover", "ddppo"])
def test_preemption_loses_nothing(tmp_path: Path, scheduler: str) -> None:
    """The second of three rollouts is cut short; what it did not overwrite of the first one is still there."""
    policy = make_policy()
    parts = []
    with system(partial(Counting, tmp_path, N, slowest_s=2e-3), policy, scheduler) as (feed, _):
        rollout = feed.rollout
        for number in range(3):
            fed = next_of(feed, (lambda: rollout.size >= 20) if number == 1 else None)
            assert fed[1].complete and fed[1].preempted == (number == 1)
            parts.append(columns_of(fed[0]))
            if number == 1:
                assert len(rollout.rows()) == N * T and 20 <= rollout.size < 20 + 2 * N
                stale = slice(rollout.size, N * T)
                np.testing.assert_array_equal(rollout.wide["floats"][stale].numpy(), parts[0]["floats"][stale])
                np.testing.assert_array_equal(rollout.env[stale], parts[0]["env"][stale])
            feed.learned(fed[0], number + 1)
    assert len(parts[2]["env"]) == N * T
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    logs = read_logs(tmp_path)
    for env in sorted(set(joined["env"].tolist())):
        seen = joined["floats"][joined["env"] == env]
        log = logs[mark_of(seen[0])]
        assert 0 <= len(log) - len(seen) <= (0 if scheduler == "ddppo" else 1)
        np.testing.assert_array_equal(seen, np.array([r["before"][0] for r in log[: len(seen)]], np.float32))


# -- the same data, whoever schedules ---------------------------------------------------------------------------------


def collect_and_learn(scheduler: str, **options: Any) -> tuple[list[Columns], RecurrentPolicy]:
    """Train for three rollouts."""
    policy = make_policy()
    learner = Learner(policy, config_for(scheduler, learning_rate=0.01), CPU, World())
    parts = []
    with system(Counting, policy, scheduler, **options) as (feed, _):
        for _ in range(ROLLOUTS):
            fed = next_of(feed)
            parts.append(columns_of(fed[0]))
            learner.update(fed[0], 0.0)
            feed.learned(fed[0], learner.version)
    return parts, policy


@pytest.fixture(scope="module")
def of_nover() -> tuple[list[Columns], RecurrentPolicy]:
    return collect_and_learn("nover", min_batch=N, max_batch=N)


def test_ver_and_nover_are_the_same_with_one_speed(of_nover: tuple[list[Columns], RecurrentPolicy]) -> None:
    """Every environment steps at each round, so even the parameters learnt are the same, bit for bit."""
    parts, policy = collect_and_learn("ver", min_batch=N, max_batch=N)
    for ours, theirs in zip(parts, of_nover[0], strict=True):
        for name in ours:
            np.testing.assert_array_equal(ours[name], theirs[name], err_msg=name)
    for ours_, theirs_ in zip(policy.parameters(), of_nover[1].parameters(), strict=True):
        assert torch.equal(ours_, theirs_)
    assert not torch.equal(next(policy.parameters()), next(make_policy().parameters()))


def test_ddppo_begins_the_same(of_nover: tuple[list[Columns], RecurrentPolicy]) -> None:
    """After the first rollout its actions are chosen with newer weights."""
    parts, _ = collect_and_learn("ddppo")
    for name, column in parts[0].items():
        np.testing.assert_array_equal(column, of_nover[0][0][name], err_msg=name)
    firsts = [
        np.array([part["version"][part["env"] == env][0] for env in range(N)]) for part in (parts[1], of_nover[0][1])
    ]
    assert (firsts[0] == 1).all() and (firsts[1] == 0).all()


def test_actions_do_not_depend_on_the_batches() -> None:
    found = []
    for batch in (1, N):
        with system(Counting, make_policy(), "nover", min_batch=batch, max_batch=batch) as (feed, _):
            parts = []
            for _ in range(ROLLOUTS):
                fed = next_of(feed)
                parts.append(columns_of(fed[0]))
                feed.learned(fed[0], 0)
        joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
        order = np.argsort(joined["env"], kind="stable")
        found.append({name: column[order] for name, column in joined.items()})
    for name in ("env", "start", "floats", "bytes", "action", "reward", "log_prob", "value", "next_value"):
        np.testing.assert_allclose(found[0][name], found[1][name], rtol=0, atol=1e-4, err_msg=name)


def test_step_times_leave_learning_out() -> None:
    """Equation 1 needs the time of a step; the two seconds between the rollouts would make it T times as long."""
    pause_s = 2.0
    with system(Counting, make_policy(), "nover") as (feed, collector):
        for _ in range(2):
            next_of(feed)
            time.sleep(pause_s)
        next_of(feed)
        times = collector.step_times_s()
    assert np.isfinite(times).all() and (times > 0.0).all()
    assert times.mean() < pause_s / T
