"""Episodes: which apartment, where the robot and the objects start, what has to go where.

An episode is a pure function of (scenario, split, index): no file is read and no physics is run, so it is the same on
every machine. Objects stand upright on their receptacles; every target can be reached by the base at its start and
at its goal (`approach_poses`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hab.layout import DOOR_ROOM_M, SPLIT_SEEDS, generate_scene
from hab.navgrid import NavGrid
from hab.objects import BOWL, FRUITS, HOUSE_OBJECTS, UNSEEN, object_kind, object_model
from hab.openings import fridge_start, opened_boxes, rotated
from hab.scene import Receptacle, Scene, Vec3
from hab.storage import UNSEEN_FURNITURE

if TYPE_CHECKING:
    from hab.habitat.official import DataFolder

SCENARIOS = ("tidy_house", "prepare_groceries", "set_table")
FEWEST_OBJECTS = 5
"""A house may hold no fewer in an evaluation: as many as Tidy House has targets."""
SPLITS = tuple(SPLIT_SEEDS)
TARGETS = {"tidy_house": 5, "prepare_groceries": 3, "set_table": 2}
"""Objects to rearrange."""
_OF_DATA = "@"
"""Parts a split's name from a folder of Habitat data that it is of (`data_split`)."""

OBJECT_GAP_M = (0.02, 0.10)
"""Free space between two objects' bounding circles: drawn for each, at least."""
HAND_ROOM_M, STEM_M = 0.075, 0.09
"""What rises higher than this above an object to be taken or put down leaves room for the gripper's half width."""
BESIDE_SHARE, LIKE_SHARE = 0.55, 0.5
"""How many objects stand close beside another one, and how many of those beside one of their kind, if there is one."""
HIDDEN_SHARE = {"drawer": 0.12, "fridge": 0.10}
"""How many of the objects that nobody asked for are in drawers and in the fridge."""
FAR_APART_M = 0.4
"""No two objects are as wide together, with a gap between them."""
LAYER_M = 0.05
"""Objects so far above one another are on different boards."""
HEAD_ROOM_M = 0.18
"""Objects go only where this much stays free above them: the gripper's half thickness and some."""
TOP_MAX_M = 1.06
"""Objects stand no higher than this: the arm has to lift them, and its shoulder is at 0.94 m."""
REACH_M = (0.50, 0.95)
"""Base centre to object, nearest and farthest, from which the arm can work."""
REACHES_M = np.arange(*REACH_M, 0.05, dtype=np.float64)
APPROACH_ANGLES = (0.0, 0.35, -0.35, 0.7, -0.7)
"""Directions (rad off the receptacle's front) from which a robot may approach."""
_FRIDGE_MAX_HEIGHT_M = 0.15
_ATTEMPTS = 200


@dataclass(frozen=True)
class Target:
    """An object to rearrange. Positions are the object's centre of mass in the world (m)."""

    object: str
    start_receptacle: str
    goal_receptacle: str
    start_pos: Vec3
    goal_pos: Vec3


@dataclass(frozen=True)
class Episode:
    """A start state of one scenario; everything a simulator needs to lay it out."""

    scenario: str
    split: str
    index: int
    scene_seed: int
    robot: tuple[float, float, float]
    """Base x, y (m) and yaw (rad) in the world."""
    objects: dict[str, tuple[Vec3, float]]
    """Every object that is there: centre of mass in the world and yaw. All of the apartment's, unless fewer were asked
    for (`make_episode`)."""
    joints: dict[str, float]
    """Start positions of the articulations that do not start closed."""
    targets: tuple[Target, ...]
    redrawn: int = 0
    """How often it was drawn again because something found no place (`make_episode`)."""
    data: str = ""
    """The folder of Habitat data that it was read from; "": it was generated."""

    def target(self, name: str) -> Target:
        """Return what is to be done with an object."""
        return next(t for t in self.targets if t.object == name)


class Unsolvable(Exception):
    """This draw cannot be laid out; the generator draws again."""


def data_split(split: str, folder: str) -> str:
    """Return what a split of a folder of Habitat data (hab/habitat/official.py) is called here.

    It goes wherever a split's name does, and then episodes are read, not drawn."""
    return f"{split}{_OF_DATA}{folder}"


def split_name(split: str) -> str:
    """Return a split's name without the folder of Habitat data that it may be of."""
    return split.partition(_OF_DATA)[0]


