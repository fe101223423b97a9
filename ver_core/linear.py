"""A linear layer that learns at the speed of a processor's wide vector units."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable

FEWEST_ROWS = 64
"""With fewer, oneDNN's preparations cost more time than they save."""
_HAS_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")


class Linear(nn.Linear):
    """`nn.Linear`, with oneDNN's products of matrices in float32 on a processor, both ways.

    MKL, which torch multiplies with, keeps to half-width vectors on processors that are not Intel's (torch 2.13).
    """

    def forward(self, rows: Tensor) -> Tensor:
        """Return (n, out_features) of rows (n, in_features)."""
        known = _HAS_ONEDNN and not rows.is_cuda and rows.dtype == self.weight.dtype == torch.float32
        if not known or len(rows) < FEWEST_ROWS:
            return super().forward(rows)
        out: Tensor = _OneDnn.apply(rows, self.weight, self.bias)
        return out


class _OneDnn(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        ctx.save_for_backward(rows, weight)
        return _product(rows, weight, bias)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor) -> tuple[Tensor | None, Tensor, Tensor]:
        rows, weight = ctx.saved_tensors
        d_rows = _product(d_out, weight.t()) if ctx.needs_input_grad[0] else None
        return d_rows, _product(d_out.t(), rows.t()), d_out.sum(0)


def _product(rows: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Return rows (n, inputs) times the transpose of weight (outputs, inputs), plus bias (outputs,)."""
    out: Tensor = torch.ops.mkldnn._linear_pointwise(rows, weight, bias, "none", [], "")
    return out
