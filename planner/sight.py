"""Where Pick's object is seen while the hand seeks it: what is knocked over or shoved is not where it was told to lie.

Its policy sees neither, and the hand stays where the object was. Known is where that was told to lie, its size, and, by
the head's depth camera, what stands there now and what has appeared since the call began (planner/look.py).
"""

from __future__ import annotations

from hab.episodes import lies_on
from hab.objects import object_model
from hab.scene import Vec3
from hab.simulator import Simulator
from planner.look import LOOK_EVERY, Look, appeared, is_shifted, located
from skills.skill import Goal

AROUND_M = 0.25
"""So far it is sought around there."""


class Sight:
    """One call of Pick, whose hand is empty as it begins."""

    def __init__(self, sim: Simulator, goal: Goal) -> None:
        """`goal`: what lies on open furniture; else nothing is seen of it."""
        self._sim, self._place, self._steps = sim, goal.position, 0
        self._measures: tuple[float, float, Vec3] | None = None
        """The height of what it lies on, how high it stands there, and its half sizes (m)."""
        under = lies_on(sim.scene, goal.position)
        if under is not None and not under.articulation:
            model, low = object_model(goal.object), goal.position[2] - under.center[2]
            self._measures = under.center[2], model.reaches_m(low), model.half_extents
            self._begun = Look.of(sim)

    def now(self) -> Vec3 | None:
        """Return where it is seen (m, world), if that is another place than before; asked before each control step."""
        self._steps += 1
        if self._measures is None or self._sim.held or self._steps % LOOK_EVERY != 1:
            return None
        at = self._seen(self._begun if self._steps == 1 else Look.of(self._sim), *self._measures)
        if at is None or not is_shifted(at, self._place, self._measures[2]):
            return None
        self._place = at
        return at

    def _seen(self, look: Look, surface_m: float, height_m: float, half: Vec3) -> Vec3 | None:
        """Return where something stands that might be it: in its place; or, where that is empty, what is nearest as the
        call begins, and later what was not there then."""
        at = located(look, self._place, surface_m, height_m, half)
        if at is not None or not look.bare(self._place, surface_m, min(half[:2])):
            return at
        if self._steps == 1:
            return located(look, self._place, surface_m, height_m, half, AROUND_M)
        return appeared(self._begun, look, self._place[:2], surface_m, height_m, half, AROUND_M)
