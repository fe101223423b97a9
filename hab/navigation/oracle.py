"""The shortest-path follower: reads the apartment, and acts through the tasks' own actions.

It turns to where one step forward leaves the shortest way, and makes it, as habitat-sim's GreedyGeodesicFollower. What
it gets is the bound of SPL with such steps and turns.
"""

from __future__ import annotations

import math

from hab.navigation.env import FORWARD, FORWARD_M, LEFT, RIGHT, STOP, NavigationEnv
from hab.navigation.motion import move

TURN_COST_M = 0.001
"""A turn is worth as much: of two headings that are about as good, the nearer one."""


def shortest_path_action(env: NavigationEnv) -> int:
    """Return the next action; for tasks with a goal."""
    if env.at_goal():
        return STOP
    turn = env.turn_rad
    half = round(math.pi / turn)
    if env.near_goal():
        return LEFT  # what was looked for is here, but not yet in view
    best, chosen = math.inf, 0
    for turns in range(-half + 1, half + 1):
        pose = env.pose.copy()
        pose[2] += turns * turn
        move(env.apartment.free, env.apartment.frame, pose, FORWARD_M, 0.0)
        left_m = env.to_goal_m(pose) + TURN_COST_M * abs(turns)
        if left_m < best:
            best, chosen = left_m, turns
    return FORWARD if chosen == 0 else LEFT if chosen > 0 else RIGHT
