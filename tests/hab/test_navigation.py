"""Navigation against independent oracles: distances, motion, sensors, rewards, measures and episodes.

`python tests/hab/test_navigation.py` prints the table of hashes for `FROZEN` after a deliberate change.
"""

from __future__ import annotations

import cmath
import hashlib
import json
import math
from collections import deque
from dataclasses import astuple, replace
from fractions import Fraction
from typing import Any

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import dijkstra

import hab  # noqa: F401 - registers the environments
from hab import robot
from hab.episodes import load_grid, load_scene
from hab.mujoco.build import scene_to_spec
from hab.mujoco.rays import RangeSensors
from hab.navigation import NAVIGATION_IDS, TASKS
from hab.navigation.apartment import CATEGORIES, load_apartment
from hab.navigation.env import FORWARD, LEFT, MAX_STEPS, RIGHT, STOP, NavigationEnv
from hab.navigation.episodes import RATIO, accepted, make_navigation_episode
from hab.navigation.geodesic import distance_field, sees
from hab.navigation.measures import soft_spl, spl
from hab.navigation.motion import move
from hab.navigation.noise import LINEAR, ROTATIONAL, noisy_depth, noisy_laser, noisy_motion
from hab.navigation.oracle import shortest_path_action

FROZEN: dict[str, str] = {
    "pointnav val": "e8e8e8b71d9f3151",
    "pointnav test": "1a604992535f0a70",
    "objectnav val": "17094001e1fa5ef1",
    "objectnav test": "819d2654814ab30d",
    "flee val": "62c4b834a239080f",
    "flee test": "80a918ff4cfe4a79",
    "explore val": "c27f8f8918134c9e",
    "explore test": "9b5b82d6c80e90dd",
}
"""First 16 digits of the SHA-256 of the contents of 1,000 episodes each."""

TRAIN = 3
"""An apartment, and the index of its first training episode."""
many = settings(max_examples=60, deadline=None, derandomize=True)
few = settings(max_examples=15, deadline=None, derandomize=True)
grids = st.integers(0, 10_000).map(lambda seed: np.random.default_rng(seed).random((9, 11)) < 0.75)
actions = st.lists(st.sampled_from((FORWARD, FORWARD, LEFT, RIGHT)), min_size=1, max_size=60)


# -- distances ---------------------------------------------------------------------------------------------------------


def crosses(i0: int, j0: int, i1: int, j1: int, i: int, j: int) -> bool:
    """Whether the line between two cells' centres runs through the inside of a cell: clipped exactly, in fractions."""
    enter, leave = Fraction(0), Fraction(1)
    for start, end, low in ((i0, i1, i), (j0, j1, j)):
        a, d = Fraction(start) + Fraction(1, 2), Fraction(end - start)
        if d == 0:
            if not low < a < low + 1:
                return False
            continue
        near, far = sorted(((low - a) / d, (low + 1 - a) / d))
        enter, leave = max(enter, near), min(leave, far)
    return enter < leave


@many
@given(grids, st.integers(0, 8), st.integers(0, 10), st.integers(0, 8), st.integers(0, 10))
def test_a_line_of_sight_crosses_free_cells_only(free: NDArray[np.bool_], i0: int, j0: int, i1: int, j1: int) -> None:
    free[i0, j0] = True
    blocked = any(crosses(i0, j0, i1, j1, i, j) for i, j in np.argwhere(~free).tolist())
    assert sees(free, i0, j0, i1, j1) == (not blocked)


def eight_ways(free: NDArray[np.bool_], goal: tuple[int, int]) -> NDArray[np.float64]:
    """scipy's Dijkstra from a cell to its eight neighbours."""
    rows, columns = free.shape
    number = np.arange(free.size).reshape(free.shape)
    pairs = [
        (number[i, j], number[k, n], math.hypot(k - i, n - j))
        for i in range(rows)
        for j in range(columns)
        for k in range(max(i - 1, 0), min(i + 2, rows))
        for n in range(max(j - 1, 0), min(j + 2, columns))
        if (k, n) != (i, j) and free[i, j] and free[k, n]
    ]
    a, b, weight = zip(*pairs, strict=True) if pairs else ((), (), ())
    graph = coo_array((weight, (a, b)), shape=(free.size, free.size)).tocsr()
    return dijkstra(graph, indices=number[goal]).reshape(free.shape)


