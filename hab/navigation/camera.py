"""The head camera drawn by compiled code: depth, and colours with flat shading; no OpenGL.

Every shape is a convex polyhedron (`facets`). Along a plane the reciprocal of the depth is linear in the pixels, and so
is the side of an edge on which a pixel lies, so that each row of a face is a span found by a few divisions.
References: Olano and Greer, "Triangle Scan Conversion Using 2D Homogeneous Coordinates", 1997. The camera is that of
docs/hab.md, "Robot"; the robot itself is not seen.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hab import robot
from hab.navigation.shapes import Standing, standing
from hab.scene import Scene

NEAR_M = 0.03
"""As `hab.mujoco.render` has it."""
SLICES, STACKS = 16, 8
"""Of a round shape, as there."""
FLOOR_RGB = (0.72, 0.58, 0.42)
SKY_RGB = (222, 230, 238)
_LIGHT = np.array([0.32, 0.22, 0.92]) / np.linalg.norm([0.32, 0.22, 0.92])
_AMBIENT = 0.55
"""Share of the light that comes from everywhere."""
_PITCH_RAD = math.atan2(
    robot.HEAD_CAMERA_TARGET[2] - robot.HEAD_CAMERA_POS[2], robot.HEAD_CAMERA_TARGET[0] - robot.HEAD_CAMERA_POS[0]
)
_TANGENT = math.tan(math.radians(robot.HEAD_CAMERA_FOV_DEG) / 2)
_DEEPEST_M, _NEAREST = robot.DEPTH_MAX_M, 1.0 / NEAR_M


class Facets(NamedTuple):
    """f convex faces, their corners counter-clockwise from outside; and the s shapes whose faces follow each other."""

    corners: NDArray[np.float64]
    """(c, 3) world, m."""
    first: NDArray[np.int64]
    """(f + 1,) each face's first corner."""
    faces: NDArray[np.int64]
    """(s + 1,) each shape's first face."""
    centre: NDArray[np.float64]
    """(s, 3) world, m."""
    radius: NDArray[np.float64]
    """(s,) of a ball around the shape (m)."""
    rgb: NDArray[np.uint8]
    """(f, 3) as lit."""


def facets(scene: Scene) -> Facets:
    """Return all that the camera may see of an apartment, the floor included."""
    x0, y0, x1, y1 = scene.bounds
    corners = [np.array([(x0, y0, 0.0), (x1, y0, 0.0), (x1, y1, 0.0), (x0, y1, 0.0)])]
    faces, centre, radius, rgb = [0, 1], [corners[0].mean(axis=0)], [math.hypot(x1 - x0, y1 - y0) / 2], [FLOOR_RGB]
    for shape in standing(scene):
        polygons = [polygon @ shape.mat.T + shape.pos for polygon in _polyhedron(shape)]
        corners += polygons
        faces.append(len(corners))
        centre.append(shape.pos)
        radius.append(max(float(np.linalg.norm(polygon - shape.pos, axis=1).max()) for polygon in polygons))
        rgb += [shape.geom.rgba[:3]] * len(polygons)
    normal = np.array([np.cross(face[1] - face[0], face[2] - face[1]) for face in corners])
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    light = _AMBIENT + (1.0 - _AMBIENT) * np.maximum(normal @ _LIGHT, 0.0)
    return Facets(
        np.concatenate(corners),
        np.cumsum([0, *map(len, corners)]),
        np.array(faces),
        np.array(centre),
        np.array(radius),
        np.round(np.clip(light[:, None] * np.array(rgb), 0.0, 1.0) * 255).astype(np.uint8),
    )


def _polyhedron(shape: Standing) -> list[NDArray[np.float64]]:
    """Return a shape's faces (n, 3) in its own frame."""
    a, b, c = shape.geom.size
    match shape.geom.shape:
        case "box":
            return _prism(np.array([(-a, -b), (a, -b), (a, b), (-a, b)]), c)
        case "cylinder":
            return _prism(_circle(a), b)
        case "sphere":
            return _round(np.array([a, a, a]), 0.0)
        case "ellipsoid":
            return _round(np.array([a, b, c]), 0.0)
        case _:
            return _round(np.array([a, a, a]), b)


def _circle(radius: float) -> NDArray[np.float64]:
    angles = 2.0 * math.pi * np.arange(SLICES) / SLICES
    return radius * np.stack((np.cos(angles), np.sin(angles)), axis=1)


