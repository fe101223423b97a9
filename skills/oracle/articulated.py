"""Oracle Open and Close for drawers and the fridge: take hold of the handle and draw it along its path, or push it.

The handle's path is known (a line or an arc); arm and base share the way: the cup follows the handle, the base keeps
it at a comfortable distance. Nothing but the cup's contact moves the door.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hab.actions import Action
from hab.arm import ArmPose, cup_pose, resting_near, solve
from hab.measures import CLOSED_SLACK, at_rest
from hab.openings import against_wall, handle_at, link_to_world, rotated, swing
from hab.robot import ARM_DELTA_RAD
from hab.scene import DRAWER_OPEN_M, FRIDGE_OPEN_RAD
from hab.simulator import Simulator
from skills.oracle.ajar import sweep, turn_ahead
from skills.oracle.hand import in_base
from skills.oracle.motion import Motion, Script, Scripted
from skills.oracle.navigate import BOARD_SLANT, follow, plan_route
from skills.oracle.reach import REACH_STEP_M, Reach, backed_off, choose_reach
from skills.oracle.servo import servo_to
from skills.oracle.surroundings import grid_now, room_behind
from skills.skill import Goal

HANDLE_PITCHES = {
    "cabinet": tuple(np.deg2rad((70.0, 60.0, 50.0, 40.0))),
    "fridge": tuple(np.deg2rad((20.0, 15.0))),
    "push": tuple(np.deg2rad((85.0, 75.0, 65.0, 55.0, 45.0, 35.0))),
}
"""A steep hand is near its resting pose; but a door's handle turns under the cup, and meets a hand that is not flat."""
STEEPEST_RAD = np.deg2rad(20.0)
CLEAR_M, AT_FRONT_M, MOVED = 0.08, 0.02, 0.02
AJAR_RAD, LOST_RAD, AJAR_BEYOND_RAD = 0.3, 0.7, 0.25
"""The arm alone draws a door further than the first, and then pushes it on from within; a base that may move draws it
all the way, and pushes only a door that it has lost hold of beyond the second."""
BEFORE_WALL_RAD = 1.0
"""A door with a wall beside it is drawn so far: then the hand would meet the wall, and pushes from within instead."""
SWEEP_SHUT_RAD = (0.35, 0.45)
"""A door with a wall behind it is swept shut to the first, by its edge, if it stands open further than the second."""
OPEN_BEYOND = {"cabinet": 0.02, "fridge": 0.10}
"""Open this much (m, rad) beyond the goal: what is let go may swing back."""
NOT_OPEN = 0.03
"""What is this much (m, rad) short of the goal is open still."""
LEAD = {"cabinet": 0.03, "fridge": 0.06}
"""The cup is sent at most this far (m, rad) ahead of the handle along its path."""
STEP = {"cabinet": 0.011, "fridge": 0.010}
"""… and at most this much (m, rad) further per control step: 0.33 m/s, 0.3 rad/s."""
FORESIGHT = {"cabinet": 0.01, "fridge": 0.015}
"""What is to be within reach (m, rad) further on, where the hand has to swivel."""
OVERSHOOT = {"cabinet": 0.02, "fridge": 0.03}
SWIVELS = tuple(np.deg2rad((0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 4.0, -4.0)))
STEEPER = tuple(np.deg2rad((0.0, 0.5, 1.0, 2.0, 4.0, 8.0)))
PULL_M_S = {"cabinet": 0.2, "fridge": 0.35}
"""The base comes after, or gives way, so fast."""
PULL_PAN_RAD = 0.3
"""The arm pans so far towards a door's hinge as it is drawn: the base that backs out then gets round to that side, and
the hand does not get edgewise to the door as soon."""
DRAW_RADIUS_M = 0.98
"""So far before the arm's pan axis the base keeps a door's handle: amid what the arm reaches with a flat hand, and
the same wherever the door was taken hold of from, which a policy does not see."""
OFF_M, FOLD_M = 0.08, 0.25
"""From a door that is let go the hand comes off along its front's direction, and where there is no room behind the base
it comes back before it folds, or it would take the door along."""
BACK_M = 0.2
PUSH_BESIDE_M = 0.35
"""A door is pushed so far (m) from its handle towards the hinge: the nearer to that, the shorter the arc."""
DRAW_PATIENCE, ARM_PATIENCE = 45, 30
"""Control steps without progress after which no more is to be had; an arm alone is at the end of its reach."""
ASIDE_RAD = 0.6
"""From within this much of the front's direction a handle is got hold of, and a front pushed shut."""
OPEN_STAND_M = (1.05, 1.0, 1.1, 1.15, 0.95)
EDGE_STAND_M = (1.05, 1.15, 0.95, 1.25)
EDGE_AHEAD_M, EDGE_ASIDE_M, OFF_WALL_M = (0.75, 1.35), (-0.6, 0.0), 0.3
"""From so far before its handle, and so far from its fridge's middle towards the hinge, a door's edge is swept shut; so
far from the handle away from the wall the base goes to do that."""
PUSH_STAND_M = (0.70, 0.76, 0.82, 0.64, 0.88)


