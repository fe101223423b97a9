"""An apartment read from a Habitat scene dataset, ReplicaCAD's or an export of ours: surfaces, handles, free floor.

Nothing of it needs habitat-sim. Surfaces are the dataset's own annotations (`receptacle_aabb_*` of stages, objects and
articulated objects, docs/pages/metadata-taxonomy.rst of habitat-lab); drawers and doors are the links that an episode
file's markers name; where they can be reached from, what is above them and where the base can be are worked out from
what collides.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numba import njit
from numpy.typing import NDArray
from scipy import ndimage

from hab.furniture import OPEN_AIR_M
from hab.habitat.assets import DataError, Matrix, Triangles, UrdfLink, joined, mesh_triangles, moved, read_urdf
from hab.habitat.dataset import Config, SceneDataset, Template
from hab.habitat.frames import TO_HABITAT, matrix
from hab.navgrid import HIGH_M, NAV_RADIUS_M, TALL_M, NavGrid
from hab.openings import rotated
from hab.scene import Articulation, Geom, Receptacle, Scene

UPRIGHT = 0.05
"""How far a drawer's rail may be off the horizontal, and a door's hinge off the vertical (rad): ReplicaCAD's fridge
leans by 0.006."""
CELL_M, RASTER_M = 0.05, 0.01
"""Of the navigation grid, and of the picture of the floor from which its distances are taken."""
FLOOR_M = 0.05
"""The floor lies so near to y = 0; and what is no higher than that, as a rug, does not stop the base: habitat-lab's
navigation mesh climbs it."""
LEAST_FLOOR_M2 = 4.0
OVER_M, OUT_M, STAND_M = 0.12, 0.45, (0.25, 0.75)
"""A surface can be reached over an edge if nothing is in a hand's way so high above it and so far beyond it, and the
base can stand at one of these distances from it."""
_AHEAD = ((1.0, 0.0), (0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))


@dataclass(frozen=True)
class Handle:
    """What an episode file's marker says of a drawer or a door: where it is held."""

    object: str
    """The articulated object's instance, as "fridge_:0000"."""
    link: str
    offset: tuple[float, float, float]
    """In the link's frame (m, habitat's axes)."""


@dataclass(frozen=True)
class Joint:
    """One joint of an articulated object, as habitat-sim numbers it."""

    object: str
    link: int


@dataclass(frozen=True)
class Apartment:
    """A scene, its free floor, and what its parts are called in habitat-sim."""

    name: str
    scene: Scene
    grid: NavGrid
    handles: dict[str, Handle]
    """By the articulations' names."""
    joints: dict[str, Joint]
    """Likewise."""
    owners: dict[str, str]
    """Instance that each receptacle belongs to ("stage": none), by the receptacle's name."""


@dataclass(frozen=True)
class _Surface:
    """An annotated box over a surface, where it is in the world (our frame)."""

    name: str
    owner: str
    link: str
    moves: bool
    """Whether the link does."""
    kind: str
    pose: Matrix
    """Of the frame in which the box lies along the axes; its columns are habitat's axes of it, in our world."""
    center: NDArray[np.float64]
    half: NDArray[np.float64]


@dataclass(frozen=True)
class _Articulated:
    handle: str
    template: Template
    pose: Matrix
    links: tuple[UrdfLink, ...]
    scale: float

    def link_pose(self, link: UrdfLink) -> Matrix:
        """Link to our world, everything closed."""
        pose = link.pose.copy()
        pose[:3, 3] *= self.scale
        found: Matrix = self.pose @ pose
        return found


