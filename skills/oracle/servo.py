"""Getting the cup to an object by feedback alone: each step's action follows from where things are now.

A script that runs through its phases is hard to learn from, because what it does next depends on what it has done
before; this one does the same thing in the same place, and corrects whatever error it finds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hab.arm import ArmPose, cup_pose, forward, solve
from hab.robot import PAN_X_M
from hab.scene import Receptacle
from skills.oracle.hand import hand_bottom, in_base
from skills.oracle.motion import Motion, Script, approach_speed, turn_rate
from skills.oracle.reach import Reach, backed_off
from skills.oracle.surroundings import depth_inside, rim_m

FUNNEL_M, FUNNEL_RAD = 0.045, 0.2
"""Off its axis by less than this the cup stays with it; else it goes back to the axis' beginning."""
ON_AXIS_M = 0.03
"""… and goes on along it, the slower the further off."""
STEP_M, LEAD_M = 0.008, 0.025
"""How fast the arm's targets move along the axis, per control step, and how far they may be ahead of the cup."""
READY_RAD = 0.06
NEAR_M, BEARING_RAD, FACING_RAD = 0.01, 0.08, 0.02
PATIENCE = 25
"""Control steps in which the base does not get on, after which it works from where it is."""
SWING_RAD, OVER_OTHERS_M = 0.15, 0.24
"""An arm without a base that has to turn by more than this passes over the other objects: the tallest is 0.21 m."""
SHORT_M, OUTSIDE_M, OFF_HEIGHT_M, RISE_M = 0.62, 0.12, 0.06, 0.04
"""An arm without a base is no longer than the first, or than ends so far before boards, until it is turned to what lies
between them and at its height, give or take; how far ahead of the cup it is sent up or down."""
STEEPEST_RAD = 1.45
JAMMED_RAD, BACK_STEPS = 0.08, 20
"""A turning joint so far behind its target is caught on something: the base backs out a little."""


