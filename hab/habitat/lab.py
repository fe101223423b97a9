"""habitat-lab's HAB tasks, composed by its own configuration, on a folder of Habitat data.

Everything here needs habitat-lab and habitat-sim; `missing` says what to do where they are not installed.
"""

from __future__ import annotations

import contextlib
import io
import logging
import os
import warnings
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hab import robot
from hab.actions import CONTROL_HZ, PHYSICS_HZ
from hab.habitat.apartments import DATASET, PHYSICS
from hab.habitat.fetch import URDF
from hab.robot import BASE_MAX_M_S, BASE_MAX_RAD_S

CONFIGS = {
    "tidy_house": "benchmark/rearrange/multi_task/tidy_house.yaml",
    "prepare_groceries": "benchmark/rearrange/multi_task/prepare_groceries.yaml",
    "set_table": "benchmark/rearrange/multi_task/set_table.yaml",
    "navigate": "benchmark/rearrange/skills/nav_to_obj.yaml",
    "pick": "benchmark/rearrange/skills/pick.yaml",
    "place": "benchmark/rearrange/skills/place.yaml",
    "open_fridge": "benchmark/rearrange/skills/open_fridge.yaml",
    "close_fridge": "benchmark/rearrange/skills/close_fridge.yaml",
    "open_cabinet": "benchmark/rearrange/skills/open_cab.yaml",
    "close_cabinet": "benchmark/rearrange/skills/close_cab.yaml",
}
"""habitat-lab's configuration of each scenario and skill."""
INSTALL = (
    "habitat-sim is not installed: build v0.3.4 from source, with Bullet and without a display (docs/habitat.md has "
    "the commands), then make habitat"
)
INSTALL_LAB = "habitat-lab is not installed: make habitat"


def missing() -> str:
    """Return what is missing for the Habitat back end and how to mend it, in one line; "" if nothing is."""
    if find_spec("habitat_sim") is None:
        return INSTALL
    if find_spec("habitat") is None:
        return INSTALL_LAB
    quiet()
    import habitat_sim

    if not habitat_sim.built_with_bullet:
        return "this habitat-sim was built without Bullet: install habitat-sim withbullet, or build it with --bullet"
    return ""


@dataclass(frozen=True)
class Files:
    """Where habitat-lab finds what it plays."""

    dataset: Path
    """The scene dataset."""
    robot: Path
    physics: Path
    objects: tuple[Path, ...] = ()
    """Folders of objects that are not in the scene dataset."""
    episodes: str = ""
    """The task's episodes, with {split} for the split's name."""

    @classmethod
    def of_export(cls, folder: Path, name: str) -> Files:
        """Return those of a task in a folder of `tpsrl export habitat`."""
        episodes = str(folder / "episodes" / "{split}" / f"{name}.json.gz")
        return cls(folder / DATASET, folder / URDF, folder / PHYSICS, (), episodes)


def overrides(files: Files, split: str) -> dict[str, Any]:
    """Return what we set in habitat-lab's configuration of a task, by key.

    The base is as fast as ours: habitat-lab integrates one physics step per control step, so its speeds are scaled.
    """
    agent = "habitat.simulator.agents.main_agent"
    ratio = PHYSICS_HZ / CONTROL_HZ
    return {
        "habitat.dataset.data_path": files.episodes,
        "habitat.dataset.scenes_dir": str(files.dataset.parent),
        "habitat.dataset.split": split,
        "habitat.simulator.scene_dataset": str(files.dataset),
        "habitat.simulator.habitat_sim_v0.physics_config_file": str(files.physics),
        "habitat.simulator.additional_object_paths": [str(place) for place in files.objects],
        "habitat.simulator.concur_render": False,
        "habitat.simulator.habitat_sim_v0.gpu_device_id": _gpu(),
        f"{agent}.articulated_agent_urdf": str(files.robot),
        f"{agent}.joint_start_noise": 0.0,
        f"{agent}.sim_sensors.head_depth_sensor.width": robot.DEPTH_SIZE,
        f"{agent}.sim_sensors.head_depth_sensor.height": robot.DEPTH_SIZE,
        "habitat.task.actions.arm_action.grip_controller": "SuctionGraspAction",
        "habitat.task.actions.base_velocity.lin_speed": ratio * BASE_MAX_M_S,
        "habitat.task.actions.base_velocity.ang_speed": ratio * BASE_MAX_RAD_S,
    }


