"""habitat-lab's robot, actions and physics as a `hab.simulator.Simulator`.

The apartments are ours, exported on first use, so that an episode is the same one in both simulators; or those of a
folder of Habitat data (`hab.habitat.played`). What is habitat-lab's own: Bullet, a base that is moved rather than
driven and is kept on the navigation mesh, motors without torque limits of the manufacturer's, and suction that ends
only beyond 15 cm.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hab import robot
from hab.actions import ARM, BASE, GRIP, Action
from hab.depth_noise import noisy
from hab.episodes import Episode, load_grid, load_scene
from hab.habitat import lab
from hab.habitat.camera import ThirdPerson, read_camera
from hab.habitat.fetch import CUP_CENTRE_M, MOVING_LINKS
from hab.habitat.frames import TO_HABITAT, from_habitat, matrix, quat_to_habitat, to_habitat
from hab.habitat.played import Played
from hab.habitat.played import played as played_as
from hab.objects import held_pose, is_object
from hab.ray_fans import HEAD_LOOK_DIRECTIONS, HEAD_LOOK_OUTSIDE, HEAD_SCAN_DIRECTIONS, LASER_DIRECTIONS
from hab.scene import Quat
from hab.simulator import Overlay, SimulationError, Snapshot

_TOUCHING_M = 0.0
"""Contacts nearer than this count as such; Bullet reports pairs that are merely close, too."""
_LASER_RAYS = LASER_DIRECTIONS @ TO_HABITAT.T
_HEAD_RAYS = HEAD_SCAN_DIRECTIONS @ TO_HABITAT.T
_LOOK_RAYS = HEAD_LOOK_DIRECTIONS @ TO_HABITAT.T


class HabitatSimulator:
    """`hab.simulator.Simulator` on habitat-sim and habitat-lab."""

    def __init__(self, films: bool = False, depth_noise: bool = False) -> None:
        """`films`: whether `render_rgb` will be called (`lab.compose`)."""
        self._films, self._depth_noise = films, depth_noise
        self.steps = 0
        self.force_n = 0.0
        self.path_m = 0.0
        self.dropped = False
        self._data = ""
        self._env: Any = None
        self._config: Any = None
        self._stepped = False

    # -- episode ---------------------------------------------------------------------------------------------------

    def reset(self, episode: Episode) -> None:
        """Lay the episode out."""
        played = played_as(episode)
        self.episode, self.scene = episode, load_scene(episode.scene_seed)
        if episode.data:  # its apartment is not told which objects an episode has
            self.scene = replace(self.scene, objects=tuple(played.poses))
        self.nav = load_grid(episode.scene_seed)
        made = self._habitat_episode(played)
        # What Bullet remembers of contacts would make the same actions lead elsewhere, so no episode follows another in
        # the same world; it takes 0.3 s. Nor one of other data: objects and robot are read once.
        if self._stepped or self._data != episode.data:
            self.close()
        if self._data != episode.data:
            self._config = None
        if self._env is None:
            self._data = episode.data
            self._start(made, played.files)
        self._env.current_episode = made
        with self._writable(self._config):
            self._config.simulator.scene_dataset = made.scene_dataset_config
        self._env.reconfigure(self._config)
        self._env.task.reset(made, fetch_observations=False)
        self._find(played)
        for name, (position, quat) in played.poses.items():
            self._put(name, position, quat)
        for articulation in self.scene.articulations:
            self._set_joint(articulation.name, episode.joints.get(articulation.name, 0.0))
        self._view = ThirdPerson(self._sim)
        self.place_robot(np.asarray(episode.robot))

    def place_robot(self, base: NDArray[np.float64], arm: NDArray[np.float64] = robot.REST_Q) -> None:
        """Put the robot down at base x, y, yaw with still joints and an empty gripper (start states only)."""
        x, y, yaw = (float(value) for value in base)
        self._grasp.desnap(True)
        self._robot.sim_obj.clear_joint_states()
        self._robot.base_pos = self._mn.Vector3(*to_habitat((x, y, 0.0)))
        self._robot.base_rot = yaw
        self._robot.arm_joint_pos = np.asarray(arm, dtype=np.float32)
        self._robot.arm_motor_pos = np.asarray(arm, dtype=np.float32)
        self._robot.update()
        for marker in self._markers.values():
            marker.update()
        self.steps, self.dropped = 0, False
        self.force_n = self.path_m = 0.0

    def hold(self, name: str, tilt_rad: float = 0.0) -> None:
        """Let the cup hold a handle where it is, or put an object to it, upright or leaning (start states only)."""
        if not is_object(name):
            self._grasp.snap_to_marker(self._marker_names[name])
            self._pin_handle()
            return
        self._put(name, *held_pose(name, self.ee_pos, float(self.base[2]), tilt_rad))
        self._snap(self._objects[name])

    def restore(self, snapshot: Snapshot) -> None:
        """Put everything where it stood in a snapshot of the episode's apartment, still (start states only)."""
        told = snapshot.read(self.scene)
        for name, (position, quat) in told.objects.items():
            self._put(name, position, quat)
        for articulation in self.scene.articulations:
            self._set_joint(articulation.name, told.joints.get(articulation.name, 0.0))
        self.place_robot(np.array(told.base), np.array(told.arm))
        if is_object(snapshot.held):
            self._snap(self._objects[snapshot.held])
        elif snapshot.held:
            self.hold(snapshot.held)

    def collides(self) -> bool:
        """Whether the robot, or the object in its hand, touches anything else as it stands (for start states)."""
        self._sim.perform_discrete_collision_detection()
        return any(self._contacts())

    # -- step ------------------------------------------------------------------------------------------------------

    def step(self, action: Action) -> None:
        """Advance one control step (1/30 s), with habitat-lab's own actions."""
        self._stepped = True
        arm, grip, velocity = action.get(ARM), action.get(GRIP), action.get(BASE)
        suction = grip is not None and float(grip[0]) > 0.0
        held = self.held
        before = self.base
        for part in (arm, grip, velocity):
            if part is not None and not np.isfinite(part).all():
                raise SimulationError(f"the action holds values that are not finite: {action}")
        actions = self._env.task.actions
        actions["arm_action"].step(
            arm_action=np.zeros(7) if arm is None else np.array(arm, dtype=np.float64),
            grip_action=1.0 if suction else -1.0,
        )
        self._bound_targets()
        if not held and self._grasp.snapped_marker_id is not None:
            self._pin_handle()
        moved = (0.0, 0.0) if velocity is None else (float(velocity[0]), float(velocity[1]))
        actions["base_velocity"].step(base_vel=moved)
        self._keep_on_floor()
        after = self.base
        self.path_m += math.hypot(after[0] - before[0], after[1] - before[1])
        self._sim.maybe_update_articulated_agent()
        for _ in range(self._sim.ac_freq_ratio):
            self._sim.internal_step(-1, update_articulated_agent=False)
        for marker in self._markers.values():
            marker.update()
        if self._grasp.is_violating_hold_constraint():
            self._grasp.desnap(True)
        self.dropped = bool(held) and suction and not self.held
        self.force_n = float(max(self._contacts(), default=0.0))
        self.steps += 1

    # -- state -----------------------------------------------------------------------------------------------------

    @property
    def base(self) -> NDArray[np.float64]:
        """(3,) base x, y (m) and yaw (rad) in the world."""
        x, y, _ = from_habitat(self._robot.base_pos)
        return np.array((x, y, float(self._robot.base_rot)))

    @property
    def arm(self) -> NDArray[np.float64]:
        """(7,) arm joint positions (rad)."""
        return np.asarray(self._robot.arm_joint_pos, dtype=np.float64)

    @property
    def arm_target(self) -> NDArray[np.float64]:
        """(7,) joint targets of the arm's motors (rad)."""
        return np.asarray(self._robot.arm_motor_pos, dtype=np.float64)

    @property
    def ee_pos(self) -> NDArray[np.float64]:
        """(3,) end-effector position in the world (m)."""
        return np.array(from_habitat(self._robot.ee_transform().translation))

    @property
    def ee_mat(self) -> NDArray[np.float64]:
        """(3, 3) end-effector to world; +x points out of the cup."""
        return np.ascontiguousarray(TO_HABITAT.T @ np.array(self._robot.ee_transform().rotation()), np.float64)

    @property
    def held(self) -> str:
        """The object, or the articulation whose handle, the suction holds; "" for none."""
        if self._grasp.snap_idx is not None:
            return self._names[self._grasp.snap_idx]
        marker = self._grasp.snapped_marker_id
        return "" if marker is None else self._articulation_of[marker]

    def object_pos(self, name: str) -> NDArray[np.float64]:
        """(3,) centre of mass in the world (m)."""
        return np.array(from_habitat(self._objects[name].translation))

    def object_positions(self, names: tuple[str, ...]) -> NDArray[np.float64]:
        """(n, 3) centres of mass in the world (m)."""
        return np.array([self.object_pos(name) for name in names])

    def object_quat(self, name: str) -> NDArray[np.float64]:
        """(4,) orientation in the world, scalar first."""
        rotation = self._objects[name].rotation
        x, y, z = rotation.vector
        return np.array((rotation.scalar, x, -z, y))

    def joint_pos(self, name: str) -> float:
        """Position of a drawer (m) or door (rad); 0 closed, positive open."""
        marker = self._markers[self._marker_names[name]]
        return float(marker.ao_parent.joint_positions[marker.joint_idx])

    def handle_pos(self, name: str) -> NDArray[np.float64]:
        """(3,) centre of a handle in the world (m)."""
        marker = self._markers[self._marker_names[name]]
        return np.array(from_habitat(marker.get_current_position()))

    def state(self) -> NDArray[np.float64]:
        """Everything that is told of the world: poses, joints, targets, what is held. Bullet's own caches are not."""
        objects = [np.array(o.transformation).ravel() for o in self._objects.values()]
        joints = [self.joint_pos(a.name) for a in self.scene.articulations]
        held = [float(self.scene.objects.index(self.held)) if is_object(self.held) else -1.0]
        robot_joints = np.asarray(self._robot.sim_obj.joint_positions)
        return np.concatenate([self.base, robot_joints, self.arm_target, *objects, joints, held])

    def geodesic_distance(self, start: tuple[float, float], end: tuple[float, float]) -> float:
        """Return the length (m) of habitat-sim's shortest path on its navigation mesh; inf if there is none."""
        import habitat_sim

        path = habitat_sim.ShortestPath()
        path.requested_start = np.array(to_habitat((*start, 0.0)), dtype=np.float32)
        path.requested_end = np.array(to_habitat((*end, 0.0)), dtype=np.float32)
        return float(path.geodesic_distance) if self._sim.pathfinder.find_path(path) else math.inf

    # -- sensors ---------------------------------------------------------------------------------------------------

    def laser(self) -> NDArray[np.float32]:
        """(64,) ranges of the base laser, right to left, metres / 10 clipped to [0, 1]."""
        return self._ranges(robot.LASER_POS, _LASER_RAYS, robot.LASER_MAX_M)

    def head_scan(self) -> NDArray[np.float32]:
        """(48,) ranges of the head scan, metres / 3 clipped to [0, 1]."""
        return self._ranges(robot.HEAD_CAMERA_POS, _HEAD_RAYS, robot.HEAD_SCAN_MAX_M)

    def head_look(self) -> NDArray[np.float32]:
        """(7298,) ranges of the head camera, a ray a degree, metres / 3 clipped to [0, 1]."""
        ranges = self._ranges(robot.HEAD_CAMERA_POS, _LOOK_RAYS, robot.HEAD_SCAN_MAX_M)
        ranges[HEAD_LOOK_OUTSIDE] = robot.UNKNOWN_RANGE
        return ranges

    def depth(self) -> NDArray[np.float32]:
        """(128, 128, 1) head depth, metres / 10 clipped to [0, 1]; what is not hit (habitat: 0) is far away."""
        self._robot.update()
        metres = read_camera(self._sim, "head_depth")
        image = np.clip(metres / robot.DEPTH_MAX_M, 0.0, 1.0)
        image[metres <= 0.0] = 1.0
        seen: NDArray[np.float32] = image[:, :, None].astype(np.float32)
        return noisy(seen, np.concatenate((self.base, self.arm))) if self._depth_noise else seen

    def render_rgb(self, width: int, height: int, overlays: Sequence[Overlay] = ()) -> NDArray[np.uint8]:
        """(height, width, 3) third-person view from where the embedded simulator has it; overlays are not drawn."""
        if not self._films:
            raise RuntimeError("this simulator draws no colours: make it with films=True")
        return self._view.render(width, height)

    def close(self) -> None:
        """Free the simulator."""
        if self._env is not None:
            self._env.close()
        self._env, self._stepped = None, False

    # -- inside ----------------------------------------------------------------------------------------------------

    def _habitat_episode(self, played: Played) -> Any:
        from habitat.datasets.rearrange.rearrange_dataset import RearrangeEpisode

        return RearrangeEpisode(**played.fields)

    def _start(self, episode: Any, files: lab.Files) -> None:
        """Make habitat-lab's environment: an empty task, with HAB's robot, actions and simulator."""
        lab.quiet()  # before habitat-lab is imported
        import habitat
        import magnum
        from habitat.config.read_write import read_write
        from habitat.datasets.rearrange.rearrange_dataset import RearrangeDatasetV0
        from habitat_sim.physics import RigidConstraintType

        if self._config is None:
            empty = {
                "habitat.task.type": "RearrangeEmptyTask-v0",
                "habitat.simulator.needs_markers": True,
                # HAB's base stops dead at the mesh's edge, where every step that leads over it by rounding is refused;
                # MuJoCo's slides along what it drives against.
                "habitat.simulator.habitat_sim_v0.allow_sliding": True,
            }
            self._config = lab.compose(files, "tidy_house", "val", empty, self._films).habitat
            with read_write(self._config):
                self._config.task.measurements = {}
                self._config.task.lab_sensors = {}
        dataset = RearrangeDatasetV0()
        dataset.config = self._config.dataset
        dataset.episodes = [episode]
        self._mn, self._writable = magnum, read_write
        self._point_to_point = RigidConstraintType.PointToPoint
        self._env = habitat.Env(self._config, dataset=dataset)
        self._sim = self._env.sim

    def _find(self, played: Played) -> None:
        """Look up the parts of the world by our names."""
        manager = self._sim.get_rigid_object_manager()
        self._objects = {name: manager.get_object_by_handle(other) for name, other in played.handles.items()}
        self._names = {found.object_id: name for name, found in self._objects.items()}
        self._robot, self._grasp = self._sim.articulated_agent, self._sim.grasp_mgr
        links = self._robot.sim_obj.link_object_ids
        self._mine = {self._robot.get_robot_sim_id(), *links}
        self._arm = {found for found, link in links.items() if self._robot.sim_obj.get_link_name(link) in MOVING_LINKS}
        self._markers = dict(self._sim.get_all_markers())
        self._marker_names = played.markers
        self._articulation_of = {marker: name for name, marker in self._marker_names.items()}
        assert set(self._articulation_of) <= set(self._markers)

    def _put(self, name: str, position: Sequence[float], quat: Quat) -> None:
        found = self._objects[name]
        pose = matrix(to_habitat(position), quat_to_habitat(quat))
        found.transformation = self._mn.Matrix4(pose.T.tolist())
        found.linear_velocity = found.angular_velocity = self._mn.Vector3(0.0)

    def _set_joint(self, name: str, position: float) -> None:
        marker = self._markers[self._marker_names[name]]
        positions = marker.ao_parent.joint_positions
        positions[marker.joint_idx] = position
        marker.ao_parent.joint_positions = positions
        marker.ao_parent.joint_velocities = [0.0] * len(marker.ao_parent.joint_velocities)

    def _snap(self, found: Any) -> None:
        """Hold an object as habitat-lab's suction does: where it is."""
        ee = self._robot.ee_transform()
        link = self._robot.sim_obj.get_link_scene_node(self._robot.ee_link_id()).absolute_transformation()
        self._grasp.snap_to_obj(
            found.object_id,
            force=False,
            rel_pos=link.inverted().transform_point(found.translation),
            keep_T=ee.inverted() @ found.transformation,
            should_open_gripper=False,
        )

    def _bound_targets(self) -> None:
        """Keep the motors' targets where ours may be: habitat-lab lets a blocked joint's run away from it."""
        q, target = self.arm, self.arm_target
        low = np.maximum(q - robot.ARM_WINDUP_RAD, robot.Q_MIN)
        high = np.minimum(q + robot.ARM_WINDUP_RAD, robot.Q_MAX)
        bounded = np.minimum(np.maximum(target, low), high)
        if not np.array_equal(bounded, target):
            self._robot.arm_motor_pos = bounded

    def _pin_handle(self) -> None:
        """Hold a handle where it is, swivelling on the cup.

        habitat-lab would pull the handle's middle to the wrist link's origin, 8 cm behind the rim, against the contact.
        """
        marker = self._markers[self._grasp.snapped_marker_id]
        for constraint in self._grasp._snap_constraints:
            self._sim.remove_rigid_constraint(constraint)
        wrist = self._robot.sim_obj.get_link_scene_node(self._robot.ee_link_id()).absolute_transformation()
        link = marker.ao_parent.get_link_scene_node(marker.link_id).absolute_transformation()
        cup = self._mn.Vector3(CUP_CENTRE_M, 0.0, 0.0)
        pivot = link.inverted().transform_point(wrist.transform_point(cup))
        self._grasp._snap_constraints = [
            self._grasp.create_hold_constraint(
                self._point_to_point, cup, pivot, marker.ao_parent.object_id, marker.link_id
            )
        ]

    def _keep_on_floor(self) -> None:
        """Undo the few centimetres by which the navigation mesh lies above the floor, with what is held."""
        position = self._robot.base_pos
        if position[1] != 0.0:
            self._robot.base_pos = self._mn.Vector3(position[0], 0.0, position[2])
            if self._grasp.snap_idx is not None:
                self._grasp.update_object_to_grasp()

    def _contacts(self) -> list[float]:
        """Return the normal forces (N) of what touches the robot or what it holds, but for those two each other."""
        held = self._grasp.snap_idx
        mine = {self._robot.get_robot_sim_id()} | ({held} if held is not None else set())
        return [
            abs(contact.normal_force)
            for contact in self._sim.get_physics_contact_points()
            if (contact.object_id_a in mine) != (contact.object_id_b in mine) and contact.contact_distance < _TOUCHING_M
        ]

    def _ranges(self, origin: NDArray[np.float64], rays: NDArray[np.float64], max_m: float) -> NDArray[np.float32]:
        """Return the distances, a share of the longest, to what rays of the base frame hit besides the robot's body;
        where that is its arm, `UNKNOWN_RANGE`."""
        from habitat_sim.geo import Ray

        pose = self._robot.sim_obj.transformation
        start = pose.transform_point(self._mn.Vector3(*to_habitat(origin)))
        world = rays @ np.array(pose.rotation()).T
        out = np.ones(len(rays), dtype=np.float32)
        for i, direction in enumerate(world.tolist()):
            for hit in self._sim.cast_ray(Ray(start, self._mn.Vector3(*direction)), max_m).hits:
                if hit.object_id in self._arm:
                    out[i] = robot.UNKNOWN_RANGE
                    break
                if hit.object_id not in self._mine:
                    out[i] = hit.ray_distance / max_m
                    break
        return out