def split_number(split: str) -> int:
    """Return a split's place in `SPLITS`: part of what seeds start states."""
    return SPLITS.index(split_name(split))


def _data(split: str) -> DataFolder | None:
    """Return the folder of Habitat data that a split is of; None: its apartments are generated."""
    name, _, root = split.partition(_OF_DATA)
    if not root:
        return None
    from hab.habitat.official import data_folder

    return data_folder(root, name)


@lru_cache(maxsize=32)
def load_scene(seed: int) -> Scene:
    """Return the apartment of a seed, cached; seeds below 0 number those that were read."""
    if seed < 0:
        from hab.habitat.official import numbered

        return numbered(seed).scene
    return generate_scene(seed)


@lru_cache(maxsize=32)
def load_grid(seed: int) -> NavGrid:
    """Return the navigation grid of an apartment with everything closed, cached."""
    if seed < 0:
        from hab.habitat.official import numbered

        return numbered(seed).grid
    return NavGrid(load_scene(seed))


@lru_cache(maxsize=24)
def _grid_beside_door(seed: int, room_m: float) -> NavGrid:
    """Return the grid of an apartment whose fridge stands open, with some room (m) round the door."""
    scene = load_scene(seed)
    fridge = scene.fridge
    x, y, yaw, hx, hy = opened_boxes(scene, {fridge.name: fridge_start(fridge)})[0]
    return load_grid(seed).with_boxes([(x, y, yaw, hx + room_m, hy + room_m)])


def make_episode(scenario: str, split: str, index: int, objects: int = HOUSE_OBJECTS) -> Episode:
    """Return one episode of a scenario.

    Consecutive indices visit the split's apartments in turn. Everything is drawn together, and again, with everything
    anew, where something finds no free place at a distance to drive to; what is drawn again was not played, so no
    outcome has a say in it. `objects`: play the same episode with only so many, the targets among them.

    The last few are kept, and given again: not to be changed, but by `dataclasses.replace`.

    Raises `ValueError` for an unknown scenario or split, or fewer objects than targets.
    """
    if scenario not in SCENARIOS:
        raise ValueError(f"unknown scenario {scenario!r}; choose from {', '.join(SCENARIOS)}")
    if data := _data(split):
        from hab.habitat.official import read_episode

        return read_episode(data, scenario, index, objects if objects < HOUSE_OBJECTS else None)
    return _generated(scenario, split, index, objects)


@lru_cache(maxsize=4)
def _generated(scenario: str, split: str, index: int, objects: int) -> Episode:
    # Kept, because a skill's task draws its start states until one fits, all of the same few episodes.
    seed = scene_seed(split, index)
    scene, grid = load_scene(seed), load_grid(seed)
    for attempt in range(_ATTEMPTS):
        rng = np.random.default_rng([SCENARIOS.index(scenario), SPLITS.index(split), index, attempt])
        layout = Layout(scene, grid, rng, grid)
        try:
            targets = _DRAWS[scenario](layout)
            layout.add_clutter()
            robot = layout.draw_robot()
        except Unsolvable:
            continue
        if not len(targets) <= objects <= len(layout.objects):
            raise ValueError(f"objects={objects}: {scenario} plays with {len(targets)} to {len(layout.objects)}")
        kept = dict(list(layout.objects.items())[:objects])
        return Episode(scenario, split, index, seed, robot, kept, layout.joints, tuple(targets), attempt)
    raise RuntimeError(f"no {scenario} episode fits apartment {seed} ({split} {index})")


def asked_kinds(scene: Scene, targets: Sequence[Target]) -> tuple[str, ...]:
    """Return the kinds of objects and furniture that some targets have to do with, each once, in order."""
    places = [scene.receptacle(name).kind for t in targets for name in (t.start_receptacle, t.goal_receptacle)]
    return tuple(dict.fromkeys([*(object_kind(t.object) for t in targets), *places]))


def is_unseen(kind: str) -> bool:
    """Whether a kind of object or furniture is in houses of test alone."""
    return kind in UNSEEN or kind in UNSEEN_FURNITURE