def read_apartment(dataset: SceneDataset, name: str, handles: Iterable[Handle], number: int) -> Apartment:
    """Read one scene; `handles`: those of the drawers and doors, `number`: `Scene.seed`. Raises `DataError`."""
    instance = dataset.template("scene_instances", name)
    surfaces: list[_Surface] = []
    solid = [_stage(dataset, instance, surfaces)]
    counts: dict[str, int] = {}
    for listed in instance.config.get("object_instances", []):
        solid.append(_rigid(dataset, instance, listed, counts, surfaces))
    furniture = [_articulated(dataset, instance, listed, counts) for listed in _articulated_instances(instance)]
    for piece in furniture:
        surfaces += _annotated(piece.template, piece.handle, piece)
        solid += [moved(link.triangles * piece.scale, piece.link_pose(link)) for link in piece.links]
    triangles = joined(solid)
    low, high = triangles.reshape(-1, 3).min(axis=0), triangles.reshape(-1, 3).max(axis=0)
    bounds = (float(low[0]), float(low[1]), float(high[0]), float(high[1]))
    articulations, joints, found = _articulations(instance, furniture, handles)
    bare = Scene(number, bounds, (), tuple(articulations), ())
    grid = floor_grid(triangles, bounds, instance)
    receptacles, owners = [], {}
    for surface in surfaces:
        owner = _opens(surface, articulations, found)
        if owner is None and surface.moves:
            continue  # in a drawer that no marker names, so nobody can open it
        receptacle = _receptacle(surface, owner, triangles, grid)
        receptacles.append(receptacle)
        owners[receptacle.name] = surface.owner
    if not receptacles:
        raise DataError(
            f"{dataset.file}: nothing in scene {instance.name} is annotated as a receptacle (receptacle_aabb_*)"
        )
    scene = replace(bare, receptacles=tuple(receptacles))
    return Apartment(instance.name, scene, grid, found, joints, owners)


# -- what stands there -------------------------------------------------------------------------------------------------


def _stage(dataset: SceneDataset, instance: Template, surfaces: list[_Surface]) -> Triangles:
    listed = instance.config.get("stage_instance", {})
    if "template_name" not in listed:
        raise DataError(f"{instance.file}: has no stage_instance")
    stage = dataset.template("stages", listed["template_name"])
    pose = TO_OURS @ _pose(listed, instance) @ _frame(stage.config)
    shown = _shape(stage, stage.config)
    surfaces += [_surface(key, box, "stage", stage.name, pose, stage) for key, box in _boxes(stage).items()]
    return moved(shown, pose)


def _rigid(
    dataset: SceneDataset, instance: Template, listed: Config, counts: dict[str, int], surfaces: list[_Surface]
) -> Triangles:
    template = dataset.template("objects", _template_name(listed, instance))
    handle = _instance_handle(template.name, counts)
    scale = np.diag((*_scale(template.config, listed), 1.0))
    pose = TO_OURS @ _pose(listed, instance) @ _frame(template.config) @ scale
    seen = _shape(template, template.config)
    if _origin_is_com(listed, instance):
        corners = (_asset(template, "render_asset") if "render_asset" in template.config else seen).reshape(-1, 3)
        middle = template.config.get("COM", (corners.min(axis=0) + corners.max(axis=0)) / 2.0)
        shift = np.eye(4)
        shift[:3, 3] = -np.asarray(middle, dtype=np.float64)
        pose = pose @ shift
    surfaces += [_surface(key, box, handle, template.name, pose, template) for key, box in _boxes(template).items()]
    return moved(seen, pose) if template.config.get("is_collidable", True) else joined([])


def _articulated_instances(instance: Template) -> list[Config]:
    listed: list[Config] = instance.config.get("articulated_object_instances", [])
    return listed


def _articulated(dataset: SceneDataset, instance: Template, listed: Config, counts: dict[str, int]) -> _Articulated:
    template, urdf = dataset.articulated(_template_name(listed, instance))
    by_name = str(template.config.get("link_order", "tree_traversal")).lower() != "urdf_order"
    handle = _instance_handle(template.name, counts)
    scale = float(template.config.get("uniform_scale", 1.0)) * float(listed.get("uniform_scale", 1.0))
    return _Articulated(handle, template, TO_OURS @ _pose(listed, instance), read_urdf(urdf, by_name), scale)


def _shape(template: Template, config: Config) -> Triangles:
    """Return what a stage or an object collides with, in its asset's frame."""
    key = "collision_asset" if config.get("collision_asset") else "render_asset"
    if not config.get(key):
        raise DataError(f"{template.file}: names neither a collision_asset nor a render_asset")
    found = _asset(template, key)
    if config.get("use_bounding_box_for_collision", False):
        corners = found.reshape(-1, 3)
        return _box(corners.min(axis=0), corners.max(axis=0))
    return found


def _asset(template: Template, key: str) -> Triangles:
    return mesh_triangles(template.asset(key)) * float(template.config.get("units_to_meters", 1.0))


def _box(low: NDArray[np.float64], high: NDArray[np.float64]) -> Triangles:
    import trimesh

    made = trimesh.creation.box(high - low).triangles
    return np.asarray(made, dtype=np.float64) + (low + high) / 2.0


