"""Runs an LSTM over packed rows, for collecting (a step of several environments) and for learning (whole sequences).

Shapes: n rows, k sequences (k <= n), H units.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.function import once_differentiable
from torch.nn.utils.rnn import PackedSequence

Recurred = tuple[Tensor, Tensor, Tensor]
"""Outputs (n, H), and h and c (layers, k, H) after each sequence's last step."""


def run_lstm(lstm: nn.LSTM, rows: Tensor, state: Tensor, batch_sizes: Tensor) -> tuple[Tensor, Tensor]:
    """Return the LSTM's output (n, H) for packed rows (n, inputs) and its states after each sequence.

    `state` is (k, 2 * layers * H), `batch_sizes` as in a `PackedSequence`.
    """
    if len(batch_sizes) == 1 and not rows.is_cuda:
        return _one_step(lstm, rows, state)
    k = state.shape[0]
    # nn.LSTM wants (layers, k, units), and cuDNN wants that contiguous.
    h, c = state.reshape(k, 2, lstm.num_layers, lstm.hidden_size).permute(1, 2, 0, 3).contiguous()
    features, h, c = (packed_lstm if rows.is_cuda else unrolled_lstm)(lstm, rows, h, c, batch_sizes)
    return features, torch.stack((h, c)).permute(2, 0, 1, 3).reshape(k, -1)


def packed_lstm(lstm: nn.LSTM, rows: Tensor, h: Tensor, c: Tensor, batch_sizes: Tensor) -> Recurred:
    """cuDNN's way, for single steps, too: it rounds in its own way, so collecting has to use it as learning does."""
    packed, (h, c) = lstm(PackedSequence(rows, batch_sizes), (h, c))  # without sorted_indices nothing is sorted
    return packed.data, h, c


def unrolled_lstm(lstm: nn.LSTM, rows: Tensor, h: Tensor, c: Tensor, batch_sizes: Tensor) -> Recurred:
    """The same on a processor.

    nn.LSTM's own handling of packed rows there writes a gradient for all rows at each step, and what it does for
    sequences of equal length compiles, and keeps, code for each of the first thousand shapes: some 200 MB (torch 2.13).
    """
    sizes = batch_sizes.tolist()
    ended_h, ended_c = [], []
    for layer, (w_input, w_hidden, b_input, b_hidden) in enumerate(lstm.all_weights):
        sums = torch.addmm(b_input + b_hidden, rows, w_input.t())
        rows, layer_h, layer_c = _Unrolled.apply(sums, w_hidden, h[layer], c[layer], sizes)
        ended_h.append(layer_h)
        ended_c.append(layer_c)
    return rows, torch.stack(ended_h), torch.stack(ended_c)


def _one_step(lstm: nn.LSTM, rows: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
    """One step without nn.LSTM's preparations, which cost more than half of the time on a processor."""
    h, c = state.reshape(len(state), 2, lstm.num_layers, lstm.hidden_size).unbind(1)
    after_h, after_c = [], []
    for layer, (w_input, w_hidden, b_input, b_hidden) in enumerate(lstm.all_weights):
        rows, cell = torch.lstm_cell(rows, (h[:, layer], c[:, layer]), w_input, w_hidden, b_input, b_hidden)
        after_h.append(rows)
        after_c.append(cell)
    return rows, torch.cat(after_h + after_c, dim=1)


class _Unrolled(torch.autograd.Function):
    """One layer over all steps: `apply(sums, weight, h, c, sizes)` returns (out, h, c), with the formulas of nn.LSTM.

    sums (n, 4 H): what the inputs and biases add to the gates; weight (4 H, H): of the hidden state; h, c (k, H) before
    the sequences; sizes: how many sequences each step has. The backward pass keeps to itself what autograd would do at
    each step: the weight's gradient is one product at the end, and all that does not hang on the next step comes first.
    """

    @staticmethod
    def forward(ctx: Any, sums: Tensor, weight: Tensor, h: Tensor, c: Tensor, sizes: list[int]) -> Recurred:
        gates, units = sums.clone(), h.shape[1]
        cells, squashed, out = (torch.empty_like(gates[:, :units]) for _ in range(3))
        turned = weight.t()
        before_h, before_c, ended_h, ended_c = h, c, [], []
        steps = zip(sizes, *(rows.split(sizes) for rows in (gates, cells, squashed, out)), strict=True)
        for size, step_gates, cell, squash, hidden in steps:
            if size < len(before_h):
                ended_h.append(before_h[size:])
                ended_c.append(before_c[size:])
                before_h, before_c = before_h[:size], before_c[:size]
            step_gates.addmm_(before_h, turned)
            enter, forget, candidate, leave = step_gates.split(units, dim=1)
            step_gates[:, : 2 * units].sigmoid_()
            candidate.tanh_()
            leave.sigmoid_()
            torch.mul(forget, before_c, out=cell).addcmul_(enter, candidate)
            torch.tanh(cell, out=squash)
            torch.mul(leave, squash, out=hidden)
            before_h, before_c = hidden, cell
        ctx.save_for_backward(gates, cells, squashed, out, weight, h, c)
        ctx.sizes = sizes
        # Sequences end from the last one on.
        return out, torch.cat([before_h, *reversed(ended_h)]), torch.cat([before_c, *reversed(ended_c)])

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, d_out: Tensor, d_h: Tensor, d_c: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor, None]:
        gates, cells, squashed, out, weight, h, c = ctx.saved_tensors
        sizes, units = ctx.sizes, h.shape[1]
        enter, forget, candidate, leave = gates.split(units, dim=1)
        # Derivatives of the cell by the first three gates' sums, of the hidden state by the last's, and by the cell.
        by_enter = enter * (1.0 - enter) * candidate
        by_forget = forget * (1.0 - forget) * _one_earlier(cells, c, sizes)
        by_candidate = (1.0 - candidate.square()) * enter
        of_cell = torch.stack([by_enter, by_forget, by_candidate], dim=1)
        by_leave = leave * (1.0 - leave) * squashed
        by_cell = (1.0 - squashed.square()) * leave
        d_sums = torch.empty_like(gates)
        d_before_h, d_before_c = d_h.clone(), d_c.clone()
        columns = (d_out, of_cell, by_leave, by_cell, forget, d_sums)
        steps = list(zip(sizes, *(rows.split(sizes) for rows in columns), strict=True))
        for size, step_out, step_of_cell, step_by_leave, step_by_cell, step_forget, step_sums in reversed(steps):
            d_hidden, d_cell = d_before_h[:size], d_before_c[:size]
            d_hidden += step_out
            d_cell.addcmul_(d_hidden, step_by_cell)
            of_three = step_sums[:, : 3 * units].unflatten(1, (3, units))
            torch.mul(step_of_cell, d_cell.unsqueeze(1), out=of_three)
            torch.mul(step_by_leave, d_hidden, out=step_sums[:, 3 * units :])
            d_cell.mul_(step_forget)
            torch.mm(step_sums, weight, out=d_hidden)
        return d_sums, d_sums.t() @ _one_earlier(out, h, sizes), d_before_h, d_before_c, None


def _one_earlier(rows: Tensor, first: Tensor, sizes: list[int]) -> Tensor:
    """Return each row's predecessor in its sequence; `first` (k, ...) before the first step."""
    return torch.cat([first, *(step[:size] for step, size in zip(rows.split(sizes), sizes[1:], strict=False))])
