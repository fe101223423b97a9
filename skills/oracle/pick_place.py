"""Oracle Pick and Place: raise the arm, drive in, close the last centimetres along the cup's axis, back out.

They read object poses and the map; they act like any skill. With `base_movement` off only the arm moves.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hab.actions import Action
from hab.measures import AT_REST_M, base_to_world
from hab.objects import OBJECTS
from hab.robot import REST_EE_BASE
from hab.scene import Receptacle
from hab.simulator import Simulator
from skills.oracle.arm import PAN_X_M, ArmPose, cup_pose, resting_near, solve
from skills.oracle.motion import Motion, Script
from skills.oracle.navigate import drive_to, must_go_round
from skills.oracle.surroundings import (
    PITCHES,
    Reach,
    backed_off,
    depth_inside,
    grid_now,
    nearest_on_line,
    pitches_for,
    reaches,
    receptacle_at,
    rim_m,
    under_board,
    way_out,
)
from skills.skill import Goal

APPROACH_M = 0.05
"""The last stretch, along the cup's axis, starts this far from the object's surface."""
LIFT_M = 0.06
FOLD_BELOW_M = 0.80
"""After setting down lower than this the arm folds up while the base backs out; higher, it would sweep the object."""
RIM_CLEAR_M = 0.04
RETREAT_M = 0.30
ARM_LENGTH_M = 0.85
"""Base centre to the end of the resting arm, with an object in hand."""
RETRIES = 3
FALLEN_COST = 400.0
"""Setting an object down upright may take this many control steps; a fallen one is set down as it is."""
PLACE_LIFT_M = 0.07
MAX_TILT_RAD = np.deg2rad(20.0)
"""What is set down this much off upright rights itself."""


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
        name = goal.object
        if self._base_movement and must_go_round(sim, goal):
            yield from drive_to(motion, goal, stand_off=True)
        for _ in range(RETRIES):
            position = sim.object_pos(name)
            receptacle = receptacle_at(sim, position)

            def clearance(pitch: float) -> float:
                over_rim = (rim_m(receptacle) + RIM_CLEAR_M) / math.sin(pitch) if rim_m(receptacle) else 0.0
                return max(APPROACH_M + thickness(name, pitch), over_rim)

            lift = max(LIFT_M, rim_m(receptacle) + RIM_CLEAR_M, rise_over_others(sim, name, position))
            reach = self._choose_reach(motion, position, name, clearance, lift)
            clear = clearance(reach.pitch)
            yield from move_in(motion, position, reach, clear, 0.0, self._base_movement, receptacle)
            motion.suction = True
            at = cup_pose(in_base(sim, sim.object_pos(name)), reach.pitch)
            # Past the centre by a little: a bowl's bottom lies below it.
            yield from touch(motion, at, clear, thickness(name, reach.pitch) + 0.02, -0.04)
            if sim.held:
                break
            motion.suction = False
            yield from motion.arm_line(motion.pose(), backed_off(at, clear))
        yield from move_out(motion, motion.pose(), reach.lift_m, self._base_movement, position)
        while True:
            yield motion.action()

    def _choose_reach(
        self,
        motion: Motion,
        position: NDArray[np.float64],
        name: str,
        clear_m: Callable[[float], float],
        lift_m: float,
    ) -> Reach:
        for pitches in (self._pitches(motion.sim, name), PITCHES):
            found = choose_reach(
                motion,
                position,
                pitches,
                clear_m,
                lift_m,
                self._base_movement,
                touch_m=lambda pitch: thickness(name, pitch),
            )
            if found is not None:
                return found
        return Reach(0.75, PITCHES[0], math.inf, 0.0)

    def _pitches(self, sim: Simulator, name: str) -> tuple[float, ...]:
        """Return the pitches that get at the object and, in the same grip, at its goal."""

        def contact(pitch: float) -> float:
            return OBJECTS[name].half_height_m + thickness(name, pitch) * math.sin(pitch)

        position = sim.object_pos(name)
        here = pitches_for(receptacle_at(sim, position), position, contact)
        target = next((t for t in sim.episode.targets if t.object == name), None)
        if target is not None:
            there = pitches_for(receptacle_at(sim, target.goal_pos), target.goal_pos, contact)
            # The object may be set down a little tilted.
            fitting = {p for p in here if is_ball(name) or min(abs(p - q) for q in there) <= MAX_TILT_RAD}
            here = fitting or here
        return tuple(sorted(here, reverse=True))


class OraclePlace:
    """`skills.skill.SkillPolicy`."""

    def _choose_grip(
        self, motion: Motion, name: str, position: NDArray[np.float64], receptacle: Receptacle
    ) -> tuple[float, Reach]:
        """Choose the cup's pitch at the goal: upright or nearly so, and flat enough to get in; else what can be had."""
        sim = motion.sim
        upright = upright_pitch(sim, name)

        def contact(pitch: float) -> float:
            return OBJECTS[name].half_height_m - object_in_cup(sim, name, pitch)[2]

        fitting = max(pitches_for(receptacle, position, contact))
        # An object set down beyond `MAX_TILT_RAD` may fall over, within its goal's radius: worth it for a few seconds.
        tilts = [upright + part * MAX_TILT_RAD for part in (0.0, 0.5, -0.5, 1.0, -1.0, 1.5, -1.5, 2.0, -2.0)]
        near = [(p, 30.0 * (abs(p - upright) / MAX_TILT_RAD) ** 1.5) for p in tilts]
        if is_ball(name):
            near = [(p, 0.0) for p in PITCHES]
        if under_board(receptacle):
            near = [(p, cost) for p, cost in near if p < fitting + 0.03] or near[-1:]
        best = _choose(motion, name, position, near, self._base_movement)
        if best is None or best[2] > FALLEN_COST:
            anyhow = [(p, 60.0 + 60.0 * abs(p - upright)) for p in PITCHES if p <= fitting]
            other = _choose(motion, name, position, anyhow, self._base_movement)
            if other is not None and (best is None or other[2] < best[2]):
                best = other
        return (best[0], best[1]) if best else (upright, Reach(0.75, upright, math.inf, 0.0))

    def __init__(self, base_movement: bool) -> None:
        self._base_movement = base_movement

    def reset(self, sim: Simulator, goal: Goal) -> None:
        self._script = self._run(sim, goal)

    def act(self, sim: Simulator) -> Action:
        return next(self._script)

    def _run(self, sim: Simulator, goal: Goal) -> Script:
        motion = Motion(sim)
        motion.suction = True
        if self._base_movement and must_go_round(sim, goal):
            yield from drive_to(motion, goal, stand_off=True)
        position = np.asarray(goal.position)
        receptacle = receptacle_at(sim, position)
        pitch, reach = self._choose_grip(motion, goal.object, position, receptacle)
        ahead, left, _ = object_in_cup(sim, goal.object, pitch)
        up = cup_below(sim, goal.object, pitch)

        def cup_at(height: float) -> NDArray[np.float64]:
            """Base-frame point of the cup that has the object over its goal, `height` above it."""
            point = in_base(sim, position)
            # The object sits off the cup's axis: aim the arm so that it, not the cup, is over the goal.
            azimuth = math.atan2(point[1], point[0] - PAN_X_M) - math.asin(max(-0.5, min(0.5, left / math.hypot(*point[:2]))))
            forward_axis = np.array([math.cos(azimuth), math.sin(azimuth), 0.0])
            left_axis = np.array([-math.sin(azimuth), math.cos(azimuth), 0.0])
            return point - ahead * forward_axis - left * left_axis + np.array([0.0, 0.0, height - up])

        clear = reach.lift_m
        yield from move_in(motion, position, reach, 0.0, clear - up, self._base_movement, receptacle, ahead)
        above, at = cup_pose(cup_at(clear), pitch), cup_pose(cup_at(-0.01), pitch)
        q = solve(above)
        if q is not None:
            yield from motion.arm_to(q, timeout=80)
        yield from motion.arm_line(above, at, step_m=0.006)
        yield from motion.wait(6)
        motion.suction = False
        yield from motion.wait(3)
        yield from motion.arm_line(motion.pose(), backed_off(motion.pose(), 0.04), step_m=0.01)
        yield from move_out(motion, motion.pose(), clear, self._base_movement, position)
        while True:
            yield motion.action()


