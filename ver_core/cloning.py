"""Behaviour cloning: a policy's first weights from what an expert did, before reinforcement learning takes over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ver_core.distributed import World
from ver_core.policy import RecurrentPolicy
from ver_core.sequences import find_sequences, whole_batches

BATCH, IMAGE_BATCH, RECURRENT_BATCH = 1024, 256, 4096
"""Steps; through time they are worked off one by one, so it pays to have many sequences. What looks at images can be
shown less often, and learns more from each look in smaller batches."""
LEARNING_RATE = 2e-3
"""The highest of a one-cycle schedule (Smith & Topin 2018)."""
VALUE_COEF = 0.2
MAX_GRAD_NORM = 1.0


@dataclass(frozen=True)
class Demonstrations:
    """n steps, episode after episode; those that an expert took are to be cloned."""

    floats: NDArray[np.float32]
    """(n, obs_layout.floats)"""
    bytes: NDArray[np.uint8]
    """(n, obs_layout.bytes)"""
    actions: NDArray[np.float32]
    """(n, A), as the policy's distribution returns them."""
    returns: NDArray[np.float32]
    """(n,) discounted sums of the rewards that followed."""
    starts: NDArray[np.bool_]
    """(n,) an episode's first step."""
    expert: NDArray[np.bool_]
    """(n,) the expert's steps; the others are there for a memory to see."""

    @classmethod
    def join(cls, parts: Sequence[Demonstrations]) -> Demonstrations:
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
    """Fit a policy's actions (`imitation_loss`) and values to demonstrations; through time, where it has a memory.

    The spread of its Gaussian heads stays: it is for exploring. Its normalisation is learnt, for good, if it has seen
    nothing yet.
    """
    if policy.inputs.action is not None:
        raise ValueError("cloning takes a policy that is not told its previous action")
    device = next(policy.parameters()).device
    floats, bytes_, actions, returns, expert = (
        torch.from_numpy(part).to(device)
        for part in (shown.floats, shown.bytes, shown.actions, shown.returns, shown.expert.astype(np.float32))
    )
    if policy.lacks_statistics:
        policy.learn_normalization(floats, bytes_, world)
        policy.settle_normalization()
    remembers = policy.state_size > 0
    sequences = find_sequences(np.zeros(len(actions), int), shown.starts if remembers else np.ones(len(actions), bool))
    sees = any(len(key.shape) == 3 for key in policy.obs_layout.keys)
    size = RECURRENT_BATCH if remembers else IMAGE_BATCH if sees else BATCH
    parameters = [parameter for name, parameter in policy.named_parameters() if not name.endswith("log_std")]
    optimizer = torch.optim.Adam(parameters, lr=LEARNING_RATE)
    rng = np.random.default_rng(seed)
    batches = max(1, len(actions) // size)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, LEARNING_RATE, total_steps=epochs * batches + 1)
    for epoch in range(epochs):
        total = 0.0
        for packed in whole_batches(sequences, batches, rng):
            rows = torch.from_numpy(packed.rows).to(device)
            none = torch.zeros(len(rows), policy.action_layout.size, device=device)
            state = torch.zeros(int(packed.batch_sizes[0]), policy.state_size, device=device)
            out = policy(floats[rows], bytes_[rows], none, state, torch.from_numpy(packed.batch_sizes))
            counted = expert[rows]
            miss = (counted * out.distribution.imitation_loss(actions[rows])).sum() / counted.sum().clamp_min(1.0)
            value_loss = 0.5 * (counted * (out.value - returns[rows]).square()).sum() / counted.sum().clamp_min(1.0)
            optimizer.zero_grad()
            (miss + VALUE_COEF * value_loss).backward()
            nn.utils.clip_grad_norm_(parameters, MAX_GRAD_NORM)
            optimizer.step()
            schedule.step()
            total += miss.item()
        on_epoch(epoch + 1, total / batches)
