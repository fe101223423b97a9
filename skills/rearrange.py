"""Rearrange: one policy for all that becomes of an object: drive to it, take it, drive to its goal, set it down.

The baseline without skills and without a plan (MonolithicRL of Szot et al. 2021): the policy is told which object is
next, where that lies and where it belongs, and does the rest itself, from the scenario's start on.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hab.actions import ARM, BASE, GRIP, Action
from hab.episodes import load_grid, make_episode
from hab.measures import FORCE_SUM_MAX_N, PLACED_M
from hab.openings import grid_with_openings
from hab.scene import Scene
from hab.sensors import Observation, RobotPose
from hab.simulator import Simulator
from skills.floor_distance import WAY_SIZE, FloorDistance
from skills.hand_path import SIZE, HandPath
from skills.pick import PICK_REWARD, WRONG_OBJECT_PEN, PickState, wrong_object
from skills.place import PLACE_REWARD, Place
from skills.skill import REARRANGE_STEPS, TAKEN, Goal, Progress, taken_at
from skills.starts import Start, StartKind, moved_receptacle, poses_near
from skills.task import (
    DISTANCE_REWARD,
    HAND_KEYS,
    CallMemory,
    Common,
    SkillTask,
    ee_distance,
    from_what_is_held,
    to_mm,
)

NEAR_M = 2.0
"""So near what it is to take, or where it is to set it down, the hand's way counts besides the base's."""


@dataclass
class RearrangeState(PickState):
    """`way_m` is the hand's way to the object, and once it is in hand the object's to its goal."""

    floor_m: float
    """Along the floor, to where one would work now: at the object, and once it is in hand at its goal."""
    goal_m: float
    """Object's centre to its goal."""
    picked: bool
    """Whether the object has been in hand."""


class Rearrange(SkillTask[RearrangeState]):
    """Start: Tidy House when some of its objects are at their goals: its own start, or near the last one's goal."""

    skill, number = "rearrange", 7
    force_sum_max_n = FORCE_SUM_MAX_N
    parts = (ARM, GRIP, BASE)
    keys = ("goal_to_agent_gps_compass", "obj_goal_sensor", *HAND_KEYS)
    critic_measures = ("geodesic_dist_to_goal", "ee_to_object_distance", "object_to_goal_distance", "did_pick_object")
    surroundings_size = WAY_SIZE + SIZE
    max_steps = REARRANGE_STEPS

    @staticmethod
    def ended(sim: Simulator, goal: Goal, action: Action, progress: Progress) -> bool:
        """Set down, or with a wrong thing in hand."""
        return sim.held not in ("", goal.object) or (progress.grasped and sim.held == "")

    @staticmethod
    def achieved(sim: Simulator, goal: Goal) -> bool:
        return Place.achieved(sim, goal)

    @classmethod
    def observe(cls, sim: Simulator, obs: str, goal: NDArray[np.float64], memory: CallMemory) -> Observation:
        """Read its sensors; they tell of the object's start, and with something in hand of its goal."""
        read = super().observe(sim, obs, goal[1:] if sim.held else goal[:1], memory)
        if not sim.held:
            memory.pop(TAKEN, None)
        else:
            if TAKEN not in memory and (taken := taken_at(sim, tuple(goal[0].tolist()))) is not None:
                memory[TAKEN] = np.array(taken, np.float32)
            from_what_is_held(read, memory)
        return read

    def draw(self, scene: Scene, rng: np.random.Generator, index: int, kind: StartKind) -> Iterator[Start]:
        episode = make_episode("tidy_house", self.split, index)
        number = int(rng.integers(len(episode.targets)))
        target, earlier = episode.targets[number], episode.targets[:number]
        yaws = {name: yaw for name, (_, yaw) in episode.objects.items()}
        episode = replace(
            episode, objects={**episode.objects, **{t.object: (t.goal_pos, yaws[t.object]) for t in earlier}}
        )
        goal = Goal(target.start_pos, target.object, then=target.goal_pos)
        if not earlier:
            yield Start(episode, goal)
            return
        last = earlier[-1]
        grid = grid_with_openings(scene, load_grid(scene.seed), episode.joints)
        for pose in poses_near(grid, rng, scene.receptacle(last.goal_receptacle), last.goal_pos):
            yield Start(replace(episode, robot=pose), goal)

    def _begin(self, start: Start) -> None:
        super()._begin(start)
        name, then = start.goal.object, start.goal.then
        assert then is not None
        self._aim = then
        target = start.episode.target(name)
        scene, joints = self.sim.scene, start.episode.joints
        lies, goes = moved_receptacle(scene, target.start_receptacle, joints), scene.receptacle(target.goal_receptacle)
        self._ways = HandPath(lies), HandPath(goes)
        self._floor = (
            FloorDistance.to_work(scene, joints, lies, start.episode.objects[name][0]),
            FloorDistance.to_work(scene, joints, goes, then),
        )

    def measure(self, common: Common) -> RearrangeState:
        sim, name = self.sim, self.goal.object
        held = common.held == name
        before = self._state if self.steps else None
        place = sim.object_pos(name)
        point = place.tolist()
        to_object, to_goal = self._ways
        return RearrangeState(
            *common,
            target=name,
            floor_m=self._floor[held](sim.base),
            object_m=ee_distance(sim, place),
            goal_m=math.dist(point, self._aim),
            way_m=to_goal(point, self._aim) if held else to_object(sim.ee_pos.tolist(), point),
            picked=held or (before is not None and before.picked),
        )

    def surroundings(self) -> list[float]:
        """The way of the base, and of the hand, to the object, or with it to its goal."""
        sim, name = self.sim, self.goal.object
        held, place, pose = sim.held == name, sim.object_pos(name).tolist(), RobotPose(sim)
        to_object, to_goal = self._ways
        hands = (
            to_goal.surroundings(pose, place, self._aim)
            if held
            else to_object.surroundings(pose, sim.ee_pos.tolist(), place)
        )
        return [*self._floor[held].way(sim.base), *hands]

    def rewards(self, was: RearrangeState, now: RearrangeState) -> dict[str, float]:
        return {
            "distance": was.floor_m - now.floor_m if was.held == now.held else 0.0,
            "reach": reach_reward(was, now),
            "pick": PICK_REWARD if now.picked and not was.picked else 0.0,
            "place": PLACE_REWARD if was.held == now.target and placed(now) else 0.0,
            "wrong_object": -WRONG_OBJECT_PEN if wrong_object(now) else 0.0,
        }

    def succeeded(self, now: RearrangeState, action: Action) -> bool:
        return now.picked and placed(now)

    def failure(self, was: RearrangeState, now: RearrangeState, action: Action) -> str:
        if wrong_object(now):
            return "wrong object"
        return "dropped" if now.picked and now.held == "" else ""

    def measures(self, now: RearrangeState) -> dict[str, Any]:
        return {
            "geodesic_dist_to_goal": now.floor_m,
            "ee_to_object_distance": now.object_m,
            "object_to_goal_distance": now.goal_m,
            "did_pick_object": now.picked,
        }


def reach_reward(was: RearrangeState, now: RearrangeState) -> float:
    """Reward the hand's coming nearer to the object, and with it to its goal, from nearby."""
    if was.held != now.held:
        return 0.0
    return DISTANCE_REWARD * to_mm(was.way_m - now.way_m) if max(was.way_m, now.way_m) < NEAR_M else 0.0


def placed(now: RearrangeState) -> bool:
    return now.held == "" and now.goal_m < PLACED_M
