"""The apartment, the robot and what the films draw into them, in a browser: mjviser on viser (the extra `watch`)."""

from __future__ import annotations

import copy
from typing import Any

import mujoco
import numpy as np
import trimesh
import viser
from mjviser import ViserMujocoScene
from numpy.typing import NDArray

from hab.episodes import Episode
from hab.mujoco.build import DECORATION_GROUP, SCENE_GROUP
from hab.mujoco.cutaway import wall_geoms
from hab.mujoco.fetch import GROUP_COLLISION
from hab.mujoco.simulator import MujocoSimulator
from hab.objects import object_model
from hab.simulator import Overlay
from skills.skill import Goal
from videos.overlays import SPHERE_RADIUS_M, ghost, matrix, wireframe_box
from videos.points import head_scan_points, laser_points

LASER_COLOR, HEAD_COLOR = (220, 60, 60), (60, 110, 230)
POINT_M = 0.03
FLOOR_RGBA = (0.72, 0.6, 0.46, 1.0)
WALL_COLOR, WALL_OPACITY = (210, 208, 200), 0.2
"""Whoever looks in from outside sees through walls."""
EYE = np.array((-2.2, -1.6, 2.4))
"""Where a visitor begins to look from, from what is looked at (m, world) …"""
AHEAD = np.array((0.0, 0.0, 0.6))
"""… and what that is, from the robot."""
_HIDDEN_GROUP = 3


class LiveScene:
    """Shows one simulator; a new apartment is a new scene."""

    def __init__(self, server: viser.ViserServer, sim: MujocoSimulator) -> None:
        self._server, self._sim = server, sim
        self._model: Any = None
        self._targets: dict[str, viser.FrameHandle] = {}
        self._ghosts: viser.FrameHandle | None = None
        self._at = np.zeros(3)
        self.follows = True
        """Whether the visitors' cameras look at the robot, wherever it goes; they turn about it."""
        server.on_client_connect(self.look)

    def lay_out(self, episode: Episode) -> None:
        """Draw an episode that the simulator has just been reset to."""
        if self._sim.model is not self._model:
            self._server.scene.reset()
            self._shown = ViserMujocoScene(self._server, _seen_through(self._sim), num_envs=1)
            # It would move the world about the robot, instead of the camera with it.
            self._shown.camera_tracking_enabled = False
            self._model = self._sim.model
            self._add_walls()
        else:
            for frame in (*self._targets.values(), self._ghosts):
                if frame is not None:
                    frame.remove()
        scene = self._server.scene
        self._targets = {}
        for target in episode.targets:
            model, name = object_model(target.object), target.object
            frame = scene.add_frame(f"/targets/{name}", show_axes=False)
            box = [_mesh(edge) for edge in wireframe_box(np.zeros(3), np.eye(3), model.half_extents)]
            scene.add_mesh_trimesh(f"/targets/{name}/box", trimesh.util.concatenate(box))
            self._targets[name] = frame
        self._ghosts = scene.add_frame("/goals", show_axes=False)
        for target in episode.targets:
            for number, geom in enumerate(object_model(target.object).geoms):
                shape = ghost(geom, target.goal_pos)
                mesh = _mesh(shape)
                r, g, b, opacity = shape.rgba
                scene.add_mesh_simple(
                    f"/goals/{target.object}/{number}",
                    np.asarray(mesh.vertices),
                    np.asarray(mesh.faces),
                    color=(int(255 * r), int(255 * g), int(255 * b)),
                    opacity=opacity,
                    cast_shadow=False,
                )
        self._goal = scene.add_icosphere(
            "/skill_goal", radius=SPHERE_RADIUS_M, color=(150, 150, 150), opacity=0.8, cast_shadow=False
        )
        empty = np.zeros((0, 3), np.float32)
        self._laser = scene.add_point_cloud("/laser", empty, LASER_COLOR, point_size=POINT_M, point_shape="circle")
        self._head = scene.add_point_cloud("/head_scan", empty, HEAD_COLOR, point_size=POINT_M, point_shape="circle")
        self._at = self._robot()
        for client in self._server.get_clients().values():
            self.look(client)

    def _add_walls(self) -> None:
        """Draw walls to look through."""
        apartment, scene = self._sim.scene, self._server.scene
        walls = [
            Overlay(geom.shape, geom.pos, geom.size, geom.rgba, matrix(geom.quat))
            for piece in apartment.furniture
            if piece.name == "walls"
            for geom in piece.geoms
        ]
        mesh: Any = trimesh.util.concatenate([_mesh(wall) for wall in walls])
        scene.add_mesh_simple(
            "/walls", mesh.vertices, mesh.faces, color=WALL_COLOR, opacity=WALL_OPACITY, cast_shadow=False
        )

    def look(self, client: viser.ClientHandle) -> None:
        """Let a visitor look at the robot."""
        self._look(client, EYE)

    def _look(self, client: viser.ClientHandle, eye: NDArray[np.float64]) -> None:
        """Let a visitor look at the robot from `eye` (3,), as seen from it (m)."""
        ahead = self._at + AHEAD
        with client.atomic():
            client.camera.position = ahead + eye
            client.camera.look_at = ahead

    def update(self, goal: Goal) -> None:
        """Show the simulator's present state, and the goal of the skill that is being played."""
        sim = self._sim
        with self._server.atomic():
            self._shown.update_from_mjdata(sim.data)
            for name, frame in self._targets.items():
                frame.position, frame.wxyz = sim.object_pos(name), sim.object_quat(name)
            self._goal.position = (goal.position[0], goal.position[1], 0.0)
            self._laser.points = laser_points(sim).astype(np.float32)
            self._head.points = head_scan_points(sim).astype(np.float32)
        self._at = self._robot()
        if self.follows:
            for client in self._server.get_clients().values():
                camera = client.camera
                self._look(client, camera.position - camera.look_at)

    def _robot(self) -> NDArray[np.float64]:
        x, y, _ = self._sim.base
        return np.array((x, y, 0.0))


