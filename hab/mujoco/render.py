"""Head depth and the third-person view, drawn through OpenGL without a window.

MuJoCo's `Renderer` builds options per call and converts depth in 64 bits; a depth policy renders 30 times per
simulated second, so `HeadCamera` keeps everything and draws only what the camera can tell apart.
"""

from __future__ import annotations

import atexit
import copy
import weakref
from collections.abc import Sequence
from typing import Any

import mujoco
import numpy as np
from numpy.typing import NDArray

from hab import robot
from hab.mujoco import fetch
from hab.mujoco.build import DECORATION_GROUP, SCENE_GROUP
from hab.mujoco.cutaway import Cutaway
from hab.mujoco.gl import RenderingUnavailable, make_gl_context
from hab.rooms import WALL_HEIGHT_M
from hab.scene import Scene
from hab.simulator import (
    VIEW_AHEAD_M,
    VIEW_DISTANCE_M,
    VIEW_ELEVATION_DEG,
    VIEW_FOV_DEG,
    VIEW_HEIGHT_M,
    VIEW_SIDE_DEG,
    VIEW_TURN,
    Overlay,
)

__all__ = ["HeadCamera", "RenderingUnavailable", "ThirdPersonCamera", "make_gl_context"]

MAX_OVERLAYS = 400
_DEPTH_GROUPS = (SCENE_GROUP, DECORATION_GROUP, fetch.GROUP_COLLISION)
_HIDDEN_GROUP = 5
_SHADE_M = 0.3
"""A shadow falls at most so far beside what casts it: the ceiling's light comes from nearly straight above."""
_Draw = mujoco.mjtRndFlag
_SHAPES = {
    "box": mujoco.mjtGeom.mjGEOM_BOX,
    "sphere": mujoco.mjtGeom.mjGEOM_SPHERE,
    "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER,
    "capsule": mujoco.mjtGeom.mjGEOM_CAPSULE,
    "ellipsoid": mujoco.mjtGeom.mjGEOM_ELLIPSOID,
}


class _Camera:
    """An off-screen framebuffer of one model."""

    def __init__(self, model: mujoco.MjModel, width: int, height: int) -> None:
        self._gl = make_gl_context(width, height)
        model.vis.global_.offwidth, model.vis.global_.offheight = width, height
        self._model = model
        self._context = mujoco.MjrContext(model, mujoco.mjtFontScale.mjFONTSCALE_50.value)
        # A MuJoCo context left to the garbage collector frees its GL names in whichever context is current: another
        # camera's. So a finalizer frees it in its own one, at the interpreter's end before EGL's own atexit hook.
        self.close = weakref.finalize(self, _free, self._gl, self._context)
        self.close.atexit = False
        atexit.register(self.close)
        mujoco.mjr_setBuffer(mujoco.mjtFramebuffer.mjFB_OFFSCREEN.value, self._context)
        self._rect = mujoco.MjrRect(0, 0, width, height)
        self._scene = mujoco.MjvScene(model, maxgeom=model.ngeom + MAX_OVERLAYS)
        self._option = mujoco.MjvOption()
        self._view = mujoco.MjvCamera()
        self._perturb = mujoco.MjvPerturb()
        self._groups = model.geom_group.copy()
        self._bounded = np.flatnonzero(model.geom_rbound > 0.0)  # all but planes
        self._radius = model.geom_rbound[self._bounded, None]

    def _aim(self, tangents: tuple[float, float], range_m: float) -> None:
        """Set what `_cull` takes for visible: tangents of half the horizontal and the vertical angle of view, range."""
        (right, above), zero = tangents, 0.0
        sides = np.array([(1, zero, right), (-1, zero, right), (zero, 1, above), (zero, -1, above), (zero, zero, -1)])
        self._normals = sides / np.linalg.norm(sides, axis=1, keepdims=True)
        """(5, 3) outward normals of the view's four sides and its far end; the camera looks along -z."""
        self._offsets = np.array([0.0, 0.0, 0.0, 0.0, range_m])

    def _cull(self, data: mujoco.MjData, eye: NDArray[np.float64], axes: NDArray[np.float64], shade_m: float) -> None:
        """Leave out the shapes whose bounding spheres, and the columns of shade under them, are outside of the view.

        eye (3,), axes (3, 3) with the camera's right, up and back as columns, radius of the columns or -1 for none.
        """
        bounded, normals = self._bounded, axes @ self._normals.T
        centres, radius = data.geom_xpos[bounded], self._radius
        outside = (centres - eye) @ normals - self._offsets
        if shade_m >= 0.0:
            outside, radius = np.minimum(outside, outside - centres[:, 2:] * normals[2]), radius + shade_m
        seen = (outside < radius).all(axis=1)
        self._model.geom_group[bounded] = np.where(seen, self._groups[bounded], _HIDDEN_GROUP)

    def _update(self, data: mujoco.MjData) -> None:
        everything = mujoco.mjtCatBit.mjCAT_ALL.value
        mujoco.mjv_updateScene(self._model, data, self._option, self._perturb, self._view, everything, self._scene)


