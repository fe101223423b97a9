"""Navigate: drive to within 1.5 m of a target, face it and call stop; sometimes with an object in hand.

Our base does 1 m/s where habitat's does 2.5, so habitat's 400 steps are 1000 here; and 0.7 m/s with something in hand,
so the chain's 300 are 1070.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hab.actions import ARM, BASE, GRIP, STOP, Action, stop_called
from hab.arm import cup_pose, solve
from hab.episodes import Episode, Target, load_grid, make_episode
from hab.measures import NAV_ANGLE_RAD, NAV_DISTANCE_M, heading_error, navigated, planar_distance
from hab.navgrid import NavGrid
from hab.openings import grid_with_openings, handle_at
from hab.robot import REST_EE_BASE
from hab.scene import Receptacle, Scene, Vec3
from hab.sensors import Observation
from hab.simulator import Simulator
from skills.floor_distance import WAY_SIZE, FloorDistance
from skills.oracle.navigate import OracleNavigate
from skills.skill import Goal, Progress, arm_rests, towards_rest
from skills.starts import (
    Pose,
    Start,
    StartKind,
    drawn_shove,
    moved_receptacle,
    opened,
    poses_near,
    working_places,
)
from skills.task import SUCCESS_REWARD, Common, SkillTask, State

HELD_PROBABILITY = 0.167
MIN_START_M = 3.0
"""Planar distance from the target at the start."""
TURN_REWARD_M = 3.0
"""Turning towards the target is rewarded within this distance."""
LEFT_M, LEFT_PITCHES_RAD = (0.08, 0.15), (0.4, 1.5)
"""So far from its resting position a skill's last step leaves the hand, and with such pitches."""
WORKING_SHARE = 0.7
"""Share of the chain's start states that are within the arm's reach of what was worked at."""
NEARNESS_REWARD, LEAST_REWARD = 3.0, 2.0
"""What a metre short of where one would work at the target takes off a success, and what is left of it at least."""
ROOM_M = 0.7
"""The last so many metres are worth nothing: Pick and Place, which drive themselves, do better from 1.2 m to 1.4 m off
their target than from nearer, where the hand, and what hangs from it, strikes the edge of what it is to be worked at
(docs/results.md)."""
CARRYING_SHARE = 0.7
"""With something in hand the base drives at that share of what the policy asks for: at full speed what hangs from the
hand strikes the backs of chairs, which the laser does not see, and the suction loses it (docs/tried.md) …"""
SLOW_M, SLOW_SHARE = 1.5, 0.5
"""… and, so near to its target, at that one, because of the edge of what it is brought to."""
TOO_FAR, FACING_AWAY = "stopped too far", "facing away"
_CANDIDATES = 40


@dataclass
class NavigateState(State):
    goal_m: float
    """Base to target, planar."""
    floor_m: float
    """Along the floor, to where one would work at the target."""
    angle_rad: float
    """Off the target, unsigned."""


