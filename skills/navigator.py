"""A trained policy of a navigation task: plays several episodes at once from their observations alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file

from hab.navigation.env import ACTIONS, observation_spaces
from skills.trained import WeightsError, without_critic
from ver_core.config import ConfigError, PolicyConfig
from ver_core.policy import RecurrentPolicy

NAVIGATION_ZOO = Path(__file__).parent / "navigation_zoo"
"""The packaged policies of navigation tasks."""


def policy_name(task: str, obs: str, gps: bool = True) -> str:
    """Return the name of a policy's folder in the zoo: pointnav_laser."""
    return f"{task}_{obs}" + ("" if gps else "_nogps")


def fit_navigation_policy(policy: PolicyConfig, task: str, obs: str, gps: bool) -> PolicyConfig:
    """Return the policy's configuration without observations that other tasks, or other sensors, have."""
    seen = observation_spaces(task, obs, gps)
    known = {
        key
        for any_task in ("pointnav", "objectnav")
        for any_obs in ("laser", "depth", "rgb")
        for any_gps in (True, False)
        for key in observation_spaces(any_task, any_obs, any_gps)
    }

    def present(keys: list[str]) -> list[str]:
        return [key for key in keys if key in seen or key not in known]

    return replace(
        policy,
        angle_keys=present(policy.angle_keys),
        tanh_keys=present(policy.tanh_keys),
        scan_keys=present(policy.scan_keys),
    )


class Navigator:
    """Plays n episodes side by side; each has its own recurrent state, previous action and random numbers."""

    def __init__(
        self, policy: PolicyConfig, task: str, obs: str, gps: bool, weights: Path, deterministic: bool = False
    ) -> None:
        """Build the network and load `weights` (safetensors). Raises `WeightsError` or OSError.

        deterministic: always the most probable action; else actions are drawn, as in training.
        """
        space = spaces.Dict(observation_spaces(task, obs, gps))
        try:
            self._network = RecurrentPolicy(
                space, spaces.Discrete(len(ACTIONS)), fit_navigation_policy(policy, task, obs, gps), critic=False
            )
            self._network.load_state_dict(without_critic(load_file(weights)))
        except (ConfigError, SafetensorError, RuntimeError) as error:
            said = str(error).strip().splitlines()[0]
            raise WeightsError(f"{weights}: not the weights of this policy: {said}") from error
        self._network.eval()
        self._deterministic = deterministic
        self.start(1, [np.random.default_rng(0)])

    def start(self, episodes: int, rngs: Sequence[np.random.Generator]) -> None:
        """Get ready for n places, all at the start of an episode; `rngs` (n) draw their actions."""
        self._state = torch.zeros(episodes, self._network.state_size)
        self._previous = torch.from_numpy(self._network.action_layout.none).repeat(episodes, 1)
        self._rngs = list(rngs)

    def begin(self, place: int, rng: np.random.Generator) -> None:
        """Begin another episode at a place."""
        self._state[place] = 0.0
        self._previous[place] = torch.from_numpy(self._network.action_layout.none)
        self._rngs[place] = rng

    @torch.inference_mode()
    def act(self, places: Sequence[int], observations: Sequence[Any]) -> list[int]:
        """Return the next actions of some places."""
        network, layout = self._network, self._network.obs_layout
        floats = np.zeros((len(places), layout.floats), np.float32)
        bytes_ = np.zeros((len(places), layout.bytes), np.uint8)
        for row, observation in enumerate(observations):
            layout.pack(observation, floats[row], bytes_[row])
        index = torch.tensor(list(places))
        out = network(
            torch.from_numpy(floats),
            torch.from_numpy(bytes_),
            self._previous[index],
            self._state[index],
            torch.tensor([len(places)]),
        )
        if self._deterministic:
            action = out.distribution.mode()
        else:
            noise: NDArray[np.float64] = np.array([self._rngs[place].random(network.noise_size) for place in places])
            action = out.distribution.sample(torch.from_numpy(noise))
        self._previous[index], self._state[index] = action, out.state
        return [int(choice) for choice in action[:, 0].tolist()]
