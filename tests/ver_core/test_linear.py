"""Linear layers by oneDNN against torch's own, in double precision."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from ver_core.linear import FEWEST_ROWS, Packed, linear_tanh


@pytest.mark.parametrize("rows", [1, FEWEST_ROWS - 1, FEWEST_ROWS, 300])
@pytest.mark.parametrize("needs_input", [False, True])
@pytest.mark.parametrize("wide", [False, True])
def test_outputs_and_gradients_are_those_of_the_library(
    rows: int, needs_input: bool, wide: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On processors with wide vectors and on others, whichever this one is."""
    monkeypatch.setattr("ver_core.linear.WIDE_VECTORS", wide)
    torch.manual_seed(rows)
    layer = nn.Linear(37, 21)
    exact = nn.Linear(37, 21, dtype=torch.float64)
    exact.load_state_dict(layer.state_dict())
    given, weight = torch.randn(rows, 37), torch.randn(rows, 21)
    results = []
    for one, out in ((layer, linear_tanh), (exact, lambda layer, inputs: torch.tanh(layer(inputs)))):
        inputs = given.to(one.weight.dtype, copy=True).requires_grad_(needs_input)
        outputs = out(one, inputs)
        (weight * outputs).sum().backward()
        assert (inputs.grad is not None) == needs_input
        results.append([outputs, one.weight.grad, one.bias.grad, *([inputs.grad] if needs_input else [])])
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=2e-5)


def test_double_precision_stays_so() -> None:
    layer, rows = nn.Linear(5, 4, dtype=torch.float64), torch.randn(FEWEST_ROWS, 5, dtype=torch.float64)
    assert torch.autograd.gradcheck(lambda inputs: linear_tanh(layer, inputs), [rows.requires_grad_()])


@pytest.mark.parametrize("outputs", [1, 7, 512])  # the last is large enough to be packed
@pytest.mark.parametrize("rows", [1, 8, 33])
@torch.inference_mode()
def test_packed_layers_are_copies_that_compute_the_same(outputs: int, rows: int) -> None:
    torch.manual_seed(0)
    layer, given = nn.Linear(96, outputs), torch.randn(rows, 96)
    packed = Packed(layer.weight, layer.bias)
    expected = (given.double() @ layer.weight.double().t() + layer.bias.double()).numpy()
    layer.weight.data.fill_(9.0)
    layer.bias.data.fill_(9.0)
    found = packed(given.numpy())
    assert found.dtype == np.float32
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)
