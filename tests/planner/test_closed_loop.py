"""The closed loop in the simulator, with oracle skills: what it believes, and what it does about what goes wrong."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from hab.actions import ARM, BASE, GRIP, Action
from hab.episodes import Episode, load_scene, make_episode
from hab.measures import object_placed
from hab.mujoco.simulator import MujocoSimulator
from hab.objects import OBJECTS
from hab.openings import drawn_out, handle_at, joint_of
from hab.robot import REST_Q
from hab.scenario_env import MAX_STEPS
from hab.scene import Scene
from hab.simulator import Simulator
from planner import closed_loop, replanning
from planner.agent import Agent, chain_limits, load_policies, play_episode, skills_of
from planner.chain import ChainResult
from planner.closed_loop import VAIN_TUCKS, ClosedLoop
from planner.problem import ROBOT, object_name
from planner.recovery import (
    CAUGHT_ARM_STEPS,
    FREE_RAD,
    IDLE_STEPS,
    STUCK_STEPS,
    TUCK_CAUGHT_STEPS,
    WANDERS_STEPS,
    Idleness,
    Trail,
    WayOut,
    back_off,
    tuck,
)
from planner.sensed import SensedState
from planner.state import OracleState, Senses
from planner.task_planner import PlanStep
from skills.skill import RESET_ARM_STEPS, Goal, arm_rests, towards_rest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
UNTOLD = ("stuck", "arm_out", "hard", "robot_at", "confirmed")
"""Facts that both estimates read off the same senses, and what has been looked after."""


@pytest.fixture
def play(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Play an episode with a fault (benchmarks/faults.py)."""
    monkeypatch.syspath_prepend(str(BENCHMARKS))
    import faults

    return faults.play


def run(scenario: str, index: int, replan: str) -> ChainResult:
    agent, sim = Agent("oracle", replan=replan), MujocoSimulator()
    episode = make_episode(scenario, "train", index)
    result = play_episode(sim, episode, agent, load_policies(agent, scenario), chain_limits(MAX_STEPS, {}))
    sim.close()
    return result


