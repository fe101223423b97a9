"""Range sensors: rays that are fixed in the base's frame, cast against all that a camera there would see.

`mj_multiRay` asks each ray of nearly every shape; here a shape is asked for the few rays only that can hit its bounding
sphere, which a fan's order tells, and not at all if it lies beyond what the ray has met already.
tests/hab/test_compiled.py holds it against MuJoCo's own.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import mujoco
import numpy as np
from numba import njit
from numpy.typing import NDArray

from hab import robot
from hab.mujoco import fetch
from hab.mujoco.build import DECORATION_GROUP, SCENE_GROUP
from hab.ray_fans import HEAD_LOOK_DIRECTIONS, HEAD_LOOK_OUTSIDE, HEAD_SCAN_DIRECTIONS, LASER_DIRECTIONS

_NEVER = 1e10
_SLACK_M = 1e-6
"""Bounds are wider than what they bound by this, so that rounding loses nothing."""
NEAR_M = 0.03
"""The camera looks through what is nearer along its axis (render.py), and through a part that it is inside of."""
_PLANE, _SPHERE, _CAPSULE, _ELLIPSOID, _CYLINDER, _BOX = _KINDS = tuple(
    int(kind)
    for kind in (
        mujoco.mjtGeom.mjGEOM_PLANE,
        mujoco.mjtGeom.mjGEOM_SPHERE,
        mujoco.mjtGeom.mjGEOM_CAPSULE,
        mujoco.mjtGeom.mjGEOM_ELLIPSOID,
        mujoco.mjtGeom.mjGEOM_CYLINDER,
        mujoco.mjtGeom.mjGEOM_BOX,
    )
)
SHAPE_KINDS = {
    "sphere": _SPHERE, "capsule": _CAPSULE, "ellipsoid": _ELLIPSOID, "cylinder": _CYLINDER, "box": _BOX,
}  # fmt: skip
"""A `hab.scene.Geom`'s shape -> what MuJoCo calls it."""
_UNKNOWN = np.float32(robot.UNKNOWN_RANGE)


class _Fan(NamedTuple):
    """One sensor's rays, base frame; it meets the robot itself no nearer than `nears`, one a ray (m)."""

    origin: NDArray[np.float64]
    yaws: NDArray[np.float64]
    pitches: NDArray[np.float64]
    directions: NDArray[np.float64]
    nears: NDArray[np.float64]
    max_m: float


_LOOK = robot.HEAD_CAMERA_TARGET - robot.HEAD_CAMERA_POS
_LASER = _Fan(
    robot.LASER_POS,
    robot.LASER_YAWS_RAD,
    np.zeros(1),
    LASER_DIRECTIONS,
    np.full(len(LASER_DIRECTIONS), NEAR_M),
    robot.LASER_MAX_M,
)


def _of_camera(yaws: NDArray[np.float64], pitches: NDArray[np.float64], directions: NDArray[np.float64]) -> _Fan:
    """Return rays of the head camera's image."""
    nears = NEAR_M * np.linalg.norm(_LOOK) / (directions @ _LOOK)
    return _Fan(robot.HEAD_CAMERA_POS, yaws, pitches, directions, nears, robot.HEAD_SCAN_MAX_M)


_HEAD = _of_camera(robot.HEAD_SCAN_YAWS_RAD, robot.HEAD_SCAN_PITCHES_RAD, HEAD_SCAN_DIRECTIONS)
_HEAD_LOOK = _of_camera(robot.HEAD_LOOK_YAWS_RAD, robot.HEAD_LOOK_PITCHES_RAD, HEAD_LOOK_DIRECTIONS)


