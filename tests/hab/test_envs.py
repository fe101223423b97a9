"""The environments are gymnasium's: ids, spaces, seeding, and the scenarios' reward and success."""

from __future__ import annotations

import functools
from typing import Any

import gymnasium
import mujoco
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

from hab.episodes import scene_seed
from hab.layout import SPLIT_SEEDS
from hab.mujoco.render import RenderingUnavailable
from hab.sampler import SCENE_REPEATS, EpisodeSampler
from hab.scenario_env import IDS, MAX_STEPS, ScenarioEnv
from skills import TASKS, env_id

SCENARIO_IDS = tuple(IDS.values())
SKILL_IDS = tuple(map(env_id, TASKS))
QUIET = "ignore:.*A Box observation space (min|max)imum value is.*infinity"
"""Positions have no bounds; habitat's spaces say so, too."""
pytestmark = pytest.mark.filterwarnings("error::UserWarning", QUIET)

SCENARIO_KEYS = {
    "joint": 7,
    "is_holding": 1,
    "ee_pos": 3,
    "relative_resting_position": 3,
    "obj_start_sensor": 3,
    "obj_goal_sensor": 3,
    "obj_start_gps_compass": 2,
    "obj_goal_gps_compass": 2,
    "localization_sensor": 4,
}
PER_TARGET = ("obj_start_sensor", "obj_goal_sensor", "obj_start_gps_compass", "obj_goal_gps_compass")


@functools.cache
def has_gl() -> bool:
    try:
        ScenarioEnv("set_table", obs="depth", index=0).reset()
    except RenderingUnavailable:
        return False
    return True


def make(id_: str, **options: Any) -> Any:
    return gymnasium.make(id_, split="val", **options).unwrapped


def still(**parts: float) -> dict[str, np.ndarray]:
    """No motion, suction off, no stop, except for the parts given."""
    action = {
        "arm_action": np.zeros(7, np.float32),
        "grip_action": np.full(1, -1.0, np.float32),
        "base_vel": np.zeros(2, np.float32),
        "rearrange_stop": np.full(1, -1.0, np.float32),
    }
    for part, value in parts.items():
        action[part][:] = value
    return action


@pytest.mark.parametrize("id_", SCENARIO_IDS + SKILL_IDS)
def test_gymnasiums_own_check(id_: str) -> None:
    check_env(make(id_, index=0), skip_render_check=True)


@pytest.mark.parametrize("id_", ["tpsrl/SetTable-v0", "tpsrl/Pick-v0", "tpsrl/Navigate-v0"])
def test_gymnasiums_own_check_with_rendering(id_: str) -> None:
    if not has_gl():
        pytest.skip("no OpenGL back end works here")
    env = gymnasium.make(id_, split="val", obs="depth", index=0, render_mode="rgb_array")
    check_env(env.unwrapped)
    env.reset()
    image = env.render()
    assert isinstance(image, np.ndarray) and image.shape == (480, 640, 3) and image.std() > 10.0
    env.close()


@pytest.mark.parametrize("id_", SCENARIO_IDS + SKILL_IDS)
def test_spaces_contain_what_they_are_for(id_: str) -> None:
    env = make(id_)
    env.action_space.seed(3)
    observation, _ = env.reset(seed=3)
    for _ in range(60):
        assert env.observation_space.contains(observation)
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
        assert isinstance(reward, float) and type(terminated) is bool and type(truncated) is bool
        assert type(info["success"]) is bool and isinstance(info["num_steps"], int)
        if terminated or truncated:
            observation, _ = env.reset()


@pytest.mark.parametrize("id_", SCENARIO_IDS)
def test_scenarios_have_habitats_keys(id_: str) -> None:
    env = make(id_)
    targets = {"tpsrl/TidyHouse-v0": 5, "tpsrl/PrepareGroceries-v0": 3, "tpsrl/SetTable-v0": 2}[id_]
    expected = {key: (size * (targets if key in PER_TARGET else 1),) for key, size in SCENARIO_KEYS.items()}
    assert {key: box.shape for key, box in env.observation_space.items()} == expected | {
        "laser": (64,),
        "head_scan": (48,),
    }
    assert set(env.action_space) == {"arm_action", "grip_action", "base_vel", "rearrange_stop"}
    assert make(id_, obs="depth").observation_space["head_depth"].shape == (128, 128, 1)


