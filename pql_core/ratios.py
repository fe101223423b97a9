"""The speed ratios beta_a:v and beta_p:v (section 3.2): who is ahead of the others waits.

Counted from where learning begins: e steps of environments, v updates of the Q functions, p updates of the policy. Each
process may be so little ahead that the ratios hold, and so far that none waits for another one to start: the Actor
collects the next step while the V-learner learns from the last one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

ACTOR_AHEAD = 1.0
"""Steps of all environments."""
POLICY_BEHIND = 2.0
"""Updates of the policy that are due when the V-learner begins to wait for them."""


@dataclass(frozen=True)
class Ratios:
    """Whether each process may go on now."""

    num_envs: int
    v_per_step: float
    """Updates of the Q functions for each step of all environments."""
    v_per_p: float
    """… and for each update of the policy."""
    kept: bool = True
    """Otherwise everybody always may."""

    def actor_may(self, e: int, v: int) -> bool:
        """Whether the Actor may step again."""
        return not self.kept or v >= self.v_per_step * (e / self.num_envs - ACTOR_AHEAD)

    def v_may(self, e: int, v: int, p: int) -> bool:
        """Whether the V-learner may make an update."""
        return not self.kept or (self.v_due(e, v) > 0 and v < self.v_per_p * (p + POLICY_BEHIND))

    def v_due(self, e: int, v: int) -> float:
        """Return how many updates of the Q functions the data is there for."""
        return math.ceil(self.v_per_step * e / self.num_envs) - v if self.kept else math.inf

    def p_may(self, v: int, p: int) -> bool:
        """Whether the P-learner may make an update."""
        return not self.kept or self.v_per_p * (p + 1) <= v
