"""Episodes and start states: the same everywhere, possible everywhere, and frozen for val and test.

`python tests/hab/test_episodes.py` prints the table of hashes for `FROZEN` after a deliberate change.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import math
from collections import Counter
from dataclasses import astuple, replace
from typing import Any

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hab.episodes import (
    REACH_M,
    SCENARIOS,
    SPLITS,
    Episode,
    approach_poses,
    asked_kinds,
    is_unseen,
    lies_on,
    load_grid,
    load_scene,
    make_episode,
    scene_seed,
)
from hab.layout import generate_scene
from hab.mujoco.simulator import MujocoSimulator
from hab.objects import HOUSE_OBJECTS, OBJECTS, UNSEEN, object_kind, object_model
from hab.openings import grid_with_openings
from hab.scene import Receptacle
from skills import TASKS, make_env

FROZEN: dict[str, str] = {
    "tidy_house val": "ecc616043c50dbcd",
    "tidy_house test": "4eb793d6c9d0b709",
    "prepare_groceries val": "23c3fd6866ac5ec0",
    "prepare_groceries test": "6be99c67bbce609a",
    "set_table val": "fe7c27f581685966",
    "set_table test": "302e24543a24fb01",
    "navigate val": "e2cae0a1ca51a154",
    "navigate test": "baa89f8df8fc33ca",
    "pick val": "fb8f7147b5c15c02",
    "pick test": "7a6b5f6b992d56e4",
    "place val": "317b34c7084de31f",
    "place test": "b87bbb2abd7a04ac",
    "open_fridge val": "424ba0a463c14a9d",
    "open_fridge test": "b483a0d6c28c4dd5",
    "close_fridge val": "13efcf39674b8021",
    "close_fridge test": "71830af7fa0ac807",
    "open_cabinet val": "6f3f5f54d7d39db1",
    "open_cabinet test": "18a3d0d05d372498",
    "close_cabinet val": "b61d1cce60d14f6b",
    "close_cabinet test": "cada22407ca7e9fd",
    "rearrange val": "f6ba430659b270c0",
    "rearrange test": "12e775f0834911a8",
    "pick val no-base": "c15484e7271d75ca",
    "pick test no-base": "c7e3caa52f51d69e",
    "place val no-base": "5aa9237ff03498a9",
    "place test no-base": "d3f9963bd42d32d8",
    "open_fridge val no-base": "74e1b4ee5f80c6a6",
    "open_fridge test no-base": "b9a6491861b4e7d4",
    "close_fridge val no-base": "77955a8bdf7d8231",
    "close_fridge test no-base": "f88d3c9dd092e5bf",
    "close_cabinet val no-base": "bdc0897f7715d2d7",
    "close_cabinet test no-base": "c07f2f8f2beeda13",
}
"""First 16 digits of the SHA-256 of the contents of 120 episodes, or of 10 start states, each."""

BASE_FREE = ("pick", "place", "open_fridge", "close_fridge", "close_cabinet")
"""Skills whose start states differ without base movement."""
few = settings(max_examples=15, deadline=None, derandomize=True)
any_episode = st.tuples(st.sampled_from(SCENARIOS), st.sampled_from(SPLITS), st.integers(0, 3000))


def rounded(value: Any) -> Any:
    """Plain data with every number rounded to 1e-6, so that the last bit of a sine does not matter."""
    if isinstance(value, dict):
        return {str(key): rounded(value[key]) for key in sorted(value)}
    if isinstance(value, (tuple, list)):
        return [rounded(item) for item in value]
    return round(float(value), 6) + 0.0 if isinstance(value, (float, np.floating)) else value


def digest(contents: list[Any]) -> str:
    return hashlib.sha256(json.dumps(rounded(contents)).encode()).hexdigest()[:16]


def told(episode: Episode) -> tuple[Any, ...]:
    """All of a generated episode: it is of no folder of data."""
    *contents, data = astuple(episode)
    assert data == ""
    return tuple(contents)


@functools.cache
def scenario_digests(split: str) -> dict[str, str]:
    """The first 120 episodes of each scenario, apartment by apartment (generating one is what takes time)."""
    order = [apartment + 40 * turn for apartment in range(40) for turn in range(3)]
    contents = [[told(make_episode(scenario, split, index)) for scenario in SCENARIOS] for index in order]
    return {scenario: digest([row[i] for row in contents]) for i, scenario in enumerate(SCENARIOS)}


def skill_digest(skill: str, split: str, base_movement: bool) -> str:
    """Two apartments, five start states each."""
    env = make_env(skill, split=split, base_movement=base_movement)
    starts = []
    for index in (0, 40, 80, 120, 160, 7, 47, 87, 127, 167):
        env.reset(options={"index": index})
        start = env.unwrapped.start  # type: ignore[attr-defined]
        assert start.tilt_rad == 0.0  # that is for training
        starts.append((told(start.episode), astuple(start.goal)[: 4 if start.goal.then else 3], start.held))
    return digest(starts)


def frozen_names() -> list[str]:
    names = [f"{scenario} {split}" for scenario in SCENARIOS for split in ("val", "test")]
    names += [f"{skill} {split}" for skill in TASKS for split in ("val", "test")]
    return names + [f"{skill} {split} no-base" for skill in BASE_FREE for split in ("val", "test")]


def digest_of(name: str) -> str:
    what, split, *variant = name.split()
    return scenario_digests(split)[what] if what in SCENARIOS else skill_digest(what, split, not variant)


@pytest.mark.parametrize("name", frozen_names())
def test_val_and_test_are_frozen(name: str) -> None:
    assert digest_of(name) == FROZEN[name], "figures measured before no longer compare; see this file's docstring"


@few
@given(any_episode)
def test_an_episode_is_a_function_of_scenario_split_and_index(which: tuple[str, str, int]) -> None:
    episode = make_episode(*which)
    make_episode("tidy_house", "train", which[2] + 1)
    assert make_episode(*which) == episode
    assert make_episode(which[0], which[1], which[2] + 1) != episode


def test_splits_share_no_apartment() -> None:
    used = {split: {scene_seed(split, index) for index in range(3000)} for split in SPLITS}
    for a, b in itertools.combinations(SPLITS, 2):
        assert not used[a] & used[b]
    assert len(used["train"]) == 1000 and len(used["val"]) == len(used["test"]) == 40


def local(receptacle: Receptacle, position: tuple[float, float, float]) -> np.ndarray:
    """A world position in the receptacle's frame."""
    c, s = math.cos(receptacle.yaw), math.sin(receptacle.yaw)
    offset = np.subtract(position, receptacle.center)
    return np.array([[c, s, 0], [-s, c, 0], [0, 0, 1]]) @ offset


