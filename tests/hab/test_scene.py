"""The apartments: reproducible, compiled, at rest, and with room for the robot."""

from __future__ import annotations

import dataclasses
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
from hab.objects import FRUITS, HOUSE_OBJECTS, KINDS, OBJECTS, SEEN, UNSEEN, object_kind, object_model
from hab.openings import against_wall, widest
from hab.rooms import PLANS
from hab.scene import DRAWER_OPEN_M, FRIDGE_OPEN_RAD, SURFACES, Articulation, Receptacle, Scene, axes_of, yaw_of
from hab.storage import SEEN_FURNITURE, UNSEEN_FURNITURE

SEEDS = st.one_of([st.sampled_from(seeds) for seeds in SPLIT_SEEDS.values()])
few = settings(max_examples=12, deadline=None, derandomize=True)


EVERY_KIND = tuple(f"{kind}-1" for kind in OBJECTS)


@functools.cache
def compiled(seed: int) -> mujoco.MjModel:
    return scene_to_spec(generate_scene(seed)).compile()


@functools.cache
def with_every_kind() -> mujoco.MjModel:
    return scene_to_spec(dataclasses.replace(generate_scene(0), objects=EVERY_KIND)).compile()


def world_point(receptacle: Receptacle, lx: float, ly: float) -> tuple[float, float]:
    c, s = math.cos(receptacle.yaw), math.sin(receptacle.yaw)
    return receptacle.center[0] + c * lx - s * ly, receptacle.center[1] + s * lx + c * ly


def lay_objects(scene: Scene, model: mujoco.MjModel, data: mujoco.MjData, seed: int) -> dict[str, np.ndarray]:
    """Put every object upright on a random surface, apart from each other; returns where."""
    rng = np.random.default_rng(seed)
    placed: dict[str, np.ndarray] = {}
    for name in scene.objects:
        shape = object_model(name)
        while name not in placed:
            receptacle = scene.receptacles[rng.integers(len(scene.receptacles))]
            x, y = world_point(receptacle, *(rng.uniform(-1, 1, 2) * receptacle.half_extents))
            spot = np.array([x, y, receptacle.center[2] + shape.half_height_m])
            fits = 2 * shape.half_height_m + 0.005 < receptacle.clearance_m
            if fits and all(np.linalg.norm(spot - other) > 0.2 for other in placed.values()):
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
    assert kinds >= {"table", "counter", "coffee_table", "sofa", "tv_bench", "drawer", "fridge"}
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
    assert len(geoms) <= 330 and sum(g.collides for g in geoms) <= 185
    for things in (geoms, scene.receptacles, (*scene.furniture, *scene.articulations)):
        assert len({thing.name for thing in things}) == len(things)


@pytest.mark.parametrize("name", EVERY_KIND)
def test_object_frame_is_its_centre_of_mass(name: str) -> None:
    model = with_every_kind()
    body = model.body(name)
    np.testing.assert_allclose(body.ipos, 0.0, atol=1e-4)
    assert body.mass[0] == pytest.approx(object_model(name).mass_kg)


@pytest.mark.parametrize("name", EVERY_KIND)
def test_an_object_is_within_its_bounds_and_stands(name: str) -> None:
    """Its convex parts reach as far as its half sizes say; left alone on the floor it stays as it is."""
    model, shape = with_every_kind(), object_model(name)
    body = model.body(name).id
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    corners, heights = [], []
    for geom in np.flatnonzero((model.geom_bodyid == body) & (model.geom_contype > 0)):
        center, half = model.geom_aabb[geom, :3], model.geom_aabb[geom, 3:]
        turn = data.geom_xmat[geom].reshape(3, 3)
        middle = data.geom_xpos[geom] + turn @ center - data.xpos[body]
        ellipsoidal = model.geom_type[geom] == mujoco.mjtGeom.mjGEOM_SPHERE
        reach = half if ellipsoidal else np.abs(turn) @ half
        corners.append(np.abs(middle) + reach)
        heights.append(middle[2] - reach[2])
    assert np.all(
        np.max(corners, axis=0) <= np.array(shape.half_extents) + 0.012
    )  # the bowl's slabs stick out a little
    assert min(heights) == pytest.approx(-shape.half_height_m, abs=2e-3)
    before = data.xpos[body].copy()
    mujoco.mj_step(model, data, 240)
    assert np.linalg.norm(data.xpos[body] - before) < 3e-3
    assert data.xmat[body].reshape(3, 3)[2, 2] > 0.99


@pytest.mark.parametrize("name", ["013_apple-1", "017_orange-1"])
def test_a_nudged_fruit_stops(name: str) -> None:
    model = with_every_kind()
    data = mujoco.MjData(model)
    table = generate_scene(0).receptacle("table")
    at, dof = model.joint(name).qposadr[0], model.joint(name).dofadr[0]
    data.qpos[at : at + 3] = [table.center[0], table.center[1], table.center[2] + object_model(name).half_height_m]
    data.qvel[dof] = 0.1
    for _ in range(240):
        mujoco.mj_step(model, data)
    assert np.abs(data.qvel[dof : dof + 6]).max() < 1e-3
    assert abs(data.qpos[at] - table.center[0]) < 0.15


def fridge_of(scene: Scene) -> Articulation:
    return next(a for a in scene.articulations if a.kind == "fridge")


