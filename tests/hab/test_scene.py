"""The apartments: reproducible, compiled, at rest, and with room for the robot."""

from __future__ import annotations

import functools
import itertools
import math

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hab.furniture import EDGE_M, REACH_M
from hab.layout import SPLIT_SEEDS, approach_points, generate_scene
from hab.mujoco.build import scene_to_spec
from hab.navgrid import NavGrid
from hab.objects import OBJECTS
from hab.scene import DRAWER_OPEN_M, FRIDGE_OPEN_RAD, Receptacle, Scene

NAMES = tuple(OBJECTS)
SEEDS = st.one_of([st.sampled_from(seeds) for seeds in SPLIT_SEEDS.values()])
few = settings(max_examples=12, deadline=None, derandomize=True)


@functools.cache
def compiled(seed: int) -> mujoco.MjModel:
    return scene_to_spec(generate_scene(seed), NAMES).compile()


def world_point(receptacle: Receptacle, lx: float, ly: float) -> tuple[float, float]:
    c, s = math.cos(receptacle.yaw), math.sin(receptacle.yaw)
    return receptacle.center[0] + c * lx - s * ly, receptacle.center[1] + s * lx + c * ly


def lay_objects(scene: Scene, model: mujoco.MjModel, data: mujoco.MjData, seed: int) -> dict[str, np.ndarray]:
    """Put every object upright on a random surface, apart from each other; returns where."""
    rng = np.random.default_rng(seed)
    placed: dict[str, np.ndarray] = {}
    for name in NAMES:
        shape = OBJECTS[name]
        while name not in placed:
            receptacle = scene.receptacles[rng.integers(len(scene.receptacles))]
            x, y = world_point(receptacle, *(rng.uniform(-1, 1, 2) * receptacle.half_extents))
            spot = np.array([x, y, receptacle.center[2] + shape.half_height_m])
            fits = 2 * shape.half_height_m + 0.005 < receptacle.clearance_m
            if fits and all(np.linalg.norm(spot - other) > 0.3 for other in placed.values()):
                placed[name] = spot
                at, yaw = model.joint(name).qposadr[0], receptacle.yaw
                data.qpos[at : at + 7] = [*spot, math.cos(yaw / 2), 0, 0, math.sin(yaw / 2)]
    return placed


def test_split_seeds_are_disjoint() -> None:
    for a, b in itertools.combinations(SPLIT_SEEDS.values(), 2):
        assert not set(a) & set(b)


@few
@given(SEEDS)
def test_same_seed_same_scene(seed: int) -> None:
    again = generate_scene.__wrapped__(seed)
    assert again == generate_scene(seed)
    assert again != generate_scene(seed + 1)


@few
@given(SEEDS)
def test_objects_settle_where_they_are_laid_and_sleep(seed: int) -> None:
    scene, model = generate_scene(seed), compiled(seed)
    data = mujoco.MjData(model)
    placed = lay_objects(scene, model, data, seed)
    mujoco.mj_forward(model, data)
    assert min([contact.dist for contact in data.contact], default=0.0) > -0.005
    for _ in range(180):
        mujoco.mj_step(model, data)
        assert min([contact.dist for contact in data.contact], default=0.0) > -0.005
    for name, spot in placed.items():
        assert np.linalg.norm(data.body(name).xpos - spot) < 0.005, name
    for articulation in scene.articulations:
        assert abs(data.joint(articulation.name).qpos[0]) < 1e-3
    assert np.all(data.tree_asleep >= 0)


@few
@given(SEEDS)
def test_articulations_open_without_touching_anything(seed: int) -> None:
    scene, model = generate_scene(seed), compiled(seed)
    data = mujoco.MjData(model)
    assert sum(a.kind == "cabinet" for a in scene.articulations) >= 6
    for articulation in scene.articulations:
        needed = FRIDGE_OPEN_RAD if articulation.kind == "fridge" else DRAWER_OPEN_M
        assert articulation.joint_range[1] > needed
    for articulation, share in itertools.product(scene.articulations, (0.0, 0.5, 1.0)):
        mujoco.mj_resetData(model, data)
        data.joint(articulation.name).qpos[0] = share * articulation.joint_range[1]
        mujoco.mj_forward(model, data)
        link = model.body(articulation.name).id
        touching = [c for c in data.contact if link in model.geom_bodyid[c.geom]]
        assert not touching, (articulation.name, share)


