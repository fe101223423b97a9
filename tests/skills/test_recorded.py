"""Start states that the chain was met in: recorded, kept in a file, laid out again."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from eval.recording import ASTRAY_M, record
from hab import sensors
from hab.episodes import lies_on, load_grid, load_scene, make_episode, scene_seed
from hab.mujoco.simulator import MujocoSimulator
from hab.objects import FRUITS, HOUSE_OBJECTS, object_kind
from hab.openings import handle_at
from hab.sampler import SCENE_REPEATS
from hab.scene import FLOOR
from hab.simulator import Snapshot
from planner.agent import Agent
from skills import make_env
from skills.fallen import LIES_M, fallen
from skills.oracle import make_oracle
from skills.pick import GRASP_M
from skills.recorded import Recorded, RecordingError, load, save, start_of


@pytest.fixture(scope="module")
def recorded() -> list[Recorded]:
    """One episode of each scenario, by the oracles."""
    calls, problem = record(Agent("oracle"), None, 3, 1)
    assert problem == ""
    return calls


@pytest.fixture(scope="module")
def file(recorded: list[Recorded], tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("recorded") / "calls.npz"
    save(path, recorded)
    return str(path)


def test_what_failed_of_the_chain_is_tried_again_if_asked_for(file: str) -> None:
    """The same recorded call, of several that the apartment has."""
    env: Any = make_env("pick", "train", chain_starts=1.0, chain_states=file, retries=1.0).unwrapped
    env.max_steps = 1
    still = {part: np.zeros(space.shape, np.float32) for part, space in env.action_space.spaces.items()}
    begun = []
    for seed in range(6):
        for again in (False, True):
            info = env.reset(seed=None if again else seed)[1]
            begun.append((info["index"], env.start.snapshot.positions.tolist(), env.goal.position))
            assert env.step(still)[4]["reason"] == "timeout"
        assert begun[-1] == begun[-2]
    assert len({goal for _, _, goal in begun}) > 3
    env.close()


def test_every_call_of_the_chain_is_recorded(recorded: list[Recorded]) -> None:
    by_episode: dict[int, list[str]] = {}
    for call in recorded:
        by_episode.setdefault(call.index, []).append(call.skill)
    assert by_episode[0][:4] == ["navigate", "pick", "navigate", "place"]
    assert by_episode[2][:3] == ["navigate", "open_cabinet", "navigate"]
    for call in recorded:
        if call.skill == "place":
            assert call.snapshot.held == call.goal.object


def test_the_chain_knows_how_what_it_carries_hangs(recorded: list[Recorded]) -> None:
    """By where it was told that the object lay: as the simulator has it, give or take what the hand pushed it by."""
    sim = MujocoSimulator()
    places = [call for call in recorded if call.skill == "place"]
    for call in places:
        sim.reset(make_episode(call.scenario, "train", call.index))
        sim.restore(call.snapshot)
        assert call.goal.taken is not None
        hangs = sim.ee_mat.T @ (sim.object_pos(call.snapshot.held) - sim.ee_pos)
        assert np.linalg.norm(hangs - call.goal.taken) < 0.03
    assert places and all(call.goal.taken is None for call in recorded if call.skill != "place")
    sim.close()


def test_a_file_gives_back_what_was_saved(recorded: list[Recorded], file: str) -> None:
    for skill in {call.skill for call in recorded}:
        kept = load(file, skill)
        assert sum(map(len, kept.values())) == sum(call.skill == skill for call in recorded)
        for scene, calls in kept.items():
            before = [call for call in recorded if call.skill == skill and scene_seed("train", call.index) == scene]
            for was, now in zip(before, calls, strict=True):
                assert (was.scenario, was.index, was.goal.position) == (now.scenario, now.index, now.goal.position)
                assert was.goal.taken == now.goal.taken
                assert was.snapshot.held == now.snapshot.held
                np.testing.assert_allclose(now.snapshot.positions, was.snapshot.positions, atol=2e-6)


@pytest.mark.parametrize("skill", ["navigate", "pick", "place", "open_cabinet"])
def test_a_task_begins_where_the_chain_did(recorded: list[Recorded], file: str, skill: str) -> None:
    env: Any = make_env(skill, "train", chain_starts=1.0, chain_states=file).unwrapped
    laid_out = 0
    for index in range(3):
        env.reset(options={"index": index})
        if env.start.snapshot is None:
            continue
        now = Snapshot.of(env.sim)
        met = [c for c in recorded if c.skill == skill and c.index == index and c.snapshot.held == now.held]
        off = [np.abs(call.snapshot.positions - now.positions).max() for call in met]
        assert min(off) < 1e-4
        laid_out += 1
        before = env.sim.object_pos(now.held) - env.sim.ee_pos if now.held else None
        for _ in range(30):
            env.sim.step({"grip_action": np.full(1, 1.0 if now.held else -1.0, np.float32)})
        assert env.sim.held == now.held
        if before is not None:
            np.testing.assert_allclose(env.sim.object_pos(now.held) - env.sim.ee_pos, before, atol=0.01)
    assert laid_out
    env.close()


def test_the_rest_of_the_chain_can_be_played_from_there(file: str) -> None:
    env: Any = make_env("place", "train", chain_starts=1.0, chain_states=file).unwrapped
    oracle = make_oracle("place", True)
    env.reset(options={"index": 0})
    assert env.start.snapshot is not None
    oracle.reset(env.sim, env.goal)
    over, info = False, {}
    while not over:
        _, _, terminated, truncated, info = env.step(oracle.act(env.sim))
        over = terminated or truncated
    assert info["success"]
    env.close()


def test_a_recording_of_other_apartments_is_refused(recorded: list[Recorded]) -> None:
    assert start_of(recorded[0]).goal == recorded[0].goal
    with pytest.raises(RecordingError, match="no longer what it was"):
        start_of(replace(recorded[0], apartment=recorded[0].apartment + 1))


def test_what_was_lost_on_the_way_is_nobodys_start(monkeypatch: pytest.MonkeyPatch) -> None:
    """A Navigate that drops what it carries is followed by a Place of nothing: no such call is kept."""

    def act(self: Any, sim: Any) -> Any:
        return {"grip_action": -np.ones(1, np.float32), "rearrange_stop": np.ones(1, np.float32)}

    full = record(Agent("oracle"), None, 1, 1)[0]
    monkeypatch.setattr("planner.chain.own_parts", lambda action, parts, holding_on: action)
    oracle = type(make_oracle("navigate", True))
    drive = oracle.act
    monkeypatch.setattr(oracle, "act", lambda self, sim: act(self, sim) if sim.held else drive(self, sim))
    lossy = record(Agent("oracle"), None, 1, 1)[0]
    assert [call.skill for call in full][:4] == ["navigate", "pick", "navigate", "place"]
    assert [call.skill for call in lossy] == ["navigate", "pick", "navigate"]


def test_a_place_on_the_way_to_a_target_is_no_goal() -> None:
    """A policy's Navigate comes by a place before the furniture: a call is recorded once, where it begins, with what it
    is about."""
    calls, problem = record(Agent("zoo"), None, 3, 1)
    assert problem == "" and {"navigate", "open_cabinet"} <= {call.skill for call in calls}
    from_afar = 0
    for call, then in zip(calls, calls[1:], strict=False):
        if call.goal.articulation:
            scene = load_scene(scene_seed("train", call.index))
            assert call.goal.position == handle_at(scene.articulation(call.goal.articulation), 0.0)
        if call.skill == "navigate":
            assert then.skill != "navigate" or then.index != call.index
            from_afar += math.dist(call.snapshot.positions[:2], call.goal.position[:2]) > 2.5
    assert from_afar > 2


def test_a_closed_loop_leaves_what_its_failures_do(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is tried again is recorded again, with the object in hand or where it is sought: while the first Pick does
    nothing its object is taken elsewhere, and the second one does nothing at all."""
    episode, sim, oracle = make_episode("tidy_house", "train", 0), MujocoSimulator(), type(make_oracle("pick", True))
    called: list[str] = []
    begin, pick, grid = oracle.reset, oracle.act, load_grid(episode.scene_seed)

    def reset(self: Any, sim: Any, goal: Any) -> None:
        called.append(goal.object)
        begin(self, sim, goal)
        if len(called) == 1:
            far = (grid.sample(np.random.default_rng(k)) for k in range(100))
            state, first = Snapshot.of(sim), 10 + 7 * sim.scene.objects.index(goal.object)
            state.positions[first : first + 3] = *next(at for at in far if math.dist(at, goal.position[:2]) > 3.0), 0.1
            sim.restore(state)

    monkeypatch.setattr(oracle, "reset", reset)
    monkeypatch.setattr(oracle, "act", lambda self, sim: {} if len(called) < 3 else pick(self, sim))
    recorded, problem = record(Agent("oracle", replan="sensed"), None, 1, 1)
    assert problem == ""
    sim.reset(episode)
    picks = [call.goal.object for call in recorded if call.skill == "pick"]
    assert len(picks) > len(set(picks)) > 1
    assert [call.skill for call in recorded if call.goal.object == called[0]] == ["navigate", "pick"]  # not the search
    for call in recorded:
        sim.restore(call.snapshot)
        if call.goal.position == episode.target(call.goal.object).goal_pos:
            assert sim.held == call.goal.object
        else:
            assert call.skill in ("navigate", "pick")
            assert np.linalg.norm(sim.object_pos(call.goal.object) - call.goal.position) < ASTRAY_M
    assert {call.skill for call in recorded} == {"navigate", "pick", "place"}
    sim.close()


