"""The skills as the chain sees them: termination rules, post-conditions, time limits (docs/hab.md, "Planning").

The base is 2.5 times slower than habitat's, so Navigate's 300 steps become 750; the manipulation skills get as many as
in their own tasks.
"""

from __future__ import annotations

import math

from hab.actions import ARM, BASE, GRIP, STOP, Action, stop_called
from hab.measures import PLACED_M, articulation_closed, articulation_open, at_rest, holding, navigated
from hab.simulator import Simulator
from skills.skill import MANIPULATION_STEPS, REARRANGE_STEPS, Goal, Progress, SkillSpec

ALWAYS_DRIVE = ("navigate", "rearrange")
"""They are nothing without the base, and so have one variant."""


def _stopped(sim: Simulator, goal: Goal, action: Action, progress: Progress) -> bool:
    return stop_called(action)


def _holds_at_rest(sim: Simulator, goal: Goal, action: Action, progress: Progress) -> bool:
    return sim.held != "" and at_rest(sim)


def _released_at_rest(sim: Simulator, goal: Goal, action: Action, progress: Progress) -> bool:
    return sim.held == "" and at_rest(sim)


def _drawn_at_rest(sim: Simulator, goal: Goal, action: Action, progress: Progress) -> bool:
    return progress.grasped and sim.held == "" and at_rest(sim)


def _back_at_rest(sim: Simulator, goal: Goal, action: Action, progress: Progress) -> bool:
    return progress.left_start and sim.held == "" and at_rest(sim)


def _set_down_or_wrong(sim: Simulator, goal: Goal, action: Action, progress: Progress) -> bool:
    return sim.held not in ("", goal.object) or (progress.grasped and sim.held == "")


def _placed(sim: Simulator, goal: Goal) -> bool:
    error = math.dist(sim.object_pos(goal.object), goal.then or goal.position)
    return sim.held != goal.object and error < PLACED_M


def _open(sim: Simulator, goal: Goal) -> bool:
    return articulation_open(sim, goal.articulation)


def _closed(sim: Simulator, goal: Goal) -> bool:
    return articulation_closed(sim, goal.articulation)


def _arrived(sim: Simulator, goal: Goal) -> bool:
    """At the target's position, or at the object where it is now (a pulled-out drawer takes its content along)."""
    if navigated(sim, goal.position):
        return True
    return goal.object != "" and sim.held != goal.object and navigated(sim, tuple(sim.object_pos(goal.object)))


_HAND, _PUSH = (ARM, GRIP, BASE), (ARM, BASE)

SPECS: dict[str, SkillSpec] = {
    spec.name: spec
    for spec in (
        SkillSpec("navigate", 750, (BASE, STOP), _stopped, _arrived),
        SkillSpec("pick", MANIPULATION_STEPS, _HAND, _holds_at_rest, lambda sim, goal: holding(sim, goal.object)),
        SkillSpec("place", MANIPULATION_STEPS, _HAND, _released_at_rest, _placed),
        SkillSpec("open_cabinet", MANIPULATION_STEPS, _HAND, _drawn_at_rest, _open),
        SkillSpec("open_fridge", MANIPULATION_STEPS, _HAND, _drawn_at_rest, _open),
        SkillSpec("close_cabinet", MANIPULATION_STEPS, _PUSH, _back_at_rest, _closed),
        SkillSpec("close_fridge", MANIPULATION_STEPS, _PUSH, _back_at_rest, _closed),
        SkillSpec("rearrange", REARRANGE_STEPS, _HAND, _set_down_or_wrong, _placed),
    )
}
