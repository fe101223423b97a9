"""The base alone, without physics: a disc, and a hand ahead of it, that stop at what is in the way. For Navigate.

habitat moves the base in just such a way (habitat-lab: `BaseVelAction`). A policy learns to find its way here in a
fraction of the time, and then, in the embedded physics, what pushing costs. Objects are not seen, nothing falls out of
the hand, the arm rests. How the base gets along on free floor, and what the sensors say of the house, agrees with the
embedded simulator (tests/hab/test_planar.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hab import robot
from hab.actions import BASE, CONTROL_HZ, GRIP, Action
from hab.episodes import Episode, load_grid, load_scene
from hab.measures import base_to_world
from hab.mujoco.rays import StillShapes
from hab.navigation.motion import move
from hab.navigation.shapes import Columns, columns, of_furniture, of_links
from hab.openings import grid_with_openings, handle_at
from hab.simulator import Overlay, SimulationError, Snapshot

ACCELERATION_M, ACCELERATION_RAD = 0.135 / CONTROL_HZ, 0.8 / CONTROL_HZ
"""By so much a control step's way and turn may differ from those of the one before (m, rad)."""
DRIVEN_M, DRIVEN_RAD = 0.993 * robot.BASE_MAX_M_S / CONTROL_HZ, 0.925 * robot.BASE_MAX_RAD_S / CONTROL_HZ
"""Way and turn of a control step at full speed (m, rad): less than what is asked for, by the drives' damping."""
HAND_M = 0.10
"""Room that the hand, or what hangs from it, needs around it."""
BLOCKED_N = 60.0
"""The contact force while something is in the way: no measured one, but a reason to stay clear."""

EE_BASE = np.array([0.642, -0.241, 0.913])
"""(3,) the resting arm's end-effector, base frame (m)."""
EE_MAT_BASE = np.array([[0.151, 0.358, 0.921], [-0.009, 0.932, -0.361], [-0.989, 0.047, 0.144]])
"""(3, 3) its rotation, end-effector to base."""


class PlanarSimulator:
    """`hab.simulator.Simulator` for whoever drives only: arm actions change nothing, suction keeps or lets go."""

    def __init__(self) -> None:
        self.steps = 0
        self.force_n = self.path_m = 0.0
        self.dropped = False
        self._base, self._speed = np.zeros(3), np.zeros(2)
        self._held = ""

    def reset(self, episode: Episode) -> None:
        self.episode, self.scene, self.nav = episode, load_scene(episode.scene_seed), load_grid(episode.scene_seed)
        self._objects = {name: np.array(position) for name, (position, _) in episode.objects.items()}
        self._open(episode.joints)
        self.place_robot(np.asarray(episode.robot))

    def restore(self, snapshot: Snapshot) -> None:
        told = snapshot.read(self.scene)
        self._objects = {name: np.array(position) for name, (position, _) in told.objects.items()}
        self._open(told.joints)
        self.place_robot(np.array(told.base))
        self._held = snapshot.held

    def step(self, action: Action) -> None:
        grip, velocity = action.get(GRIP), np.zeros(2) if BASE not in action else np.asarray(action[BASE], np.float64)
        if not np.isfinite(velocity).all():
            raise SimulationError(f"the action holds values that are not finite: {action}")
        if self._held and (grip is None or grip[0] <= 0.0):
            self._objects[self._held], self._held = self.ee_pos, ""
        x, y, _ = self._base.tolist()
        blocked = _drive(self._grid.free, self._tall, self._frame, self._base, self._speed, velocity)
        self.force_n = BLOCKED_N if blocked else 0.0
        self.path_m += math.dist((x, y), self._base[:2].tolist())
        self.steps += 1

    def place_robot(self, base: NDArray[np.float64], arm: NDArray[np.float64] = robot.REST_Q) -> None:
        self._base[:], self._speed[:], self._held = base, 0.0, ""
        self.steps, self.force_n, self.path_m, self.dropped = 0, 0.0, 0.0, False

    def hold(self, name: str, tilt_rad: float = 0.0) -> None:
        self._held = name

    def collides(self) -> bool:
        x, y, _ = self._base.tolist()
        return not self._grid.is_free(x, y) or _hand_room(self._tall, self._frame, self._base) < HAND_M

    def state(self) -> NDArray[np.float64]:
        return np.array([*self._base, *self._speed])

    def close(self) -> None:
        pass

    @property
    def base(self) -> NDArray[np.float64]:
        return self._base.copy()

    @property
    def arm(self) -> NDArray[np.float64]:
        return robot.REST_Q.copy()

    @property
    def arm_target(self) -> NDArray[np.float64]:
        return robot.REST_Q.copy()

    @property
    def ee_pos(self) -> NDArray[np.float64]:
        x, y, yaw = self._base.tolist()
        return np.array((*_hand_at(x, y, yaw), EE_BASE[2]))

    @property
    def ee_mat(self) -> NDArray[np.float64]:
        return base_to_world(self)[1] @ EE_MAT_BASE

    @property
    def held(self) -> str:
        return self._held

    def object_pos(self, name: str) -> NDArray[np.float64]:
        return self.ee_pos if name == self._held else self._objects[name].copy()

    def object_positions(self, names: tuple[str, ...]) -> NDArray[np.float64]:
        return np.array([self.object_pos(name) for name in names])

    def object_quat(self, name: str) -> NDArray[np.float64]:
        return np.array([1.0, 0.0, 0.0, 0.0])

    def joint_pos(self, name: str) -> float:
        return self._joints.get(name, 0.0)

    def handle_pos(self, name: str) -> NDArray[np.float64]:
        return np.array(handle_at(self.scene.articulation(name), self.joint_pos(name)))

    def laser(self) -> NDArray[np.float32]:
        return self._shapes.laser(self._base)

    def head_scan(self) -> NDArray[np.float32]:
        return self._shapes.head_scan(self._base)

    def head_look(self) -> NDArray[np.float32]:
        raise SimulationError("the planar simulator shows no objects: it is for training Navigate")

    def depth(self) -> NDArray[np.float32]:
        raise SimulationError("the planar simulator draws no images: it is for `laser`")

    def render_rgb(self, width: int, height: int, overlays: Sequence[Overlay] = ()) -> NDArray[np.uint8]:
        raise SimulationError("the planar simulator draws no images")

    # -- inside ----------------------------------------------------------------------------------------------------

    def _open(self, joints: Mapping[str, float]) -> None:
        self._joints = dict(joints)
        self._grid = grid_with_openings(self.scene, self.nav, joints)
        self._tall = self._grid.tall_clearance
        self._frame = self._grid.frame
        self._shapes = StillShapes(*_furniture(self.scene.seed).with_(columns(of_links(self.scene, joints))))


