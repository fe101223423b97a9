"""What the cameras see, against rays cast through the same apartment."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import mujoco
import numpy as np
import pytest
from numpy.typing import NDArray

from hab import robot
from hab.episodes import make_episode
from hab.mujoco import fetch
from hab.mujoco.build import DECORATION_GROUP, SCENE_GROUP
from hab.mujoco.render import HeadCamera, RenderingUnavailable, make_gl_context
from hab.mujoco.simulator import MujocoSimulator, load_model
from hab.objects import object_model
from hab.ray_fans import HEAD_LOOK_DIRECTIONS, HEAD_LOOK_OUTSIDE, HEAD_SCAN_DIRECTIONS
from skills import make_env
from skills.oracle import make_oracle

STRIDE = 4
"""Every fourth pixel of every fourth row is compared."""
SILHOUETTE = 0.03
"""Pixels whose neighbours differ by more (normalised depth) lie on an edge."""


@pytest.fixture(scope="module")
def sim() -> Iterator[MujocoSimulator]:
    try:
        make_gl_context(16, 16).free()
    except RenderingUnavailable as error:
        pytest.skip(str(error))
    simulator = MujocoSimulator()
    yield simulator
    simulator.close()


def _ray_depth(sim: MujocoSimulator, rows: NDArray[np.intp], columns: NDArray[np.intp]) -> NDArray[np.float64]:
    """Normalised depth (rows, columns) along the optical axis, by ray casting."""
    model, data = sim.model, sim.data
    camera = model.camera(fetch.HEAD_CAMERA).id
    groups = np.zeros(6, dtype=np.uint8)
    groups[[SCENE_GROUP, DECORATION_GROUP, fetch.GROUP_COLLISION]] = 1
    tangent = np.tan(np.deg2rad(robot.HEAD_CAMERA_FOV_DEG) / 2)
    depth, geom = np.ones((rows.size, columns.size)), np.zeros(1, dtype=np.int32)
    for i, row in enumerate(rows):
        for j, column in enumerate(columns):
            right = ((column + 0.5) / robot.DEPTH_SIZE * 2 - 1) * tangent
            down = ((row + 0.5) / robot.DEPTH_SIZE * 2 - 1) * tangent
            ray = data.cam_xmat[camera].reshape(3, 3) @ np.array([right, -down, -1.0])
            distance = mujoco.mj_ray(model, data, data.cam_xpos[camera], ray, groups, True, -1, geom)
            if distance >= 0.0:
                depth[i, j] = min(1.0, distance / robot.DEPTH_MAX_M)  # the ray's length is 1 along the axis
    return depth


@pytest.mark.parametrize("index", range(3))
def test_depth_agrees_with_rays(sim: MujocoSimulator, index: int) -> None:
    sim.reset(make_episode("tidy_house", "val", index))
    rng = np.random.default_rng(index)
    pixels = np.arange(1, robot.DEPTH_SIZE - 1, STRIDE)
    errors = []
    for _ in range(6):
        sim.place_robot(np.array([*sim.nav.sample(rng), rng.uniform(-np.pi, np.pi)]))
        seen = sim.depth()[:, :, 0]
        around = np.stack([np.roll(seen, (i, j), (0, 1)) for i in (-1, 0, 1) for j in (-1, 0, 1)])
        smooth = np.ptp(around, axis=0) < SILHOUETTE
        picked = np.ix_(pixels, pixels)
        rays = _ray_depth(sim, pixels, pixels)
        compared = smooth[picked] & (rays < 0.8)
        assert compared.sum() > 200
        errors.append(np.abs(seen[picked] - rays)[compared] * robot.DEPTH_MAX_M)
    error = np.concatenate(errors)
    assert np.median(error) < 1e-3
    assert np.quantile(error, 0.99) < 0.01


def test_depth_is_normalised_and_upright(sim: MujocoSimulator) -> None:
    sim.reset(make_episode("tidy_house", "val", 0))
    depth = sim.depth()
    assert depth.shape == (robot.DEPTH_SIZE, robot.DEPTH_SIZE, 1) and depth.dtype == np.float32
    assert depth.min() > 0.0 and depth.max() <= 1.0
    # Floor 1 m ahead of the robot is nearer than what is above the horizon, wherever the robot stands.
    rng = np.random.default_rng(0)
    for _ in range(5):
        sim.place_robot(np.array([*sim.nav.sample(rng), rng.uniform(-np.pi, np.pi)]))
        floor = float(np.median(sim.depth()[-2:, : robot.DEPTH_SIZE // 2]))
        assert floor <= robot.HEAD_CAMERA_POS[2] * 0.1


@pytest.mark.parametrize(("side", "columns"), [(1.0, slice(0, 64)), (-1.0, slice(64, 128))])
def test_left_is_left_and_near_is_dark(sim: MujocoSimulator, side: float, columns: slice) -> None:
    """An object held up to the left of the view changes the left half of the picture only, where it must be."""
    sim.reset(make_episode("tidy_house", "val", 0))
    before = sim.depth()
    x, y, yaw = sim.base
    ahead, aside, up = 0.6, 0.2 * side, 1.3
    pos = (x + ahead * np.cos(yaw) - aside * np.sin(yaw), y + ahead * np.sin(yaw) + aside * np.cos(yaw), up)
    box = max(sim.scene.objects, key=lambda name: object_model(name).half_extents[2])
    adr = int(sim.model.joint(box).qposadr[0])
    sim.data.qpos[adr : adr + 3] = pos
    mujoco.mj_forward(sim.model, sim.data)
    changed = np.argwhere(np.abs(sim.depth() - before)[:, :, 0] > 0.002)
    assert len(changed) > 12
    assert (changed[:, 1] >= columns.start).all() and (changed[:, 1] < columns.stop).all()
    assert changed[:, 0].mean() < 64  # above the optical axis is in the upper half


def test_the_camera_sees_no_head_from_inside(sim: MujocoSimulator) -> None:
    """At rest the nearest thing in view is the arm, centimetres away, and it leaves most of the picture free."""
    sim.reset(make_episode("tidy_house", "val", 0))
    depth = sim.depth()
    assert depth.min() > 0.003
    assert (depth < 0.03).mean() < 0.25


def test_a_forgotten_camera_spoils_no_other(sim: MujocoSimulator) -> None:
    sim.reset(make_episode("tidy_house", "val", 0))
    start = sim.base
    camera = HeadCamera(sim.model)
    camera.depth(sim.data)
    before = sim.depth()
    sim.place_robot(start + np.array([0.0, 0.0, 1.0]))
    assert not np.array_equal(sim.depth(), before)
    # Now sim's context is current, in which the garbage collector would free the other's names.
    del camera
    gc.collect()
    sim.place_robot(start)
    assert np.array_equal(sim.depth(), before)


def test_drawing_changes_nothing_in_the_model(sim: MujocoSimulator) -> None:
    sim.reset(make_episode("tidy_house", "val", 0))
    sim.depth()
    sim.render_rgb(64, 48)
    clean = load_model(sim.episode.scene_seed)
    assert np.array_equal(sim.model.geom_group, clean.geom_group)
    assert np.array_equal(sim.model.geom_rgba, clean.geom_rgba)
    assert np.array_equal(sim.model.geom_size, clean.geom_size)


def test_walls_do_not_hide_the_robot(sim: MujocoSimulator) -> None:
    """Wherever the robot stands, its blue and white make up part of the middle of the picture."""
    sim.reset(make_episode("tidy_house", "val", 0))
    rng = np.random.default_rng(3)
    for _ in range(4):
        sim.place_robot(np.array([*sim.nav.sample(rng), rng.uniform(-np.pi, np.pi)]))
        for _ in range(3):
            picture = sim.render_rgb(160, 120).astype(int)
        middle = picture[30:110, 50:110]
        blue = (middle[:, :, 2] > middle[:, :, 0] + 60) & (middle[:, :, 2] > 90)
        assert blue.sum() > 20


def test_the_overview_holds_the_whole_apartment(sim: MujocoSimulator) -> None:
    """The picture's rim shows only the sky: it has no red above its blue, as floors and walls have."""
    for index in (0, 2, 3):
        sim.reset(make_episode("tidy_house", "val", index))
        picture = sim.render_overview(160, 120).astype(int)
        rim = np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])
        assert (rim[:, 2] > rim[:, 0]).all()


