"""Normalises vector observations by the running mean and variance of all that training has seen."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ver_core.distributed import World

LIMIT = 5.0
"""Normalised values are clipped to this, so that what was never seen before cannot upset the network."""
_LEAST_STD = 0.1
"""What hardly varies is not blown up: a bit that is nearly always 0 must not become a 30 when it is 1."""
_BLOCK = 256
"""Rows whose statistics are added up at once."""


class Normalizer(nn.Module):
    """(x - mean) / std, an entry each; all three are buffers, saved with the weights."""

    count: Tensor
    mean: Tensor
    variance: Tensor

    def __init__(self, size: int) -> None:
        super().__init__()
        self.register_buffer("count", torch.zeros((), dtype=torch.float64))
        self.register_buffer("mean", torch.zeros(size, dtype=torch.float64))
        self.register_buffer("variance", torch.ones(size, dtype=torch.float64))

    def forward(self, rows: Tensor) -> Tensor:
        """Return (n, size), normalised and clipped; as they are before the first `learn`."""
        mean, std = self.moments()
        return ((rows - mean) / std).clamp(-LIMIT, LIMIT)

    def moments(self) -> tuple[Tensor, Tensor]:
        """Return the mean and the deviation to divide by, (size,) each, as float32."""
        return self.mean.float(), self.variance.sqrt().clamp_min(_LEAST_STD).float()

    @torch.no_grad()
    def learn(self, rows: Tensor, world: World) -> None:
        """Take (n, size) more rows, and those of the other processes, into account (Chan et al. 1983)."""
        size = len(self.mean)
        off_sum, square_sum = self.mean.new_zeros(size), self.mean.new_zeros(size)
        for block in rows.split(_BLOCK):  # which stays in the processor's caches
            # About the present mean, for the sums' precision.
            off = block - self.mean
            off_sum += off.sum(0)
            square_sum += off.square_().sum(0)
        sums = world.sum([float(len(rows)), *off_sum.tolist(), *square_sum.tolist()])
        count = sums[0]
        first, second = self.mean.new_tensor(sums[1 : 1 + size]), self.mean.new_tensor(sums[1 + size :])
        total = self.count + count
        shift = first / total
        spread = self.count * self.variance + second
        self.variance.copy_((spread / total - shift.square()).clamp_min_(0.0))  # a constant's may round to below 0
        self.mean += shift
        self.count.copy_(total)