def _frame(config: Config) -> Matrix:
    """Return the rotation of an asset whose `up` and `front` are not habitat's own y and -z."""
    up, front = (
        np.asarray(config.get(key, usual), np.float64) for key, usual in (("up", (0, 1, 0)), ("front", (0, 0, -1)))
    )
    pose = np.eye(4)
    own = np.stack((np.cross(front, up), up, -front), axis=1)
    pose[:3, :3] = own.T / np.linalg.norm(own, axis=0)[:, None]
    return pose


def _scale(config: Config, listed: Config) -> NDArray[np.float64]:
    scale = np.asarray(config.get("scale", (1.0, 1.0, 1.0)), np.float64) * float(listed.get("uniform_scale", 1.0))
    return scale * np.asarray(listed.get("non_uniform_scale", (1.0, 1.0, 1.0)), np.float64)


def _pose(listed: Config, instance: Template) -> Matrix:
    """Return where an instance is, in habitat's frame; rotations are scalar first."""
    try:
        quat = np.asarray(listed.get("rotation", (1.0, 0.0, 0.0, 0.0)), dtype=np.float64)
        position = np.asarray(listed.get("translation", (0.0, 0.0, 0.0)), dtype=np.float64)
        w, x, y, z = (quat / np.linalg.norm(quat)).tolist()
        return matrix(position.reshape(3).tolist(), (w, x, y, z))
    except (TypeError, ValueError) as error:
        raise DataError(
            f"{instance.file}: {listed.get('template_name')} has no proper translation and rotation"
        ) from error


def _template_name(listed: Config, instance: Template) -> str:
    if not isinstance(listed.get("template_name"), str):
        raise DataError(f"{instance.file}: an instance without a template_name")
    return str(listed["template_name"])


def _instance_handle(name: str, counts: dict[str, int]) -> str:
    counts[name] = counts.get(name, -1) + 1
    return f"{name}_:{counts[name]:04d}"


def _origin_is_com(listed: Config, instance: Template) -> bool:
    """Whether an instance's translation is of its centre of mass; the scene's default, and habitat-sim's: it is not."""
    own = str(listed.get("translation_origin", "default")).lower()
    return (str(instance.config.get("translation_origin", "asset_local")).lower() if own == "default" else own) == "com"


# -- drawers and doors -------------------------------------------------------------------------------------------------


def _articulations(
    instance: Template, furniture: Sequence[_Articulated], handles: Iterable[Handle]
) -> tuple[list[Articulation], dict[str, Joint], dict[str, Handle]]:
    pieces = {piece.handle: piece for piece in furniture}
    made, joints, found = [], {}, {}
    for handle in handles:
        piece = pieces.get(handle.object)
        numbers = {link.name: i for i, link in enumerate(piece.links, start=-1)} if piece else {}
        if piece is None or handle.link not in numbers:
            raise DataError(
                f"{instance.file}: has no {handle.object} with a link {handle.link}, which the episodes' markers name"
            )
        name = re.sub(r"[^A-Za-z0-9_-]", "_", handle.link)
        name = f"{name}-{handle.object.split('_:')[0]}" if name in found else name
        made.append(_articulation(name, piece, piece.links[numbers[handle.link] + 1], handle, instance))
        joints[name], found[name] = Joint(handle.object, numbers[handle.link]), handle
    return made, joints, found


def _articulation(name: str, piece: _Articulated, link: UrdfLink, handle: Handle, instance: Template) -> Articulation:
    """Return a drawer or a door; its frame has the joint's origin, and +x as it slides, or as the link's points."""
    pose = piece.link_pose(link)
    axis = pose[:3, :3] @ link.axis
    slides = link.joint == "prismatic"
    off = abs(axis[2]) if slides else math.hypot(axis[0], axis[1])
    if link.joint not in ("prismatic", "revolute") or off > UPRIGHT:
        what = "neither a drawer on a level rail nor a door on an upright hinge"
        raise DataError(f"{instance.file}: {handle.object}'s {handle.link} is {what}")
    ahead = axis if slides else pose[:3, 0]
    yaw = math.atan2(ahead[1], ahead[0])
    origin = pose[:3, 3]

    def local(points: NDArray[np.float64]) -> NDArray[np.float64]:
        """World (n, 3) -> the articulation's frame."""
        away = points - origin
        return np.column_stack((*rotated(-yaw, away.T[:2]), away[:, 2]))

    held = local((pose[:3, :3] @ (np.array(handle.offset)) + origin)[None])[0]
    corners = local(moved(link.triangles * piece.scale, pose).reshape(-1, 3))
    if len(corners) == 0:
        raise DataError(f"{instance.file}: {handle.object}'s {handle.link} has nothing to collide with")
    low, high = corners.min(axis=0), corners.max(axis=0)
    panel = Geom(f"{name}/panel", "box", _vec((low + high) / 2), _vec((high - low) / 2), (0.8, 0.8, 0.8, 1.0))
    return Articulation(
        name,
        "cabinet" if slides else "fridge",
        piece.handle,
        _vec(origin),
        yaw,
        (1.0, 0.0, 0.0) if slides else (0.0, 0.0, math.copysign(1.0, axis[2])),
        link.limits,
        (panel,),
        panel.name,
        _vec(held),
    )