def servo_to(
    motion: Motion,
    position: Callable[[], NDArray[np.float64]],
    reach: Reach,
    clear_m: float,
    end_m: float,
    base_movement: bool,
    receptacle: Receptacle | None,
    there: Callable[[], bool],
    ahead_m: float = 0.0,
    axis_rad: float | None = None,
    cup_at: Callable[[NDArray[np.float64]], NDArray[np.float64]] = lambda point: point,
    others_m: float = 0.0,
    timeout: int = 300,
) -> Script:
    """Bring the cup to `end_m` before a place, along an axis from `clear_m` on, until `there` or the time is out.

    `position` is the place (m, world) and `cup_at` where the cup is to be for it, both base frame; `ahead_m`: how far
    what is to get there is in front of the cup. `axis_rad`: the axis' pitch, the cup's own if there is none.
    `receptacle`: what is worked at; None: something that stands upright, which the arm unfolds before. `others_m`: how
    high rises above the receptacle what stands before the place.
    """
    sim, pitch = motion.sim, reach.pitch
    axis = pitch if axis_rad is None else axis_rad
    boarded = receptacle is None or receptacle.under_board
    distance, blocked = reach.distance_m + ahead_m, 0
    for _ in range(timeout):
        if there():
            motion.arm_goal = sim.arm
            return
        goal = position()
        point = in_base(sim, goal)
        away, bearing = math.hypot(point[0], point[1]), math.atan2(point[1], point[0])
        at, cup = cup_pose(cup_at(point), pitch), forward(sim.arm)
        out, up = at.radius - cup.radius, cup.z - at.z
        back = out * math.cos(axis) + up * math.sin(axis)
        turn = math.remainder(at.azimuth - cup.azimuth, math.tau)
        aside = math.hypot(out * math.sin(axis) - up * math.cos(axis), turn * cup.radius)
        ready_q = solve(backed_off(ArmPose(0.0, distance - ahead_m - PAN_X_M, at.z, pitch), clear_m, axis))
        before_q = solve(backed_off(at, clear_m, axis))
        ready = ready_q is not None and bool(np.abs(ready_q - sim.arm).max() < READY_RAD)
        low, outside = False, distance if boarded else 0.0
        if receptacle is not None:
            low = hand_bottom(sim) < receptacle.center[2] + max(rim_m(receptacle), others_m) + 0.04
            outside += (depth_inside(receptacle, goal) + 0.08 - clear_m * math.cos(axis)) if boarded else 0.0
        inside = away < outside - 0.03
        speed = rate = 0.0
        if base_movement and aside > FUNNEL_M and abs(float(sim.arm_target[0] - sim.arm[0])) > JAMMED_RAD:
            motion.arm_goal = sim.arm.copy()
            for _ in range(BACK_STEPS):
                yield motion.action(-0.3)
            continue
        # What stands upright is drawn or pushed straight: the base has to face it.
        upright = receptacle is None and base_movement
        facing = FACING_RAD if upright else BEARING_RAD
        aligned = not upright or abs(bearing) < 2.0 * facing
        if (
            aligned
            and aside < FUNNEL_M
            and abs(pitch - cup.pitch) < FUNNEL_RAD
            and end_m - 0.02 < back < clear_m + 0.04
        ):
            step = STEP_M * (1.0 - aside / ON_AXIS_M)
            led = forward(sim.arm_target)
            lead = back - (at.radius - led.radius) * math.cos(axis) - (led.z - at.z) * math.sin(axis)
            next_m = min(clear_m, max(end_m, back - min(lead + step, LEAD_M)))
            q = solve(backed_off(at, next_m, axis))
            if q is not None:
                motion.arm_goal = q
            elif not base_movement:
                # At the end of its reach, as far along as it gets.
                along = solve(backed_off(replace(at, radius=cup.radius + back * math.cos(axis)), next_m, axis))
                motion.arm_goal = sim.arm_target if along is None else along
            else:
                speed = math.copysign(0.05, away - distance)
        elif base_movement and (away - distance > NEAR_M or away - distance < -3.0 * NEAR_M or abs(bearing) > facing):
            motion.arm_goal = sim.arm_target if ready_q is None or (inside and not ready) else ready_q
            if inside and not ready:
                speed = -math.copysign(0.3, math.cos(bearing))
            else:
                rate = turn_rate(bearing)
                if (ready or not (boarded or low)) and abs(away - distance) > NEAR_M / 2.0:
                    speed = math.copysign(approach_speed(abs(away - distance)), away - distance)
                    speed *= max(0.0, math.cos(bearing)) ** 4
        elif base_movement and boarded and not ready and back < clear_m - 0.03:
            motion.arm_goal, speed = sim.arm_target, -0.3
        else:
            q = before_q
            if not boarded and aside > FUNNEL_M and cup.z < at.z + clear_m * math.sin(axis) - 0.02:
                lifted = solve(ArmPose(cup.azimuth, cup.radius, cup.z + 0.04, cup.pitch))
                q = before_q if lifted is None else lifted
            if receptacle is not None and not base_movement:
                depth = depth_inside(receptacle, goal)
                over = receptacle.center[2] + OVER_OTHERS_M + cup.z - hand_bottom(sim)
                height = at.z + clear_m * math.sin(axis)
                detour = before_boards(cup, at, height, depth) if boarded else over_others(cup, at, over)
                q = q if detour is None else detour
            if q is None and ready_q is not None:
                q = ready_q.copy()
                q[0] = at.azimuth
            motion.arm_goal = sim.arm_target if q is None else q
        was = sim.base
        yield motion.action(speed, rate)
        blocked = blocked + 1 if abs(speed) > 0.05 and np.hypot(*(sim.base - was)[:2]) < 0.001 else 0
        if blocked > PATIENCE:
            distance, blocked = away, 0


def over_others(cup: ArmPose, at: ArmPose, over: float) -> NDArray[np.float64] | None:
    """Return where (7,) an arm without a base goes that has to turn to `at`: over whatever else stands there, up first.

    `over`: the cup's height (m) at which the hand passes over. None if it need not, or cannot.
    """
    if abs(math.remainder(at.azimuth - cup.azimuth, math.tau)) <= SWING_RAD:
        return None
    azimuth = at.azimuth if cup.z > over - 0.04 else cup.azimuth
    high = (solve(ArmPose(azimuth, radius, over, at.pitch)) for radius in (cup.radius, at.radius, 0.6, 0.5))
    return next((found for found in high if found is not None), None)


def before_boards(cup: ArmPose, at: ArmPose, height: float, depth_m: float) -> NDArray[np.float64] | None:
    """Return where (7,) an arm without a base goes that has to get to `at`, `depth_m` inside, between boards: it turns,
    rises and sinks in front of them, where there is room.

    `height`: the cup's on its way in (m). None if it is ready to go in, or cannot.
    """
    turn = math.remainder(at.azimuth - cup.azimuth, math.tau)
    entry = at.radius - depth_m
    if abs(turn) <= SWING_RAD and (cup.radius >= entry or abs(cup.z - height) <= OFF_HEIGHT_M):
        return None
    short = max(SHORT_M, entry - OUTSIDE_M)
    azimuth = at.azimuth if cup.radius < short + 0.03 else cup.azimuth
    rise = max(-RISE_M, min(RISE_M, height - cup.z)) if abs(turn) < SWING_RAD else 0.0
    radius = min(cup.radius, short)
    folded = (
        solve(ArmPose(azimuth, radius, cup.z + rise, float(pitch)))
        for pitch in (cup.pitch, *np.arange(at.pitch, STEEPEST_RAD, 0.1))
    )
    return next((found for found in folded if found is not None), None)
