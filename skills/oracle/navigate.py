"""Oracle Navigate: drive to a place to work from on the occupancy grid, face the target, call stop.

Reads the map, the doors' and drawers' positions and the robot's pose; drives through `base_vel` alone. The resting
arm sticks out 0.7 m, so the path keeps away from tall things and the robot backs off before it turns beside one.
"""

from __future__ import annotations

import math
from collections.abc import Generator

import numpy as np
from numpy.typing import NDArray
from skimage.graph import MCP_Geometric

from hab.actions import Action
from hab.navgrid import NavGrid, OrientedBox
from hab.openings import against_wall, door_boxes
from hab.simulator import Simulator
from skills.oracle.driving import HAND_AZIMUTH_RAD, HAND_M, HAND_ROOM_M, Stop, cost_to_go
from skills.oracle.motion import Motion, Script, Scripted, approach_speed, turn_rate
from skills.oracle.surroundings import grid_now, nearest_on_line, receptacle_at
from skills.skill import Goal

STAND_OFF_M = (1.05, 1.15, 1.25, 1.35, 0.95, 0.85)
"""Distances from the target at which to stop when the next skill can drive, the best first."""
BOARD_STAND_OFF_M = (1.35, 1.30, 1.25, 1.40, 1.20, 1.15, 1.05, 0.95)
"""The same before a board, where the arm has to unfold in front of it."""
OPEN_SLANT, BOARD_SLANT = 2.0, 8.0
"""How much way (m/rad) it is worth to come straight from the front; beside a board's or a fridge's walls, more."""
WORK_M = (0.62, 0.68, 0.74, 0.80, 0.86, 0.92)
"""The same when it cannot: within the arm's reach."""
ANGLES = (0.0, 0.25, -0.25, 0.5, -0.5, 0.75, -0.75)
HINGE_SIDE_RAD = 0.35
"""A door's front turns towards its hinge as it opens: come from there, so that the cup never holds it edgeways."""
REACHABLE_M, BOARD_ASIDE_RAD = 0.95, 0.5
ARM_PASS_M = 0.16
ARM_SWEEP_M = 0.80
LOOK_AHEAD_M = 0.35
ARRIVED_M, FACED_RAD = 0.2, 0.08
FAR_ENOUGH_M, CREEP_M_S = 1.42, 0.2
STUCK_STEPS = 25
ASIDE_RAD = 0.5
"""So far off its target an arm has been pushed aside; what is in its way for a moment gives it less."""
PROGRESS, PATIENCE = 0.05, 40
"""If the cost-to-go does not fall by this much in so many control steps, the way goes from node to node for as many."""
ESCAPE_TRIES, ESCAPES_M, SETTLE = 3, (0.3, -0.3, 0.5, -0.5), 1.5
"""After so many times without avail the base goes so far (m), somewhere else; each time it settles for a place that is
this much worse."""


class OracleNavigate(Scripted):
    """Drive to a goal, face it, call stop."""

    def _run(self, sim: Simulator, goal: Goal) -> Script:
        motion = Motion(sim)
        yield from drive_to(motion, goal, self._base_movement)
        while True:
            yield motion.action(stop=True)


def drive_to(motion: Motion, goal: Goal, stand_off: bool) -> Script:
    """Drive to where a goal can be worked at, by feedback (driving.py), and face it.

    `stand_off`: stop where the next skill can drive in, else within the arm's reach.
    """
    sim = motion.sim
    position, fronts, boarded = target_place(sim, goal)
    distances = (BOARD_STAND_OFF_M if boarded else STAND_OFF_M) if stand_off else WORK_M
    slant = BOARD_SLANT if boarded else OPEN_SLANT
    grid = grid_now(sim)
    way = cost_to_go(grid, tuple(places(grid, position, fronts, distances, slant, opened_doors(sim))))
    stuck = nodes = since = tries = 0
    least = math.inf
    while True:
        x, y, yaw = sim.base.tolist()
        left = way.at(x, y, yaw)
        if left < least - PROGRESS:
            least, since, tries = left, 0, 0
        since, nodes = since + 1, max(0, nodes - 1)
        if since > PATIENCE:
            since, nodes, tries = 0, PATIENCE, tries + 1
            if tries >= ESCAPE_TRIES:
                least = math.inf
                yield from escape(motion, grid)
                continue
        error = math.remainder(math.atan2(position[1] - y, position[0] - x) - yaw, math.tau)
        v, w = way.drive_by_nodes(x, y, yaw) if nodes else way.drive(x, y, yaw)
        aside = float(sim.arm[0] - sim.arm_target[0])
        if abs(aside) > ASIDE_RAD:
            # Something has pushed the arm aside, and it leans on that: turn the base after it until it is free.
            v, w = 0.0, turn_rate(aside)
        elif way.arrived(x, y, ARRIVED_M, tries * SETTLE):
            v, w = 0.0, turn_rate(clear_turn(grid, sim.base, error))
            if abs(error) < FACED_RAD:
                if math.dist((x, y), goal.position[:2]) < FAR_ENOUGH_M:
                    return
                v = CREEP_M_S  # its goal is where the object was before a drawer came out: near that it has to be
        yield motion.action(v, w)
        moved = math.dist(sim.base[:2], (x, y)) + 0.3 * abs(float(sim.base[2]) - yaw)
        stuck = stuck + 1 if moved < 0.003 else 0
        if stuck > STUCK_STEPS:
            # Blocked by something that the grid does not know.
            stuck = 0
            yield from motion.drive_line((x - 0.3 * math.cos(yaw), y - 0.3 * math.sin(yaw)), yaw, timeout=40)


