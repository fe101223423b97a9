"""The navigation grid against independent oracles."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_matrix
from scipy.sparse.csgraph import dijkstra

from hab.layout import generate_scene
from hab.navgrid import NavGrid
from hab.scene import Articulation, Furniture, Geom, Scene

GREY = (0.5, 0.5, 0.5, 1.0)
inside = st.floats(-1.5, 1.5)


def room(*geoms: Geom, half: float = 2.0) -> Scene:
    """An empty square room with these geoms in it."""
    return Scene(0, (-half, -half, half, half), (Furniture("things", geoms),), (), ())


def oracle(free: np.ndarray, cell_m: float, goal: tuple[int, int]) -> np.ndarray:
    """Dijkstra over the 8-connected free cells."""
    index = np.arange(free.size).reshape(free.shape)
    rows, cols, weights = [], [], []
    for di, dj in ((0, 1), (1, 0), (1, 1), (1, -1)):
        h, w = free.shape
        a = (slice(0, h - di), slice(max(0, -dj), w - max(0, dj)))
        b = (slice(di, h), slice(max(0, dj), w - max(0, -dj)))
        ok = free[a] & free[b]
        rows.append(index[a][ok])
        cols.append(index[b][ok])
        weights.append(np.full(ok.sum(), cell_m * math.hypot(di, dj)))
    graph = csr_matrix((np.concatenate(weights), (np.concatenate(rows), np.concatenate(cols))), (free.size, free.size))
    return dijkstra(graph, directed=False, indices=index[goal]).reshape(free.shape)


@settings(max_examples=6, deadline=None, derandomize=True)
@given(st.integers(0, 500), st.integers(0, 10**6))
def test_distance_field_is_dijkstras(seed: int, draw: int) -> None:
    grid = NavGrid(generate_scene(seed))
    goal = grid.sample(np.random.default_rng(draw))
    expected = oracle(grid.free, grid.cell_m, grid.cell(*goal))
    np.testing.assert_allclose(grid.distance_field(goal), expected, rtol=1e-4, atol=1e-4)


@given(inside, inside, inside, inside)
def test_empty_room_is_the_octile_distance(ax: float, ay: float, bx: float, by: float) -> None:
    grid = NavGrid(room())
    (ai, aj), (bi, bj) = grid.cell(ax, ay), grid.cell(bx, by)
    long, short = sorted((abs(ai - bi), abs(aj - bj)), reverse=True)
    assert grid.geodesic((ax, ay), (bx, by)) == pytest.approx(
        grid.cell_m * (long - short + math.sqrt(2) * short), abs=1e-4
    )


@given(inside, inside, st.floats(-3.2, 3.2), st.floats(0.05, 0.4), st.floats(0.05, 0.4))
def test_clearance_of_a_turned_box(cx: float, cy: float, yaw: float, hx: float, hy: float) -> None:
    quat = (math.cos(yaw / 2), 0.0, 0.0, math.sin(yaw / 2))
    grid = NavGrid(room(Geom("box", "box", (cx, cy, 0.5), (hx, hy, 0.5), GREY, quat), half=3.0))
    u = np.linspace(-1, 1, 401)
    edge = np.concatenate(
        [np.c_[u * hx, 0 * u + s * hy] for s in (1, -1)] + [np.c_[0 * u + s * hx, u * hy] for s in (1, -1)]
    )
    turn = np.array([[math.cos(yaw), -math.sin(yaw)], [math.sin(yaw), math.cos(yaw)]])
    outline = edge @ turn.T + (cx, cy)
    for i, j in ((10, 10), (60, 60), (30, 80), (110, 50), (60, 20)):
        point = np.array(grid.xy(i, j))
        local = turn.T @ (point - (cx, cy))
        if np.all(np.abs(local) < (hx, hy)):
            assert grid.clearance[i, j] <= 0
            continue
        wall = 3.0 - np.abs(point).max()
        expected = min(wall, np.linalg.norm(outline - point, axis=1).min())
        assert grid.clearance[i, j] == pytest.approx(expected, abs=5e-3)


def test_heights_decide_what_is_an_obstacle() -> None:
    grid = NavGrid(
        room(
            Geom("rug", "box", (0, 0, 0.005), (0.2, 0.2, 0.005), GREY),
            Geom("lamp", "box", (0, 1, 1.8), (0.2, 0.2, 0.2), GREY),
            Geom("picture", "box", (1, 0, 0.5), (0.2, 0.2, 0.2), GREY, collides=False),
            Geom("stool", "cylinder", (-1, 0, 0.2), (0.2, 0.2, 0.0), GREY),
        )
    )
    assert grid.is_free(0, 0) and grid.is_free(0, 1) and grid.is_free(1, 0)
    assert not grid.is_free(-1, 0)
    assert not grid.is_free(50, 0)
    stool = grid.cell(-1, 0)
    assert grid.clearance[stool] < 0 < grid.tall_clearance[stool]


def test_articulation_frame_counts() -> None:
    link = Articulation(
        "door", "fridge", "things", (1.0, 0.0, 0.6), math.pi / 2, (0, 0, 1), (0, 2),
        (Geom("panel", "box", (0.3, 0, 0), (0.1, 0.1, 0.5), GREY),), "panel", (0, 0, 0),
    )  # fmt: skip
    grid = NavGrid(Scene(0, (-2, -2, 2, 2), (), (link,), ()))
    assert grid.clearance[grid.cell(1.0, 0.3)] < 0
    assert grid.is_free(1.0, -0.3)


def test_with_boxes_only_removes_floor_and_leaves_the_original() -> None:
    grid = NavGrid(generate_scene(3))
    before = grid.free.copy()
    x, y = grid.sample(np.random.default_rng(0))
    other = grid.with_boxes([(x, y, 0.3, 0.1, 0.4)])
    assert not other.is_free(x, y) and grid.is_free(x, y)
    assert np.array_equal(grid.free, before)
    assert not np.any(other.free & ~before)
    assert other.geodesic((x, y), (x, y)) == 0.0


@settings(max_examples=6, deadline=None, derandomize=True)
@given(st.integers(0, 500), st.integers(0, 10**6))
def test_path_is_as_long_as_the_geodesic_and_stays_free(seed: int, draw: int) -> None:
    grid = NavGrid(generate_scene(seed))
    rng = np.random.default_rng(draw)
    a, b = grid.sample(rng), grid.sample(rng)
    path = grid.path(a, b)
    steps = np.linalg.norm(np.diff(path, axis=0), axis=1)
    assert steps.sum() == pytest.approx(grid.geodesic(a, b), abs=1e-3)
    assert tuple(path[0]) == pytest.approx(a) and tuple(path[-1]) == pytest.approx(b)
    assert all(grid.is_free(x, y) for x, y in path)
    assert steps.max(initial=0.0) < 1.5 * grid.cell_m


def test_unreachable_floor_is_infinitely_far() -> None:
    wall = Geom("wall", "box", (0.8, 0, 1), (0.05, 2, 1), GREY)
    grid = NavGrid(room(wall))
    assert np.isinf(grid.distance_field((-1, 0))[grid.cell(1.4, 0)])
    assert grid.nearest_free(1.4, 0)[0] < 0.8
    assert np.isfinite(grid.geodesic((1.4, 0), (-1, 0)))


def test_fields_are_cached_per_goal_cell() -> None:
    grid = NavGrid(room())
    assert grid.distance_field((0.01, 0.01)) is grid.distance_field((0.02, 0.02))
    with pytest.raises(ValueError):
        grid.distance_field((0.0, 0.0))[0, 0] = 1.0
