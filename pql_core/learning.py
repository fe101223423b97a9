"""The updates: Q functions by the Bellman error, the policy by Q (section 3 and Algorithms 2 and 3 of the PQL paper).

The same two classes learn in processes of their own (PQL) and one after the other in one (DDPG(n), SAC(n)).
"""

from __future__ import annotations

import copy
import math
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from pql_core import categorical
from pql_core.config import PqlConfig
from pql_core.networks import DoubleQ, Policy
from pql_core.replay import Batch


class Temperature(nn.Module):
    """SAC's entropy coefficient alpha, learnt; 0 for a deterministic policy."""

    def __init__(self, config: PqlConfig) -> None:
        super().__init__()
        start = math.log(config.entropy_coef) if config.learner == "sac" else -math.inf
        self.log = nn.Parameter(torch.tensor(start))

    @property
    def value(self) -> Tensor:
        """alpha, without gradient."""
        return self.log.detach().exp()


class ValueLearner:
    """Q_1, Q_2 and their targets; what the V-learner does, but for the data's way to it.

    `policy` and `temperature` are its local ones: there is no target policy, whose part it is to lag (section 3.2).
    """

    guarded = ("critic_loss", "critic_grad_norm")
    """Scalars that have to be finite: what follows from a finite loss may be an infinite gradient and NaN weights."""

    def __init__(self, q: DoubleQ, policy: Policy, temperature: Temperature, config: PqlConfig) -> None:
        self.q, self.policy, self.temperature, self._config = q, policy, temperature, config
        self.target = copy.deepcopy(q).requires_grad_(False)
        self._parameters: list[Tensor] = list(q.parameters())
        self._targets: list[Tensor] = list(self.target.parameters())
        self._optimizer = torch.optim.Adam(q.parameters(), lr=config.critic_learning_rate, fused=True)
        device = next(q.parameters()).device
        self._z = categorical.support(config.support_min, config.support_max, config.atoms, device)

    def update(self, batch: Batch) -> dict[str, Tensor]:
        """Make one step on a batch of n-step transitions, and let the targets follow."""
        config = self._config
        with torch.no_grad():
            seen = batch.next_floats, batch.next_bytes
            if self.policy.stochastic:
                numbers, log_prob = self.policy.draw(*seen)
                bonus = -self.temperature.value * log_prob
            else:
                numbers, bonus = self.policy(*seen), torch.zeros_like(batch.returned)
            ahead = self.target(*seen, self.policy.scale.executed(numbers))
            returned = batch.returned * config.reward_scale + batch.discount * bonus
            target = self._target(ahead, returned, batch.discount)
        said = self.q(batch.floats, batch.bytes, batch.action)
        if config.critic == "c51":
            log_p = functional.log_softmax(said, dim=2)
            loss = -(target * log_p).sum(2).mean(1).sum()
            mean_q = (log_p.detach().exp() * self._z).sum(2).mean()
        else:
            loss = (said[:, :, 0] - target).square().mean(1).sum()
            mean_q = said.detach().mean()
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(self.q.parameters(), config.max_grad_norm)
        self._optimizer.step()
        with torch.no_grad():
            torch._foreach_lerp_(self._targets, self._parameters, config.tau)
        return {"critic_loss": loss.detach(), "q": mean_q, "critic_grad_norm": norm}

    def _target(self, ahead: Tensor, returned: Tensor, discount: Tensor) -> Tensor:
        """Return r + gamma^k times the smaller Q (n,); with C51, of the distribution with the smaller mean, projected
        (n, l)."""
        if self._config.critic != "c51":
            return returned + discount * ahead.amin(0)[:, 0]
        p = ahead.softmax(2)
        smaller = (p * self._z).sum(2).argmin(0)
        chosen = p[smaller, torch.arange(p.shape[1], device=p.device)]
        return categorical.project(chosen, returned, discount, self._z)

    def state(self) -> dict[str, Any]:
        """Return what a resume needs."""
        nets = {"q": self.q.state_dict(), "target": self.target.state_dict()}
        return {**nets, "optimizer": self._optimizer.state_dict()}

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from `state`. Raises RuntimeError or ValueError where it is of another network."""
        self.q.load_state_dict(saved["q"])
        self.target.load_state_dict(saved["target"])
        self._optimizer.load_state_dict(saved["optimizer"])


class PolicyLearner:
    """pi and, for SAC, alpha; what the P-learner does, but for the data's way to it. `q` are its local Q functions."""

    guarded = ("policy_loss", "policy_grad_norm")

    def __init__(self, policy: Policy, temperature: Temperature, q: DoubleQ, config: PqlConfig) -> None:
        self.policy, self.temperature, self.q, self._config = policy, temperature, q, config
        self._optimizer = torch.optim.Adam(policy.parameters(), lr=config.actor_learning_rate, fused=True)
        self._alpha_optimizer = torch.optim.Adam(temperature.parameters(), lr=config.entropy_coef_learning_rate)
        self._target_entropy = -float(policy.scale.size) if config.target_entropy is None else config.target_entropy
        device = next(q.parameters()).device
        self._z = categorical.support(config.support_min, config.support_max, config.atoms, device)

    def update(self, floats: Tensor, bytes_: Tensor) -> dict[str, Tensor]:
        """Make one step up the gradient of min(Q_1, Q_2)(s, pi(s)), for SAC of that plus alpha times the entropy."""
        policy, scalars = self.policy, {}
        if policy.stochastic:
            numbers, log_prob = policy.draw(floats, bytes_)
        else:
            numbers, log_prob = policy(floats, bytes_), None
        said = self.q(floats, bytes_, numbers)
        values = (said.softmax(2) * self._z).sum(2) if self._config.critic == "c51" else said[:, :, 0]
        loss = -values.amin(0).mean()
        if log_prob is not None:
            loss = loss + self.temperature.value * log_prob.mean()
        parameters = list(policy.parameters())
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward(inputs=parameters)
        norm = nn.utils.clip_grad_norm_(parameters, self._config.max_grad_norm)
        self._optimizer.step()
        if log_prob is not None:
            entropy = -log_prob.detach().mean()
            alpha_loss = self.temperature.log * (entropy - self._target_entropy)
            self._alpha_optimizer.zero_grad(set_to_none=True)
            alpha_loss.backward()
            self._alpha_optimizer.step()
            scalars = {"entropy": entropy, "entropy_coef": self.temperature.value}
        saturated = (numbers.detach().abs() > 0.99).float().mean()
        return {"policy_loss": loss.detach(), "policy_grad_norm": norm, "saturated": saturated, **scalars}

    def state(self) -> dict[str, Any]:
        """Return what a resume needs."""
        return {
            "policy": self.policy.state_dict(),
            "temperature": self.temperature.state_dict(),
            "optimizer": self._optimizer.state_dict(),
            "alpha_optimizer": self._alpha_optimizer.state_dict(),
        }

    def restore(self, saved: dict[str, Any]) -> None:
        """Go on from `state`. Raises RuntimeError or ValueError where it is of another network."""
        self.policy.load_state_dict(saved["policy"])
        self.temperature.load_state_dict(saved["temperature"])
        self._optimizer.load_state_dict(saved["optimizer"])
        self._alpha_optimizer.load_state_dict(saved["alpha_optimizer"])