def any_way(free: NDArray[np.bool_], goal: tuple[int, int]) -> NDArray[np.float64]:
    """scipy's Dijkstra between all cells that see each other."""
    cells = np.argwhere(free).tolist()
    walls = np.argwhere(~free).tolist()
    weights = np.zeros((len(cells), len(cells)))
    for p, (i, j) in enumerate(cells):
        for q in range(p):
            k, n = cells[q]
            if not any(crosses(i, j, k, n, *wall) for wall in walls):
                weights[p, q] = weights[q, p] = math.hypot(k - i, n - j)
    found = np.full(free.shape, np.inf)
    found[free] = dijkstra(weights, indices=cells.index(list(goal)))
    return found


@settings(max_examples=5, deadline=None, derandomize=True)
@given(st.integers(0, 10_000))
def test_distances_lie_between_the_best_any_angle_way_and_the_best_of_eight_ways(seed: int) -> None:
    rng = np.random.default_rng(seed)
    free = rng.random((6, 7)) < 0.75
    goal = int(rng.integers(6)), int(rng.integers(7))
    free[goal] = True
    goals = np.zeros_like(free)
    goals[goal] = True
    field = distance_field(free, goals, 1.0)
    best, steps = any_way(free, goal), eight_ways(free, goal)
    assert np.array_equal(np.isfinite(field.distance_m), np.isfinite(best) & free)
    there = np.isfinite(best)
    assert (field.distance_m[there] >= best[there] - 1e-5).all()
    assert (field.distance_m[there] <= steps[there] + 1e-5).all()
    # Among so many corners Theta* may miss the best one; in an apartment there are few.
    assert field.distance_m[there].sum() <= 1.01 * best[there].sum() + 1e-5


def test_distances_in_an_apartment() -> None:
    apartment, grid = load_apartment(TRAIN), load_grid(TRAIN)
    cell = apartment.sample(np.random.default_rng(0))
    field = apartment.field(cell)
    steps = grid.distance_field(apartment.xy(cell))
    there = apartment.free & (steps > 0)
    ratio = field.distance_m[there] / steps[there]
    # Eight directions are too long by 1 / cos(22.5 degrees) at most.
    assert ratio.min() > math.cos(math.pi / 8) - 1e-4 and ratio.max() < 1.0 + 1e-5
    x, y = apartment.xy(cell)
    assert apartment.distance(field, x + 0.01, y - 0.02) == pytest.approx(math.hypot(0.01, 0.02), abs=1e-6)
    assert field.anchor[~apartment.free].max() == -1
    far = apartment.xy(tuple(np.argwhere(apartment.free)[0]))
    path = apartment.path(field, *far)
    assert np.linalg.norm(np.diff(path, axis=0), axis=1).sum() == pytest.approx(
        apartment.distance(field, *far), abs=1e-4
    )
    assert tuple(path[-1]) == pytest.approx((x, y))


def test_many_goals_are_as_far_as_the_nearest() -> None:
    free = np.ones((20, 30), np.bool_)
    goals = np.zeros_like(free)
    goals[2, 3] = goals[15, 27] = True
    rows, columns = np.indices(free.shape)
    nearest = np.minimum(np.hypot(rows - 2, columns - 3), np.hypot(rows - 15, columns - 27))
    assert np.allclose(distance_field(free, goals, 0.05).distance_m, 0.05 * nearest, atol=1e-5)


# -- motion ------------------------------------------------------------------------------------------------------------

FRAME = np.array([-1.0, -2.0, 0.1])


def inside(free: NDArray[np.bool_], pose: NDArray[np.float64]) -> bool:
    i, j = math.floor((pose[1] + 2.0) / 0.1), math.floor((pose[0] + 1.0) / 0.1)
    return 0 <= i < free.shape[0] and 0 <= j < free.shape[1] and bool(free[i, j])


