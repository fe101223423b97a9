"""The shortest-path follower: reads the apartment, and acts through the tasks' own actions.

It turns to where one step forward leaves the shortest way, and makes it, as habitat-sim's GreedyGeodesicFollower. What
it gets is the bound of SPL with such steps and turns.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from hab.navigation.env import FORWARD, FORWARD_M, LEFT, RIGHT, STOP, NavigationEnv
from hab.navigation.geodesic import distance_from
from hab.navigation.motion import move

TURN_COST_M = 0.001
"""A turn is worth as much: of two headings that are about as good, the nearer one."""


def shortest_path_action(env: NavigationEnv) -> int:
    """Return the next action; for tasks with a goal."""
    if env.at_goal():
        return STOP
    if env.near_goal():
        return LEFT  # what was looked for is here, but not yet in view
    apartment, field = env.apartment, env.field
    turns = _best_turns(
        apartment.free, apartment.frame, field.distance_m, field.anchor, env.pose, env.turn_rad, FORWARD_M
    )
    return FORWARD if turns == 0 else LEFT if turns > 0 else RIGHT


@njit(
    "int64(boolean[:, ::1], float64[::1], float32[:, ::1], int32[:, ::1], float64[::1], float64, float64)", cache=True
)
def _best_turns(
    free: NDArray[np.bool_],
    frame: NDArray[np.float64],
    distance_m: NDArray[np.float32],
    anchor: NDArray[np.int32],
    start: NDArray[np.float64],
    turn_rad: float,
    forward_m: float,
) -> int:
    """Return after how many turns to the left (negative: right) a step forward leaves the shortest way."""
    half = round(math.pi / turn_rad)
    best, chosen = math.inf, 0
    for turns in range(-half + 1, half + 1):
        pose = start.copy()
        pose[2] += turns * turn_rad
        move(free, frame, pose, forward_m, 0.0)
        left_m = distance_from(distance_m, anchor, frame, pose[0], pose[1]) + TURN_COST_M * abs(turns)
        if left_m < best:
            best, chosen = left_m, turns
    return chosen