def within(scene_seed_: int, name: str, receptacle: str, position: tuple[float, float, float]) -> bool:
    """Whether an object at a position stands on the surface, its centre inside of the usable rectangle."""
    surface = load_scene(scene_seed_).receptacle(receptacle)
    x, y, z = local(surface, position)
    inside = abs(x) <= surface.half_extents[0] + 1e-9 and abs(y) <= surface.half_extents[1] + 1e-9
    return inside and abs(z - object_model(name).half_height_m) < 1e-9


@few
@given(any_episode)
def test_targets_lie_on_their_receptacles_and_have_somewhere_to_go(which: tuple[str, str, int]) -> None:
    episode = make_episode(*which)
    for target in episode.targets:
        assert within(episode.scene_seed, target.object, target.start_receptacle, target.start_pos)
        assert within(episode.scene_seed, target.object, target.goal_receptacle, target.goal_pos)
        assert episode.objects[target.object][0] == target.start_pos
        assert target.start_receptacle != target.goal_receptacle
        assert math.dist(target.start_pos, target.goal_pos) > 0.3
    assert len({target.object for target in episode.targets}) == len(episode.targets)


@few
@given(any_episode)
def test_scenarios_are_what_they_say(which: tuple[str, str, int]) -> None:
    episode = make_episode(*which)
    scene = load_scene(episode.scene_seed)
    kinds = [
        (scene.receptacle(t.start_receptacle).kind, scene.receptacle(t.goal_receptacle).kind) for t in episode.targets
    ]
    if episode.scenario == "tidy_house":
        assert len(kinds) == 5 and not {"drawer", "fridge"} & set(itertools.chain(*kinds))
        assert episode.joints == {}
    elif episode.scenario == "prepare_groceries":
        assert len(kinds) == 3 and set(kinds) == {("counter", "fridge"), ("fridge", "counter")}
        assert [scene.articulation(name).kind for name in episode.joints] == ["fridge"]
    else:
        assert kinds == [("drawer", "table"), ("fridge", "table")]
        assert episode.joints == {}