@many
@given(grids, st.integers(0, 2**32 - 1))
def test_sliding_never_leaves_free_cells_nor_goes_farther_than_asked(free: NDArray[np.bool_], seed: int) -> None:
    rng = np.random.default_rng(seed)
    i, j = np.argwhere(free)[int(rng.integers(free.sum()))].tolist()
    pose = np.array([-1.0 + (j + rng.random()) * 0.1, -2.0 + (i + rng.random()) * 0.1, rng.uniform(-3, 3)])
    for _ in range(20):
        before, asked = pose.copy(), float(rng.uniform(0.0, 0.3))
        pose[2] = rng.uniform(-math.pi, math.pi)
        collided = move(free, FRAME, pose, asked, 0.0)
        went = float(np.hypot(*(pose - before)[:2]))
        assert inside(free, pose)
        assert went <= asked + 1e-9
        assert collided or went == pytest.approx(asked, abs=1e-9)


@pytest.mark.parametrize("degrees", [0.0, 20.0, 45.0, 70.0, 90.0])
def test_along_a_wall_the_part_of_the_way_that_runs_along_it_is_made(degrees: float) -> None:
    free = np.zeros((30, 60), np.bool_)
    free[:15] = True  # up to y = -0.5
    pose = np.array([0.5, -0.5001, math.radians(degrees)])
    assert move(free, FRAME, pose, 0.25, 0.0) == (degrees > 0.0)
    assert pose[0] - 0.5 == pytest.approx(0.25 * math.cos(math.radians(degrees)), abs=1e-9)
    assert pose[1] == pytest.approx(-0.5001, abs=1e-9)


def test_it_slides_along_a_slanting_wall_too() -> None:
    rows, columns = np.indices((40, 40))
    free = rows + columns < 40  # a staircase that falls off to the right
    pose = np.array([0.9, -0.35, 0.0])
    for _ in range(4):
        assert move(free, FRAME, pose, 0.25, 0.0) or pose[0] < 1.2
    assert pose[0] > 1.5 and pose[1] < -0.5


def test_an_offset_is_in_the_robots_frame() -> None:
    pose = np.array([1.0, 0.0, math.pi / 2])
    assert not move(np.ones((60, 60), np.bool_), FRAME, pose, 0.3, 0.1)
    assert pose.tolist() == pytest.approx([0.9, 0.3, math.pi / 2])


# -- measures ----------------------------------------------------------------------------------------------------------


def test_measures_are_what_their_definitions_say() -> None:
    assert spl(True, 5.0, 5.0) == 1.0 and spl(True, 5.0, 10.0) == 0.5 and spl(True, 5.0, 4.9) == 1.0
    assert spl(False, 5.0, 5.0) == 0.0
    assert soft_spl(5.0, 0.0, 5.0) == 1.0 and soft_spl(5.0, 2.5, 5.0) == 0.5 and soft_spl(5.0, 2.5, 10.0) == 0.25
    assert soft_spl(5.0, 7.0, 10.0) == 0.0 and soft_spl(5.0, 5.0, 0.0) == 0.0


# -- sensors -----------------------------------------------------------------------------------------------------------


def model_of(seed: int) -> tuple[mujoco.MjModel, mujoco.MjData]:
    model = scene_to_spec(replace(load_scene(seed), objects=())).compile()
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return model, data


def poses(seed: int, count: int) -> list[NDArray[np.float64]]:
    rng, apartment = np.random.default_rng(seed), load_apartment(seed)
    return [np.array([*apartment.xy(apartment.sample(rng)), rng.uniform(-math.pi, math.pi)]) for _ in range(count)]


def test_the_laser_is_the_simulators() -> None:
    model, data = model_of(TRAIN)
    sensors = RangeSensors(model)
    for pose in poses(TRAIN, 30):
        assert np.allclose(load_apartment(TRAIN).shapes.laser(pose), sensors.laser(data, pose), atol=1e-6)


