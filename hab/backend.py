"""Which simulators there are, by name."""

from __future__ import annotations

from hab.simulator import Simulator

PLANAR = "planar"
SIMULATORS = ("mujoco", "habitat", PLANAR)
"""`planar` is for Navigate's training (hab/planar.py)."""


def make_simulator(name: str = "mujoco", films: bool = False, depth_noise: bool = False) -> Simulator:
    """Return a new simulator; `films`: whether `render_rgb` will be called, which habitat-sim wants to know before;
    `depth_noise`: whether the depth image has a real camera's flaws (hab/depth_noise.py).

    Raises `ValueError` for an unknown name, and `RuntimeError` for one that is not installed (`unavailable`).
    """
    # Imported here, so that importing `hab` loads none.
    if name == "mujoco":
        from hab.mujoco.simulator import MujocoSimulator

        return MujocoSimulator(depth_noise)
    if name == PLANAR:
        from hab.planar import PlanarSimulator

        return PlanarSimulator()
    if reason := unavailable(name):
        raise RuntimeError(reason)
    from hab.habitat.simulator import HabitatSimulator

    return HabitatSimulator(films, depth_noise)


def unavailable(name: str) -> str:
    """Return why a simulator cannot be used here and how to mend it, in one line; "" if it can."""
    if name not in SIMULATORS:
        raise ValueError(f"unknown simulator {name!r}; choose from {', '.join(SIMULATORS)}")
    if name != "habitat":
        return ""
    from hab.habitat.lab import missing

    return missing()
