"""Pick: with the base near an object and the arm at rest, take the object and bring it to the resting position.

With base movement it has to come away from the furniture, too: once the object has been brought there the task lowers
the arm to rest, as the chain does between skills, and the object has to hang free then. habitat does not ask that. But
there an arm passes through a counter; here one that is lowered onto it, or beside it, loses what it holds when the base
turns away. A base that cannot move has no say in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np

from hab.actions import ARM, GRIP, Action
from hab.episodes import load_grid
from hab.measures import AT_REST_M, at_rest, holding
from hab.openings import grid_with_openings
from hab.scene import Scene
from hab.sensors import RobotPose
from hab.simulator import Simulator
from skills.hand_path import SIZE, HandPath
from skills.oracle.pick import OraclePick
from skills.skill import RESET_ARM_STEPS, Goal, Progress, arm_rests, towards_rest
from skills.starts import NO_SHOVE, STARTS, Start, StartKind, arrival, draw_episode, moved_receptacle, working_poses
from skills.task import DISTANCE_REWARD, HAND_KEYS, Common, SkillTask, State, ee_distance, to_mm

GRASP_M = 0.15
"""The suction draws only so near to where the object was told to be (habitat's magic grasp reaches as far): what the
hand brushes against on the way does not stick to it."""
PICK_REWARD = 2.0
WRONG_OBJECT_PEN = DROP_PEN = 0.5


@dataclass
class PickState(State):
    target: str
    object_m: float
    """End-effector to the object's centre."""
    way_m: float
    """The same by the hand's way (skills/hand_path.py)."""


class Pick(SkillTask[PickState]):
    """Start: within 2 m of the object, facing it; without base movement as close as the resting arm allows."""

    skill, number, oracle = "pick", 1, OraclePick
    start_kinds = STARTS
    force_sum_max_n = 10_000.0
    pays_for_shoving = True
    parts = (ARM, GRIP)
    keys = ("obj_start_sensor", *HAND_KEYS)
    surroundings_size = SIZE
    critic_measures = ("ee_to_object_distance", "did_pick_object")

    @staticmethod
    def ended(sim: Simulator, goal: Goal, action: Action, progress: Progress) -> bool:
        """Something is held, and the hand is at rest."""
        return sim.held != "" and at_rest(sim)

    @staticmethod
    def achieved(sim: Simulator, goal: Goal) -> bool:
        """It is the object that was asked for."""
        return holding(sim, goal.object)

    @staticmethod
    def heeded(sim: Simulator, goal: Goal, action: Action) -> Action:
        """Suction is on near the object's place only."""
        far = sim.held == "" and ee_distance(sim, np.array(goal.position)) > GRASP_M
        return {**action, GRIP: -np.ones(1, np.float32)} if far else action

    def draw(self, scene: Scene, rng: np.random.Generator, index: int, kind: StartKind) -> Iterator[Start]:
        episode = draw_episode(scene, rng, self.split, index)
        grid = grid_with_openings(scene, load_grid(scene.seed), episode.joints)
        target = self._drawn_target(scene, episode.targets, rng, attrgetter("start_receptacle"))
        receptacle = moved_receptacle(scene, target.start_receptacle, episode.joints)
        position = episode.objects[target.object][0]
        goal = Goal(target.start_pos, target.object)
        drawn = kind if self.base_movement else "fixed"
        for pose in working_poses(drawn, grid, rng, receptacle, position, target.start_pos, target.object):
            begun, shove = arrival(rng, pose) if drawn == "chain" else (pose, NO_SHOVE)
            yield Start(replace(episode, robot=begun), goal, shove=shove)

    def surroundings(self) -> list[float]:
        """The hand's way to the object."""
        place = self.sim.object_pos(self.goal.object).tolist()
        return self._way.surroundings(RobotPose(self.sim), self.sim.ee_pos.tolist(), place)

    def measure(self, common: Common) -> PickState:
        name, place = self.goal.object, self.sim.object_pos(self.goal.object)
        way_m = self._way(self.sim.ee_pos.tolist(), place.tolist())
        return PickState(*common, target=name, object_m=ee_distance(self.sim, place), way_m=way_m)

    def rewards(self, was: PickState, now: PickState) -> dict[str, float]:
        return {
            "reach": reach_reward(was, now),
            "pick": pick_reward(was, now),
            "rest": 0.0 if self._lowered else rest_reward(was, now),
            "wrong_object": -WRONG_OBJECT_PEN if wrong_object(now) else 0.0,
            "drop": -DROP_PEN if dropped(was, now) else 0.0,
        }

    def _begin(self, start: Start) -> None:
        super()._begin(start)
        target = start.episode.target(start.goal.object)
        self._way = HandPath(self.sim.scene.receptacle(target.start_receptacle))
        self._lowered = 0
        """Control steps in which the task has lowered the arm."""

    def control_step(self, action: Action, total: dict[str, float]) -> tuple[bool, str]:
        if self.acts_itself():
            self._lowered += 1
            action = towards_rest(self.sim)
        return super().control_step(action, total)

    def acts_itself(self) -> bool:
        return self._lowers(self._state) and not self._is_low()

    def _lowers(self, now: PickState) -> bool:
        """Whether the object was brought to where the arm is lowered."""
        return self.base_movement and (self._lowered > 0 or _brought(now))

    def _is_low(self) -> bool:
        return self._lowered >= RESET_ARM_STEPS or arm_rests(self.sim)

    def succeeded(self, now: PickState, action: Action) -> bool:
        if not self.base_movement:
            return _brought(now)
        return self._lowers(now) and self._is_low() and now.held == now.target and not self.sim.collides()

    def failure(self, was: PickState, now: PickState, action: Action) -> str:
        if wrong_object(now):
            return "wrong object"
        lost = dropped(was, now)
        if self._lowered and lost or self._lowers(now) and self._is_low():
            return "arm lowered onto something"
        return "dropped" if lost else ""

    def measures(self, now: PickState) -> dict[str, Any]:
        return {"ee_to_object_distance": now.object_m, "did_pick_object": now.held == now.target}


def _brought(now: PickState) -> bool:
    """Whether the object is in hand and the hand where it rests."""
    return now.held == now.target and now.rest_m < AT_REST_M


def reach_reward(was: PickState, now: PickState) -> float:
    """Reward the hand's coming nearer to the object while it is empty."""
    return 0.0 if was.held or now.held else DISTANCE_REWARD * to_mm(was.way_m - now.way_m)


def pick_reward(was: PickState, now: PickState) -> float:
    """Reward the grasp, once: letting go ends the episode."""
    return PICK_REWARD if now.held == now.target and not was.held else 0.0


def rest_reward(was: PickState, now: PickState) -> float:
    """Reward bringing the held object towards the resting position."""
    holding = was.held == now.target and now.held == now.target
    return DISTANCE_REWARD * to_mm(was.rest_m - now.rest_m) if holding else 0.0


def wrong_object(now: PickState) -> bool:
    return now.held not in ("", now.target)


def dropped(was: PickState, now: PickState) -> bool:
    return was.held != "" and now.held == ""