# -- surfaces ----------------------------------------------------------------------------------------------------------


def _boxes(template: Template) -> dict[str, Config]:
    """Return a template's annotated boxes, by their names."""
    annotated = template.config.get("user_defined", {})
    return {
        str(box.get("name", key)): box
        for key, box in annotated.items()
        if key.startswith("receptacle_aabb_") and isinstance(box, dict)
    }


def _annotated(template: Template, handle: str, piece: _Articulated) -> list[_Surface]:
    """Return the surfaces of an articulated object, each in its link's frame."""
    links = {link.name: link for link in piece.links}
    found = []
    for name, box in _boxes(template).items():
        link = links.get(str(box.get("parent_link", "")))
        if link is None:
            raise DataError(f"{template.file}: {name} names no link of {template.name} as its parent_link")
        pose = piece.link_pose(link)
        scaled: Config = dict(box)
        for key in {"position", "scale"} & box.keys():
            scaled[key] = [piece.scale * value for value in box[key]]
        found.append(_surface(name, scaled, handle, template.name, pose, template, link))
    return found


def _surface(
    name: str, box: Config, owner: str, kind: str, pose: Matrix, template: Template, link: UrdfLink | None = None
) -> _Surface:
    try:
        center, half = (np.asarray(box[key], np.float64).reshape(3) for key in ("position", "scale"))
        turn = matrix((0.0, 0.0, 0.0), tuple(map(float, box.get("rotation", (1.0, 0.0, 0.0, 0.0)))))  # type: ignore[arg-type]
    except (KeyError, TypeError, ValueError) as error:
        raise DataError(f"{template.file}: {name} has no proper position and scale") from error
    around = np.eye(4)
    around[:3, 3] = center
    back = np.eye(4)
    back[:3, 3] = -center
    named = name if owner == "stage" else kind
    part, moves = ("", False) if link is None else (link.name, link.joint not in ("", "fixed"))
    return _Surface(
        f"{owner}|{name}", owner, part, moves, _kind(named), pose @ around @ turn @ back, center, np.abs(half)
    )


def _kind(name: str) -> str:
    """Return what one would call a piece of furniture: "table" of "frl_apartment_table_02"."""
    return re.sub(r"^(receptacle_aabb_|frl_apartment_)+|[_\d]+$", "", name) or name


def _opens(
    surface: _Surface, articulations: Sequence[Articulation], handles: Mapping[str, Handle]
) -> Articulation | None:
    """Return the drawer that a surface is part of, or the door behind which it is; None: it is open."""
    at = surface.pose[:3, :3] @ surface.center + surface.pose[:3, 3]
    for part in articulations:
        if handles[part.name].object != surface.owner:
            continue
        if part.kind == "cabinet":
            if handles[part.name].link == surface.link:
                return part
            continue
        panel = part.geoms[0]
        away = rotated(-part.yaw, at[:2] - np.asarray(part.pos[:2]))
        level = abs(at[2] - part.pos[2] - panel.pos[2]) < panel.size[2]
        if level and away[0] < 0.0 and abs(away[1] - panel.pos[1]) < panel.size[1]:
            return part
    return None