def cup_below(sim: Simulator, name: str, pitch: float) -> float:
    """Return how far (m) the cup is below where the object's centre goes, with the object resting as it is held.

    An object that hangs tilted, or has fallen over, rests with its centre at another height than an upright one.
    """
    model = OBJECTS[name]
    turn = np.array([[math.cos(pitch), 0.0, math.sin(pitch)], [0.0, 1.0, 0.0], [-math.sin(pitch), 0.0, math.cos(pitch)]])
    held = turn @ sim.ee_mat.T @ object_mat(sim, name)
    resting = float(np.abs(held[2]) @ np.array([*model.half_extents[:2], model.half_height_m]))
    return object_in_cup(sim, name, pitch)[2] - (resting - model.half_height_m)


def touch(motion: Motion, at: ArmPose, clear_m: float, slow_m: float, end_m: float) -> Script:
    """Move the cup along its axis from `clear_m` before a point towards `end_m`, slowly from `slow_m` on.

    Ends at the first hold: the arm stops where it is, so that its momentum does not break the seal.
    """
    legs = ((clear_m, min(slow_m, clear_m), 0.008), (min(slow_m, clear_m), end_m, 0.003))
    for start, end, step in legs:
        for action in motion.arm_line(backed_off(at, start), backed_off(at, end), step_m=step):
            yield action
            if motion.sim.held:
                motion.arm_goal = motion.sim.arm
                yield from motion.wait(3)
                return


