"""The Actor on every kind of environment: what reaches the buffers is what was played, once."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from counting_envs import Counting, _flat
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv
from point_mass import PointMass

from pql_core.actor import Actor
from pql_core.batches import EnvironmentBatch, Vector, Workers
from pql_core.channel import Ring
from pql_core.config import PqlConfig
from pql_core.processes import Job, Networks, build
from pql_core.replay import LAST, STEP, TERMINATED, Records, Replay
from pql_core.threads import ThreadedVectorEnv
from ver_core.config import PolicyConfig
from ver_core.worker_pool import EnvironmentFailure, WorkerPool

CPU = torch.device("cpu")
NETWORK = PolicyConfig(rnn_layers=0, previous_action=False, mlp=[4], critic_mlp=[4])
N = 3


class Continuous(Counting):
    """`Counting` with real actions, which remembers what it played."""

    def __init__(self) -> None:
        super().__init__()
        self.action_space = spaces.Box(-1.0, 1.0, (2,))
        self.played: list[tuple[Any, Any, float, bool, bool]] = []
        """Observation, action, reward, whether the episode ended and how."""
        self.finals: list[Any] = []

    def step(self, action: Any) -> Any:
        before = self._seen
        seen, reward, terminated, truncated, info = super().step({"arm": action, "gear": 1})
        reward = float(np.float32(reward))
        self.played.append((_flat(before), action.tolist(), reward, terminated, truncated and not terminated))
        self.finals.append(_flat(seen))
        return seen, reward, terminated, truncated, info


def naive(env: Continuous) -> list[tuple[Any, ...]]:
    """Return the records that what it played comes to."""
    found: list[tuple[Any, ...]] = []
    for (before, action, reward, terminated, truncated), final in zip(env.played, env.finals, strict=True):
        found.append((before, action, reward, TERMINATED if terminated else STEP))
        if truncated:
            found.append((final, None, 0.0, LAST))
    return found


def records_of(collected: list[Records], env: int) -> list[tuple[Any, ...]]:
    found: list[tuple[Any, ...]] = []
    for records in collected:
        for row in range(len(records.env)):
            if int(records.env[row]) == env:
                kind = int(records.kind[row])
                seen = (records.floats[row].tolist(), records.bytes[row].tolist())
                action = None if kind == LAST else records.action[row].tolist()
                found.append((seen, action, 0.0 if kind == LAST else float(records.reward[row]), kind))
    return found


def networks(env: gymnasium.Env[Any, Any], config: PqlConfig) -> Networks:
    return build(Job(env.observation_space, env.action_space, NETWORK, config, "cpu"))


def play(batch: EnvironmentBatch, env: gymnasium.Env[Any, Any], n: int, rounds: int) -> tuple[list[Records], int]:
    """Let the Actor play; return what it handed on, and the number of steps it counted."""
    config = PqlConfig(num_envs=n, replay_size=10_000, seed=1)
    nets, collected = networks(env, config), []

    def hand_on(records: Records) -> bool:
        collected.append(Records(*(column.clone() for column in records)))
        return True

    actor, steps = Actor(batch, nets.policy, nets.statistics, config, CPU, hand_on), 0
    for number in range(rounds):
        actor.random = number < rounds // 2
        steps += actor.receive(lambda: False)
        actor.answer()
    return collected, steps


def vector(mode: AutoresetMode | None) -> tuple[VectorEnv[Any, Any, Any], list[Continuous]]:
    envs = [Continuous() for _ in range(N)]
    if mode is not None:
        return SyncVectorEnv([partial(envs.__getitem__, i) for i in range(N)], autoreset_mode=mode), envs
    makers = iter(envs)
    return ThreadedVectorEnv(lambda: next(makers), N, 2), envs


@pytest.mark.parametrize("mode", [*AutoresetMode, None], ids=lambda m: m.name if m else "threads")
def test_a_vector_env_hands_on_what_was_played(mode: AutoresetMode | None) -> None:
    made, envs = vector(mode)
    batch = Vector(made, CPU, seed=5)
    collected, steps = play(batch, envs[0], N, 60)
    batch.close()
    assert steps == sum(int((r.kind != LAST).sum()) for r in collected)
    for number, env in enumerate(envs):
        expected, found = naive(env), records_of(collected, number)
        assert len(expected) > 30 and {kind for *_, kind in expected} == {STEP, TERMINATED, LAST}
        assert len(found) == len(expected)
        for got, wanted in zip(found, expected, strict=True):
            assert got[0] == wanted[0] and got[2:] == wanted[2:]
            assert got[1] == pytest.approx(wanted[1])


@pytest.mark.parametrize(("greedy", "passes"), [(0, 1), (1, 2)])
def test_a_stochastic_policys_mean_is_only_asked_for_those_who_play_it(greedy: int, passes: int) -> None:
    config = PqlConfig(num_envs=N, replay_size=3000, seed=1, learner="sac", greedy_envs=greedy)
    made, envs = vector(AutoresetMode.SAME_STEP)
    nets, batch = networks(envs[0], config), Vector(made, CPU, seed=5)
    actor = Actor(batch, nets.policy, nets.statistics, config, CPU, lambda records: True)
    actor.random, calls = False, list[int]()
    actor.receive(lambda: False)
    seen, rng = batch._seen, torch.Generator()
    rng.set_state(actor.rng_state())
    hook = nets.policy.mlp.register_forward_hook(lambda *_: calls.append(1))
    actor.answer()
    hook.remove()
    assert len(calls) == passes
    with torch.no_grad():
        expected, _ = nets.policy.draw(*seen, rng)
        expected[N - greedy :] = nets.policy(*seen)[N - greedy :]
    assert batch._action is not None and torch.equal(batch._action, nets.policy.scale(expected))


@pytest.mark.parametrize("refused", range(30, 60))
def test_a_stop_half_way_leaves_no_step_without_its_successor(refused: int) -> None:
    made, envs = vector(AutoresetMode.SAME_STEP)
    batch = Vector(made, CPU, seed=5)
    config = PqlConfig(num_envs=N, replay_size=10_000, seed=1)
    nets, collected, calls = networks(envs[0], config), list[Records](), 0

    def hand_on(records: Records) -> bool:
        nonlocal calls
        calls += 1
        if calls != refused:
            collected.append(Records(*(column.clone() for column in records)))
        return calls != refused

    actor = Actor(batch, nets.policy, nets.statistics, config, CPU, hand_on)
    while actor.receive(lambda: False) >= 0:
        actor.answer()
    actor.finish()
    batch.close()
    for number, env in enumerate(envs):
        expected, found = naive(env), records_of(collected, number)
        assert found[-1][3] in (LAST, TERMINATED)
        expected.append((_flat(env._seen), None, 0.0, LAST))
        for got, wanted in zip(found[:-1], expected, strict=False):
            assert got[0] == wanted[0] and got[2:] == wanted[2:]
        assert found[-1][0] == expected[len(found) - 1][0]  # whether or not there was another step from there


@pytest.mark.parametrize("room", [False, True])
def test_what_a_stop_leaves_never_leads_on_to_another_episode(room: bool) -> None:
    """When training stops the ring has no room for a whole step, and there is room again, or not, for what closes the
    episodes. Then the buffer is saved and taken up, and other episodes follow."""
    made, envs = vector(AutoresetMode.SAME_STEP)
    config = PqlConfig(num_envs=N, replay_size=3000, seed=1)
    nets = networks(envs[0], config)
    layout = nets.policy.obs_layout
    before, after = (Replay(N, 3000, layout, 2, torch.zeros_like(nets.half), CPU) for _ in range(2))
    ring, stopped = Ring(2 * N - 1, layout.floats, layout.bytes, 2, CPU), False

    def drain(replay: Replay) -> None:
        for records in ring.read(0):
            replay.append(records)
        list(ring.read(1))

    def hand_on(records: Records) -> bool:
        return ring.write(records, lambda: not stopped and drain(before) is None)

    batch = Vector(made, CPU, seed=5)
    actor = Actor(batch, nets.policy, nets.statistics, config, CPU, hand_on)
    while len(envs[0].played) < 20 or any(env.played[-1][3] or env.played[-1][4] for env in envs):
        drain(before)
        assert actor.receive(lambda: False) >= 0
        actor.answer()
    told, stopped = [len(env.played) for env in envs], True
    assert actor.receive(lambda: False) == -1  # N steps are still in there
    if room:
        drain(before)
    actor.finish()
    drain(before)
    assert after.restore(before.snapshot())
    for env in range(N):
        kinds = after.steps_in_order(env).kind
        assert int(kinds[-1]) == LAST and int((kinds != LAST).sum()) == told[env] - (not room)
    assert after.steps == sum(told) - (0 if room else N)

    # Every transition is of one episode, whatever comes next.
    batch = Vector(vector(AutoresetMode.SAME_STEP)[0], CPU, seed=77)
    actor = Actor(batch, nets.policy, nets.statistics, config, CPU, lambda records: after.append(records) is None)
    for _ in range(5):
        assert actor.receive(lambda: False) >= 0
        actor.answer()
    follows = {str(seen): final for env in envs for (seen, *_), final in zip(env.played, env.finals, strict=True)}
    (drawn,) = after.sample(4000, 1, 0.9, 1)
    checked = 0
    for row in torch.nonzero(drawn.discount)[:, 0].tolist():
        seen = str((drawn.floats[row].tolist(), drawn.bytes[row].tolist()))
        if seen in follows:
            checked += 1
            assert (drawn.next_floats[row].tolist(), drawn.next_bytes[row].tolist()) == follows[seen]
    assert checked > 1000


def test_episodes_of_a_vector_env_are_summed_up() -> None:
    for mode in (*AutoresetMode, None):
        made, envs = vector(mode)
        batch = Vector(made, CPU, seed=5)
        batch.take(lambda: False)
        seen: list[tuple[int, dict[str, Any]]] = []
        for _ in range(30):
            batch.send(torch.arange(N), torch.zeros(N, 2))
            arrived = batch.take(lambda: False)
            assert arrived is not None
            seen += arrived.episodes
        for number, env in enumerate(envs):
            ended = [i for i, step in enumerate(env.played) if step[3] or step[4]]
            starts = [0, *(i + 1 for i in ended)]
            sums = [sum(step[2] for step in env.played[a : b + 1]) for a, b in zip(starts, ended, strict=False)]
            mine = [episode for whose, episode in seen if whose == number]
            assert [e["return"] for e in mine] == pytest.approx(sums)
            assert [e["length"] for e in mine] == [b - a + 1 for a, b in zip(starts, ended, strict=False)]
            assert all("success" in e for e in mine)


def test_a_number_that_is_none_ends_it() -> None:
    class Spoilt(PointMass):
        def step(self, action: Any) -> Any:
            seen, *rest = super().step(action)
            return {**seen, "place": np.array([np.nan], np.float32)}, *rest

    batch = Vector(ThreadedVectorEnv(Spoilt, 2, 1), CPU, seed=0)
    with pytest.raises(EnvironmentFailure, match="environment 0 .*'place'"):
        play(batch, PointMass(), 2, 3)


class LastSpoilt(PointMass):
    """The last observation of an episode, which a time limit cuts off, is NaN."""

    def step(self, action: Any) -> Any:
        seen, reward, terminated, truncated, info = super().step(action)
        if truncated:
            seen = {**seen, "place": np.array([np.nan], np.float32)}
        return seen, reward, terminated, truncated, info


class Endless(PointMass):
    def step(self, action: Any) -> Any:
        seen, reward, terminated, _, info = super().step(action)
        return seen, reward, terminated, False, info


@pytest.mark.parametrize("mode", [*AutoresetMode, None], ids=lambda m: m.name if m else "threads")
def test_a_last_observation_that_is_none_ends_it(mode: AutoresetMode | None) -> None:
    """Of the second of three environments, the first of those whose episodes are cut off."""
    envs = [Endless(), LastSpoilt(), PointMass()]
    makers = iter(envs)
    made: Any = (
        SyncVectorEnv([partial(envs.__getitem__, i) for i in range(3)], autoreset_mode=mode)
        if mode is not None
        else ThreadedVectorEnv(lambda: next(makers), 3, 2)
    )
    batch = Vector(made, CPU, seed=0)
    collected: list[int] = []
    with pytest.raises(EnvironmentFailure, match="environment 1 .*'place'"):
        for _ in range(20):
            collected.append(play(batch, envs[0], 3, 1)[1])
    batch.close()
    assert collected[0] == 0 and len(collected) == 16  # all of the episode's steps but the last


def test_env_workers_hand_on_whole_episodes_though_one_crashes(tmp_path: Path) -> None:
    """The point's way is a chain: each observation follows from the one before and the action."""
    env = PointMass()
    nets = networks(env, PqlConfig(num_envs=4, replay_size=10_000))
    layout, actions = nets.policy.obs_layout, nets.policy.action_layout
    pool = WorkerPool(partial(PointMass, tmp_path / "crashed"), layout, actions, 4, (0, 0), envs_per_worker=2)
    workers = Workers(pool, 4, 2, CPU)
    try:
        collected, steps = play(workers, env, 4, 200)
        assert workers.restarts == 1
        assert steps == sum(int((r.kind != LAST).sum()) for r in collected)
        # All that was played, but what a dead worker and those under way have not told.
        assert workers.busy()[1] - 4 <= steps <= workers.busy()[1]
    finally:
        workers.close()
    place = [layout.name_at(column) for column in range(layout.floats)].index("place")
    for number in range(4):
        slots = records_of(collected, number)
        since = 0
        for (seen, action, reward, kind), (following, *_) in zip(slots, slots[1:], strict=False):
            if kind == LAST:
                since = 0
                continue
            since += 1
            after = seen[0][place] + 0.2 * action[0]
            assert following[0][place] == pytest.approx(after, abs=1e-5)  # of the next step, or a LAST
            assert reward == pytest.approx(-abs(after), abs=1e-5) or reward == pytest.approx(
                -abs(after) - 0.5, abs=1e-5
            )
            assert since <= 16