def _seen_through(sim: MujocoSimulator) -> mujoco.MjModel:
    """Return a copy of the simulator's model, which mjviser may change, without walls: it knows no translucent ones."""
    model = copy.copy(sim.model)
    # mjviser shows the groups 0 to 2.
    model.geom_group[model.geom_group == GROUP_COLLISION] = _HIDDEN_GROUP
    model.geom_group[model.geom_group == DECORATION_GROUP] = SCENE_GROUP
    for name in wall_geoms(sim.scene):
        model.geom_rgba[model.geom(name).id, 3] = 0.0  # not drawn
    x_min, y_min, x_max, y_max = sim.scene.bounds
    for floor in np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE):  # it would draw an endless grid
        model.geom_type[floor], model.geom_matid[floor] = mujoco.mjtGeom.mjGEOM_BOX, -1
        model.geom_pos[floor] = ((x_min + x_max) / 2.0, (y_min + y_max) / 2.0, -0.01)
        model.geom_size[floor] = ((x_max - x_min) / 2.0, (y_max - y_min) / 2.0, 0.01)
        model.geom_rgba[floor] = FLOOR_RGBA
    return model


def _mesh(shape: Overlay) -> trimesh.Trimesh:
    """Return an overlay's shape where it is."""
    size = shape.size
    if shape.shape == "box":
        mesh = trimesh.creation.box(extents=[2.0 * half for half in size])
    elif shape.shape == "cylinder":
        mesh = trimesh.creation.cylinder(radius=size[0], height=2.0 * size[1])
    elif shape.shape == "capsule":
        mesh = trimesh.creation.capsule(radius=size[0], height=2.0 * size[1])
    else:
        mesh = trimesh.creation.icosphere(subdivisions=2)
        mesh.apply_scale([size[0]] * 3 if shape.shape == "sphere" else size)
    pose = np.eye(4)
    pose[:3, :3], pose[:3, 3] = np.reshape(shape.mat, (3, 3)), shape.pos
    mesh.apply_transform(pose)
    mesh.visual.vertex_colors = [int(255 * part) for part in shape.rgba]
    return mesh