def scene_seed(split: str, index: int) -> int:
    """Return the apartment of a split's episode; of one of Habitat data, in whichever scenario."""
    seeds, rounds = apartments(split)
    if index < 0:
        raise ValueError(f"index={index}: episodes are numbered from 0")
    if rounds is not None and index >= rounds * len(seeds):
        raise ValueError(f"index={index}: {split} has {rounds * len(seeds)} start states of a skill, numbered from 0")
    return seeds[index % len(seeds)]


def apartments(split: str) -> tuple[Sequence[int], int | None]:
    """Return the seeds of a split's apartments, which its episodes visit in turn, and how often: None: without end.

    Raises `ValueError` for an unknown split."""
    if split_name(split) not in SPLIT_SEEDS:
        raise ValueError(f"unknown split {split!r}; choose from {', '.join(SPLITS)}")
    if data := _data(split):
        names, rounds = data.common
        return tuple(data.number(name) for name in names), rounds
    return SPLIT_SEEDS[split], None


def fits(name: str, receptacle: Receptacle) -> bool:
    """Whether an object may stand on a receptacle: low enough to be lifted there, and with room above for a hand."""
    model = object_model(name)
    height = 2.0 * model.half_extents[2]
    if receptacle.center[2] + (model.half_height_m if receptacle.under_board else height) > TOP_MAX_M:
        return False
    return receptacle.clearance_m >= height + (0.0 if receptacle.kind == "drawer" else HEAD_ROOM_M)


def apart(a: Spot, b: Spot, gap_m: float) -> bool:
    """Whether two spots leave a gap between them, and room for a hand where one has to get beside what is taller."""
    away = math.hypot(a.position[0] - b.position[0], a.position[1] - b.position[1])
    if away > FAR_APART_M:
        return True
    model, other = object_model(a.object), object_model(b.object)
    if abs(a.position[2] - b.position[2]) > model.half_extents[2] + other.half_extents[2] + LAYER_M:
        return True
    if away <= model.radius_m + other.radius_m + gap_m:
        return False
    rise = b.position[2] + other.half_extents[2] - a.position[2] - model.half_extents[2]
    if a.asked and rise > STEM_M and away <= other.radius_m + HAND_ROOM_M:
        return False
    return not (b.asked and -rise > STEM_M and away <= model.radius_m + HAND_ROOM_M)


def lies_on(scene: Scene, place: Sequence[float]) -> Receptacle | None:
    """Return the receptacle on which an object lies whose centre is there (m, world); None: on none."""
    z = place[2]
    found = (r for r in scene.receptacles if holds(r, place))
    return min(found, key=lambda r: z - r.center[2], default=None)


def holds(receptacle: Receptacle, place: Sequence[float], beside_m: float = 1e-3, below_m: float = 0.0) -> bool:
    """Whether an object lies on a receptacle whose centre is there (m, world): over its usable rectangle, give or take
    `beside_m`, and under what is above it; above its surface, give or take `below_m`."""
    if not -below_m < place[2] - receptacle.center[2] < receptacle.clearance_m:
        return False
    local = np.abs(rotated(-receptacle.yaw, np.subtract(place[:2], receptacle.center[:2])))
    return bool((local <= np.add(receptacle.half_extents, beside_m)).all())


def approach_poses(
    grid: NavGrid, receptacle: Receptacle, position: Sequence[float], reach_m: NDArray[np.float64] = REACHES_M
) -> list[tuple[float, float, float]]:
    """Return base poses (x, y, yaw) that face a position on a receptacle, best directions first.

    Only poses the base can drive to count: free cells of the grid's largest component.
    """
    found = _free_before(grid, receptacle, position, reach_m, False)
    return [(x, y, math.remainder(angle + math.pi, 2.0 * math.pi)) for x, y, angle in found.tolist()]


def approachable(grid: NavGrid, receptacle: Receptacle, position: Sequence[float]) -> bool:
    """Whether there is any such pose."""
    return len(_free_before(grid, receptacle, position, REACHES_M, True)) > 0


def _free_before(
    grid: NavGrid, receptacle: Receptacle, position: Sequence[float], reach_m: NDArray[np.float64], one: bool
) -> NDArray[np.float64]:
    """Return x, y and direction (n, 3) of the places of `approach_poses`; at most `one`."""
    angles = np.array([receptacle.yaw + front + off for off in APPROACH_ANGLES for front in receptacle.fronts])
    x, y = grid.origin
    return _free_places(
        grid.largest_component, x, y, grid.cell_m, float(position[0]), float(position[1]), angles, reach_m, one
    )


