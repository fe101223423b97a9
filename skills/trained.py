"""A trained policy as a skill: reads the sensors of its skill's task, and nothing else, and acts by its network."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file

from hab.actions import GRIP, STOP, Action, action_space
from hab.simulator import Simulator
from pql_core.networks import InUse, Policy
from skills import task_class
from skills.skill import Goal
from skills.task import CallMemory
from skills.training import fit_policy
from ver_core.config import ConfigError, PolicyConfig
from ver_core.distributions import ActionDistribution
from ver_core.policy import Output, RecurrentPolicy


class WeightsError(ValueError):
    """Weights that cannot be used; the message is one line."""


class TrainedPolicy:
    """Plays a skill with a network as it was trained: actions are held for `action_repeat` control steps
    (skills/task.py), and drawn, unless the network knows no chance (PQL's).

    Drawn rather than the most probable ones, because a policy that may let go or stop at any moment, with a small
    probability each, never does so otherwise. They come from numpy's global generator, which an evaluation seeds for
    each episode.
    """

    def __init__(
        self,
        skill: str,
        obs: str,
        base_movement: bool,
        policy: PolicyConfig,
        action_repeat: int,
        weights: Path,
        off_policy: str = "",
    ) -> None:
        """Build the network and load `weights` (safetensors). Raises `WeightsError` or OSError.

        off_policy: the learner that trained it (`pql.learner`); "": VER.
        """
        self._task = task = task_class(skill)
        self._obs, self._repeat = obs, action_repeat
        space = task.observed_space(obs)
        try:
            actions = action_space(task.action_parts(base_movement))
            fitted = fit_policy(policy, skill, obs, base_movement)
            self._network: RecurrentPolicy | InUse
            if off_policy:
                trained = Policy(space, actions, fitted, off_policy)
                trained.load_state_dict(load_file(weights))
                self._network = InUse(trained)
            else:
                self._network = RecurrentPolicy(space, actions, fitted, critic=False)
                self._network.load_state_dict(without_critic(load_file(weights)))
        except (ConfigError, SafetensorError, RuntimeError) as error:
            raise WeightsError(f"{weights}: not the weights of this policy: {_first_line(error)}") from error
        self._network.eval()
        self._starts = {part.name: part.start for part in self._network.action_layout.parts}

    def reset(self, sim: Simulator, goal: Goal) -> None:
        """Start a call: recurrent state and previous action are cleared."""
        network = self._network
        self._goal = goal.positions()
        self._state = torch.zeros(1, network.state_size)
        self._previous = torch.from_numpy(network.action_layout.none)[None]
        self._left, self._held = 0, ""
        self._memory: CallMemory = goal.memory()
        self._action: Action = {}
        self.value: float | None = None
        """What the critic expected of the last observation acted on, if it shares the actor's network."""
        self._said: ActionDistribution | None = None

    def tell(self, goal: Goal) -> None:
        """Go on with the call, its goal being elsewhere."""
        self._goal = goal.positions()

    def act(self, sim: Simulator) -> Action:
        """Return the next control step's action: a new one every `action_repeat` steps, and when the hand's content
        has changed."""
        if self._left == 0 or sim.held != self._held:
            self._decide(sim)
            self._left, self._held = self._repeat, sim.held
        self._left -= 1
        return self._action

    @property
    def stop_probability(self) -> float | None:
        """How probable stopping was at the last observation acted on, NaN if it is no switch; None for a policy that
        cannot."""
        return self._chance(STOP)

    @property
    def grip_probability(self) -> float | None:
        """How probable suction was, likewise."""
        return self._chance(GRIP)

    def _chance(self, part: str) -> float | None:
        start = self._starts.get(part)
        if self._said is None or start is None:
            return None
        return float(self._said.chances()[0, start])

    @torch.inference_mode()
    def opinion(self, sim: Simulator) -> NDArray[np.float32]:
        """Return what it would do now (`ActionDistribution.opinion`); `followed` says what was done instead."""
        self._look(sim)
        assert self._said is not None
        return self._said.opinion()[0].numpy()

    def followed(self, action: Action) -> None:
        """Take an action of somebody else's for the one that it has done last."""
        self._previous = torch.from_numpy(self._network.action_layout.encode(action))[None]

    @torch.inference_mode()
    def _decide(self, sim: Simulator) -> None:
        network, out = self._network, self._look(sim)
        noise = torch.from_numpy(np.random.random_sample((1, network.noise_size)))
        self._previous = out.distribution.sample(noise)
        decoded = network.action_layout.decode(self._previous[0].numpy())
        assert isinstance(decoded, Mapping)
        self._action = dict(decoded)

    def _look(self, sim: Simulator) -> Output:
        network = self._network
        layout = network.obs_layout
        floats, bytes_ = np.zeros((1, layout.floats), np.float32), np.zeros((1, layout.bytes), np.uint8)
        layout.pack(self._task.observe(sim, self._obs, self._goal, self._memory), floats[0], bytes_[0])
        out = network(
            torch.from_numpy(floats), torch.from_numpy(bytes_), self._previous, self._state, torch.tensor([1])
        )
        self._state = out.state
        self.value = None if network.value_head is None else float(out.value)
        self._said = out.distribution
        return out


def without_critic(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    """Return a policy's weights without those of a critic of its own and of CPC|A, which are for training alone."""
    return {name: tensor for name, tensor in weights.items() if not is_critics(name)}


def is_critics(name: str) -> bool:
    """Say whether a weight of this name is part of a critic of its own, or of CPC|A."""
    return name.startswith(("critic.", "cpc."))


def _first_line(error: Exception) -> str:
    return str(error).strip().splitlines()[0]
