"""The embedded simulator: an apartment, its objects and a Fetch in MuJoCo, 30 Hz control over 120 Hz physics.

What makes it honest: the base is a 112 kg body pushed by force-limited drives, the arm is driven within the
manufacturer's torque limits, and the suction cup holds only what its rim touches and lets go beyond `HOLD_FORCE_N`.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import mujoco
import numpy as np
from numpy.typing import NDArray

from hab import robot
from hab.actions import (
    ARM,
    BASE,
    CONTROL_HZ,
    GRIP,
    PHYSICS_HZ,
    Action,
)
from hab.depth_noise import noisy
from hab.episodes import Episode, load_grid, load_scene
from hab.mujoco import fetch
from hab.mujoco.build import ANYTHING, STATIC, scene_to_spec
from hab.mujoco.drives import NO_MOTION, command, strain
from hab.mujoco.rays import RangeSensors
from hab.mujoco.render import HeadCamera, ThirdPersonCamera
from hab.objects import held_pose
from hab.scene import Scene
from hab.simulator import Overlay, SimulationError, Snapshot

HOLD_FORCE_N = 100.0
"""The seal breaks above this pull or shear: a 4 cm cup at 0.8 bar vacuum."""
GIVE_S = 0.1
"""Time constant of the seal on a handle: it gives by 8 mm at 80 N, as a cup with bellows does. A stiff one is torn off
by whoever is a few millimetres off a door's arc."""
HOLD_DISTANCE_M = 0.15
"""The seal breaks when what is held is dragged this far from where it was grasped (habitat's hold threshold)."""

RIM_M = 0.006
"""A touch counts as the rim's if it lies at most this far behind the cup's front."""
_SUBSTEPS = PHYSICS_HZ // CONTROL_HZ
_MIN_AWAKE_STEPS = 10
"""MuJoCo's mjMINAWAKE: a tree sleeps after this many idle steps; `tree_asleep` counts up from minus that."""
_UNSTABLE = (
    mujoco.mjtWarning.mjWARN_BADQPOS,
    mujoco.mjtWarning.mjWARN_BADQVEL,
    mujoco.mjtWarning.mjWARN_BADQACC,
)


def with_guests(seed: int, guests: tuple[str, ...]) -> Scene:
    """Return an apartment with objects besides its own."""
    scene = load_scene(seed)
    return replace(scene, objects=(*scene.objects, *guests)) if guests else scene


@lru_cache(maxsize=20)  # as many as val or test have apartments; one takes 6 MB
def load_model(seed: int, guests: tuple[str, ...] = ()) -> mujoco.MjModel:
    """Compile an apartment with all objects and the robot, cached; `Simulator` never changes what it shares."""
    scene = with_guests(seed, guests)
    spec = scene_to_spec(scene)
    fetch.add_fetch(spec)
    for name in scene.objects:
        weld = spec.add_equality(name=name, type=mujoco.mjtEq.mjEQ_WELD, objtype=mujoco.mjtObj.mjOBJ_BODY)
        weld.name1, weld.name2, weld.active = fetch.GRIPPER, name, False
    for articulation in scene.articulations:
        ball = spec.add_equality(
            name=articulation.name, type=mujoco.mjtEq.mjEQ_CONNECT, objtype=mujoco.mjtObj.mjOBJ_BODY
        )
        ball.name1, ball.name2, ball.active = fetch.GRIPPER, articulation.name, False
        ball.solref[0] = GIVE_S
    return spec.compile()


