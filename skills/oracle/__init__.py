"""Oracle skills: scripted sense-plan-act policies that read the simulator's state; the upper bound for learned ones.

They act through the same actions as the learned skills. Nothing here writes simulator state.
"""

from __future__ import annotations

from skills import task_class
from skills.skill import SkillPolicy


def make_oracle(skill: str, base_movement: bool) -> SkillPolicy:
    """Return the oracle of a skill that has one.

    `base_movement`: manipulation skills may drive (Navigate then stops further off).
    """
    oracle = task_class(skill).oracle
    assert oracle is not None
    return oracle(base_movement)
