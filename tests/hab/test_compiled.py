"""Compiled code against the slow code it replaced (naive.py), and the range sensors against MuJoCo's own rays."""

from __future__ import annotations

import math
from typing import Any

import mujoco
import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hab import robot, sensors
from hab.episodes import load_grid
from hab.mujoco import fetch
from hab.mujoco.build import DECORATION_GROUP, SCENE_GROUP
from hab.mujoco.rays import RangeSensors
from hab.navgrid import NavGrid
from hab.ray_fans import HEAD_LOOK_DIRECTIONS, HEAD_LOOK_OUTSIDE, HEAD_SCAN_DIRECTIONS, LASER_DIRECTIONS
from skills import make_env

seeds = settings(max_examples=25, deadline=None, derandomize=True)


# -- range sensors -----------------------------------------------------------------------------------------------------


def own_rays(
    model: mujoco.MjModel, data: mujoco.MjData, base: NDArray[np.float64], origin: NDArray[np.float64],
    directions: NDArray[np.float64], max_m: float, groups: tuple[int, ...],
) -> NDArray[np.float32]:  # fmt: skip
    """What `mj_multiRay` says of the same rays; it answers -1 for nothing, and may see beyond the cutoff. A range is
    `UNKNOWN_RANGE` where a ray meets the robot; its base, which the laser is inside of, is left out."""
    cos, sin = math.cos(base[2]), math.sin(base[2])
    turn = np.array([[cos, -sin, 0.0], [sin, cos, 0.0], [0.0, 0.0, 1.0]])
    ranges, geoms = np.zeros(len(directions)), np.zeros(len(directions), np.int32)
    start = turn @ origin + (base[0], base[1], 0.0)
    flat, seen = (directions @ turn.T).reshape(-1), np.isin(np.arange(6), groups).astype(np.uint8)
    base_id = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, fetch.BASE)
    mujoco.mj_multiRay(model, data, start, flat, seen, True, base_id, geoms, ranges, None, len(directions), 2.0 * max_m)
    shares = np.minimum(np.where(ranges < 0.0, max_m, ranges), max_m) / max_m
    itself = (geoms >= 0) & (model.geom_group[geoms] == fetch.GROUP_COLLISION) & (shares < 1.0)
    return np.where(itself, robot.UNKNOWN_RANGE, shares).astype(np.float32)


def compare(model: mujoco.MjModel, data: mujoco.MjData, base: NDArray[np.float64]) -> None:
    ranges, seen = RangeSensors(model), (SCENE_GROUP, fetch.GROUP_COLLISION)
    laser = own_rays(model, data, base, robot.LASER_POS, LASER_DIRECTIONS, robot.LASER_MAX_M, seen)
    seen_above = (*seen, DECORATION_GROUP)
    head = own_rays(model, data, base, robot.HEAD_CAMERA_POS, HEAD_SCAN_DIRECTIONS, robot.HEAD_SCAN_MAX_M, seen_above)
    np.testing.assert_allclose(ranges.laser(data, base), laser, atol=1e-6)
    np.testing.assert_allclose(ranges.head_scan(data, base), head, atol=1e-6)


def compare_looks(model: mujoco.MjModel, data: mujoco.MjData, base: NDArray[np.float64]) -> None:
    """Of so many rays some graze an edge, where rounding decides."""
    above = (SCENE_GROUP, fetch.GROUP_COLLISION, DECORATION_GROUP)
    met = own_rays(model, data, base, robot.HEAD_CAMERA_POS, HEAD_LOOK_DIRECTIONS, robot.HEAD_SCAN_MAX_M, above)
    met[HEAD_LOOK_OUTSIDE] = robot.UNKNOWN_RANGE
    assert np.isclose(RangeSensors(model).head_look(data, base), met, atol=1e-6).mean() > 0.999


SHAPES = {"box": mujoco.mjtGeom.mjGEOM_BOX, "cylinder": mujoco.mjtGeom.mjGEOM_CYLINDER}
SHAPES |= {"sphere": mujoco.mjtGeom.mjGEOM_SPHERE, "plane": mujoco.mjtGeom.mjGEOM_PLANE}
SHAPES |= {"capsule": mujoco.mjtGeom.mjGEOM_CAPSULE, "ellipsoid": mujoco.mjtGeom.mjGEOM_ELLIPSOID}


