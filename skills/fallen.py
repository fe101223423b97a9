"""Pick's start states with its object on the floor, before the furniture that it stood on, or on that, shoved aside or
knocked over: what a chain of skills drops, knocks down or shoves, and its own start states do not hold."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from hab import robot
from hab.episodes import holds, load_grid
from hab.furniture import EDGE_M
from hab.measures import planar_distance
from hab.objects import object_model
from hab.openings import grid_with_openings, rotated
from hab.scene import Quat, Receptacle
from hab.simulator import SimulationError, Simulator, Snapshot
from skills.pick import GRASP_M
from skills.recorded import Recorded, start_of
from skills.skill import Goal
from skills.starts import Pose, moved_receptacle

BEFORE_M = (0.03, 0.5)
"""From a surface's edge to where the object lies, out of one of its fronts."""
STANDS_M, STANDS_RAD, FACES_RAD = (0.6, 1.2), 0.5, 0.2
"""Base to object; deviations of the direction that it stands in, about the front's, and of the one that it faces."""
SETTLE_STEPS, ROLLED_M, LIES_M = 40, 0.25, 0.2
"""So long it is let fall; farther it has rolled away, and higher it leans on something."""
SHOVED_M, BESIDE_M = (0.03, GRASP_M), 0.05
"""From where an object was to where it has been shoved: Pick's suction draws no farther off. How far beside the usable
part of its surface that may be."""
_CANDIDATES = 25


def fallen(sim: Simulator, call: Recorded, rng: np.random.Generator) -> Recorded | None:
    """Return a recorded call of Pick with its object on the floor; None if there is no room for that."""
    start = start_of(call)
    sim.reset(start.episode)
    for where, pose in _places(sim, call, start.episode.target(call.goal.object).start_receptacle, rng):
        if not _settled(sim, _laid(sim, call, where, pose, rng)):
            continue
        place = sim.object_pos(call.goal.object)
        moved = planar_distance(sim, (pose[0], pose[1], 0.0))
        if place[2] < LIES_M and math.dist(place[:2], where) < ROLLED_M and moved < 0.03:
            x, y, z = place.tolist()
            return replace(call, goal=Goal((x, y, z), call.goal.object), snapshot=Snapshot.of(sim))
    return None


def shoved_aside(sim: Simulator, call: Recorded, rng: np.random.Generator) -> Recorded | None:
    """Return a recorded call of Pick with its object shoved aside, upright or lying, though Pick is told where it was;
    None if there is no room for that."""
    start, name, told = start_of(call), call.goal.object, call.goal.position
    sim.reset(start.episode)
    own = Snapshot.of_object(sim.scene, name)
    on = moved_receptacle(sim.scene, start.episode.target(name).start_receptacle, start.episode.joints)
    for _ in range(_CANDIDATES):
        away, angle = rng.uniform(*SHOVED_M), rng.uniform(-math.pi, math.pi)
        where = told[0] + away * math.cos(angle), told[1] + away * math.sin(angle)
        positions = call.snapshot.positions.copy()
        positions[own] = _above(name, where, on.center[2], rng)
        if not _settled(sim, Snapshot(positions, "")):
            continue
        found = Snapshot.of(sim)
        place, moved = sim.object_pos(name).tolist(), np.abs(found.positions - positions)
        for other in sim.scene.objects:  # others may have turned; its own place is another matter
            moved[Snapshot.of_object(sim.scene, other)][0 if other == name else 3 :] = 0.0
        beside = SHOVED_M[0] < math.dist(place[:2], told[:2]) and math.dist(place, told) < SHOVED_M[1]
        if beside and holds(on, place, BESIDE_M) and moved.max() < 0.01:
            return replace(call, snapshot=found)
    return None


def _places(
    sim: Simulator, call: Recorded, receptacle: str, rng: np.random.Generator
) -> Iterator[tuple[tuple[float, float], Pose]]:
    """Yield where the object might lie and a base pose before it, free of furniture."""
    scene, joints = sim.scene, call.snapshot.read(sim.scene).joints
    grid, place = grid_with_openings(scene, load_grid(scene.seed), joints), scene.receptacle(receptacle)
    for _ in range(_CANDIDATES):
        (x, y), outward = _before(place, rng)
        away, angle = rng.uniform(*STANDS_M), outward + STANDS_RAD * rng.standard_normal()
        base = x + away * math.cos(angle), y + away * math.sin(angle)
        yaw = math.atan2(y - base[1], x - base[0]) + FACES_RAD * rng.standard_normal()
        if grid.is_free(*base):
            yield (x, y), (*base, yaw)


def _before(place: Receptacle, rng: np.random.Generator) -> tuple[tuple[float, float], float]:
    """Return a point before one of a surface's fronts, and the direction in which that looks."""
    front = float(rng.choice(place.fronts))
    deep, wide = place.half_extents if abs(math.cos(front)) > 0.5 else place.half_extents[::-1]
    local = deep + EDGE_M + rng.uniform(*BEFORE_M), rng.uniform(-wide, wide)
    x, y = rotated(place.yaw + front, local).tolist()
    return (place.center[0] + x, place.center[1] + y), place.yaw + front


def _laid(sim: Simulator, call: Recorded, where: tuple[float, float], pose: Pose, rng: np.random.Generator) -> Snapshot:
    """Return the call's state with the robot at a pose, its arm at rest, and the object just above the floor."""
    name = call.goal.object
    positions = call.snapshot.positions.copy()
    positions[:3], positions[3:10] = pose, robot.REST_Q
    positions[Snapshot.of_object(sim.scene, name)] = _above(name, where, 0.0, rng)
    return Snapshot(positions, "")


def _above(name: str, where: tuple[float, float], surface_m: float, rng: np.random.Generator) -> list[float]:
    """Return position and orientation (7,) of an object just above a surface, upright or on its side."""
    return [*where, surface_m + max(object_model(name).half_extents) + 0.01, *_lying(rng)]


def _settled(sim: Simulator, begun: Snapshot) -> bool:
    """Let things fall from where they are; return whether the robot, free at first, has come through that."""
    try:
        sim.restore(begun)
        if sim.collides():
            return False
        for _ in range(SETTLE_STEPS):
            sim.step({})
    except SimulationError:
        sim.reset(sim.episode)
        return False
    return not sim.collides()


def _lying(rng: np.random.Generator) -> Quat:
    """Return an orientation: upright or on its side, turned anyhow."""
    yaw, roll = rng.uniform(-math.pi, math.pi) / 2.0, (0.25 * math.pi if rng.random() < 0.5 else 0.0)
    return (
        math.cos(yaw) * math.cos(roll),
        math.cos(yaw) * math.sin(roll),
        math.sin(yaw) * math.sin(roll),
        math.sin(yaw) * math.cos(roll),
    )
