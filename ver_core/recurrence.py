"""Runs an LSTM over packed rows, for collecting (a step of several environments) and for learning (whole sequences).

Shapes: n rows, k sequences (k <= n), H units.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence

STEPS = 16
"""Of a block. More: more padding where sequences end; fewer: more blocks, each of which costs time of its own."""


def run_lstm(lstm: nn.LSTM, rows: Tensor, state: Tensor, batch_sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Return the LSTM's output (n, H) for packed rows (n, inputs), and its states after a single step.

    `state` is (k, 2 * layers * H), `batch_sizes` as in a `PackedSequence`. After several steps nobody goes on from the
    states, and they are (0, 2 * layers * H).
    """
    single = len(batch_sizes) == 1
    if single and not rows.is_cuda:
        return _one_step(lstm, rows, state)
    k = state.shape[0]
    # nn.LSTM wants (layers, k, units), and cuDNN wants that contiguous.
    h, c = state.reshape(k, 2, lstm.num_layers, lstm.hidden_size).permute(1, 2, 0, 3).contiguous()
    if not rows.is_cuda:
        return blocked_lstm(lstm, rows, h, c, batch_sizes), state[:0]
    features, h, c = packed_lstm(lstm, rows, h, c, batch_sizes)
    return features, torch.stack((h, c)).permute(2, 0, 1, 3).reshape(k, -1) if single else state[:0]


def packed_lstm(
    lstm: nn.LSTM, rows: Tensor, h: Tensor, c: Tensor, batch_sizes: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """cuDNN's way, for single steps, too: it rounds in its own way, so collecting has to use it as learning does.

    Returns outputs (n, H), and h and c (layers, k, H) after each sequence's last step.
    """
    packed, (h, c) = lstm(PackedSequence(rows, batch_sizes), (h, c))  # without sorted_indices nothing is sorted
    return packed.data, h, c


def blocked_lstm(lstm: nn.LSTM, rows: Tensor, h: Tensor, c: Tensor, batch_sizes: Tensor) -> Tensor:
    """Return the same outputs on a processor: blocks of some steps, in which all sequences are padded to one length.

    oneDNN runs such a block, both ways, at three times the speed of single steps, and nn.LSTM runs packed rows one by
    one. But oneDNN compiles, and keeps, code for each shape that it meets: all blocks have as many steps, and few
    different numbers of sequences.
    """
    sizes = batch_sizes.numpy()
    firsts = np.arange(0, len(sizes), STEPS)
    widths = np.array([_rounded(size) for size in sizes[firsts].tolist()])
    begins = np.append(0, np.cumsum(STEPS * widths))
    # Where each step's first row lies among the padded ones, and so where each row does.
    block, step = np.divmod(np.arange(len(sizes)), STEPS)
    offsets = begins[block] + step * widths[block] - (np.cumsum(sizes) - sizes)
    place = torch.from_numpy(np.repeat(offsets, sizes) + np.arange(len(rows)))
    padded = _Spread.apply(rows, place, int(begins[-1]))
    short = (0, 0, 0, int(widths[0]) - h.shape[1])
    h, c = nn.functional.pad(h, short), nn.functional.pad(c, short)
    out = []
    for width, inputs in zip(widths.tolist(), padded.split((STEPS * widths).tolist()), strict=True):
        # Sequences that have ended go on with zeros, and nobody looks at what comes of it.
        states = h[:, :width].contiguous(), c[:, :width].contiguous()
        outputs, (h, c) = lstm(inputs.view(STEPS, width, -1), states)
        out.append(outputs.view(STEPS * width, -1))
    return _Take.apply(torch.cat(out), place)


def _rounded(count: int) -> int:
    """Round up to 1, 2, … 8, 10, 12, 14, 16, 20, 24, 28, 32, 40, …: by less than a quarter."""
    unit = 2 ** max(0, (count - 1).bit_length() - 3)
    return -(-count // unit) * unit


def _one_step(lstm: nn.LSTM, rows: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """One step without nn.LSTM's preparations, which cost more than half of the time on a processor."""
    h, c = state.reshape(len(state), 2, lstm.num_layers, lstm.hidden_size).unbind(1)
    after_h, after_c = [], []
    for layer, (w_input, w_hidden, b_input, b_hidden) in enumerate(lstm.all_weights):
        rows, cell = torch.lstm_cell(rows, (h[:, layer], c[:, layer]), w_input, w_hidden, b_input, b_hidden)
        after_h.append(rows)
        after_c.append(cell)
    return rows, torch.cat(after_h + after_c, dim=1)


class _Spread(torch.autograd.Function):
    """Rows (n, F) at their places (n,), all different, among `total` rows; the others are zeros.

    Autograd's own way back from `_Take` adds row by row, since it cannot know that no place occurs twice.
    """

    @staticmethod
    def forward(ctx: Any, rows: Tensor, place: Tensor, total: int) -> Tensor:
        ctx.save_for_backward(place)
        return rows.new_zeros((total, rows.shape[1])).index_copy_(0, place, rows)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_spread: Tensor) -> tuple[Tensor, None, None]:
        (place,) = ctx.saved_tensors
        return d_spread.index_select(0, place), None, None


class _Take(torch.autograd.Function):
    """The rows (n, F) at places (n,), all different: the reverse of `_Spread`."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, place: Tensor) -> Tensor:
        ctx.save_for_backward(place)
        ctx.total = len(rows)
        return rows.index_select(0, place)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_rows: Tensor) -> tuple[Tensor, None]:
        (place,) = ctx.saved_tensors
        return d_rows.new_zeros((ctx.total, d_rows.shape[1])).index_copy_(0, place, d_rows), None