def _free(gl: Any, context: mujoco.MjrContext) -> None:
    gl.make_current()
    context.free()
    gl.free()


class HeadCamera(_Camera):
    """128 x 128 depth of the head camera (docs/hab.md, "Robot"): metres / 10, clipped to [0, 1].

    Fast enough for software GL: only shapes in the camera's cone are drawn, with few triangles and without colours.
    Back faces are not drawn, as in habitat: where the
    arm passes through the camera, which floats ahead of the head, the camera looks through it.
    """

    def __init__(self, model: mujoco.MjModel) -> None:
        model = copy.copy(model)  # what follows would spoil it for the other camera and the laser
        quality = model.vis.quality
        quality.offsamples = quality.shadowsize = 0
        # A flat box face needs one quad; 16 slices keep even a round table (0.5 m) true to 1 cm.
        quality.numquads, quality.numslices, quality.numstacks = 1, 16, 8
        planes = model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE
        model.geom_size[planes, 2] = 100.0  # the size of the squares that the floor is cut into
        model.tex_height[:] = model.tex_width[:] = 1  # mipmaps of textures nobody sees take 0.1 s
        super().__init__(model, robot.DEPTH_SIZE, robot.DEPTH_SIZE)
        self._context.readDepthMap = mujoco.mjtDepthMap.mjDEPTH_ZEROFAR.value
        self._option.geomgroup[:] = 0
        self._option.geomgroup[list(_DEPTH_GROUPS)] = 1
        self._option.flags[:] = 0
        self._option.flags[mujoco.mjtVisFlag.mjVIS_STATIC] = 1
        self._scene.flags[:] = 0
        for flag in (_Draw.mjRND_SEGMENT, _Draw.mjRND_IDCOLOR, _Draw.mjRND_CULL_FACE):
            self._scene.flags[flag] = 1
        self._camera = model.camera(fetch.HEAD_CAMERA).id
        self._view.type, self._view.fixedcamid = mujoco.mjtCamera.mjCAMERA_FIXED.value, self._camera
        half = float(np.tan(np.deg2rad(robot.HEAD_CAMERA_FOV_DEG) / 2))
        self._aim((half, half), robot.DEPTH_MAX_M)
        extent = model.stat.extent
        near, far = model.vis.map.znear * extent, model.vis.map.zfar * extent
        self._scale = np.float32(far * near / (far - near) / robot.DEPTH_MAX_M)
        self._shift = np.float32(near / (far - near))
        self._pixels = np.empty((robot.DEPTH_SIZE, robot.DEPTH_SIZE), dtype=np.float32)

    def depth(self, data: mujoco.MjData) -> NDArray[np.float32]:
        """Return (128, 128, 1) normalised depth along the optical axis, row 0 on top."""
        self._cull(data, data.cam_xpos[self._camera], data.cam_xmat[self._camera].reshape(3, 3), -1.0)
        self._update(data)
        self._gl.make_current()
        mujoco.mjr_render(self._rect, self._scene, self._context)
        mujoco.mjr_readPixels(None, self._pixels, self._rect, self._context)
        image = self._scale / (self._pixels[::-1] + self._shift)  # reversed z: 1 at the near plane, 0 at the far one
        return np.minimum(image, np.float32(1.0))[:, :, None]