def test_the_camera_sees_what_mujocos_rays_meet() -> None:
    model, data = model_of(TRAIN)
    centres = 2.0 * (np.arange(128) + 0.5) / 128 - 1.0  # tangents: 90 degrees
    right, down = np.meshgrid(centres, centres)
    look = robot.HEAD_CAMERA_TARGET - robot.HEAD_CAMERA_POS
    ahead_base = look / np.linalg.norm(look)
    right_base = np.array([0.0, -1.0, 0.0])
    down_base = np.cross(ahead_base, right_base)
    for pose in poses(TRAIN, 4):
        c, s = math.cos(pose[2]), math.sin(pose[2])
        turn = np.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])
        eye = turn @ robot.HEAD_CAMERA_POS + (pose[0], pose[1], 0.0)
        rays = (right[..., None] * right_base + down[..., None] * down_base + ahead_base) @ turn.T
        lengths = np.linalg.norm(rays, axis=2)
        geom, distance = np.empty(128 * 128, np.int32), np.empty(128 * 128)
        unit = (rays / lengths[..., None]).ravel()
        mujoco.mj_multiRay(model, data, eye, unit, np.ones(6, np.uint8), 1, -1, geom, distance, None, 128 * 128, 20.0)
        depth = np.where(geom.reshape(128, 128) < 0, np.inf, distance.reshape(128, 128) / lengths)
        off = np.abs(load_apartment(TRAIN).camera.depth(pose)[:, :, 0] - np.minimum(depth / 10.0, 1.0))
        assert np.median(off) < 1e-6
        assert (off > 2e-3).mean() < 0.01  # round shapes have 16 sides, and edges fall on either side of a pixel


def test_colours_are_those_of_what_is_there() -> None:
    apartment = load_apartment(TRAIN)
    image, depth = apartment.camera.rgb(poses(TRAIN, 1)[0]), apartment.camera.depth(poses(TRAIN, 1)[0])
    assert image.shape == (128, 128, 3) and image.dtype == np.uint8
    assert len(np.unique(image.reshape(-1, 3), axis=0)) > 5
    sky = (image == (222, 230, 238)).all(axis=2)
    assert (depth[sky] == 1.0).all()
    assert (depth[~sky] < 10.0).all()


def test_the_goal_is_told_as_habitat_tells_it() -> None:
    env = NavigationEnv("pointnav", "train")
    observation, _ = env.reset(options={"index": TRAIN})
    rng = np.random.default_rng(0)
    for _ in range(30):
        x, y, yaw = env.pose.tolist()
        distance, angle = observation["pointgoal_with_gps_compass"].tolist()
        there = complex(x, y) + distance * cmath.exp(1j * (yaw + angle))  # left is positive
        assert there == pytest.approx(complex(*env.episode.goal or ()), abs=1e-4)
        assert abs(angle) <= math.pi + 1e-6
        observation, *_ = env.step(int(rng.choice([FORWARD, LEFT, RIGHT])))


def test_without_gps_the_goal_is_told_as_it_was_at_the_start() -> None:
    env, aware = NavigationEnv("pointnav", "train", gps=False), NavigationEnv("pointnav", "train")
    first, _ = env.reset(options={"index": TRAIN})
    known, _ = aware.reset(options={"index": TRAIN})
    for action in (FORWARD, LEFT, FORWARD, RIGHT, FORWARD):
        later, *_ = env.step(action)
        assert set(later) == {"laser", "pointgoal"}
        assert np.array_equal(later["pointgoal"], known["pointgoal_with_gps_compass"])
    assert np.array_equal(first["pointgoal"], known["pointgoal_with_gps_compass"])


def test_objectnavs_gps_and_compass_are_relative_to_the_start() -> None:
    env = NavigationEnv("objectnav", "train")
    observation, _ = env.reset(options={"index": TRAIN})
    assert list(CATEGORIES)[int(observation["objectgoal"].argmax())] == env.episode.category
    assert observation["objectgoal"].sum() == 1.0
    start = complex(*env.pose[:2])
    heading = float(env.pose[2])
    for action in (LEFT, LEFT, FORWARD, FORWARD, RIGHT, FORWARD):
        observation, *_ = env.step(action)
    moved = (complex(*env.pose[:2]) - start) * cmath.exp(-1j * heading)
    assert complex(*observation["gps"]) == pytest.approx(moved, abs=1e-5)
    assert float(observation["compass"][0]) == pytest.approx(math.radians(10.0), abs=1e-5)


