"""Behaviour cloning: a policy's first weights from what an expert did, before reinforcement learning takes over."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ver_core.distributed import World
from ver_core.policy import RecurrentPolicy

BATCH = 1024
LEARNING_RATE = 2e-3
"""The highest of a one-cycle schedule (Smith & Topin 2018)."""
VALUE_COEF = 0.2
MAX_GRAD_NORM = 1.0


@dataclass(frozen=True)
class Demonstrations:
    """n steps of an expert, in any order: a policy that clones them has no memory."""

    floats: NDArray[np.float32]
    """(n, obs_layout.floats)"""
    bytes: NDArray[np.uint8]
    """(n, obs_layout.bytes)"""
    actions: NDArray[np.float32]
    """(n, A), as the policy's distribution returns them."""
    returns: NDArray[np.float32]
    """(n,) discounted sums of the rewards that followed."""

    @classmethod
    def join(cls, parts: list[Demonstrations]) -> Demonstrations:
        """Return all steps of some demonstrations."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in cls.__annotations__))


def clone(
    policy: RecurrentPolicy,
    shown: Demonstrations,
    epochs: int,
    seed: int,
    world: World,
    on_epoch: Callable[[int, float], None] = lambda epoch, loss: None,
) -> None:
    """Fit a feed-forward policy's actions (`imitation_loss`) and values to demonstrations.

    The spread of its Gaussian heads stays: it is for exploring. Its normalisation is learnt if it has seen nothing yet.
    """
    if policy.state_size or policy.inputs.action is not None:
        raise ValueError("cloning takes a policy without memory and without the previous action")
    device = next(policy.parameters()).device
    floats, bytes_, actions, returns = (
        torch.from_numpy(part).to(device) for part in (shown.floats, shown.bytes, shown.actions, shown.returns)
    )
    normalizer = policy.inputs.normalizer
    if normalizer is not None and normalizer.count == 0:
        policy.learn_normalization(floats, bytes_, world)
    parameters = [parameter for name, parameter in policy.named_parameters() if not name.endswith("log_std")]
    optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE)
    count = len(actions)
    batches = -(-count // BATCH)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=epochs * batches + 1)
    draw = torch.Generator().manual_seed(seed)
    for epoch in range(epochs):
        total = 0.0
        for rows in torch.randperm(count, generator=draw).to(device).split(BATCH):
            none = torch.zeros(len(rows), policy.action_layout.size, device=device)
            state = torch.zeros(len(rows), 0, device=device)
            out = policy(floats[rows], bytes_[rows], none, state, torch.tensor([len(rows)]))
            miss = out.distribution.imitation_loss(actions[rows]).mean()
            value_loss = 0.5 * (out.value - returns[rows]).square().mean()
            optimizer.zero_grad()
            (miss + VALUE_COEF * value_loss).backward()
            nn.utils.clip_grad_norm_(parameters, MAX_GRAD_NORM)
            optimizer.step()
            schedule.step()
            total += miss.item() * len(rows)
        on_epoch(epoch + 1, total / count)