def escape(motion: Motion, grid: NavGrid) -> Script:
    """Drive straight, forwards or backwards, to where there is more room: elsewhere the way may show."""
    x, y, yaw = motion.sim.base.tolist()
    ends = [(x + far * math.cos(yaw), y + far * math.sin(yaw)) for far in ESCAPES_M]
    rooms = [float(grid.clearance[grid.cell(*end)]) if grid.is_free(*end) else 0.0 for end in ends]
    if max(rooms) > 0.0:
        yield from motion.drive_line(ends[int(np.argmax(rooms))], yaw, speed_m_s=0.3, timeout=60)


def must_go_round(sim: Simulator, goal: Goal) -> bool:
    """Whether a goal cannot be worked at by driving straight towards it from here."""
    position, fronts, boarded = target_place(sim, goal)
    x, y, _ = sim.base
    angle = math.atan2(y - position[1], x - position[0])
    aside = min(abs(math.remainder(angle - front, math.tau)) for front in fronts)
    start = max(0.5, math.hypot(x - position[0], y - position[1]))
    far = nearest_on_line(grid_now(sim), position, angle, start) > REACHABLE_M
    return far or (boarded and aside > BOARD_ASIDE_RAD) or any(_crosses(d, (x, y), position) for d in opened_doors(sim))


def target_place(sim: Simulator, goal: Goal) -> tuple[NDArray[np.float64], tuple[float, ...], bool]:
    """Return where the thing to go to is now (m, world), the directions (rad, world) it is reached from, and whether
    it lies under a board."""
    if goal.articulation:
        a = sim.scene.articulation(goal.articulation)
        aside = a.kind == "fridge" and not against_wall(a)
        swing = HINGE_SIDE_RAD * math.copysign(1.0, a.axis[2]) if aside else 0.0
        return np.asarray(goal.position), (a.yaw + swing,), False
    position = np.asarray(goal.position)
    if goal.object and sim.held != goal.object:
        position = sim.object_pos(goal.object)
    receptacle = receptacle_at(sim, position)
    fronts = tuple(receptacle.yaw + front for front in receptacle.fronts)
    return position, fronts, receptacle.under_board


def plan_route(
    grid: NavGrid,
    base: NDArray[np.float64],
    position: NDArray[np.float64],
    fronts: tuple[float, ...],
    distances: tuple[float, ...],
    slant: float,
    doors: list[OrientedBox],
) -> NDArray[np.float64]:
    """Choose where to stop and return the way there, (N, 2) world points.

    `slant`: metres of way that a radian off the straight direction is worth. `doors`: what the arm must not reach
    through.
    """
    near = np.maximum(0.0, ARM_SWEEP_M - grid.tall_clearance) + 2.0 * np.maximum(0.0, 0.45 - grid.clearance)
    cost = np.where(grid.free, 1.0 + 6.0 * near, np.inf)
    start = grid.cell(*grid.nearest_free(base[0], base[1]))
    search = MCP_Geometric(cost, fully_connected=True)
    costs, _ = search.find_costs([start])
    best, best_cost = None, math.inf
    for stop in places(grid, position, fronts, distances, slant, doors):
        cell = grid.cell(stop.x, stop.y)
        total = costs[cell] * grid.cell_m + stop.cost
        if total < best_cost:
            best, best_cost = cell, total
    if best is None:
        best = grid.cell(*grid.nearest_free(position[0], position[1]))
    return np.array([grid.xy(*cell) for cell in search.traceback(best)])


def places(
    grid: NavGrid,
    position: NDArray[np.float64],
    fronts: tuple[float, ...],
    distances: tuple[float, ...],
    slant: float,
    doors: list[OrientedBox],
) -> list[Stop]:
    """Return the places from which a position can be worked at.

    `fronts`: directions (rad, world) that it is reached from. `slant`: metres of way that a radian off the straight
    direction is worth. `doors`: what the arm must not reach through.
    """
    found = []
    for front in fronts:
        for off in ANGLES:
            angle = front + off
            for rank, distance in enumerate(distances):
                x, y = position[0] + distance * math.cos(angle), position[1] + distance * math.sin(angle)
                if not grid.is_free(x, y):
                    continue
                closest = nearest_on_line(grid, position, angle, distance)
                # Coming close enough to reach is worth a long way round.
                cost = slant * abs(off) + 0.3 * rank + 20.0 * max(0.0, closest - 0.70)
                cost += 12.0 * max(0.0, ARM_SWEEP_M - float(grid.tall_clearance[grid.cell(x, y)]))
                cost += 10.0 * any(_crosses(door, (x, y), position) for door in doors)
                found.append(Stop(x, y, angle + math.pi, cost))
    if not found:
        x, y = grid.nearest_free(position[0], position[1])
        found.append(Stop(x, y, math.atan2(position[1] - y, position[0] - x), 0.0))
    return found