class OracleOpen(Scripted):
    """Open Cabinet and Open Fridge."""

    def _run(self, sim: Simulator, goal: Goal) -> Script:
        motion, name = Motion(sim), goal.articulation
        kind = sim.scene.articulation(name).kind
        beyond = OPEN_BEYOND[kind] if self._base_movement else 0.02
        opened = FRIDGE_OPEN_RAD if kind == "fridge" else DRAWER_OPEN_M
        wide, enough = opened + beyond, opened - NOT_OPEN
        drawn = wide
        if kind == "fridge" and not self._base_movement:
            drawn = AJAR_RAD + AJAR_BEYOND_RAD
        elif against_wall(sim.scene.articulation(name)):
            drawn = BEFORE_WALL_RAD
        while sim.joint_pos(name) < enough:
            if self._to_sweep(sim, name):
                yield from sweep(motion, name, wide, self._base_movement)
                yield from fold_away(motion, self._base_movement)
                continue
            handle = sim.handle_pos(name)
            if self._base_movement and abs(aside(sim, name, handle)) > ASIDE_RAD:
                yield from go_before(motion, handle, outward(sim, name), OPEN_STAND_M)
            reach = handle_reach(motion, handle, kind, self._base_movement)
            motion.suction = True
            yield from servo_to(
                motion,
                lambda: sim.handle_pos(name),
                reach,
                CLEAR_M,
                -0.03,
                self._base_movement,
                None,
                # The arm may also push a door that it has drawn half-way, from within.
                lambda: sim.held == name or sim.joint_pos(name) > wide - 0.02,
            )
            if sim.held == name:
                yield from motion.wait(3)
                yield from draw_along(motion, name, drawn, reach.pitch, self._base_movement)
            motion.suction = False
            if self._to_sweep(sim, name) and sim.joint_pos(name) < enough:
                yield from motion.wait(3)
                continue
            yield from self._come_away(motion, name)
        if sim.held == name:
            yield from self._come_away(motion, name)
        elif not at_rest(sim):
            if kind == "fridge":
                yield from turn_ahead(motion, float(sim.handle_pos(name)[2]))
            yield from fold_away(motion, self._base_movement)
        while True:
            yield motion.action()

    def _come_away(self, motion: Motion, name: str) -> Script:
        """Let go of the handle, or of nothing, and bring the hand to its resting position."""
        motion.suction = False
        if motion.sim.scene.articulation(name).kind == "fridge":
            yield from come_off(motion, name, self._base_movement)
        yield from let_go(motion, self._base_movement)

    def _to_sweep(self, sim: Simulator, name: str) -> bool:
        """Whether a door stands ajar far enough to be pushed on from within."""
        ajar = LOST_RAD if self._base_movement else AJAR_RAD
        return sim.scene.articulation(name).kind == "fridge" and sim.joint_pos(name) > ajar


def aside(sim: Simulator, name: str, point: NDArray[np.float64]) -> float:
    """Return how far (rad, counter-clockwise) off an articulation's front the base stands as seen from a point."""
    x, y, _ = sim.base
    return math.remainder(math.atan2(y - point[1], x - point[0]) - outward(sim, name), math.tau)


class OracleClose(Scripted):
    """Close Cabinet and Close Fridge; the suction stays off."""

    def _run(self, sim: Simulator, goal: Goal) -> Script:
        motion, name = Motion(sim), goal.articulation
        motion.suction = False
        # The arm alone hardly reaches as far as a front that is shut.
        end = 0.0 if self._base_movement else 0.5 * CLOSED_SLACK
        while sim.joint_pos(name) > end + 0.3 * CLOSED_SLACK:
            if against_wall(sim.scene.articulation(name)) and sim.joint_pos(name) > SWEEP_SHUT_RAD[1]:
                if self._base_movement:
                    yield from face_edge(motion, name)
                yield from sweep(motion, name, SWEEP_SHUT_RAD[0], self._base_movement)
                yield from fold_away(motion, self._base_movement)
                continue
            point = push_point(sim, name)
            if self._base_movement and abs(aside(sim, name, point)) > ASIDE_RAD:
                yield from go_before(motion, point, outward(sim, name), PUSH_STAND_M)
            reach = handle_reach(motion, point, "push", self._base_movement)
            begun = sim.joint_pos(name)
            yield from servo_to(
                motion,
                lambda: push_point(sim, name),
                reach,
                CLEAR_M,
                0.0,
                self._base_movement,
                None,
                # A hand that comes from above may touch the front with its side.
                lambda begun=begun: (  # type: ignore[misc]
                    sim.joint_pos(name) < begun - MOVED
                    or float(np.linalg.norm(sim.ee_pos - push_point(sim, name))) < AT_FRONT_M
                ),
            )
            yield from draw_along(motion, name, end, reach.pitch, self._base_movement)
            yield from let_go(motion, self._base_movement)
        while True:
            yield motion.action()