def rise_over_others(sim: Simulator, name: str, position: NDArray[np.float64]) -> float:
    """Return how far (m) an object at a position must be lifted to pass over what stands between it and the base."""
    x, y, _ = sim.base
    bottom = float(position[2]) - OBJECTS[name].half_height_m
    way = np.array([x, y]) - position[:2]
    length = float(np.hypot(*way))
    rise = 0.0
    for other, model in OBJECTS.items():
        place = sim.object_pos(other)
        ahead = float((place[:2] - position[:2]) @ way) / length
        aside = abs(float(way[0] * (place[1] - position[1]) - way[1] * (place[0] - position[0]))) / length
        if (
            other not in (name, sim.held)
            and 0.0 < ahead < length
            and aside < OBJECTS[name].radius_m + model.radius_m + 0.03
            and abs(place[2] - model.half_height_m - bottom) < 0.1
        ):
            rise = max(rise, float(place[2]) + model.half_extents[2] - bottom + 0.03)
    return rise


def is_ball(name: str) -> bool:
    """Whether an object has no upright."""
    return len(set(OBJECTS[name].half_extents)) == 1


def thickness(name: str, pitch: float) -> float:
    """Return how far (m) an upright object reaches from its centre towards a cup that comes at a pitch."""
    model = OBJECTS[name]
    return min(model.half_extents[2] / max(math.sin(pitch), 1e-6), model.radius_m / max(math.cos(pitch), 1e-6))


def _choose(
    motion: Motion, name: str, position: NDArray[np.float64], pitches: Sequence[tuple[float, float]], base_movement: bool
) -> tuple[float, Reach, float] | None:
    """Return the cheapest of some (pitch, extra cost) as pitch, reach and cost in control steps."""
    best: tuple[float, Reach, float] | None = None
    lift = max(PLACE_LIFT_M, rise_over_others(motion.sim, name, position))
    for pitch, extra in pitches:
        ahead = object_in_cup(motion.sim, name, pitch)[0]
        height = float(position[2]) - cup_below(motion.sim, name, pitch)
        found = choose_reach(
            motion, position, (pitch,), lambda _: 0.0, lift, base_movement, height, ahead
        )
        if found is not None and (best is None or found.cost_steps + extra < best[2]):
            best = pitch, found, found.cost_steps + extra
    return best


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
    stretch_m: float = 0.02,
    touch_m: Callable[[float], float] = lambda pitch: 0.0,
) -> Reach | None:
    """Choose how far from the object to stand and how steeply to come at it.

    Distances are the object's; `ahead_m` is how far the object is in front of the cup.
    """
    sim = motion.sim
    x, y, _ = sim.base
    height = float(position[2]) if cup_height_m is None else cup_height_m
    found = next(
        (
            found
            for lift in (lift_m, 0.75 * lift_m, 0.5 * lift_m, 0.02)
            if (found := reaches(height, pitches, clear_m, lift, stretch_m))
        ),
        [],
    )
    if not found:
        return None
    # Touching or lifting inside the resting place would end the skill there and then.
    found = [
        replace(r, cost_steps=r.cost_steps + 150.0 * any(near_rest(r, height + up, touch_m) for up in (0.0, r.lift_m)))
        for r in found
    ]
    found.sort(key=lambda r: r.cost_steps)
    now = math.hypot(position[0] - x, position[1] - y)
    if not base_movement:
        return min(found, key=lambda r: (abs(r.distance_m + ahead_m - now) > 0.03, r.cost_steps, r.distance_m))
    angle = math.atan2(y - position[1], x - position[0])
    closest = nearest_on_line(grid_now(sim), position, angle, max(now, 0.5))
    near_enough = [r for r in found if r.distance_m + ahead_m >= closest - 0.005]
    return near_enough[0] if near_enough else max(found, key=lambda r: r.distance_m)