def opened_doors(sim: Simulator) -> list[OrientedBox]:
    """Return the footprints of the fridges' doors that stand open."""
    return door_boxes(sim.scene, {a.name: sim.joint_pos(a.name) for a in sim.scene.articulations})


def _crosses(box: OrientedBox, start: tuple[float, float], end: NDArray[np.float64]) -> bool:
    """Whether the arm, from a base at `start` to a point at `end`, comes within `ARM_PASS_M` of a box."""
    cx, cy, yaw, hx, hy = box
    along = np.linspace(0.25, 1.0, 12)[:, None]
    points = np.asarray(start) + along * (end[:2] - np.asarray(start)) - (cx, cy)
    cos, sin = math.cos(yaw), math.sin(yaw)
    outside_x = np.maximum(np.abs(cos * points[:, 0] + sin * points[:, 1]) - hx, 0.0)
    outside_y = np.maximum(np.abs(cos * points[:, 1] - sin * points[:, 0]) - hy, 0.0)
    return bool((np.hypot(outside_x, outside_y) < ARM_PASS_M).any())


def _room(grid: NavGrid, x: float, y: float) -> float:
    i, j = grid.cell(x, y)
    return float(grid.tall_clearance[min(max(i, 0), grid.shape[0] - 1), min(max(j, 0), grid.shape[1] - 1)])


def turn_clear(motion: Motion, grid: NavGrid, yaw: float) -> Script:
    """Turn in place to a heading, the way round on which the resting arm meets less; the shorter one if it is a tie."""
    start = motion.sim.base
    goal = start[2] + clear_turn(grid, start, math.remainder(yaw - start[2], math.tau))
    for _ in range(250):
        error = goal - motion.sim.base[2]
        if abs(error) < 0.03:
            return
        yield motion.action(turn_rad_s=turn_rate(error))


def clear_turn(grid: NavGrid, base: NDArray[np.float64], short: float) -> float:
    """Return a turn (rad), or the one the other way round if the resting arm meets less on it."""
    if abs(short) < 0.35:
        return short
    long = short - math.copysign(math.tau, short)
    return min((short, long), key=lambda turn: (_blocked(grid, base, turn), abs(turn)))


def _blocked(grid: NavGrid, base: NDArray[np.float64], turn: float) -> int:
    """Count the headings of a turn (rad, from the base's own) at which the resting hand would be inside something."""
    headings = base[2] + np.linspace(0.0, turn, max(2, int(abs(turn) / 0.1)))
    hands = zip(
        base[0] + HAND_M[-1] * np.cos(headings + HAND_AZIMUTH_RAD),
        base[1] + HAND_M[-1] * np.sin(headings + HAND_AZIMUTH_RAD),
        strict=True,
    )
    return sum(_room(grid, x, y) < HAND_ROOM_M for x, y in hands)


def follow(motion: Motion, grid: NavGrid, route: NDArray[np.float64]) -> Generator[Action, None, bool]:
    """Pure pursuit along the route; returns whether its end was reached."""
    sim = motion.sim
    lengths = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(route, axis=0).T))])
    progress, stuck, turned = 0, 0, 0
    while True:
        here = sim.base
        window = route[progress : progress + 20]
        progress += int(np.argmin(np.hypot(*(window - here[:2]).T)))
        left = float(lengths[-1] - lengths[progress])
        to_end = float(np.hypot(*(route[-1] - here[:2])))
        if left < 0.08 and to_end < 0.12:
            return True
        ahead = int(np.searchsorted(lengths, lengths[progress] + LOOK_AHEAD_M))
        aim = route[min(ahead, len(route) - 1)]
        error = math.remainder(math.atan2(aim[1] - here[1], aim[0] - here[0]) - here[2], math.tau)
        if abs(error) > 0.8:
            yield from turn_clear(motion, grid, math.atan2(aim[1] - here[1], aim[0] - here[0]))
            turned += 1
            if turned > 12:
                return False
            continue
        speed = approach_speed(max(left, to_end)) * max(0.0, math.cos(error)) ** 2
        yield motion.action(speed, turn_rate(error))
        moved = np.hypot(*(sim.base[:2] - here[:2])) + 0.3 * abs(sim.base[2] - here[2])
        stuck = stuck + 1 if moved < 0.003 else 0
        if stuck > 25:
            return False
