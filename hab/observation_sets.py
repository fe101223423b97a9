"""Which sets of observations there are, by name, and what their sensors of the surroundings look like.

`laser`: habitat-lab's keys, the base laser and the head scan: what the robot senses. `laser+map`: that, and for a skill
that has a way to find (Navigate) the way on the map that the robot draws of what it has seen (hab/mapping.py).
`depth`: the head camera's image in place of the two scans.
"""

from __future__ import annotations

from hab import robot

LASER, LASER_MAP, DEPTH = "laser", "laser+map", "depth"
DEFAULT = LASER
"""What the robot senses, and nothing that is worked out from it."""
_SCANS: dict[str, tuple[int, ...]] = {"laser": (robot.LASER_RAYS,), "head_scan": (robot.HEAD_SCAN_RAYS,)}
CRITIC_STATE, SURROUNDINGS = "critic_state", "surroundings"
CRITIC_KEYS = (CRITIC_STATE, SURROUNDINGS)
"""What training is told of the simulator's state besides, for a critic to read and an actor's features to predict, and
no policy sees: the task's state, and what of its surroundings a skill hangs on (`SkillTask.surroundings`)."""
OBSERVATION_SETS: dict[str, dict[str, tuple[int, ...]]] = {
    LASER_MAP: _SCANS,
    LASER: _SCANS,
    DEPTH: {"head_depth": (robot.DEPTH_SIZE, robot.DEPTH_SIZE, 1)},
}
"""Name -> its exteroceptive sensors' keys and shapes; where policies for several are at hand, the first is played.

The laser sees nothing but what stands on the floor; three columns of the head's depth image show whether there is a
board above an object, or a drawer that is open, at a hundredth of the image's cost.
"""


def exteroception_shapes(observation_set: str) -> dict[str, tuple[int, ...]]:
    """Return an observation set's exteroceptive sensors; raise `ValueError` if there is no such set."""
    if observation_set not in OBSERVATION_SETS:
        raise ValueError(f"unknown observation set {observation_set!r}; choose from {', '.join(OBSERVATION_SETS)}")
    return OBSERVATION_SETS[observation_set]
