"""How Place sets things down, played in the simulator."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import NDArray

from hab.actions import ARM, BASE, GRIP, Action
from hab.arm import ArmPose, solve
from hab.episodes import load_grid, load_scene, make_episode
from hab.mujoco.simulator import MujocoSimulator
from skills import make_env, task_class
from skills.set_down import SetDown
from skills.skill import Goal, taken_at, upwards_of

BOX, FRUIT = "003_cracker_box-1", "013_apple-1"
LET_GO: Action = {
    GRIP: np.array([-1.0], np.float32),
    ARM: np.zeros(7, np.float32),
    BASE: np.array([0.3, 0.0], np.float32),
}
HOLD_ON = {**LET_GO, GRIP: np.array([1.0], np.float32)}


def lean(sim: MujocoSimulator, name: str) -> float:
    """How far (rad) an object's own axis is off the vertical."""
    _, i, j, _ = sim.object_quat(name).tolist()
    return math.acos(1.0 - 2.0 * (i * i + j * j))


def holding(name: str, tilt_rad: float) -> tuple[MujocoSimulator, Goal]:
    """A robot in the middle of a room with an object in hand that leans."""
    index = next(i for i in range(100) if name in load_scene(make_episode("tidy_house", "train", i).scene_seed).objects)
    sim = MujocoSimulator()
    sim.reset(make_episode("tidy_house", "train", index))
    grid = load_grid(sim.scene.seed)
    i, j = np.unravel_index(int(np.argmax(grid.clearance)), grid.clearance.shape)
    x, y = grid.xy(int(i), int(j))
    arm = solve(ArmPose(-0.3, 0.9, 0.9, 0.6))  # as over a table
    assert arm is not None
    sim.place_robot(np.array((x, y, 0.0)), arm)
    sim.hold(name, tilt_rad)
    assert not sim.collides()
    taken = taken_at(sim, tuple(sim.object_pos(name).tolist()))
    return sim, Goal((x, y, 0.5), name, taken=taken, up=upwards_of(sim, name))


def let_go(sim: MujocoSimulator, goal: Goal, name: str) -> tuple[list[float], NDArray[np.float64]]:
    """Ask to let go until that is done; return how the object leaned after each step, and how far its centre moved."""
    reflex, begun, leans = SetDown(sim, goal), sim.object_pos(name), [lean(sim, name)]
    while sim.held and len(leans) < 120:
        strayed = sim.object_pos(name) - begun
        sim.step(reflex(LET_GO))
        leans.append(lean(sim, name))
    return leans, strayed


@pytest.mark.parametrize("tilt", [-0.3, 0.35, 0.6])
def test_a_tall_thing_is_let_go_of_upright(tilt: float) -> None:
    """About its own centre, the base still, though the policy drives."""
    sim, goal = holding(BOX, tilt)
    base = sim.base
    leans, strayed = let_go(sim, goal, BOX)
    assert leans[0] == pytest.approx(abs(tilt), abs=0.02)
    assert sim.held == "" and leans[-2] < 0.09 and 10 < len(leans) < 100
    assert np.linalg.norm(strayed) < 0.01
    assert math.dist(sim.base[:2], base[:2]) < 0.01


@pytest.mark.parametrize(("name", "tilt"), [(BOX, 0.05), (FRUIT, 0.5)])
def test_what_stands_or_is_low_is_let_go_of_at_once(name: str, tilt: float) -> None:
    sim, goal = holding(name, tilt)
    let_go(sim, goal, name)
    assert sim.held == "" and sim.steps == 1


def test_of_what_is_low_the_policy_has_its_way() -> None:
    sim, goal = holding(FRUIT, 0.5)
    reflex = SetDown(sim, goal)
    for action in (HOLD_ON, LET_GO, HOLD_ON):
        assert reflex(action) is action
        sim.step(action)


def test_how_a_thing_hangs_that_nobody_knows_is_left_alone() -> None:
    sim, goal = holding(BOX, 0.5)
    let_go(sim, Goal(goal.position, BOX), BOX)
    assert sim.held == "" and sim.steps == 1


def test_the_hand_withdraws_straight_and_takes_nothing_along() -> None:
    """As far as eight steps get it; and however much is asked for, the suction stays off."""
    sim, goal = holding(BOX, 0.0)
    reflex = SetDown(sim, goal)
    sim.step(reflex(LET_GO))
    begun, axis = sim.ee_pos, sim.ee_mat[:, 0]
    for _ in range(8):
        action = reflex(HOLD_ON)
        assert action[GRIP][0] < 0.0 and not action[BASE].any()
        sim.step(action)
    for _ in range(3):
        sim.step({**LET_GO, BASE: np.zeros(2, np.float32)})
    moved = sim.ee_pos - begun
    assert -moved @ axis > 0.02
    assert np.linalg.norm(moved + (-moved @ axis) * axis) < 0.01
    later = reflex(HOLD_ON)
    assert later[GRIP][0] < 0.0 and later[BASE] is HOLD_ON[BASE]


def test_tasks_and_plans_have_the_same_reflex() -> None:
    env = make_env("place")
    env.reset(seed=0)
    assert task_class("place").chain_spec().reflex is SetDown and type(env.unwrapped._reflex) is SetDown
    assert task_class("pick").chain_spec().reflex(env.unwrapped.sim, env.unwrapped.goal)(LET_GO) is LET_GO