@few
@given(any_episode)
def test_the_base_can_drive_to_every_target(which: tuple[str, str, int]) -> None:
    """Brute force over all cells: some reachable one is at arm's length from each start and goal."""
    episode = make_episode(*which)
    grid = load_grid(episode.scene_seed)
    reached = np.isfinite(grid.distance_field(episode.robot[:2]))
    points = np.array([grid.xy(i, j) for i, j in np.argwhere(reached)])
    assert grid.is_free(*episode.robot[:2])
    for position in (p for target in episode.targets for p in (target.start_pos, target.goal_pos)):
        distance = np.hypot(*(points - position[:2]).T)
        assert np.any((distance > REACH_M[0] - 0.04) & (distance < REACH_M[1] + 0.04))


def overlapping(episode: Episode, spots: list[tuple[str, tuple[float, float, float]]]) -> list[tuple[str, str]]:
    """Pairs of objects whose upright cylinders overlap."""
    pairs = []
    for (a, at), (b, bt) in itertools.combinations(spots, 2):
        apart = math.dist(at[:2], bt[:2]) > object_model(a).radius_m + object_model(b).radius_m
        above = abs(at[2] - bt[2]) > object_model(a).half_extents[2] + object_model(b).half_extents[2]
        if a != b and not apart and not above:
            pairs.append((a, b))
    return pairs


@few
@given(any_episode)
def test_no_two_spots_overlap(which: tuple[str, str, int]) -> None:
    episode = make_episode(*which)
    starts = [(name, position) for name, (position, _) in episode.objects.items()]
    goals = [(target.object, target.goal_pos) for target in episode.targets]
    assert set(episode.objects) == set(load_scene(episode.scene_seed).objects)
    assert overlapping(episode, starts + goals) == []


@settings(max_examples=8, deadline=None, derandomize=True)
@given(any_episode)
def test_an_episode_is_at_rest(which: tuple[str, str, int]) -> None:
    """In the simulator nothing overlaps, and after two seconds everything is where it was, the robot included."""
    episode, sim = make_episode(*which), MujocoSimulator()
    sim.reset(episode)
    assert not sim.collides()
    for _ in range(60):
        sim.step({})
        assert min((c.dist for c in sim.data.contact), default=0.0) > -0.005
    for name, (position, _) in episode.objects.items():
        assert math.dist(sim.object_pos(name), position) < 0.004, name
    for articulation in sim.scene.articulations:
        assert sim.joint_pos(articulation.name) == pytest.approx(episode.joints.get(articulation.name, 0.0), abs=2e-3)
    np.testing.assert_allclose(sim.base, episode.robot, atol=2e-3)
    assert not np.isnan(sim.data.qpos).any() and mujoco.mj_stateSize(sim.model, 1) > 0


