"""Oracle Pick and Place: raise the arm, drive in, close the last centimetres along the cup's axis, back out.

They read object poses and the map; they act like any skill. With `base_movement` off only the arm moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from hab.actions import Action
from hab.measures import AT_REST_M, base_to_world
from hab.objects import OBJECTS
from hab.robot import REST_EE_BASE, REST_Q
from hab.simulator import Simulator
from skills.oracle.arm import PAN_X_M, ArmPose, cup_pose, solve
from skills.oracle.motion import Motion, Script
from skills.oracle.surroundings import (
    PITCHES,
    Reach,
    backed_off,
    grid_now,
    nearest_on_line,
    pitches_for,
    reaches,
    receptacle_at,
)
from skills.skill import Goal

APPROACH_M = 0.05
"""The last stretch, along the cup's axis, starts this far from the object's surface."""
LIFT_M = 0.06
RETREAT_M = 0.40
RETRIES = 3


class OraclePick:
    """`skills.skill.SkillPolicy`."""

    def __init__(self, base_movement: bool) -> None:
        self._base_movement = base_movement

    def reset(self, sim: Simulator, goal: Goal) -> None:
        self._script = self._run(sim, goal)

    def act(self, sim: Simulator) -> Action:
        return next(self._script)

    def _run(self, sim: Simulator, goal: Goal) -> Script:
        motion = Motion(sim)
        goal_receptacle = next(
            (receptacle_at(sim, t.goal_pos) for t in sim.episode.targets if t.object == goal.object), None
        )
        for _ in range(RETRIES):
            position = sim.object_pos(goal.object)
            receptacle = receptacle_at(sim, position)
            # A hand that is to put the object under a board must hold it the same way from the start.
            pitches = tuple(p for p in pitches_for(receptacle) if p in pitches_for(goal_receptacle))

            def clearance(pitch: float) -> float:
                return APPROACH_M + thickness(goal.object, pitch)

            reach = choose_reach(motion, position, pitches, clearance, LIFT_M, self._base_movement)
            clear = clearance(reach.pitch)
            yield from move_in(motion, position, reach, clear, 0.0, self._base_movement)
            motion.suction = True
            at = cup_pose(in_base(sim, sim.object_pos(goal.object)), reach.pitch)
            # Past the centre by a little: the line ends at the first touch.
            for action in motion.arm_line(backed_off(at, clear), backed_off(at, -0.02), step_m=0.005):
                yield action
                if sim.held:
                    break
            if sim.held:
                break
            motion.suction = False
            yield from motion.arm_line(motion.pose(), backed_off(at, clear))
        motion.arm_goal = sim.arm_target
        yield from move_out(motion, motion.pose(), reach.lift_m, self._base_movement)
        while True:
            yield motion.action()


class OraclePlace:
    """`skills.skill.SkillPolicy`."""

    def __init__(self, base_movement: bool) -> None:
        self._base_movement = base_movement

    def reset(self, sim: Simulator, goal: Goal) -> None:
        self._script = self._run(sim, goal)

    def act(self, sim: Simulator) -> Action:
        return next(self._script)

    def _run(self, sim: Simulator, goal: Goal) -> Script:
        motion = Motion(sim)
        motion.suction = True
        position = np.asarray(goal.position)
        pitch = upright_pitch(sim, goal.object)
        ahead, left, up = object_in_cup(sim, goal.object, pitch)
        def cup_at(height: float) -> NDArray[np.float64]:
            """Base-frame point of the cup that has the object over its goal, `height` above it."""
            point = in_base(sim, position)
            # The object sits off the cup's axis: aim the arm so that it, not the cup, is over the goal.
            azimuth = math.atan2(point[1], point[0] - PAN_X_M) - math.asin(left / max(0.3, math.hypot(*point[:2])))
            forward_axis = np.array([math.cos(azimuth), math.sin(azimuth), 0.0])
            left_axis = np.array([-math.sin(azimuth), math.cos(azimuth), 0.0])
            return point - ahead * forward_axis - left * left_axis + np.array([0.0, 0.0, height - up])

        cup_height = float(position[2] - up)
        reach = choose_reach(motion, position, (pitch,), lambda _: 0.0, 0.07, self._base_movement, cup_height, ahead)
        clear = reach.lift_m
        yield from move_in(motion, position, reach, 0.0, clear - up, self._base_movement, ahead)
        above, at = cup_pose(cup_at(clear), pitch), cup_pose(cup_at(-0.01), pitch)
        q = solve(above)
        if q is not None:
            yield from motion.arm_to(q, timeout=80)
        yield from motion.arm_line(above, at, step_m=0.004)
        yield from motion.wait(8)
        motion.suction = False
        yield from motion.wait(4)
        yield from motion.arm_line(motion.pose(), backed_off(motion.pose(), 0.05))
        yield from move_out(motion, motion.pose(), reach.lift_m, self._base_movement)
        while True:
            yield motion.action()


@lru_cache(maxsize=1)
def _resting() -> NDArray[np.float64]:
    """Return the arm poses (n, 7) that count as at rest with a margin: the task asks for the cup's place only."""
    found = []
    for radius in np.arange(0.36, 0.60, 0.02):
        for z in np.arange(0.90, 1.11, 0.02):
            if math.hypot(radius + PAN_X_M - REST_EE_BASE[0], z - REST_EE_BASE[2]) < AT_REST_M - 0.05:
                solved = (solve(ArmPose(0.0, float(radius), float(z), float(p))) for p in np.arange(0.2, 1.58, 0.1))
                found += [q for q in solved if q is not None]
    return np.array(found)