def near_rest(reach: Reach, height_m: float, touch_m: Callable[[float], float]) -> bool:
    """Whether the cup, touching `touch_m(pitch)` before the point at a reach and height, is in its resting place."""
    ahead = reach.distance_m - touch_m(reach.pitch) * math.cos(reach.pitch)
    up = height_m + touch_m(reach.pitch) * math.sin(reach.pitch)
    return math.hypot(ahead - REST_EE_BASE[0], up - REST_EE_BASE[2]) < AT_REST_M + 0.03


def move_in(
    motion: Motion,
    position: NDArray[np.float64],
    reach: Reach,
    clear_m: float,
    rise_m: float,
    base_movement: bool,
    receptacle: Receptacle | None = None,
    ahead_m: float = 0.0,
) -> Script:
    """Bring the arm to its pose before the object and drive straight in until the object is at the reach.

    The arm moves while the base drives, unless the hand has to get over the receptacle's edge or under a board first.
    """
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
    if receptacle is None or under_board(receptacle):
        # The arm unfolds in front of the board or the drawer, not under or through it.
        outside = reach.distance_m + ahead_m
        if receptacle is not None:
            outside += depth_inside(receptacle, position) + 0.08 - clear_m * math.cos(reach.pitch)
        yield from motion.turn_to(bearing)
        if math.hypot(position[0] - x, position[1] - y) < outside:
            end = (position[0] - outside * math.cos(bearing), position[1] - outside * math.sin(bearing))
            yield from motion.drive_line(end, bearing)
    motion.arm_goal = q
    yield from motion.turn_to(bearing)
    if receptacle is None or under_board(receptacle) or hand_bottom(sim) < receptacle.center[2] + rim_m(receptacle) + 0.04:
        yield from motion.arm_to(q)
    distance = reach.distance_m + ahead_m
    end = (position[0] - distance * math.cos(bearing), position[1] - distance * math.sin(bearing))
    yield from motion.drive_line(end, bearing)
    yield from motion.turn_to(bearing, tolerance=0.02, timeout=40)
    yield from motion.arm_to(q)


def hand_bottom(sim: Simulator) -> float:
    """Return the height (m) of the lowest point of the hand and what it holds, at worst."""
    if sim.held in OBJECTS:
        model = OBJECTS[sim.held]
        return float(sim.object_pos(sim.held)[2]) - max(model.radius_m, *model.half_extents)
    return float(sim.ee_pos[2])


def move_out(
    motion: Motion, pose: ArmPose, lift_m: float, base_movement: bool, position: NDArray[np.float64]
) -> Script:
    """Lift the cup, back the base out as far as there is room, and bring the cup to its resting position."""
    sim = motion.sim
    lifted = next(
        (
            to
            for rise in (lift_m, 0.7 * lift_m, 0.4 * lift_m)
            for back in (0.0, 0.03, 0.06)
            if solve(to := ArmPose(pose.azimuth, pose.radius - back, pose.z + rise, pose.pitch)) is not None
        ),
        pose,
    )
    yield from motion.arm_line(pose, lifted, step_m=0.01)
    if base_movement:
        receptacle = receptacle_at(sim, position)
        x, y, yaw = sim.base
        if not sim.held and not under_board(receptacle) and pose.z < FOLD_BELOW_M:
            motion.arm_goal = resting_near(sim.arm_target)
        # Out until the resting arm, and what hangs from it, is clear of the edge. The cup stays away from its resting
        # place for so long: there the skill ends, and the chain lowers the arm.
        away = ARM_LENGTH_M + way_out(receptacle, position, yaw + math.pi)
        away -= math.hypot(position[0] - x, position[1] - y)
        grid = grid_now(sim)
        room = 0.0
        while room < max(RETREAT_M, away) and grid.is_free(x - (room + 0.1) * math.cos(yaw), y - (room + 0.1) * math.sin(yaw)):
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