def _prism(outline: NDArray[np.float64], half: float) -> list[NDArray[np.float64]]:
    low = np.column_stack((outline, np.full(len(outline), -half)))
    high = np.column_stack((outline, np.full(len(outline), half)))
    after = np.roll(np.arange(len(outline)), -1)
    return [high, low[::-1], *(np.array([low[i], low[k], high[k], high[i]]) for i, k in enumerate(after))]


def _round(radii: NDArray[np.float64], stretch: float) -> list[NDArray[np.float64]]:
    """Return an ellipsoid, its two halves `stretch` above and below the middle."""
    pitches = np.linspace(-0.5 * math.pi, 0.5 * math.pi, STACKS + 1)
    if stretch > 0.0:
        pitches = np.insert(pitches, STACKS // 2, 0.0)
    lift = np.where(np.arange(len(pitches)) < len(pitches) / 2, -stretch, stretch)
    rings = []
    for pitch, up in zip(pitches, lift, strict=True):
        ring = np.column_stack((_circle(math.cos(pitch)), np.full(SLICES, math.sin(pitch)))) * radii
        rings.append(ring + (0.0, 0.0, up))
    found = []
    for band, (low, high) in enumerate(zip(rings, rings[1:], strict=False)):
        for i in range(SLICES):
            k = (i + 1) % SLICES
            if band == 0:
                found.append(np.array([low[i], high[k], high[i]]))
            elif band == len(rings) - 2:
                found.append(np.array([low[i], low[k], high[i]]))
            else:
                found.append(np.array([low[i], low[k], high[k], high[i]]))
    return found


class Camera:
    """Draws one apartment."""

    def __init__(self, scene: Scene) -> None:
        self._facets = facets(scene)

    def depth(self, pose: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return (128, 128, 1): metres along the axis / 10, clipped to [0, 1], row 0 on top.

        pose: (3,) x, y (m), yaw (rad), world.
        """
        nearness, _ = self._draw(pose)
        with np.errstate(divide="ignore"):
            image = np.minimum(np.float32(1.0 / robot.DEPTH_MAX_M) / nearness, np.float32(1.0))
        return image[:, :, None]

    def rgb(self, pose: NDArray[np.float64]) -> NDArray[np.uint8]:
        """Return (128, 128, 3), row 0 on top; `pose` as `depth`'s."""
        _, face = self._draw(pose)
        colours = np.concatenate((self._facets.rgb, np.array([SKY_RGB], np.uint8)))
        return colours[face]

    def _draw(self, pose: NDArray[np.float64]) -> tuple[NDArray[np.float32], NDArray[np.int32]]:
        nearness = np.zeros((robot.DEPTH_SIZE, robot.DEPTH_SIZE), np.float32)
        face = np.full((robot.DEPTH_SIZE, robot.DEPTH_SIZE), -1, np.int32)
        seen = self._facets
        _draw(seen.corners, seen.first, seen.faces, seen.centre, seen.radius, *_view(pose), nearness, face)
        return nearness, face


def _view(pose: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return the camera's place (3,) and its axes (3, 3) as rows: right, down, ahead; world."""
    x, y, yaw = pose.tolist()
    cos, sin = math.cos(yaw), math.sin(yaw)
    px, py, pz = robot.HEAD_CAMERA_POS.tolist()
    level, up = math.cos(_PITCH_RAD), math.sin(_PITCH_RAD)
    eye = np.array([x + cos * px - sin * py, y + sin * px + cos * py, pz])
    return eye, np.array([[sin, -cos, 0.0], [cos * up, sin * up, -level], [cos * level, sin * level, up]])


@njit(
    "void(float64[:, ::1], int64[::1], int64[::1], float64[:, ::1], float64[::1], float64[::1], float64[:, ::1],"
    "float32[:, ::1], int32[:, ::1])",
    cache=True,
    error_model="numpy",
)
def _draw(
    corners: NDArray[np.float64],
    first: NDArray[np.int64],
    faces: NDArray[np.int64],
    centre: NDArray[np.float64],
    radius: NDArray[np.float64],
    eye: NDArray[np.float64],
    axes: NDArray[np.float64],
    nearness: NDArray[np.float32],
    face_at: NDArray[np.int32],
) -> None:
    """Fill in the reciprocal (1/m) of each pixel's depth and which face is there."""
    size = nearness.shape[0]
    local = np.empty((64, 3))
    sides = np.empty((64, 3))
    slant = math.sqrt(1.0 + _TANGENT * _TANGENT)
    for shape in range(len(faces) - 1):
        ox, oy, oz = centre[shape, 0] - eye[0], centre[shape, 1] - eye[1], centre[shape, 2] - eye[2]
        right = axes[0, 0] * ox + axes[0, 1] * oy + axes[0, 2] * oz
        down = axes[1, 0] * ox + axes[1, 1] * oy + axes[1, 2] * oz
        ahead = axes[2, 0] * ox + axes[2, 1] * oy + axes[2, 2] * oz
        bound = radius[shape]
        if ahead < -bound or ahead > _DEEPEST_M + bound:
            continue
        if abs(right) - _TANGENT * ahead > bound * slant or abs(down) - _TANGENT * ahead > bound * slant:
            continue
        for face in range(faces[shape], faces[shape + 1]):
            begin, count = first[face], first[face + 1] - first[face]
            highest, lowest, all_ahead = 1e9, -1e9, True
            for n in range(count):
                corner = corners[begin + n]
                ox, oy, oz = corner[0] - eye[0], corner[1] - eye[1], corner[2] - eye[2]
                local[n, 0] = axes[0, 0] * ox + axes[0, 1] * oy + axes[0, 2] * oz
                local[n, 1] = axes[1, 0] * ox + axes[1, 1] * oy + axes[1, 2] * oz
                local[n, 2] = axes[2, 0] * ox + axes[2, 1] * oy + axes[2, 2] * oz
                if local[n, 2] > 1e-6:
                    tangent = local[n, 1] / local[n, 2]
                    highest, lowest = min(highest, tangent), max(lowest, tangent)
                else:
                    all_ahead = False
            ax, ay, az = local[1, 0] - local[0, 0], local[1, 1] - local[0, 1], local[1, 2] - local[0, 2]
            bx, by, bz = local[2, 0] - local[1, 0], local[2, 1] - local[1, 1], local[2, 2] - local[1, 2]
            # Right, down, ahead is right-handed, as the world is: the normal points out of the shape.
            nx, ny, nz = ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx
            away = nx * local[0, 0] + ny * local[0, 1] + nz * local[0, 2]
            if away >= -1e-12:  # seen from behind, or edge on
                continue
            nx, ny, nz = nx / away, ny / away, nz / away
            top, bottom = 0, size - 1
            if all_ahead:
                top = max(0, math.ceil((highest / _TANGENT + 1.0) * size / 2 - 0.5))
                bottom = min(size - 1, math.floor((lowest / _TANGENT + 1.0) * size / 2 - 0.5))
                if top > bottom:
                    continue
            for n in range(count):
                # The plane through the eye and an edge: a pixel's ray is inside if it is on the face's side of it.
                k = n + 1 if n + 1 < count else 0
                sides[n, 0] = local[k, 1] * local[n, 2] - local[k, 2] * local[n, 1]
                sides[n, 1] = local[k, 2] * local[n, 0] - local[k, 0] * local[n, 2]
                sides[n, 2] = local[k, 0] * local[n, 1] - local[k, 1] * local[n, 0]
            for row in range(top, bottom + 1):
                v = (2.0 * (row + 0.5) / size - 1.0) * _TANGENT
                left_u, right_u = -_TANGENT, _TANGENT
                for n in range(count):
                    slope, level = sides[n, 0], sides[n, 1] * v + sides[n, 2]
                    if slope > 1e-15:
                        left_u = max(left_u, -level / slope)
                    elif slope < -1e-15:
                        right_u = min(right_u, -level / slope)
                    elif level < 0.0:
                        left_u = 2.0 * _TANGENT
                # In front of the eye, and no nearer than the camera looks through.
                base = ny * v + nz
                start = max(0, math.ceil((left_u / _TANGENT + 1.0) * size / 2 - 0.5 - 1e-9))
                stop = min(size - 1, math.floor((right_u / _TANGENT + 1.0) * size / 2 - 0.5 + 1e-9))
                for column in range(start, stop + 1):
                    u = (2.0 * (column + 0.5) / size - 1.0) * _TANGENT
                    near = np.float32(nx * u + base)
                    if near > nearness[row, column] and near < _NEAREST:
                        nearness[row, column] = near
                        face_at[row, column] = face
