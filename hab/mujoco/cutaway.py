"""Makes walls and tall furniture between the third-person camera and the robot transparent, like a doll's house."""

from __future__ import annotations

import mujoco
import numpy as np
from numpy.typing import NDArray

from hab.mujoco.build import DECORATION_GROUP, SCENE_GROUP
from hab.scene import Furniture, Geom, Scene

TALL_M = 1.2
"""Lower pieces hide little of the robot from a camera that looks down, and stay."""
GHOST_OPACITY = 0.03
"""Enough to see that there is a wall."""
HOLD_FRAMES = 8
"""What came out of the way stays transparent for so long, so that nothing flickers."""
FADE = 0.5
"""Share of the way to its new opacity that a piece goes per frame."""
_ON_WALL_M = 0.15
_RAY_GROUPS = np.isin(np.arange(6), (SCENE_GROUP, DECORATION_GROUP)).astype(np.uint8)


class Cutaway:
    """Writes the opacity of one model's geoms; pieces (and each wall by itself) fade as a whole."""

    def __init__(self, model: mujoco.MjModel, scene: Scene) -> None:
        self._model = model
        self._opacity_when_solid = model.geom_rgba[:, 3].copy()
        self._unit = np.full(model.ngeom, -1)
        """(ngeom,) the piece a geom fades with; -1 never fades."""
        count = 0
        for members in _units(scene):
            for name in members:
                self._unit[model.geom(name).id] = count
            count += 1
        self._fades = np.flatnonzero(self._unit >= 0)
        # What moves (drawers, doors) fades with its furniture, but is no reason for it to fade.
        self._blocks = (self._unit >= 0) & (model.body_weldid[model.geom_bodyid] == 0)
        self._opacity = np.ones(count)
        self._clear_frames = np.full(count, HOLD_FRAMES)
        self._hit = np.zeros(1, dtype=np.int32)
        self._first = True

    def update(self, data: mujoco.MjData, eye: NDArray[np.float64], points: NDArray[np.float64]) -> None:
        """Fade what is between `eye` (3,) and any of the `points` (n, 3), and bring back what no longer is."""
        self._clear_frames += 1
        for point in points:
            self._clear_frames[self._between(data, eye, point)] = 0
        target = np.where(self._clear_frames < HOLD_FRAMES, GHOST_OPACITY, 1.0)
        self._opacity += (1.0 if self._first else FADE) * (target - self._opacity)
        self._first = False
        opacity = np.where(self._opacity > 0.99, 1.0, self._opacity)
        self._model.geom_rgba[self._fades, 3] = self._opacity_when_solid[self._fades] * opacity[self._unit[self._fades]]

    def solid(self) -> None:
        """Show everything."""
        self._model.geom_rgba[:, 3] = self._opacity_when_solid

    def _between(self, data: mujoco.MjData, eye: NDArray[np.float64], point: NDArray[np.float64]) -> list[int]:
        units: list[int] = []
        origin, left = eye.copy(), float(np.linalg.norm(point - eye))
        direction = (point - eye) / left
        while True:
            distance = mujoco.mj_ray(self._model, data, origin, direction, _RAY_GROUPS, True, -1, self._hit)
            if distance < 0.0 or distance > left:
                return units
            if self._blocks[self._hit[0]]:
                units.append(int(self._unit[self._hit[0]]))
            origin += (distance + 1e-3) * direction
            left -= distance + 1e-3


def wall_geoms(scene: Scene) -> list[str]:
    """Return names of the geoms of the walls, and of what hangs on them."""
    walls = _walls(scene)
    hangs = [piece for piece in scene.furniture if any(_hangs_on(piece, wall) for wall in walls)]
    return [geom.name for geom in walls] + [
        geom.name for piece in hangs for geom in piece.geoms if piece.name != "walls"
    ]


def _walls(scene: Scene) -> list[Geom]:
    return [geom for piece in scene.furniture if piece.name == "walls" for geom in piece.geoms]


def _units(scene: Scene) -> list[list[str]]:
    """Return names of the geoms that fade together."""
    walls = _walls(scene)
    units = [[wall.name] for wall in walls]
    for piece in scene.furniture:
        members = [geom.name for geom in piece.geoms]
        if piece.name == "walls":
            continue
        holder = next((i for i, wall in enumerate(walls) if _hangs_on(piece, wall)), None)
        if holder is not None:
            units[holder] += members
        elif max(geom.pos[2] + geom.size[2] for geom in piece.geoms) > TALL_M:
            links = [a.geoms for a in scene.articulations if a.furniture == piece.name]
            units.append(members + [geom.name for geoms in links for geom in geoms])
    return units


def _hangs_on(piece: Furniture, wall: Geom) -> bool:
    """Whether all of a piece (a window, a picture) is within centimetres of a wall."""
    w, _, _, z = wall.quat
    cos, sin = w * w - z * z, 2 * w * z
    for geom in piece.geoms:
        dx, dy = geom.pos[0] - wall.pos[0], geom.pos[1] - wall.pos[1]
        along, across = cos * dx + sin * dy, cos * dy - sin * dx
        if abs(along) > wall.size[0] + _ON_WALL_M or abs(across) > wall.size[1] + _ON_WALL_M:
            return False
        if abs(geom.pos[2] - wall.pos[2]) > wall.size[2]:
            return False
    return True