@njit(
    "float64[:, ::1]"
    "(boolean[:, ::1], float64, float64, float64, float64, float64, float64[::1], float64[::1], boolean)",
    cache=True,
)
def _free_places(
    free: NDArray[np.bool_],
    origin_x: float,
    origin_y: float,
    cell_m: float,
    x0: float,
    y0: float,
    angles: NDArray[np.float64],
    reach_m: NDArray[np.float64],
    one: bool,
) -> NDArray[np.float64]:
    places, count = np.empty((len(angles) * len(reach_m), 3)), 0
    for angle in angles:
        for distance in reach_m:
            x, y = x0 + distance * math.cos(angle), y0 + distance * math.sin(angle)
            i, j = math.floor((y - origin_y) / cell_m), math.floor((x - origin_x) / cell_m)
            if 0 <= i < free.shape[0] and 0 <= j < free.shape[1] and free[i, j]:
                places[count, 0], places[count, 1], places[count, 2] = x, y, angle
                count += 1
                if one:
                    return places[:count].copy()
    return places[:count].copy()


@dataclass(frozen=True)
class Spot:
    """A place in use: by an object that is there, or that is to be."""

    object: str
    position: Vec3
    receptacle: str
    asked: bool
    """Whether a hand has to get there."""


@dataclass
class Layout:
    """Places objects one by one; what is placed keeps its distance from what is there, starts and goals alike."""

    scene: Scene
    grid: NavGrid
    rng: np.random.Generator
    outside: NavGrid
    """The grid for all but the fridge: `grid`, less the room that an opened door needs."""
    objects: dict[str, tuple[Vec3, float]] = field(default_factory=dict)
    joints: dict[str, float] = field(default_factory=dict)
    taken: list[Spot] = field(default_factory=list)

    def receptacles(self, *kinds: str) -> list[Receptacle]:
        """Return the receptacles of the kinds named, or all that are open to the room."""
        return [r for r in self.scene.receptacles if (r.kind in kinds if kinds else r.articulation == "")]

    def spot(self, name: str, receptacles: Sequence[Receptacle], asked: bool) -> tuple[Receptacle, Vec3]:
        """Draw a free spot for an object on one of the receptacles; one that is `asked` for can be reached."""
        fitting = [r for r in receptacles if fits(name, r)]
        if not fitting:
            raise Unsolvable
        for _ in range(40):
            near = self._neighbour(name, fitting) if self.rng.random() < BESIDE_SHARE else None
            if near is None:
                receptacle = fitting[int(self.rng.integers(len(fitting)))]
                local = self.rng.uniform(-1.0, 1.0, 2) * receptacle.half_extents
            else:
                receptacle, local = near
            x, y = (np.array(receptacle.center[:2]) + rotated(receptacle.yaw, local)).tolist()
            spot = Spot(name, (x, y, receptacle.center[2] + object_model(name).half_height_m), receptacle.name, asked)
            gap = OBJECT_GAP_M[0] if near is not None else float(self.rng.uniform(*OBJECT_GAP_M))
            grid = self.grid if receptacle.kind == "fridge" else self.outside
            if all(apart(spot, other, gap) for other in self.taken) and (
                not asked or approachable(grid, receptacle, (x, y))
            ):
                self.taken.append(spot)
                return receptacle, spot.position
        raise Unsolvable

    def _neighbour(self, name: str, receptacles: Sequence[Receptacle]) -> tuple[Receptacle, NDArray[np.float64]] | None:
        """Draw a place (m, on a receptacle) beside something that is there, or before or behind it; None: there is
        nothing, or no room."""
        rng, found = self.rng, {r.name: r for r in receptacles}
        there = [spot for spot in self.taken if spot.receptacle in found]
        like = [spot for spot in there if object_kind(spot.object) == object_kind(name)]
        there = like if like and rng.random() < LIKE_SHARE else there
        if not there:
            return None
        other = there[int(rng.integers(len(there)))]
        receptacle = found[other.receptacle]
        away = object_model(name).radius_m + object_model(other.object).radius_m + float(rng.uniform(*OBJECT_GAP_M))
        # Side by side, mostly; give or take.
        angle = rng.uniform(-0.3, 0.3) + rng.choice((0.0, math.pi)) + (math.pi / 2 if rng.random() < 0.7 else 0.0)
        local = rotated(-receptacle.yaw, np.subtract(other.position[:2], receptacle.center[:2]))
        local = local + away * np.array([math.cos(angle), math.sin(angle)])
        return (receptacle, local) if bool((np.abs(local) <= receptacle.half_extents).all()) else None

    def put(self, name: str, receptacles: Sequence[Receptacle], asked: bool = False) -> tuple[Receptacle, Vec3]:
        """Place an object at a drawn spot with a drawn yaw."""
        receptacle, position = self.spot(name, receptacles, asked)
        self.objects[name] = (position, float(self.rng.uniform(-math.pi, math.pi)))
        return receptacle, position

    def target(self, name: str, starts: Sequence[Receptacle], goals: Sequence[Receptacle]) -> Target:
        """Draw an object's start and, on another receptacle, its goal."""
        start, start_pos = self.put(name, starts, asked=True)
        goal, goal_pos = self.spot(name, [r for r in goals if r.name != start.name], asked=True)
        return Target(name, start.name, goal.name, start_pos, goal_pos)

    def draw_objects(self, count: int, names: Sequence[str]) -> list[str]:
        return [str(name) for name in self.rng.permutation(list(names))[:count]]

    def add_clutter(self) -> None:
        """Put the objects that nobody asked for on open receptacles, some in drawers and in the fridge."""
        kinds, shares = list(HIDDEN_SHARE), list(HIDDEN_SHARE.values())
        left = [name for name in self.scene.objects if name not in self.objects]
        for name in self.draw_objects(len(left), left):
            place = int(self.rng.choice(len(kinds) + 1, p=[*shares, 1.0 - sum(shares)]))
            try:
                self.put(name, self.receptacles(*kinds[place : place + 1]))
            except Unsolvable:
                self.put(name, self.receptacles(*kinds) if place == len(kinds) else self.receptacles())

    def draw_robot(self) -> tuple[float, float, float]:
        """Draw a start pose with room to turn with the arm at rest."""
        return robot_start(self.grid, self.rng)


