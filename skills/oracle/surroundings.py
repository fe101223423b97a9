"""What the oracles know about a place: its receptacle, how deep in it something lies, how near the base can come."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hab.furniture import EDGE_M
from hab.navgrid import NavGrid, OrientedBox
from hab.openings import opened_boxes, rotated
from hab.scene import Receptacle
from hab.simulator import Simulator

Point = Sequence[float] | NDArray[np.float64]
"""A position in the world (m)."""


def grid_now(sim: Simulator) -> NavGrid:
    """Return the navigation grid with what stands open as obstacles; the same one while nothing moves."""
    boxes = opened_boxes(sim.scene, {a.name: sim.joint_pos(a.name) for a in sim.scene.articulations})
    return _grid_with(sim.nav, tuple((x, y, yaw, hx, hy) for x, y, yaw, hx, hy in np.round(boxes, 3).tolist()))


@lru_cache(maxsize=4)
def _grid_with(grid: NavGrid, boxes: tuple[OrientedBox, ...]) -> NavGrid:
    return grid.with_boxes(boxes) if boxes else grid


def room_behind(sim: Simulator, most_m: float) -> float:
    """Return how far (m) the base can back out, up to `most_m`."""
    x, y, yaw = sim.base
    room, grid = 0.0, grid_now(sim)
    while room < most_m and grid.is_free(x - (room + 0.1) * math.cos(yaw), y - (room + 0.1) * math.sin(yaw)):
        room += 0.05
    return room


def receptacle_at(sim: Simulator, position: Point) -> Receptacle:
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


def rim_m(receptacle: Receptacle) -> float:
    """Return how high (m) the walls round a receptacle stand above it: a drawer's front."""
    return receptacle.clearance_m if receptacle.kind == "drawer" else 0.0


def depth_inside(receptacle: Receptacle, position: Point) -> float:
    """Return how far (m) behind the receptacle's front edge a position lies."""
    local = rotated(-receptacle.yaw, np.asarray(position[:2]) - np.asarray(receptacle.center[:2]))
    return receptacle.half_extents[0] + EDGE_M - float(local[0])


def way_out(receptacle: Receptacle, position: Point, angle: float) -> float:
    """Return how far (m) it is from a position on a receptacle to its edge, in a direction (rad, world)."""
    local = rotated(-receptacle.yaw, np.asarray(position[:2]) - np.asarray(receptacle.center[:2]))
    direction = rotated(-receptacle.yaw, (math.cos(angle), math.sin(angle)))
    half = np.asarray(receptacle.half_extents) + EDGE_M
    crossings = [
        (math.copysign(half[i], direction[i]) - local[i]) / direction[i] for i in (0, 1) if abs(direction[i]) > 1e-6
    ]
    return max(0.0, min(crossings))


def nearest_on_line(grid: NavGrid, position: Point, angle: float, start_m: float) -> float:
    """Return how near to a position the base can come, driving straight in from `start_m` away at an angle."""
    distance = start_m
    while distance > 0.4:
        x, y = position[0] + (distance - 0.02) * math.cos(angle), position[1] + (distance - 0.02) * math.sin(angle)
        if not grid.is_free(x, y):
            break
        distance -= 0.02
    return distance
