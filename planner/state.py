"""What the closed loop believes of the world: the domain's facts and where things are, after each call of a skill.

`SensedState` (planner/sensed.py) reads what a robot has: its odometry, its joints, whether the suction holds anything,
its depth camera, and what it was told of the episode (where objects start and belong, which doors are shut).
`OracleState` reads the simulator: the upper bound.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from hab.episodes import Episode, Target
from hab.measures import NAV_ANGLE_RAD, NAV_DISTANCE_M, object_placed
from hab.openings import handle_at
from hab.robot import REST_Q
from hab.scene import Articulation, Scene, Vec3
from hab.simulator import Simulator
from planner.look import Look
from planner.problem import ROBOT, Atom, door_atom, goal_name, initial_atoms, is_open, object_name
from skills.skill import arm_off_rest, arm_rests

ARRIVED_M, ARRIVED_RAD = NAV_DISTANCE_M + 0.5, NAV_ANGLE_RAD + 0.35
"""Where Navigate is taken to have arrived: it stops where the next skill can do with a little more."""
HARD_TRIES = 2
"""So many calls of a skill to no avail, and it is tried another way."""
OUT_OF_REACH_M = 1.5
"""Nobody gets hold of what lies farther from any place to stand."""
STATES = ("sensed", "oracle")


class StateEstimate(Protocol):
    """The facts of the closed loop's domain, and where the objects are."""

    where: dict[str, Vec3]
    """Centres of mass of the objects to be moved (m, world), by PDDL name."""

    @property
    def atoms(self) -> frozenset[Atom]:
        """The facts that are believed to hold, of `planner/domain_closed_loop.pddl`."""

    def adopt(self, target: Target) -> None:
        """Let another object be one of those to be moved."""

    def begin(self, skill: str, arguments: Sequence[str]) -> None:
        """Take note of a call that begins."""

    def watch(self) -> None:
        """Take note after a control step."""

    @property
    def wrong_in_hand(self) -> bool:
        """Whether Pick has just taken another thing than it was sent for: its call ends."""

    def seek_again(self) -> bool:
        """Take what is lost to lie where it was last believed to, though it was not seen there; False: nothing is."""

    def has_to_let_go(self, skill: str) -> bool:
        """Whether a call of this skill has left a handle in hand, or a wrong thing, which is then let go."""

    def update(self, skill: str, arguments: Sequence[str], ended: bool) -> None:
        """Take note of a call that is over: the skill, what it was about, and whether it ended in time."""


class Senses:
    """What a robot knows of itself, and all that `SensedState` gets of the simulator."""

    def __init__(self, sim: Simulator) -> None:
        self._sim = sim

    @property
    def holds(self) -> bool:
        """Whether the suction holds anything."""
        return self._sim.held != ""

    @property
    def base(self) -> NDArray[np.float64]:
        """(3,) x, y (m), yaw (rad), by odometry from the start pose that the episode tells."""
        return self._sim.base

    @property
    def hand(self) -> NDArray[np.float64]:
        """(3,) the end-effector (m, world), by odometry and joints."""
        return self._sim.ee_pos

    @property
    def hand_axes(self) -> NDArray[np.float64]:
        """(3, 3) its axes, by the same."""
        return self._sim.ee_mat

    @property
    def arm_rests(self) -> bool:
        """Whether the arm is at rest, by its joints."""
        return arm_rests(self._sim)

    @property
    def arm_off_rest(self) -> float:
        """How far (rad) the joint that is farthest from its resting position is from it."""
        return arm_off_rest(self._sim)

    @property
    def shoulder_off_rest(self) -> float:
        """How far (rad) the arm is turned to a side from where it rests."""
        return abs(float(self._sim.arm[0] - REST_Q[0]))

    def look(self) -> Look:
        """Look with the head's depth camera."""
        return Look.of(self._sim)