def robot_start(grid: NavGrid, rng: np.random.Generator) -> tuple[float, float, float]:
    """Draw a base pose with room to turn with the arm at rest. Raises `Unsolvable` if there is none."""
    for _ in range(200):
        x, y = grid.sample(rng)
        if grid.tall_clearance[grid.cell(x, y)] > 0.75:
            return x, y, float(rng.uniform(-math.pi, math.pi))
    raise Unsolvable


def _tidy_house(layout: Layout) -> list[Target]:
    """Five objects between open receptacles."""
    names = layout.draw_objects(5, layout.scene.objects)
    return [layout.target(name, layout.receptacles(), layout.receptacles()) for name in names]


def _prepare_groceries(layout: Layout) -> list[Target]:
    """Two objects from the counter into the open fridge and one out of it, or the other way round."""
    fridge = layout.scene.fridge
    layout.joints[fridge.name] = fridge_start(fridge)
    layout.grid = _grid_beside_door(layout.scene.seed, 0.0)
    layout.outside = _grid_beside_door(layout.scene.seed, DOOR_ROOM_M)
    low = [n for n in layout.scene.objects if 2.0 * object_model(n).half_extents[2] <= _FRIDGE_MAX_HEIGHT_M]
    counter, shelves = layout.receptacles("counter"), layout.receptacles("fridge")
    into = [True, True, False] if layout.rng.random() < 0.5 else [False, False, True]
    return [
        layout.target(name, counter if stow else shelves, shelves if stow else counter)
        for name, stow in zip(layout.draw_objects(3, low), layout.rng.permutation(into), strict=True)
    ]


def _set_table(layout: Layout) -> list[Target]:
    """The bowl from a closed drawer and a fruit from the closed fridge to the dining table."""
    table, objects = layout.receptacles("table"), layout.scene.objects
    [bowl] = layout.draw_objects(1, [name for name in objects if object_kind(name) == BOWL])
    [fruit] = layout.draw_objects(1, [name for name in objects if object_kind(name) in FRUITS])
    return [
        layout.target(bowl, layout.receptacles("drawer"), table),
        layout.target(fruit, layout.receptacles("fridge"), table),
    ]


_DRAWS = {"tidy_house": _tidy_house, "prepare_groceries": _prepare_groceries, "set_table": _set_table}