@settings(max_examples=150, deadline=None, derandomize=True)
@given(st.integers(0, 10**6))
def test_rays_meet_shapes_where_mujocos_do(seed: int) -> None:
    """Shapes of any size, leaning or upright, near, far, behind, around the sensor and beyond its range."""
    rng = np.random.default_rng(seed)
    spec = mujoco.MjSpec()
    for _ in range(int(rng.integers(1, 12))):
        kind = rng.choice(list(SHAPES), p=[0.4, 0.2, 0.1, 0.05, 0.15, 0.1])
        away = rng.choice([0.2, 1.0, 3.0, 9.0])
        geom = spec.worldbody.add_geom(
            type=SHAPES[str(kind)], size=rng.choice([0.02, 0.3, 2.0], 3) * rng.uniform(0.5, 1.5, 3)
        )
        geom.pos = (*rng.uniform(-away, away, 2), rng.uniform(-0.2, 1.5))
        if kind == "plane":
            geom.pos, geom.size = (0.0, 0.0, rng.uniform(-0.3, 0.2)), (0.0, 0.0, 0.01)
        elif rng.random() < 0.5:
            geom.quat = rng.standard_normal(4)
        else:
            yaw = rng.uniform(-math.pi, math.pi)
            geom.quat = (math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2))
    model = spec.compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    base = np.array([*rng.uniform(-0.5, 0.5, 2), rng.uniform(-10.0, 10.0)])
    compare(model, data, base)
    compare_looks(model, data, base)


@pytest.mark.parametrize("skill", ["pick", "open_fridge"])
def test_rays_meet_an_apartment_where_mujocos_do(skill: str) -> None:
    env: Any = make_env(skill, "train").unwrapped
    env.reset(seed=0)
    env.action_space.seed(0)
    sim = env.sim
    for step in range(60):
        env.step(env.action_space.sample())
        compare(sim.model, sim.data, sim.base)
        if step % 20 == 0:
            compare_looks(sim.model, sim.data, sim.base)


@pytest.mark.parametrize("sensor", ["laser", "head_scan"])
def test_rays_end_where_their_range_does(sensor: str) -> None:
    """A board upright ahead, a hundredth of the range before its end, and behind it."""
    reach, x = {
        "laser": (robot.LASER_MAX_M, robot.LASER_POS[0]),
        "head_scan": (robot.HEAD_SCAN_MAX_M, robot.HEAD_CAMERA_POS[0]),
    }[sensor]
    for share, seen in ((0.99, True), (1.01, False)):
        spec = mujoco.MjSpec()
        board = spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_BOX, size=(0.1, 0.5, 5.0))
        board.pos = (x + share * reach + 0.1, 0.0, 0.0)
        model = spec.compile()
        data = mujoco.MjData(model)
        mujoco.mj_forward(model, data)
        ranges = getattr(RangeSensors(model), sensor)(data, np.zeros(3))
        assert bool(ranges.min() < 1.0) == seen
        if seen:
            assert share <= ranges.min() < share + 0.005


def test_what_no_ray_can_meet_is_refused() -> None:
    spec = mujoco.MjSpec()
    mesh = spec.add_mesh(name="wedge", uservert=[0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1])
    spec.worldbody.add_geom(name="wedge", type=mujoco.mjtGeom.mjGEOM_MESH, meshname=mesh.name)
    with pytest.raises(ValueError, match="'wedge'"):
        RangeSensors(spec.compile())


# -- what is worked out from them --------------------------------------------------------------------------------------


def test_readings_are_those_of_rotation_matrices() -> None:
    env: Any = make_env("pick", "train").unwrapped
    env.reset(seed=1)
    env.action_space.seed(1)
    rng = np.random.default_rng(0)
    for held in (False, True):
        if held:
            env.sim.hold(env.goal.object)
        for _ in range(20):
            env.sim.step(env.action_space.sample() | {"grip_action": np.full(1, 1.0 if held else -1.0, np.float32)})
            points = rng.uniform(-3.0, 3.0, (3, 3))
            row, expected = sensors.sense(env.sim, points), naive.readings(env.sim, points)
            for key, span in sensors.SENSED.items():
                np.testing.assert_allclose(row[span], expected[key], atol=1e-6)
            np.testing.assert_allclose(row[sensors.SIZE : sensors.SIZE + 9], expected["in_ee"], atol=1e-5)
            np.testing.assert_allclose(row[sensors.SIZE + 9 :], expected["polar"], atol=1e-5)


# -- the floor ---------------------------------------------------------------------------------------------------------


@seeds
@given(st.integers(0, 10**6))
def test_clearances_are_the_least_distances(seed: int) -> None:
    rng = np.random.default_rng(seed)
    grid: NavGrid = load_grid(7)
    boxes = [(*rng.uniform(-4.0, 8.0, 2), rng.uniform(-4.0, 4.0), *rng.uniform(0.05, 1.0, 2)) for _ in range(4)]
    expected, tall = grid.clearance, grid.tall_clearance
    for box in boxes:
        distance = naive.box_distance(grid._xs, grid._ys, *box)
        expected, tall = np.minimum(expected, distance), np.minimum(tall, distance)
    stood = grid.with_boxes(boxes)
    np.testing.assert_array_equal(stood.clearance, expected)
    np.testing.assert_array_equal(stood.tall_clearance, tall)
