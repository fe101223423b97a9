"""Navigation meshes of exported apartments, computed by habitat-sim as habitat-lab does when it loads a scene."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from hab.habitat import lab
from hab.habitat.apartments import DATASET, PHYSICS, scene_name


def write_navmeshes(folder: Path, seeds: Sequence[int], split: str) -> None:
    """Write a navigation mesh of each exported apartment and name them in the dataset; needs `lab.missing() == ""`."""
    files = lab.Files.of_export(folder, "tidy_house")
    agent = lab.compose(files, "tidy_house", split).habitat.simulator.agents.main_agent
    import habitat_sim

    settings = habitat_sim.NavMeshSettings()
    settings.set_defaults()
    settings.agent_radius, settings.agent_height = agent.radius, agent.height
    settings.agent_max_climb, settings.agent_max_slope = agent.max_climb, agent.max_slope
    settings.include_static_objects = True
    meshes = {}
    for seed in seeds:
        name = scene_name(seed)
        with habitat_sim.Simulator(_unseen(folder, name)) as sim:
            if not sim.recompute_navmesh(sim.pathfinder, settings):
                raise RuntimeError(f"habitat-sim made no navigation mesh of {name}")
            meshes[name] = f"navmeshes/{name}.navmesh"
            (folder / "navmeshes").mkdir(exist_ok=True)
            sim.pathfinder.save_nav_mesh(str(folder / meshes[name]))
        _set(folder / "scenes" / f"{name}.scene_instance.json", "navmesh_instance", name)
    # Last: habitat-sim would look for what is named here and not yet there.
    _set(folder / DATASET, "navmesh_instances", meshes)


def _unseen(folder: Path, name: str) -> object:
    """Return the configuration of a simulator that draws nothing."""
    import habitat_sim

    backend = habitat_sim.SimulatorConfiguration()
    backend.scene_dataset_config_file, backend.scene_id = str(folder / DATASET), name
    backend.create_renderer, backend.enable_physics = False, True
    backend.physics_config_file = str(folder / PHYSICS)
    agent = habitat_sim.agent.AgentConfiguration()
    agent.sensor_specifications = []
    return habitat_sim.Configuration(backend, [agent])


def _set(file: Path, key: str, value: object) -> None:
    """Change one entry of a JSON file."""
    content = json.loads(file.read_text())
    file.write_text(json.dumps({**content, key: value}, indent=1) + "\n")
