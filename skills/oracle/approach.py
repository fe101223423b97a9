"""Getting the cup to a thing and away again: raise the arm, drive in, close the last centimetres, back out."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hab.arm import PAN_X_M, ArmPose, resting_near, solve
from hab.scene import Receptacle
from skills.oracle.hand import hand_bottom
from skills.oracle.motion import Motion, Script
from skills.oracle.reach import Reach, backed_off
from skills.oracle.surroundings import depth_inside, grid_now, receptacle_at, rim_m, way_out

FOLD_BELOW_M = 0.80
"""After setting down lower than this the arm folds up while the base backs out; higher, it would sweep the object."""
RETREAT_M = 0.30
ARM_LENGTH_M = 0.85
"""Base centre to the end of the resting arm, with an object in hand."""


def move_in(
    motion: Motion,
    position: NDArray[np.float64],
    reach: Reach,
    clear_m: float,
    rise_m: float,
    base_movement: bool,
    receptacle: Receptacle | None = None,
    ahead_m: float = 0.0,
) -> Script:
    """Bring the arm to its pose before the object and drive straight in until the object is at the reach.

    The arm moves while the base drives, unless the hand has to get over the receptacle's edge or under a board first.
    """
    sim = motion.sim
    x, y, yaw = sim.base
    bearing = math.atan2(position[1] - y, position[0] - x)
    height = float(position[2]) + rise_m
    at = ArmPose(0.0, reach.distance_m - PAN_X_M, height, reach.pitch)
    q = solve(backed_off(at, clear_m))
    if q is None:
        return
    if not base_movement:
        turned = q.copy()
        turned[0] = math.remainder(bearing - yaw, math.tau)
        yield from motion.arm_to(turned)
        return
    if receptacle is None or receptacle.under_board:
        # The arm unfolds in front of the board or the drawer, not under or through it.
        outside = reach.distance_m + ahead_m
        if receptacle is not None:
            outside += depth_inside(receptacle, position) + 0.08 - clear_m * math.cos(reach.pitch)
        yield from motion.turn_to(bearing)
        if math.hypot(position[0] - x, position[1] - y) < outside:
            end = (position[0] - outside * math.cos(bearing), position[1] - outside * math.sin(bearing))
            yield from motion.drive_line(end, bearing)
    motion.arm_goal = q
    yield from motion.turn_to(bearing)
    if (
        receptacle is None
        or receptacle.under_board
        or hand_bottom(sim) < receptacle.center[2] + rim_m(receptacle) + 0.04
    ):
        yield from motion.arm_to(q)
    distance = reach.distance_m + ahead_m
    end = (position[0] - distance * math.cos(bearing), position[1] - distance * math.sin(bearing))
    yield from motion.drive_line(end, bearing)
    yield from motion.turn_to(bearing, tolerance=0.02, timeout=40)
    yield from motion.arm_to(q)


def touch(motion: Motion, at: ArmPose, clear_m: float, slow_m: float, end_m: float) -> Script:
    """Move the cup along its axis from `clear_m` before a point towards `end_m`, slowly from `slow_m` on.

    Ends at the first hold: the arm stops where it is, so that its momentum does not break the seal.
    """
    legs = ((clear_m, min(slow_m, clear_m), 0.008), (min(slow_m, clear_m), end_m, 0.008))
    for start, end, step in legs:
        for action in motion.arm_line(backed_off(at, start), backed_off(at, end), step_m=step):
            yield action
            if motion.sim.held:
                motion.arm_goal = motion.sim.arm
                yield from motion.wait(3)
                return


def move_out(
    motion: Motion, pose: ArmPose, lift_m: float, base_movement: bool, position: NDArray[np.float64]
) -> Script:
    """Lift the cup, back the base out as far as there is room, and bring the cup to its resting position."""
    sim = motion.sim
    lifted = next(
        (
            to
            for rise in (lift_m, 0.7 * lift_m, 0.4 * lift_m)
            for back in (0.0, 0.03, 0.06)
            if solve(to := ArmPose(pose.azimuth, pose.radius - back, pose.z + rise, pose.pitch)) is not None
        ),
        pose,
    )
    yield from motion.arm_line(pose, lifted, step_m=0.01)
    if base_movement:
        receptacle = receptacle_at(sim, position)
        x, y, yaw = sim.base
        if not sim.held and not receptacle.under_board and pose.z < FOLD_BELOW_M:
            motion.arm_goal = resting_near(sim.arm_target)
        # Out until the resting arm, and what hangs from it, is clear of the edge. The cup stays away from its resting
        # place for so long: there the skill ends, and the chain lowers the arm.
        away = ARM_LENGTH_M + way_out(receptacle, position, yaw + math.pi)
        away -= math.hypot(position[0] - x, position[1] - y)
        grid = grid_now(sim)
        room = 0.0
        while room < max(RETREAT_M, away) and grid.is_free(
            x - (room + 0.1) * math.cos(yaw), y - (room + 0.1) * math.sin(yaw)
        ):
            room += 0.05
        yield from motion.drive_line((x - room * math.cos(yaw), y - room * math.sin(yaw)), yaw)
    else:
        pulled = ArmPose(pose.azimuth, max(0.45, pose.radius - 0.25), pose.z + lift_m, pose.pitch)
        if solve(pulled) is not None:
            yield from motion.arm_line(lifted, pulled, step_m=0.01)
    yield from motion.arm_to(resting_near(sim.arm_target))
