"""The third-person view on a habitat-lab simulator, from where the embedded simulator has it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hab.habitat.frames import from_habitat, to_habitat
from hab.simulator import (
    VIEW_AHEAD_M,
    VIEW_DISTANCE_M,
    VIEW_ELEVATION_DEG,
    VIEW_FOV_DEG,
    VIEW_HEIGHT_M,
    VIEW_SIDE_DEG,
    VIEW_TURN,
)


class ThirdPerson:
    """Follows the robot of one habitat-lab simulator; a new episode needs a new one."""

    def __init__(self, sim: Any) -> None:
        """`sim`: made with a colour sensor (`lab.compose(..., colour=True)`), or there are no colours to draw."""
        self._sim = sim
        self._yaw: float | None = None

    def render(self, width: int, height: int) -> NDArray[np.uint8]:
        """Return the view (height, width, 3) of the robot as it stands."""
        from magnum import Matrix4, Vector3

        name = f"third_person_{width}x{height}"
        if name not in self._sim.sensors:
            self._add(name, width, height)
        robot = self._sim.articulated_agent
        x, y, _ = from_habitat(robot.base_pos)
        yaw = float(robot.base_rot)
        if self._yaw is None:
            self._yaw = yaw
        self._yaw += VIEW_TURN * math.remainder(yaw - self._yaw, math.tau)
        target = np.array((x + VIEW_AHEAD_M * math.cos(yaw), y + VIEW_AHEAD_M * math.sin(yaw), VIEW_HEIGHT_M))
        azimuth, down = self._yaw + math.radians(VIEW_SIDE_DEG), math.radians(VIEW_ELEVATION_DEG)
        ahead = (math.cos(down) * math.cos(azimuth), math.cos(down) * math.sin(azimuth), math.sin(down))
        eye = target - VIEW_DISTANCE_M * np.array(ahead)
        pose = Matrix4.look_at(Vector3(*to_habitat(eye)), Vector3(*to_habitat(target)), Vector3(0.0, 1.0, 0.0))
        node = self._sim.get_sensor(name).sensor_object.node
        node.transformation = node.parent.absolute_transformation().inverted() @ pose
        return np.ascontiguousarray(read_camera(self._sim, name)[:, :, :3])

    def _add(self, name: str, width: int, height: int) -> None:
        import habitat_sim
        from magnum import Deg

        spec = habitat_sim.CameraSensorSpec()
        spec.uuid, spec.resolution = name, [height, width]
        spec.sensor_type = habitat_sim.SensorType.COLOR
        above = math.tan(math.radians(VIEW_FOV_DEG) / 2)
        spec.hfov = Deg(math.degrees(2.0 * math.atan(above * width / height)))
        self._sim.add_sensor(spec)


def read_camera(sim: Any, name: str) -> NDArray[Any]:
    """Draw what one of a habitat-lab simulator's cameras sees, and no other."""
    camera = sim.get_sensor(name)
    camera.draw_observation()
    return np.array(camera.get_observation())
