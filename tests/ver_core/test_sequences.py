"""Sequences, packing and mini-batches, against step-by-step references and torch's own packing."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch.nn.utils.rnn import pack_sequence

from ver_core.sequences import Packed, Sequences, find_sequences, mini_batches, pack, split

Rollout = tuple[NDArray[np.int64], NDArray[np.bool_]]


@st.composite
def rollouts(draw: st.DrawFn, min_size: int = 1, factor: int = 1) -> Rollout:
    """Draw env (n,) and start (n,) of an interleaving of environments; n is a multiple of `factor`."""
    rows = draw(st.lists(st.tuples(st.integers(0, 5), st.booleans() | st.just(False)), min_size=min_size, max_size=40))
    rows = rows * factor
    return np.array([env for env, _ in rows], dtype=np.int64), np.array([start for _, start in rows], dtype=bool)


def naive_sequences(env: NDArray[np.int64], start: NDArray[np.bool_]) -> list[list[int]]:
    """Follow the rollout row by row."""
    sequences: list[list[int]] = []
    current: dict[int, list[int]] = {}
    for row, (which, first) in enumerate(zip(env.tolist(), start.tolist(), strict=True)):
        if first or which not in current:
            current[which] = []
            sequences.append(current[which])
        current[which].append(row)
    return sequences


def as_lists(sequences: Sequences) -> list[list[int]]:
    assert sequences.lengths.sum() == len(sequences.order)
    return [part.tolist() for part in np.split(sequences.order, np.cumsum(sequences.lengths)[:-1])]


def columns(packed: Packed) -> list[list[int]]:
    """Read the sequences back out of the packed layout, time step by time step."""
    assert packed.batch_sizes.sum() == len(packed.rows)
    found: list[list[int]] = [[] for _ in range(packed.batch_sizes[0])]
    begin = 0
    for size in packed.batch_sizes.tolist():
        for column, row in zip(found[:size], packed.rows[begin : begin + size].tolist(), strict=True):
            column.append(row)
        begin += size
    return found


@settings(deadline=None)
@given(rollouts())
def test_sequences_are_those_of_a_walk_through_the_rollout(rollout: Rollout) -> None:
    env, start = rollout
    found = as_lists(find_sequences(env, start))
    assert sorted(found) == sorted(naive_sequences(env, start))
    assert [env[part[0]] for part in found] == sorted(env[part[0]] for part in found)
    assert len(found) >= len(set(env.tolist()))  # K >= N


def test_a_rollout_that_begins_and_ends_within_episodes() -> None:
    #        env 0 goes on, ends, starts anew; env 1 starts; env 2 just goes on
    env = np.array([0, 1, 0, 2, 0, 1, 0])
    start = np.array([0, 1, 0, 0, 1, 0, 0], dtype=bool)
    assert as_lists(find_sequences(env, start)) == [[0, 2], [4, 6], [1, 5], [3]]


def test_an_empty_rollout_has_no_sequences() -> None:
    sequences = find_sequences(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=bool))
    assert len(sequences.order) == len(sequences.lengths) == 0
    packed = pack(sequences)
    assert len(packed.rows) == len(packed.batch_sizes) == len(packed.heads) == 0


@settings(deadline=None)
@given(rollouts())
def test_packing_is_that_of_torch(rollout: Rollout) -> None:
    sequences = find_sequences(*rollout)
    packed = pack(sequences)
    by_length = sorted(as_lists(sequences), key=len, reverse=True)  # stable
    expected = pack_sequence([torch.tensor(part) for part in by_length])
    assert packed.rows.tolist() == expected.data.tolist()
    assert packed.batch_sizes.tolist() == expected.batch_sizes.tolist()
    assert packed.heads.tolist() == [part[0] for part in by_length]
    assert packed.rows.dtype == packed.batch_sizes.dtype == np.int64


@settings(deadline=None)
@given(rollouts(), st.integers(1, 9))
def test_pieces_are_what_slicing_gives(rollout: Rollout, longest: int) -> None:
    sequences = find_sequences(*rollout)
    expected = [part[i : i + longest] for part in as_lists(sequences) for i in range(0, len(part), longest)]
    assert as_lists(split(sequences, longest)) == expected
    assert split(sequences, 0) is sequences


@settings(deadline=None)
@given(st.data(), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_mini_batches_deal_out_whole_sequences_but_for_the_cuts(data: st.DataObject, count: int, seed: int) -> None:
    env, start = data.draw(rollouts(factor=count))
    size = len(env) // count
    batches = mini_batches(find_sequences(env, start), count, np.random.default_rng(seed))
    assert [len(batch.rows) for batch in batches] == [size] * count
    assert sorted(row for batch in batches for row in batch.rows.tolist()) == list(range(len(env)))

    whole = naive_sequences(env, start)
    sequence_of = {row: number for number, part in enumerate(whole) for row in part}
    pieces = [column for batch in batches for column in columns(batch)]
    for piece in pieces:
        part = whole[sequence_of[piece[0]]]
        begin = part.index(piece[0])
        assert piece == part[begin : begin + len(piece)]  # contiguous in time, one environment, one episode
    assert len(pieces) - len(whole) <= count - 1  # every cut splits at most one sequence


def test_mini_batches_must_divide_the_rollout() -> None:
    sequences = find_sequences(np.array([0, 1, 0, 1]), np.zeros(4, dtype=bool))
    with pytest.raises(ValueError, match="4 steps do not divide into 3"):
        mini_batches(sequences, 3, np.random.default_rng(0))


def test_sequences_are_dealt_out_evenly_at_random() -> None:
    sequences = find_sequences(np.arange(4), np.ones(4, dtype=bool))
    dealt: Counter[tuple[int, int]] = Counter()
    for seed in range(400):
        for place, batch in enumerate(mini_batches(sequences, 4, np.random.default_rng(seed))):
            dealt[place, int(batch.rows[0])] += 1
    assert len(dealt) == 16
    assert all(60 <= times <= 140 for times in dealt.values())  # 100 expected, 4.6 standard deviations


def test_the_split_sequence_is_in_any_mini_batch() -> None:
    """Three sequences of two steps in two mini-batches: one holds a second part, without its first."""
    env, start = np.array([0, 0, 1, 1, 2, 2]), np.array([1, 0, 1, 0, 1, 0], dtype=bool)
    where: Counter[int] = Counter()
    for seed in range(100):
        batches = mini_batches(find_sequences(env, start), 2, np.random.default_rng(seed))
        beheaded = [place for place, batch in enumerate(batches) if not start[batch.heads].all()]
        assert len(beheaded) == 1
        where.update(beheaded)
    assert min(where[0], where[1]) >= 30


def test_the_generator_alone_decides() -> None:
    sequences = find_sequences(np.arange(60) % 7, np.arange(60) % 5 == 0)
    first, again, other = (
        [batch.rows.tolist() for batch in mini_batches(sequences, 3, np.random.default_rng(seed))] for seed in (1, 1, 2)
    )
    assert first == again != other