# -- tasks -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("obs", ["laser", "depth", "rgb"])
@pytest.mark.parametrize("task", TASKS)
def test_gymnasium_has_nothing_to_say(task: str, obs: str) -> None:
    env = gymnasium.make(NAVIGATION_IDS[task], index=TRAIN, obs=obs, gps=obs != "rgb", render_mode="rgb_array")
    check_env(env.unwrapped, skip_render_check=True)
    picture = env.unwrapped.render()
    assert isinstance(picture, np.ndarray) and picture.shape[0] % 16 == picture.shape[1] % 16 == 0


@few
@given(st.sampled_from(("pointnav", "objectnav")), st.integers(0, 9), actions)
def test_rewards_add_up_to_what_was_made_good(task: str, number: int, played: list[int]) -> None:
    env = NavigationEnv(task, "train")
    env.reset(options={"index": TRAIN + 1000 * number})
    start_m, total = env.to_goal_m(), 0.0
    assert start_m == pytest.approx(env.episode.geodesic_m)
    for action in played:
        _, reward, *_ = env.step(action)
        total += reward
    assert total == pytest.approx(start_m - env.to_goal_m() - 0.01 * len(played), abs=1e-6)
    assert env.path_m <= 0.25 * played.count(FORWARD) + 1e-9


@pytest.mark.parametrize("task", ["pointnav", "objectnav"])
def test_the_follower_succeeds_and_is_paid_2_5_spl(task: str) -> None:
    env = NavigationEnv(task, "train")
    for number in range(6):
        env.reset(options={"index": TRAIN + 1000 * number})
        start_m, total, info = env.to_goal_m(), 0.0, {}
        over = False
        while not over:
            _, reward, terminated, truncated, info = env.step(shortest_path_action(env))
            total, over = total + reward, terminated or truncated
        assert info["success"] and info["spl"] > 0.9 and info["num_steps"] < MAX_STEPS
        assert info["spl"] == pytest.approx(start_m / max(start_m, env.path_m))
        left = info["distance_to_goal"]
        assert total == pytest.approx(start_m - left - 0.01 * info["num_steps"] + 2.5 * info["spl"], abs=1e-6)
        assert left < (0.2 if task == "pointnav" else 0.05)


def test_stop_elsewhere_fails_and_pays_nothing() -> None:
    env = NavigationEnv("pointnav", "train")
    env.reset(options={"index": TRAIN})
    _, reward, terminated, _, info = env.step(STOP)
    assert terminated and not info["success"] and info["spl"] == 0.0 and reward == pytest.approx(-0.01)


def test_an_episode_is_cut_off_after_500_steps() -> None:
    env = NavigationEnv("pointnav", "train")
    env.reset(options={"index": TRAIN})
    ends = [env.step(LEFT)[2:4] for _ in range(MAX_STEPS)]
    assert ends == [(False, False)] * (MAX_STEPS - 1) + [(False, True)]
    assert env.pose[2] == pytest.approx(math.remainder(env.episode.start[2] + MAX_STEPS * math.radians(10), math.tau))


def test_a_collision_is_counted() -> None:
    env = NavigationEnv("pointnav", "train")
    env.reset(options={"index": TRAIN})
    counts = [env.step(FORWARD)[4]["collisions"] for _ in range(80)]
    # In a straight line it comes to a wall within 20 m; it slides along it into a corner and stays there.
    assert counts[0] == 0 and counts[-1] > counts[-20] > 0


def test_flee_pays_for_the_share_of_the_farthest_distance() -> None:
    env = NavigationEnv("flee", "train")
    env.reset(options={"index": TRAIN})
    apartment, grid = env.apartment, load_grid(TRAIN)
    rng, total, info = np.random.default_rng(0), 0.0, {}
    for _ in range(60):
        _, reward, _, _, info = env.step(int(rng.choice([FORWARD, FORWARD, LEFT])))
        total += reward
    assert total == pytest.approx(5.0 * info["flee_distance"], abs=1e-6)
    start = env.episode.start[:2]
    steps = grid.distance_field(start)
    naive = steps[apartment.cell(*env.pose[:2])] / steps[apartment.free].max()
    assert info["flee_distance"] == pytest.approx(naive, abs=0.08)


