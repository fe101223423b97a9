"""Oracle Open and Close for drawers and the fridge: take hold of the handle and draw it along its path, or push it.

The handle's path is known (a line or an arc); arm and base share the way: the cup follows the handle, the base keeps
it at a comfortable distance. Nothing but the cup's contact moves the door.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from hab.actions import Action
from hab.scene import DRAWER_OPEN_M, FRIDGE_OPEN_RAD
from hab.simulator import Simulator
from skills.oracle.arm import cup_pose, resting_near, solve
from skills.oracle.motion import Motion, Script
from skills.oracle.navigate import follow, plan_route
from skills.oracle.pick_place import choose_reach, in_base, move_in
from skills.oracle.surroundings import Reach, backed_off, grid_now
from skills.skill import Goal

HANDLE_PITCHES = tuple(np.deg2rad((70.0, 60.0, 50.0, 40.0, 30.0, 20.0)))
CLEAR_M = 0.08
OPEN_BEYOND = {"cabinet": 0.02, "fridge": 0.20}
"""Open this much (m, rad) beyond the goal: what is let go may swing back a little, and a wide door is out of the way."""
LEAD = {"cabinet": 0.03, "fridge": 0.06}
"""The cup is sent this far (m, rad) ahead of the handle along its path."""
PUSH_STAND_M = (0.70, 0.76, 0.82, 0.64, 0.88)


class OracleOpen:
    """`skills.skill.SkillPolicy` for Open Cabinet and Open Fridge."""

    def __init__(self, base_movement: bool) -> None:
        self._base_movement = base_movement

    def reset(self, sim: Simulator, goal: Goal) -> None:
        self._script = self._run(sim, goal.articulation)

    def act(self, sim: Simulator) -> Action:
        return next(self._script)

    def _run(self, sim: Simulator, name: str) -> Script:
        motion = Motion(sim)
        kind = sim.scene.articulation(name).kind
        goal = (FRIDGE_OPEN_RAD if kind == "fridge" else DRAWER_OPEN_M) + OPEN_BEYOND[kind]
        while sim.joint_pos(name) < goal - 0.05:
            handle = sim.handle_pos(name)
            reach = handle_reach(motion, handle, self._base_movement)
            yield from move_in(motion, handle, reach, CLEAR_M, 0.0, self._base_movement)
            motion.suction = True
            at = cup_pose(in_base(sim, sim.handle_pos(name)), reach.pitch)
            for action in motion.arm_line(backed_off(at, CLEAR_M), backed_off(at, -0.03), step_m=0.005):
                yield action
                if sim.held:
                    break
            if sim.held == name:
                yield from draw_along(motion, name, goal, reach.pitch, self._base_movement)
            motion.suction = False
            yield from let_go(motion, self._base_movement)
        while True:
            yield motion.action()


class OracleClose:
    """`skills.skill.SkillPolicy` for Close Cabinet and Close Fridge; the suction stays off."""

    def __init__(self, base_movement: bool) -> None:
        self._base_movement = base_movement

    def reset(self, sim: Simulator, goal: Goal) -> None:
        self._script = self._run(sim, goal.articulation)

    def act(self, sim: Simulator) -> Action:
        return next(self._script)

    def _run(self, sim: Simulator, name: str) -> Script:
        motion = Motion(sim)
        motion.suction = False
        while sim.joint_pos(name) > 0.03:
            handle = sim.handle_pos(name)
            if self._base_movement:
                yield from go_before(motion, handle, outward(sim, name))
            reach = handle_reach(motion, handle, self._base_movement)
            yield from move_in(motion, handle, reach, CLEAR_M, 0.0, self._base_movement)
            at = cup_pose(in_base(sim, sim.handle_pos(name)), reach.pitch)
            yield from motion.arm_line(backed_off(at, CLEAR_M), backed_off(at, 0.0))
            yield from draw_along(motion, name, 0.0, reach.pitch, self._base_movement)
            yield from let_go(motion, self._base_movement)
        while True:
            yield motion.action()


def handle_reach(motion: Motion, handle: NDArray[np.float64], base_movement: bool) -> Reach:
    """Choose how far from a handle to stand and at what pitch to come at it."""
    found = choose_reach(motion, handle, HANDLE_PITCHES, lambda _: CLEAR_M, 0.0, base_movement)
    return found or Reach(0.75, HANDLE_PITCHES[0], 0.0, 0.0)


def outward(sim: Simulator, name: str) -> float:
    """Return the direction (rad, world) that an articulation's front faces now."""
    a = sim.scene.articulation(name)
    swing = sim.joint_pos(name) * math.copysign(1.0, a.axis[2]) if a.kind == "fridge" else 0.0
    return a.yaw + swing