class ThirdPersonCamera(_Camera):
    """A camera that looks at the robot from behind and above, through walls in its way."""

    def __init__(self, model: mujoco.MjModel, scene: Scene, width: int, height: int) -> None:
        model = copy.copy(model)  # the cutaway writes opacities
        model.vis.quality.offsamples = 4
        model.vis.global_.fovy = VIEW_FOV_DEG
        super().__init__(model, width, height)
        self.size = (width, height)
        self._option.geomgroup[:] = 1
        self._option.geomgroup[[fetch.GROUP_COLLISION, 3, _HIDDEN_GROUP]] = 0
        self._view.type = mujoco.mjtCamera.mjCAMERA_FREE.value
        self._bounds = scene.bounds
        above = float(np.tan(np.deg2rad(model.vis.global_.fovy) / 2))
        self._tangents = (above * width / height, above)
        self._aim(self._tangents, model.vis.map.zfar * model.stat.extent)
        self._cutaway = Cutaway(model, scene)
        self._ee = model.site(fetch.EE).id
        self._azimuth: float | None = None
        self._pixels = np.empty((height, width, 3), dtype=np.uint8)

    def rgb(
        self, data: mujoco.MjData, base: NDArray[np.float64], overlays: Sequence[Overlay] = ()
    ) -> NDArray[np.uint8]:
        """Return (height, width, 3); the camera turns after the robot slowly, so that videos stay calm."""
        x, y, yaw = base
        heading = float(np.rad2deg(yaw))
        if self._azimuth is None:
            self._azimuth = heading
        self._azimuth += VIEW_TURN * ((heading - self._azimuth + 180.0) % 360.0 - 180.0)
        self._view.lookat[:] = (x + VIEW_AHEAD_M * np.cos(yaw), y + VIEW_AHEAD_M * np.sin(yaw), VIEW_HEIGHT_M)
        self._view.azimuth = self._azimuth + VIEW_SIDE_DEG
        self._view.elevation, self._view.distance = VIEW_ELEVATION_DEG, VIEW_DISTANCE_M
        right, up, back = self._axes()
        middle = np.array([x, y, 0.6])
        points = [middle + side * right + height * up for side in (-0.35, 0.0, 0.35) for height in (-0.4, 0.6)]
        ahead = np.array([x + 0.8 * np.cos(yaw), y + 0.8 * np.sin(yaw), 0.8])
        eye = self._view.lookat + self._view.distance * back
        self._cutaway.update(data, eye, np.array([*points, ahead, data.site_xpos[self._ee]]))
        self._cull(data, eye, np.stack([right, up, back], axis=1), _SHADE_M)
        return self._read(data, overlays)

    def overview(self, data: mujoco.MjData) -> NDArray[np.uint8]:
        """Return (height, width, 3): the whole apartment from above."""
        x0, y0, x1, y1 = self._bounds
        self._view.lookat[:] = ((x0 + x1) / 2, (y0 + y1) / 2, 0.6)
        self._view.azimuth, self._view.elevation = 90.0, -72.0
        corners = np.array([(x, y, z) for x in (x0, x1) for y in (y0, y1) for z in (0.0, WALL_HEIGHT_M)])
        across = (corners - self._view.lookat) @ np.stack(self._axes(), axis=1)
        # The nearest distance at which every corner is inside of the picture, and a margin.
        self._view.distance = 1.04 * float((np.abs(across[:, :2]) / self._tangents + across[:, 2:]).max())
        self._cutaway.solid()
        self._model.geom_group[:] = self._groups
        return self._read(data, ())

    def _axes(self) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
        """Return the camera's right, up and back directions in the world, each (3,)."""
        azimuth, elevation = np.deg2rad(self._view.azimuth), np.deg2rad(self._view.elevation)
        back = -np.array([np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)])
        right = np.array([np.sin(azimuth), -np.cos(azimuth), 0.0])
        return right, np.cross(back, right), back

    def _read(self, data: mujoco.MjData, overlays: Sequence[Overlay]) -> NDArray[np.uint8]:
        self._update(data)
        for overlay in overlays[: self._scene.maxgeom - self._scene.ngeom]:
            mujoco.mjv_initGeom(
                self._scene.geoms[self._scene.ngeom],
                _SHAPES[overlay.shape].value,
                np.asarray(overlay.size, dtype=np.float64),
                np.asarray(overlay.pos, dtype=np.float64),
                np.asarray(overlay.mat, dtype=np.float64).reshape(9),
                np.asarray(overlay.rgba, dtype=np.float32),
            )
            self._scene.ngeom += 1
        self._gl.make_current()
        mujoco.mjr_render(self._rect, self._scene, self._context)
        mujoco.mjr_readPixels(self._pixels, None, self._rect, self._context)
        return self._pixels[::-1].copy()
