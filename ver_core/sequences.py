"""A rollout's steps as sequences for back-propagation through time, and as mini-batches of packed sequences.

A rollout is a linear buffer of n rows (steps) in the order in which they were completed, whichever environment they
came from; the rows of one environment are in time order. Wijmans et al. 2022 (VER), section 2.2 and figure 3.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Sequences:
    """Runs of consecutive steps of one environment within one episode."""

    order: NDArray[np.int64]
    """(n,) buffer rows, sequence after sequence, each in time order."""
    lengths: NDArray[np.int64]
    """(K,) steps of each sequence, all positive."""


@dataclass(frozen=True)
class Packed:
    """Sequences in the layout of torch's PackedSequence: all first steps, then all second steps, and so on."""

    rows: NDArray[np.int64]
    """(m,) buffer rows; within a time step the sequences come by decreasing length (those of equal length as given)."""
    batch_sizes: NDArray[np.int64]
    """(L,) how many sequences have a first, second, … step."""

    @property
    def heads(self) -> NDArray[np.int64]:
        """Return the (k,) rows of the sequences' first steps: their recurrent states are the ones to start from."""
        return self.rows[: self.batch_sizes[:1].sum()]


def find_sequences(env: NDArray[np.integer], start: NDArray[np.bool_]) -> Sequences:
    """Cut a rollout, env (n,) and start (n,) (first step of an episode), into its K sequences.

    One begins at each environment's first row and at each episode's start.
    """
    order = np.argsort(env, kind="stable")
    by_env = env[order]
    begins = np.asarray(start, dtype=bool)[order]
    begins[:1] = True
    begins[1:] |= by_env[1:] != by_env[:-1]
    return Sequences(order.astype(np.int64), np.diff(np.flatnonzero(begins), append=len(order)).astype(np.int64))


def split(sequences: Sequences, longest: int) -> Sequences:
    """Cut sequences into pieces of `longest` steps, the last piece of each being what is left; 0: leave them whole.

    A piece starts from the recurrent state that is stored with its own first row, and no gradient flows out of it.
    """
    if longest == 0:
        return sequences
    pieces = -(-sequences.lengths // longest)
    lengths = np.full(pieces.sum(), longest)
    lengths[np.cumsum(pieces) - 1] = sequences.lengths - (pieces - 1) * longest
    return Sequences(sequences.order, lengths)


def pack(sequences: Sequences) -> Packed:
    """Lay sequences out time step by time step."""
    lengths = sequences.lengths
    by_length = np.argsort(-lengths, kind="stable")
    rank = np.empty_like(by_length)
    rank[by_length] = np.arange(len(lengths))
    steps = np.arange(lengths.max(initial=0))
    batch_sizes = len(lengths) - np.searchsorted(lengths[by_length[::-1]], steps, side="right")
    # The sequences that have a step t are just the first batch_sizes[t] by rank, so a row's place needs no sorting.
    step_begins = np.cumsum(batch_sizes) - batch_sizes
    step = np.arange(len(sequences.order)) - np.repeat(_begins(lengths), lengths)
    rows = np.empty_like(sequences.order)
    rows[step_begins[step] + np.repeat(rank, lengths)] = sequences.order
    return Packed(rows, batch_sizes.astype(np.int64))


def mini_batches(sequences: Sequences, count: int, rng: np.random.Generator) -> list[Packed]:
    """Deal all steps out to `count` mini-batches of equal size, in random order.

    The shuffled sequences are cut into equal parts. A sequence that straddles a cut is split in two; its second part
    starts from the recurrent state that is stored with its own first row, and no gradient flows into the first part.
    ValueError if the steps do not divide into `count` equal parts.
    """
    total = len(sequences.order)
    if total % count:
        raise ValueError(f"{total} steps do not divide into {count} equal mini-batches")
    size = total // count
    shuffled = _shuffled(sequences, rng)
    begins = np.union1d(_begins(shuffled.lengths), np.arange(0, total, size))
    lengths = np.diff(begins, append=total)
    firsts = np.searchsorted(begins, np.arange(count + 1) * size)
    batches = [
        pack(Sequences(shuffled.order[i * size : (i + 1) * size], lengths[firsts[i] : firsts[i + 1]]))
        for i in range(count)
    ]
    # In the order of the cuts, the first mini-batch would never hold the second part of a split sequence, and the last
    # one never a first part.
    return [batches[i] for i in rng.permutation(count)]


def _begins(lengths: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the place of each sequence's first step in `order`."""
    return np.cumsum(lengths) - lengths


def _shuffled(sequences: Sequences, rng: np.random.Generator) -> Sequences:
    """Put the sequences, whole, in random order."""
    drawn = rng.permutation(len(sequences.lengths))
    lengths = sequences.lengths[drawn]
    shift = _begins(sequences.lengths)[drawn] - _begins(lengths)
    return Sequences(sequences.order[np.arange(len(sequences.order)) + np.repeat(shift, lengths)], lengths)
