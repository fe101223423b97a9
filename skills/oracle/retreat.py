"""Getting the cup away from a thing again: lift, back out, bring the arm to rest."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hab.arm import ArmPose, forward, resting_near, solve
from hab.objects import is_object, object_model
from skills.oracle.hand import cup_below
from skills.oracle.motion import Motion, Script
from skills.oracle.surroundings import depth_inside, receptacle_at, room_behind, way_out

FOLD_BELOW_M = 0.80
"""After setting down lower than this the arm folds up while the base backs out; higher, it would sweep the object."""
RETREAT_M = 0.30
PULL_M, PULL_CLEAR_M, HANG_CLEAR_M = 0.25, 0.12, 0.02
CARRY_STEP_M = 0.02
ARM_LENGTH_M = 0.85
"""Base centre to the end of the resting arm, with an object in hand."""


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
        room = room_behind(sim, max(RETREAT_M, away))
        yield from motion.drive_line((x - room * math.cos(yaw), y - room * math.sin(yaw)), yaw)
        yield from motion.arm_to(resting_near(sim.arm_target))
        return
    receptacle = receptacle_at(sim, position)
    if receptacle.under_board:
        out_m = max(PULL_M, depth_inside(receptacle, position) + PULL_CLEAR_M)
        pulled = ArmPose(pose.azimuth, max(0.45, pose.radius - out_m), pose.z + lift_m, pose.pitch)
        if solve(pulled) is not None:
            yield from motion.arm_line(lifted, pulled, step_m=0.01)
    if not is_object(sim.held):
        yield from motion.arm_to(resting_near(sim.arm_target))
        return
    # The resting place may be over the furniture: what hangs from the cup has to be above it there, and on the way.
    name, surface = sim.held, receptacle.center[2] + HANG_CLEAR_M

    def too_low(cup: ArmPose) -> float:
        return surface + object_model(name).half_height_m - cup_below(sim, name, cup.pitch) - cup.z

    rest = resting_near(sim.arm_target, too_low)
    yield from motion.arm_line(motion.pose(), forward(rest), step_m=CARRY_STEP_M)
    yield from motion.arm_to(rest)