def gaps(episode: Episode) -> list[float]:
    """Free space (m) from each object to the nearest one on the same receptacle, where there is one within 0.3 m."""
    scene = load_scene(episode.scene_seed)
    places = {name: (lies_on(scene, at), at) for name, (at, _) in episode.objects.items()}
    found = []
    for name, (where, at) in places.items():
        assert where is not None, name
        near = [
            math.dist(at[:2], bt[:2]) - object_model(name).radius_m - object_model(other).radius_m
            for other, (there, bt) in places.items()
            if other != name and there == where
        ]
        found += [min(near)] if near and min(near) < 0.3 else []
    return found


def test_objects_stand_in_groups_at_varied_gaps() -> None:
    every = [gap for index in range(12) for gap in gaps(make_episode("tidy_house", "val", index))]
    assert min(every) > 0.02
    bins = np.histogram(every, bins=(0.02, 0.04, 0.06, 0.08, 0.10))[0]
    assert np.all(bins > 0.05 * len(every)), bins
    assert sum(gap < 0.10 for gap in every) > 0.4 * len(every)


def test_what_is_much_taller_leaves_room_for_the_gripper() -> None:
    """Beside what a hand takes, or puts down: the gripper is 12.4 cm wide and begins 13 cm behind the cup's rim."""
    beside = 0
    for index in range(120):
        episode = make_episode("tidy_house", "train", index % 40 + 1000 * (index % 3))
        ends = [(t.object, at) for t in episode.targets for at in (t.start_pos, t.goal_pos)]
        for (name, at), (other, (bt, _)) in itertools.product(ends, episode.objects.items()):
            halves = object_model(name).half_extents[2], object_model(other).half_extents[2]
            rise = bt[2] + halves[1] - at[2] - halves[0]
            away = math.dist(at[:2], bt[:2]) - object_model(other).radius_m
            if name != other and abs(at[2] - bt[2]) < sum(halves) and rise > 0.09:
                assert away > 0.062, (index, name, other)
                beside += away < 0.15
    assert beside > 3


def test_some_objects_are_in_drawers_and_in_the_fridge_and_in_front_of_others() -> None:
    kinds: Counter[str] = Counter()
    behind = 0
    for index in range(12):
        episode = make_episode("tidy_house", "val", index)
        scene = load_scene(episode.scene_seed)
        places = [(lies_on(scene, at), at) for at, _ in episode.objects.values()]
        kinds.update(where.kind for where, _ in places if where)
        for (a, at), (b, bt) in itertools.permutations(places, 2):
            if a and a == b and len(a.fronts) == 1:
                ahead, aside, _ = local(a, at) - local(b, bt)
                behind += bool(ahead > 0.05 and abs(aside) < 0.05)
    assert kinds["drawer"] >= 12 and kinds["fridge"] >= 12
    assert sum(kinds.values()) == 12 * HOUSE_OBJECTS
    assert behind >= 6


@few
@given(any_episode, st.integers(5, HOUSE_OBJECTS - 1))
def test_fewer_objects_make_the_same_episode_with_less_in_it(which: tuple[str, str, int], count: int) -> None:
    everything, fewer = make_episode(*which), make_episode(*which, objects=count)
    assert len(fewer.objects) == count and fewer.objects.items() <= everything.objects.items()
    assert fewer.targets == everything.targets and {t.object for t in fewer.targets} <= set(fewer.objects)
    assert (fewer.robot, fewer.joints) == (everything.robot, everything.joints)
    even_fewer = make_episode(*which, objects=5)
    assert set(even_fewer.objects) <= set(fewer.objects)


def test_absent_objects_are_out_of_the_house() -> None:
    """One compiled apartment serves both; what is not there stands beyond its walls, and stays."""
    sim = MujocoSimulator()
    sim.reset(make_episode("tidy_house", "val", 2))
    model = sim.model
    few_objects = make_episode("tidy_house", "val", 2, objects=11)
    sim.reset(few_objects)
    assert sim.model is model
    for _ in range(30):
        sim.step({})
    x0, y0, x1, y1 = sim.scene.bounds
    inside = {
        name for name in sim.scene.objects
        if x0 < (at := sim.object_pos(name))[0] < x1 and y0 < at[1] < y1
    }  # fmt: skip
    assert inside == set(few_objects.objects)
    assert all(sim.object_pos(name)[2] > 0.0 for name in sim.scene.objects)


