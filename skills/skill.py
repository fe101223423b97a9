"""What one call of a skill is about, how the chain sees a skill, and who can play it.

A skill is data plus small functions, in a module of its own (skills/task.py).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from hab.actions import ARM, GRIP, Action
from hab.robot import ARM_DELTA_RAD, REST_Q
from hab.scene import Vec3, axes_of
from hab.sensors import RobotPose, in_ee_frame
from hab.simulator import Simulator

MANIPULATION_STEPS = 600
"""habitat: 300 for Pick and Place, 200 for Open and Close. Here the base is 2.5 times slower (hence Navigate's 1000 for
habitat's 400), the arm cannot pass through a board, and a cup draws a door along its arc: scripts that know everything
take 140 steps to pick from a table, but 290 (one in ten over 430) to pick from the fridge."""

TAKEN = "taken"
"""The key of `Goal.taken` in a skill's memory."""
TAKEN_MAX_M = 0.3
"""What is further from the cup is not what it has taken hold of."""
REARRANGE_STEPS = 2700
"""Of Rearrange, an object: Pick's and Place's 600, and twice 750 for the ways, which it drives at full speed."""


@dataclass(frozen=True)
class Goal:
    """What one call of a skill is about. Positions are in the world (m)."""

    position: Vec3
    """Pick: the object's start; place: its goal; navigate: the target; open and close: the handle, closed."""
    object: str = ""
    """The object to pick, to place, or in hand."""
    articulation: str = ""
    """The drawer or fridge to open or close, or to drive to; "" for none."""
    then: Vec3 | None = None
    """Rearrange: where the object that starts at `position` belongs."""
    taken: Vec3 | None = None
    """Place: the centre of the object in hand, in the end-effector's frame (m): where it was told to lie when the cup
    took hold of it. None: that is not known."""
    up: Vec3 | None = None
    """Place: which way was up then, in the same frame. None: that is not known."""
    map: dict[str, Any] | None = field(default=None, compare=False, repr=False)
    """Navigate: what it has drawn of its surroundings in the episode's calls before, and goes on drawing. None:
    nothing, and nothing is kept."""

    def positions(self) -> NDArray[np.float64]:
        """Return `position`, and `then` if there is one, as rows (1 or 2, 3)."""
        return np.array([self.position, *([self.then] if self.then else [])], dtype=np.float64)

    def memory(self) -> dict[str, Any]:
        """Return what a skill remembers when its call begins."""
        kept = {} if self.map is None else self.map
        if self.taken is not None:
            kept[TAKEN] = np.array(self.taken, np.float32)
        return kept


Reflex = Callable[[Action], Action]
"""What the robot itself makes of an action that is heeded, in each control step (Place: skills/set_down.py)."""


def as_heeded(action: Action) -> Action:
    """Do just that."""
    return action


@dataclass(frozen=True)
class SkillSpec:
    """A skill as the chain sees it."""

    name: str
    max_steps: int
    """Control steps that the chain grants."""
    parts: tuple[str, ...]
    """The action parts it has; the chain drops any other that a policy returns. The base only with base movement."""
    ended: Callable[[Simulator, Goal, Action, Progress], bool]
    """The skill's own termination rule, asked after each control step (docs/hab.md, "Planning")."""
    achieved: Callable[[Simulator, Goal], bool]
    """The post-condition, for measurement only."""
    heeded: Callable[[Simulator, Goal, Action], Action] = lambda sim, goal, action: action
    """What of an action is heeded (docs/hab.md, "Skill tasks")."""
    reflex: Callable[[Simulator, Goal], Reflex] = lambda sim, goal: as_heeded
    """Returns the reflex for a call that begins now."""


RESET_ARM_STEPS = 50
RESET_ARM_TOLERANCE_RAD = 0.02
BESIDE_HEAD_RAD, UNDER_HEAD_RAD = 0.72, -0.95
"""Raised as it rests, at -1.08 rad, the shoulder strikes the head where the arm points 0.78 to 0.94 rad to a side, and
at -1.0 rad nowhere."""
START_ZONE_M = 0.3
"""habitat-baselines' start zone of the articulated skills."""


@dataclass
class Progress:
    """What a termination rule may remember within one call of a skill."""

    steps: int = 0
    grasped: bool = False
    """Whether the suction has held anything during this call."""
    left_start: bool = False
    """Whether the end-effector has been further than `START_ZONE_M` from where it was at the call's start."""


def taken_at(sim: Simulator, told: Vec3) -> Vec3 | None:
    """Return where an object that the cup has just taken hold of is, by where it was told to lie (world, m): in the
    end-effector's frame (m); None if that is too far away."""
    x, y, z = in_ee_frame(RobotPose(sim), np.array([told])).tolist()
    return (x, y, z) if math.hypot(x, y, z) < TAKEN_MAX_M else None


def upwards(sim: Simulator) -> Vec3:
    """Return which way is up in the end-effector's frame."""
    x, y, z = sim.ee_mat[2].tolist()
    return x, y, z


def upwards_of(sim: Simulator, name: str) -> Vec3:
    """Return which way an object's top is in the end-effector's frame (start states only)."""
    x, y, z = (sim.ee_mat.T @ axes_of(sim.object_quat(name))[:, 2]).tolist()
    return x, y, z


def arm_off_rest(sim: Simulator) -> float:
    """Return how far (rad) the joint that is farthest from its resting position is from it."""
    return float(np.abs(REST_Q - sim.arm).max())


def arm_rests(sim: Simulator) -> bool:
    """Whether the arm is in its resting pose."""
    return arm_off_rest(sim) < RESET_ARM_TOLERANCE_RAD


def towards_rest(sim: Simulator) -> Action:
    """Return what moves the joints' targets straight to rest, keeping hold of what is held; past the head lower than
    the arm rests, for there its shoulder would be caught."""
    grip = np.array([1.0 if sim.held else -1.0], np.float32)
    wanted = REST_Q.copy()
    if abs(sim.arm[0]) > BESIDE_HEAD_RAD:
        wanted[1] = UNDER_HEAD_RAD
    return {ARM: np.clip((wanted - sim.arm_target) / ARM_DELTA_RAD, -1.0, 1.0).astype(np.float32), GRIP: grip}


def arm_to_rest(sim: Simulator) -> Iterator[Action]:
    """Yield what moves the arm to rest, for as many steps as that takes, and `RESET_ARM_STEPS` at most."""
    for _ in range(RESET_ARM_STEPS):
        if arm_rests(sim):
            return
        yield towards_rest(sim)


class SkillPolicy(Protocol):
    """Plays one skill: an oracle, or a trained policy."""

    def reset(self, sim: Simulator, goal: Goal) -> None:
        """Start a call; recurrent state and plans are cleared."""

    def tell(self, goal: Goal) -> None:
        """Go on with the call: what it is about is seen elsewhere."""

    def act(self, sim: Simulator) -> Action:
        """Return the next action. Oracles read simulator state; trained policies only their sensors."""
        ...
