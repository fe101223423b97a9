"""Which simulators there are, by name."""

from __future__ import annotations

from hab.simulator import Simulator

SIMULATORS = ("mujoco",)


def make_simulator(name: str = "mujoco") -> Simulator:
    """Return a new simulator. Raises `ValueError` for an unknown name."""
    if name != "mujoco":
        raise ValueError(f"unknown simulator {name!r}; choose from {', '.join(SIMULATORS)}")
    from hab.mujoco.simulator import MujocoSimulator  # here, so that importing `hab` does not load MuJoCo

    return MujocoSimulator()
