"""Where things are from the hand: the held object in the cup, what it clears, points in the base frame."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hab.measures import base_to_world
from hab.objects import is_object, object_model
from hab.scene import axes_of
from hab.simulator import Simulator

HAND_ASIDE_M = 0.08
"""Half the hand's width, with some room."""
CUP_CLEAR_M = 0.03
"""The cup is so far from what it is to pass, from its middle."""


def in_base(sim: Simulator, point: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a world point (3,) in the base frame."""
    origin, rotation = base_to_world(sim)
    return rotation.T @ (point - origin)


def is_ball(name: str) -> bool:
    """Whether an object has no upright."""
    return len(set(object_model(name).half_extents)) == 1


def thickness(name: str, pitch: float) -> float:
    """Return how far (m) an upright object reaches from its centre towards a cup that comes at a pitch."""
    model = object_model(name)
    return min(model.half_extents[2] / max(math.sin(pitch), 1e-6), model.radius_m / max(math.cos(pitch), 1e-6))


def upright_pitch(sim: Simulator, name: str) -> float:
    """Return the cup pitch (rad) at which the held object stands upright."""
    up_cup = sim.ee_mat.T @ axes_of(sim.object_quat(name))[:, 2]
    # With zero rolls the cup frame's x axis is (cos p, -sin p) and its z axis (sin p, cos p) in (out, up).
    return math.atan2(-float(up_cup[0]), float(up_cup[2]))


def object_in_cup(sim: Simulator, name: str, pitch: float) -> tuple[float, float, float]:
    """Return the object's centre from the cup (m): ahead, left and up, once the cup is at `pitch` with zero rolls."""
    local = sim.ee_mat.T @ (sim.object_pos(name) - sim.ee_pos)
    ahead = local[0] * math.cos(pitch) + local[2] * math.sin(pitch)
    up = -local[0] * math.sin(pitch) + local[2] * math.cos(pitch)
    return float(ahead), float(local[1]), float(up)


def cup_below(sim: Simulator, name: str, pitch: float) -> float:
    """Return how far (m) the cup is below where the object's centre goes, with the object resting as it is held.

    An object that hangs tilted, or has fallen over, rests with its centre at another height than an upright one.
    """
    model = object_model(name)
    turn = np.array(
        [[math.cos(pitch), 0.0, math.sin(pitch)], [0.0, 1.0, 0.0], [-math.sin(pitch), 0.0, math.cos(pitch)]]
    )
    held = turn @ sim.ee_mat.T @ axes_of(sim.object_quat(name))
    resting = float(np.abs(held[2]) @ np.array([*model.half_extents[:2], model.half_height_m]))
    return object_in_cup(sim, name, pitch)[2] - (resting - model.half_height_m)


@dataclass(frozen=True)
class InFront:
    """An object between a place and the base. Lengths in m."""

    near_m: float
    """How far from the place it begins."""
    top_m: float
    """How high it reaches, world."""


def in_front(sim: Simulator, name: str, position: NDArray[np.float64], room_m: float) -> list[InFront]:
    """Return what stands on the same surface between an object's position and the base, within `room_m` of its way."""
    x, y, _ = sim.base
    mine = object_model(name)
    bottom = float(position[2]) - mine.half_height_m
    way = np.array([x, y]) - position[:2]
    length = float(np.hypot(*way))
    found = []
    others = tuple(other for other in sim.episode.objects if other not in (name, sim.held))
    for other, place in zip(others, sim.object_positions(others), strict=True):
        model = object_model(other)
        ahead = float((place[:2] - position[:2]) @ way) / length
        aside = abs(float(way[0] * (place[1] - position[1]) - way[1] * (place[0] - position[0]))) / length
        if (
            0.0 < ahead < length
            and aside < model.radius_m + room_m
            and abs(place[2] - model.half_height_m - bottom) < 0.1
        ):
            found.append(InFront(ahead - model.radius_m, float(place[2]) + model.half_extents[2]))
    return found


def rise_over_others(sim: Simulator, name: str, position: NDArray[np.float64]) -> float:
    """Return how far (m) an object at a position must be lifted to pass over what stands between it and the base."""
    mine = object_model(name)
    bottom = float(position[2]) - mine.half_height_m
    return max(
        (other.top_m - bottom + 0.03 for other in in_front(sim, name, position, mine.radius_m + 0.03)), default=0.0
    )


def others_before(sim: Simulator, name: str, position: NDArray[np.float64]) -> float:
    """Return how high (m) above an object's surface rises what the hand passes on its way to it."""
    bottom = float(position[2]) - object_model(name).half_height_m
    return max((other.top_m - bottom for other in in_front(sim, name, position, HAND_ASIDE_M)), default=0.0)


def passes_over(sim: Simulator, name: str, position: NDArray[np.float64], pitch: float) -> bool:
    """Whether a cup that comes at an object at a pitch (rad) passes over what stands before it."""
    mine = object_model(name)
    meets = float(position[2]) + min(mine.half_extents[2], thickness(name, pitch) * math.sin(pitch))
    return all(
        meets + max(0.0, other.near_m) * math.tan(pitch) > other.top_m + CUP_CLEAR_M
        for other in in_front(sim, name, position, CUP_CLEAR_M)
    )


def hand_bottom(sim: Simulator) -> float:
    """Return the height (m) of the lowest point of the hand and what it holds, at worst."""
    if is_object(sim.held):
        model = object_model(sim.held)
        return float(sim.object_pos(sim.held)[2]) - max(model.radius_m, *model.half_extents)
    return float(sim.ee_pos[2])
