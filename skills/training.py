"""What the training core has to be told about a skill: how to make its environment, and what its actions are like."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from hab.actions import ARM, BASE, GRIP, STOP
from hab.observation_sets import DEFAULT, DEPTH, OBSERVATION_SETS
from skills import make_env, task_class

if TYPE_CHECKING:
    from ver_core.config import PolicyConfig
    from ver_core.env_worker import MakeEnv

ACTION_PARTS = (ARM, GRIP, BASE, STOP)
SWITCHES = (GRIP, STOP)
"""Parts that the simulator reads as on or off."""


def env_factory(skill: str, **task: Any) -> MakeEnv:
    """Return what makes the skill's training environment (`task`: skills/task.py); picklable, and free of torch."""
    if task.get("obs", DEFAULT) == DEPTH:
        return partial(make_env, skill, **{"split": "train", **task})
    from skills.environments import make_training_env  # loads MuJoCo

    return partial(make_training_env, skill, **task)


def fit_policy(policy: PolicyConfig, skill: str, obs: str, base_movement: bool) -> PolicyConfig:
    """Return the policy's configuration as it fits one variant of a skill.

    What `policy` says of parts and observations that the skill has in another variant or observation set only is left
    out. Parts that the simulator reads as on or off get Bernoulli heads, whose biases are logits, unless `policy` says
    otherwise.
    """
    task = task_class(skill)
    parts = task.action_parts(base_movement)
    observed = task.observed_space(obs).spaces  # a Dict space itself holds samples, not names
    known = {key for kind in OBSERVATION_SETS for key in task.observed_space(kind).spaces}

    def present(keys: list[str]) -> list[str]:
        return [key for key in keys if key in observed or key not in known]

    def acting(of_parts: dict[str, float]) -> dict[str, float]:
        return {part: value for part, value in of_parts.items() if part in parts or part not in ACTION_PARTS}

    heads = {**{part: "bernoulli" for part in SWITCHES if part in parts}, **policy.heads}
    logits = {part for part in SWITCHES if heads.get(part) == "bernoulli"}
    biases = {part: bias for part, bias in policy.initial_bias.items() if part not in SWITCHES or part in logits}
    return replace(
        policy,
        heads=heads,
        initial_bias=acting(biases),
        initial_part_std=acting(policy.initial_part_std),
        gating_keys=present(policy.gating_keys),
        tanh_keys=present(policy.tanh_keys),
        scan_keys=present(policy.scan_keys),
    )
