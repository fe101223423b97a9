"""Place: with an object in hand near its goal, set it down there and bring the empty hand to its resting position."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hab.actions import ARM, GRIP, Action
from hab.episodes import load_grid
from hab.measures import AT_REST_M, PLACED_M, at_rest
from hab.objects import is_tall
from hab.openings import grid_with_openings
from hab.scene import Scene
from hab.sensors import Observation, RobotPose
from hab.simulator import Simulator
from skills.hand_path import SIZE, HandPath
from skills.oracle.place import OraclePlace
from skills.recorded import Recorded
from skills.set_down import SetDown
from skills.skill import Goal, Progress
from skills.starts import NO_SHOVE, STARTS, TILTS_RAD, Start, StartKind, arrival, draw_episode, working_poses
from skills.task import (
    DISTANCE_REWARD,
    HAND_KEYS,
    CallMemory,
    Common,
    SkillTask,
    State,
    ee_distance,
    from_what_is_held,
    to_mm,
)

LET_GO_M = 0.20
"""The hand lets go only so near to the goal: the centre of what it holds is at most about 0.15 m from it. A call that
does not get there runs out of time with the object still in hand."""
PLACE_REWARD = 5.0
"""For letting go just at the goal; half of it at the edge of what counts as placed: what is let go of high up, or at
the edge, rolls away or is taken along by the hand's way back."""

TALL_WEIGHT = 6.0
"""What topples easily is set down so much oftener in training."""


@dataclass
class PlaceState(State):
    target: str
    goal_m: float
    """Object's centre to its goal."""
    way_m: float
    """The same by the hand's way (skills/hand_path.py)."""
    let_go: bool
    """Whether the object was let go of before now."""

    @property
    def carrying(self) -> bool:
        """Whether the object still has to get to its goal, or to be let go of there."""
        return self.held != "" or self.goal_m >= PLACED_M


class Place(SkillTask[PlaceState]):
    """Start: as Pick's, around the goal, with the object in hand."""

    skill, number, oracle = "place", 2, OraclePlace
    start_kinds = STARTS
    force_sum_max_n = 10_000.0
    pays_for_shoving = True
    parts = (ARM, GRIP)
    keys = ("obj_goal_sensor", *HAND_KEYS)
    surroundings_size = SIZE
    critic_measures = ("object_to_goal_distance", "obj_at_goal")

    @staticmethod
    def ended(sim: Simulator, goal: Goal, action: Action, progress: Progress) -> bool:
        """Nothing is held, and the hand is at rest."""
        return sim.held == "" and at_rest(sim)

    @staticmethod
    def achieved(sim: Simulator, goal: Goal) -> bool:
        """The object is not in hand, and near its goal; when the call has ended by its rule, the hand is empty."""
        error = math.dist(sim.object_pos(goal.object), goal.then or goal.position)
        return sim.held != goal.object and error < PLACED_M

    @staticmethod
    def heeded(sim: Simulator, goal: Goal, action: Action) -> Action:
        """Suction stays on until the hand is near the goal."""
        far = sim.held != "" and ee_distance(sim, np.array(goal.position)) > LET_GO_M
        return {**action, GRIP: np.ones(1, np.float32)} if far else action

    reflex = SetDown

    @classmethod
    def observe(cls, sim: Simulator, obs: str, goal: NDArray[np.float64], memory: CallMemory) -> Observation:
        """Read its sensors; with something in hand they tell where the goal is from there."""
        read = super().observe(sim, obs, goal, memory)
        if sim.held:
            from_what_is_held(read, memory)
        return read

    def draw(self, scene: Scene, rng: np.random.Generator, index: int, kind: StartKind) -> Iterator[Start]:
        episode = draw_episode(scene, rng, self.split, index)
        grid = grid_with_openings(scene, load_grid(scene.seed), episode.joints)
        target = self._drawn_target(scene, episode.targets, rng, attrgetter("goal_receptacle"))
        receptacle = scene.receptacle(target.goal_receptacle)
        goal = Goal(target.goal_pos, target.object)
        tilt = 0.0
        if kind == "chain":
            tilt = float(rng.uniform(*TILTS_RAD))
        drawn, at = kind if self.base_movement else "fixed", target.goal_pos
        for pose in working_poses(drawn, grid, rng, receptacle, at, at, target.object):
            begun, shove = arrival(rng, pose) if drawn == "chain" else (pose, NO_SHOVE)
            yield Start(replace(episode, robot=begun), goal, target.object, tilt, shove=shove)

    @classmethod
    def weight(cls, call: Recorded) -> float:
        """Tall things oftener."""
        return TALL_WEIGHT if is_tall(call.goal.object) else 1.0

    def surroundings(self) -> list[float]:
        """The hand's way to the goal."""
        place = self.sim.object_pos(self.goal.object).tolist()
        return self._way.surroundings(RobotPose(self.sim), place, self.goal.position)

    def measure(self, common: Common) -> PlaceState:
        place = self.sim.object_pos(self.goal.object).tolist()
        goal_m, way_m = math.dist(place, self.goal.position), self._way(place, self.goal.position)
        before = self._state if self.steps else None
        let_go = before is not None and (before.let_go or before.held == "")
        return PlaceState(*common, target=self.goal.object, goal_m=goal_m, way_m=way_m, let_go=let_go)

    def _begin(self, start: Start) -> None:
        super()._begin(start)
        target = start.episode.target(start.goal.object)
        self._way = HandPath(self.sim.scene.receptacle(target.goal_receptacle))

    def rewards(self, was: PlaceState, now: PlaceState) -> dict[str, float]:
        return {
            "carry": carry_reward(was, now),
            "place": place_reward(was, now),
            "rest": rest_reward(was, now),
        }

    def succeeded(self, now: PlaceState, action: Action) -> bool:
        return not now.carrying and now.rest_m < AT_REST_M

    def failure(self, was: PlaceState, now: PlaceState, action: Action) -> str:
        return "dropped" if released(was, now) and now.goal_m >= PLACED_M else ""

    def measures(self, now: PlaceState) -> dict[str, Any]:
        return {"object_to_goal_distance": now.goal_m, "obj_at_goal": now.goal_m < PLACED_M}


def carry_reward(was: PlaceState, now: PlaceState) -> float:
    """Reward bringing the object nearer to its goal, up to the edge of what counts as placed."""
    if not (was.carrying and now.carrying) or now.goal_m < PLACED_M:
        return 0.0
    return DISTANCE_REWARD * to_mm(was.way_m - now.way_m)


def place_reward(was: PlaceState, now: PlaceState) -> float:
    """Reward letting go at the goal, the first time: taking the object up again is not to pay."""
    at_goal = released(was, now) and not now.let_go and now.goal_m < PLACED_M
    return PLACE_REWARD * (1.0 - 0.5 * now.goal_m / PLACED_M) if at_goal else 0.0


def rest_reward(was: PlaceState, now: PlaceState) -> float:
    """Reward bringing the empty hand towards the resting position."""
    return 0.0 if was.carrying or now.carrying else DISTANCE_REWARD * to_mm(was.rest_m - now.rest_m)


def released(was: PlaceState, now: PlaceState) -> bool:
    return was.held == now.target and now.held == ""
