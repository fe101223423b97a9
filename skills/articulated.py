"""Open and Close for drawers and the fridge: draw the handle, or push the front, and bring the hand back to rest.

habitat's Close Cabinet starts 0.3 m behind the opened front; our arm cannot fold that far, so it is 0.55 to 0.65 m
here. There is no stop action: the VER paper's manipulation skills have none, so success does not ask for it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from hab import sensors
from hab.actions import ARM, GRIP, Action
from hab.episodes import load_grid, make_episode
from hab.measures import (
    AT_REST_M,
    CLOSED_SLACK,
    OPEN_SLACK,
    articulation_closed,
    articulation_open,
    at_rest,
)
from hab.openings import (
    against_wall,
    free_edge,
    grid_with_openings,
    handle_at,
    opened_position,
    rotated,
    swing,
    world_to_link,
)
from hab.scene import DRAWER_OPEN_M, FRIDGE_OPEN_RAD, Articulation, Scene
from hab.sensors import RobotPose
from hab.simulator import Simulator
from skills.oracle.articulated import AJAR_RAD, OracleClose, OracleOpen
from skills.skill import Goal, Progress
from skills.starts import (
    FIXED_YAW_MAX_RAD,
    YAW_NOISE_RAD,
    Start,
    StartKind,
    at_position,
    facing,
    fixed_yaw_noise,
    handover_poses,
)
from skills.task import HAND_KEYS, Common, SkillTask, State, ee_distance

STATE_REWARD = 10.0
"""Per metre or radian that the joint comes nearer to its goal."""
GRASP_REWARD = WRONG_HANDLE_PEN = 5.0
REACHED_REWARD = 5.0
HANDLE_REWARD = 1.0
EDGE_REWARD = 10.0
"""Per metre of the hand's way round a door's free edge: without base movement, once the door is ajar (`AJAR_RAD`), from
where that is pushed on from within."""
BESIDE_EDGE_M, BEHIND_EDGE_M = 0.15, 0.14
"""The hand gets so far past the edge on its way in, and pushes from so far behind it."""
SPAWN_REGION_SCALE = 0.2
"""Start boxes shrink to this share of their sides (habitat's `spawn_region_scale`); `fixed_boxes_m` are as they
stand."""
HANDOVER_RAD = 1.3
"""Navigate comes from the side at most this far off the direction in which the front looks."""
FLOOR_MAX_M = 2.5
"""Base to where one stands before the shut front, along the floor; a door that stands wide open may look into another
room."""
_CANDIDATES = 30

Range = tuple[float, float]


@dataclass
class ArticulatedState(State):
    target: str
    left: float
    """From the joint's position to its goal (m or rad)."""
    reached: bool
    """Whether the joint is at its goal."""
    grasped: bool
    """Whether the right handle was held at any time."""
    reached_before: bool
    handle_m: float
    """End-effector to handle."""
    edge_m: float | None = None
    """The end-effector's way round the door's free edge to where it pushes from within; None: it does not have to."""


class Articulated(SkillTask[ArticulatedState]):
    """What the four tasks share. The base starts in a box before the handle, facing it, give or take."""

    keys = ("handle_start_sensor", "ee_pos", *HAND_KEYS)
    """habitat's, and where the handle is when closed, as Pick gets its object's place: drawers lie above each other,
    and nothing else says which one is meant."""
    surroundings_size = 6
    critic_measures = ("art_obj_state", "art_obj_at_desired_state", "ee_dist_to_marker", "did_grasp_handle")
    slack_reward = 0.0
    force_pen_per_n = 0.0

    kind: ClassVar[str]
    start_range: ClassVar[Range] = (0.0, 0.0)
    """Joint positions (m or rad) at the start."""
    fixed_start_range: ClassVar[Range | None] = None
    """The same without base movement, if it is another."""
    goal_position: ClassVar[float]
    box_x_m: ClassVar[Range]
    """Base, out of the front from the handle."""
    box_y_m: ClassVar[Range]
    """Base, along the front from the handle."""
    fixed_boxes_m: ClassVar[tuple[tuple[Range, Range], ...]] = ()
    """Boxes without base movement, if they are others, the preferred first; y away from the hinge."""
    fixed_corner_boxes_m: ClassVar[tuple[tuple[Range, Range], ...]] = ()
    """The same of a fridge in a corner."""
    fixed_yaw_rad: ClassVar[float] = FIXED_YAW_MAX_RAD
    """How far off the handle a base looks that will not move."""
    rest_reward_per_m: ClassVar[float]

    def draw(self, scene: Scene, rng: np.random.Generator, index: int, kind: StartKind) -> Iterator[Start]:
        """The chain's: as Navigate leaves the base; to one that cannot move it hands nothing over, so there the base
        stands as ever, and the joint part of the way to its goal, where the last of the work is learnt first."""
        episode = make_episode("set_table", self.split, index)
        choices = [a for a in scene.articulations if a.kind == self.kind]
        articulation = choices[int(rng.integers(len(choices)))]
        start_range = (not self.base_movement and self.fixed_start_range) or self.start_range
        position = begun = opened_position(rng, articulation, start_range)
        if kind == "chain" and not self.base_movement:
            begun += float(rng.uniform()) * (self.goal_position - position)
        if begun:
            episode = at_position(scene, episode, articulation.name, begun)
        handle = handle_at(articulation, position)
        # What an opened door in a corner looks at is the wall: one stands where its fridge looks.
        turned = 0.0 if against_wall(articulation) else swing(articulation, position)
        outward = articulation.yaw + turned
        grid = grid_with_openings(scene, load_grid(scene.seed), episode.joints)
        shut = handle_at(articulation, 0.0)
        goal = Goal(shut, "", articulation.name)
        before = self._before(shut, articulation.yaw)
        near = grid.cells_near(before, FLOOR_MAX_M) if turned else grid.largest_component
        if kind == "chain" and self.base_movement:
            for pose in handover_poses(grid, rng, handle, self._before(handle, outward)):
                aside = abs(math.remainder(facing(handle, pose) - outward, math.tau))
                if near[grid.cell(*pose[:2])] and aside < HANDOVER_RAD:
                    yield Start(replace(episode, robot=pose), goal)
            return
        fixed = (against_wall(articulation) and self.fixed_corner_boxes_m) or self.fixed_boxes_m
        boxes = (not self.base_movement and fixed) or (
            (_shrunk(self.box_x_m, SPAWN_REGION_SCALE), _shrunk(self.box_y_m, SPAWN_REGION_SCALE)),
        )
        mirrored = not self.base_movement and articulation.axis[2] > 0.0
        for box_x_m, box_y_m in (box for box in boxes for _ in range(_CANDIDATES)):
            along = rng.uniform(*box_x_m), rng.uniform(*((-box_y_m[1], -box_y_m[0]) if mirrored else box_y_m))
            offset = rotated(outward, along)
            x, y = handle[0] + float(offset[0]), handle[1] + float(offset[1])
            noise = (
                YAW_NOISE_RAD * float(rng.standard_normal())
                if self.base_movement
                else fixed_yaw_noise(rng, self.fixed_yaw_rad)
            )
            yaw = facing((x, y), handle) + noise
            if grid.is_free(x, y) and near[grid.cell(x, y)]:
                yield Start(replace(episode, robot=(x, y, yaw)), goal)

    def _before(self, handle: Sequence[float], outward: float) -> tuple[float, float]:
        """Return the middle of the start box: so far before a handle, the way its front looks (rad)."""
        x, y = rotated(outward, (sum(self.box_x_m) / 2.0, 0.0))
        return handle[0] + float(x), handle[1] + float(y)

    def measure(self, common: Common) -> ArticulatedState:
        name, sim = self.goal.articulation, self.sim
        position = sim.joint_pos(name)
        before = self._state if self.steps else None
        return ArticulatedState(
            *common,
            target=name,
            left=abs(position - self.goal_position),
            reached=self.at_goal(position),
            grasped=common.held == name or (before is not None and before.grasped),
            reached_before=before is not None and (before.reached or before.reached_before),
            handle_m=ee_distance(sim, sim.handle_pos(name)),
        )

    def surroundings(self) -> list[float]:
        """Where the handle is now, in the base's frame (3); the joint's position; cosine and sine of the direction in
        which the front looks, seen from the base."""
        name, sim = self.goal.articulation, self.sim
        position, articulation = sim.joint_pos(name), sim.scene.articulation(name)
        looks = articulation.yaw + swing(articulation, position) - float(sim.base[2])
        handle = sensors.in_base_frame(RobotPose(sim), sim.handle_pos(name))
        return [*handle, position, math.cos(looks), math.sin(looks)]

    def at_goal(self, position: float) -> bool:
        """Whether a joint position (m or rad) will do."""
        raise NotImplementedError

    def rewards(self, was: ArticulatedState, now: ArticulatedState) -> dict[str, float]:
        return {
            "state": state_reward(was, now),
            "grasp": GRASP_REWARD if now.grasped and not was.grasped else 0.0,
            "wrong_handle": -WRONG_HANDLE_PEN if wrong_handle(now) else 0.0,
            "reached": REACHED_REWARD if now.reached and not now.reached_before else 0.0,
            "handle": handle_reward(was, now),
            "rest": rest_reward(was, now, self.rest_reward_per_m),
        }

    def succeeded(self, now: ArticulatedState, action: Action) -> bool:
        return now.reached and now.held == "" and now.rest_m < AT_REST_M

    def failure(self, was: ArticulatedState, now: ArticulatedState, action: Action) -> str:
        return "wrong handle" if wrong_handle(now) else ""

    def measures(self, now: ArticulatedState) -> dict[str, Any]:
        return {
            "art_obj_state": self.sim.joint_pos(self.goal.articulation),
            "art_obj_at_desired_state": now.reached,
            "ee_dist_to_marker": now.handle_m,
            "did_grasp_handle": now.grasped,
        }


class Open(Articulated):
    parts, oracle = (ARM, GRIP), OracleOpen
    rest_reward_per_m = 10.0

    @staticmethod
    def ended(sim: Simulator, goal: Goal, action: Action, progress: Progress) -> bool:
        """Something was held, nothing is, and the hand is at rest."""
        return progress.grasped and sim.held == "" and at_rest(sim)

    @staticmethod
    def achieved(sim: Simulator, goal: Goal) -> bool:
        """It is open far enough for what comes after."""
        return articulation_open(sim, goal.articulation)

    def at_goal(self, position: float) -> bool:
        return position > self.goal_position - OPEN_SLACK


class Close(Articulated):
    """The suction is off: fronts are pushed."""

    parts, oracle = (ARM,), OracleClose
    goal_position = 0.0
    rest_reward_per_m = 1.0

    @staticmethod
    def ended(sim: Simulator, goal: Goal, action: Action, progress: Progress) -> bool:
        """The hand was away from where it began, and is at rest."""
        return progress.left_start and sim.held == "" and at_rest(sim)

    @staticmethod
    def achieved(sim: Simulator, goal: Goal) -> bool:
        """It is shut."""
        return articulation_closed(sim, goal.articulation)

    def at_goal(self, position: float) -> bool:
        return abs(position) < CLOSED_SLACK


class OpenCabinet(Open):
    skill, number, kind = "open_cabinet", 5, "cabinet"
    goal_position = DRAWER_OPEN_M
    box_x_m, box_y_m = (0.80, 0.95), (-0.35, 0.35)


class OpenFridge(Open):
    skill, number, kind = "open_fridge", 3, "fridge"
    force_sum_max_n = 20_000.0
    goal_position = FRIDGE_OPEN_RAD
    box_x_m, box_y_m = (0.833, 1.25), (-0.6, 0.6)
    # From where the arm draws the door ajar and then gets round its edge; nearer to the hinge if a wall is in the way.
    fixed_boxes_m = ((0.95, 1.05), (0.38, 0.53)), ((1.08, 1.17), (0.04, 0.20))
    # Further round, and the shoulder meets the head.
    fixed_yaw_rad = 0.3

    def measure(self, common: Common) -> ArticulatedState:
        now, name = super().measure(common), self.goal.articulation
        position = self.sim.joint_pos(name)
        if not self.base_movement and position > AJAR_RAD and not now.held:
            now.edge_m = way_behind(self.sim.scene.articulation(name), position, self.sim.ee_pos.tolist())
        return now


class CloseCabinet(Close):
    skill, number, kind = "close_cabinet", 6, "cabinet"
    start_range = (0.4, 0.5)
    box_x_m, box_y_m = (0.55, 0.65), (-0.35, 0.35)
    # From where the arm reaches the handle, opened and closed.
    fixed_boxes_m = ((0.632, 0.648), (-0.04, 0.04)), ((0.60, 0.68), (-0.2, 0.2))


class CloseFridge(Close):
    skill, number, kind = "close_fridge", 4, "fridge"
    start_range = (math.pi / 4, 2 * math.pi / 3)
    # Wider open, and its handle's arc is longer than the arm.
    fixed_start_range = (math.pi / 4, 0.9)
    box_x_m, box_y_m = (0.833, 1.25), (-0.6, 0.6)
    # From where the arm reaches the panel beside the handle until it is shut.
    fixed_boxes_m = ((0.68, 0.70), (-0.34, -0.26)), ((0.64, 0.74), (-0.5, -0.1))
    # Nearer, the arm does not get round the door's edge; farther off, not to where it is shut.
    fixed_corner_boxes_m = (((0.60, 0.68), (-0.12, 0.0)),)


def state_reward(was: ArticulatedState, now: ArticulatedState) -> float:
    """Reward the joint coming nearer to its goal, until it is there."""
    return 0.0 if now.reached else STATE_REWARD * (was.left - now.left)


def handle_reward(was: ArticulatedState, now: ArticulatedState) -> float:
    """Reward coming nearer to the handle until it is held, or to where the hand pushes a door that is ajar."""
    if now.reached or now.held:
        return 0.0
    if was.edge_m is None and now.edge_m is None:
        return HANDLE_REWARD * (was.handle_m - now.handle_m)
    if was.edge_m is None or now.edge_m is None:
        return 0.0
    return EDGE_REWARD * (was.edge_m - now.edge_m)


def way_behind(door: Articulation, position: float, hand: Sequence[float]) -> float:
    """Return how far (m, along the floor) a hand at a point of the world has to go round a door's free edge, at joint
    position `position`, to where it pushes the door from within."""
    (x, y, _), (_, edge, _) = world_to_link(door, position, hand), free_edge(door)
    beyond = math.copysign(1.0, edge) * (y - edge)
    straight = math.hypot(x + BEHIND_EDGE_M, beyond)
    if x <= 0.0 or beyond * BEHIND_EDGE_M >= BESIDE_EDGE_M * (x + BEHIND_EDGE_M):
        return straight
    return math.hypot(x, beyond - BESIDE_EDGE_M) + math.hypot(BEHIND_EDGE_M, BESIDE_EDGE_M)


def rest_reward(was: ArticulatedState, now: ArticulatedState, per_m: float) -> float:
    """Reward bringing the hand towards its resting position once the joint is at its goal."""
    return per_m * (was.rest_m - now.rest_m) if now.reached else 0.0


def wrong_handle(now: ArticulatedState) -> bool:
    """Whether the hand holds another handle, or an object."""
    return now.held not in ("", now.target)


def _shrunk(side: Range, share: float) -> Range:
    middle, half = (side[0] + side[1]) / 2.0, share * (side[1] - side[0]) / 2.0
    return middle - half, middle + half