@pytest.mark.parametrize("id_", ["tpsrl/TidyHouse-v0", "tpsrl/Pick-v0"])
def test_a_seed_fixes_everything(id_: str) -> None:
    def play(seed: int) -> list[np.ndarray]:
        env = make(id_)
        env.action_space.seed(0)
        seen = [env.reset(seed=seed)[0]]
        for _ in range(2):
            seen += [env.step(env.action_space.sample())[0] for _ in range(5)] + [env.reset()[0]]
        return [np.concatenate([part.ravel() for part in observation.values()]) for observation in seen]

    first, again, other = play(1), play(1), play(2)
    assert all(np.array_equal(a, b) for a, b in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])


def test_an_index_can_be_asked_for() -> None:
    env = make("tpsrl/SetTable-v0", index=7)
    assert env.reset()[1]["index"] == env.reset()[1]["index"] == 7
    assert env.reset(options={"index": 23})[1]["index"] == 23


@given(st.sampled_from(["train", "val", "test"]), st.integers(0, 10**6))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_drawn_indices_stay_in_an_apartment_for_a_while(split: str, seed: int) -> None:
    sampler, rng = EpisodeSampler(split), np.random.default_rng(seed)
    apartments = {"train": 1_000, "val": 40, "test": 40}[split]
    drawn = [sampler.draw(rng) for _ in range(4 * SCENE_REPEATS)]
    assert all(0 <= index < {"train": 100_000, "val": 1_000, "test": 1_000}[split] for index in drawn)
    for start in range(0, len(drawn), SCENE_REPEATS):
        assert len({index % apartments for index in drawn[start : start + SCENE_REPEATS]}) == 1


@given(st.integers(0, 10**6), st.floats(0.0, 1.0), st.sets(st.sampled_from(SPLIT_SEEDS["train"]), min_size=1))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_favoured_apartments_have_their_share(seed: int, share: float, favoured: set[int]) -> None:
    """However few they are: 10 of 1,000 apartments, asked for in half of the draws, are half of them."""
    sampler, rng = EpisodeSampler("train", favoured=favoured, share=share), np.random.default_rng(seed)
    groups = 400
    drawn = [scene_seed("train", sampler.draw(rng)) for _ in range(groups * SCENE_REPEATS)][::SCENE_REPEATS]
    found = sum(apartment in favoured for apartment in drawn) / groups
    assert found == pytest.approx(share, abs=0.1)
    assert len(set(drawn)) > 0.2 * groups or len(favoured) < 100


@given(st.integers(0, 10**6), st.floats(0.0, 1.0))
@settings(max_examples=30, deadline=None, derandomize=True)
def test_failed_episodes_come_again_in_the_same_apartment(seed: int, retries: float) -> None:
    """As often as asked for, each as often as it failed, and the draws stay those of the generator."""

    def play() -> tuple[list[int], int, int]:
        sampler, rng = EpisodeSampler("train", retries=retries), np.random.default_rng(seed)
        drawn: list[int] = []
        again = could = 0
        for number in range(40 * SCENE_REPEATS):
            if number % SCENE_REPEATS == 0:
                failed: list[int] = []
            index = sampler.draw(rng)
            assert drawn == [] or number % SCENE_REPEATS == 0 or index % 1_000 == drawn[-1] % 1_000
            could += bool(failed)
            if index in failed:
                failed.remove(index)
                again += 1
            if index % 3 == 0:
                sampler.failed(index)
                failed.append(index)
            drawn.append(index)
        return drawn, again, could

    drawn, again, could = play()
    assert could > 50 and again == pytest.approx(retries * could, abs=0.03 * could + 2.0 * np.sqrt(could))
    assert play()[0] == drawn


@pytest.mark.parametrize("options", [{"split": "dev"}, {"obs": "smell"}, {"scenario": "cook"}])
def test_bad_options_are_refused_in_one_line(options: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="choose from") as error:
        ScenarioEnv(**{"scenario": "set_table", **options})
    assert "\n" not in str(error.value)


# -- scenarios: reward, success, end -----------------------------------------------------------------------------------


def teleport(env: ScenarioEnv, name: str, position: Any) -> None:
    adr = env.sim.model.joint(name).qposadr[0]
    env.sim.data.qpos[adr : adr + 3] = position
    env.sim.data.qpos[adr + 3 : adr + 7] = (1, 0, 0, 0)
    env.sim.data.qvel[:] = 0.0
    mujoco.mj_forward(env.sim.model, env.sim.data)


