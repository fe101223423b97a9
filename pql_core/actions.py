"""Actions as off-policy learners see them: a row of numbers in [-1, 1], which `ActionScale` maps to an action space.

A part that the environment reads as on or off (`policy.heads`: bernoulli; suction, stop) is a number, as the others.
Its sign decides, and while DDPG explores a draw, on with probability (1 + number) / 2, as VER's Bernoulli choices are.
(With noise of 0.8 added, a hand would let go every ten steps, however sure the policy is.) What is executed, stored and
shown to the Q functions is the sign, -1 or 1, so that they need not learn that 0.1 and 0.9 are the same; but the policy
climbs the gradient of Q at the number itself, where Q interpolates between off and on.

Shapes: n rows, A entries.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from ver_core.config import PolicyConfig
from ver_core.distributions import heads_of, initial_biases
from ver_core.spaces import ActionLayout, UnsupportedSpace

SWITCH_LEAST = 1e-3
"""Least probability of either while exploring: what is never tried is never learnt."""
FIRST_MOST = 4.0
"""Farthest from 0 that an action begins, before tanh."""


class ActionScale(nn.Module):
    """Between numbers in [-1, 1] and a space of bounded Boxes.

    noise (A,): of exploration, in units of sigma: of parts with an `initial_part_std` that by `initial_std`.
    first (A,): the actions that a policy begins with, before tanh (`initial_bias`: the mean, or a switch's logit; else
    the middle).
    """

    centre: Tensor
    reach: Tensor
    switch: Tensor
    noise: Tensor
    first: Tensor

    def __init__(self, layout: ActionLayout, policy: PolicyConfig) -> None:
        """Raise `UnsupportedSpace` for actions without finite bounds, `ConfigError` for settings that do not fit."""
        super().__init__()
        heads = heads_of(layout, policy)
        low: list[float] = []
        high: list[float] = []
        switch: list[bool] = []
        noise: list[float] = []
        first: list[float] = []
        for part in layout.parts:
            bounds = list(zip(part.low, part.high, strict=True))
            if part.kind != "box" or not all(-math.inf < a < b < math.inf for a, b in bounds):
                what = f"action part {part.name!r}" if part.name else "the action space"
                raise UnsupportedSpace(f"{what}: off-policy training needs a Box with finite bounds; use VER")
            low += [a for a, _ in bounds]
            high += [b for _, b in bounds]
            switches = heads[part.name] == "bernoulli"
            switch += [switches] * part.size
            relative = policy.initial_part_std.get(part.name, policy.initial_std) / policy.initial_std
            noise += [0.0 if switches else relative] * part.size
            for bias, (a, b) in zip(initial_biases(part, policy), bounds, strict=True):
                told = bias / 2.0 if switches else math.atanh(min(max((2.0 * bias - a - b) / (b - a), -0.99), 0.99))
                first.append(told if part.name in policy.initial_bias else 0.0)
        lows, highs = torch.tensor(low), torch.tensor(high)
        self.register_buffer("centre", (highs + lows) / 2, persistent=False)
        self.register_buffer("reach", (highs - lows) / 2, persistent=False)
        self.register_buffer("switch", torch.tensor(switch), persistent=False)
        self.register_buffer("noise", torch.tensor(noise), persistent=False)
        self.register_buffer("first", torch.tensor(first).clamp(-FIRST_MOST, FIRST_MOST), persistent=False)
        self._switches = any(switch)

    @property
    def size(self) -> int:
        """A."""
        return len(self.reach)

    def explored(self, numbers: Tensor, sigma: Tensor, keeps: Tensor, rng: torch.Generator) -> Tensor:
        """Return (n, A) with Gaussian noise of deviations sigma (n, 1), and switches drawn.

        keeps: (n, 1) bool: there, switches stay as they began. A policy that lets go of all it has hold of never finds
        out what holding on is worth: one step more of it changes nothing.
        """
        device = numbers.device
        noise = torch.randn(numbers.shape, generator=rng, device=device)
        noisy = torch.addcmul(numbers, sigma * self.noise, noise)
        if not self._switches:
            return noisy
        chance = ((1.0 + numbers) / 2.0).clamp(SWITCH_LEAST, 1.0 - SWITCH_LEAST)
        drawn = torch.where(torch.rand(numbers.shape, generator=rng, device=device) < chance, 1.0, -1.0)
        drawn = torch.where(keeps & (self.first != 0.0), self.first.sign(), drawn)
        return torch.where(self.switch, drawn, noisy)

    def executed(self, numbers: Tensor) -> Tensor:
        """Return (n, A) in [-1, 1] as they are executed: switches at -1 or 1."""
        numbers = numbers.clamp(-1.0, 1.0)
        if not self._switches:
            return numbers
        return torch.where(self.switch, torch.where(numbers > 0.0, 1.0, -1.0), numbers)

    def forward(self, numbers: Tensor) -> Tensor:
        """Return the environment's flat actions (n, A) of what `executed` returned."""
        return torch.addcmul(self.centre, self.reach, numbers)