@few
@given(SEEDS)
def test_positive_joint_moves_the_handle_out(seed: int) -> None:
    scene, model = generate_scene(seed), compiled(seed)
    data = mujoco.MjData(model)
    for articulation in scene.articulations:
        data.qpos[:] = model.qpos0
        mujoco.mj_kinematics(model, data)
        closed = data.geom(articulation.handle_geom).xpos.copy()
        data.joint(articulation.name).qpos[0] = 0.2
        mujoco.mj_kinematics(model, data)
        moved = data.geom(articulation.handle_geom).xpos - closed
        assert moved[:2] @ (math.cos(articulation.yaw), math.sin(articulation.yaw)) > 0.1
        c, s = math.cos(articulation.yaw), math.sin(articulation.yaw)
        x, y, z = articulation.handle_pos
        expected = np.array(articulation.pos) + (c * x - s * y, s * x + c * y, z)
        np.testing.assert_allclose(closed, expected, atol=1e-9)


@few
@given(SEEDS)
def test_every_receptacle_is_reachable(seed: int) -> None:
    scene = generate_scene(seed)
    grid = NavGrid(scene)
    kinds = {receptacle.kind for receptacle in scene.receptacles}
    assert kinds >= {"table", "counter", "coffee_table", "sofa", "tv_bench", "shelf", "drawer", "fridge"}
    for receptacle in scene.receptacles:
        for x, y in approach_points(receptacle):
            assert math.dist((x, y), grid.nearest_free(x, y)) <= 0.75, receptacle.name


@few
@given(SEEDS)
def test_surfaces_are_where_rays_find_them(seed: int) -> None:
    """Rays from just above each usable rectangle hit something at its height, out to the edge margin."""
    scene, model = generate_scene(seed), compiled(seed)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    groups, hit = np.array([1, 0, 0, 0, 0, 0], dtype=np.uint8), np.zeros(1, dtype=np.int32)
    for receptacle in scene.receptacles:
        hx, hy = receptacle.half_extents
        assert hx > 0.025 and hy > 0.05
        margin = 0.0 if receptacle.articulation else EDGE_M - 0.025
        for lx, ly in itertools.product((-hx, 0.0, hx + margin), (-hy, 0.0, hy)):
            x, y = world_point(receptacle, lx, ly)
            start = np.array([x, y, receptacle.center[2] + 0.05])
            distance = mujoco.mj_ray(model, data, start, np.array([0.0, 0.0, -1.0]), groups, 1, -1, hit)
            assert distance == pytest.approx(0.05, abs=2e-3), receptacle.name


@few
@given(SEEDS)
def test_surfaces_are_within_reach_of_their_fronts(seed: int) -> None:
    for receptacle in generate_scene(seed).receptacles:
        if not receptacle.articulation and len(receptacle.fronts) == 1:
            assert 2 * receptacle.half_extents[0] + EDGE_M <= REACH_M + 1e-9


@few
@given(SEEDS)
def test_geoms_stay_few_and_names_are_unique(seed: int) -> None:
    scene = generate_scene(seed)
    geoms = [g for owner in (*scene.furniture, *scene.articulations) for g in owner.geoms]
    assert len(geoms) <= 260 and sum(g.collides for g in geoms) <= 140
    for things in (geoms, scene.receptacles, (*scene.furniture, *scene.articulations)):
        assert len({thing.name for thing in things}) == len(things)


@pytest.mark.parametrize("name", NAMES)
def test_object_frame_is_its_centre_of_mass(name: str) -> None:
    model = compiled(0)
    body = model.body(name)
    np.testing.assert_allclose(body.ipos, 0.0, atol=1e-4)
    assert body.mass[0] == pytest.approx(OBJECTS[name].mass_kg)


@pytest.mark.parametrize("name", ["013_apple", "017_orange"])
def test_a_nudged_fruit_stops(name: str) -> None:
    model = compiled(0)
    data = mujoco.MjData(model)
    table = generate_scene(0).receptacle("table")
    at, dof = model.joint(name).qposadr[0], model.joint(name).dofadr[0]
    data.qpos[at : at + 3] = [table.center[0], table.center[1], table.center[2] + OBJECTS[name].half_height_m]
    data.qvel[dof] = 0.1
    for _ in range(240):
        mujoco.mj_step(model, data)
    assert np.abs(data.qvel[dof : dof + 6]).max() < 1e-3
    assert abs(data.qpos[at] - table.center[0]) < 0.15