def test_objects_that_have_fallen_lie_before_the_robot(recorded: list[Recorded], tmp_path: Path) -> None:
    """On the floor and still, in view, and in nobody's way, where the furniture has room before it."""
    sim, rng = MujocoSimulator(), np.random.default_rng(0)
    picks = [call for call in recorded if call.skill == "pick"]
    down = [found for call in picks if (found := fallen(sim, call, rng)) is not None]
    assert len(down) > len(picks) / 2
    sim.close()
    save(tmp_path / "down.npz", down)
    env: Any = make_env("pick", "train", chain_starts=1.0, chain_states=str(tmp_path / "down.npz")).unwrapped
    laid_out = 0
    for index in sorted({call.index for call in down}):
        env.reset(options={"index": index})
        place, sim = env.sim.object_pos(env.goal.object), env.sim
        np.testing.assert_allclose(env.goal.position, place, atol=1e-3)
        assert place[2] < LIES_M and sim.held == "" and not sim.collides()
        ahead = sensors.in_base_frame(sensors.RobotPose(sim), place)
        assert 0.3 < ahead[0] < 1.3 and abs(np.arctan2(ahead[1], ahead[0])) < 0.8
        for _ in range(30):
            sim.step({})
        np.testing.assert_allclose(sim.object_pos(env.goal.object), place, atol=0.02)
        laid_out += 1
    assert laid_out
    env.close()


