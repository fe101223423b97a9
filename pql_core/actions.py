"""Actions as off-policy learners see them: a row of numbers in [-1, 1], which `ActionScale` maps to an action space.

A part that the environment reads as on or off (`policy.heads`: bernoulli; suction, stop) is a number as the others are,
to which noise is added as to the others: its sign decides. What is executed, stored and shown to the Q functions is the
sign, -1 or 1, so that they need not learn that 0.1 and 0.9 are the same; but the policy climbs the gradient of Q at the
number itself, where Q interpolates between off and on.

Shapes: n rows, A entries.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ver_core.config import ConfigError, PolicyConfig
from ver_core.spaces import ActionLayout, UnsupportedSpace


class ActionScale(nn.Module):
    """Between numbers in [-1, 1] and a space of bounded Boxes."""

    centre: Tensor
    reach: Tensor
    switch: Tensor

    def __init__(self, layout: ActionLayout, policy: PolicyConfig) -> None:
        """Raise `UnsupportedSpace` for actions that are not bounded real numbers, `ConfigError` for an unknown head."""
        super().__init__()
        names = [part.name for part in layout.parts]
        for name, head in policy.heads.items():
            if name not in names:
                known = ", ".join(part or repr(part) for part in names)
                raise ConfigError(f"policy.heads.{name or repr(name)}: no such action part; choose from {known}")
            if head not in ("gaussian", "bernoulli"):
                raise ConfigError(f"policy.heads.{name or repr(name)}={head}: choose from gaussian, bernoulli")
        low: list[float] = []
        high: list[float] = []
        switch: list[bool] = []
        for part in layout.parts:
            bounds = list(zip(part.low, part.high, strict=True))
            if part.kind != "box" or not all(-math.inf < a < b < math.inf for a, b in bounds):
                what = f"action part {part.name!r}" if part.name else "the action space"
                raise UnsupportedSpace(f"{what}: off-policy training needs a Box with finite bounds; use VER")
            low += [a for a, _ in bounds]
            high += [b for _, b in bounds]
            switch += [policy.heads.get(part.name) == "bernoulli"] * part.size
        lows, highs = torch.tensor(low), torch.tensor(high)
        self.register_buffer("centre", (highs + lows) / 2, persistent=False)
        self.register_buffer("reach", (highs - lows) / 2, persistent=False)
        self.register_buffer("switch", torch.tensor(switch), persistent=False)
        self._switches = any(switch)

    @property
    def size(self) -> int:
        """A."""
        return len(self.reach)

    def executed(self, numbers: Tensor) -> Tensor:
        """Return (n, A) in [-1, 1] as they are executed: switches at -1 or 1."""
        numbers = numbers.clamp(-1.0, 1.0)
        if not self._switches:
            return numbers
        return torch.where(self.switch, torch.where(numbers > 0.0, 1.0, -1.0), numbers)

    def forward(self, numbers: Tensor) -> Tensor:
        """Return the environment's flat actions (n, A) of what `executed` returned."""
        return torch.addcmul(self.centre, self.reach, numbers)
