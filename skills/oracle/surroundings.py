"""What the oracles know about a place: its receptacle, what stands open, and from where the arm can work there."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hab import robot
from hab.furniture import EDGE_M
from hab.mujoco.fetch import CUP_RADIUS_M
from hab.navgrid import NavGrid
from hab.openings import grid_with_openings, rotated
from hab.scene import Receptacle
from hab.simulator import Simulator
from skills.oracle.arm import PAN_X_M, ArmPose, resting_near, solve, travel_steps

PITCHES = tuple(np.deg2rad((85.0, 77.0, 69.0, 61.0, 53.0, 45.0, 38.0, 31.0, 24.0, 17.0)))
LOW_CEILING_M = 0.60
"""Under less free height than this the cup must come in flat."""
STEEP_RAD = np.deg2rad(65.0)
"""A drawer's walls leave room for a hand from above only."""
ROD_M, HAND_HALF_M = 0.10, 0.045
"""Length of the slender rod behind the cup's rim, and half the thickness of the hand behind it."""


@dataclass(frozen=True)
class Reach:
    """An arm pose at the object and how far the base then stands from it."""

    distance_m: float
    """Base centre to object, planar."""
    pitch: float
    cost_steps: float
    lift_m: float
    """Room above that the arm still reaches."""


def grid_now(sim: Simulator) -> NavGrid:
    """Return the navigation grid with what stands open as obstacles."""
    return grid_with_openings(sim.scene, sim.nav, {a.name: sim.joint_pos(a.name) for a in sim.scene.articulations})


def receptacle_at(sim: Simulator, position: Sequence[float]) -> Receptacle:
    """Return the receptacle on or in which a position (m, world) lies."""

    def miss(r: Receptacle) -> float:
        shift = np.zeros(2)
        if r.kind == "drawer":
            shift = rotated(r.yaw, (sim.joint_pos(r.articulation), 0.0))
        local = rotated(-r.yaw, np.asarray(position[:2]) - np.asarray(r.center[:2]) - shift)
        outside = np.maximum(np.abs(local) - np.asarray(r.half_extents), 0.0)
        above = position[2] - r.center[2]
        return float(np.hypot(*outside)) + (abs(above) if above < 0.0 else max(0.0, above - 0.15))

    return min(sim.scene.receptacles, key=miss)


def under_board(receptacle: Receptacle) -> bool:
    """Whether something hangs over a receptacle, so that the hand must come in flat (not over a pulled-out drawer)."""
    return receptacle.clearance_m < LOW_CEILING_M and receptacle.kind != "drawer"


def rim_m(receptacle: Receptacle) -> float:
    """Return how high (m) the walls round a receptacle stand above it: a drawer's front."""
    return receptacle.clearance_m if receptacle.kind == "drawer" else 0.0


def depth_inside(receptacle: Receptacle, position: Sequence[float]) -> float:
    """Return how far (m) behind the receptacle's front edge a position lies."""
    local = rotated(-receptacle.yaw, np.asarray(position[:2]) - np.asarray(receptacle.center[:2]))
    return receptacle.half_extents[0] + EDGE_M - float(local[0])


def way_out(receptacle: Receptacle, position: Sequence[float], angle: float) -> float:
    """Return how far (m) it is from a position on a receptacle to its edge, in a direction (rad, world)."""
    local = rotated(-receptacle.yaw, np.asarray(position[:2]) - np.asarray(receptacle.center[:2]))
    direction = rotated(-receptacle.yaw, (math.cos(angle), math.sin(angle)))
    half = np.asarray(receptacle.half_extents) + EDGE_M
    crossings = [
        (math.copysign(half[i], direction[i]) - local[i]) / direction[i] for i in (0, 1) if abs(direction[i]) > 1e-6
    ]
    return max(0.0, min(crossings))


def pitches_for(receptacle: Receptacle, position: Sequence[float], contact_m: Callable[[float], float]) -> set[float]:
    """Return the cup pitches (rad) with which the hand reaches a position: any from above, flat ones under a board.

    `contact_m(pitch)` is the height above the surface at which the cup touches.
    """
    if receptacle.kind == "drawer":
        return {p for p in PITCHES if p > STEEP_RAD}
    if not under_board(receptacle):
        return set(PITCHES)
    depth = depth_inside(receptacle, position)

    def top(pitch: float) -> float:
        """Height of the hand over the surface where it passes the board's edge."""
        thick = HAND_HALF_M if depth / math.cos(pitch) > ROD_M else CUP_RADIUS_M
        return contact_m(pitch) + depth * math.tan(pitch) + thick / math.cos(pitch)

    return {p for p in PITCHES if top(p) < receptacle.clearance_m - 0.015} or {PITCHES[-1]}


def reaches(
    height_m: float,
    pitches: Sequence[float],
    clear_m: Callable[[float], float],
    lift_m: float,
    stretch_m: float = 0.02,
) -> list[Reach]:
    """Return the ways to have the cup at a height, cheapest first.

    Each must also reach the point `clear_m(pitch)` back along the cup's axis, the one `lift_m` above, and another
    `stretch_m` further out: near its full stretch the arm is too slow to follow anything.
    """
    found = []
    for pitch in pitches:
        for radius in np.arange(0.42, 1.13, 0.04):
            at = ArmPose(0.0, float(radius), height_m, pitch)
            q = solve(at)
            before = solve(backed_off(at, clear_m(pitch)))
            above = solve(ArmPose(0.0, float(radius), height_m + lift_m, pitch))
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
            found.append(Reach(float(radius) + PAN_X_M, pitch, cost, lift_m))
    return sorted(found, key=lambda r: r.cost_steps)


def backed_off(pose: ArmPose, distance_m: float) -> ArmPose:
    """Return the pose that far back along the cup's axis."""
    return ArmPose(
        pose.azimuth,
        pose.radius - distance_m * math.cos(pose.pitch),
        pose.z + distance_m * math.sin(pose.pitch),
        pose.pitch,
    )


def nearest_on_line(grid: NavGrid, position: Sequence[float], angle: float, start_m: float) -> float:
    """Return how near to a position the base can come, driving straight in from `start_m` away at an angle."""
    distance = start_m
    while distance > 0.4:
        x, y = position[0] + (distance - 0.02) * math.cos(angle), position[1] + (distance - 0.02) * math.sin(angle)
        if not grid.is_free(x, y):
            break
        distance -= 0.02
    return distance
