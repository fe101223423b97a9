"""What the training core has to be told about a skill: how to make its environment, and what its actions are like."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from hab.actions import GRIP, STOP
from hab.sensors import OBSERVATION_SETS
from skills import SPECS, make_env

if TYPE_CHECKING:
    from ver_core.config import PolicyConfig
    from ver_core.env_worker import MakeEnv

HEADS = {GRIP: "bernoulli", STOP: "bernoulli"}
"""Parts that the simulator reads as on or off."""
INITIAL_BIAS = {GRIP: 8.0, STOP: -4.0}
"""Logits at the start. A fresh policy that lets go now and then drops all it grasps before it has brought it anywhere;
learning then settles on letting go at once, which costs less than holding on to no end. At 8 it lets go once in 3,000
steps (at 5, once in 150, Pick still learnt to let go). And it stops about once in 55 steps, or it would never get
anywhere."""


def env_factory(skill: str, obs: str, base_movement: bool) -> MakeEnv:
    """Return what makes the skill's training environment; picklable, and free of torch."""
    return partial(make_env, skill, split="train", obs=obs, base_movement=base_movement)


def fit_policy(policy: PolicyConfig, skill: str, obs: str) -> PolicyConfig:
    """Return the policy's configuration with what follows from the skill's action parts and observations.

    What `policy` says of a part stays. Scans that are observed in another set only are left out.
    """
    parts = SPECS[skill].parts
    heads = {**{part: head for part, head in HEADS.items() if part in parts}, **policy.heads}
    biases = {part: bias for part, bias in INITIAL_BIAS.items() if heads.get(part) == "bernoulli"}
    absent = {key for name, key in OBSERVATION_SETS.items() if name != obs}
    return replace(
        policy,
        heads=heads,
        initial_bias={**biases, **policy.initial_bias},
        scan_keys=[key for key in policy.scan_keys if key not in absent],
    )