class MujocoSimulator:
    """`hab.simulator.Simulator` on MuJoCo. Rendering contexts are made on first use."""

    def __init__(self, depth_noise: bool = False) -> None:
        self._depth_noise = depth_noise
        self.steps = 0
        self.force_n = 0.0
        """Largest normal force of the robot's contacts after the last step, held object's excluded (N)."""
        self.path_m = 0.0
        """Length of the base's path since reset (m)."""
        self.dropped = False
        """Whether the seal broke in the last step, rather than being released."""
        self._loaded: tuple[int, tuple[str, ...]] | None = None
        self._head: HeadCamera | None = None
        self._third: ThirdPersonCamera | None = None

    # -- episode ---------------------------------------------------------------------------------------------------

    def reset(self, episode: Episode) -> None:
        """Lay the episode out; compiles the apartment only when it differs from the last one, or other objects than its
        own are there."""
        guests = tuple(sorted(episode.objects.keys() - load_scene(episode.scene_seed).objects))
        if (episode.scene_seed, guests) != self._loaded:
            self._load(episode.scene_seed, guests)
        self.episode = episode
        model, data = self.model, self.data
        mujoco.mj_resetData(model, data)
        for name, (pos, yaw) in episode.objects.items():
            adr = self._object_qpos[name]
            data.qpos[adr : adr + 3] = pos
            data.qpos[adr + 3 : adr + 7] = (np.cos(yaw / 2), 0.0, 0.0, np.sin(yaw / 2))
        for name, position in episode.joints.items():
            data.qpos[self._joint_qpos[name]] = position
        self.place_robot(np.asarray(episode.robot))

    def place_robot(self, base: NDArray[np.float64], arm: NDArray[np.float64] = robot.REST_Q) -> None:
        """Put the robot down at base x, y, yaw with still joints and an empty gripper (start states only)."""
        data = self.data
        data.qvel[:] = 0.0
        data.qpos[self._base_qpos] = base
        data.qpos[self._arm_qpos] = arm
        data.eq_active[:] = 0
        self.model.geom_contype[self._cup] = self.model.geom_conaffinity[self._cup] = ANYTHING
        data.qacc_warmstart[:] = 0.0
        self._target = np.array(arm, dtype=np.float64)
        self._base_ctrl[:] = 0.0
        self._arm_ctrl[:] = self._target
        self._held, self._held_eq = "", -1
        self.steps, self.dropped = 0, False
        self.force_n = self.path_m = 0.0
        mujoco.mj_forward(self.model, data)

    def hold(self, name: str, tilt_rad: float = 0.0) -> None:
        """Let the cup hold a handle where it is, or put an object to it by its grasp point (start states only).

        The object is upright, or leans: its foot towards the robot by `tilt_rad`.
        """
        if name in self._object_qpos:
            adr = self._object_qpos[name]
            position, turn = held_pose(name, self.ee_pos, float(self._base[2]), tilt_rad)
            self.data.qpos[adr : adr + 3], self.data.qpos[adr + 3 : adr + 7] = position, turn
            mujoco.mj_forward(self.model, self.data)
        self._attach(name)

    def restore(self, snapshot: Snapshot) -> None:
        """Put everything where it stood in a snapshot of the episode's apartment, still (start states only)."""
        told = snapshot.read(self.scene)
        for name, (position, quat) in told.objects.items():
            adr = self._object_qpos[name]
            self.data.qpos[adr : adr + 3], self.data.qpos[adr + 3 : adr + 7] = position, quat
        for name, adr in self._joint_qpos.items():
            self.data.qpos[adr] = told.joints.get(name, 0.0)
        self.place_robot(np.array(told.base), np.array(told.arm))
        if snapshot.held:
            self._attach(snapshot.held)

    def collides(self) -> bool:
        """Whether the robot, or the object in its hand, touches anything else as it stands (for start states)."""
        if self.data.ncon == 0:
            return False
        mine = self._is_robot
        if self._held in self._object_qpos:
            mine = mine | (self.model.geom_bodyid == self.model.body(self._held).id)
        sides = mine[self.data.contact.geom]
        return bool((sides[:, 0] != sides[:, 1]).any())

    # -- step ------------------------------------------------------------------------------------------------------

    def step(self, action: Action) -> None:
        """Advance one control step (1/30 s)."""
        data = self.data
        x, y, yaw = self._base.tolist()
        arm, velocity = _part(action, ARM), _part(action, BASE)
        if not command(arm, velocity, self._arm, yaw, self._target, self._arm_ctrl, self._base_ctrl):
            raise SimulationError(f"the action holds values that are not finite: {action}")
        self.dropped = False
        wants = action.get(GRIP)
        suction = wants is not None and bool(wants[0] > 0.0)
        if self._held and not suction:
            self._release()
        mujoco.mj_step(self.model, data, _SUBSTEPS)
        position, velocities, acceleration = self._instabilities
        if position.number or velocities.number or acceleration.number:
            raise SimulationError(f"the physics became unstable in control step {self.steps}")
        # mj_step leaves links where they were before its last substep.
        mujoco.mj_kinematics(self.model, data)
        self.steps += 1
        new_x, new_y, _ = self._base.tolist()
        self.path_m += math.hypot(new_x - x, new_y - y)
        touching = self._read_contacts()
        if self._held:
            if self._overloaded():
                self._release()
                self.dropped = True
        elif suction and touching:
            self._attach(touching)

    # -- state -----------------------------------------------------------------------------------------------------

    @property
    def base(self) -> NDArray[np.float64]:
        """(3,) base x, y (m) and yaw (rad, unwrapped) in the world."""
        return self._base.copy()

    @property
    def arm(self) -> NDArray[np.float64]:
        """(7,) arm joint positions (rad)."""
        return self._arm.copy()

    @property
    def arm_target(self) -> NDArray[np.float64]:
        """(7,) joint targets of the arm's drives (rad)."""
        return self._target.copy()

    @property
    def ee_pos(self) -> NDArray[np.float64]:
        """(3,) end-effector position in the world (m)."""
        return self._ee_pos.copy()

    @property
    def ee_mat(self) -> NDArray[np.float64]:
        """(3, 3) end-effector to world; +x points out of the cup."""
        return self._ee_mat.reshape(3, 3).copy()

    @property
    def held(self) -> str:
        """The object, or the articulation whose handle, the suction holds; "" for none."""
        return self._held

    def object_pos(self, name: str) -> NDArray[np.float64]:
        """(3,) centre of mass in the world (m)."""
        adr = self._object_qpos[name]
        return self.data.qpos[adr : adr + 3].copy()

    def object_positions(self, names: tuple[str, ...]) -> NDArray[np.float64]:
        """(n, 3) centres of mass in the world (m)."""
        index = self._positions_index.get(names)
        if index is None:
            index = np.array([self._object_qpos[name] for name in names])[:, None] + np.arange(3)
            self._positions_index[names] = index
        return self.data.qpos[index]

    def object_quat(self, name: str) -> NDArray[np.float64]:
        """(4,) orientation in the world, scalar first."""
        adr = self._object_qpos[name]
        return self.data.qpos[adr + 3 : adr + 7].copy()

    def joint_pos(self, name: str) -> float:
        """Position of a drawer (m) or door (rad); 0 closed, positive open."""
        return float(self.data.qpos[self._joint_qpos[name]])

    def handle_pos(self, name: str) -> NDArray[np.float64]:
        """(3,) centre of a handle in the world (m)."""
        body, local = self._handles[name]
        return self.data.xpos[body] + self.data.xmat[body].reshape(3, 3) @ local

    def state(self) -> NDArray[np.float64]:
        """Everything the next step depends on, for replay checks: physics, drives and what the cup holds, and how."""
        spec = mujoco.mjtState.mjSTATE_INTEGRATION
        out = np.empty(mujoco.mj_stateSize(self.model, spec))
        mujoco.mj_getState(self.model, self.data, out, spec)
        held = [float(self._held_eq), float(self.model.geom_contype[self._cup])]
        hold = [*self.model.eq_data[self._held_eq], *self._hold_local, *self._hold_point] if self._held else []
        return np.concatenate([out, self._target, held, hold])

    # -- sensors ---------------------------------------------------------------------------------------------------

    def laser(self) -> NDArray[np.float32]:
        """(64,) ranges of the base laser over 220 degrees, right to left, metres / 10 clipped to [0, 1]."""
        return self._ranges.laser(self.data, self._base)

    def head_scan(self) -> NDArray[np.float32]:
        """(48,) ranges of the head scan, metres / 3 clipped to [0, 1]."""
        return self._ranges.head_scan(self.data, self._base)

    def head_look(self) -> NDArray[np.float32]:
        """(7298,) ranges of the head camera, a ray a degree, metres / 3 clipped to [0, 1]."""
        return self._ranges.head_look(self.data, self._base)

    def depth(self) -> NDArray[np.float32]:
        """(128, 128, 1) head depth, metres / 10 clipped to [0, 1]."""
        if self._head is None:
            self._head = HeadCamera(self.model)
        mujoco.mj_camlight(self.model, self.data)
        image = self._head.depth(self.data)
        return noisy(image, self.data.qpos) if self._depth_noise else image

    def render_rgb(self, width: int, height: int, overlays: Sequence[Overlay] = ()) -> NDArray[np.uint8]:
        """(height, width, 3) third-person view."""
        return self._third_person(width, height).rgb(self.data, self.base, overlays)

    def render_overview(self, width: int, height: int) -> NDArray[np.uint8]:
        """(height, width, 3) the apartment from above."""
        return self._third_person(width, height).overview(self.data)

    def _third_person(self, width: int, height: int) -> ThirdPersonCamera:
        if self._third is None or self._third.size != (width, height):
            if self._third is not None:
                self._third.close()
            self._third = ThirdPersonCamera(self.model, self.scene, width, height)
        return self._third

    def close(self) -> None:
        """Free the rendering contexts."""
        for camera in (self._head, self._third):
            if camera is not None:
                camera.close()
        self._head = self._third = None

    # -- inside ----------------------------------------------------------------------------------------------------

    def _load(self, seed: int, guests: tuple[str, ...]) -> None:
        self.close()
        self.scene, self.nav, self._loaded = with_guests(seed, guests), load_grid(seed), (seed, guests)
        # A copy, because grasping writes the weld's relative pose into the model.
        self.model = copy.copy(load_model(seed, guests))
        model = self.model
        self.data = mujoco.MjData(model)
        data = self.data

        def span(names: Sequence[str]) -> slice:
            first = int(model.joint(names[0]).qposadr[0])
            return slice(first, first + len(names))

        self._base_qpos = span(fetch.BASE_JOINTS)
        self._arm_qpos = span(fetch.ARM_JOINTS)
        first = model.actuator(fetch.BASE_JOINTS[0]).id
        self._base_ctrl, self._arm_ctrl = data.ctrl[first : first + 3], data.ctrl[first + 3 : first + 10]
        self._base, self._arm = data.qpos[self._base_qpos], data.qpos[self._arm_qpos]
        self._ranges = RangeSensors(model)
        self._instabilities = [data.warning[kind] for kind in _UNSTABLE]
        site = model.site(fetch.EE).id
        self._ee_pos, self._ee_mat = data.site_xpos[site], data.site_xmat[site]
        self._gripper = model.body(fetch.GRIPPER).id
        self._positions_index: dict[tuple[str, ...], NDArray[np.int64]] = {}
        self._object_qpos = {name: int(model.joint(name).qposadr[0]) for name in self.scene.objects}
        self._joint_qpos = {a.name: int(model.joint(a.name).qposadr[0]) for a in self.scene.articulations}
        self._handles = {a.name: (model.body(a.name).id, np.array(a.handle_pos)) for a in self.scene.articulations}
        self._cup = model.geom(fetch.CUP).id
        base = model.body(fetch.BASE).id
        self._is_robot = model.body_rootid[model.geom_bodyid] == model.body_rootid[base]
        handles = {model.geom(a.handle_geom).id: a.name for a in self.scene.articulations}
        bodies = {model.body(name).id: name for name in self.scene.objects}
        self._graspable = {
            g: handles.get(g) or bodies[int(model.geom_bodyid[g])]
            for g in range(model.ngeom)
            if g in handles or int(model.geom_bodyid[g]) in bodies
        }

    def _read_contacts(self) -> str:
        """Read the robot's largest contact force; return the name of what the cup's rim touches ("" for nothing)."""
        self.force_n, touching = 0.0, ""
        if self.data.ncon == 0:
            return touching
        contact = self.data.contact
        geoms = contact.geom
        sides = self._is_robot[geoms]
        hits = (sides[:, 0] != sides[:, 1]).nonzero()[0]
        if hits.size:
            forces, rows = self.data.efc_force, contact.efc_address[hits].tolist()
            for hit, (a, b), row in zip(hits, geoms[hits].tolist(), rows, strict=True):
                name = self._graspable.get(b) or self._graspable.get(a, "")
                if name and self._cup in (a, b) and self._at_rim(contact.pos[hit]):
                    touching = name
                if row >= 0 and not (name and name == self._held):
                    self.force_n = max(self.force_n, float(forces[row]))
        return touching

    def _at_rim(self, point: NDArray[np.float64]) -> bool:
        """Whether a point of contact with the cup lies on its rim rather than along its side."""
        return float((point - self._ee_pos) @ self._ee_mat.reshape(3, 3)[:, 0]) > -RIM_M

    def _gripper_frame(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        return self.data.xpos[self._gripper], self.data.xmat[self._gripper].reshape(3, 3)

    def _attach(self, name: str) -> None:
        """Close the seal: a weld that keeps an object's present pose, a ball joint at the rim on a handle."""
        model, data = self.model, self.data
        pos, mat = self._gripper_frame()
        eq, body = model.equality(name).id, model.body(name).id
        other = data.xmat[body].reshape(3, 3)
        if name in self._object_qpos:
            relative = np.empty(4)
            mujoco.mju_mat2Quat(relative, (mat.T @ other).reshape(9))
            model.eq_data[eq, 0:3] = 0.0
            model.eq_data[eq, 3:6] = mat.T @ (data.xpos[body] - pos)
            model.eq_data[eq, 6:10] = relative
            self._hold_local = np.zeros(3)
        else:
            self._hold_local = other.T @ (self._ee_pos - data.xpos[body])
            model.eq_data[eq, 0:3] = (robot.EE_OFFSET_M, 0.0, 0.0)
            model.eq_data[eq, 3:6] = self._hold_local
        self._hold_point = np.ascontiguousarray(mat.T @ (data.xpos[body] + other @ self._hold_local - pos))
        data.eq_active[eq] = 1
        # The seal stands for the contact from now on: a rigid rim would lever a swivelling cup off, and fight the weld.
        model.geom_contype[self._cup] = model.geom_conaffinity[self._cup] = STATIC
        self._held, self._held_eq = name, eq

    def _release(self) -> None:
        self.data.eq_active[self._held_eq] = 0
        self.model.geom_contype[self._cup] = self.model.geom_conaffinity[self._cup] = ANYTHING
        # What was held still for a while has a full count of idle steps and would fall asleep in mid-air.
        tree = self.model.body_treeid[self.model.eq_obj2id[self._held_eq]]
        self.data.tree_asleep[tree] = -(1 + _MIN_AWAKE_STEPS)
        self._held, self._held_eq = "", -1

    def _overloaded(self) -> bool:
        """Whether the seal breaks: too much force on it, or what it holds was dragged too far."""
        # The held equality is the only active one, and equalities come first among the constraints.
        data, body, gripper = self.data, self.model.eq_obj2id[self._held_eq], self._gripper
        load_n2, dragged_m = strain(
            data.efc_force[:3], self._ee_mat, data.xpos[gripper], data.xmat[gripper], data.xpos[body], data.xmat[body],
            self._hold_local, self._hold_point,
        )  # fmt: skip
        return load_n2 > HOLD_FORCE_N**2 or dragged_m > HOLD_DISTANCE_M


def _part(action: Action, name: str) -> NDArray[np.float32]:
    part = action.get(name)
    return NO_MOTION if part is None else np.ascontiguousarray(part, np.float32)
