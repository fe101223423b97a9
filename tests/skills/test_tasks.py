"""The skill tasks: what each sees and may do, how it starts, and what its reward adds up to."""

from __future__ import annotations

import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from hab import robot
from hab.actions import ARM, GRIP
from hab.arm import resting_near
from hab.episodes import lies_on, load_grid, load_scene, make_episode, scene_seed
from hab.mapping import CELL_M, CELLS, LaserMap
from hab.measures import ee_in_base
from hab.mujoco.simulator import MujocoSimulator
from hab.observation_sets import CRITIC_KEYS, OBSERVATION_SETS
from hab.openings import against_wall, free_edge, grid_with_openings, link_to_world, opened_boxes, rotated
from hab.sensors import RobotPose
from skills import TASKS, make_env
from skills.articulated import ArticulatedState, handle_reward, state_reward, way_behind
from skills.floor_distance import FloorDistance
from skills.navigate import Navigate, NavigateState, spl, turn_reward
from skills.oracle import make_oracle
from skills.pick import PickState, dropped, pick_reward, reach_reward, wrong_object
from skills.pick import rest_reward as pick_rest_reward
from skills.place import PlaceState, carry_reward, place_reward
from skills.place import rest_reward as place_rest_reward
from skills.skill import arm_rests
from skills.starts import at_position, working_pose
from skills.task import Shoved

SKILLS = tuple(skill for skill in TASKS if skill != "rearrange")
MANIPULATION = tuple(skill for skill in SKILLS if skill != "navigate")
HAND = {"joint", "is_holding", "relative_resting_position"}
SENSES = {
    "navigate": {"goal_to_agent_gps_compass"},
    "pick": {"obj_start_sensor", *HAND},
    "place": {"obj_goal_sensor", *HAND},
    "rearrange": {"goal_to_agent_gps_compass", "obj_goal_sensor", *HAND},
}
"""What habitat-lab tells each skill, and where its handle is."""
SENSES |= dict.fromkeys(
    ("open_fridge", "open_cabinet", "close_fridge", "close_cabinet"), {"handle_start_sensor", "ee_pos", *HAND}
)
ACTS = {
    "navigate": {"base_vel", "rearrange_stop"},
    "pick": {"arm_action", "grip_action"},
    "place": {"arm_action", "grip_action"},
    "open_fridge": {"arm_action", "grip_action"},
    "close_fridge": {"arm_action"},
}
ACTS |= {"open_cabinet": ACTS["open_fridge"], "close_cabinet": ACTS["close_fridge"]}
STEPS = dict.fromkeys(SKILLS, 600) | {"navigate": 1000}


def make(skill: str, base_movement: bool = True) -> Any:
    return make_env(skill, "val", base_movement=base_movement).unwrapped


@pytest.mark.parametrize("skill", TASKS)
def test_each_observation_set_holds_what_its_name_says(skill: str) -> None:
    scans = {"laser", "head_scan"}
    sets = {
        "laser": SENSES[skill] | scans,
        "laser+map": SENSES[skill] | scans | ({"route"} if skill == "navigate" else set()),
        "depth": SENSES[skill] | {"head_depth"},
    }
    for obs, keys in sets.items():
        assert set(make_env(skill, obs=obs).unwrapped.observation_space) == keys
    assert set(make_env(skill).unwrapped.observation_space) == sets["laser"]