@pytest.mark.parametrize("count", [4, HOUSE_OBJECTS + 1])
def test_a_house_holds_no_fewer_objects_than_targets_and_no_more_than_there_are(count: int) -> None:
    with pytest.raises(ValueError, match="5 to 30"):
        make_episode("tidy_house", "val", 0, objects=count)


def test_what_is_drawn_again_is_told_and_rare() -> None:
    redrawn = {
        scenario: [make_episode(scenario, "val", index).redrawn for index in range(30)] for scenario in SCENARIOS
    }
    assert redrawn["tidy_house"] == redrawn["set_table"] == [0] * 30
    assert 0 < sum(count > 0 for count in redrawn["prepare_groceries"]) < 12
    assert max(redrawn["prepare_groceries"]) < 20


@pytest.mark.parametrize("index", [259, 0, 3, 500])
def test_an_opened_fridge_shuts_nobody_out_of_the_kitchen(index: int) -> None:
    """259: its door, opened, once stood across the only way in, and no episode fitted."""
    episode = make_episode("prepare_groceries", "train", index)
    scene = load_scene(episode.scene_seed)
    grid = grid_with_openings(scene, load_grid(scene.seed), episode.joints)
    for target in episode.targets:
        receptacle = scene.receptacle(target.start_receptacle)
        assert approach_poses(grid, receptacle, target.start_pos)
        assert np.isfinite(grid.distance_field(target.start_pos[:2])[grid.cell(*episode.robot[:2])])


def test_a_kind_more_in_the_catalogue_changes_no_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    which = [(scenario, split, 7) for scenario in SCENARIOS for split in SPLITS]
    before = [make_episode(*each) for each in which]
    new = replace(OBJECTS["013_apple"], name="000_new")
    monkeypatch.setattr("hab.objects.OBJECTS", {"000_new": new, **OBJECTS})
    load_scene.cache_clear()
    generate_scene.cache_clear()
    assert [make_episode(*each) for each in which] == before


@few
@given(any_episode)
def test_a_scenario_starts_with_its_fridge_as_far_open_as_a_wall_lets_it(which: tuple[str, str, int]) -> None:
    episode = make_episode("prepare_groceries", *which[1:])
    ((name, position),) = episode.joints.items()
    end = load_scene(episode.scene_seed).articulation(name).joint_range[1]
    assert position == min(2.0, end)
    assert position > 1.2208  # as far as Open Fridge is to open it


def test_who_is_asked_for_what_only_test_has() -> None:
    told = dict.fromkeys(SPLITS, 0)
    for split, index in itertools.product(SPLITS, range(20)):
        episode = make_episode("tidy_house", split, index)
        scene = load_scene(episode.scene_seed)
        kinds = asked_kinds(scene, episode.targets)
        places = {scene.receptacle(p).kind for t in episode.targets for p in (t.start_receptacle, t.goal_receptacle)}
        assert set(kinds) == {object_kind(t.object) for t in episode.targets} | places
        new = {kind for kind in kinds if kind in UNSEEN or kind in ("dresser", "trolley", "bench")}
        assert {kind for kind in kinds if is_unseen(kind)} == new
        told[split] += bool(new)
    assert told["train"] == told["val"] == 0 and 10 <= told["test"] <= 20


@pytest.mark.parametrize("bad", [("cook", "val"), ("tidy_house", "dev")])
def test_unknown_names_are_refused(bad: tuple[str, str]) -> None:
    with pytest.raises(ValueError, match="choose from"):
        make_episode(*bad, 0)


if __name__ == "__main__":
    print("FROZEN: dict[str, str] = {")
    for frozen in frozen_names():
        print(f'    "{frozen}": "{digest_of(frozen)}",')
    print("}")