def test_objects_that_were_shoved_lie_beside_where_they_are_told_to(recorded: list[Recorded], tmp_path: Path) -> None:
    """Still, no farther off than the suction draws, some of them fallen over; nothing else has moved."""
    calls, problem = record(Agent("oracle"), None, 3, 1, shoved=1.0)
    assert problem == ""
    before = {(call.index, call.goal): call.snapshot for call in recorded if call.skill == "pick"}
    beside = [
        call for call in calls if call.skill == "pick" and not _same(call.snapshot, before[call.index, call.goal])
    ]
    assert len(calls) == len(recorded) + len(beside) and len(beside) > len(before) / 2
    leaning = []
    for call in beside:
        scene = load_scene(make_episode(call.scenario, "train", call.index).scene_seed)
        was, now = before[call.index, call.goal].read(scene), call.snapshot.read(scene)
        for name, (place, _) in now.objects.items():
            if name == call.goal.object:
                assert math.dist(place[:2], call.goal.position[:2]) > 0.03
                assert math.dist(place, call.goal.position) < GRASP_M
            else:
                np.testing.assert_allclose(place, was.objects[name][0], atol=0.02)
        np.testing.assert_allclose(now.base, was.base, atol=0.02)
        _, x, y, _ = now.objects[call.goal.object][1]
        leaning.append(1.0 - 2.0 * (x * x + y * y))
    assert min(leaning) < 0.5 < max(leaning)
    save(tmp_path / "beside.npz", beside)
    env: Any = make_env("pick", "train", chain_starts=1.0, chain_states=str(tmp_path / "beside.npz")).unwrapped
    for index in sorted({call.index for call in beside}):
        env.reset(options={"index": index})
        lay = env.sim.object_pos(env.goal.object)
        for _ in range(30):
            env.sim.step({})
        np.testing.assert_allclose(env.sim.object_pos(env.goal.object), lay, atol=0.03)
    env.close()