def handle_at(sim: Simulator, name: str, position: float) -> NDArray[np.float64]:
    """Return where the handle (3,) would be in the world at a joint position."""
    a = sim.scene.articulation(name)
    local = np.array(a.handle_pos)
    if a.kind == "fridge":
        angle = position * math.copysign(1.0, a.axis[2])
        cos, sin = math.cos(angle), math.sin(angle)
        arm = local - np.array(a.anchor)
        local = np.array(a.anchor) + (cos * arm[0] - sin * arm[1], sin * arm[0] + cos * arm[1], arm[2])
    else:
        local = local + position * np.array(a.axis)
    cos, sin = math.cos(a.yaw), math.sin(a.yaw)
    x, y = cos * local[0] - sin * local[1], sin * local[0] + cos * local[1]
    return np.array([a.pos[0] + x, a.pos[1] + y, a.pos[2] + local[2]])


def draw_along(motion: Motion, name: str, goal: float, pitch: float, base_movement: bool) -> Iterator[Action]:
    """Move the cup with the handle along its path until the joint is at `goal`, or nothing moves any more."""
    sim = motion.sim
    lead = LEAD[sim.scene.articulation(name).kind]
    pulling = goal > sim.joint_pos(name)
    start = cup_pose(in_base(sim, sim.ee_pos), pitch)
    grip = sim.ee_pos - sim.handle_pos(name)
    best, since = sim.joint_pos(name), 0
    while since < 45 and not (pulling and sim.held != name):
        now = sim.joint_pos(name)
        if (now >= goal) if pulling else (now <= goal + 0.01):
            return
        ahead = min(goal, now + lead) if pulling else max(goal - 0.02, now - lead)
        at = cup_pose(in_base(sim, handle_at(sim, name, ahead) + (grip if pulling else 0.0)), pitch)
        q = solve(at)
        if q is not None:
            motion.arm_goal = q
        forward = turn = 0.0
        if base_movement:
            # Slower than the arm can make up for, so that the seal is not torn sideways.
            forward = max(-0.35, min(0.35, 4.0 * (at.radius - start.radius)))
            turn = max(-0.2, min(0.2, 0.8 * at.azimuth))
        yield motion.action(forward, turn)
        moved = abs(now - best) > 0.01
        best, since = (now, 0) if moved else (best, since + 1)


def let_go(motion: Motion, base_movement: bool) -> Script:
    """Take the cup off the handle, back out and bring it to its resting position."""
    sim = motion.sim
    motion.arm_goal = sim.arm_target
    yield from motion.wait(3)
    pose = motion.pose()
    yield from motion.arm_line(pose, backed_off(pose, 0.08), step_m=0.01)
    motion.arm_goal = resting_near(sim.arm_target)
    if base_movement:
        x, y, yaw = sim.base
        room, grid = 0.0, grid_now(sim)
        while room < 0.2 and grid.is_free(x - (room + 0.1) * math.cos(yaw), y - (room + 0.1) * math.sin(yaw)):
            room += 0.05
        yield from motion.drive_line((x - room * math.cos(yaw), y - room * math.sin(yaw)), yaw, timeout=60)
    yield from motion.arm_to(resting_near(sim.arm_target))


def go_before(motion: Motion, handle: NDArray[np.float64], direction: float) -> Script:
    """Drive to a place from which the handle can be pushed: on the side that its front faces."""
    sim = motion.sim
    route, _ = plan_route(grid_now(sim), sim.base, handle, (direction,), PUSH_STAND_M)
    yield from follow(motion, route)