@pytest.mark.parametrize("skill", SKILLS)
def test_each_skill_does_what_habitat_lets_it(skill: str) -> None:
    assert set(make(skill).action_space) == ACTS[skill] | {"base_vel"}
    assert set(make(skill, base_movement=False).action_space) == ACTS[skill]
    assert make(skill).max_steps == STEPS[skill]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"starts": "far"}, "choose from wide, near"),
        ({"chain_starts": 5.0}, "between 0 and 1"),
        ({"retries": -0.1}, "between 0 and 1"),
        ({"action_repeat": 0}, "at least 1"),
        ({"critic_keys": ("foo",)}, "choose from critic_state, surroundings"),
    ],
)
def test_arguments_that_cannot_be_are_refused(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        make_env("pick", **given)


def test_unknown_skill_is_refused() -> None:
    with pytest.raises(ValueError, match="choose from"):
        make_env("juggle")


# -- start states ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("base_movement", [True, False])
@pytest.mark.parametrize("skill", SKILLS)
def test_start_states(skill: str, base_movement: bool) -> None:
    env = make(skill, base_movement)
    for index in (0, 20, 40, 60, 1, 21):
        env.reset(options={"index": index})
        first, sim = env.start, env.sim
        episode, goal = first.episode, env.goal
        scene = load_scene(episode.scene_seed)
        x, y, yaw = episode.robot
        assert not sim.collides() and sim.held == first.held
        assert grid_with_openings(scene, load_grid(scene.seed), episode.joints).is_free(x, y)
        assert math.dist(ee_in_base(sim), (0.5, 0.0, 1.0)) < 0.32  # the resting pose's own distance
        distance = math.dist((x, y), goal.position[:2])
        if skill == "navigate":
            assert distance >= 3.0 - 1e-9
        elif skill in ("pick", "place"):
            assert distance <= 2.0 if base_movement else 0.4 <= distance <= 1.1
            assert (first.held == goal.object) == (skill == "place")
        else:
            handle = sim.handle_pos(goal.articulation)
            low, high = {"open_cabinet": (0.8, 1.0), "close_cabinet": (0.5, 0.7)}.get(skill, (0.83, 1.3))
            if skill == "close_fridge" and not base_movement:
                low, high = 0.6, 0.9
            assert low < math.dist((x, y), handle[:2]) < high
            at = sim.joint_pos(goal.articulation)
            wide = {"close_cabinet": (0.4, 0.5), "close_fridge": (math.pi / 4, 2 * math.pi / 3)}.get(skill, (0, 0))
            assert wide[0] <= at <= wide[1]
        for _ in range(10):
            sim.step({"grip_action": np.ones(1)})
        if skill == "pick":
            assert np.linalg.norm(sim.object_pos(goal.object) - episode.objects[goal.object][0]) < 0.006
        env.reset(options={"index": 3})
        env.reset(options={"index": index})
        assert env.start == first


def test_navigate_starts_with_every_kind_of_target() -> None:
    env = make("navigate")
    starts = []
    for index in range(0, 800, 20):
        env.reset(options={"index": index})
        starts.append(env.start)
    held = sum(start.held != "" for start in starts) / len(starts)
    assert 0.02 < held < 0.40
    assert any(start.goal.articulation for start in starts)
    assert any(not start.goal.articulation and not start.held for start in starts)
    assert all(start.goal.position == goal_of_held(start) for start in starts if start.held)


def goal_of_held(start: Any) -> Any:
    return next(t.goal_pos for t in start.episode.targets if t.object == start.held)


def test_objects_are_picked_from_opened_containers_too() -> None:
    env = make("pick")
    kinds = set()
    for index in range(0, 600, 20):
        env.reset(options={"index": index})
        target = env.start.episode.target(env.goal.object)
        kind = env.sim.scene.receptacle(target.start_receptacle).kind
        kinds.add(kind)
        if kind in ("drawer", "fridge"):
            assert opened_boxes(env.sim.scene, env.start.episode.joints)
    assert {"drawer", "fridge"} < kinds


# -- rewards add up ----------------------------------------------------------------------------------------------------


def rollout(env: Any, seed: int, steps: int = 80) -> tuple[list[Any], list[dict[str, Any]], list[float]]:
    """States (start included), infos and rewards of random actions that end nothing on purpose."""
    rng = np.random.default_rng(seed)
    env.reset(options={"index": 20 * seed})
    states, infos, rewards = [env._state], [], []
    action = {}
    for k in range(steps):
        if k % 10 == 0:
            action = {part: rng.uniform(-1, 1, box.shape).astype(np.float32) for part, box in env.action_space.items()}
            if "rearrange_stop" in action:
                action["rearrange_stop"][:] = -1.0
            if "grip_action" in action:
                action["grip_action"][:] = 1.0 if env.start.held else -1.0
        _, reward, terminated, truncated, info = env.step(action)
        states.append(env._state)
        infos.append(info)
        rewards.append(reward)
        if terminated or truncated:
            break
    return states, infos, rewards


def total(infos: list[dict[str, Any]], term: str) -> float:
    return float(sum(info["reward_terms"][term] for info in infos))


def test_what_failed_is_tried_again_if_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """And what succeeded is not."""
    env: Any = make_env("close_cabinet", "train", retries=1.0).unwrapped
    env.max_steps = 2
    still = {part: np.zeros(space.shape, np.float32) for part, space in env.action_space.spaces.items()}

    def episode(options: dict[str, Any]) -> tuple[int, str]:
        index = env.reset(seed=options.get("seed"))[1]["index"]
        while True:
            *_, terminated, truncated, info = env.step(still)
            if terminated or truncated:
                return index, info["reason"]

    (first, reason), (second, _), (third, _) = episode({"seed": 3}), episode({}), episode({})
    assert reason == "timeout" and first == second == third
    monkeypatch.setattr(env, "succeeded", lambda now, action: True)
    assert [episode({})[0] for _ in range(2)][0] == first and episode({})[0] != first


@pytest.mark.parametrize("seed", range(4))
def test_distance_rewards_telescope(seed: int) -> None:
    """The sum of differences is the difference of the ends, whatever happens between them."""
    states, infos, _ = rollout(make("pick"), seed)
    if not any(state.held for state in states):
        expected = 10.0 * (states[0].way_m - states[-1].way_m)
        assert total(infos, "reach") == pytest.approx(expected, abs=10.0 * 0.0005 * len(infos))
    states, infos, _ = rollout(make("place"), seed)
    if all(state.carrying and state.goal_m > 0.15 for state in states):
        expected = 10.0 * (states[0].way_m - states[-1].way_m)
        assert total(infos, "carry") == pytest.approx(expected, abs=10.0 * 0.0005 * len(infos))
    states, infos, _ = rollout(make("navigate"), seed)
    first, last = (max(state.floor_m, 0.7) for state in (states[0], states[-1]))
    assert total(infos, "distance") == pytest.approx(first - last, abs=1e-9)
    states, infos, _ = rollout(make("close_cabinet"), seed)
    if not any(state.reached for state in states):
        assert total(infos, "state") == pytest.approx(10.0 * (states[0].left - states[-1].left), abs=1e-9)
        assert total(infos, "handle") == pytest.approx(states[0].handle_m - states[-1].handle_m, abs=1e-9)


@pytest.mark.parametrize("skill", ["pick", "place", "rearrange"])
def test_ways_lead_into_compartments_by_their_front(skill: str) -> None:
    """Straight to what lies in the open; to what lies in a shelf or the fridge, longer from where a wall is between."""
    env: Any = make_env(skill, "train").unwrapped
    longer = []
    for index in range(60):
        env.reset(options={"index": index})
        target = env.start.episode.target(env.goal.object)
        name = target.goal_receptacle if skill == "place" else target.start_receptacle
        straight = env._state.goal_m if skill == "place" else env._state.object_m
        more = env._state.way_m - straight
        if env.sim.scene.receptacle(name).under_board:
            longer.append(more)
        else:
            assert more == pytest.approx(0.0, abs=1e-9)
    assert min(longer) > -1e-9 and max(longer) > 0.01


@pytest.mark.parametrize("skill", SKILLS)
def test_the_reward_is_the_sum_of_its_terms(skill: str) -> None:
    states, infos, rewards = rollout(make(skill), 2, 40)
    slack = -0.005 if skill in ("navigate", "pick", "place") else 0.0
    for was, now, info, reward in zip(states, states[1:], infos, rewards, strict=False):
        assert reward == pytest.approx(sum(info["reward_terms"].values()))
        assert info["reward_terms"]["slack"] == slack
        per_n = 0.0 if not slack else 5e-4 if skill == "navigate" else 1e-4
        charge = per_n * min(now.force_added_n, 10_000.0)
        assert -info["reward_terms"]["force"] == pytest.approx(charge)
        assert now.force_added_n == 0.0 or now.force_added_n > 20.0
        assert now.force_total_n == pytest.approx(was.force_total_n + now.force_added_n)


@pytest.mark.parametrize("skill", SKILLS)
def test_success_only_when_the_world_says_so(skill: str) -> None:
    """Oracles play; the flag must agree with the definition, read off the simulator, at every step."""
    env, successes = make(skill), 0
    oracle = make_oracle(skill, True)
    for index in (0, 40, 80, 120):
        env.reset(options={"index": index})
        oracle.reset(env.sim, env.goal)
        over, info, brought = False, {}, 0
        while not over:
            wanted = oracle.act(env.sim)
            action = {part: wanted.get(part, np.zeros(box.shape)) for part, box in env.action_space.items()}
            _, reward, terminated, truncated, info = env.step(action)
            over = terminated or truncated
            now = holds(skill, env, action, info)
            if skill == "pick":  # once it has been so, the arm is lowered, in 50 steps at most
                assert not info["success"] or (env.sim.held == env.goal.object and not env.sim.collides())
                brought += now or brought > 0
                assert brought <= 51 and (brought > 1 or not info["success"])
            else:
                assert info["success"] == now
            assert info["success"] <= terminated and (info["reason"] == "") == (info["success"] or not over)
            # Navigate's is worth less by 3 for each metre that it stops short of 0.7 m from where one would work, and 2
            # at least.
            short_m = max(0.0, info["geodesic_dist_to_goal"] - 0.7) if skill == "navigate" else 0.0
            worth = max(2.0, 10.0 - 3.0 * short_m) if info["success"] else 0.0
            assert info["reward_terms"].get("success", 0.0) == pytest.approx(worth)
        assert info["num_steps"] == env.sim.steps <= env.max_steps
        assert info["success"] or info["reason"]
        successes += info["success"]
    if skill in ("navigate", "pick", "place"):
        assert successes > 0


def holds(skill: str, env: Any, action: Any, info: dict[str, Any]) -> bool:
    """Success from first principles (docs/hab.md)."""
    sim, goal = env.sim, env.goal
    x, y, yaw = sim.base
    ee = np.array([[np.cos(yaw), np.sin(yaw), 0], [-np.sin(yaw), np.cos(yaw), 0], [0, 0, 1]]) @ (sim.ee_pos - (x, y, 0))
    rest = np.linalg.norm(ee - (0.5, 0.0, 1.0)) < 0.15
    if skill == "navigate":
        dx, dy = goal.position[0] - x, goal.position[1] - y
        angle = abs((np.arctan2(dy, dx) - yaw + np.pi) % (2 * np.pi) - np.pi)
        return bool(action["rearrange_stop"][0] > 0 and np.hypot(dx, dy) < 1.5 and angle < 0.261799)
    if skill == "pick":
        return bool(rest and sim.held == goal.object)
    if skill == "place":
        return bool(sim.held == "" and np.linalg.norm(sim.object_pos(goal.object) - goal.position) < 0.15 and rest)
    at = sim.joint_pos(goal.articulation)
    done = {"open_cabinet": at > 0.40, "open_fridge": at > 1.1708}.get(skill, abs(at) < 0.05)
    return bool(done and sim.held == "" and rest)


# -- terms, one by one -------------------------------------------------------------------------------------------------

COMMON = {"rest_m": 0.5, "seal_broke": False, "force_added_n": 0.0, "force_total_n": 0.0}
metres = st.floats(0.0, 3.0)


def pick_state(held: str = "", way_m: float = 1.0, rest_m: float = 0.5) -> PickState:
    return PickState(**{**COMMON, "rest_m": rest_m}, held=held, target="bowl", object_m=0.0, way_m=way_m)


def place_state(held: str = "bowl", goal_m: float = 1.0, rest_m: float = 0.5, let_go: bool = False) -> PlaceState:
    state = {**COMMON, "rest_m": rest_m}
    return PlaceState(**state, held=held, target="bowl", goal_m=goal_m, way_m=goal_m, let_go=let_go)


@given(metres, metres, metres, metres)
@settings(deadline=None)
def test_pick_terms(a: float, b: float, c: float, d: float) -> None:
    empty, near = pick_state("", a, c), pick_state("", b, d)
    held, rest = pick_state("bowl", a, c), pick_state("bowl", b, d)
    assert reach_reward(empty, near) == 10.0 * round(a - b, 3) and reach_reward(empty, rest) == 0.0
    assert pick_reward(empty, held) == 2.0 and pick_reward(held, rest) == 0.0
    assert pick_reward(empty, pick_state("apple")) == 0.0 and wrong_object(pick_state("apple"))
    assert pick_rest_reward(held, rest) == 10.0 * round(c - d, 3) and pick_rest_reward(empty, held) == 0.0
    assert dropped(held, empty) and not dropped(empty, near) and not wrong_object(held)


@given(metres, metres, metres, metres)
@settings(deadline=None)
def test_place_terms(a: float, b: float, c: float, d: float) -> None:
    was, now = place_state("bowl", a, c), place_state("bowl", b, d)
    assert carry_reward(was, now) == (10.0 * round(a - b, 3) if b >= 0.15 else 0.0)
    assert place_rest_reward(was, now) == 0.0
    let_go, later = place_state("", b, c), place_state("", b, d)
    worth = 5.0 - 2.5 * b / 0.15 if b < 0.15 else 0.0
    assert place_reward(was, let_go) == pytest.approx(worth) and place_reward(let_go, later) == 0.0
    again = place_state("bowl", b, c, let_go=True), place_state("", b, d, let_go=True)
    assert place_reward(*again) == 0.0
    assert place_rest_reward(let_go, later) == (10.0 * round(c - d, 3) if b < 0.15 else 0.0)


class Shelf:
    """A simulator of three things that are moved about, and taken in hand."""

    scene, held = SimpleNamespace(objects=("bowl", "apple", "can")), ""

    def __init__(self) -> None:
        self.lie = np.zeros((3, 3))

    def object_positions(self, names: tuple[str, ...]) -> NDArray[np.float64]:
        return self.lie[[self.scene.objects.index(name) for name in names]].copy()


@given(st.lists(st.tuples(st.sampled_from(["", "bowl", "can"]), st.integers(0, 2), st.floats(-0.3, 0.3)), max_size=12))
@settings(deadline=None)
def test_what_is_shoved_is_charged_for_until_it_is_in_hand(moves: list[tuple[str, int, float]]) -> None:
    """By a twin that keeps where each thing began, and the call's own where it was last held; what is told adds up."""
    sim: Any = Shelf()
    shoved, began, told = Shoved(sim, "bowl"), [0.0, 0.0, 0.0], 0.0
    for held, thing, x in moves:
        sim.held = held
        sim.lie[thing, 0] = x
        began[0] = sim.lie[0, 0] if held == "bowl" else began[0]
        told += shoved.grown()
        far = sum(min(abs(at - start), 0.15) for at, start in zip(sim.lie[:, 0], began, strict=True))
        assert told == pytest.approx(far, abs=0.0006)


@pytest.mark.parametrize("skill", ["pick", "place"])
def test_shoving_things_costs(skill: str) -> None:
    """A thing that is moved by 0.1 m between two control steps costs 2, what is carried about nothing."""
    env: Any = make_env(skill, "train").unwrapped
    env.reset(options={"index": 3})
    sim, name = env.sim, next(name for name in env.sim.scene.objects if name != env.goal.object)
    grip = np.array([1.0 if sim.held else -1.0], np.float32)
    lift = np.array([0.0, -0.5, 0.0, 0.0, 0.0, 0.0, 0.0], np.float32)
    action = {"arm_action": lift, "grip_action": grip, "base_vel": np.zeros(2, np.float32)}
    before = sim.object_pos(env.goal.object)
    steps = [env.step(action)[4]["reward_terms"]["shoved"] for _ in range(10)]
    carried = math.dist(before, sim.object_pos(env.goal.object))
    assert (carried > 0.02) == (skill == "place") and sum(steps) == pytest.approx(0.0, abs=0.05)
    sim.data.qpos[sim._object_qpos[name]] += 0.1
    assert env.step(action)[4]["reward_terms"]["shoved"] == pytest.approx(-2.0, abs=0.1)
    env.close()


@given(st.floats(0.0, 2.0), st.floats(0.0, 2.0), st.booleans(), st.sampled_from(["", "drawer"]))
@settings(deadline=None)
def test_articulated_terms(a: float, b: float, reached: bool, held: str) -> None:
    def state(left: float, handle_m: float) -> ArticulatedState:
        return ArticulatedState(
            **COMMON, held=held, target="drawer", left=left, reached=reached, grasped=False, reached_before=False,
            handle_m=handle_m,
        )  # fmt: skip

    assert state_reward(state(a, 0.0), state(b, 0.0)) == (0.0 if reached else 10.0 * (a - b))
    assert handle_reward(state(0.0, a), state(0.0, b)) == (0.0 if reached or held else a - b)
    ajar = replace(state(0.0, a), edge_m=b), replace(state(0.0, b), edge_m=a)
    assert handle_reward(*ajar) == (0.0 if reached or held else 10.0 * (b - a))
    assert handle_reward(state(0.0, a), ajar[1]) == handle_reward(ajar[0], state(0.0, a)) == 0.0


@given(st.floats(1e-3, 1.5), st.floats(-1.2, 1.2), st.floats(0.0, 1.3), st.integers(0, 3))
@settings(deadline=None)
def test_the_hand_goes_round_a_doors_edge(out: float, along: float, position: float, index: int) -> None:
    """From before the door by way of the best of many points that lie 0.15 m and more beyond its edge, to 0.14 m behind
    that; from behind it straight."""
    scene = load_scene(scene_seed("train", index))
    door = next(a for a in scene.articulations if a.kind == "fridge")
    half = max(geom.size[1] for geom in door.geoms)
    free = -math.copysign(1.0, door.anchor[1])
    behind = np.array((-0.14, free * half))
    for x in (out, -out):
        hand = link_to_world(door, position, (x, along, 0.0))
        there = np.array((x, along))
        doors = np.stack((np.zeros(3000), free * (half + 0.15 + np.linspace(0.0, 3.0, 3000))), axis=-1)
        ways = np.linalg.norm(doors - there, axis=-1) + np.linalg.norm(doors - behind, axis=-1)
        best = np.linalg.norm(there - behind) if x <= 0.0 else ways.min()
        assert way_behind(door, position, hand) == pytest.approx(float(best), abs=2e-3)


@given(st.floats(0.0, 6.0), st.floats(0.0, 3.0), st.floats(0.0, 3.0))
@settings(deadline=None)
def test_navigate_terms(goal_m: float, a: float, b: float) -> None:
    def state(angle_rad: float) -> NavigateState:
        return NavigateState(**COMMON, held="", goal_m=goal_m, floor_m=1.0, angle_rad=angle_rad)

    assert turn_reward(state(a), state(b)) == (a - b if goal_m < 3.0 else 0.0)
    assert spl(False, 1.0, 1.0) == 0.0 and spl(True, 2.0, 4.0) == 0.5 and spl(True, 2.0, 1.0) == 1.0


def test_a_way_leads_even_from_where_the_base_is_shut_in() -> None:
    """Distances were infinite there, and rewards no numbers."""
    env = make("navigate")
    env.reset(options={"index": 0})
    x, y, yaw = env.sim.base.tolist()
    walls = [
        (x + 0.7 * c, y + 0.7 * s, 0.0, 0.05 + 0.7 * abs(s), 0.05 + 0.7 * abs(c))
        for c, s in ((1, 0), (0, 1), (-1, 0), (0, -1))
    ]
    shut_in = load_grid(env.start.episode.scene_seed).with_boxes(walls, 0.1)
    assert shut_in.is_free(x, y) and not shut_in.largest_component[shut_in.cell(x, y)]
    floor = FloorDistance(shut_in, [(x + 0.3, y), (x, y)])
    assert math.isfinite(floor(env.sim.base)) and all(map(math.isfinite, floor.way(env.sim.base)))


def test_a_lost_object_ends_place_and_a_wrong_one_ends_pick() -> None:
    env = make("place")
    env.reset(options={"index": 0})
    action = {part: np.zeros(box.shape, np.float32) for part, box in env.action_space.items()}
    env.sim.step(action)  # as if it had been knocked from the hand
    _, _, terminated, _, info = env.step(action)
    assert terminated and info["reason"] == "dropped" and not info["success"]
    env = make("pick")
    env.reset(options={"index": 0})
    other = next(name for name in env.start.episode.objects if name != env.goal.object)
    env.sim.hold(other)
    _, reward, terminated, _, info = env.step({**action, "grip_action": np.ones(1)})
    assert terminated and info["reason"] == "wrong object" and reward < -0.49


def test_the_hand_lets_go_near_the_goal_alone() -> None:
    env = make("place")
    env.reset(options={"index": 0})
    release = {part: np.zeros(box.shape, np.float32) for part, box in env.action_space.items()}
    release["grip_action"] -= 1.0
    assert np.linalg.norm(env.sim.ee_pos - env.goal.position) > 0.2
    for _ in range(3):
        _, _, terminated, _, _ = env.step(release)
        assert not terminated and env.sim.held == env.goal.object


@pytest.mark.parametrize(("skill", "near_m", "away"), [("pick", 0.15, -1.0), ("place", 0.20, 1.0)])
def test_the_suction_is_heeded_near_what_the_call_is_about(skill: str, near_m: float, away: float) -> None:
    """Pick's draws, and Place's is let go of, only so near to where one was told; as a plan plays them, too."""
    env = make(skill)
    env.reset(options={"index": 0})
    spec, sim = env.chain_spec(), env.sim
    for sign in (-1.0, 1.0):
        asked = {"grip_action": np.array([sign], np.float32), "base_vel": np.ones(2, np.float32)}
        for off_m, heeded in ((near_m - 0.01, sign), (near_m + 0.01, away)):
            goal = replace(env.goal, position=tuple((sim.ee_pos + (0.0, off_m, 0.0)).tolist()))
            action = spec.heeded(sim, goal, asked)
            assert action["grip_action"] == heeded and action["base_vel"] is asked["base_vel"]


def test_what_is_carried_is_carried_slowly() -> None:
    """With something in hand Navigate heeds 0.7 of what is asked of the base, within 1.5 m of its target half; as a
    plan plays it, too."""
    env = make("navigate")
    for held in (True, False):
        index = next(i for i in range(100) if (env.reset(options={"index": i}), env.sim.held != "")[1] == held)
        env.reset(options={"index": index})
        asked = {"base_vel": np.array([1.0, -0.5], np.float32)}
        x, y, _ = env.sim.base
        for off_m, share in ((1.49, 0.5 if held else 1.0), (1.51, 0.7 if held else 1.0)):
            goal = replace(env.goal, position=(x + off_m, y, 0.8))
            heeded = env.chain_spec().heeded(env.sim, goal, asked)["base_vel"]
            assert heeded.tolist() == (share * asked["base_vel"]).tolist()
        # The environment heeds no more than the chain does.
        env.goal = replace(env.goal, position=(x + 1.0, y, 0.8))
        for _ in range(15):
            env.step(asked)
        driven_m = math.dist(env.sim.base[:2], (x, y))
        assert 0.1 < driven_m < 0.35 if held else driven_m > 0.35


def test_placing_pays_once() -> None:
    """Taking the object up again and putting it down once more brings no second reward."""
    env = make("place")
    release = {"grip_action": np.array([-1.0], np.float32)}
    paid = []
    for index in range(0, 400, 20):
        env.reset(options={"index": index})
        oracle = make_oracle("place", True)
        oracle.reset(env.sim, env.goal)
        action = oracle.act(env.sim)
        while action["grip_action"][0] > 0.0 and env.sim.steps < env.max_steps - 50:
            env.step(action)
            action = oracle.act(env.sim)
        if not env.sim.held or np.linalg.norm(env.sim.object_pos(env.goal.object) - env.goal.position) > 0.12:
            continue
        terms = [0.0]
        while env.sim.held:  # what is tall is brought upright first
            terms = [env.step(release)[-1]["reward_terms"]["place"]]
        for _ in range(10):
            env.step(release)
        env.sim.hold(env.goal.object)
        terms.append(env.step(release)[-1]["reward_terms"]["place"])
        paid.append(terms)
        if len(paid) == 3:
            break
    assert all(2.5 < first <= 5.0 and second == 0.0 for first, second in paid) and len(paid) == 3


def test_navigate_keeps_hold_of_what_it_starts_with() -> None:
    env = make("navigate")
    index = next(i for i in range(0, 1000, 20) if env.reset(options={"index": i}) and env.start.held)
    env.reset(options={"index": index})
    action = {"base_vel": np.zeros(2, np.float32), "rearrange_stop": -np.ones(1, np.float32)}
    for _ in range(20):
        env.step(action)
    assert env.sim.held == env.start.held
    _, _, terminated, _, info = env.step({**action, "rearrange_stop": np.ones(1, np.float32)})
    assert terminated and info["reason"] == "stopped too far"


def roomiest(sim: Any) -> tuple[float, float]:
    """The place with the most room around it that the base gets to."""
    clearance = np.where(sim.nav.largest_component, sim.nav.tall_clearance, 0.0)
    x, y = sim.nav.xy(*(int(i) for i in np.unravel_index(clearance.argmax(), clearance.shape)))
    return x, y


def test_pick_has_to_come_away_from_the_furniture() -> None:
    """With the hand at its resting place over a table, the arm that is then lowered onto it drags what it holds off."""
    env: Any = make_env("pick").unwrapped
    reasons: dict[str, list[str]] = {"at the table": [], "in the open": [], "cannot move": []}
    for index in range(24):
        env.base_movement = True  # which start is laid out depends on that, too
        env.reset(options={"index": index})
        sim, goal = env.sim, env.goal
        if env.start.episode.scenario != "tidy_house":
            continue
        x, y = roomiest(sim)
        target = env.start.episode.target(goal.object)
        near = working_pose(sim.nav, sim.scene.receptacle(target.start_receptacle), goal.position)
        for where, base in (("at the table", near), ("in the open", (x, y, 0.0)), ("cannot move", near)):
            env.base_movement = True
            env.reset(options={"index": index})
            env.base_movement = where != "cannot move"
            arm = resting_near(robot.REST_Q)
            sim.place_robot(np.array(base), arm)
            sim.hold(goal.object)
            if sim.collides():
                continue
            terminated = False
            while not terminated:  # the task itself lowers the arm, whatever the actions
                action = env.action_space.sample() if where != "cannot move" else {}
                steps = sim.steps
                _, _, terminated, _, info = env.step(action | {"grip_action": np.ones(1, np.float32)})
                assert sim.steps == steps + 1 and info["num_steps"] <= 51
            reasons[where].append(info["reason"])
    assert set(reasons["in the open"]) == {""} and len(reasons["in the open"]) > 6
    assert "arm lowered onto something" in reasons["at the table"]
    assert set(reasons["cannot move"]) == {""}
    env.close()


def test_pick_is_not_asked_while_the_task_lowers_the_arm() -> None:
    """A decision that brings the object to its place lasts until the arm is low, and every control step counts."""
    env: Any = make_env("pick", action_repeat=3).unwrapped
    index = next(i for i in range(24) if env.reset(options={"index": i}) and env.start.episode.scenario == "tidy_house")
    env.reset(options={"index": index})
    sim = env.sim
    x, y = roomiest(sim)
    sim.place_robot(np.array((x, y, 0.0)), resting_near(robot.REST_Q, lambda pose: abs(pose.pitch - 0.5)))
    far = np.abs(sim.arm - robot.REST_Q).max()
    sim.hold(env.goal.object)
    _, _, terminated, _, info = env.step({"grip_action": np.ones(1, np.float32)})
    assert terminated and info["success"] and info["num_steps"] == sim.steps
    assert sim.steps >= far / 0.0125 - 2.0 and np.abs(sim.arm - robot.REST_Q).max() < 0.1 < far
    env.close()


@pytest.mark.parametrize("skill", ["pick", "place"])
def test_near_starts_are_where_the_base_can_get_nearest(skill: str) -> None:
    """At the time of the VER paper; today up to 2 m off."""
    off: dict[str, list[float]] = {"near": [], "wide": []}
    for starts, distances in off.items():
        env: Any = make_env(skill, "train", starts=starts).unwrapped
        for index in range(24):
            env.reset(options={"index": index})
            (x, y, yaw), goal = env.start.episode.robot, env.goal.position
            distances.append(math.dist((x, y), goal[:2]))
            if starts == "near":
                assert abs(math.remainder(math.atan2(goal[1] - y, goal[0] - x) - yaw, math.tau)) < 0.75
        env.close()
    assert max(off["wide"]) < 2.0 and np.median(off["near"]) < np.median(off["wide"]) - 0.3


@pytest.mark.parametrize("skill", SKILLS)
def test_failing_early_costs_what_the_rest_of_the_time_would_have(skill: str, monkeypatch: pytest.MonkeyPatch) -> None:
    env = make(skill)
    env.reset(options={"index": 1})
    action = {part: np.zeros(space.shape, np.float32) for part, space in env.action_space.spaces.items()}
    action.update({part: -np.ones(1, np.float32) for part in ("rearrange_stop",) if part in action})
    action.update({part: np.ones(1, np.float32) for part in ("grip_action",) if part in action})
    assert "failure" not in env.step(action)[4]["reward_terms"]
    monkeypatch.setattr(env, "failure", lambda was, now, action: "dropped")
    _, _, terminated, _, info = env.step(action)
    slack = -0.005 if skill in ("navigate", "pick", "place") else 0.0
    assert terminated and info["reward_terms"]["failure"] == pytest.approx(slack * (STEPS[skill] - 2))


def test_a_wrong_stop_costs_what_the_rest_of_the_time_would_have() -> None:
    env = make("navigate")
    env.reset(options={"index": 3})
    still = {"base_vel": np.zeros(2, np.float32), "rearrange_stop": -np.ones(1, np.float32)}
    for _ in range(10):
        _, _, over, _, info = env.step(still)
        assert "failure" not in info["reward_terms"]
    _, _, over, _, info = env.step(still | {"rearrange_stop": np.ones(1, np.float32)})
    assert over and info["reason"] == "stopped too far"
    assert info["reward_terms"]["failure"] == pytest.approx(-0.005 * (1000 - 11))


def test_an_arm_that_is_not_at_rest_goes_there_while_navigate_drives() -> None:
    env = make("navigate")
    index = next(i for i in range(40) if env.reset(options={"index": i}) and not env.sim.held)
    env.reset(options={"index": index})
    off = np.array([0.25, -0.1, 0.0, 0.1, 0.0, 0.0, 0.0])
    env.sim.place_robot(env.sim.base, env.sim.arm + off)
    still = {"base_vel": np.zeros(2, np.float32), "rearrange_stop": -np.ones(1, np.float32)}
    for _ in range(40):
        env.step(still)
    assert arm_rests(env.sim)
    env.close()


def test_navigate_fails_with_what_it_loses() -> None:
    env = make("navigate")
    index = next(i for i in range(40) if env.reset(options={"index": i}) and env.sim.held)
    env.reset(options={"index": index})
    env.sim.place_robot(env.sim.base, env.sim.arm + np.array([0.0, -0.8, 0.0, 0.0, 0.0, 0.0, 0.0]))  # torn off
    while True:
        _, _, terminated, truncated, info = env.step({"base_vel": np.zeros(2, np.float32)})
        if terminated or truncated:
            break
    assert terminated and not info["success"] and info["reason"] == "dropped" and info["num_steps"] < 30


@pytest.mark.parametrize("skill", ["navigate", "pick", "place"])
def test_the_chain_hands_over_a_robot_that_leans_on_things(skill: str) -> None:
    """Such starts are drawn by shoving, after which the skill's own clock begins."""
    env: Any = make_env(skill, "train", chain_starts=1.0).unwrapped
    shoved = touching = 0
    for index in range(20):
        _, info = env.reset(options={"index": index})
        start = env.start
        assert info["num_steps"] == 0 and env.sim.held == start.held
        moved = np.abs(env.sim.base - np.array(start.episode.robot)).max()
        assert (moved > 0.005) == (start.shove[2] > 0), (index, moved)
        shoved += start.shove[2] > 0
        touching += env.sim.collides()
        if skill == "navigate":
            # The arm has gone back to rest, as far as what is in its way lets it.
            assert np.abs(env.sim.arm_target - robot.REST_Q).max() < 0.3 and start.arm is not None
        again = env.sim.state()
        env.reset(options={"index": index})
        np.testing.assert_array_equal(env.sim.state(), again)
    assert shoved > 8 and (touching > 0 or skill != "navigate")
    env.close()


def test_time_runs_out() -> None:
    env = make("open_fridge")
    env.reset(options={"index": 0})
    action = {part: np.zeros(box.shape, np.float32) for part, box in env.action_space.items()}
    for _ in range(env.max_steps):
        *_, terminated, truncated, info = env.step(action)
    assert truncated and not terminated and info["reason"] == "timeout" and info["num_steps"] == 600


def test_a_negative_index_is_refused_in_one_line() -> None:
    with pytest.raises(ValueError, match="index=-1: episodes are numbered from 0"):
        make_env("pick", index=-1)


@pytest.mark.parametrize(("skill", "index"), [("pick", 3098), ("pick", 28), ("place", 32), ("navigate", 65)])
def test_doors_and_drawers_that_stand_open_stay_where_they_are(skill: str, index: int) -> None:
    """These were drawn with the fridge's door in an opened drawer, which threw it shut within half a second."""
    env = make(skill)
    env.reset(options={"index": index})
    joints = {name: env.sim.joint_pos(name) for name in env.sim.episode.joints}
    for _ in range(20):
        env.sim.step({})
    assert {name: env.sim.joint_pos(name) for name in joints} == pytest.approx(joints, abs=0.02)


def test_navigate_is_told_the_way_by_what_it_has_seen() -> None:
    """Driving after the `route` alone gets near targets that are rooms away, without any map of the apartment."""
    env = make_env("navigate", "train", obs="laser+map", action_repeat=3).unwrapped
    arrived = 0
    for index in range(8):
        read, info = env.reset(options={"index": index})
        over = False
        while not over and info["geodesic_dist_to_goal"] > 0.8:
            heading = math.atan2(read["route"][0], read["route"][1])
            ahead = max(0.0, math.cos(heading)) ** 3 if abs(heading) < 1.0 else 0.0
            drive = np.array([ahead, np.clip(2.0 * heading, -1.0, 1.0)], np.float32)
            read, _, terminated, truncated, info = env.step({"base_vel": drive, "rearrange_stop": -np.ones(1)})
            over = terminated or truncated
        arrived += not over
    assert arrived >= 6


def test_the_way_is_told_by_sensors_alone() -> None:
    """The same readings in another place and direction tell the same route: nothing of the apartment goes in."""
    env: Any = make_env("navigate", "val", obs="laser+map").unwrapped
    env.reset(options={"index": 3})
    read = env.observation()
    drawn = LaserMap(12.0)
    drawn.read(0.0, 0.0, 0.0, read["laser"], read["head_scan"])
    distance, right = read["goal_to_agent_gps_compass"].tolist()
    goal = distance * math.cos(-right), distance * math.sin(-right)
    np.testing.assert_allclose(drawn.route(0.0, 0.0, 0.0, goal), read["route"], atol=1e-6)


@pytest.mark.parametrize("index", [3, 4])
def test_a_load_is_not_drawn_into_the_map(index: int) -> None:
    """A cracker box that hangs from an arm half unfolded, in free space, wherever the robot stands."""
    episode, sim = make_episode("tidy_house", "train", index), MujocoSimulator()
    sim.reset(episode)
    sim.hold(next(name for name in episode.objects if name.startswith("003_cracker_box")))
    for _ in range(40):
        sim.step({ARM: np.eye(7, dtype=np.float32)[1], GRIP: np.ones(1, np.float32)})
    memory: dict[str, Any] = {}
    read = Navigate.observe(sim, "laser+map", np.array([episode.targets[0].start_pos]), memory)
    unaware = LaserMap(12.0)
    unaware.read(0.0, 0.0, 0.0, read["laser"], read["head_scan"])
    x, y, _ = RobotPose(sim).ee
    cells = (np.mgrid[:CELLS, :CELLS] - CELLS // 2 + 0.5) * CELL_M
    about = np.hypot(cells[0] - x, cells[1] - y) < 0.2
    assert (unaware._seen & about).any() and not (memory["map"]._seen & about).any()
    sim.close()


@pytest.mark.parametrize("base_movement", [True, False])
@pytest.mark.parametrize("skill", ["open_fridge", "close_fridge"])
def test_fridges_in_corners_have_start_states_within_their_doors_range(skill: str, base_movement: bool) -> None:
    for index in (2, 5, 8):  # apartments 1002, 1005, 1008
        env = make(skill, base_movement)
        env.reset(options={"index": index})
        door = env.sim.scene.articulation("fridge")
        assert against_wall(door)
        assert env.sim.joint_pos("fridge") <= door.joint_range[1] + 1e-6
        assert (env.sim.joint_pos("fridge") > 0.7) == (skill == "close_fridge")
        # The base stands where the fridge looks, and not in the wall's half of the room.
        ahead = rotated(-door.yaw, env.sim.base[:2] - np.array(door.pos[:2]))[0]
        assert ahead > 0.7


def test_a_start_that_seldom_fits_is_found() -> None:
    """A training ended an environment's process for want of it: none of the first hundred draws fits there."""
    env = make_env("close_fridge", split="train", index=84832)
    assert env.reset(seed=0)[1]["index"] == 84832
    env.close()


def walls_between(sim: Any, a: Any, b: Any) -> list[str]:
    """Which walls the straight line between two points of the world goes through, by the slabs of their boxes."""
    through = []
    for k in range(sim.model.ngeom):
        if "walls/" in sim.model.geom(k).name:
            turn, middle = sim.data.geom_xmat[k].reshape(3, 3), sim.data.geom_xpos[k]
            begin, way = (np.asarray(a) - middle) @ turn, (np.asarray(b) - np.asarray(a)) @ turn
            with np.errstate(divide="ignore"):
                ends = (np.array([[-1.0], [1.0]]) * sim.model.geom_size[k] - begin) / way
            if max(0.0, ends.min(0).max()) < min(1.0, ends.max(0).min()):
                through.append(sim.model.geom(k).name)
    return through


@pytest.mark.parametrize(("index", "chain"), [(191, 0.0), (263, 0.0), (280, 0.0), (263, 1.0), (280, 1.0)])
def test_no_wall_stands_between_a_door_and_who_is_to_shut_it(index: int, chain: float) -> None:
    """Where it was opened wide enough to look into the next room, the base once stood there."""
    env: Any = make_env("close_fridge", split="train", index=index, chain_starts=chain).unwrapped
    env.reset(seed=0)
    door = env.sim.scene.articulation("fridge")
    edge = link_to_world(door, env.sim.joint_pos("fridge"), free_edge(door))
    assert walls_between(env.sim, (*env.sim.base[:2], 1.0), (*edge[:2], 1.0)) == []
    assert walls_between(env.sim, (*env.sim.base[:2], 1.0), (-9.0, -9.0, 1.0))  # a line out of the house


@pytest.mark.parametrize("index", range(4))
def test_all_that_lies_in_a_drawer_comes_out_with_it(index: int) -> None:
    """Drawn by hand in the physics, the drawer takes its contents to where a start state has them, give or take."""
    scene = load_scene(scene_seed("train", index))
    episode = make_episode("tidy_house", "train", index)
    inside = {
        name: where.articulation
        for name, (at, _) in episode.objects.items()
        if (where := lies_on(scene, at)) is not None and where.kind == "drawer"
    }
    assert inside
    sim = MujocoSimulator()
    for drawer in sorted(set(inside.values())):
        opened = at_position(scene, episode, drawer, 0.45)
        moved = {name for name in episode.objects if opened.objects[name] != episode.objects[name]}
        assert moved == {name for name, where in inside.items() if where == drawer}
        sim.reset(episode)
        body = sim.model.body(drawer).id
        yaw = scene.articulation(drawer).yaw
        for _ in range(240):
            if sim.joint_pos(drawer) < 0.45:
                sim.data.xfrc_applied[body, :2] = 12.0 * np.array([math.cos(yaw), math.sin(yaw)])
            else:
                sim.data.xfrc_applied[body, :2] = 0.0
            sim.step({})
        assert sim.joint_pos(drawer) > 0.4
        for name in moved:
            assert math.dist(sim.object_pos(name)[:2], opened.objects[name][0][:2]) < 0.25, name
    sim.close()


# -- forces ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("skill", "limit_n"),
    [("pick", 10_000.0), ("place", 10_000.0), ("open_fridge", 20_000.0), ("rearrange", 100_000.0), ("navigate", None)],
)
def test_forces_add_up_to_habitats_limits(skill: str, limit_n: float | None) -> None:
    """The contact force rises and falls by 900 N, again and again: the sum of its rises ends the episode, and costs."""

    def played(rises: int) -> str:
        env = make(skill)
        env.reset(options={"index": 3})
        terms: dict[str, float] = {}
        step = env.sim.step

        def pressed(action: Any) -> None:
            step({"grip_action": np.array([1.0 if env.sim.held else -1.0], np.float32)})
            env.sim.force_n = 900.0 if env.steps % 2 else 0.0

        env.sim.step = pressed
        for _ in range(2 * rises):
            _, reason = env.control_step({}, terms)
            if reason:
                assert terms["force_end"] == -1.0
                return str(reason)
        return ""

    if limit_n is None:
        assert played(130) == ""
    else:
        assert played(int(limit_n // 900.0)) == ""
        assert played(int(limit_n // 900.0) + 1) == "excessive force"


# -- what only the critic is told --------------------------------------------------------------------------------------


@pytest.mark.parametrize("base_movement", [True, False])
@pytest.mark.parametrize("skill", TASKS)
def test_the_critics_state_is_not_the_policys(skill: str, base_movement: bool) -> None:
    """It is an observation beside the policy's, of what only the simulator knows, and changes nothing else."""
    plain = make_env(skill, "train", base_movement=base_movement, index=3)
    told = make_env(skill, "train", base_movement=base_movement, index=3, critic_keys=CRITIC_KEYS)
    task: Any = told.unwrapped
    secrets = set(CRITIC_KEYS)
    assert not any(secrets & set(task.observed_space(obs).spaces) for obs in OBSERVATION_SETS)
    for key in CRITIC_KEYS:
        one = make_env(skill, "train", base_movement=base_movement, index=3, critic_keys=[key])
        assert set(one.observation_space.spaces) - set(plain.observation_space.spaces) == {key}
    assert set(told.observation_space.spaces) - set(plain.observation_space.spaces) == secrets
    seen, told_seen = plain.reset(seed=0)[0], told.reset(seed=0)[0]
    plain.action_space.seed(1)
    for _ in range(5):
        state = told_seen.pop("critic_state")
        assert told.observation_space["critic_state"].contains(state)
        for secret in secrets - {"critic_state"}:
            assert told.observation_space[secret].contains(told_seen.pop(secret))
        assert all(np.array_equal(seen[key], value) for key, value in told_seen.items())
        measures = task.measures(task._state)
        assert np.allclose(state[: len(task.critic_measures)], [float(measures[key]) for key in task.critic_measures])
        action = plain.action_space.sample()
        seen, told_seen = plain.step(action)[0], told.step(action)[0]
    plain.close()
    told.close()


def test_the_way_leads_to_the_goal() -> None:
    """Moved where it points, 0.2 m at a time, the base gets there in little more than the length that it told."""
    env: Any = make_env("navigate", "train", critic_keys=CRITIC_KEYS).unwrapped
    for index in (0, 5, 9):
        env.reset(options={"index": index})
        length = env.observation()["surroundings"][2]
        assert length == pytest.approx(env.measure(env._common(0.0, 0.0)).floor_m)
        base, gone = env.sim.base, 0.0
        while (told := env._floor.way(base))[2] > 0.3:
            turn = base[2] + math.atan2(told[1], told[0])
            base = base + (0.2 * math.cos(turn), 0.2 * math.sin(turn), 0.7)  # whichever way it looks
            gone += 0.2
            assert gone < 1.3 * length + 0.5
        assert gone > 0.7 * length - 0.5


def test_where_the_handle_is_told_to_be() -> None:
    """In the base's frame, wherever the drawer is; the front looks along the way that it comes out."""
    env: Any = make_env("open_cabinet", "train", critic_keys=CRITIC_KEYS).unwrapped
    env.reset(options={"index": 2})
    name, places = env.goal.articulation, []
    for position in (0.0, 0.3):
        env.sim.data.qpos[env.sim._joint_qpos[name]] = position
        mujoco.mj_forward(env.sim.model, env.sim.data)
        told = env.observation()["surroundings"]
        x, y, yaw = env.sim.base
        ahead, left = (
            math.cos(yaw) * told[0] - math.sin(yaw) * told[1],
            math.sin(yaw) * told[0] + math.cos(yaw) * told[1],
        )
        places.append(np.array((x + ahead, y + left, told[2])))
        np.testing.assert_allclose(places[-1], env.sim.handle_pos(name), atol=1e-5)
        assert told[3] == pytest.approx(position)
    out = (places[1] - places[0])[:2] / 0.3
    looks = math.atan2(told[5], told[4]) + yaw
    np.testing.assert_allclose(out, (math.cos(looks), math.sin(looks)), atol=1e-4)


def test_the_critics_state_tells_where_things_are() -> None:
    """Pick's object is moved: the policy's sensors go on telling where it was, the critic's state where it is."""
    env = make_env("pick", "train", index=3, critic_keys=CRITIC_KEYS)
    env.reset(seed=0)
    task: Any = env.unwrapped
    name, before = task.goal.object, task.observation()
    distance = task.critic_measures.index("ee_to_object_distance")
    qpos = task.sim._object_qpos[name]
    task.sim.data.qpos[qpos : qpos + 3] += (0.0, 0.0, 0.5)
    mujoco.mj_forward(task.sim.model, task.sim.data)
    task._state = task.measure(task._common(0.0, 0.0))
    after = task.observation()
    assert np.array_equal(before["obj_start_sensor"], after["obj_start_sensor"])
    assert after["critic_state"][distance] != pytest.approx(before["critic_state"][distance], abs=0.01)
    assert (np.abs(after["critic_state"] - before["critic_state"]) > 0.01).sum() >= 3  # and in both frames
    env.close()


@pytest.mark.parametrize("chain", [0.0, 1.0])
def test_place_is_told_where_its_goal_is_from_what_it_holds(chain: float) -> None:
    """However the object hangs, while arm and base move, until it is let go of."""
    env: Any = make_env("place", "train", chain_starts=chain).unwrapped
    rng, leaning = np.random.default_rng(1), 0.0
    for index in range(4):
        seen, _ = env.reset(options={"index": index})
        sim = env.sim
        for step in range(60):
            held = sim.held != ""
            origin = sim.object_pos(env.goal.object) if held else sim.ee_pos
            expected = sim.ee_mat.T @ (np.array(env.goal.position) - origin)
            np.testing.assert_allclose(seen["obj_goal_sensor"], expected, atol=0.01 if held else 1e-5)
            leaning = (
                max(leaning, float(np.linalg.norm(sim.object_pos(env.goal.object) - sim.ee_pos))) if held else leaning
            )
            grip = 1.0 if step < 50 else -1.0
            action = {"arm_action": rng.uniform(-1, 1, 7), "base_vel": rng.uniform(-1, 1, 2), "grip_action": [grip]}
            seen, *_ = env.step({part: np.array(value, np.float32) for part, value in action.items()})
    assert leaning > 0.03
    env.close()


@pytest.mark.parametrize(("skill", "where"), [("pick", "start_receptacle"), ("place", "goal_receptacle")])
def test_what_lies_on_some_furniture_is_practised_oftener(skill: str, where: str) -> None:
    """As often as a draw by those weights has it, of the same episodes' targets."""
    times, expected, met, episodes = 30.0, 0.0, 0, 0
    env: Any = make_env(skill, "train", practised={"counter": times}).unwrapped
    plain: Any = make_env(skill, "train").unwrapped
    for index in range(40):
        env.reset(options={"index": index})
        plain.reset(options={"index": index})
        scene, targets = env.sim.scene, env.start.episode.targets
        if [t.object for t in targets] != [t.object for t in plain.start.episode.targets]:
            continue  # the first draw did not fit
        on_counter = [scene.receptacle(getattr(target, where)).kind == "counter" for target in targets]
        expected += times * sum(on_counter) / (times * sum(on_counter) + len(targets) - sum(on_counter))
        met += on_counter[[target.object for target in targets].index(env.goal.object)]
        episodes += 1
    assert episodes > 30 and expected > 5.0
    assert met == pytest.approx(expected, abs=3.0)
    env.close()
    plain.close()
