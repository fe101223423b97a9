"""Products of matrices in float32 at the speed of a processor's wide vector units.

MKL, which torch multiplies with, keeps to 256-bit vectors on processors that are not Intel's (torch 2.13); oneDNN,
which torch has, too, does not. Shapes: n rows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

FEWEST_ROWS = 64
"""With fewer, oneDNN's preparations cost more time than they save."""
SMALLEST_PACKED = 2**15
"""Entries of a weight matrix; the same."""
WIDE_VECTORS = torch.backends.cpu.get_cpu_capability() == "AVX512"
"""Whether the processor has any wider; where it has not, MKL learns an eighth faster."""
_HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


def linear_tanh(layer: nn.Linear, rows: Tensor) -> Tensor:
    """Return tanh(layer(rows)), (n, outputs) of (n, inputs)."""
    fits = WIDE_VECTORS and _HAS_ONEDNN and not rows.is_cuda and rows.dtype == layer.weight.dtype == torch.float32
    if not fits or len(rows) < FEWEST_ROWS:
        return layer(rows).tanh()
    out: Tensor = _LinearTanh.apply(rows, layer.weight, layer.bias)
    return out


class Packed:
    """A linear layer for inference on a processor, its weights (outputs, inputs) laid out as they are read."""

    def __init__(self, weight: Tensor, bias: Tensor) -> None:
        self._bias = bias.detach().clone()
        self._packed = _HAS_ONEDNN and weight.numel() >= SMALLEST_PACKED
        if self._packed:
            self._weight = torch.ops.mkldnn._reorder_linear_weight(weight.detach(), 16)
        else:
            self._weight = weight.detach().t().clone(memory_format=torch.contiguous_format)

    def __call__(self, rows: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return (n, outputs) of (n, inputs)."""
        given = torch.from_numpy(rows)
        if self._packed:
            out = _product(given, self._weight, self._bias)
        else:
            out = torch.addmm(self._bias, given, self._weight)
        found: NDArray[np.float32] = out.numpy()
        return found


class _LinearTanh(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        out = _product(rows, weight, bias, "tanh")
        ctx.save_for_backward(rows, weight, out)
        return out

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        rows, weight, out = ctx.saved_tensors
        d_sums = torch.ops.aten.tanh_backward(d_out, out)
        d_rows = _product(d_sums, weight.t()) if ctx.needs_input_grad[0] else None
        return d_rows, _product(d_sums.t(), rows.t()), d_sums.sum(0)


def _product(rows: Tensor, weight: Tensor, bias: Tensor | None = None, after: str = "none") -> Tensor:
    """Return after(rows (n, inputs) times the transpose of weight (outputs, inputs), plus bias (outputs,))."""
    out: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, after, [], "")
    return out