@pytest.mark.usefixtures("sim")  # which skips where nothing can be drawn
@pytest.mark.parametrize(
    ("skill", "sensor"), [("pick", "scan"), ("place", "scan"), ("open_fridge", "scan"), ("pick", "look")]
)
def test_the_heads_rays_see_what_the_camera_sees(skill: str, sensor: str) -> None:
    """99 % of them, while the oracle moves the arm before the camera, are within 5 cm of the depth image around
    them, or say unknown where the robot's arm is in it."""
    look = robot.HEAD_CAMERA_TARGET - robot.HEAD_CAMERA_POS
    look = look / np.linalg.norm(look)
    right = np.array([0.0, -1.0, 0.0])
    directions = HEAD_SCAN_DIRECTIONS if sensor == "scan" else HEAD_LOOK_DIRECTIONS
    along = directions @ look
    across = (directions @ right / along + 1.0) / 2.0 * robot.DEPTH_SIZE
    down = (1.0 - directions @ np.cross(right, look) / along) / 2.0 * robot.DEPTH_SIZE
    inside = np.flatnonzero((across > 1) & (across < robot.DEPTH_SIZE - 1) & (down > 1) & (down < robot.DEPTH_SIZE - 1))
    assert len(inside) >= 40
    if sensor == "look":
        outside = (across < 0) | (across > robot.DEPTH_SIZE) | (down < 0) | (down > robot.DEPTH_SIZE)
        assert outside.any() and (outside == HEAD_LOOK_OUTSIDE).all()
        inside = inside[::61]
    agreeing, unknown = [], 0
    for index in range(3):
        env: Any = make_env(skill, "train", index=index).unwrapped
        env.reset(seed=0)
        oracle = make_oracle(skill, True)
        oracle.reset(env.sim, env.start.goal)
        for step in range(120):
            env.sim.step(oracle.act(env.sim))
            if step % 4:
                continue
            scan = env.sim.head_scan() if sensor == "scan" else env.sim.head_look()
            metres = env.sim.depth()[:, :, 0] * robot.DEPTH_MAX_M
            for ray in inside:
                row, column = int(down[ray]), int(across[ray])
                around = metres[row - 1 : row + 2, column - 1 : column + 2] / along[ray]
                if scan[ray] == robot.UNKNOWN_RANGE:
                    unknown += 1
                    agreeing.append(around.min() < 1.5)  # the arm's reach
                else:
                    seen, most = scan[ray] * robot.HEAD_SCAN_MAX_M, robot.HEAD_SCAN_MAX_M
                    agreeing.append(min(around.min(), most) - 0.05 <= seen <= min(around.max(), most) + 0.05)
        env.close()
    assert unknown > 100
    assert np.mean(agreeing) >= 0.99
