"""Oracle Pick: come at the object along the cup's axis until suction holds it, lift it and back out.

Reads object poses and the map; acts like any skill. With `base_movement` off only the arm moves.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from hab.objects import object_model
from hab.simulator import Simulator
from skills.oracle.hand import is_ball, others_before, passes_over, rise_over_others, thickness
from skills.oracle.motion import Motion, Script, Scripted
from skills.oracle.navigate import drive_to, must_go_round
from skills.oracle.place import MAX_TILT_RAD
from skills.oracle.reach import PITCHES, Reach, choose_reach, pitches_for
from skills.oracle.retreat import move_out
from skills.oracle.servo import servo_to
from skills.oracle.surroundings import receptacle_at, rim_m
from skills.skill import Goal

APPROACH_M = 0.05
"""The last stretch, along the cup's axis, starts this far from the object's surface."""
LIFT_M = 0.06
RIM_CLEAR_M = 0.04
SUCTION_M = 0.04
RETRIES = 3


class OraclePick(Scripted):
    """Pick an object; come back to it if the first touch misses."""

    def _run(self, sim: Simulator, goal: Goal) -> Script:
        motion = Motion(sim)
        name = goal.object
        if self._base_movement and must_go_round(sim, goal):
            yield from drive_to(motion, goal, stand_off=True)
        for _ in range(RETRIES):
            position = sim.object_pos(name)
            receptacle = receptacle_at(sim, position)
            rim = rim_m(receptacle) + RIM_CLEAR_M if rim_m(receptacle) else 0.0
            lift = max(LIFT_M, rim, rise_over_others(sim, name, position))
            reach = self._choose_reach(motion, position, name, rim, lift)
            clear = clearance(name, rim, reach.pitch)

            def there(name: str = name) -> bool:
                # Near the object only: whatever else the cup might touch before does not stick to it.
                motion.suction = float(np.linalg.norm(sim.ee_pos - sim.object_pos(name))) < suction_m(name)
                return sim.held != ""

            # Past the centre by a little: a bowl's bottom lies below it.
            yield from servo_to(
                motion,
                lambda: sim.object_pos(name),
                reach,
                clear,
                -0.04,
                self._base_movement,
                receptacle,
                there,
                others_m=others_before(sim, name, position),
            )
            motion.suction = True
            if sim.held:
                yield from motion.wait(3)
                break
        yield from move_out(motion, motion.pose(), reach.lift_m, self._base_movement, position)
        while True:
            yield motion.action()

    def _choose_reach(
        self,
        motion: Motion,
        position: NDArray[np.float64],
        name: str,
        rim_m: float,
        lift_m: float,
    ) -> Reach:
        for pitches in (self._pitches(motion.sim, name), PITCHES):
            found = choose_reach(
                motion,
                position,
                pitches,
                lambda pitch: clearance(name, rim_m, pitch),
                lift_m,
                self._base_movement,
                touch_m=lambda pitch: thickness(name, pitch),
            )
            if found is not None:
                return found
        return Reach(0.75, PITCHES[0], math.inf, 0.0)

    def _pitches(self, sim: Simulator, name: str) -> tuple[float, ...]:
        """Return the pitches that get at the object and, in the same grip, at its goal."""

        def contact(pitch: float) -> float:
            return object_model(name).half_height_m + thickness(name, pitch) * math.sin(pitch)

        position = sim.object_pos(name)
        here = pitches_for(receptacle_at(sim, position), position, contact)
        here = {pitch for pitch in here if passes_over(sim, name, position, pitch)} or here
        target = next((t for t in sim.episode.targets if t.object == name), None)
        if target is not None:
            there = pitches_for(receptacle_at(sim, target.goal_pos), target.goal_pos, contact)
            # The object may be set down a little tilted.
            fitting = {p for p in here if is_ball(name) or min(abs(p - q) for q in there) <= MAX_TILT_RAD}
            here = fitting or here
        return tuple(sorted(here, reverse=True))


def suction_m(name: str) -> float:
    """Return how near (m) to an object's centre the suction goes on."""
    model = object_model(name)
    return math.hypot(model.radius_m, model.half_extents[2]) + SUCTION_M


def clearance(name: str, rim_m: float, pitch: float) -> float:
    """Return how far (m) from the object's centre the last stretch starts: clear of it, and of a drawer's rim."""
    return max(APPROACH_M + thickness(name, pitch), rim_m / math.sin(pitch))
