"""n-step transitions against a naive twin that goes through the episodes; nothing invented, nothing left out."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

from hab.observation_sets import CRITIC_KEYS, LASER
from pql_core.replay import LAST, STEP, TERMINATED, Batch, NothingStored, Records, Replay, StateBuffer, half_columns
from skills import task_class
from ver_core.spaces import ObsLayout

SPACE = spaces.Box(-np.inf, np.inf, (2,))
LAYOUT = ObsLayout(SPACE)
CPU = torch.device("cpu")
NONE = torch.zeros(2, dtype=torch.bool)


@dataclass
class Slot:
    """A record; its observation is (environment, number), so that it can be told from all others."""

    env: int
    number: int
    reward: float
    kind: int


@dataclass
class Stream:
    """What N environments play, interleaved."""

    slots: list[Slot] = field(default_factory=list)

    def of(self, env: int) -> list[Slot]:
        return [slot for slot in self.slots if slot.env == env]


@st.composite
def streams(draw: st.DrawFn, envs: int = 3) -> Stream:
    """Episodes of any length that end in a terminal state, are cut off, or go on; environments of any speed."""
    stream, numbers = Stream(), [0] * envs
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    ending = draw(st.sampled_from([0.05, 0.3, 0.6]))
    speeds = rng.dirichlet(np.ones(envs))
    last_kind = [LAST] * envs
    for _ in range(draw(st.integers(1, 120))):
        env = int(rng.choice(envs, p=speeds))
        kind = STEP
        if rng.random() < ending:
            # A LAST can only follow a step.
            kind = int(rng.choice([TERMINATED, LAST])) if last_kind[env] == STEP else TERMINATED
        reward = 0.0 if kind == LAST else float(rng.normal())
        stream.slots.append(Slot(env, numbers[env], reward, kind))
        numbers[env] += 1
        last_kind[env] = kind
    return stream


def records(slots: list[Slot]) -> Records:
    return Records(
        torch.tensor([s.env for s in slots]),
        torch.tensor([[float(s.env), float(s.number)] for s in slots]),
        torch.zeros(len(slots), 0, dtype=torch.uint8),
        torch.tensor([[s.number * 0.5] for s in slots]),
        torch.tensor([s.reward for s in slots]),
        torch.tensor([s.kind for s in slots], dtype=torch.uint8),
    )


def naive(slots: list[Slot], oldest: int, n: int, gamma: float) -> dict[int, tuple[float, float, int | None]]:
    """Return for each step whose n-step return is known: it, the discount, and what it bootstraps from."""
    found: dict[int, tuple[float, float, int | None]] = {}
    for start in range(oldest, len(slots)):
        if slots[start].kind == LAST:
            continue
        total, weight = 0.0, 1.0
        for ahead in range(n + 1):
            if start + ahead == len(slots):
                break  # not known yet
            slot = slots[start + ahead]
            if ahead == n or slot.kind == LAST:
                found[start] = (total, weight, slot.number)
                break
            total += weight * slot.reward
            weight *= gamma
            if slot.kind == TERMINATED:
                found[start] = (total, 0.0, None)
                break
    return found


@settings(deadline=None, max_examples=60)
@given(streams(), st.integers(1, 4), st.integers(1, 40), st.sampled_from([6, 17, 64]))
def test_transitions_are_those_of_the_episodes(stream: Stream, n: int, block: int, length: int) -> None:
    gamma = 0.9
    replay = Replay(3, 3 * length, LAYOUT, 1, NONE, CPU)
    for first in range(0, len(stream.slots), block):
        replay.append(records(stream.slots[first : first + block]))
    assert replay.steps == sum(slot.kind != LAST for slot in stream.slots)
    known = {env: naive(own, max(0, len(own) - length), n, gamma) for env in range(3) if (own := stream.of(env))}
    torch.manual_seed(0)
    if not any(known.values()):
        with pytest.raises(NothingStored):
            replay.sample(4, n, gamma, 2)
        return
    batches = replay.sample(1000, n, gamma, 3)
    assert [len(one.returned) for one in batches] == [1000] * 3
    batch = Batch(*(torch.cat(columns) for columns in zip(*batches, strict=True)))
    drawn: dict[int, set[int]] = {0: set(), 1: set(), 2: set()}
    rows = zip(batch.floats, batch.action, batch.returned, batch.discount, batch.next_floats, strict=True)
    for floats, action, returned, discount, following in rows:
        env, number = int(floats[0]), int(floats[1])
        total, weight, successor = known[env][number]
        drawn[env].add(number)
        assert float(action) == number * 0.5
        assert float(returned) == pytest.approx(total, abs=1e-5)
        assert float(discount) == pytest.approx(weight, abs=1e-6)
        if successor is not None:
            assert following.tolist() == [env, successor]
    assert {(e, k) for e, numbers in drawn.items() for k in numbers} == {(e, k) for e in known for k in known[e]}


@settings(deadline=None, max_examples=40)
@given(streams(), st.sampled_from([6, 64]))
def test_states_are_answered_observations_each_as_likely(stream: Stream, length: int) -> None:
    replay = Replay(3, 3 * length, LAYOUT, 1, NONE, CPU)
    replay.append(records(stream.slots))
    stored = [(s.env, s.number) for env in range(3) for s in stream.of(env)[-length:] if s.kind != LAST]
    torch.manual_seed(0)
    draws = 200 * len(stored)
    drawn = Counter((int(env), int(number)) for env, number in replay.states(draws)[0])
    assert set(drawn) == set(stored)
    # Binomial, 200 +- 14 each: six deviations, as there are thousands of counts.
    assert all(abs(count - 200) < 6 * 200**0.5 for count in drawn.values())


def test_batches_of_one_draw_are_others() -> None:
    replay = Replay(1, 1000, LAYOUT, 1, NONE, CPU)
    replay.append(records([Slot(0, k, 0.0, STEP) for k in range(1000)]))
    first, second, third = (set(batch.floats[:, 1].tolist()) for batch in replay.sample(16, 1, 0.9, 3))
    assert len(first | second | third) > 36  # 48 of 999 with replacement; with two the same, 32 at most


def test_states_without_an_answered_observation_are_refused() -> None:
    replay = Replay(2, 8, LAYOUT, 1, NONE, CPU)
    with pytest.raises(NothingStored):
        replay.states(1)
    replay.append(records([Slot(0, 0, 0.0, LAST)]))
    with pytest.raises(NothingStored):
        replay.states(1)


@settings(deadline=None, max_examples=30)
@given(streams(), st.sampled_from([6, 64]))
def test_slots_are_kept_in_order_and_survive_a_snapshot(stream: Stream, length: int) -> None:
    replay, again = (Replay(3, 3 * length, LAYOUT, 1, NONE, CPU) for _ in range(2))
    replay.append(records(stream.slots))
    assert again.restore(replay.snapshot())
    closed = 0
    for kept in (replay, again):
        for env in range(3):
            slots = stream.of(env)[-length:]
            if kept is again and slots and slots[-1].kind == STEP:  # its successor will never be told
                slots, closed = [*slots[:-1], replace(slots[-1], kind=LAST)], closed + 1
            expected = records(slots) if slots else None
            found = kept.steps_in_order(env)
            assert len(found.env) == (len(expected.env) if expected else 0)
            if expected:
                for got, wanted in zip(found, expected, strict=True):
                    assert torch.equal(got, wanted)
    assert again.steps == replay.steps - closed
    states = StateBuffer(10_000, LAYOUT, NONE, CPU)
    states.restore(replay.snapshot())
    answered = sorted((s.env, s.number) for e in range(3) for s in stream.of(e)[-length:] if s.kind != LAST)
    assert states.count == len(answered)
    if answered:
        floats, _ = states.states(2000)
        assert {(int(e), int(k)) for e, k in floats} == set(answered)


def test_a_snapshot_of_other_environments_or_of_a_ring_that_went_round_is_refused() -> None:
    small, large = Replay(2, 8, LAYOUT, 1, NONE, CPU), Replay(2, 40, LAYOUT, 1, NONE, CPU)
    small.append(records([Slot(0, k, 0.0, STEP) for k in range(3)]))
    assert large.restore(small.snapshot())  # nothing overwritten: it fits into a longer ring
    small.append(records([Slot(0, k, 0.0, STEP) for k in range(3, 9)]))
    assert not large.restore(small.snapshot())
    assert not Replay(4, 16, LAYOUT, 1, NONE, CPU).restore(small.snapshot())


@settings(deadline=None, max_examples=30)
@given(streams(), st.integers(1, 30), st.integers(1, 30))
def test_the_state_buffer_holds_the_last_answered_observations(stream: Stream, size: int, block: int) -> None:
    states = StateBuffer(size, LAYOUT, NONE, CPU)
    for first in range(0, len(stream.slots), block):
        states.append(records(stream.slots[first : first + block]))
    answered = [(s.env, s.number) for s in stream.slots if s.kind != LAST]
    assert states.count == len(answered)
    if answered:
        floats, _ = states.states(1000)
        assert {(int(e), int(k)) for e, k in floats} == set(answered[-size:])


def test_what_is_bounded_is_kept_in_half_precision_in_its_own_columns() -> None:
    box: dict[str, spaces.Space[Any]] = {
        "far": spaces.Box(-np.inf, np.inf, (2,)),
        "near": spaces.Box(0.0, 1.0, (3,)),
        "image": spaces.Box(0, 255, (2, 2, 1), np.uint8),
        "wide": spaces.Box(-100.0, 100.0, (1,)),
    }
    space = spaces.Dict(box)
    layout = ObsLayout(space)
    half = half_columns(space, layout, [])
    names = [layout.name_at(column) for column in range(layout.floats)]
    assert {name for name, is_half in zip(names, half, strict=True) if is_half} == {"near"}
    replay = Replay(1, 8, layout, 1, half, CPU)
    rng = np.random.default_rng(0)
    floats = torch.from_numpy(rng.normal(size=(5, layout.floats)).astype(np.float32))
    bytes_ = torch.from_numpy(rng.integers(0, 256, (5, 4)).astype(np.uint8))
    zeros = torch.zeros(5)
    replay.append(Records(zeros.long(), floats, bytes_, zeros[:, None], zeros, zeros.to(torch.uint8)))
    found = replay.steps_in_order(0)
    assert torch.equal(found.floats[:, ~half], floats[:, ~half])
    assert torch.equal(found.floats[:, half], floats[:, half].half().float())
    assert torch.equal(found.bytes, bytes_)


def test_five_million_steps_of_pick_fit_into_memory() -> None:
    """On `laser`, for the policy alone and with what only the critic reads: the figures of docs/pql.md."""
    task = task_class("pick")
    seen = task.observed_space(LASER)
    critic = {key: spaces.Box(-np.inf, np.inf, (size,)) for key, size in zip(CRITIC_KEYS, (32, 8), strict=True)}
    for space, most_gb in ((seen, 1.7), (spaces.Dict({**seen.spaces, **critic}), 2.5)):
        layout = ObsLayout(space)
        replay = Replay(4096, 5_000_000, layout, 10, half_columns(space, layout, []), torch.device("meta"))
        assert replay.nbytes < most_gb * 1e9
