"""Mixed exploration (section 3.3): environments differ in how much noise is added to their actions."""

from __future__ import annotations

import torch
from torch import Tensor

from pql_core.config import PqlConfig


def deviations(config: PqlConfig) -> Tensor:
    """Return sigma_i (N,): evenly spaced from sigma_min to sigma_max; 0 for the last `greedy_envs`."""
    spread = torch.linspace(config.sigma_min, config.sigma_max, config.noisy_envs)
    return torch.cat((spread, torch.zeros(config.greedy_envs)))