@pytest.mark.parametrize("split", list(SPLIT_SEEDS))
def test_a_third_of_each_splits_fridges_stands_in_a_corner(split: str) -> None:
    seeds = SPLIT_SEEDS[split][:39]
    corners = sum(against_wall(fridge_of(generate_scene(seed))) for seed in seeds)
    assert corners == 13


@few
@given(st.sampled_from(SPLIT_SEEDS["train"]))
def test_only_where_a_wall_is_the_door_opens_less(seed: int) -> None:
    """Turned on to a right angle and more, a door that ends earlier would be in the wall, and no other would."""
    scene = generate_scene(seed)
    model, door = compiled(seed), fridge_of(scene)
    data = mujoco.MjData(model)
    body = model.body(door.name).id
    walls = {
        model.geom(geom.name).id
        for piece in scene.furniture
        if piece.name == "walls"
        for geom in piece.geoms
        if geom.collides
    }

    def in_wall(position: float) -> bool:
        data.joint(door.name).qpos[0] = position
        mujoco.mj_forward(model, data)
        return any(
            walls & set(pair) and body in model.geom_bodyid[pair] for pair in (c.geom.tolist() for c in data.contact)
        )

    assert not in_wall(widest(door))
    assert in_wall(math.pi / 2 + 0.1) == against_wall(door)


def test_houses_differ_in_rooms_drawers_and_furniture() -> None:
    assert len(PLANS) >= 6
    scenes = [generate_scene(seed) for seed in SPLIT_SEEDS["val"][:20]]
    kinds = [frozenset(r.kind for r in scene.receptacles) for scene in scenes]
    assert len(set(kinds)) >= 8
    assert set().union(*kinds) >= set(SEEN_FURNITURE)
    for scene in scenes[:3]:
        fronts = {a.name: a.geoms[0].size for a in scene.articulations if a.kind == "cabinet"}
        assert len({round(size[1], 3) for size in fronts.values()}) == 3  # one width a column
        assert len({round(size[2], 3) for size in fronts.values()}) == 6
        by_column = [fronts[f"drawer_{2 * i}"][2] + fronts[f"drawer_{2 * i + 1}"][2] for i in range(3)]
        np.testing.assert_allclose(by_column, by_column[0])


def test_what_is_unseen_is_in_houses_of_test_alone() -> None:
    found: dict[str, set[str]] = {}
    for split, seeds in SPLIT_SEEDS.items():
        scenes = [generate_scene(seed) for seed in seeds[:20]]
        found[split] = {r.kind for scene in scenes for r in scene.receptacles}
        found[split] |= {object_kind(name) for scene in scenes for name in scene.objects}
    unseen = {*UNSEEN, *UNSEEN_FURNITURE}
    assert found["test"] >= unseen and not (found["train"] | found["val"]) & unseen
    assert set(SEEN) | set(UNSEEN) == set(OBJECTS) and not set(SEEN) & set(UNSEEN)
    assert len(OBJECTS) >= 20


@few
@given(SEEDS)
def test_a_house_holds_thirty_objects_of_several_kinds_and_several_of_a_kind(seed: int) -> None:
    objects = generate_scene(seed).objects
    kinds = [object_kind(name) for name in objects]
    assert len(set(objects)) == len(objects) == HOUSE_OBJECTS
    assert 10 <= len(set(kinds)) < HOUSE_OBJECTS
    assert "024_bowl" in kinds and sum(kind in FRUITS for kind in kinds) >= 2
    for kind in set(kinds):
        assert {f"{kind}-{i + 1}" for i in range(kinds.count(kind))} <= set(objects)


def test_a_kind_more_in_the_catalogue_changes_no_house(monkeypatch: pytest.MonkeyPatch) -> None:
    before = [generate_scene(seed) for seed in (5, 1005, 2005)]
    new = dataclasses.replace(OBJECTS["013_apple"], name="000_new")
    everything = {"000_new": new, **OBJECTS, "099_new": dataclasses.replace(new, name="099_new")}
    monkeypatch.setattr("hab.objects.OBJECTS", everything)
    assert [generate_scene.__wrapped__(scene.seed) for scene in before] == before
    assert all(set(kinds) <= set(OBJECTS) for kinds in KINDS.values())


@given(st.lists(st.floats(-1.0, 1.0), min_size=4, max_size=4).filter(lambda quat: np.linalg.norm(quat) > 0.1))
def test_the_axes_of_an_orientation_are_mujocos(quat: list[float]) -> None:
    unit = np.array(quat) / np.linalg.norm(quat)
    expected = np.empty(9)
    mujoco.mju_quat2Mat(expected, unit)
    axes = axes_of(quat)
    np.testing.assert_allclose(axes, expected.reshape(3, 3), atol=1e-12)
    if np.hypot(*axes[:2, 0]) > 1e-6:
        assert yaw_of(tuple(unit.tolist())) == pytest.approx(math.atan2(axes[1, 0], axes[0, 0]), abs=1e-6)


def test_kinds_of_surfaces_are_named() -> None:
    """What training may practise is all that there is (`practised`)."""
    kinds = {r.kind for seed in SPLIT_SEEDS["train"][:40] for r in generate_scene(seed).receptacles}
    assert kinds == {*SURFACES, *SEEN_FURNITURE}