@lru_cache(maxsize=64)
def _furniture(seed: int) -> Columns:
    return columns(of_furniture(load_scene(seed)))


@njit("UniTuple(float64, 2)(float64, float64, float64)", cache=True)
def _hand_at(x: float, y: float, yaw: float) -> tuple[float, float]:
    """Return where the resting hand is with the base at a pose (m, m, rad)."""
    cos, sin = math.cos(yaw), math.sin(yaw)
    return x + cos * EE_BASE[0] - sin * EE_BASE[1], y + sin * EE_BASE[0] + cos * EE_BASE[1]


@njit("float64(float32[:, ::1], float64[::1], float64[::1])", cache=True)
def _hand_room(tall: NDArray[np.float32], frame: NDArray[np.float64], base: NDArray[np.float64]) -> float:
    """Return how far (m) the hand is from what is as high as it."""
    x, y = _hand_at(base[0], base[1], base[2])
    i, j = math.floor((y - frame[1]) / frame[2]), math.floor((x - frame[0]) / frame[2])
    return float(tall[i, j]) if 0 <= i < tall.shape[0] and 0 <= j < tall.shape[1] else 0.0


@njit("boolean(boolean[:, ::1], float32[:, ::1], float64[::1], float64[::1], float64[::1], float64[::1])", cache=True)
def _drive(
    free: NDArray[np.bool_],
    tall: NDArray[np.float32],
    frame: NDArray[np.float64],
    base: NDArray[np.float64],
    speed: NDArray[np.float64],
    velocity: NDArray[np.float64],
) -> bool:
    """Move the base (3,) for one control step; return whether anything was in the way.

    speed (2,): the way and the turn of the step before (m, rad), changed here; velocity (2,): the action's, in [-1, 1].
    The hand stops the base where it would come nearer to what stands there than it has room for.
    """
    for k, (full, most) in enumerate(((DRIVEN_M, ACCELERATION_M), (DRIVEN_RAD, ACCELERATION_RAD))):
        wanted = min(max(velocity[k], -1.0), 1.0) * full
        speed[k] += min(max(wanted - speed[k], -most), most)
    room, before = _hand_room(tall, frame, base), base.copy()
    base[2] += speed[1]
    turned = _hand_room(tall, frame, base)
    blocked = False
    if turned < min(HAND_M, room):
        base[2], turned, blocked = before[2], room, True
    if move(free, frame, base, speed[0], 0.0):
        blocked = True
    if _hand_room(tall, frame, base) < min(HAND_M, turned):
        base[0], base[1], blocked = before[0], before[1], True
    if blocked:  # it goes on as fast as it got on
        made = math.hypot(base[0] - before[0], base[1] - before[1])
        speed[0], speed[1] = math.copysign(made, speed[0]), base[2] - before[2]
    return blocked
