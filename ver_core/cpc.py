"""CPC|A: a recurrent policy learns to tell, by what it remembers and will do, what it will see from what it will not.

From the LSTM's output, the belief, a GRU is unrolled over the actions that follow; a classifier is asked of each of its
states whether an observation, as the encoders say it, is the one of that step, or one of another step or sequence.
Reference: Guo et al., "Neural Predictive Belief Representations" (2018, revised 2019), section 3; for ObjectNav, Ye et
al., "Auxiliary Tasks and Exploration Enable ObjectNav", 2021. Observations are taken without the previous action, or
the action that led to them would give them away.

Shapes: n rows, packed as in `RecurrentPolicy.forward`; H units of belief, A of actions, Z of encoded observations.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

START_EVERY = 6
"""The future is predicted from one in so many rows."""
HIDDEN = 64
"""Units of the classifier's hidden layer."""


class ContrastivePrediction(nn.Module):
    """The GRU and the classifier."""

    def __init__(self, belief: int, action: int, encoded: int, steps: int) -> None:
        super().__init__()
        self._steps = steps
        self.gru = nn.GRUCell(action, belief)
        # One hidden layer over both, each side's part worked out on its own.
        self.of_state = nn.Linear(belief, HIDDEN)
        self.of_observation = nn.Linear(encoded, HIDDEN, bias=False)
        self.says = nn.Linear(HIDDEN, 1)

    def forward(
        self,
        belief: Tensor,
        encoded: Tensor,
        action: Tensor,
        batch_sizes: NDArray[np.int64],
        rng: np.random.Generator,
    ) -> Tensor:
        """Return the classifier's mean cross-entropy (), from belief (n, H), encoded (n, Z) and action (n, A).

        `rng` draws from which rows to predict, and the observations that are not the right ones. Only rows of the same
        sequence, and so of the same episode, are its future.
        """
        observed = self.of_observation(encoded)
        total, count = belief.sum() * 0.0, 0
        for state, right in self._futures(belief, action, batch_sizes, rng):
            wrong = torch.from_numpy(rng.integers(len(belief), size=len(right))).to(belief.device)
            said = self.of_state(state)
            for rows, sign in ((right, -1.0), (wrong, 1.0)):
                total = total + functional.softplus(sign * self.says(torch.relu(said + observed[rows]))).sum()
                count += len(rows)
        return total / max(1, count)

    def _futures(
        self, belief: Tensor, action: Tensor, batch_sizes: NDArray[np.int64], rng: np.random.Generator
    ) -> list[tuple[Tensor, Tensor]]:
        """Return, for each step ahead, the GRU's states (m, H) and the rows (m,) that they are to foresee."""
        begins = np.append(0, np.cumsum(batch_sizes))
        rows = np.arange(int(rng.integers(START_EVERY)), begins[-1], START_EVERY)
        step = np.searchsorted(begins, rows, side="right") - 1
        rank = rows - begins[step]
        state, found = belief[torch.from_numpy(rows).to(belief.device)], []
        sizes = np.append(batch_sizes, 0)
        for _ in range(self._steps):
            going = np.flatnonzero(rank < sizes[step + 1])
            if not len(going):
                break
            left = torch.from_numpy(going).to(belief.device)
            state = self.gru(action[torch.from_numpy(rows[going]).to(belief.device)], state[left])
            step, rank = step[going] + 1, rank[going]
            rows = begins[step] + rank
            found.append((state, torch.from_numpy(rows).to(belief.device)))
        return found