class RangeSensors:
    """The base laser and the head scan of one model: where a ray meets the robot's own arm, it says `UNKNOWN_RANGE`."""

    def __init__(self, model: mujoco.MjModel) -> None:
        """Raise `ValueError` if something to be seen has a shape that no ray can be cast against."""
        arm = _moving_parts(model)
        self._of_laser = _seen(model, (SCENE_GROUP,), arm)
        self._of_head = _seen(model, (SCENE_GROUP, DECORATION_GROUP), arm)

    def laser(self, data: mujoco.MjData, base: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return (64,) ranges, a share of the longest, in [0, 1]; `base` is x, y and yaw."""
        return self._of_laser.cast(data.geom_xpos, data.geom_xmat, base, _LASER)

    def head_scan(self, data: mujoco.MjData, base: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return (48,) ranges, likewise."""
        return self._of_head.cast(data.geom_xpos, data.geom_xmat, base, _HEAD)

    def head_look(self, data: mujoco.MjData, base: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return (7298,) ranges, likewise; `UNKNOWN_RANGE` outside the image, too."""
        ranges = self._of_head.cast(data.geom_xpos, data.geom_xmat, base, _HEAD_LOOK)
        ranges[HEAD_LOOK_OUTSIDE] = _UNKNOWN
        return ranges


class StillShapes:
    """What the range sensors say among shapes that never move: it needs no model and no simulation."""

    def __init__(
        self,
        kinds: NDArray[np.int64],
        sizes: NDArray[np.float64],
        pos: NDArray[np.float64],
        mat: NDArray[np.float64],
        decoration: NDArray[np.bool_],
    ) -> None:
        """Take n shapes: MuJoCo's kinds (n,) and sizes (n, 3), positions (n, 3) and axes (n, 9), row by row, world;
        and which of them are `decoration` (n,), seen by the head alone. The floor is added."""
        ball = np.select(
            [kinds == _BOX, kinds == _CYLINDER, kinds == _CAPSULE],
            [np.linalg.norm(sizes, axis=1), np.hypot(sizes[:, 0], sizes[:, 1]), sizes[:, 0] + sizes[:, 1]],
            sizes.max(axis=1, initial=0.0),
        )
        at_laser = np.flatnonzero(~decoration & (np.abs(pos[:, 2] - _LASER.origin[2]) <= ball))
        kinds, ball = np.append(kinds, _PLANE), np.append(ball, 0.0)
        sizes = np.concatenate((sizes, np.zeros((1, 3))))
        own = np.zeros(len(kinds), np.bool_)
        self._of_laser, self._of_head = (
            _Seen(seen, kinds[seen], own[seen], sizes[seen], ball[seen]) for seen in (at_laser, np.arange(len(kinds)))
        )
        self._pos = np.concatenate((pos, np.zeros((1, 3))))
        self._mat = np.concatenate((mat, np.eye(3).reshape(1, 9)))

    def laser(self, base: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return (64,) ranges, a share of the longest, in [0, 1]; `base` is x, y and yaw."""
        return self._of_laser.cast(self._pos, self._mat, base, _LASER)

    def head_scan(self, base: NDArray[np.float64]) -> NDArray[np.float32]:
        """Return (48,) ranges, likewise."""
        return self._of_head.cast(self._pos, self._mat, base, _HEAD)


class _Seen(NamedTuple):
    """The n shapes that one sensor sees."""

    geoms: NDArray[np.int64]
    """Where their poses stand."""
    kinds: NDArray[np.int64]
    own: NDArray[np.bool_]
    """Which are parts of the robot."""
    sizes: NDArray[np.float64]
    bounds: NDArray[np.float64]
    """Bounding radii (m)."""

    def cast(
        self, pos: NDArray[np.float64], mat: NDArray[np.float64], base: NDArray[np.float64], fan: _Fan
    ) -> NDArray[np.float32]:
        """Return the ranges of a fan's rays; `pos` and `mat` are the poses of all shapes."""
        ranges = np.empty(len(fan.directions), np.float32)
        _cast(self.geoms, self.kinds, self.own, self.sizes, self.bounds, pos, mat, base, *fan, ranges)
        return ranges


def _seen(model: mujoco.MjModel, groups: tuple[int, ...], own: NDArray[np.bool_]) -> _Seen:
    """Return the geoms of some groups, and `own` (n,), which are parts of the robot."""
    seen = np.flatnonzero(np.isin(model.geom_group, groups) | own)
    kinds = model.geom_type[seen]
    other = ~np.isin(kinds, _KINDS)
    if other.any():
        name = model.geom(int(seen[other][0])).name
        raise ValueError(f"geom {name!r}: the range sensors see no meshes and no height fields")
    sizes, bounds = model.geom_size[seen].copy(), model.geom_rbound[seen].copy()
    return _Seen(seen.astype(np.int64), kinds.astype(np.int64), own[seen], sizes, bounds)


def _moving_parts(model: mujoco.MjModel) -> NDArray[np.bool_]:
    """Return which geoms (n,) are those of the robot's arm: of the robot, and not fixed to its base."""
    base = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, fetch.BASE)
    fixed = model.body_weldid[model.geom_bodyid] == (model.body_weldid[base] if base >= 0 else -1)
    return (model.geom_group == fetch.GROUP_COLLISION) & ~fixed


@njit("float64(int64, float64[::1], float64, float64, float64, float64, float64, float64)", cache=True)
def _meet(
    kind: int, size: NDArray[np.float64], px: float, py: float, pz: float, dx: float, dy: float, dz: float
) -> float:
    """Return the distance at which a ray first meets a shape's surface, from outside or inside, or `_NEVER`.

    Origin p and direction d (of length 1) are in the shape's frame, `size` as MuJoCo has it.
    """
    if kind == _PLANE:
        # Seen from above only, and where it has a size, only within it.
        if dz > -1e-15:
            return _NEVER
        t = -pz / dz
        if t < 0.0:
            return _NEVER
        inside = (size[0] <= 0.0 or abs(px + t * dx) <= size[0]) and (size[1] <= 0.0 or abs(py + t * dy) <= size[1])
        return t if inside else _NEVER
    if kind == _SPHERE:
        b, c = px * dx + py * dy + pz * dz, px * px + py * py + pz * pz - size[0] * size[0]
        root = b * b - c
        if root < 0.0:
            return _NEVER
        root = math.sqrt(root)
        if -b - root >= 0.0:
            return -b - root
        return -b + root if -b + root >= 0.0 else _NEVER
    if kind == _ELLIPSOID:
        sx, sy, sz = 1.0 / size[0], 1.0 / size[1], 1.0 / size[2]
        px, py, pz, dx, dy, dz = px * sx, py * sy, pz * sz, dx * sx, dy * sy, dz * sz
        a = dx * dx + dy * dy + dz * dz
        b, c = px * dx + py * dy + pz * dz, px * px + py * py + pz * pz - 1.0
        root = b * b - a * c
        if root < 0.0:
            return _NEVER
        root = math.sqrt(root)
        if -b - root >= 0.0:
            return (-b - root) / a
        return (-b + root) / a if -b + root >= 0.0 else _NEVER
    if kind == _CAPSULE:
        enter, leave = _NEVER, -_NEVER
        a, b, c = dx * dx + dy * dy, px * dx + py * dy, px * px + py * py - size[0] * size[0]
        root = b * b - a * c
        if root < 0.0:
            return _NEVER
        if a > 1e-15:
            root = math.sqrt(root)
            for t in ((-b - root) / a, (-b + root) / a):
                if abs(pz + t * dz) <= size[1]:
                    enter, leave = min(enter, t), max(leave, t)
        for end in (-size[1], size[1]):
            z = pz - end
            b = px * dx + py * dy + z * dz
            root = b * b - (px * px + py * py + z * z - size[0] * size[0])
            if root >= 0.0:
                root = math.sqrt(root)
                for t in (-b - root, -b + root):
                    if (z + t * dz) * end >= 0.0:
                        enter, leave = min(enter, t), max(leave, t)
        if leave < 0.0:
            return _NEVER
        return enter if enter >= 0.0 else leave
    enter, leave = -_NEVER, _NEVER
    if kind == _CYLINDER:
        a, b, c = dx * dx + dy * dy, px * dx + py * dy, px * px + py * py - size[0] * size[0]
        if a < 1e-15:
            if c > 0.0:
                return _NEVER
        else:
            root = b * b - a * c
            if root < 0.0:
                return _NEVER
            root = math.sqrt(root)
            enter, leave = (-b - root) / a, (-b + root) / a
        sides = ((pz, dz, size[1]),)
        for p, d, half in sides:
            if abs(d) < 1e-15:
                if abs(p) > half:
                    return _NEVER
            else:
                near, far = (-half - p) / d, (half - p) / d
                enter, leave = max(enter, min(near, far)), min(leave, max(near, far))
    else:
        for p, d, half in ((px, dx, size[0]), (py, dy, size[1]), (pz, dz, size[2])):
            if abs(d) < 1e-15:
                if abs(p) > half:
                    return _NEVER
            else:
                near, far = (-half - p) / d, (half - p) / d
                enter, leave = max(enter, min(near, far)), min(leave, max(near, far))
    if enter > leave or leave < 0.0:
        return _NEVER
    return enter if enter >= 0.0 else leave


@njit(
    "void(int64[::1], int64[::1], boolean[::1], float64[:, ::1], float64[::1], float64[:, ::1], float64[:, ::1],"
    "float64[::1], float64[::1], float64[::1], float64[::1], float64[:, ::1], float64[::1], float64, float32[::1])",
    cache=True,
)
def _cast(
    geoms: NDArray[np.int64],
    kinds: NDArray[np.int64],
    own: NDArray[np.bool_],
    sizes: NDArray[np.float64],
    bounds: NDArray[np.float64],
    xpos: NDArray[np.float64],
    xmat: NDArray[np.float64],
    base: NDArray[np.float64],
    origin: NDArray[np.float64],
    yaws: NDArray[np.float64],
    pitches: NDArray[np.float64],
    directions: NDArray[np.float64],
    nears: NDArray[np.float64],
    max_m: float,
    ranges: NDArray[np.float32],
) -> None:
    """Fill in the ranges (yaws x pitches,) of rays from a point of the base.

    geoms (n,), their kinds, which are the robot's own, sizes (n, 3), bounding radii (n,), the poses
    of all geoms; yaws and pitches rise evenly; the robot itself is met no nearer than `nears`, one a ray.
    """
    cos, sin = math.cos(base[2]), math.sin(base[2])
    ox, oy, oz = base[0] + cos * origin[0] - sin * origin[1], base[1] + sin * origin[0] + cos * origin[1], origin[2]
    columns, rows = len(yaws), len(pitches)
    first_yaw, yaw_step = yaws[0], (yaws[-1] - yaws[0]) / (columns - 1)
    first_pitch, pitch_step = pitches[0], (pitches[-1] - pitches[0]) / max(1, rows - 1)
    # Most shapes are beside a fan of less than a half turn: an edge's normal tells that for less than an angle does.
    narrow = yaws[-1] - yaws[0] < math.pi
    right_x, right_y = math.sin(yaws[0]), -math.cos(yaws[0])
    left_x, left_y = -math.sin(yaws[-1]), math.cos(yaws[-1])
    best = np.full(columns * rows, max_m)
    itself = np.zeros(columns * rows, np.bool_)
    for g in range(len(geoms)):
        geom, kind, bound = geoms[g], kinds[g], bounds[g]
        # From the origin to the shape, in the base's frame.
        wx, wy, cz = xpos[geom, 0] - ox, xpos[geom, 1] - oy, xpos[geom, 2] - oz
        cx, cy = cos * wx + sin * wy, cos * wy - sin * wx
        low_column, high_column, low_row, high_row = 0, columns - 1, 0, rows - 1
        nearest = 0.0
        m = xmat[geom]
        if kind != _PLANE:
            # An upright cylinder around the shape: most shapes stand upright, and are high or long.
            radius, half_height = bound + _SLACK_M, bound + _SLACK_M
            if abs(m[8]) > 0.9999999 and kind in (_BOX, _CYLINDER):
                size = sizes[g]
                box = kind == _BOX
                radius = (math.sqrt(size[0] * size[0] + size[1] * size[1]) if box else size[0]) + _SLACK_M
                half_height = (size[2] if box else size[1]) + _SLACK_M
            if narrow and (cx * right_x + cy * right_y > radius or cx * left_x + cy * left_y > radius):
                continue
            flat = math.sqrt(cx * cx + cy * cy)
            nearest = flat - radius
            if nearest >= max_m or (rows == 1 and abs(cz) > half_height):
                continue
            if flat > radius:
                middle, half = math.atan2(cy, cx), math.asin(radius / flat)
                # The fan may be wider than a half turn: what lies across the cut behind it may be seen on both sides.
                if middle - half >= -math.pi and middle + half <= math.pi:
                    low_column = max(0, math.ceil((middle - half - first_yaw) / yaw_step))
                    high_column = min(columns - 1, math.floor((middle + half - first_yaw) / yaw_step))
                    if low_column > high_column:
                        continue
                if rows > 1:
                    low, high = cz - half_height, cz + half_height
                    lowest = math.atan2(low, nearest if low < 0.0 else flat + radius)
                    highest = math.atan2(high, nearest if high > 0.0 else flat + radius)
                    low_row = max(0, math.ceil((lowest - first_pitch) / pitch_step))
                    high_row = min(rows - 1, math.floor((highest - first_pitch) / pitch_step))
        px, py, pz = -(m[0] * wx + m[3] * wy + m[6] * cz), -(m[1] * wx + m[4] * wy + m[7] * cz), 0.0
        pz = -(m[2] * wx + m[5] * wy + m[8] * cz)
        # A ray and its opposite both meet a convex shape from inside only.
        if (
            own[g]
            and _meet(kind, sizes[g], px, py, pz, 1.0, 0.0, 0.0) < _NEVER
            and _meet(kind, sizes[g], px, py, pz, -1.0, 0.0, 0.0) < _NEVER
        ):
            continue
        for column in range(low_column, high_column + 1):
            for row in range(low_row, high_row + 1):
                ray = column * rows + row
                if nearest >= best[ray]:  # along the floor, so no farther than along the ray
                    continue
                bx, by, bz = directions[ray, 0], directions[ray, 1], directions[ray, 2]
                dx, dy = cos * bx - sin * by, sin * bx + cos * by
                found = _meet(
                    kind,
                    sizes[g],
                    px,
                    py,
                    pz,
                    m[0] * dx + m[3] * dy + m[6] * bz,
                    m[1] * dx + m[4] * dy + m[7] * bz,
                    m[2] * dx + m[5] * dy + m[8] * bz,
                )
                if found < best[ray] and not (own[g] and found < nears[ray]):
                    best[ray], itself[ray] = found, own[g]
    for ray in range(columns * rows):
        ranges[ray] = _UNKNOWN if itself[ray] else np.float32(best[ray]) * np.float32(1.0 / max_m)