class Navigate(SkillTask[NavigateState]):
    """Start: a random pose 3 m or more from an object's start, from a drawer or fridge, or, hand full, from a goal."""

    skill, number, oracle = "navigate", 0, OracleNavigate
    parts = (BASE, STOP)
    keys = ("goal_to_agent_gps_compass",)
    surroundings_size = WAY_SIZE
    critic_measures = ("dist_to_goal", "geodesic_dist_to_goal", "rot_dist_to_goal")
    max_steps, chain_steps = 1000, 1070
    map_room_m = 12.0
    force_pen_per_n = 5e-4
    """Five times the others': a task has many drives, and 100,000 N in all, or 10,000 N at once, end it."""

    @staticmethod
    def ended(sim: Simulator, goal: Goal, action: Action, progress: Progress) -> bool:
        return stop_called(action)

    @staticmethod
    def achieved(sim: Simulator, goal: Goal) -> bool:
        """At the target's position, or at the object where it is now (a pulled-out drawer takes its content along)."""
        if navigated(sim, goal.position):
            return True
        return goal.object != "" and sim.held != goal.object and navigated(sim, tuple(sim.object_pos(goal.object)))

    @staticmethod
    def heeded(sim: Simulator, goal: Goal, action: Action) -> Action:
        """With something in hand the base drives slowly, and near its target more so; an arm that does not rest goes on
        going there."""
        if not arm_rests(sim):
            action = {**action, ARM: towards_rest(sim)[ARM]}
        if sim.held == "" or BASE not in action:
            return action
        share = SLOW_SHARE if planar_distance(sim, goal.position) < SLOW_M else CARRYING_SHARE
        return {**action, BASE: share * action[BASE]}

    def draw(self, scene: Scene, rng: np.random.Generator, index: int, kind: StartKind) -> Iterator[Start]:
        scenario = str(rng.choice(("tidy_house", "prepare_groceries", "set_table")))
        episode = make_episode(scenario, self.split, index)
        target = episode.targets[int(rng.integers(len(episode.targets)))]
        container = scene.receptacle(target.start_receptacle).articulation
        held = target.object if rng.random() < (0.5 if kind == "chain" else HELD_PROBABILITY) else ""
        to_closed = not held and container != "" and container not in episode.joints and rng.random() < 0.5
        if not to_closed:
            episode = opened(scene, episode, rng)
        goal = _goal(scene, episode, target, held, container if to_closed else "")
        grid = grid_with_openings(scene, load_grid(scene.seed), episode.joints)
        if kind == "chain":
            for pose in self._after_another(scene, episode, grid, rng):
                if (arm := _arm_left(rng)) is not None:
                    yield Start(replace(episode, robot=pose), goal, held, arm=arm, shove=drawn_shove(rng))
            return
        for _ in range(_CANDIDATES):
            x, y = grid.sample(rng)
            yaw = float(rng.uniform(-math.pi, math.pi))
            if math.dist((x, y), goal.position[:2]) >= MIN_START_M:
                yield Start(replace(episode, robot=(x, y, yaw)), goal, held)

    def _after_another(self, scene: Scene, episode: Episode, grid: NavGrid, rng: np.random.Generator) -> Iterator[Pose]:
        """Yield base poses as another skill leaves them: where one works at some object's start or goal, or near it."""
        other = episode.targets[int(rng.integers(len(episode.targets)))]
        receptacle, at = scene.receptacle(other.goal_receptacle), other.goal_pos
        if rng.random() < 0.5:
            receptacle = moved_receptacle(scene, other.start_receptacle, episode.joints)
            at = episode.objects[other.object][0]
        if rng.random() < WORKING_SHARE:
            yield from working_places(grid, rng, receptacle, at)
        else:
            yield from poses_near(grid, rng, receptacle, at)

    def surroundings(self) -> list[float]:
        """Where the shortest path along the floor leads."""
        assert self._floor is not None
        return self._floor.way(self.sim.base)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        self._floor: FloorDistance | None = None
        return super().reset(seed=seed, options=options)

    def control_step(self, action: Action, total: dict[str, float]) -> tuple[bool, str]:
        # What is in hand stays there: Navigate has no say over the suction.
        action = {**action, GRIP: np.ones(1, np.float32)} if self.sim.held else action
        return super().control_step(action, total)

    def measure(self, common: Common) -> NavigateState:
        sim, position = self.sim, self.goal.position
        if self._floor is None:
            start = self.start
            at = _goal_place(sim.scene, start.episode, start.goal, start.held)
            self._floor = FloorDistance.to_work(sim.scene, start.episode.joints, *at)
            self._shortest_m = self._floor(sim.base)
        return NavigateState(
            *common,
            goal_m=planar_distance(sim, position),
            floor_m=self._floor(sim.base),
            angle_rad=abs(heading_error(sim, position)),
        )

    def rewards(self, was: NavigateState, now: NavigateState) -> dict[str, float]:
        return {"distance": distance_reward(was, now), "turn": turn_reward(was, now)}

    def succeeded(self, now: NavigateState, action: Action) -> bool:
        return stop_called(action) and now.goal_m < NAV_DISTANCE_M and now.angle_rad < NAV_ANGLE_RAD

    def success_reward(self, now: NavigateState) -> float:
        """Reward stopping where the way to where one would work at the target is short: the next skill begins where
        this one stops, and the nearest place to stop may be behind a wall."""
        short_m = max(0.0, now.floor_m - ROOM_M)
        return max(LEAST_REWARD, SUCCESS_REWARD - NEARNESS_REWARD * short_m)

    def failure(self, was: NavigateState, now: NavigateState, action: Action) -> str:
        if was.held and not now.held:
            return "dropped"
        if not stop_called(action):
            return ""
        return FACING_AWAY if now.goal_m < NAV_DISTANCE_M else TOO_FAR

    def measures(self, now: NavigateState) -> dict[str, Any]:
        near = now.goal_m < NAV_DISTANCE_M and now.angle_rad < NAV_ANGLE_RAD
        return {
            "dist_to_goal": now.goal_m,
            "geodesic_dist_to_goal": now.floor_m,
            "rot_dist_to_goal": now.angle_rad,
            "path_length": self.sim.path_m,
            "spl": spl(near, self._shortest_m, self.sim.path_m),
        }


def _arm_left(rng: np.random.Generator) -> tuple[float, ...] | None:
    """Draw joint positions (7,) as a skill leaves them whose hand has just come to where it rests; None if there are
    none."""
    away, up = rng.uniform(*LEFT_M), rng.uniform(-math.pi, math.pi)
    point = REST_EE_BASE + away * np.array((math.cos(up), 0.0, math.sin(up)))
    joints = solve(
        replace(cup_pose(point, float(rng.uniform(*LEFT_PITCHES_RAD))), azimuth=float(rng.uniform(-0.3, 0.3)))
    )
    return None if joints is None else tuple(joints.tolist())


def distance_reward(was: NavigateState, now: NavigateState) -> float:
    """Reward coming nearer along the floor, as far as `ROOM_M`."""
    return max(was.floor_m, ROOM_M) - max(now.floor_m, ROOM_M)


def turn_reward(was: NavigateState, now: NavigateState) -> float:
    """Reward turning towards the target when it is near."""
    near = was.goal_m < TURN_REWARD_M and now.goal_m < TURN_REWARD_M
    return was.angle_rad - now.angle_rad if near else 0.0


def spl(there: bool, shortest_m: float, path_m: float) -> float:
    """Return the success weighted by path length, if stop were called now."""
    return shortest_m / max(shortest_m, path_m, 1e-6) if there else 0.0


def _goal(scene: Scene, episode: Episode, target: Target, held: str, closed: str) -> Goal:
    """Return what to drive to: the goal of what is in hand, a closed receptacle's handle, or the object."""
    if held:
        return Goal(target.goal_pos, held)
    if closed:
        return Goal(handle_at(scene.articulation(closed), 0.0), target.object, closed)
    moved = episode.target(target.object)
    return Goal(moved.start_pos, target.object)


def _goal_place(scene: Scene, episode: Episode, goal: Goal, held: str) -> tuple[Receptacle, Vec3]:
    """Return the receptacle to work at and the position there.

    It is where an object is, rather than where it was before its drawer came out.
    """
    target = episode.target(goal.object)
    name = target.goal_receptacle if held else target.start_receptacle
    at = goal.position if held or goal.articulation else episode.objects[goal.object][0]
    return moved_receptacle(scene, name, episode.joints), at