def test_explore_pays_for_squares_of_a_metre() -> None:
    env = NavigationEnv("explore", "train")
    env.reset(options={"index": TRAIN})
    rng, total, info = np.random.default_rng(0), 0.0, {}
    squares = {(math.floor(env.pose[0]), math.floor(env.pose[1]))}
    for _ in range(150):
        _, reward, _, _, info = env.step(int(rng.choice([FORWARD, FORWARD, LEFT])))
        total += reward
        squares.add((math.floor(env.pose[0]), math.floor(env.pose[1])))
    assert len(squares) > 3
    assert info["visited"] == len(squares) and total == pytest.approx(0.25 * (len(squares) - 1))


def test_objectnav_is_over_within_a_metre_of_an_instance_and_not_behind_a_wall() -> None:
    apartment, scene = load_apartment(TRAIN), load_scene(TRAIN)
    sofa = next(piece for piece in scene.furniture if piece.name == "sofa")
    found = apartment.found("sofa")
    left, low, size = apartment.frame.tolist()
    for row, column in np.argwhere(found)[::40].tolist():
        x, y = left + (column + 0.5) * size, low + (row + 0.5) * size
        # Boxes turned by quarter turns: the distance from their bounds.
        nearest = min(
            math.hypot(
                max(abs(x - geom.pos[0]) - max(geom.size[:2]), 0.0), max(abs(y - geom.pos[1]) - max(geom.size[:2]), 0.0)
            )
            for geom in sofa.geoms
        )
        assert nearest < 1.0
    # All of it can be walked to within a metre and a half of open floor.
    open_floor = (load_grid(TRAIN).clearance > 0.0) | apartment.footprint("sofa")
    reached, queue = apartment.footprint("sofa").copy(), deque(np.argwhere(apartment.footprint("sofa")).tolist())
    hops = {tuple(cell): 0 for cell in queue}
    while queue:
        i, j = queue.popleft()
        for k, n in ((i + 1, j), (i - 1, j), (i, j + 1), (i, j - 1)):
            inside_ = 0 <= k < reached.shape[0] and 0 <= n < reached.shape[1]
            if inside_ and open_floor[k, n] and not reached[k, n] and hops[i, j] < 30:
                reached[k, n], hops[k, n] = True, hops[i, j] + 1
                queue.append([k, n])
    assert found.any() and not (found & ~reached).any()


def test_in_view_asks_for_the_right_heading() -> None:
    env = NavigationEnv("objectnav", "train", in_view=True)
    env.reset(options={"index": TRAIN})
    for _ in range(MAX_STEPS):
        action = shortest_path_action(env)
        if action == STOP:
            break
        env.step(action)
    assert env.at_goal()
    env.pose[2] += math.pi
    assert env.near_goal() and not env.at_goal()


@pytest.mark.parametrize(
    ("bad", "says"),
    [
        ({"task": "picknav"}, "choose from pointnav"),
        ({"obs": "sonar"}, "choose from laser"),
        ({"turn_deg": 15}, "choose from 10, 30"),
        ({"in_view": True}, "leave it out"),
        ({"split": "tset"}, "unknown split"),
    ],
)
def test_bad_arguments_are_named(bad: dict[str, Any], says: str) -> None:
    with pytest.raises(ValueError, match=says):
        NavigationEnv(**bad)


# -- noise -------------------------------------------------------------------------------------------------------------


def test_noise_of_motion_has_the_stated_moments() -> None:
    rng = np.random.default_rng(0)
    ahead = np.array([noisy_motion(rng, 0.25, 0.0) for _ in range(4000)])
    turned = np.array([noisy_motion(rng, 0.0, -math.radians(10)) for _ in range(4000)])
    for column, (mean, variance) in enumerate(LINEAR[1:], start=1):
        assert ahead[:, column].mean() == pytest.approx(mean, abs=0.006)
        assert ahead[:, column].std() == pytest.approx(math.sqrt(variance), rel=0.05)
    assert ahead[:, 0].min() >= 0.05 * 0.25 - 1e-9
    for column, (mean, variance) in enumerate(ROTATIONAL[:2]):
        assert turned[:, column].mean() == pytest.approx(mean, abs=0.006)
        assert turned[:, column].std() == pytest.approx(math.sqrt(variance), rel=0.05)
    # A turn to the right goes on to the right, and by a twentieth at least.
    assert turned[:, 2].max() <= -0.05 * math.radians(10) + 1e-9
    assert turned[:, 2].mean() < -math.radians(10)