def resting_near(q: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the pose (7,) at rest that the arm reaches soonest, the downward ones first when it is a tie."""
    poses = _resting()
    cost = np.abs(poses - q).max(axis=1) + 0.15 * np.abs(poses - REST_Q).max(axis=1)
    return poses[int(np.argmin(cost))]


def thickness(name: str, pitch: float) -> float:
    """Return how far (m) an upright object reaches from its centre towards a cup that comes at a pitch."""
    model = OBJECTS[name]
    return min(model.half_extents[2] / max(math.sin(pitch), 1e-6), model.radius_m / max(math.cos(pitch), 1e-6))


def in_base(sim: Simulator, point: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a world point (3,) in the base frame."""
    origin, rotation = base_to_world(sim)
    return rotation.T @ (point - origin)


def choose_reach(
    motion: Motion,
    position: NDArray[np.float64],
    pitches: tuple[float, ...],
    clear_m: Callable[[float], float],
    lift_m: float,
    base_movement: bool,
    cup_height_m: float | None = None,
    ahead_m: float = 0.0,
) -> Reach:
    """Choose how far from the object to stand and how steeply to come at it.

    Distances are the object's; `ahead_m` is how far the object is in front of the cup.
    """
    sim = motion.sim
    x, y, _ = sim.base
    height = float(position[2]) if cup_height_m is None else cup_height_m
    found = next(
        (
            found
            for allowed in (pitches, PITCHES)
            for lift in (lift_m, 0.5 * lift_m, 0.02)
            if (found := reaches(height, allowed, clear_m, lift))
        ),
        [],
    )
    if not found:
        return Reach(0.75, pitches[0] if pitches else PITCHES[0], math.inf, 0.0)
    now = math.hypot(position[0] - x, position[1] - y)
    if not base_movement:
        return min(found, key=lambda r: (abs(r.distance_m + ahead_m - now) > 0.03, r.cost_steps, r.distance_m))
    angle = math.atan2(y - position[1], x - position[0])
    closest = nearest_on_line(grid_now(sim), position, angle, max(now, 0.5))
    near_enough = [r for r in found if r.distance_m + ahead_m >= closest - 0.005]
    return near_enough[0] if near_enough else max(found, key=lambda r: r.distance_m)


def move_in(
    motion: Motion,
    position: NDArray[np.float64],
    reach: Reach,
    clear_m: float,
    rise_m: float,
    base_movement: bool,
    ahead_m: float = 0.0,
) -> Script:
    """Raise the arm to its pose before the object, then drive straight in until the object is at the reach."""
    sim = motion.sim
    x, y, yaw = sim.base
    bearing = math.atan2(position[1] - y, position[0] - x)
    height = float(position[2]) + rise_m
    at = ArmPose(0.0, reach.distance_m - PAN_X_M, height, reach.pitch)
    q = solve(backed_off(at, clear_m))
    if q is None:
        return
    if not base_movement:
        turned = q.copy()
        turned[0] = math.remainder(bearing - yaw, math.tau)
        yield from motion.arm_to(turned)
        return
    motion.arm_goal = q
    yield from motion.turn_to(bearing)
    yield from motion.arm_to(q)
    distance = reach.distance_m + ahead_m
    end = (position[0] - distance * math.cos(bearing), position[1] - distance * math.sin(bearing))
    yield from motion.drive_line(end, bearing)
    yield from motion.turn_to(bearing, tolerance=0.02, timeout=40)


def move_out(motion: Motion, pose: ArmPose, lift_m: float, base_movement: bool) -> Script:
    """Lift the cup, back the base out as far as there is room, then bring the cup to its resting position."""
    sim = motion.sim
    lifted = ArmPose(pose.azimuth, pose.radius, pose.z + lift_m, pose.pitch)
    q = solve(lifted)
    if q is not None:
        yield from motion.arm_line(pose, lifted, step_m=0.01)
    if base_movement:
        x, y, yaw = sim.base
        grid = grid_now(sim)
        room = 0.0
        while room < RETREAT_M and grid.is_free(x - (room + 0.1) * math.cos(yaw), y - (room + 0.1) * math.sin(yaw)):
            room += 0.05
        yield from motion.drive_line((x - room * math.cos(yaw), y - room * math.sin(yaw)), yaw)
    else:
        pulled = ArmPose(pose.azimuth, max(0.45, pose.radius - 0.25), pose.z + lift_m, pose.pitch)
        if solve(pulled) is not None:
            yield from motion.arm_line(lifted, pulled, step_m=0.01)
    yield from motion.arm_to(resting_near(sim.arm_target))


def upright_pitch(sim: Simulator, name: str) -> float:
    """Return the cup pitch (rad) at which the held object stands upright."""
    up_cup = sim.ee_mat.T @ object_mat(sim, name)[:, 2]
    # With zero rolls the cup frame's x axis is (cos p, -sin p) and its z axis (sin p, cos p) in (out, up).
    return math.atan2(-float(up_cup[0]), float(up_cup[2]))


def object_in_cup(sim: Simulator, name: str, pitch: float) -> tuple[float, float, float]:
    """Return the object's centre from the cup (m): ahead, left and up, once the cup is at `pitch` with zero rolls."""
    local = sim.ee_mat.T @ (sim.object_pos(name) - sim.ee_pos)
    ahead = local[0] * math.cos(pitch) + local[2] * math.sin(pitch)
    up = -local[0] * math.sin(pitch) + local[2] * math.cos(pitch)
    return float(ahead), float(local[1]), float(up)


def object_mat(sim: Simulator, name: str) -> NDArray[np.float64]:
    """Return an object's rotation (3, 3), object to world."""
    w, x, y, z = sim.object_quat(name)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


