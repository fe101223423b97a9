"""Start states: where the base may stand, and how an episode looks when a skill begins in the middle of it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from hab.actions import CONTROL_HZ
from hab.episodes import REACH_M, Episode, Unsolvable, approach_poses, holds, make_episode
from hab.measures import NAV_ANGLE_RAD, NAV_DISTANCE_M
from hab.navgrid import NavGrid
from hab.objects import object_model
from hab.openings import drawn_out, in_the_way, opened_position, rotated
from hab.robot import BASE_MAX_RAD_S
from hab.scene import DRAWER_OPEN_M, Receptacle, Scene
from hab.simulator import Snapshot
from skills.oracle.hand import thickness
from skills.oracle.pick import LIFT_M, RIM_CLEAR_M, clearance
from skills.oracle.reach import REACH_STEP_M, pitches_for, reaches
from skills.oracle.surroundings import rim_m
from skills.skill import Goal

SPAWN_MAX_M = 2.0
"""Base to object, planar and along the floor (habitat's `spawn_max_dist_to_obj`)."""
YAW_NOISE_RAD, NEAR_YAW_NOISE_RAD, BASE_NOISE_M = 0.523599, 0.15, 0.05
FIXED_YAW_MAX_RAD = 0.6
"""Without base movement the yaw is off by no more: to what lies further round the arm would sweep over all else."""
WORKING_NOISE = np.array((0.03, 0.03, 0.15))
"""m, m, rad: base poses after work, about the one that faces the object."""
DRAWER_OPENED_M, FRIDGE_OPENED_RAD = (0.42, 0.50), (1.25, 2.1)
"""Between these start states have what Open Cabinet and Open Fridge have opened; drawers mostly end up at 0.5 m."""
TILTS_RAD = (0.0, 1.0)
"""How far an object in hand leans: it was taken with a cup that pointed less steeply down than the resting arm's."""
SHOVED_SHARE, SHOVE_STEPS = 0.7, (5, 31)
"""Share of the chain's start states in which the robot leans on something, perhaps; for how long it is shoved."""
ARRIVAL = 0.4
"""How fast a shove drives, at most (`base_vel`), where Navigate has left the base near its target."""
_CANDIDATES = 40

StartKind = Literal["wide", "near", "chain"]
"""As the skill's own task has it: Pick and Place within 2 m, as habitat-lab does today; or, for them, at the navigable
point nearest to the object, as at the time of the VER paper. Or as the skill called before leaves things."""
STARTS: tuple[StartKind, ...] = ("wide", "near")
"""A task's own, by name."""
Pose = tuple[float, float, float]
"""Base x, y (m) and yaw (rad) in the world."""
Shove = tuple[float, float, int]
"""`base_vel`, and for how many control steps."""
NO_SHOVE: Shove = (0.0, 0.0, 0)


@dataclass(frozen=True)
class Start:
    """A start state: an episode laid out for one call of a skill."""

    episode: Episode
    """`robot`, `objects` and `joints` are where the skill begins."""
    goal: Goal
    held: str = ""
    """The object in hand."""
    tilt_rad: float = 0.0
    """How far it leans (`Simulator.hold`)."""
    arm: tuple[float, ...] | None = None
    """Joint positions (7,) from which the arm goes back to rest before the skill begins; None: it is at rest."""
    shove: Shove = NO_SHOVE
    """What the base does before that. From a pose that is free of contact it brings the robot to lean on things, as
    skills leave it."""
    snapshot: Snapshot | None = None
    """Where everything stands, if the state was met (skills/recorded.py) rather than drawn."""


def draw_episode(scene: Scene, rng: np.random.Generator, split: str, index: int) -> Episode:
    """Draw a scenario's episode; Set Table's drawer and fridge, closed in the episode, stand open."""
    scenario = str(rng.choice(("tidy_house", "prepare_groceries", "set_table"), p=(0.5, 0.25, 0.25)))
    episode = make_episode(scenario, split, index)
    return opened(scene, episode, rng) if scenario == "set_table" else episode


def opened(scene: Scene, episode: Episode, rng: np.random.Generator) -> Episode:
    """Return the episode with what holds its targets opened. Raises `Unsolvable` if a door would stand in a drawer."""
    for target in episode.targets:
        name = scene.receptacle(target.start_receptacle).articulation
        if name and name not in episode.joints:
            articulation = scene.articulation(name)
            between = DRAWER_OPENED_M if articulation.kind == "cabinet" else FRIDGE_OPENED_RAD
            episode = at_position(scene, episode, name, opened_position(rng, articulation, between))
    if in_the_way(scene, episode.joints):
        raise Unsolvable
    return episode


def at_position(scene: Scene, episode: Episode, name: str, position: float) -> Episode:
    """Return the episode with a door or drawer at a position (m or rad); what lies in a drawer has come out with it.

    The targets' starts are then told as if a drawer were open as far as Open Cabinet is to draw it, as the packaged
    policies were trained; plans tell its end (`planner.task_planner`).
    """
    articulation = scene.articulation(name)
    joints = {**episode.joints, name: position}
    if articulation.kind == "fridge":
        return replace(episode, joints=joints)
    inside = [r for r in scene.receptacles if r.articulation == name]
    objects = {
        other: (drawn_out(articulation, position, at), yaw) if any(holds(r, at) for r in inside) else (at, yaw)
        for other, (at, yaw) in episode.objects.items()
    }
    names = {r.name for r in inside}
    targets = tuple(
        replace(t, start_pos=drawn_out(articulation, DRAWER_OPEN_M, t.start_pos)) if t.start_receptacle in names else t
        for t in episode.targets
    )
    return replace(episode, objects=objects, targets=targets, joints=joints)


def moved_receptacle(scene: Scene, name: str, joints: Mapping[str, float]) -> Receptacle:
    """Return a receptacle where it is now: a drawer's surface comes out with the drawer."""
    receptacle = scene.receptacle(name)
    if receptacle.kind != "drawer":
        return receptacle
    out = rotated(receptacle.yaw, (joints.get(receptacle.articulation, 0.0), 0.0))
    x, y, z = receptacle.center
    return replace(receptacle, center=(x + float(out[0]), y + float(out[1]), z))


def working_pose(grid: NavGrid, receptacle: Receptacle, position: Sequence[float]) -> Pose:
    """Return a base pose from which the arm can work at a position. Raises `Unsolvable` if there is none."""
    return working_sides(grid, receptacle, position)[0]


def working_sides(grid: NavGrid, receptacle: Receptacle, position: Sequence[float]) -> list[Pose]:
    """Return the nearest base pose from which the arm can work at a position for each direction from which it can, the
    preferred first. Raises `Unsolvable` if there is none."""
    nearest = by_sides(approach_poses(grid, receptacle, position))
    if not nearest:
        raise Unsolvable
    return nearest


def by_sides(poses: Sequence[Pose]) -> list[Pose]:
    """Return the first of some base poses for each direction in which they look."""
    first: dict[float, Pose] = {}
    for pose in poses:
        first.setdefault(pose[2], pose)
    return list(first.values())


def working_places(
    grid: NavGrid, rng: np.random.Generator, receptacle: Receptacle, position: Sequence[float]
) -> Iterator[Pose]:
    """Yield random base poses from which the arm works at a position, where the base stands as near as it has to."""
    poses = approach_poses(grid, receptacle, position)
    for k in rng.permutation(len(poses))[:_CANDIDATES]:
        x, y, yaw = poses[k]
        noise = WORKING_NOISE * rng.standard_normal(3)
        if grid.is_free(x + noise[0], y + noise[1]):
            yield x + float(noise[0]), y + float(noise[1]), yaw + float(noise[2])


def working_poses(
    kind: StartKind | Literal["fixed"],
    grid: NavGrid,
    rng: np.random.Generator,
    receptacle: Receptacle,
    position: Sequence[float],
    told: Sequence[float],
    name: str,
) -> Iterator[Pose]:
    """Yield base poses for working at object `name`'s position; `told` is where Navigate was told that it is.

    fixed: without base movement.
    """
    if kind == "fixed":
        return closest_poses(grid, rng, receptacle, position, name)
    if kind == "chain":
        return handover_poses(grid, rng, told, working_pose(grid, receptacle, position))
    if kind == "near":
        return nearest_poses(grid, rng, receptacle, position)
    return poses_near(grid, rng, receptacle, position)


def poses_near(
    grid: NavGrid, rng: np.random.Generator, receptacle: Receptacle, position: Sequence[float]
) -> Iterator[Pose]:
    """Yield random base poses within `SPAWN_MAX_M` of a position that face it, give or take."""
    cells = _cells_around(grid, position, SPAWN_MAX_M, working_pose(grid, receptacle, position))
    for i, j in rng.permutation(cells)[:_CANDIDATES]:
        x, y = grid.xy(int(i), int(j))
        yield x, y, facing((x, y), position) + YAW_NOISE_RAD * float(rng.standard_normal())


def nearest_poses(
    grid: NavGrid, rng: np.random.Generator, receptacle: Receptacle, position: Sequence[float]
) -> Iterator[Pose]:
    """Yield base poses at the navigable points nearest to a position, the nearest first, facing it, give or take."""
    cells = _cells_around(grid, position, SPAWN_MAX_M, working_pose(grid, receptacle, position))
    points = np.array([grid.xy(int(i), int(j)) for i, j in cells]).reshape(-1, 2)
    for k in np.argsort(np.hypot(*(points - np.asarray(position[:2])).T), kind="stable")[:_CANDIDATES]:
        x, y = (points[k] + BASE_NOISE_M * rng.standard_normal(2)).tolist()
        if grid.is_free(x, y):
            yield x, y, facing((x, y), position) + NEAR_YAW_NOISE_RAD * float(rng.standard_normal())


def handover_poses(
    grid: NavGrid, rng: np.random.Generator, position: Sequence[float], work: Sequence[float]
) -> Iterator[Pose]:
    """Yield random base poses as Navigate leaves them: within its distance of a position, and facing it by its rule.

    `work`: where one would stand to work there, which has to be near along the floor, too.
    """
    cells = _cells_around(grid, position, NAV_DISTANCE_M, work)
    for i, j in rng.permutation(cells)[:_CANDIDATES]:
        x, y = grid.xy(int(i), int(j))
        yield x, y, facing((x, y), position) + float(rng.uniform(-NAV_ANGLE_RAD, NAV_ANGLE_RAD))


def closest_poses(
    grid: NavGrid, rng: np.random.Generator, receptacle: Receptacle, position: Sequence[float], name: str
) -> Iterator[Pose]:
    """Yield base poses that face an object's position and from which the arm gets at it without driving.

    The closest come first; under a board the farthest, because there the arm has to unfold before it.
    """
    working_pose(grid, receptacle, position)
    cells = _cells_within(grid, position, REACH_M[1])
    points = np.array([grid.xy(int(i), int(j)) for i, j in cells]).reshape(-1, 2)
    distances = np.hypot(*(points - np.asarray(position[:2])).T)
    fronts = [receptacle.yaw + front for front in receptacle.fronts]
    reach = _working_distances(receptacle, position, name)
    for k in np.argsort(-distances if receptacle.under_board else distances, kind="stable"):
        noise = BASE_NOISE_M * rng.standard_normal(2)
        x, y = float(points[k, 0] + noise[0]), float(points[k, 1] + noise[1])
        angle = facing(position, (x, y))
        before = any(abs(math.remainder(angle - front, math.tau)) < 0.8 for front in fronts)
        distance = math.dist((x, y), position[:2])
        if before and grid.is_free(x, y) and np.abs(reach - distance).min(initial=math.inf) < REACH_STEP_M / 2.0:
            yield x, y, facing((x, y), position) + fixed_yaw_noise(rng)


def fixed_yaw_noise(rng: np.random.Generator, most: float = FIXED_YAW_MAX_RAD) -> float:
    """Return how far (rad) off its goal a base that will not move looks."""
    return max(-most, min(most, YAW_NOISE_RAD * float(rng.standard_normal())))


def drawn_shove(rng: np.random.Generator) -> Shove:
    """Draw how the robot is shoved before it begins."""
    forward, left = rng.uniform(-1.0, 1.0, 2).tolist()
    return forward, left, int(rng.integers(*SHOVE_STEPS)) if rng.random() < SHOVED_SHARE else 0


def arrival(rng: np.random.Generator, pose: Pose) -> tuple[Pose, Shove]:
    """Draw a turn that ends at a pose, as Navigate does, unless something is in the way; and where it begins."""
    forward, left, steps = drawn_shove(rng)
    x, y, yaw = pose
    turned = left * BASE_MAX_RAD_S * steps / CONTROL_HZ
    return (x, y, yaw - turned), (ARRIVAL * forward, left, steps)


def _working_distances(receptacle: Receptacle, position: Sequence[float], name: str) -> NDArray[np.float64]:
    """Return the base's distances (m) from which the cup gets to an object's surface, back, and up again."""

    def contact(pitch: float) -> float:
        return object_model(name).half_height_m + thickness(name, pitch) * math.sin(pitch)

    rim = rim_m(receptacle)
    lift = max(LIFT_M, rim + RIM_CLEAR_M if rim else 0.0)
    pitches = sorted(pitches_for(receptacle, position, contact), reverse=True)
    found = reaches(position[2], pitches, lambda pitch: clearance(name, rim, pitch), lift)
    return np.array([reach.distance_m for reach in found])


def facing(base: Sequence[float], position: Sequence[float]) -> float:
    """Return the yaw (rad) with which a base looks at a position."""
    return math.atan2(position[1] - base[1], position[0] - base[0])


def _cells_around(grid: NavGrid, position: Sequence[float], distance_m: float, work: Sequence[float]) -> np.ndarray:
    """Return those of `_cells_within` that are near along the floor, too, to where one works at the position: the other
    side of a wall is not."""
    cells = _cells_within(grid, position, distance_m)
    near: np.ndarray = cells[grid.cells_near((work[0], work[1]), SPAWN_MAX_M)[cells[:, 0], cells[:, 1]]]
    return near


def _cells_within(grid: NavGrid, position: Sequence[float], distance_m: float) -> np.ndarray:
    """Return the cells (n, 2) of the largest component within a planar distance of a position."""
    middle, reach = grid.cell(position[0], position[1]), math.ceil(distance_m / grid.cell_m)
    top, left = (max(0, index - reach) for index in middle)
    window = grid.largest_component[top : middle[0] + reach + 1, left : middle[1] + reach + 1]
    cells = np.argwhere(window) + (top, left)
    x = grid.origin[0] + (cells[:, 1] + 0.5) * grid.cell_m
    y = grid.origin[1] + (cells[:, 0] + 0.5) * grid.cell_m
    return cells[np.hypot(x - position[0], y - position[1]) < distance_m]
