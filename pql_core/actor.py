"""The Actor (Algorithm 1): acts in all environments by its local policy and noise, and hands on what came of it."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor

from pql_core.batches import Arrived, EnvironmentBatch, Episode
from pql_core.config import PqlConfig
from pql_core.exploration import deviations
from pql_core.networks import Policy, Statistics
from pql_core.replay import LAST, STEP, TERMINATED, Records


class Actor:
    """Its `policy` is the local one, pi^a; whoever owns the Actor brings it up to date, and calls `receive` and then
    `answer`, again and again."""

    def __init__(
        self,
        envs: EnvironmentBatch,
        policy: Policy,
        statistics: Statistics,
        config: PqlConfig,
        device: torch.device,
        hand_on: Callable[[Records], bool],
    ) -> None:
        """hand_on: takes records, in the order of each environment's steps; returns False to stop."""
        self._envs, self._policy, self._statistics, self._hand_on = envs, policy, statistics, hand_on
        n, layout = config.num_envs, policy.obs_layout
        self._sigma = deviations(config).to(device)[:, None]
        self._some_quiet = config.greedy_envs > 0
        self._quiet = torch.arange(n, device=device)[:, None] >= config.noisy_envs
        self._rng = torch.Generator(device).manual_seed(config.seed)
        self._floats = torch.zeros(n, layout.floats, device=device)
        self._bytes = torch.zeros(n, layout.bytes, dtype=torch.uint8, device=device)
        self._action = torch.zeros(n, policy.scale.size, device=device)
        self._open = torch.zeros(n, dtype=torch.bool, device=device)
        """Whether an environment's last record is a step whose successor is not handed on yet."""
        self._taken: Arrived | None = None
        self.random = True
        """Whether actions are drawn evenly from their whole range (the warm-up)."""
        self.episodes: list[tuple[int, Episode]] = []
        """Ended since the caller last emptied it: environment, and what the episode came to."""
        self.env_s = self.infer_s = 0.0
        """Seconds spent waiting for environments, and acting."""

    def receive(self, stop: Callable[[], bool]) -> int:
        """Take environments that wait for an action, and hand on the steps that led there.

        Return the number of these steps; -1: stopped, before anything was taken or half-way. Raises
        `EnvironmentFailure`.
        """
        started = time.perf_counter()
        self._taken = arrived = self._envs.take(stop)
        self.env_s += time.perf_counter() - started
        if arrived is None:
            return -1
        started = time.perf_counter()
        self.episodes += arrived.episodes
        env, stepped = arrived.env, arrived.stepped
        lost = env[~stepped & self._open[env]]
        done = env[stepped]
        kind = torch.where(arrived.terminated[stepped], TERMINATED, STEP).to(torch.uint8)
        steps = Records(
            done, self._floats[done], self._bytes[done], self._action[done], arrived.reward[stepped], kind
        )  # fmt: skip
        self._taken = None
        if len(done) and not self._hand_on(steps):
            return -1
        # Now an open step's successor is what it led to, should no more be handed on.
        self._open[done] = kind == STEP
        self._floats[done], self._bytes[done] = arrived.floats[stepped], arrived.bytes[stepped]
        cut = stepped & arrived.truncated
        self._floats[env[cut]], self._bytes[env[cut]] = arrived.final_floats[cut], arrived.final_bytes[cut]
        over = torch.cat((env[cut & ~arrived.terminated], lost))
        if len(over) and not self._hand_on(self._pending(over)):
            return -1
        self._open[over] = False
        self._floats[env], self._bytes[env] = arrived.floats, arrived.bytes
        self._taken = arrived
        self._statistics.learn(arrived.floats, arrived.bytes)
        self.infer_s += time.perf_counter() - started
        return len(done)

    def answer(self) -> None:
        """Send on what was received."""
        started = time.perf_counter()
        assert self._taken is not None
        env, seen = self._taken.env, (self._taken.floats, self._taken.bytes)
        self._action[env] = executed = self._policy.scale.executed(self._choose(env, *seen))
        self._envs.send(env, self._policy.scale(executed))
        self.infer_s += time.perf_counter() - started

    def finish(self) -> None:
        """Hand on the last observation of every episode that is going on: nothing more comes of it."""
        (going,) = self._open.nonzero(as_tuple=True)
        if len(going):
            self._hand_on(self._pending(going))
        self._open[:] = False

    def rng_state(self) -> Tensor:
        """Return the noise's state."""
        return self._rng.get_state()

    def set_rng_state(self, state: Tensor, seed: int) -> None:
        """Go on with the noise where `rng_state` was taken; on another kind of device, with other noise, by `seed`."""
        if state.shape == self._rng.get_state().shape:
            self._rng.set_state(state)
        else:
            self._rng.manual_seed(seed)

    @torch.no_grad()
    def _choose(self, env: Tensor, floats: Tensor, bytes_: Tensor) -> Tensor:
        shape = len(env), self._policy.scale.size
        if self.random:
            return torch.rand(shape, generator=self._rng, device=floats.device) * 2.0 - 1.0
        if self._policy.stochastic:
            tried, _ = self._policy.draw(floats, bytes_, self._rng)
            sure = self._policy(floats, bytes_) if self._some_quiet else tried
        else:
            sure = self._policy(floats, bytes_)
            tried = self._policy.scale.explored(sure, self._sigma[env], env[:, None] % 2 == 0, self._rng)
        return torch.where(self._quiet[env], sure, tried)

    def _pending(self, env: Tensor) -> Records:
        nothing = torch.zeros(len(env), device=env.device)
        kind = torch.full((len(env),), LAST, dtype=torch.uint8, device=env.device)
        return Records(env, self._floats[env], self._bytes[env], torch.zeros_like(self._action[env]), nothing, kind)