@pytest.mark.parametrize("scenario", ["tidy_house", "prepare_groceries", "set_table"])
def test_success_needs_every_object_at_its_goal(scenario: str) -> None:
    env = ScenarioEnv(scenario, split="val", index=1)
    env.reset()
    targets = env.sim.episode.targets
    placed = np.zeros(len(targets), dtype=bool)
    for i, target in enumerate(targets):
        _, reward, terminated, _, info = env.step(still())
        assert reward == 0.0 and not terminated and not info["success"]
        np.testing.assert_array_equal(info["placed"], placed)
        assert list(info["stage_goals"]) == [False, True] * i + [False, False] * (len(targets) - i)
        # Closer than 0.3 m counts for habitat's predicate only.
        teleport(env, target.object, np.add(target.goal_pos, (0.0, 0.0, 0.2)))
        loosely = env.step(still())[4]
        assert loosely["placed_0_3m"][i] and not loosely["placed"][i]
        teleport(env, target.object, target.goal_pos)
        placed[i] = True
    _, reward, terminated, _, info = env.step(still())
    assert reward == 100.0 and terminated and info["success"] and all(info["placed"])
    errors = [np.linalg.norm(env.sim.object_pos(t.object) - t.goal_pos) for t in targets]
    np.testing.assert_allclose(info["object_to_goal_distance"], errors)


def test_what_is_in_hand_is_not_placed() -> None:
    env = ScenarioEnv("set_table", split="val", index=1)
    env.reset()
    first, second = env.sim.episode.targets
    teleport(env, second.object, second.goal_pos)
    env.sim.hold(first.object)
    env._goals[0] = tuple(env.sim.object_pos(first.object))  # as if the goal were where the hand is
    for _ in range(3):
        _, reward, terminated, _, info = env.step(still(grip_action=1.0))
    assert reward == 0.0 and not terminated and info["object_to_goal_distance"][0] < 0.02
    assert list(info["placed"]) == [False, True] and list(info["placed_0_3m"]) == [False, True]
    assert list(info["stage_goals"]) == [True, False, False, False]
    other = next(name for name in env.sim.episode.objects if name not in (first.object, second.object))
    env.reset()
    for target in env.sim.episode.targets:
        teleport(env, target.object, target.goal_pos)
    env.sim.hold(other)
    _, reward, terminated, _, info = env.step(still(grip_action=1.0))
    assert reward == 0.0 and not terminated and all(info["placed"]) and not info["success"]


def test_stop_and_time_end_the_episode() -> None:
    env = ScenarioEnv("tidy_house", split="val", index=0)
    env.reset()
    _, reward, terminated, truncated, _ = env.step(still(rearrange_stop=1.0))
    assert (reward, terminated, truncated) == (0.0, True, False)
    env.reset()
    env.sim.steps = MAX_STEPS - 2
    assert env.step(still())[2:4] == (False, False)
    assert env.step(still())[2:4] == (False, True)
    assert MAX_STEPS == 7500


def test_sensors_in_their_frames() -> None:
    """Each sensor rebuilt from the simulator's state with plain geometry."""
    env = ScenarioEnv("prepare_groceries", split="val", index=2)
    observation, _ = env.reset()
    env.action_space.seed(1)
    x0, y0, yaw0 = env.sim.base
    for _ in range(40):
        action = env.action_space.sample()
        action["rearrange_stop"][:] = -1.0
        observation = env.step(action)[0]
    x, y, yaw = env.sim.base
    turn = np.array([[np.cos(yaw), -np.sin(yaw), 0], [np.sin(yaw), np.cos(yaw), 0], [0, 0, 1]])
    base = np.array([x, y, 0.0])
    np.testing.assert_allclose(base + turn @ observation["ee_pos"], env.sim.ee_pos, atol=1e-5)
    rest = observation["ee_pos"] + observation["relative_resting_position"]
    np.testing.assert_allclose(rest, [0.5, 0.0, 1.0], atol=1e-6)
    for i, target in enumerate(env.sim.episode.targets):
        for key, position in (("start", target.start_pos), ("goal", target.goal_pos)):
            seen = observation[f"obj_{key}_sensor"][3 * i : 3 * i + 3]
            np.testing.assert_allclose(env.sim.ee_pos + env.sim.ee_mat @ seen, position, atol=1e-5)
            distance, heading = observation[f"obj_{key}_gps_compass"][2 * i : 2 * i + 2]
            found = base + turn @ (distance * np.array([np.cos(heading), -np.sin(heading), 0.0]))
            np.testing.assert_allclose(found[:2], position[:2], atol=1e-5)
            assert -np.pi <= heading <= np.pi
    ahead, left, cos, sin = observation["localization_sensor"]
    back = np.array([[np.cos(yaw0), -np.sin(yaw0)], [np.sin(yaw0), np.cos(yaw0)]])
    np.testing.assert_allclose((x0, y0) + back @ (ahead, left), (x, y), atol=1e-5)
    assert np.arctan2(sin, cos) == pytest.approx((yaw - yaw0 + np.pi) % (2 * np.pi) - np.pi, abs=1e-5)
