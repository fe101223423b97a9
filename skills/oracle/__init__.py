"""Oracle skills: scripted sense-plan-act policies that read the simulator's state; the upper bound for learned ones.

They act through the same actions as the learned skills. Nothing here writes simulator state.
"""

from __future__ import annotations

from skills.oracle.articulated import OracleClose, OracleOpen
from skills.oracle.navigate import OracleNavigate
from skills.oracle.pick import OraclePick
from skills.oracle.place import OraclePlace
from skills.skill import SkillPolicy

_ORACLES: dict[str, type[OracleNavigate | OraclePick | OraclePlace | OracleOpen | OracleClose]] = {
    "navigate": OracleNavigate,
    "pick": OraclePick,
    "place": OraclePlace,
    "open_fridge": OracleOpen,
    "close_fridge": OracleClose,
    "open_cabinet": OracleOpen,
    "close_cabinet": OracleClose,
}


def make_oracle(skill: str, base_movement: bool) -> SkillPolicy:
    """Return the oracle of a skill.

    `base_movement`: manipulation skills may drive (Navigate then stops further off).
    """
    return _ORACLES[skill](base_movement)