def test_noise_of_sensors_has_the_stated_deviation_and_leaves_nothing_seen_alone() -> None:
    rng = np.random.default_rng(0)
    ranges = np.concatenate((np.full(4000, 0.3, np.float32), np.ones(100, np.float32)))
    noisy = noisy_laser(rng, ranges, 10.0)
    assert (noisy[4000:] == 1.0).all()
    assert noisy[:4000].std() == pytest.approx(0.002, rel=0.1) and noisy[:4000].mean() == pytest.approx(0.3, abs=2e-4)
    image = noisy_depth(rng, np.full((64, 64, 1), 0.4, np.float32), 10.0)
    assert image.dtype == np.float32 and image.std() * 10 == pytest.approx(0.0012 + 0.0019 * 3.6**2, rel=0.1)


def test_noise_is_the_seeds() -> None:
    def play(seed: int) -> list[float]:
        env = NavigationEnv("pointnav", "train", noise=True)
        env.reset(seed=seed, options={"index": TRAIN})
        for action in (FORWARD, LEFT, FORWARD, RIGHT, FORWARD):
            observation, *_ = env.step(action)
        return [*env.pose.tolist(), *observation["laser"].tolist()]

    assert play(1) == play(1) != play(2)


# -- episodes ----------------------------------------------------------------------------------------------------------


def rounded(value: Any) -> Any:
    return (
        [rounded(item) for item in value]
        if isinstance(value, (tuple, list))
        else round(value, 5) + 0.0
        if isinstance(value, float)
        else value
    )


def digest_of(name: str) -> str:
    """Apartment by apartment: making one is what takes time."""
    task, split = name.split()
    order = [apartment + 40 * turn for apartment in range(40) for turn in range(25)]
    contents = [rounded(astuple(make_navigation_episode(task, split, index))) for index in order]
    return hashlib.sha256(json.dumps(contents).encode()).hexdigest()[:16]


NAMES = [f"{task} {split}" for task in TASKS for split in ("val", "test")]


@pytest.mark.parametrize("name", NAMES)
def test_val_and_test_are_frozen(name: str) -> None:
    assert digest_of(name) == FROZEN[name], "figures measured before no longer compare; see this file's docstring"


@few
@given(st.sampled_from(TASKS), st.sampled_from(("train", "val", "test")), st.integers(0, 999))
def test_an_episode_is_a_function_of_task_split_and_index(task: str, split: str, index: int) -> None:
    episode = make_navigation_episode(task, split, index)
    make_navigation_episode("explore", "train", index + 1)
    assert make_navigation_episode(task, split, index) == episode
    assert make_navigation_episode(task, split, index + 1) != episode
    apartment = load_apartment(episode.scene_seed)
    assert apartment.free[apartment.cell(*episode.start[:2])]
    if task in ("pointnav", "objectnav"):
        assert 1.0 <= episode.geodesic_m <= 30.0
    if episode.goal is not None:
        assert apartment.free[apartment.cell(*episode.goal)]


def test_straight_ways_are_mostly_rejected() -> None:
    rng = np.random.default_rng(0)
    for ratio in (1.0, 1.05, 1.099):
        rate = np.mean([accepted(5.0 * ratio, 5.0, rng) for _ in range(20_000)])
        assert rate == pytest.approx(20.0 * (ratio - 0.98) ** 2, abs=0.01)
    assert all(accepted(5.0 * 1.1001, 5.0, rng) for _ in range(100))
    assert not accepted(0.99, 0.5, rng) and not accepted(30.1, 5.0, rng) and not accepted(math.inf, 5.0, rng)


def test_few_episodes_are_straight() -> None:
    episodes = [make_navigation_episode("pointnav", "train", TRAIN + 1000 * k) for k in range(60)]
    ratios = [e.geodesic_m / math.dist(e.start[:2], e.goal or (0.0, 0.0)) for e in episodes]
    assert np.mean(np.array(ratios) < RATIO) < 0.25
    assert min(ratios) >= 1.0 - 1e-6


if __name__ == "__main__":
    for each in NAMES:
        print(f'    "{each}": "{digest_of(each)}",')
