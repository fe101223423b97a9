"""The LSTM over packed rows on a processor, against nn.LSTM's own handling of them (which CUDA uses)."""

from __future__ import annotations

import subprocess
import sys

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from ver_core import recurrence
from ver_core.recurrence import blocked_lstm, packed_lstm, run_lstm

# Up to three blocks, and more sequences than are padded to by one.
LENGTHS = st.lists(st.integers(1, 3 * recurrence.STEPS), min_size=1, max_size=11).map(
    lambda lengths: sorted(lengths, reverse=True)
)


def packed_sizes(lengths: list[int]) -> Tensor:
    return torch.tensor([sum(length > t for length in lengths) for t in range(max(lengths))])


@settings(deadline=None, max_examples=30)
@given(lengths=LENGTHS, layers=st.integers(1, 2), seed=st.integers(0, 99))
def test_outputs_states_and_gradients_are_those_of_the_library(lengths: list[int], layers: int, seed: int) -> None:
    torch.manual_seed(seed)
    lstm = nn.LSTM(6, 7, layers)
    rows, states = torch.randn(sum(lengths), 6), torch.randn(2, layers, len(lengths), 7)
    weight = torch.randn(sum(lengths), 7)
    results = []
    for way in (packed_lstm, blocked_lstm):
        inputs = [rows.clone().requires_grad_(), *(state.clone().requires_grad_() for state in states)]
        lstm.zero_grad()
        out = way(lstm, *inputs, packed_sizes(lengths))
        out = out[0] if isinstance(out, tuple) else out
        (weight * out).sum().backward()
        gradients = [tensor.grad.clone() for tensor in (*inputs, *lstm.parameters()) if tensor.grad is not None]
        assert len(gradients) == 3 + 4 * layers
        results.append([out, *gradients])
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, atol=2e-5, rtol=1e-5)


class Blocked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.lstm = nn.LSTM(2, 3, 2)

    def forward(self, rows: Tensor, h: Tensor, c: Tensor) -> Tensor:
        return blocked_lstm(self.lstm, rows, h, c, packed_sizes([4, 2, 2, 1]))


@pytest.mark.parametrize("steps", [2, 3, 16])
def test_gradients_are_those_of_finite_differences(steps: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recurrence, "STEPS", steps)
    torch.manual_seed(0)
    module = Blocked().double()
    names = [name for name, _ in module.named_parameters()]
    inputs = [torch.randn(*shape, dtype=torch.float64) for shape in ((9, 2), (2, 4, 3), (2, 4, 3))]

    def run(rows: Tensor, h: Tensor, c: Tensor, *parameters: Tensor) -> Tensor:
        return torch.func.functional_call(module, dict(zip(names, parameters, strict=True)), (rows, h, c))

    given = [*inputs, *(parameter.detach().clone() for parameter in module.parameters())]
    assert torch.autograd.gradcheck(run, [tensor.requires_grad_() for tensor in given])


@pytest.mark.parametrize("count", [*range(1, 70), 1000])
def test_padding_stays_below_a_quarter_and_takes_few_widths(count: int) -> None:
    assert count <= recurrence._rounded(count) < 1.25 * count
    assert len({recurrence._rounded(fewer) for fewer in range(1, count + 1)}) <= 4 * (count.bit_length())


def test_after_several_steps_there_is_no_state_to_go_on_from() -> None:
    lstm, rows, state = nn.LSTM(3, 4, 2), torch.randn(5, 3), torch.randn(3, 16)
    assert run_lstm(lstm, rows, state, torch.tensor([3, 2]))[1].shape == (0, 16)
    assert run_lstm(lstm, rows[:3], state, torch.tensor([3]))[1].shape == (3, 16)


SHAPES = """
import psutil, torch
from torch import nn
from ver_core.recurrence import run_lstm

def held(first, last):
    for length in range(first, last):  # as many shapes
        sizes = torch.tensor([16] * length + [8] * length)
        state = torch.zeros(16, 256)
        run_lstm(lstm, torch.zeros(int(sizes.sum()), 128), state, sizes)[0].sum().backward()
    return psutil.Process().memory_info().rss

lstm = nn.LSTM(128, 128)
before = held(55, 65)
print((held(1, 65) - before) / 2**20)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="what a process holds is counted in its own way elsewhere")
def test_each_new_shape_does_not_take_memory_for_good() -> None:
    """The library's way for sequences of equal length kept code for each shape; a rollout has dozens of new ones."""
    said = subprocess.run([sys.executable, "-c", SHAPES], capture_output=True, text=True, check=True).stdout
    assert float(said) < 15.0
