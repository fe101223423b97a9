"""Oracle Place: bring the held object over its goal, set it down upright or nearly so, let go and back out.

Reads object poses and the map; acts like any skill. With `base_movement` off only the arm moves.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hab.arm import cup_pose, solve
from hab.objects import object_model
from hab.robot import PAN_X_M
from hab.scene import Receptacle
from hab.simulator import Simulator
from skills.oracle.hand import (
    cup_below,
    in_base,
    is_ball,
    object_in_cup,
    others_before,
    rise_over_others,
    upright_pitch,
)
from skills.oracle.motion import Motion, Script, Scripted
from skills.oracle.navigate import drive_to, must_go_round
from skills.oracle.reach import PITCHES, Reach, backed_off, choose_reach, pitches_for
from skills.oracle.retreat import move_out
from skills.oracle.servo import servo_to
from skills.oracle.surroundings import receptacle_at
from skills.skill import Goal

FALLEN_COST = 400.0
"""Setting an object down upright may take this many control steps; a fallen one is set down as it is."""
PLACE_LIFT_M = 0.07
DOWN_M, OUT_OF_REACH_M, OVER_M = 0.025, 0.06, 0.06
"""An object this near above its goal (it may lean), or as near as an arm alone gets, and this near beside it, is let
go."""
MAX_TILT_RAD = np.deg2rad(20.0)
"""What is set down this much off upright rights itself."""


class OraclePlace(Scripted):
    """Place the held object."""

    def _run(self, sim: Simulator, goal: Goal) -> Script:
        motion = Motion(sim)
        motion.suction = True
        if self._base_movement and must_go_round(sim, goal):
            yield from drive_to(motion, goal, stand_off=True)
        position = np.asarray(goal.position)
        receptacle = receptacle_at(sim, position)
        pitch, reach = self._choose_grip(motion, goal.object, position, receptacle)
        ahead, left, _ = object_in_cup(sim, goal.object, pitch)
        up = cup_below(sim, goal.object, pitch)

        def cup_at(point: NDArray[np.float64]) -> NDArray[np.float64]:
            """Return where the cup has the object at a point, both base frame."""
            # The object sits off the cup's axis: aim the arm so that it, not the cup, is over the goal.
            azimuth = math.atan2(point[1], point[0] - PAN_X_M) - math.asin(
                max(-0.5, min(0.5, left / math.hypot(*point[:2])))
            )
            forward_axis = np.array([math.cos(azimuth), math.sin(azimuth), 0.0])
            left_axis = np.array([-math.sin(azimuth), math.cos(azimuth), 0.0])
            return point - ahead * forward_axis - left * left_axis - np.array([0.0, 0.0, up])

        def there() -> bool:
            off = sim.object_pos(goal.object) - position
            reached = self._base_movement or solve(cup_pose(cup_at(in_base(sim, position)), pitch)) is not None
            down = DOWN_M if reached else OUT_OF_REACH_M
            return not sim.held or bool(off[2] < down and np.hypot(*off[:2]) < OVER_M)

        clear = reach.lift_m
        yield from servo_to(
            motion,
            lambda: position,
            reach,
            clear,
            -0.01,
            self._base_movement,
            receptacle,
            there,
            ahead_m=ahead,
            axis_rad=math.pi / 2.0,
            cup_at=cup_at,
            others_m=others_before(sim, goal.object, position),
        )
        if sim.held and not there():
            # Where the arm alone does not quite get to, as near as it does.
            below = cup_pose(cup_at(in_base(sim, position)) - np.array([0.0, 0.0, 0.01]), pitch)
            above = replace(below, z=below.z + clear)
            if (q := solve(above)) is not None:
                yield from motion.arm_to(q, timeout=80)
            yield from motion.arm_line(above, below, step_m=0.006)
        motion.suction = False
        yield from motion.wait(3)
        yield from motion.arm_line(motion.pose(), backed_off(motion.pose(), 0.04), step_m=0.01)
        yield from move_out(motion, motion.pose(), clear, self._base_movement, position)
        while True:
            yield motion.action()

    def _choose_grip(
        self, motion: Motion, name: str, position: NDArray[np.float64], receptacle: Receptacle
    ) -> tuple[float, Reach]:
        """Choose the cup's pitch at the goal: upright or nearly so, and flat enough to get in; else what can be had."""
        sim = motion.sim
        upright = upright_pitch(sim, name)

        def contact(pitch: float) -> float:
            return object_model(name).half_height_m - object_in_cup(sim, name, pitch)[2]

        fitting = max(pitches_for(receptacle, position, contact))
        # An object set down beyond `MAX_TILT_RAD` may fall over, within its goal's radius: worth it for a few seconds.
        tilts = [upright + part * MAX_TILT_RAD for part in (0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.0, -2.0)]
        near = [(p, 30.0 * (abs(p - upright) / MAX_TILT_RAD) ** 1.5) for p in tilts]
        if is_ball(name):
            near = [(p, 0.0) for p in PITCHES]
        if receptacle.under_board:
            near = [(p, cost) for p, cost in near if p < fitting + 0.03] or near[-1:]
        best = _choose(motion, name, position, near, self._base_movement)
        if best is None or best[2] > FALLEN_COST:
            anyhow = [(p, 60.0 + 60.0 * abs(p - upright)) for p in PITCHES if p <= fitting]
            other = _choose(motion, name, position, anyhow, self._base_movement)
            if other is not None and (best is None or other[2] < best[2]):
                best = other
        return (best[0], best[1]) if best else (upright, Reach(0.75, upright, math.inf, 0.0))


def _choose(
    motion: Motion,
    name: str,
    position: NDArray[np.float64],
    pitches: Sequence[tuple[float, float]],
    base_movement: bool,
) -> tuple[float, Reach, float] | None:
    """Return the cheapest of some (pitch, extra cost) as pitch, reach and cost in control steps."""
    best: tuple[float, Reach, float] | None = None
    lift = max(PLACE_LIFT_M, rise_over_others(motion.sim, name, position))
    for pitch, extra in pitches:
        ahead = object_in_cup(motion.sim, name, pitch)[0]
        height = float(position[2]) - cup_below(motion.sim, name, pitch)
        found = choose_reach(motion, position, (pitch,), lambda _: 0.0, lift, base_movement, height, ahead)
        if found is not None and (best is None or found.cost_steps + extra < best[2]):
            best = pitch, found, found.cost_steps + extra
    return best
