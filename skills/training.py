"""What the training core has to be told about a skill: how to make its environment, and what its actions are like."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from hab.actions import BASE, GRIP, STOP
from hab.sensors import OBSERVATION_SETS
from skills import SPECS, TASKS, make_env
from skills.specs import ALWAYS_DRIVE

if TYPE_CHECKING:
    from skills.task import SkillTask
    from ver_core.config import PolicyConfig
    from ver_core.env_worker import MakeEnv

HEADS = {GRIP: "bernoulli", STOP: "bernoulli"}
"""Parts that the simulator reads as on or off."""
INITIAL_BIAS = {GRIP: 8.0, STOP: -6.0}
"""Logits at the start. A fresh policy that lets go now and then drops all it grasps before it has brought it anywhere;
learning then settles on letting go at once, which costs less than holding on to no end. At 8 it lets go once in 3,000
steps (at 5, once in 150, Pick still learnt to let go). And it stops about once in 55 steps, or it would never get
anywhere."""
GATES = ("is_holding", "has_held", "has_passed", "has_touched")
"""The hand goes to its object while it is empty, away with it once it is full, and to rest when all is done."""
FINE = (
    "obj_start_sensor",
    "obj_goal_sensor",
    "handle_start_sensor",
    "handle_drawn",
    "relative_resting_position",
    "cup_to_goal",
    "joints_to_goal",
    "stop_margin",
    "around_goal",
)
"""Where a few centimetres decide. With them Pick without base movement took 130,000 steps to a success of 0.5 on its
training starts; without, it was at 0.35 after 270,000."""
BASE_STD, BASE_STD_SHARE = 0.05, 0.25
"""Most of the base's spread at the start, and its share of the arm's: a whole unit of it moves the hand by 1 m/s or
more, one of a joint by a quarter of that, and so it is cloned that much more exactly, too (`imitation_loss`). With an
error of 0.05 m/s the base tears the cup off a fridge's door that the arm is following exactly."""


def task_class(skill: str) -> type[SkillTask[Any]]:
    """Return a skill's task."""
    module, _, name = TASKS[skill][1].partition(":")
    task: type[SkillTask[Any]] = getattr(import_module(module), name)
    return task


def env_factory(skill: str, **task: Any) -> MakeEnv:
    """Return what makes the skill's training environment (`task`: skills/task.py); picklable, and free of torch."""
    return partial(make_env, skill, split="train", **task)


def fit_policy(policy: PolicyConfig, skill: str, obs: str, base_movement: bool) -> PolicyConfig:
    """Return the policy's configuration with what follows from the skill's action parts and observations.

    What `policy` says of a part stays. Scans that are observed in another set only are left out.
    """
    parts = SPECS[skill].parts
    heads = {**{part: head for part, head in HEADS.items() if part in parts}, **policy.heads}
    biases = {part: bias for part, bias in INITIAL_BIAS.items() if heads.get(part) == "bernoulli"}
    drives = base_movement and skill not in ALWAYS_DRIVE
    stds = {BASE: min(BASE_STD, BASE_STD_SHARE * policy.initial_std)} if drives else {}
    observed = task_class(skill).observed_space(obs).spaces  # a Dict space itself holds samples, not names
    absent = {key for name, keys in OBSERVATION_SETS.items() if name != obs for key in keys}
    return replace(
        policy,
        heads=heads,
        gates=[key for key in GATES if key in observed] if policy.gates is None else policy.gates,
        fine_keys=[key for key in FINE if key in observed] if policy.fine_keys is None else policy.fine_keys,
        initial_bias={**biases, **policy.initial_bias},
        initial_part_std={**stds, **policy.initial_part_std},
        scan_keys=[key for key in policy.scan_keys if key not in absent],
    )