class CommonState:
    """What both estimates keep alike: where the robot stands and how its last call ended."""

    def __init__(self, sim: Simulator, episode: Episode, scene: Scene) -> None:
        self._senses, self._scene = Senses(sim), scene
        self._targets: dict[str, Target] = {object_name(t): t for t in episode.targets}
        self._facts = set(initial_atoms(episode, scene))
        self.where: dict[str, Vec3] = {name: t.start_pos for name, t in self._targets.items()}
        self._tries: dict[str, int] = {}

    @property
    def atoms(self) -> frozenset[Atom]:
        return frozenset(self._facts)

    def adopt(self, target: Target) -> None:
        self._targets[object_name(target)] = target
        self.where[object_name(target)] = target.start_pos
        self._facts = {
            ("holding", object_name(target), *a[2:]) if a[:2] == ("holding", target.object) else a for a in self._facts
        }

    def _set(self, atom: Atom, holds: bool) -> None:
        (self._facts.add if holds else self._facts.discard)(atom)

    def _stands(self, skill: str, arguments: Sequence[str], ended: bool) -> None:
        """`robot_at`: odometry against the place that was driven to; stopped elsewhere twice, it is `hard`. `stuck`:
        the call ran out of time. `arm_out`: the joints."""
        stood = [atom[1] for atom in self._facts if atom[0] == "robot_at"] if skill in ("tuck", "look") else []
        self._facts = {atom for atom in self._facts if atom[0] not in ("robot_at", "stuck", "arm_out")}
        for name in stood:
            self._set(("robot_at", name, ROBOT), self._is_before(self._place(name)))
        if skill == "go_round":
            self._went_round(arguments[0])
        if skill == "navigate" and ended:
            there = self._is_before(self._place(arguments[0]))
            self._set(("robot_at", arguments[0], ROBOT), there)
            if not there:
                self._in_vain(arguments[0])
        rests = self._senses.arm_rests
        # An arm that does not get to rest where the robot stands needs more room.
        self._set(("stuck", ROBOT), not ended or (skill == "tuck" and not rests))
        self._set(("arm_out", ROBOT), not rests)
        if skill in ("pick", "place", "open_cabinet", "open_fridge"):
            self._worked(arguments[1] if skill == "place" else arguments[0])

    def _worked(self, name: str) -> None:
        """`hard`: skills have been called here twice to no avail, since one did its job or the robot went round."""
        done = any(
            atom[:2] in (("holding", name), ("opened_cab", name), ("opened_fridge", name))
            or (atom[0] == "object_at" and atom[2] == name)
            for atom in self._facts
        )
        if done:
            self._tries[name] = 0
        elif self._in_vain(name):
            self._not_there(name)

    def _in_vain(self, name: str) -> bool:
        """Count a call to no avail; return whether that makes the place `hard`."""
        self._tries[name] = self._tries.get(name, 0) + 1
        hard = self._tries[name] >= HARD_TRIES
        self._set(("hard", name), hard)
        return hard

    def _not_there(self, name: str) -> None:
        """Conclude from an object's not being found."""

    def _went_round(self, name: str) -> None:
        self._tries[name] = 0
        self._set(("hard", name), False)

    def _is_before(self, place: Vec3) -> bool:
        x, y, yaw = self._senses.base.tolist()
        off = math.remainder(math.atan2(place[1] - y, place[0] - x) - yaw, math.tau)
        return math.dist((x, y), place[:2]) < ARRIVED_M and abs(off) < ARRIVED_RAD

    def _place(self, name: str) -> Vec3:
        if name in self.where:
            return self.where[name]
        goals = {goal_name(t): t.goal_pos for t in self._targets.values()}
        return goals.get(name) or handle_at(self._scene.articulation(name), 0.0)

    def _hold(self, name: str) -> None:
        """Note what is in hand; "" for nothing."""
        self._facts = {atom for atom in self._facts if atom[0] not in ("holding", "not_holding")}
        self._facts.add(("holding", name, ROBOT) if name else ("not_holding", ROBOT))

    def _taken(self, name: str) -> None:
        """Note that an object lies nowhere: it is in hand."""
        self._facts = {a for a in self._facts if a[:2] not in (("in", name), ("object_at", name), ("confirmed", name))}

    def _door(self, articulation: Articulation, opened: bool) -> None:
        """Note whether a drawer or fridge is open."""
        for flag in (True, False):
            self._set(door_atom(articulation, flag), opened == flag)

    def _lies(self, name: str, place: Vec3, placed: bool, seen: bool = False) -> None:
        """Note where an object lies, in nobody's hand; `seen`: and that it has been seen there (`confirmed`)."""
        target = self._targets[name]
        self.where[name] = place
        self._set(("object_at", name, goal_name(target)), placed)
        self._set(("confirmed", name, goal_name(target)), placed and seen)


class OracleState(CommonState):
    """Facts from the simulator: what is in hand, where objects lie, how far doors are open."""

    def __init__(self, sim: Simulator, episode: Episode, scene: Scene) -> None:
        super().__init__(sim, episode, scene)
        self._sim = sim

    def begin(self, skill: str, arguments: Sequence[str]) -> None:
        pass

    def watch(self) -> None:
        pass

    def seek_again(self) -> bool:
        return False  # it is known to be out of reach

    wrong_in_hand = False
    """It is put back where it was, as another object to be moved."""

    def has_to_let_go(self, skill: str) -> bool:
        return any(self._sim.held == articulation.name for articulation in self._scene.articulations)

    def update(self, skill: str, arguments: Sequence[str], ended: bool) -> None:
        sim = self._sim
        names = {target.object: name for name, target in self._targets.items()}
        self._hold(names.get(sim.held, sim.held))
        for name, target in self._targets.items():
            if target.object == sim.held:
                self._taken(name)
                continue
            x, y, z = sim.object_pos(target.object).tolist()
            self._lies(name, (x, y, z), object_placed(sim, target), True)
            self._set(("lost", name), math.dist(sim.nav.nearest_free(x, y), (x, y)) > OUT_OF_REACH_M)
        for articulation in self._scene.articulations:
            if any(atom[0].startswith(("opened", "closed")) and atom[1] == articulation.name for atom in self._facts):
                self._door(articulation, is_open(articulation, sim.joint_pos(articulation.name)))
        self._stands(skill, arguments, ended)
