"""What every simulator gives to tasks, skills, planner and evaluators.

World frame: z up, metres, radians. Base frame: x forward, y left, z up, origin on the floor under the base's centre.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hab.actions import Action
from hab.episodes import Episode
from hab.navgrid import NavGrid
from hab.scene import Quat, Scene, Vec3

VIEW_TURN = 0.08
"""The third-person camera turns after the robot by this share of what is missing, a frame, so that videos stay calm."""
VIEW_AHEAD_M, VIEW_HEIGHT_M = 0.35, 0.75
"""It looks at a point ahead of the base …"""
VIEW_SIDE_DEG, VIEW_ELEVATION_DEG, VIEW_DISTANCE_M = 20.0, -42.0, 3.2
"""… from behind, the robot's right and above."""
VIEW_FOV_DEG = 45.0
"""Vertical."""


class SimulationError(RuntimeError):
    """The physics became unstable, or an action was not finite."""


@dataclass(frozen=True)
class Overlay:
    """A shape drawn into the third-person view only: it is no part of the world."""

    shape: str
    """"box", "sphere", "cylinder", "capsule" or "ellipsoid"."""
    pos: tuple[float, float, float]
    size: tuple[float, float, float]
    """MuJoCo half sizes (m)."""
    rgba: tuple[float, float, float, float]
    mat: tuple[float, ...] = (1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)
    """Rotation to the world, row by row."""


@dataclass(frozen=True)
class Layout:
    """Where everything stands: what a `Snapshot` says, by name."""

    base: tuple[float, float, float]
    arm: tuple[float, ...]
    """(7,) joint positions (rad)."""
    objects: dict[str, tuple[Vec3, Quat]]
    joints: dict[str, float]
    """Of the articulations that are not closed (m or rad)."""


@dataclass(frozen=True)
class Snapshot:
    """Where everything stood, and what was in hand: enough to start there again, with everything still."""

    positions: NDArray[np.float64]
    """(10 + 7 objects + articulations,) base x, y, yaw, arm, each object's position and orientation (scalar first), and
    each articulation's joint, in the apartment's order."""
    held: str

    @classmethod
    def of(cls, sim: Simulator) -> Snapshot:
        """Take one."""
        objects = [part for name in sim.scene.objects for part in (sim.object_pos(name), sim.object_quat(name))]
        joints = [sim.joint_pos(articulation.name) for articulation in sim.scene.articulations]
        return cls(np.concatenate((sim.base, sim.arm, *objects, joints)), sim.held)

    @staticmethod
    def of_object(scene: Scene, name: str) -> slice:
        """Return which of the `positions` are an object's: where it is (3), and how it is turned (4)."""
        return _numbers(scene.objects.index(name))

    def read(self, scene: Scene) -> Layout:
        """Return it by name, for its apartment."""
        values = self.positions.tolist()
        objects = {}
        for i, name in enumerate(scene.objects):
            x, y, z, *quat = values[_numbers(i)]
            objects[name] = (x, y, z), tuple(quat)
        joints = zip((a.name for a in scene.articulations), values[10 + 7 * len(scene.objects) :], strict=True)
        opened = {name: position for name, position in joints if position != 0.0}
        return Layout(tuple(values[:3]), tuple(values[3:10]), objects, opened)


def _numbers(i: int) -> slice:
    """Return which of a snapshot's positions are the i-th object's."""
    return slice(10 + 7 * i, 17 + 7 * i)


class Simulator(Protocol):
    """One robot in one apartment, stepped at 30 Hz. The arrays it gives away are C-contiguous float64, and copies."""

    scene: Scene
    episode: Episode
    nav: NavGrid
    steps: int
    """Control steps since reset."""
    force_n: float
    """Largest normal force of the robot's contacts after the last step, the held object's excluded (N); habitat-lab's
    `RearrangeTask.get_coll_forces`."""
    path_m: float
    """Length of the base's path since reset (m)."""
    dropped: bool
    """Whether the seal broke in the last step, rather than being released."""

    def reset(self, episode: Episode) -> None:
        """Lay the episode out: apartment, objects, joints, robot at rest with an empty gripper."""

    def restore(self, snapshot: Snapshot) -> None:
        """Put everything where it stood in a snapshot of the episode's apartment, still (start states only)."""

    def step(self, action: Action) -> None:
        """Advance one control step (1/30 s)."""

    def close(self) -> None: ...

    def place_robot(self, base: NDArray[np.float64], arm: NDArray[np.float64]) -> None:
        """Put the robot down at base x, y, yaw with its arm at joint positions, still (start states only)."""

    def hold(self, name: str, tilt_rad: float = 0.0) -> None:
        """Let the cup hold a handle where it is, or put an object to it, upright or leaning (start states only)."""

    def collides(self) -> bool:
        """Whether the robot, or what it holds, touches anything else as it stands (for start states)."""
        ...

    def state(self) -> NDArray[np.float64]:
        """Everything the next step depends on, for replay checks."""
        ...

    @property
    def base(self) -> NDArray[np.float64]:
        """(3,) base x, y (m) and yaw (rad) in the world."""
        ...

    @property
    def arm(self) -> NDArray[np.float64]:
        """(7,) arm joint positions (rad)."""
        ...

    @property
    def arm_target(self) -> NDArray[np.float64]:
        """(7,) joint targets that the arm's drives are at (rad)."""
        ...

    @property
    def ee_pos(self) -> NDArray[np.float64]:
        """(3,) end-effector position in the world (m)."""
        ...

    @property
    def ee_mat(self) -> NDArray[np.float64]:
        """(3, 3) end-effector rotation, end-effector to world; +x points out of the cup."""
        ...

    @property
    def held(self) -> str:
        """Name of the object, or of the articulation whose handle, the suction holds; "" for none."""
        ...

    def object_pos(self, name: str) -> NDArray[np.float64]:
        """(3,) centre of mass of an object in the world (m)."""
        ...

    def object_positions(self, names: tuple[str, ...]) -> NDArray[np.float64]:
        """(n, 3) centres of mass in the world (m)."""
        ...

    def object_quat(self, name: str) -> NDArray[np.float64]:
        """(4,) orientation of an object in the world, scalar first."""
        ...

    def joint_pos(self, name: str) -> float:
        """Position of an articulation's joint (m or rad), 0 closed, positive open."""
        ...

    def handle_pos(self, name: str) -> NDArray[np.float64]:
        """(3,) centre of an articulation's handle in the world (m)."""
        ...

    def depth(self) -> NDArray[np.float32]:
        """(128, 128, 1) head depth in [0, 1] (metres / 10)."""
        ...

    def head_scan(self) -> NDArray[np.float32]:
        """(48,) ranges from the head depth camera in [0, 1] (metres / 3): three columns of 16, right to left, each from
        the floor up; `robot.UNKNOWN_RANGE` where the robot's own arm is in the way."""
        ...

    def head_look(self) -> NDArray[np.float32]:
        """(7298,) ranges of the same camera, likewise, a ray a degree (`robot.HEAD_LOOK_YAWS_RAD`): 89 columns of 82;
        `robot.UNKNOWN_RANGE` outside its image, too."""
        ...

    def laser(self) -> NDArray[np.float32]:
        """(64,) ranges of the base laser in [0, 1] (metres / 10), right to left; likewise of the arm."""
        ...

    def render_rgb(self, width: int, height: int, overlays: Sequence[Overlay] = ()) -> NDArray[np.uint8]:
        """(height, width, 3) third-person view of the robot, with shapes drawn in."""
        ...
