"""Skills: what they are, their tasks, and who can play them."""

from skills.specs import SPECS

__all__ = ["SPECS"]
