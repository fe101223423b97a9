"""`tpsrl train-skill --algorithm`: which configuration goes with VER and which with PQL."""

from __future__ import annotations

from collections.abc import Sequence

from configs.schema import TrainSkillConfig
from tpsrl.inputs import BadInput

RECIPES = {"ver": "small", "pql": "pql_small"}
"""Of configs/train, the default."""
SECTIONS = {"ver": "train", "pql": "pql"}
"""The part of the configuration that holds an algorithm's parameters, `total_steps` among them."""


def settings(algorithm: str, overrides: Sequence[str], keys: Sequence[str], steps: int | None) -> list[str]:
    """Return the overrides that an algorithm and `--steps` mean. Raises `BadInput` for what is another algorithm's."""
    for key, override in zip(keys, overrides, strict=True):
        for other, section in SECTIONS.items():
            if other != algorithm and key.startswith(f"{section}."):
                raise BadInput(
                    f"bad override: {override}: is for --algorithm {other}; --algorithm {algorithm} reads "
                    f"{SECTIONS[algorithm]}.*"
                )
        if key == "train" and override.partition("=")[2].startswith("pql") != (algorithm == "pql"):
            other = "ver" if algorithm == "pql" else "pql"
            raise BadInput(f"bad override: {override}: is a recipe for --algorithm {other}")
    meant = [] if "train" in keys else [f"train={RECIPES[algorithm]}"]
    if steps is not None:
        meant.append(f"{total_key(algorithm)}={steps}")
    return meant


def total_key(algorithm: str) -> str:
    """Return the key that `--steps` stands for."""
    return f"{SECTIONS[algorithm]}.total_steps"


def set_total_steps(config: TrainSkillConfig, wanted: TrainSkillConfig) -> None:
    """Let a run to resume have as many steps as another configuration says."""
    steps = getattr(wanted, SECTIONS[wanted.algorithm]).total_steps
    getattr(config, SECTIONS[config.algorithm]).total_steps = steps