def _receptacle(surface: _Surface, inside: Articulation | None, triangles: Triangles, grid: NavGrid) -> Receptacle:
    turn = surface.pose[:3, :3]
    up = int(np.argmax(np.abs(turn[2])))
    sizes = np.linalg.norm(turn, axis=0) * surface.half
    middle = turn @ surface.center + surface.pose[:3, 3]
    height = float(middle[2] - sizes[up])
    across, along = (axis for axis in range(3) if axis != up)
    ahead = turn[:2, across]
    yaw = math.atan2(ahead[1], ahead[0])
    half = (float(sizes[across]), float(sizes[along]))
    place = (float(middle[0]), float(middle[1]), height)
    if inside is not None:
        if round(math.remainder(yaw - inside.yaw, math.pi) / (math.pi / 2)):
            half = half[::-1]
        panel = inside.geoms[0]
        rim = inside.pos[2] + panel.pos[2] + panel.size[2] - height
        drawer = inside.kind == "cabinet"
        clear = rim if drawer else _headroom(triangles, place, inside.yaw, half)
        return Receptacle(
            surface.name, "drawer" if drawer else "fridge", place, inside.yaw, half, clear, (0.0,), inside.name
        )
    clear = _headroom(triangles, place, yaw, half)
    open_sides = [side for side in range(4) if _reachable(triangles, grid, place, yaw, half, side)]
    # Its front, local +x, is the longest of the sides from which it can be reached.
    front = max(open_sides, key=lambda side: half[1 - side % 2], default=0)
    turned = half if front % 2 == 0 else half[::-1]
    turns = sorted((side - front) % 4 for side in open_sides)
    fronts = tuple(math.remainder(turn * math.pi / 2, math.tau) for turn in turns)
    return Receptacle(
        surface.name, surface.kind, place, math.remainder(yaw + front * math.pi / 2, math.tau), turned, clear, fronts
    )


def _headroom(triangles: Triangles, place: Sequence[float], yaw: float, half: tuple[float, float]) -> float:
    """Return how much is free above a surface (m), at most `OPEN_AIR_M`: at its middle and half-way to its corners."""
    found = OPEN_AIR_M
    for x, y in ((0.0, 0.0), (0.5, 0.5), (0.5, -0.5), (-0.5, 0.5), (-0.5, -0.5)):
        shift = rotated(yaw, (x * half[0], y * half[1]))
        start = np.array((place[0] + shift[0], place[1] + shift[1], place[2] + 0.02))
        found = min(found, 0.02 + free_way(triangles, start, np.array((0.0, 0.0, 1.0)), OPEN_AIR_M - 0.02))
    return found


def _reachable(
    triangles: Triangles, grid: NavGrid, place: Sequence[float], yaw: float, half: tuple[float, float], side: int
) -> bool:
    """Whether a hand gets over one side of a surface from where the base can stand."""
    ahead = rotated(yaw, _AHEAD[side])
    beside = np.array((-ahead[1], ahead[0]))
    out, wide = half[side % 2], half[1 - side % 2]
    for share in (0.0, -0.6, 0.6):
        edge = np.asarray(place[:2]) + out * ahead + share * wide * beside
        stands = any(
            grid.is_free(float(x), float(y))
            for x, y in (edge + away * ahead for away in np.arange(*STAND_M, 0.05, dtype=np.float64))
        )
        start = np.array((*(edge - 0.02 * ahead), place[2] + OVER_M))
        if stands and free_way(triangles, start, np.array((*ahead, 0.0)), OUT_M) >= OUT_M:
            return True
    return False


def free_way(triangles: Triangles, start: NDArray[np.float64], ray: NDArray[np.float64], most_m: float) -> float:
    """Return how far (m, at most `most_m`) one gets from a point along a unit vector before a triangle (n, 3, 3) is in
    the way; Möller and Trumbore, 1997."""
    end = start + most_m * ray
    low, high = np.minimum(start, end) - 1e-6, np.maximum(start, end) + 1e-6
    near = ((triangles.min(axis=1) <= high) & (triangles.max(axis=1) >= low)).all(axis=1)
    corner = triangles[near, 0]
    first, second = triangles[near, 1] - corner, triangles[near, 2] - corner
    across = np.cross(ray, second)
    volume = np.einsum("ij,ij->i", first, across)
    with np.errstate(divide="ignore", invalid="ignore"):
        away = start - corner
        u = np.einsum("ij,ij->i", away, across) / volume
        side = np.cross(away, first)
        v = side @ ray / volume
        distance = np.einsum("ij,ij->i", second, side) / volume
    hit = (np.abs(volume) > 1e-12) & (u >= -1e-9) & (v >= -1e-9) & (u + v <= 1 + 1e-9) & (distance > 0.0)
    return float(distance[hit].min(initial=most_m))


# -- the floor ---------------------------------------------------------------------------------------------------------