def compose(files: Files, name: str, split: str, more: dict[str, Any] | None = None, colour: bool = False) -> Any:
    """Return habitat-lab's configuration of a scenario or skill with our overrides, and `more` of them.

    `colour`: with a colour sensor, without which no colour picture can be had later. It takes habitat-sim six seconds
    more to start under software OpenGL.
    """
    quiet()
    from habitat.config.default import get_config
    from habitat.datasets.rearrange import navmesh_utils, rearrange_dataset
    from habitat.tasks.rearrange import rearrange_sim

    # It would write a file into the working directory; the one in our folder is used.
    rearrange_dataset.check_and_gen_physics_config = lambda: None
    # It would take an apartment without a ceiling for outdoors, and start the robot on top of furniture, too.
    rearrange_sim.get_largest_island_index = lambda mesh, sim, **_: navmesh_utils.get_largest_island_index(mesh, sim)
    _meet_older_habitat_sim()
    settings = {**overrides(files, split), **(more or {})}
    third = "habitat.simulator.agents.main_agent.sim_sensors.third_rgb_sensor"
    if colour:
        settings |= {f"{third}.width": 1, f"{third}.height": 1}
    # The stop action comes with the scenarios; skills get it, too.
    stop = ["habitat/task/rearrange/actions=fetch_suction_arm_base_stop"] if "/skills/" in CONFIGS[name] else []
    groups = [*stop, *([f"+habitat/simulator/sim_sensors@{third}=third_rgb_sensor"] if colour else [])]
    values = [f"{key}={_text(value)}" for key, value in settings.items()]
    with warnings.catch_warnings(action="ignore"):  # of hydra's, to habitat-lab: which defaults it will have
        return get_config(CONFIGS[name], overrides=groups + values)


def quiet() -> None:
    """Keep habitat-sim's and habitat-lab's chatter off the terminal, unless the user set their variables."""
    for variable in ("HABITAT_SIM_LOG", "MAGNUM_LOG", "GLOG_minloglevel"):
        os.environ.setdefault(variable, "2" if variable.startswith("GLOG") else "quiet")
    os.environ.setdefault("HABITAT_LAB_LOG", str(logging.ERROR))
    with contextlib.redirect_stderr(io.StringIO()):  # gym, which habitat-lab imports, says that it is unmaintained
        import gym  # noqa: F401


def _meet_older_habitat_sim() -> None:
    """Give habitat-sim 0.3.3 the names of 0.3.4 that habitat-lab 0.3.320260507, the first for Python 3.11, uses."""
    import habitat_sim
    from habitat_sim.simulator import Sensor

    simulator = habitat_sim.Simulator
    if not hasattr(simulator, "sensors"):
        simulator.sensors = property(lambda self: self._sensors)
        simulator.get_sensor = lambda self, uuid: self._sensors[uuid]
        Sensor.sensor_object = property(lambda self: self._sensor_object)


def _gpu() -> int:
    """Return habitat-sim's number of the device to render on: -1 is software OpenGL."""
    return 0 if os.environ.get("CUDA_VISIBLE_DEVICES", "") not in ("", "-1") else -1


def _text(value: Any) -> str:
    """Return a value as hydra's override grammar takes it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return "[" + ",".join(_text(item) for item in value) + "]"
    return "'" + value.replace("'", "\\'") + "'" if isinstance(value, str) else str(value)