def push_point(sim: Simulator, name: str) -> NDArray[np.float64]:
    """Return where to push (3,), world: a drawer's handle; on a door the panel beside it, which catches no cup."""
    a = sim.scene.articulation(name)
    if a.kind != "fridge":
        return sim.handle_pos(name)
    x, y, z = a.handle_pos
    beside = (x - 0.05, y + math.copysign(PUSH_BESIDE_M, a.anchor[1] - y), z)
    return np.asarray(link_to_world(a, sim.joint_pos(name), beside))


def handle_reach(motion: Motion, handle: NDArray[np.float64], grip: str, base_movement: bool) -> Reach:
    """Choose how far from a handle to stand and at what pitch to come at it."""
    pitches = HANDLE_PITCHES[grip]
    away = math.dist(motion.sim.base[:2], handle[:2])
    found = None
    for stretch in (0.10, 0.07, 0.04, 0.02):
        found = choose_reach(motion, handle, pitches, lambda _: CLEAR_M, 0.0, base_movement, stretch_m=stretch) or found
        if found is not None and (base_movement or abs(found.distance_m - away) < REACH_STEP_M):
            return found
    return found or Reach(0.75, pitches[0], 0.0, 0.0)


def outward(sim: Simulator, name: str) -> float:
    """Return the direction (rad, world) that an articulation's front faces now."""
    a = sim.scene.articulation(name)
    return a.yaw + swing(a, sim.joint_pos(name))


def turned(vector: NDArray[np.float64], angle: float) -> NDArray[np.float64]:
    """Return a vector (3,) turned about the vertical."""
    return np.array([*rotated(angle, vector[:2]), vector[2]])


def draw_along(motion: Motion, name: str, goal: float, pitch: float, base_movement: bool) -> Iterator[Action]:
    """Move the cup with the handle along its path until the joint is at `goal`, or nothing moves any more.

    The cup's target advances along the path only as fast as every joint can follow (else the cup would leave the
    path and tear the seal), and stays within `LEAD` of where the handle is.
    """
    sim = motion.sim
    articulation = sim.scene.articulation(name)
    kind = articulation.kind
    pulling = goal > sim.joint_pos(name)
    sign = 1.0 if pulling else -1.0
    grip = sim.ee_pos - sim.handle_pos(name)
    grasped_at = sim.joint_pos(name)
    radius = DRAW_RADIUS_M if kind == "fridge" and pulling else cup_pose(in_base(sim, sim.ee_pos), pitch).radius

    def cup_at(position: float) -> ArmPose:
        hold = turned(grip, swing(articulation, position) - swing(articulation, grasped_at))
        return cup_pose(in_base(sim, np.asarray(handle_at(articulation, position)) + hold), pitch)

    pan = -math.copysign(PULL_PAN_RAD, articulation.axis[2]) if kind == "fridge" and pulling else 0.0
    steepest = STEEPEST_RAD if kind == "fridge" else math.pi / 2
    target = grasped_at
    best, since = grasped_at, 0
    patience = DRAW_PATIENCE if base_movement or not pulling else ARM_PATIENCE
    while since < patience and not (pulling and sim.held != name):
        now = sim.joint_pos(name)
        if (now >= goal) if pulling else (now <= goal + 0.01):
            return
        limit, advanced = now + sign * LEAD[kind], False
        for part in (1.0, 0.75, 0.5, 0.25, 0.0):
            ahead = target + sign * part * STEP[kind]
            if part > 0.0 and (sign * (ahead - limit) > 0.0 or sign * (ahead - goal) > OVERSHOOT[kind]):
                continue
            # Where it gets no further at this pitch, the hand first swivels to a steeper one at which it does: a flat
            # one comes to its end soon.
            if part:
                found = nearest_swivel(cup_at(ahead), cup_at(ahead), SWIVELS, sim.arm_target, steepest)
            else:
                further = cup_at(ahead + sign * FORESIGHT[kind])
                found = nearest_swivel(cup_at(ahead), further, STEEPER, sim.arm_target, steepest)
            if found is not None and (part == 0.0 or np.abs(found[0] - sim.arm_target).max() < 1.5 * ARM_DELTA_RAD):
                target, advanced = ahead, part > 0.0
                motion.arm_goal, pitch = found
                break
        at = cup_at(target)
        forward = turn = 0.0
        if base_movement:
            forward = max(-PULL_M_S[kind], min(PULL_M_S[kind], 3.0 * (at.radius - radius)))
            if not advanced:
                # As far as the arm gets: the base has to give way, or to come after.
                forward -= sign * 0.1
            turn = max(-0.3, min(0.3, 0.8 * (at.azimuth - pan)))
        yield motion.action(forward, turn)
        moved = abs(now - best) > 0.01
        best, since = (now, 0) if moved else (best, since + 1)