def floor_grid(triangles: Triangles, bounds: tuple[float, float, float, float], instance: Template) -> NavGrid:
    """Return where the base can be: over the floor, away from all that stands there or hangs low.

    Only one connected place counts, the largest. Distances are those on a picture of the floor, to a centimetre.
    Raises `DataError` where there is no floor.
    """
    x0, y0, x1, y1 = bounds
    shape = (math.ceil((y1 - y0) / RASTER_M) + 1, math.ceil((x1 - x0) / RASTER_M) + 1)
    floor, low, tall = (np.zeros(shape, np.bool_) for _ in range(3))
    _draw(np.ascontiguousarray(triangles), x0, y0, floor, low, tall)
    # Points are drawn half a centimetre apart, so a level floor has no holes but rounding's.
    floor = ndimage.binary_closing(floor)
    if float(floor.sum()) * RASTER_M**2 < LEAST_FLOOR_M2:
        raise DataError(
            f"{instance.file}: has no floor at y = 0; its lowest point is at y = {triangles[..., 2].min():.2f}"
        )
    cells = (math.ceil((y1 - y0) / CELL_M - 1e-6), math.ceil((x1 - x0) / CELL_M - 1e-6))
    rows = np.minimum(((np.arange(cells[0]) + 0.5) * CELL_M / RASTER_M).astype(np.int64), shape[0] - 1)
    columns = np.minimum(((np.arange(cells[1]) + 0.5) * CELL_M / RASTER_M).astype(np.int64), shape[1] - 1)
    clearances = []
    for solid in (low, tall):
        open_ = np.pad(floor & ~solid, 1)  # the edge of the picture is one of the floor
        away = ndimage.distance_transform_edt(open_)[1:-1, 1:-1] * RASTER_M
        clearances.append(np.ascontiguousarray(away[np.ix_(rows, columns)], dtype=np.float32))
    try:
        return NavGrid.of_map((x0, y0), CELL_M, clearances[0], clearances[1], NAV_RADIUS_M)
    except ValueError as error:
        raise DataError(f"{instance.file}: nowhere on its floor is there room for the robot") from error


@njit("void(float64[:, :, ::1], float64, float64, boolean[:, ::1], boolean[:, ::1], boolean[:, ::1])", cache=True)
def _draw(
    triangles: NDArray[np.float64],
    x0: float,
    y0: float,
    floor: NDArray[np.bool_],
    low: NDArray[np.bool_],
    tall: NDArray[np.bool_],
) -> None:
    """Mark the pixels under points of triangles, half a pixel apart: the floor's, and where the base, or the arm, is
    stopped."""
    for n in range(len(triangles)):
        a, b, c = triangles[n, 0], triangles[n, 1], triangles[n, 2]
        bottom, top = min(a[2], b[2], c[2]), max(a[2], b[2], c[2])
        if bottom >= HIGH_M or top <= -FLOOR_M:
            continue
        u, v = b - a, c - a
        # How level it is, from its normal.
        nx, ny, nz = u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]
        level = abs(nz) > 0.9 * math.sqrt(nx * nx + ny * ny + nz * nz)
        # On plan; but a wall's triangle is as long as it is high there, so the third axis counts, too.
        longest = max(
            math.sqrt(u[0] ** 2 + u[1] ** 2 + u[2] ** 2),
            math.sqrt(v[0] ** 2 + v[1] ** 2 + v[2] ** 2),
            math.sqrt((v[0] - u[0]) ** 2 + (v[1] - u[1]) ** 2 + (v[2] - u[2]) ** 2),
        )
        steps = max(1, math.ceil(2.0 * longest / RASTER_M))
        for i in range(steps + 1):
            for j in range(steps + 1 - i):
                s, t = i / steps, j / steps
                z = a[2] + s * u[2] + t * v[2]
                if z >= HIGH_M or z <= -FLOOR_M:
                    continue
                row = int((a[1] + s * u[1] + t * v[1] - y0) / RASTER_M)
                column = int((a[0] + s * u[0] + t * v[0] - x0) / RASTER_M)
                if row < 0 or column < 0 or row >= low.shape[0] or column >= low.shape[1]:
                    continue
                if z > FLOOR_M:
                    low[row, column] = True
                    if z > TALL_M:
                        tall[row, column] = True
                elif level:
                    floor[row, column] = True


def _vec(values: NDArray[np.float64]) -> tuple[float, float, float]:
    x, y, z = (float(value) for value in values)
    return x, y, z


TO_OURS = np.eye(4)
"""Habitat's world to ours, (4, 4)."""
TO_OURS[:3, :3] = TO_HABITAT.T
