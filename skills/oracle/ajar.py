"""Sweeping a door that stands ajar open from within, or shut from behind, by its free edge.

A door's handle goes further than an arm can draw it, and nobody gets behind one that has a wall there. The hand gets
round the door's free edge instead and sweeps the edge along, turning about the shoulder. Each step follows from where
door and hand are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from hab.arm import ArmPose, cup_pose, forward, solve
from hab.openings import free_edge, link_to_world
from hab.simulator import Simulator
from skills.oracle.hand import in_base
from skills.oracle.motion import Motion, Script

PITCHES_RAD = np.linspace(0.1, 1.55, 44)
"""Any will do: a door is tall."""
PAST_M, LEAST_M, STRETCHED_M = {"open": 0.14, "shut": 0.08}, 0.03, 1.12
"""The cup gets so far behind the edge, and has to be so far behind it at least; it reaches so far from the shoulder."""
TOUCHING_M, DRAW_M = 0.11, 0.03
"""Within this of the edge the hand's side touches it, and the hand is drawn back by so much, or pushed in where it
shuts the door, per control step."""
SHORT_M = 0.07
"""… or stops so far before it, to get past it."""
BESIDE_M = {"open": 0.17, "shut": 0.09}
"""The hand goes in so far beside the edge: between a door and a wall there is no more room."""
FAR_ASIDE_M = 0.05
"""… and, to sweep a door shut, not so much further aside."""
AT_EDGE_M = 0.9
"""A base that may move keeps the edge so far from the shoulder."""
FOLD_AT_RAD, FOLD_AT_M = 0.5, 0.92
"""The arm folds where it points ahead, give or take, and stays so long until then."""
HEAD_RAD = -1.05
"""With the shoulder lifted beyond this (joint 1) beside the head, it meets that."""
TURN_RAD = 0.06
AHEAD = (TURN_RAD, 0.03, 0.03)
"""How far ahead of the hand it is sent (rad, m, m), per control step."""


@dataclass(frozen=True)
class _Edge:
    """A door's free edge, as the arm has it."""

    azimuth: float
    radius: float
    side: float
    """1 where the door opens counter-clockwise about the shoulder, -1 clockwise."""


def sweep(motion: Motion, name: str, until: float, base_movement: bool, timeout: int = 300) -> Script:
    """Sweep a door that stands ajar to joint position `until` (rad), and take the hand back out."""
    sim = motion.sim
    height = float(sim.handle_pos(name)[2])
    way = "open" if until > sim.joint_pos(name) else "shut"
    sign = 1.0 if way == "open" else -1.0
    past, aside = PAST_M[way], BESIDE_M[way]
    for _ in range(timeout):
        if sign * (sim.joint_pos(name) - until) > 0.0:
            break
        edge, hand = edge_now(sim, name), forward(sim.arm)
        side = sign * edge.side
        # How far the hand has still to go to meet the edge, along the floor.
        beside = side * math.remainder(edge.azimuth - hand.azimuth, math.tau) * edge.radius
        deep = min(edge.radius + past, STRETCHED_M)
        azimuth, radius = hand.azimuth, hand.radius
        clear = beside > aside - 0.02
        if way == "shut" and beside > aside + FAR_ASIDE_M and hand.radius < edge.radius + LEAST_M:
            clear = False  # further aside is the wall
        if beside > 0.0 and hand.radius > (deep - 0.015 if clear else edge.radius + LEAST_M):
            azimuth += side * TURN_RAD
            if beside < TOUCHING_M and way == "open":
                # Drawn back, the hand takes the edge along; pushed in, it would shut the door.
                radius = max(edge.radius + past - DRAW_M, hand.radius - DRAW_M)
            elif way == "shut":
                radius = min(deep, hand.radius + DRAW_M)
        elif clear:
            radius = deep
        else:
            radius = min(hand.radius, edge.radius - SHORT_M)
            if hand.radius < edge.radius - 0.5 * SHORT_M:
                azimuth = edge.azimuth - side * aside / edge.radius
        _send(motion, hand, azimuth, radius, height)
        speed = 2.0 * (edge.radius - AT_EDGE_M) if base_movement else 0.0
        yield motion.action(max(-0.2, min(0.2, speed)))
    yield from turn_ahead(motion, height)


def turn_ahead(motion: Motion, height: float, timeout: int = 300) -> Script:
    """Turn a hand that reaches aside to where the arm can fold: elsewhere its shoulder would meet the head."""
    for _ in range(timeout):
        hand = forward(motion.sim.arm)
        if abs(hand.azimuth) <= FOLD_AT_RAD:
            return
        _send(motion, hand, 0.0, FOLD_AT_M, height)
        yield motion.action()


def edge_now(sim: Simulator, name: str) -> _Edge:
    """Return where a door's free edge is for the arm."""
    a = sim.scene.articulation(name)
    at = cup_pose(in_base(sim, np.asarray(link_to_world(a, sim.joint_pos(name), free_edge(a)))), 0.0)
    return _Edge(at.azimuth, at.radius, -math.copysign(1.0, a.axis[2]))


def _send(motion: Motion, hand: ArmPose, azimuth: float, radius: float, height: float) -> None:
    """Send the cup towards a place, a little way, at the pitch that takes the arm there soonest."""
    moves = math.remainder(azimuth - hand.azimuth, math.tau), radius - hand.radius, height - hand.z
    share = min(1.0, *(most / max(abs(move), 1e-6) for most, move in zip(AHEAD, moves, strict=True)))
    turn, stretch, rise = (share * move for move in moves)
    for part in (1.0, 0.5, 0.0):
        place = hand.azimuth + turn, hand.radius + part * stretch, hand.z + rise
        found = [q for pitch in PITCHES_RAD if (q := solve(ArmPose(*place, float(pitch)))) is not None]
        if found:
            lifted = 5.0 if abs(place[0]) > FOLD_AT_RAD - 2.0 * TURN_RAD else 0.0
            moves_rad = [float(np.abs(q - motion.sim.arm_target).max()) for q in found]
            costs = [move + lifted * max(0.0, HEAD_RAD - float(q[1])) for move, q in zip(moves_rad, found, strict=True)]
            motion.arm_goal = found[int(np.argmin(costs))]
            return
