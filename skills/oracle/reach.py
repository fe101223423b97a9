"""How the arm gets at a point: at what pitch, from how far, and what it costs in time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hab import robot
from hab.arm import ArmPose, resting_near, solve, travel_steps
from hab.measures import AT_REST_M
from hab.robot import PAN_X_M
from hab.scene import Receptacle
from skills.oracle.motion import Motion
from skills.oracle.surroundings import Point, depth_inside, grid_now, nearest_on_line

PITCHES = tuple(np.deg2rad((85.0, 77.0, 69.0, 61.0, 53.0, 45.0, 38.0, 31.0, 24.0, 17.0)))
STEEP_RAD = np.deg2rad(65.0)
"""A drawer's walls leave room for a hand from above only."""
ROD_M, HAND_HALF_M = 0.10, 0.045
"""Length of the slender rod behind the cup's rim, and half the thickness of the hand behind it."""
BOARD_CLEAR_M = 0.035
"""The hand keeps so far from a board over it: it sways as the base drives in."""
REST_COST = 150.0
REACH_STEP_M = 0.04
REACHES_M = tuple(np.arange(0.42, 1.13, REACH_STEP_M).tolist())
"""The arm's reaches that are tried."""
ABOUT_M, OFF_COST = (0.0, -0.015, 0.015, -0.03, 0.03), 3000.0
"""How far a base that cannot move may stand off the place that a reach needs, and what that costs per metre."""


@dataclass(frozen=True)
class Reach:
    """An arm pose at the object and how far the base then stands from it."""

    distance_m: float
    """Base centre to object, planar."""
    pitch: float
    cost_steps: float
    lift_m: float
    """Room above that the arm still reaches."""


def choose_reach(
    motion: Motion,
    position: Point,
    pitches: tuple[float, ...],
    clear_m: Callable[[float], float],
    lift_m: float,
    base_movement: bool,
    cup_height_m: float | None = None,
    ahead_m: float = 0.0,
    stretch_m: float = 0.02,
    touch_m: Callable[[float], float] = lambda pitch: 0.0,
) -> Reach | None:
    """Choose how far from the object to stand and how steeply to come at it.

    Distances are the object's; `ahead_m` is how far the object is in front of the cup.
    """
    sim = motion.sim
    x, y, _ = sim.base
    height = float(position[2]) if cup_height_m is None else cup_height_m
    now = math.hypot(position[0] - x, position[1] - y)
    lifts = [share * lift_m for share in (1.0, 0.75, 0.5)] + [0.02]
    from_here = [now - ahead_m - PAN_X_M + off for off in ABOUT_M]
    found = next(
        (
            found
            for radii in ((REACHES_M,) if base_movement else (from_here, REACHES_M))
            for lift in lifts
            if (found := reaches(height, pitches, clear_m, lift, stretch_m, radii))
        ),
        [],
    )
    if not found:
        return None
    # Touching or lifting inside the resting place would end the skill there and then.
    found = [
        replace(
            r, cost_steps=r.cost_steps + REST_COST * any(near_rest(r, height + up, touch_m) for up in (0.0, r.lift_m))
        )
        for r in found
    ]
    found.sort(key=lambda r: r.cost_steps)
    if not base_movement:
        found = [replace(r, cost_steps=r.cost_steps + OFF_COST * abs(r.distance_m + ahead_m - now)) for r in found]
        return min(found, key=lambda r: r.cost_steps)
    angle = math.atan2(y - position[1], x - position[0])
    closest = nearest_on_line(grid_now(sim), position, angle, max(now, 0.5))
    near_enough = [r for r in found if r.distance_m + ahead_m >= closest - 0.005]
    return near_enough[0] if near_enough else max(found, key=lambda r: r.distance_m)


def pitches_for(receptacle: Receptacle, position: Point, contact_m: Callable[[float], float]) -> set[float]:
    """Return the cup pitches (rad) with which the hand reaches a position: any from above, flat ones under a board.

    `contact_m(pitch)` is the height above the surface at which the cup touches.
    """
    if receptacle.kind == "drawer":
        return {p for p in PITCHES if p > STEEP_RAD}
    if not receptacle.under_board:
        return set(PITCHES)
    depth = depth_inside(receptacle, position)

    def top(pitch: float) -> float:
        """Height of the hand over the surface where it passes the board's edge."""
        thick = HAND_HALF_M if depth / math.cos(pitch) > ROD_M else robot.CUP_RADIUS_M
        return contact_m(pitch) + depth * math.tan(pitch) + thick / math.cos(pitch)

    return {p for p in PITCHES if top(p) < receptacle.clearance_m - BOARD_CLEAR_M} or {PITCHES[-1]}


def reaches(
    height_m: float,
    pitches: Sequence[float],
    clear_m: Callable[[float], float],
    lift_m: float,
    stretch_m: float = 0.02,
    radii: Sequence[float] = REACHES_M,
) -> list[Reach]:
    """Return the ways to have the cup at a height, cheapest first.

    Each must also reach the point `clear_m(pitch)` back along the cup's axis, the one `lift_m` above, and another
    `stretch_m` further out: near its full stretch the arm is too slow to follow anything.
    """
    found = []
    for pitch in pitches:
        for radius in radii:
            at = ArmPose(0.0, radius, height_m, pitch)
            q = solve(at)
            before = solve(backed_off(at, clear_m(pitch)))
            above = solve(ArmPose(0.0, radius, height_m + lift_m, pitch))
            # The base will not stop to the centimetre.
            short, long = (
                solve(backed_off(replace(at, radius=at.radius + error), clear_m(pitch))) for error in (-0.02, 0.02)
            )
            stretched = solve(replace(at, radius=at.radius + stretch_m))
            if any(pose is None for pose in (q, before, above, short, long, stretched)):
                continue
            assert q is not None and before is not None and above is not None
            there = travel_steps(robot.REST_Q, before) + travel_steps(before, q) + travel_steps(q, above)
            cost = there + travel_steps(above, resting_near(above))
            found.append(Reach(radius + PAN_X_M, pitch, cost, lift_m))
    return sorted(found, key=lambda r: r.cost_steps)


def backed_off(pose: ArmPose, distance_m: float, axis_rad: float | None = None) -> ArmPose:
    """Return the pose that far back along an axis (rad below the horizon), the cup's own if none is given."""
    axis = pose.pitch if axis_rad is None else axis_rad
    return replace(pose, radius=pose.radius - distance_m * math.cos(axis), z=pose.z + distance_m * math.sin(axis))


def near_rest(reach: Reach, height_m: float, touch_m: Callable[[float], float]) -> bool:
    """Whether the cup, touching `touch_m(pitch)` before the point at a reach and height, is in its resting place."""
    ahead = reach.distance_m - touch_m(reach.pitch) * math.cos(reach.pitch)
    up = height_m + touch_m(reach.pitch) * math.sin(reach.pitch)
    return math.hypot(ahead - robot.REST_EE_BASE[0], up - robot.REST_EE_BASE[2]) < AT_REST_M + 0.03
