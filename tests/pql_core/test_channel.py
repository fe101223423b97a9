"""What the three processes share: nothing lost, nothing doubled, nothing torn."""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pql_core.channel import Bell, Ring, Slot
from pql_core.replay import Records

CPU = torch.device("cpu")


def numbered(first: int, n: int) -> Records:
    numbers = torch.arange(first, first + n)
    floats = numbers[:, None].float().repeat(1, 3)
    bytes_ = (numbers % 251)[:, None].to(torch.uint8)
    return Records(numbers, floats, bytes_, -floats[:, :1], 2.0 * numbers.float(), (numbers % 3).to(torch.uint8))


@settings(deadline=None, max_examples=80)
@given(st.lists(st.tuples(st.sampled_from(["write", "read 0", "read 1"]), st.integers(0, 10)), max_size=60))
def test_each_reader_gets_every_record_once_and_in_order(orders: list[tuple[str, int]]) -> None:
    ring = Ring(10, 3, 1, 1, CPU)
    seen: list[list[int]] = [[], []]

    def read(reader: int) -> None:
        for records in ring.read(reader):
            first = int(records.env[0])
            for got, wanted in zip(records, numbered(first, len(records.env)), strict=True):
                assert torch.equal(got, wanted)
            seen[reader] += records.env.tolist()

    def make_room() -> bool:
        read(0), read(1)
        return True

    written = 0
    for what, n in orders:
        if what == "write":
            assert ring.write(numbered(written, n), make_room)
            written += n
        else:
            read(int(what[-1]))
    read(0), read(1)
    assert seen == [list(range(written))] * 2


def test_a_writer_who_gives_up_has_written_nothing() -> None:
    """Half a step of the environments would be steps without successors."""
    ring = Ring(4, 3, 1, 1, CPU)
    assert ring.write(numbered(0, 3), lambda: False)
    assert not ring.write(numbered(3, 2), lambda: False)
    assert [records.env.tolist() for records in ring.read(0)] == [[0, 1, 2]]
    assert not ring.write(numbered(3, 2), lambda: False)  # the other reader has not been there
    assert [records.env.tolist() for records in ring.read(1)] == [[0, 1, 2]]
    assert ring.write(numbered(3, 4), lambda: False)
    assert [records.env.tolist() for records in ring.read(0)] == [[3], [4, 5, 6]]


class Overtaken:
    """A slot's memory, whose first copy is overtaken half way by what the writer does meanwhile."""

    def __init__(self, rows: torch.Tensor, meanwhile: Callable[[], None]) -> None:
        self._rows, self._meanwhile, self._at = rows, [meanwhile], 0
        self.copies = 0

    def __getitem__(self, at: int) -> Overtaken:
        self._at = at
        return self

    def clone(self) -> torch.Tensor:
        self.copies += 1
        row = self._rows[self._at]
        first = row[:50].clone()
        if self._meanwhile:
            self._meanwhile.pop()()
        return torch.cat((first, row[50:]))


@pytest.mark.parametrize(
    ("published", "begun", "copies"), [(0, False, 1), (1, False, 1), (1, True, 2), (2, False, 2), (3, False, 2)]
)
def test_parameters_are_never_torn(published: int, begun: bool, copies: int) -> None:
    """While version 1 is read, others are published, and one more may be begun that writes to the same half."""
    slot = Slot(100, torch.float32, CPU)
    slot.publish([torch.full((100,), 1.0)])
    rows = slot._rows

    def meanwhile() -> None:
        for version in range(2, 2 + published):
            memory, slot._rows = slot._rows, rows
            slot.publish([torch.full((40,), float(version)), torch.full((60,), float(version))])
            slot._rows = memory
        if begun:
            slot._marks[0] += 1
            rows[1, 30:] = -1.0

    slot._rows = memory = Overtaken(rows, meanwhile)  # type: ignore[assignment]
    pieces = [torch.zeros(10), torch.zeros(90)]
    version = slot.fetch(pieces, 0)
    assert version == (1 if copies == 1 else 1 + published)
    assert all(bool((piece == float(version)).all()) for piece in pieces)
    assert memory.copies == copies


def test_what_is_there_already_is_not_fetched_again() -> None:
    slot = Slot(3, torch.float32, CPU)
    piece = torch.full((3,), 7.0)
    assert slot.fetch([piece], 0) == 0 and piece.tolist() == [7.0] * 3  # nothing is published yet
    slot.publish([torch.ones(3)])
    assert slot.fetch([piece], 0) == 1 and piece.tolist() == [1.0] * 3
    piece.fill_(7.0)
    assert slot.fetch([piece], 1) == 1 and piece.tolist() == [7.0] * 3


def test_a_bell_that_was_rung_before_does_not_let_sleep() -> None:
    bell = Bell(multiprocessing.get_context("forkserver"))
    for _ in range(100_000):  # more than a pipe holds
        bell.ring()
    began = time.monotonic()
    bell.wait(600.0)
    assert time.monotonic() - began < 300.0
    for _ in range(3):
        bell.wait(0.01)  # and it can be used again
