"""The rollout's buffer: what is learnt from is fresh, or of the rollout before, and never older."""

from __future__ import annotations

import numpy as np
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ver_core.rollout import Rollout
from ver_core.shared_rows import Layout

N, T = 4, 5
CAPACITY = N * T


def write(rollout: Rollout, ids: list[int], piece: int) -> None:
    """Collect steps, a few at a time, each marked by its number in every kind of column."""
    rollout.clear()
    for start in range(0, len(ids), piece):
        part = np.array(ids[start : start + piece])
        rows = rollout.extend(len(part))
        rollout.reward[rows] = rollout.version[rows] = part
        rollout.env[rows] = part % N
        rollout.start[rows] = part % 7 == 0
        rollout.wide["floats"][rows] = torch.from_numpy(part).float()[:, None]
        rollout.wide["action"][rows] = torch.from_numpy(part).float()[:, None]


@settings(max_examples=200, deadline=None)
@given(
    counts=st.lists(st.integers(1, CAPACITY), min_size=1, max_size=8),
    piece=st.integers(1, 6),
    multiple_of=st.sampled_from([1, 2, 4, 5]),
)
def test_rows_are_the_fresh_ones_and_the_latest_of_the_rollout_before(
    counts: list[int], piece: int, multiple_of: int
) -> None:
    rollout = Rollout(Layout(N, 1, 0, 1), T, 0, torch.device("cpu"))
    before: list[int] = []
    steps = 0
    for count in counts:
        fresh = list(range(steps, steps + count))
        steps += count
        write(rollout, fresh, piece)
        room = CAPACITY - count
        stale = before[-room:] if room else []
        expected = sorted(stale + fresh)  # by age
        expected = expected[len(expected) % multiple_of :]

        rows = rollout.rows(multiple_of)
        assert sorted(rollout.reward[rows].astype(int).tolist()) == expected
        for column in (rollout.version, rollout.wide["floats"][:, 0].numpy(), rollout.wide["action"][:, 0].numpy()):
            np.testing.assert_array_equal(column[rows], rollout.reward[rows])
        np.testing.assert_array_equal(rollout.ages(rows), rollout.reward[rows] < fresh[0])

        found = rollout.sequences_of(rows)
        assert sorted(found.order.tolist()) == sorted(rows.tolist())
        for sequence in np.split(rollout.reward[found.order].astype(int), np.cumsum(found.lengths)[:-1]):
            # One environment's, in the order of time, from one episode of one rollout.
            assert (np.diff(sequence) == N).all() and (sequence[1:] % 7 != 0).all()
            assert (sequence >= fresh[0]).all() or (sequence < fresh[0]).all()
        before = fresh


def test_rollouts_that_are_always_preempted_hold_nothing_old() -> None:
    """With 80 % of each filled, a fifth of the rows used to be of the first rollout for ever."""
    rollout = Rollout(Layout(N, 1, 0, 1), T, 0, torch.device("cpu"))
    write(rollout, list(range(CAPACITY)), 3)
    for number in range(1, 201):
        write(rollout, list(range(100 * number, 100 * number + 16)), 3)
        rows = rollout.rows()
        assert len(rows) == CAPACITY and rollout.ages(rows).max() == 1
        assert rollout.reward[rows].min() >= 100 * (number - 1)


def test_what_is_discarded_is_never_learnt_from() -> None:
    rollout = Rollout(Layout(N, 1, 0, 1), T, 0, torch.device("cpu"))
    write(rollout, list(range(CAPACITY)), 4)
    rollout.discard()
    write(rollout, [50, 51, 52], 4)
    assert sorted(rollout.reward[rollout.rows()].tolist()) == [50, 51, 52]