def nearest_swivel(
    at: ArmPose, further: ArmPose, tilts: Sequence[float], q: NDArray[np.float64], steepest: float
) -> tuple[NDArray[np.float64], float] | None:
    """Return joint positions (7,) for a place of the cup and its pitch: the pitch that needs the least motion from `q`,
    of those that will do further along, too, if there are any.

    The cup swivels on a handle, so any pitch near the present one will do.
    """
    poses = [replace(at, pitch=at.pitch + tilt) for tilt in tilts]
    found = [(solved, pose.pitch) for pose in poses if (solved := solve(pose)) is not None]
    found = [pair for pair in found if solve(replace(further, pitch=pair[1])) is not None] or found
    return min(
        found, key=lambda pair: float(np.abs(pair[0] - q).max()) + 0.1 * max(0.0, pair[1] - steepest), default=None
    )


def come_off(motion: Motion, name: str, base_movement: bool) -> Script:
    """Take the cup off a door that is to stay where it is."""
    sim = motion.sim
    motion.arm_goal = sim.arm_target
    yield from motion.wait(3)
    off = sim.ee_pos + turned(np.array([OFF_M, 0.0, 0.0]), outward(sim, name))
    pitch = motion.pose().pitch
    yield from motion.arm_line(motion.pose(), cup_pose(in_base(sim, off), pitch), step_m=0.01)
    if not base_movement or room_behind(sim, BACK_M) < BACK_M - 0.05:
        pose = motion.pose()
        yield from motion.arm_line(pose, replace(pose, radius=max(0.55, pose.radius - FOLD_M)), step_m=0.01)


def let_go(motion: Motion, base_movement: bool) -> Script:
    """Take the cup off the handle, back out and bring it to its resting position."""
    sim = motion.sim
    motion.arm_goal = sim.arm_target
    yield from motion.wait(3)
    pose = motion.pose()
    yield from motion.arm_line(pose, backed_off(pose, 0.08), step_m=0.01)
    yield from fold_away(motion, base_movement)


def fold_away(motion: Motion, base_movement: bool) -> Script:
    """Bring the hand to its resting position, and back out."""
    sim = motion.sim
    motion.arm_goal = resting_near(sim.arm_target)
    if base_movement:
        x, y, yaw = sim.base
        room = room_behind(sim, BACK_M)
        yield from motion.drive_line((x - room * math.cos(yaw), y - room * math.sin(yaw)), yaw, timeout=60)
    yield from motion.arm_to(resting_near(sim.arm_target))


def face_edge(motion: Motion, name: str) -> Script:
    """Stand before a fridge in a corner, not near the wall, and face the handle of its opened door."""
    sim, fridge = motion.sim, motion.sim.scene.articulation(name)
    handle, hinge = sim.handle_pos(name), math.copysign(1.0, fridge.axis[2])
    ahead = float(rotated(-fridge.yaw, sim.base[:2] - handle[:2])[0])
    aside = hinge * float(rotated(-fridge.yaw, sim.base[:2] - np.asarray(fridge.pos[:2]))[1])
    if not EDGE_AHEAD_M[0] < ahead < EDGE_AHEAD_M[1] or not EDGE_ASIDE_M[0] < aside < EDGE_ASIDE_M[1]:
        off = rotated(fridge.yaw, (0.0, -hinge * OFF_WALL_M))
        yield from go_before(motion, handle + np.array([*off, 0.0]), fridge.yaw, EDGE_STAND_M)
    yield from motion.turn_to(math.atan2(*(handle[:2] - sim.base[:2])[::-1].tolist()))


def go_before(motion: Motion, handle: NDArray[np.float64], direction: float, distances: tuple[float, ...]) -> Script:
    """Drive to a place from which the handle can be pushed: on the side that its front faces."""
    sim = motion.sim
    grid = grid_now(sim)
    route = plan_route(grid, sim.base, handle, (direction,), distances, BOARD_SLANT, [])
    yield from follow(motion, grid, route)
