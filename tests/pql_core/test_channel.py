"""What the three processes share: nothing lost, nothing doubled, nothing torn."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.synchronize import Event

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from pql_core.channel import Bell, Ring, Slot
from pql_core.replay import Records

CPU = torch.device("cpu")
SIZE = 20_000


def numbered(first: int, n: int) -> Records:
    numbers = torch.arange(first, first + n)
    floats = numbers[:, None].float().repeat(1, 3)
    bytes_ = (numbers % 251)[:, None].to(torch.uint8)
    return Records(numbers, floats, bytes_, -floats[:, :1], 2.0 * numbers.float(), (numbers % 3).to(torch.uint8))


@settings(deadline=None, max_examples=80)
@given(st.lists(st.tuples(st.sampled_from(["write", "read 0", "read 1"]), st.integers(0, 25)), max_size=60))
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


def test_a_full_ring_lets_its_writer_give_up() -> None:
    ring = Ring(4, 3, 1, 1, CPU)
    assert not ring.write(numbered(0, 7), lambda: False)
    assert [records.env.tolist() for records in ring.read(0)] == [[0, 1, 2, 3]]


def publish(slot: Slot, enough: Event) -> None:
    version = 0
    while not enough.is_set():
        version += 1
        slot.publish([torch.full((SIZE // 2,), float(version)), torch.full((SIZE // 2,), float(version))])


def test_parameters_are_never_torn() -> None:
    slot, context = Slot(SIZE, torch.float32, CPU), multiprocessing.get_context("forkserver")
    enough = context.Event()
    writer = context.Process(target=publish, args=(slot, enough), daemon=True)
    writer.start()
    pieces, have, distinct = [torch.zeros(100), torch.zeros(SIZE - 100)], 0, 0
    while distinct < 50:
        new = slot.fetch(pieces, have)
        if new != have:
            assert new > have
            have, distinct = new, distinct + 1
            assert all(bool((piece == float(new)).all()) for piece in pieces)
        assert writer.is_alive()
    enough.set()
    writer.join()
    assert writer.exitcode == 0


def test_a_bell_that_was_rung_before_does_not_let_sleep() -> None:
    bell = Bell(multiprocessing.get_context("forkserver"))
    for _ in range(100_000):  # more than a pipe holds
        bell.ring()
    began = time.monotonic()
    bell.wait(600.0)
    assert time.monotonic() - began < 300.0
    for _ in range(3):
        bell.wait(0.01)  # and it can be used again