def _same(one: Snapshot, other: Snapshot) -> bool:
    return np.array_equal(one.positions, other.positions)


def test_tall_things_are_set_down_oftener(recorded: list[Recorded], monkeypatch: pytest.MonkeyPatch) -> None:
    """One call of Place, recorded with a mustard bottle and with an apple in hand."""
    call = next(call for call in recorded if call.skill == "place")
    both = [replace(call, goal=replace(call.goal, object=f"{kind}-1")) for kind in ("006_mustard_bottle", "013_apple")]
    monkeypatch.setattr("skills.task.recorded.start_of", lambda chosen: chosen.goal.object)
    env: Any = make_env("place", "train").unwrapped
    rng, scene = np.random.default_rng(0), load_scene(make_episode(call.scenario, "train", call.index).scene_seed)
    drawn = [next(env._drawn(scene, rng, 0, "wide", both)) for _ in range(700)]
    assert 0.8 < drawn.count("006_mustard_bottle-1") / len(drawn) < 0.91
    env.close()


def test_recorded_calls_about_what_lies_on_some_furniture_are_drawn_oftener(
    recorded: list[Recorded], file: str
) -> None:
    """By as much as asked for; what lies on none is on the floor."""
    call = next(call for call in recorded if call.skill == "pick" and call.scenario == "tidy_house")
    scene, rng = load_scene(scene_seed("train", call.index)), np.random.default_rng(0)
    x, y, _ = call.goal.position
    dropped = replace(call, goal=replace(call.goal, position=(x, y, 0.03)))
    under = lies_on(scene, call.goal.position)
    assert under is not None
    for kind, more in ((under.kind, call), (FLOOR, dropped)):
        env: Any = make_env("pick", "train", chain_starts=1.0, chain_states=file, practised={kind: 3.0}).unwrapped
        drawn = [next(env._drawn(scene, rng, 0, "wide", [call, dropped])).goal for _ in range(400)]
        assert 0.68 < drawn.count(more.goal) / len(drawn) < 0.82
        env.close()


@pytest.mark.parametrize("share", [0.0, 1.0])
def test_as_many_episodes_as_asked_for_begin_in_recorded_states(file: str, share: float) -> None:
    """Although three of 1,000 apartments have any."""
    env: Any = make_env("pick", "train", chain_starts=share, chain_states=file).unwrapped
    met, groups = 0, 6
    env.reset(seed=0)
    for number in range(groups * SCENE_REPEATS):
        if number % SCENE_REPEATS == 0:
            env.reset()
            met += env.start.snapshot is not None
        else:
            env._sampler.draw(env.np_random)  # stays in the apartment
    assert met == share * groups
    env.close()


def test_apartments_without_any_have_the_tasks_own_starts(file: str) -> None:
    env: Any = make_env("pick", "train", chain_starts=1.0, chain_states=file).unwrapped
    env.reset(options={"index": 7})
    assert env.start.snapshot is None
    own: Any = make_env("pick", "train").unwrapped
    own.reset(options={"index": 7})
    np.testing.assert_array_equal(env.sim.state(), own.sim.state())
    for each in (env, own):
        each.close()


@pytest.mark.parametrize("content", [b"", b"no archive"])
def test_what_is_no_recording_is_said_in_one_line(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "calls.npz"
    path.write_bytes(content)
    for wrong in (path, tmp_path / "none.npz"):
        with pytest.raises(RecordingError, match="holds no recorded start states") as error:
            load(str(wrong), "pick")
        assert "\n" not in str(error.value)


def test_a_snapshot_holds_all_that_stands() -> None:
    sim, other = MujocoSimulator(), MujocoSimulator()
    episode = make_episode("prepare_groceries", "train", 1)
    sim.reset(episode)
    fruit = next(name for name in episode.objects if object_kind(name) in FRUITS)
    sim.hold(fruit, 0.4)
    for _ in range(20):
        sim.step({"base_vel": np.array((0.3, 0.5), np.float32), "grip_action": np.ones(1, np.float32)})
    taken = Snapshot.of(sim)
    other.reset(episode)
    other.restore(taken)
    assert other.held == fruit
    assert len(taken.positions) == 10 + 7 * HOUSE_OBJECTS + len(sim.scene.articulations)
    np.testing.assert_allclose(Snapshot.of(other).positions, taken.positions, atol=1e-12)
    for each in (sim, other):
        each.close()