@pytest.mark.parametrize(("scenario", "index"), [("tidy_house", 4), ("prepare_groceries", 0), ("set_table", 1)])
def test_what_is_sensed_is_what_is(scenario: str, index: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Facts after each call, against the simulator's; and where objects are that lie somewhere."""
    agree, differ = 0, list[str]()

    class Both(SensedState):
        def __init__(self, sim: Simulator, episode: Episode, scene: Scene) -> None:
            super().__init__(sim, episode, scene)
            self.truth = OracleState(sim, episode, scene)

        def update(self, skill: str, arguments: Sequence[str], ended: bool) -> None:
            nonlocal agree
            super().update(skill, arguments, ended)
            self.truth.update(skill, arguments, ended)
            believed = {a for a in self.atoms if a[0] not in UNTOLD}
            true = {a for a in self.truth.atoms if a[0] not in UNTOLD}
            agree += len(believed & true)
            differ.extend(map(str, believed ^ true))
            for name, place in self.where.items():
                if not any(a[:2] == ("holding", name) for a in true):
                    assert np.linalg.norm(np.subtract(place, self.truth.where[name])) < 0.1, (skill, name)

    monkeypatch.setattr(closed_loop, "SensedState", Both)
    assert run(scenario, index, "sensed").success
    assert agree / (agree + len(differ)) >= 0.97, differ


def test_senses_tell_nothing_of_objects() -> None:
    told = {name for name in dir(Senses) if not name.startswith("_")}
    assert told == {"holds", "base", "hand", "hand_axes", "arm_rests", "arm_off_rest", "shoulder_off_rest", "look"}


class Sensors:
    """All of a simulator that senses may read; what is held has no name."""

    def __init__(self, sim: Simulator) -> None:
        self._sim = sim

    def __getattr__(self, name: str) -> Any:
        assert name in ("base", "arm", "ee_pos", "ee_mat", "head_look"), f"{name} is nothing that a robot senses"
        return getattr(self._sim, name)

    @property
    def held(self) -> str:
        return "something" if self._sim.held else ""


def test_what_is_sensed_is_by_sensors_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """With which the episode goes the same way; and again."""

    class Sensing(SensedState):
        def __init__(self, sim: Simulator, episode: Episode, scene: Scene) -> None:
            super().__init__(cast(Simulator, Sensors(sim)), episode, scene)

    first = run("set_table", 0, "sensed")
    monkeypatch.setattr(closed_loop, "SensedState", Sensing)
    again = run("set_table", 0, "sensed")
    assert first.trace_rows() == again.trace_rows()
    last = next(row for row in reversed(first.trace) if row.skill == "place")
    assert first.success and first.succeeded_after == last.end_step


@pytest.mark.parametrize(
    ("fault", "state", "least"),
    [
        ("object moved by 0.5 m", "oracle", 0),
        ("wrong object in hand", "oracle", 1),
        ("wrong object in hand", "sensed", 1),
        ("robot pushed aside", "sensed", 0),
    ],
)
def test_what_goes_wrong_is_put_right(play: Any, fault: str, state: str, least: int) -> None:
    """The oracle's Pick itself goes after an object that has been moved."""
    success, placed, _, anew = play(fault, state, 1)
    assert success and placed == 5 and anew >= least


@pytest.mark.parametrize("in_passing", [True, False])
def test_what_was_shoved_from_its_place_is_put_back(monkeypatch: pytest.MonkeyPatch, in_passing: bool) -> None:
    """While Pick works at another one. It is noticed when it comes in view, or else at the end, when all is believed to
    be done and the robot drives up to it to look."""
    if not in_passing:
        monkeypatch.setattr(SensedState, "_look_about", lambda self: None)
    monkeypatch.setattr("planner.sensed.DISTURBED_M", 100.0)
    agent, sim = Agent("oracle", replan="sensed"), MujocoSimulator()
    episode = make_episode("tidy_house", "train", 4)
    called, shoved = list[str](), list[str]()

    def on_call(label: str, step: PlanStep) -> None:
        called.append(step.skill)

    def on_step(stage: int, action: Action, achieved: Sequence[bool]) -> None:
        placed = [target for target in episode.targets if object_placed(sim, target)]
        if called[-1] == "pick" and placed and not shoved and sim.held == "":
            x, y, z = sim.object_pos(placed[0].object)
            surface = sim.scene.receptacle(placed[0].goal_receptacle)
            left = np.array((-math.sin(surface.yaw), math.cos(surface.yaw)))
            towards_middle = math.copysign(0.25, left @ (np.array(surface.center[:2]) - (x, y)))
            at = sim._object_qpos[placed[0].object]
            sim.data.qpos[at : at + 3] = (*((x, y) + towards_middle * left), z + 0.005)
            shoved.append(object_name(placed[0]))

    policies = load_policies(agent, "tidy_house")
    result = play_episode(sim, episode, agent, policies, chain_limits(MAX_STEPS, {}), on_step, on_call)
    sim.close()
    (name,) = shoved
    looks = [row.outcome for row in result.trace if row.skill == "look" and name in row.action]
    assert result.success and ("failed" in looks) == (not in_passing)
    assert [row.skill for row in result.trace if name in row.action].count("place") == 2


def test_a_drawer_that_was_shut_again_is_opened_again(play: Any) -> None:
    success, placed, _, anew = play("drawer shut again", "oracle", 1)
    assert success and placed == 2 and anew > 0


@pytest.mark.parametrize("replan", ["sensed", pytest.param("oracle", marks=pytest.mark.slow)])
def test_a_fridge_that_is_shut_although_it_should_be_open_is_opened(replan: str) -> None:
    """As a robot leaves it that leans on its door: what is told of the episode is then wrong."""
    agent, sim = Agent("oracle", replan=replan), MujocoSimulator()
    episode = make_episode("prepare_groceries", "train", 0)
    told = sim.reset

    def shut(given: Episode) -> None:
        told(replace(given, joints={}))

    sim.reset = shut  # type: ignore[method-assign]
    policies = load_policies(agent, "prepare_groceries")
    result = play_episode(sim, episode, agent, policies, chain_limits(MAX_STEPS, {}))
    sim.close()
    assert result.interactions[:4] == [True] * 4
    assert any(row.skill == "open_fridge" and row.outcome == "success" for row in result.trace)


@pytest.mark.parametrize("replan", ["sensed", "oracle"])
def test_a_handle_left_in_hand_is_let_go(replan: str) -> None:
    """As by an Open that runs out of time while it pulls: the first one stands still once it has the handle."""
    agent, sim = Agent("oracle", replan=replan), MujocoSimulator()
    policies = dict(load_policies(agent, "set_table"))
    oracle, held = policies["open_fridge"], list[str]()

    class Stops:
        first = True

        def reset(self, sim: Simulator, goal: Goal) -> None:
            self.first = self.first and not any(held)
            oracle.reset(sim, goal)

        def act(self, sim: Simulator) -> Action:
            return {GRIP: np.ones(1, np.float32)} if self.first and sim.held else oracle.act(sim)

    def on_step(stage: int, action: Action, achieved: Sequence[bool]) -> None:
        held.append(sim.held)

    policies["open_fridge"] = Stops()
    episode, limits = make_episode("set_table", "train", 1), chain_limits(MAX_STEPS, {})
    result = play_episode(sim, episode, agent, policies, limits, on_step)
    sim.close()
    first, *_ = [row for row in result.trace if row.skill == "open_fridge"]
    late = first.start_step + limits.skills["open_fridge"]
    assert held[late - 1] == "fridge" and not held[late]
    assert first.reason == "timeout"
    assert result.success


def test_what_was_shoved_in_a_drawer_moves_with_it_from_there() -> None:
    """Not from where it lay at first."""
    episode, sim = make_episode("set_table", "train", 0), MujocoSimulator()
    sim.reset(episode)
    state = SensedState(sim, episode, sim.scene)
    name, drawer = next(
        (a[1], sim.scene.articulation(a[2])) for a in sorted(state.atoms) if a[0] == "in" and a[2] != "fridge"
    )
    state._bring_along(drawer, 0.4)
    x, y, z = state.where[name]
    state._lies(name, (x + 0.03, y - 0.05, z), False)
    for position in (0.4, 0.1):
        state._bring_along(drawer, position)
        assert state.where[name] == pytest.approx(drawn_out(drawer, position - 0.4, (x + 0.03, y - 0.05, z)))
    sim.close()


@pytest.mark.parametrize(("hand_m", "ended", "drawn_m"), [(0.38, False, 0.5), (0.2, True, 0.5), (0.2, False, 0.2)])
def test_a_drawer_is_taken_to_have_glided_on_to_its_end(hand_m: float, ended: bool, drawn_m: float) -> None:
    """If Open ended by its own rule, or the hand came far enough with it; else it is where the hand left it."""
    episode, sim = make_episode("set_table", "train", 0), MujocoSimulator()
    sim.reset(episode)
    state = SensedState(sim, episode, sim.scene)
    name, drawer = next(
        (a[1], sim.scene.articulation(a[2])) for a in sorted(state.atoms) if a[0] == "in" and a[2] != "fridge"
    )
    shut = state.where[name]
    state._gripped = np.array(handle_at(drawer, hand_m))
    state._drew(drawer, ended)
    assert state.where[name] == pytest.approx(drawn_out(drawer, drawn_m, shut))
    sim.close()


def test_another_thing_is_taken_at_last_and_where_it_hangs_is_not_known() -> None:
    """The hand has taken hold of something beside the object three times, and a fourth time. Once the object is seen
    elsewhere, three times more."""
    episode, sim = make_episode("tidy_house", "train", 0), MujocoSimulator()
    sim.reset(episode)
    state, target = SensedState(sim, episode, sim.scene), episode.targets[0]
    name, another = object_name(target), episode.targets[1].object
    for place in (target.start_pos, tuple(np.add(target.start_pos, (0.3, 0.0, 0.0)))):
        state._lies(name, place, False)
        assert [takes_another(sim, state, name, another) for _ in range(4)] == [True, True, True, False]
        state.update("pick", (name,), True)
        assert ("holding", name, "robot") in state.atoms
        assert math.dist(state._left, sim.ee_pos) < 0.06  # type: ignore[arg-type]
        sim._release()
        state.begin("put_back", (name,))
        state.update("put_back", (name,), True)
    sim.close()


def test_of_two_that_stand_side_by_side_the_nearer_one_is_taken() -> None:
    """The hand takes hold so much of the way from the one it was sent for to the other one."""
    episode, sim = make_episode("tidy_house", "train", 0), MujocoSimulator()
    sim.reset(episode)
    one = replace(episode.targets[0], object="004_sugar_box-1")
    other = replace(episode.targets[1], object="004_sugar_box-2")
    state = SensedState(sim, replace(episode, targets=(one, other)), sim.scene)
    for share, wrong in ((0.2, False), (0.4, False), (0.6, True), (0.8, True)):
        for target, far in ((one, share), (other, share - 1.0)):
            state._lies(object_name(target), tuple(sim.ee_pos + (0.08 * far, 0.0, -0.08)), False)
        assert takes_another(sim, state, object_name(one), episode.targets[0].object) == wrong, share
    sim.close()


def test_what_is_held_by_its_top_is_not_another_thing() -> None:
    """As it stands, whatever its kind. Above its top there is nothing to take hold of."""
    episode, sim = make_episode("tidy_house", "train", 0), MujocoSimulator()
    sim.reset(episode)
    for kind, model in OBJECTS.items():
        target = replace(episode.targets[0], object=f"{kind}-1")
        halves = {"box": 2, "cylinder": 1, "sphere": 0}
        top = max(geom.pos[2] + geom.size[halves[geom.shape]] for geom in model.geoms if geom.collides)
        for above, wrong in ((0.0, False), (0.05, True)):
            state = SensedState(sim, replace(episode, targets=(target,)), sim.scene)
            state._lies(object_name(target), tuple(sim.ee_pos - (0.0, 0.0, top + above)), False)
            taken = takes_another(sim, state, object_name(target), episode.targets[0].object)
            assert taken == wrong, (kind, above)
    sim.close()


def takes_another(sim: MujocoSimulator, state: SensedState, name: str, held: str) -> bool:
    """Whether the hand, sent for an object, has taken something for another one."""
    sim._release()
    state._carried = ""
    state.begin("pick", (name,))
    sim.hold(held)
    state.watch()
    return state.wrong_in_hand


def before_free_floor(sim: MujocoSimulator, far: Sequence[float]) -> tuple[float, list[tuple[float, float]]]:
    """Return a yaw in which there is room so far (m) ahead of the base, and where that is."""
    x, y, _ = sim.base.tolist()
    for yaw in np.linspace(0.0, math.tau, 16).tolist():
        places = [(x + f * math.cos(yaw), y + f * math.sin(yaw)) for f in far]
        if all(sim.nav.is_free(*place) for place in places):
            return yaw, places
    raise AssertionError("no room")


def test_what_was_lost_and_is_seen_again_is_sought() -> None:
    """On the floor before a robot that had been looking for it in vain."""
    episode, sim = make_episode("tidy_house", "train", 0), MujocoSimulator()
    sim.reset(episode)
    yaw, (_, there, beyond) = before_free_floor(sim, (0.8, 1.0, 1.2))
    target = episode.targets[0]
    name = object_name(target)
    state = SensedState(sim, episode, sim.scene)
    state._lies(name, (*beyond, 0.05), False)
    state._facts.add(("lost", name))
    objects = {**episode.objects, target.object: ((*there, 0.05), 0.0)}
    sim.reset(replace(episode, objects=objects, robot=(*episode.robot[:2], yaw)))
    state.begin("tuck", ())
    state.update("tuck", (), True)
    assert math.dist(state.where[name][:2], there) < 0.05
    assert ("lost", name) not in state.atoms
    sim.close()


def test_what_was_missed_on_the_floor_and_is_nowhere_to_be_seen_is_lost() -> None:
    """Once the robot has come for it and backed off, and come again; there is no place to go back to."""
    episode, sim = make_episode("tidy_house", "train", 0), MujocoSimulator()
    sim.reset(episode)
    yaw, (_, there) = before_free_floor(sim, (0.8, 1.2))
    sim.reset(replace(episode, robot=(*episode.robot[:2], yaw)))
    state, name = SensedState(sim, episode, sim.scene), object_name(episode.targets[0])
    state._lies(name, (*there, 0.05), False)
    for skill, lost in (("pick", False), ("navigate", False), ("navigate", True)):
        state.begin(skill, (name,))
        state.update(skill, (name,), True)
        assert (("lost", name) in state.atoms) == lost, skill
    sim.close()


@pytest.mark.slow
def test_all_that_is_doubtful_is_looked_at_though_the_way_there_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is placed, and the first drives to look after it lead nowhere."""
    monkeypatch.setattr("planner.sensed.DISTURBED_M", 100.0)
    agent, sim = Agent("oracle", replan="sensed"), MujocoSimulator()
    episode = make_episode("tidy_house", "train", 4)
    policies: Any = dict(load_policies(agent, "tidy_house"))
    drives, in_vain = policies["navigate"], list[bool]()

    class Stuck:
        """Stands still in the first calls after all has been placed."""

        def reset(self, sim: Simulator, goal: Goal) -> None:
            self.stands = all(object_placed(sim, target) for target in episode.targets) and sum(in_vain) < 3
            in_vain.append(self.stands)
            drives.reset(sim, goal)

        def act(self, sim: Simulator) -> Action:
            return {} if self.stands else drives.act(sim)

    policies["navigate"] = Stuck()
    result = play_episode(sim, episode, agent, policies, chain_limits(MAX_STEPS, {}))
    sim.close()
    assert sum(in_vain) == 3
    looked = {row.action.split()[1] for row in result.trace if row.skill == "look"}
    assert looked == {object_name(target) for target in episode.targets}


def test_what_is_lost_does_not_keep_it_from_the_rest(play: Any) -> None:
    success, placed, steps, _ = play("object taken away", "oracle", 0)
    assert not success and placed == 4 and steps < MAX_STEPS


@pytest.mark.parametrize("index", [0, 5])
def test_the_hand_tells_how_far_a_door_or_drawer_is_open(index: int) -> None:
    scene = load_scene(make_episode("set_table", "train", index).scene_seed)
    for articulation in scene.articulations:
        for position in np.linspace(0.05, articulation.joint_range[1], 5):
            told = joint_of(articulation, handle_at(articulation, float(position)))
            assert told == pytest.approx(position, abs=1e-6), articulation.name


def test_a_base_that_backs_off_goes_the_way_it_came() -> None:
    sim, trail = MujocoSimulator(), Trail()
    episode = make_episode("tidy_house", "train", 5)
    sim.reset(episode)
    places = []
    for step in range(90):
        sim.step({"base_vel": np.array((0.4, 0.3 if step > 30 else 0.0), np.float32)})
        trail.watch(sim.base)
        places.append(sim.base[:2])
    end = sim.base[:2]
    for action in back_off(sim, trail):
        sim.step(action)
        assert min(np.linalg.norm(sim.base[:2] - place) for place in places) < 0.12
    assert 0.4 < np.linalg.norm(sim.base[:2] - end) < 0.8
    sim.close()


def test_a_base_that_gets_nowhere_is_noticed() -> None:
    trail = Trail()
    for step in range(2 * STUCK_STEPS + 10):
        assert trail.stands_still() == (step in (STUCK_STEPS, 2 * STUCK_STEPS))  # and then it has as long again
        trail.watch(np.array([0.05 * np.sin(step), 0.0, 0.0]))
    trail.begin()
    for step in range(STUCK_STEPS + 10):
        trail.watch(np.array([0.005 * step, 0.0, 0.0]))
        assert not trail.stands_still()


def test_a_drive_that_goes_to_and_fro_on_one_spot_needs_a_way_out() -> None:
    sim: Any = SimpleNamespace(base=np.zeros(3), arm=REST_Q)
    still, away = WayOut(sim), WayOut(sim)
    for step in range(2 * WANDERS_STEPS):
        sim.base = np.array([0.15 * np.sin(0.3 * step), 0.1 * np.cos(0.4 * step), 0.0])
        assert still.is_needed() == (step >= WANDERS_STEPS - 1)
        sim.base = np.array([0.004 * step, 0.0, 0.0])
        assert not away.is_needed()


def test_an_arm_that_is_caught_comes_free_on_the_way_back() -> None:
    """Pushed round by a wall that the base drives along; the base then goes back no farther than it has to."""
    sim = MujocoSimulator()
    sim.reset(make_episode("tidy_house", "train", 5))
    way_out = WayOut(sim)
    for _ in range(60):
        assert not way_out.is_needed()
        sim.step({BASE: np.array((0.3, 0.0), np.float32)})
    aside = np.zeros(7, np.float32)
    aside[0] = 1.0
    needed = []
    for _ in range(40):
        sim.step({ARM: aside})
        needed.append(way_out.is_needed())
    first = needed.index(True)
    assert needed == [False] * first + [True] * (40 - first) and first >= CAUGHT_ARM_STEPS
    end, steps = sim.base[:2], 0
    for action in way_out.back():
        sim.step(action)
        steps += 1
    assert 5 < steps < 60 and Senses(sim).shoulder_off_rest < FREE_RAD + 0.02
    assert 0.02 < np.linalg.norm(sim.base[:2] - end) < 0.7
    assert not way_out.is_needed()
    sim.close()


def test_a_hand_that_gets_nowhere_is_noticed() -> None:
    """Neither taking nor letting go of anything; both begin the wait anew."""
    sim, episode = MujocoSimulator(), make_episode("tidy_house", "train", 5)
    sim.reset(episode)
    hand = Idleness(sim)
    assert [hand.too_long() for _ in range(IDLE_STEPS)].index(True) == IDLE_STEPS - 1
    for change in (lambda: sim.hold(episode.targets[0].object), sim._release):
        change()
        assert [hand.too_long() for _ in range(IDLE_STEPS + 1)].index(True) == IDLE_STEPS
    sim.close()


def test_an_arm_far_from_rest_gets_there_at_one_go_unless_it_is_caught() -> None:
    sim = MujocoSimulator()
    sim.reset(make_episode("tidy_house", "train", 5))
    for _ in range(3 * RESET_ARM_STEPS):
        sim.step({ARM: np.array((1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0), np.float32)})
    assert sum(1 for _ in tuck(sim)) == TUCK_CAUGHT_STEPS + 1  # an arm that nobody moves
    steps = 0
    for action in tuck(sim):
        sim.step(action)
        steps += 1
    assert arm_rests(sim) and steps > 2 * RESET_ARM_STEPS
    sim.close()


@pytest.mark.parametrize(
    "shoulder", [(-1.55, -1.08), (-1.0, -1.08), (-0.94, -1.0), (0.6, -1.2), (1.0, -1.08), (1.55, -1.2)]
)
def test_an_arm_gets_to_rest_past_the_head(shoulder: tuple[float, float]) -> None:
    """From whichever side: at the height at which it rests it would strike the head on the way."""
    sim = MujocoSimulator()
    sim.reset(make_episode("tidy_house", "train", 5))
    sim.place_robot(sim.base, np.array([*shoulder, *REST_Q[2:]]))
    steps = 0
    while not arm_rests(sim) and steps < 250:
        sim.step(towards_rest(sim))
        steps += 1
    assert arm_rests(sim) and steps < 60 + 80 * abs(shoulder[0] - REST_Q[0])
    sim.close()


def test_what_holds_the_arm_off_its_rest_is_not_pressed_harder_and_harder() -> None:
    held_off = SimpleNamespace(arm=REST_Q + 0.05, arm_target=REST_Q, held="")
    assert not towards_rest(cast(Simulator, held_off))[ARM].any()


def test_what_is_hard_is_gone_round_to_by_each_side_in_turn() -> None:
    """However often the same thing is."""
    agent, sim = Agent("oracle"), MujocoSimulator()
    episode = make_episode("tidy_house", "train", 0)
    sim.reset(episode)
    skills = skills_of(agent, load_policies(agent, "tidy_house"))
    loop = ClosedLoop(sim, episode, skills, chain_limits(MAX_STEPS, {}), "oracle")
    name, asked = object_name(episode.targets[0]), list[int]()
    place, (x, y, _) = loop.state.where[name], sim.base.tolist()
    for times in range(4):
        go_round = replanning.Action("go_round", (name,))
        loop.attempts[str(go_round)] = times
        at = loop._step(go_round).goal.position
        turned = math.atan2(at[1] - place[1], at[0] - place[0]) - math.atan2(y - place[1], x - place[0])
        asked.append(round(math.degrees(math.remainder(turned, math.tau))) % 360)
    assert asked == [90, 270, 180, 90]
    sim.close()


def test_an_arm_that_is_never_at_rest_is_no_failure_of_other_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once it has been brought there in vain, three times."""

    class NeverAtRest(OracleState):
        def update(self, skill: str, arguments: Sequence[str], ended: bool) -> None:
            super().update(skill, arguments, ended)
            self._facts.add(("arm_out", ROBOT))

    monkeypatch.setattr(closed_loop, "OracleState", NeverAtRest)
    agent, sim = Agent("oracle", replan="oracle"), MujocoSimulator()
    episode, policies = make_episode("set_table", "train", 0), load_policies(agent, "set_table")
    trace = play_episode(sim, episode, agent, policies, chain_limits(2000, {})).trace
    sim.close()
    tucked = [at for at, row in enumerate(trace) if row.skill == "tuck"]
    later = [row for row in trace[tucked[VAIN_TUCKS - 1] :] if row.skill != "tuck"]
    done = [row for row in later if row.outcome == "success"]
    assert {row.skill for row in done} >= {"navigate", "open_cabinet"} and len(done) > len(later) / 2


def test_what_pick_missed_is_looked_for_though_something_else_was_shoved(monkeypatch: pytest.MonkeyPatch) -> None:
    episode, sim = make_episode("tidy_house", "train", 0), MujocoSimulator()
    sim.reset(episode)
    state, sought = SensedState(sim, episode, sim.scene), list[str]()
    missed, other = (object_name(target) for target in episode.targets[:2])
    x, y, z = state.where[other]
    monkeypatch.setattr(state, "_look_about", lambda: state._lies(other, (x + 0.1, y, z), False))
    monkeypatch.setattr(state, "_look_for_missed", sought.append)
    state.begin("pick", (missed,))
    state.update("pick", (missed,), True)
    assert sought == [missed]
    sim.close()


def test_a_drive_that_stops_elsewhere_is_not_made_for_ever() -> None:
    class Stops:
        """Stops where it stands."""

        def reset(self, sim: Simulator, goal: Goal) -> None:
            pass

        def act(self, sim: Simulator) -> Action:
            return {"rearrange_stop": np.ones(1, np.float32)}

    agent, sim = Agent("oracle", replan="sensed"), MujocoSimulator()
    policies: Any = {**load_policies(agent, "tidy_house"), "navigate": Stops()}
    episode, limits = make_episode("tidy_house", "train", 0), chain_limits(100, {})
    episode = replace(episode, targets=episode.targets[:1])
    result = play_episode(sim, episode, replace(agent, stop_mask=False), policies, limits)
    sim.close()
    drives = [row.action for row in result.trace if row.skill == "navigate"]
    assert len(drives) > 10
    assert all(len(set(drives[k : k + 3])) > 1 for k in range(len(drives) - 2))


@pytest.mark.parametrize("skills", ["zoo", "oracle"])
def test_a_pick_that_takes_nothing_is_given_up(skills: str) -> None:
    """Oracles have all the time that there is."""

    class Idle:
        def reset(self, sim: Simulator, goal: Goal) -> None:
            pass

        def act(self, sim: Simulator) -> Action:
            return {}

    sim, limits = MujocoSimulator(), chain_limits(1500, {"pick": 400})
    policies: Any = {**load_policies(Agent("oracle"), "tidy_house"), "pick": Idle()}
    agent = Agent(skills, replan="sensed")
    result = play_episode(sim, make_episode("tidy_house", "train", 0), agent, policies, limits)
    sim.close()
    took = [row.end_step - row.start_step for row in result.trace[:-1] if row.skill == "pick"]
    least = 400 if skills == "oracle" else IDLE_STEPS
    assert took and all(least <= steps <= least + RESET_ARM_STEPS for steps in took)


def test_where_a_drive_gets_stuck_the_map_says_so() -> None:
    """Once for each such drive, whoever draws the map."""

    class Drawn:
        blocked = 0

        def block(self) -> None:
            self.blocked += 1

    class Stands:
        """Never moves, and draws a map."""

        def reset(self, sim: Simulator, goal: Goal) -> None:
            assert goal.map is not None
            goal.map["map"] = drawn

        def act(self, sim: Simulator) -> Action:
            return {}

    drawn, agent, sim = Drawn(), Agent("oracle", replan="sensed"), MujocoSimulator()
    policies: Any = {**load_policies(agent, "tidy_house"), "navigate": Stands()}
    result = play_episode(sim, make_episode("tidy_house", "train", 0), agent, policies, chain_limits(1000, {}))
    sim.close()
    drives = [row.outcome for row in result.trace if row.skill == "navigate"]
    assert len(drives) > 2 and drawn.blocked == drives.count("timeout")


def test_a_call_is_announced_with_why_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    labels: list[str] = []

    class Forgetful(OracleState):
        """Believes the first drive to have led nowhere."""

        def update(self, skill: str, arguments: Sequence[str], ended: bool) -> None:
            super().update(skill, arguments, ended)
            if skill == "navigate" and len(labels) == 1:
                self._facts = {atom for atom in self._facts if atom[0] != "robot_at"}

    monkeypatch.setattr(closed_loop, "OracleState", Forgetful)
    agent, sim = Agent("oracle", replan="oracle"), MujocoSimulator()
    policies: Any = load_policies(agent, "set_table")
    play_episode(
        sim,
        make_episode("set_table", "train", 0),
        agent,
        policies,
        chain_limits(1500, {}),
        on_call=lambda label, step: labels.append(label),
    )
    sim.close()
    assert labels[:3] == ["1", "2 (not as expected)", "3"]
