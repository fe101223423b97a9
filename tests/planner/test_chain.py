"""The chain's rules, on a simulator of a few numbers."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pytest

from hab.actions import ARM, BASE, GRIP, STOP, Action
from hab.episodes import Episode, Target, load_grid, load_scene, make_episode
from hab.mapping import LaserMap
from hab.measures import ForceSum
from hab.navgrid import NavGrid
from hab.openings import footprint, grid_with_openings, handle_at, rotated
from hab.ray_fans import HEAD_LOOK_DIRECTIONS
from hab.robot import REST_Q
from hab.scene import Vec3
from hab.simulator import Simulator
from planner.chain import ChainResult, Limits, Player, Skills, run_chain
from planner.task_planner import PlanStep, whole_steps
from skills import task_class
from skills.skill import Goal, Progress, SkillPolicy, SkillSpec
from skills.starts import working_pose

TARGETS = tuple(Target(o, "table", "shelf", (1.0, 0.0, 0.5), (3.0, i, 0.5)) for i, o in enumerate(("cup", "can")))
EPISODE = Episode("tidy_house", "val", 0, 0, (0.0, 0.0, 0.0), {}, {}, TARGETS)
SKILLS = ("navigate", "pick", "place")


class FakeSim:
    """Objects are points; the arm follows its targets at once; `on_step` is what the world does of itself."""

    def __init__(self) -> None:
        self.base = np.zeros(3)
        self.arm = REST_Q.copy()
        self.held = ""
        self.ee_pos, self.ee_mat = np.zeros(3), np.eye(3)
        self.objects = {t.object: np.array(t.start_pos) for t in TARGETS}
        self.actions: list[Action] = []
        self.steps = 0
        self.path_m = self.force_n = 0.0
        self.scene: Any = SimpleNamespace(articulations=(), receptacles=())  # whose floor is bare
        self.nav: Any = None

    def step(self, action: Action) -> None:
        self.actions.append(action)
        self.steps += 1
        self.arm += 0.0125 * np.asarray(action.get(ARM, np.zeros(7)), dtype=np.float64)

    @property
    def arm_target(self) -> Any:
        return self.arm

    def object_pos(self, name: str) -> Any:
        return self.objects[name]


class Script:
    """A policy that does nothing for `steps` steps and then has its way with the simulator."""

    def __init__(self, effect: Callable[[FakeSim, Goal], None], action: Action | None = None) -> None:
        self.effect, self.action, self.calls = effect, action or {}, 0

    def reset(self, sim: Simulator, goal: Goal) -> None:
        self.goal, self.waited = goal, 0
        self.calls += 1

    def act(self, sim: Simulator) -> Action:
        self.waited += 1
        if self.waited == 5:
            self.effect(cast(FakeSim, sim), self.goal)
        return self.action


def drive(sim: FakeSim, goal: Goal) -> None:
    sim.base[:2] = goal.position[:2]


def grasp(sim: FakeSim, goal: Goal) -> None:
    sim.held = goal.object


def put_down(sim: FakeSim, goal: Goal) -> None:
    sim.objects[sim.held] = np.array(goal.position)
    sim.held = ""


def nothing(sim: FakeSim, goal: Goal) -> None:
    pass


def spec(name: str, ended_after: int = 6) -> SkillSpec:
    def ended(sim: Simulator, goal: Goal, action: Action, progress: Progress) -> bool:
        return progress.steps >= ended_after

    def achieved(sim: Simulator, goal: Goal) -> bool:
        return name != "navigate" or float(np.hypot(*(sim.base[:2] - goal.position[:2]))) < 1.5

    return SkillSpec(name, 20, task_class(name).chain_spec().parts, ended, achieved)


def fetch_plan() -> list[PlanStep]:
    steps = []
    for number, t in enumerate(TARGETS, start=1):
        start, goal = Goal(t.start_pos, t.object), Goal(t.goal_pos, t.object)
        steps += [
            PlanStep("(nav)", "navigate", start, ""),
            PlanStep("(pick)", "pick", start, f"pick {number}"),
            PlanStep("(nav)", "navigate", goal, ""),
            PlanStep("(place)", "place", goal, f"place {number}"),
        ]
    return steps


def run(sim: FakeSim | None = None, episode_steps: int = 1000, **changes: Any) -> tuple[ChainResult, FakeSim]:
    sim = sim or FakeSim()
    policies = {"navigate": Script(drive), "pick": Script(grasp), "place": Script(put_down)}
    policies.update({k: v for k, v in changes.items() if k in SKILLS})
    specs = {name: changes.get("specs", {}).get(name, spec(name)) for name in SKILLS}
    limits = Limits(episode_steps, dict.fromkeys(SKILLS, 20))
    options = {k: v for k, v in changes.items() if k in ("stop_mask", "on_step")}
    skills = Skills(policies, specs, changes.get("base_movement", True))
    result = run_chain(cast(Simulator, sim), EPISODE, fetch_plan(), skills, limits, **options)
    return result, sim


def test_all_goes_well() -> None:
    result, sim = run()
    assert result.success and result.interactions == [True] * 4
    assert (result.failed_skill, result.reason) == ("", "")
    assert [row.outcome for row in result.trace] == ["success"] * 8
    assert result.steps == sim.steps == result.trace[-1].end_step == 8 * 6
    assert result.trace_rows()[1] == {
        "stage": 1,
        "skill": "pick",
        "action": "(pick)",
        "interaction": "pick 1",
        "start_step": 6,
        "end_step": 12,
        "outcome": "success",
        "reason": "",
        "start_m": 0.0,
        "driven_m": 0.0,
        "attempt": 1,
        "missing": "",
        "found": "",
        "why": "",
    }


class Rolling(FakeSim):
    """Drives 0.1 m a step where the base is to move."""

    def step(self, action: Action) -> None:
        super().step(action)
        if BASE in action:
            self.base = self.base + np.array([0.1, 0.0, 0.0]) * np.asarray(action[BASE])[0]
            self.path_m += 0.1


def test_the_trace_tells_where_a_call_began_and_how_far_it_drove() -> None:
    wheels = {BASE: np.array([-1.0, 0.0], np.float32)}
    result, sim = run(Rolling(), pick=Script(grasp, wheels))
    first, pick, carry, *_ = result.trace
    # Navigate's script puts the base at the object, 1 m away; Pick backs out of its six steps 0.1 m each.
    assert (first.start_m, pick.start_m, pick.driven_m) == (1.0, 0.0, 0.6)
    assert carry.start_m == pytest.approx(2.6)


def test_a_missed_interaction_ends_the_episode() -> None:
    result, _ = run(place=Script(nothing))
    assert result.interactions == [True, False, False, False] and not result.success
    assert (result.failed_skill, result.reason) == ("place", "did not let go")
    assert len(result.trace) == 4


def test_what_holds_when_the_time_is_out_counts_and_the_episode_goes_on() -> None:
    result, _ = run(specs={"pick": spec("pick", ended_after=99)})
    assert result.success
    picked = [(row.outcome, row.end_step - row.start_step) for row in result.trace if row.skill == "pick"]
    assert picked == [("timeout", 20)] * 2


def test_what_does_not_hold_when_the_time_is_out_ends_the_episode() -> None:
    """… and so does a way that is not done, whatever it has come to."""
    result, _ = run(specs={"pick": spec("pick", ended_after=99)}, pick=Script(nothing))
    assert result.interactions == [False] * 4 and result.trace[-1].skill == "pick"
    assert (result.failed_skill, result.reason) == ("pick", "timeout")
    result, _ = run(specs={"navigate": spec("navigate", ended_after=99)})
    assert [row.skill for row in result.trace] == ["navigate"] and result.reason == "timeout"


def test_navigation_that_stops_far_away_is_recorded_and_the_chain_goes_on() -> None:
    result, _ = run(navigate=Script(nothing))
    assert result.success
    assert [row.outcome for row in result.trace[:4]] == ["success", "success", "failed", "success"]


def test_the_first_skill_that_failed_in_the_stage_is_blamed() -> None:
    result, _ = run(navigate=Script(lambda sim, goal: sim.base.__setitem__(0, -9.0)), pick=Script(nothing))
    assert (result.failed_skill, result.reason) == ("navigate", "stopped too far or facing away")


def test_what_is_lost_on_the_way_is_blamed_on_the_drive() -> None:
    def drive_and_drop(sim: FakeSim, goal: Goal) -> None:
        drive(sim, goal)
        sim.held = ""

    def reach_in_vain(sim: FakeSim, goal: Goal) -> None:
        assert sim.held == ""

    result, _ = run(navigate=Script(drive_and_drop), place=Script(reach_in_vain))
    assert [row.outcome for row in result.trace] == ["success", "success", "failed", "failed"]
    assert (result.failed_skill, result.reason) == ("navigate", "lost what it carried")


def test_what_a_skill_does_not_heed_never_reaches_the_robot() -> None:
    """Pick's suction, further than 0.15 m from where the object was told to be."""
    heeding = replace(spec("pick"), heeded=task_class("pick").chain_spec().heeded)
    _, sim = run(pick=Script(nothing, {GRIP: np.ones(1, np.float32)}), specs={"pick": heeding})
    asked = [action[GRIP][0] for action in sim.actions if GRIP in action]
    assert asked and max(asked) < 0.0


def test_navigate_goes_on_with_its_map_for_an_episode() -> None:
    kept = []

    class Drawing(Script):
        def reset(self, sim: Simulator, goal: Goal) -> None:
            super().reset(sim, goal)
            memory = goal.memory()
            kept.append(dict(memory))
            memory["map"] = len(kept)

    for _ in range(2):
        run(navigate=Drawing(drive))
    calls = len(kept) // 2
    told = [memory.get("map") for memory in kept]
    assert calls > 1 and told == [None, *range(1, calls), None, *range(calls + 1, 2 * calls)]


def test_moving_an_earlier_object_misses_the_next_interaction() -> None:
    def clumsy(sim: FakeSim, goal: Goal) -> None:
        grasp(sim, goal)
        if goal.object == "can":
            sim.objects["cup"] += 1.0

    result, _ = run(pick=Script(clumsy))
    assert result.interactions == [True, True, False, False]
    assert (result.failed_skill, result.reason) == ("pick", "an earlier object was moved")


def test_the_episode_limit_stops_everything() -> None:
    result, sim = run(episode_steps=10)
    assert sim.steps == result.steps == 10
    assert (result.failed_skill, result.reason) == ("pick", "episode's step limit")


def test_stop_is_masked_while_the_target_is_far() -> None:
    wants_stop: Action = {STOP: np.ones(1, np.float32)}
    far = Script(lambda sim, goal: sim.base.__setitem__(0, -5.0), wants_stop)
    _, sim = run(navigate=far, pick=Script(nothing))
    stops = [float(a[STOP][0]) for a in sim.actions if STOP in a]
    assert stops[0] > 0 and stops[5] < 0
    longer = {"navigate": spec("navigate", ended_after=15)}
    _, sim = run(navigate=far, pick=Script(nothing), stop_mask=False, specs=longer)
    stops = [float(a[STOP][0]) for a in sim.actions if STOP in a]
    assert stops[0] > 0 and stops[5] < 0 < stops[11]


@pytest.mark.parametrize("scripted", [False, True])
@pytest.mark.parametrize(
    ("base", "there"), [((-0.4, 0.0, 0.2), True), ((-0.6, 0.0, 0.0), False), ((0.0, 0.0, 0.3), False)]
)
def test_a_stop_that_would_not_count_is_not_heeded_for_half_of_the_time(
    base: Vec3, there: bool, scripted: bool
) -> None:
    """Farther off than 1.5 m, or turned away by more than 15°; a script knows what it does."""
    sim: Any = FakeSim()
    sim.base = np.array(base)
    limits = Limits(100, {"navigate": 20})
    result = run_chain(sim, EPISODE, fetch_plan()[:1], navigating(Told(nothing), scripted=scripted), limits)
    assert result.steps == (1 if there or scripted else 12)


class Told(Script):
    """Remembers what it is told, and wants to stop."""

    def __init__(self, effect: Callable[[FakeSim, Goal], None]) -> None:
        super().__init__(effect, {STOP: np.ones(1, np.float32)})
        self.told: list[Goal] = []

    def reset(self, sim: Simulator, goal: Goal) -> None:
        super().reset(sim, goal)
        self.told.append(goal)


STOPPED = replace(spec("navigate"), ended=lambda sim, goal, action, progress: bool(action[STOP][0] > 0))


def navigating(policy: SkillPolicy, spec: SkillSpec = STOPPED, scripted: bool = False) -> Skills:
    return Skills({"navigate": policy}, {"navigate": spec}, scripted=scripted)


@pytest.mark.parametrize("seed", [0, 1, 2, 1000])
@pytest.mark.parametrize("kind", ["cabinet", "fridge"])
def test_navigate_comes_to_a_front_from_before_it(seed: int, kind: str) -> None:
    """First to where the base may stand and the front looks, where no stop is heeded, then to the handle; an oracle
    straight to the handle, as does who has no room there."""
    scene, grid = load_scene(seed), load_grid(seed)
    name = next(a.name for a in scene.articulations if a.kind == kind)
    handle, yaw = handle_at(scene.articulation(name), 0.0), scene.articulation(name).yaw

    class Patient(Told):
        def act(self, sim: Simulator) -> Action:
            action = super().act(sim)
            return action if self.waited >= 5 else {STOP: -np.ones(1, np.float32)}

    def play(nav: NavGrid, scripted: bool) -> tuple[list[Vec3], list[Action]]:
        sim: Any = FakeSim()
        sim.scene, sim.nav, sim.base = scene, nav, np.array([20.0, 20.0, 0.0])
        steps = [PlanStep("(nav)", "navigate", Goal(handle, "cup", name), "")]
        policy, limits = Patient(drive), Limits(100, {"navigate": 20})
        result = run_chain(sim, EPISODE, steps, navigating(policy, scripted=scripted), limits, False)
        assert result.trace[0].outcome == "success" and result.steps < 20
        return [goal.position for goal in policy.told], list(sim.actions)

    (place, then), actions = play(grid, False)
    ahead, aside = rotated(-yaw, np.subtract(place[:2], handle[:2]))
    assert 1.15 < ahead < 1.85 and abs(aside) < 0.04 and grid.is_free(*place[:2])
    farther = np.add(handle[:2], rotated(yaw, (0.2 * round(ahead / 0.2) + 0.2, 0.0)))
    assert ahead > 1.7 or not grid.is_free(*farther)
    assert then == handle
    assert [float(a[STOP][0]) > 0 for a in actions] == [False] * (len(actions) - 1) + [True]
    assert play(grid, True)[0] == [handle]
    full = copy.copy(grid)
    full.free = np.zeros_like(grid.free)
    assert play(full, False)[0] == [handle]


def far_from_a_goal() -> tuple[Any, Episode, PlanStep]:
    episode = make_episode("tidy_house", "train", 0)
    target = episode.targets[0]
    sim: Any = FakeSim()
    sim.scene, sim.nav = load_scene(episode.scene_seed), load_grid(episode.scene_seed)
    far = max(sim.scene.receptacles, key=lambda r: math.dist(r.center[:2], target.goal_pos[:2])).center
    sim.base = np.array([*sim.nav.nearest_free(*far[:2]), 0.0])
    return sim, episode, PlanStep("(nav)", "navigate", Goal(target.goal_pos, target.object), "")


@pytest.mark.parametrize("arrives", [True, False])
def test_navigate_comes_to_an_object_from_before_its_furniture(arrives: bool) -> None:
    """Told a place first, where no stop is heeded, then the object: once it is there, or half of its time is over."""
    sim, episode, step = far_from_a_goal()

    def come(sim: FakeSim, goal: Goal) -> None:
        drive(sim, goal)
        sim.base[2] = math.atan2(*np.subtract(step.goal.position[:2], goal.position[:2])[::-1])

    policy = Told(come if arrives else nothing)
    limits = Limits(100, {"navigate": 20})
    result = run_chain(sim, episode, [step], navigating(policy), limits, False)
    first, then = policy.told
    assert first.position != then.position == step.goal.position
    assert math.dist(first.position[:2], step.goal.position[:2]) < 1.5 and sim.nav.is_free(*first.position[:2])
    assert result.steps == (6 if arrives else 12)
    assert [float(a[STOP][0]) > 0 for a in sim.actions] == [False] * (result.steps - 1) + [True]


def before_an_open_fridge(before: bool) -> tuple[Any, Episode, PlanStep]:
    """Stand before what lies in it, or behind its door."""
    episode = make_episode("prepare_groceries", "train", 1)
    sim: Any = FakeSim()
    sim.scene, sim.nav = load_scene(episode.scene_seed), load_grid(episode.scene_seed)
    sim.head_look = lambda: np.ones(len(HEAD_LOOK_DIRECTIONS), np.float32)
    fridge = next(a for a in sim.scene.articulations if a.kind == "fridge")
    target = next(t for t in episode.targets if sim.scene.receptacle(t.start_receptacle).articulation == fridge.name)
    if before:
        grid = grid_with_openings(sim.scene, sim.nav, episode.joints)
        place = working_pose(grid, sim.scene.receptacle(target.start_receptacle), target.start_pos)[:2]
    else:
        x, y, *_ = footprint(fridge, episode.joints[fridge.name])
        place = tuple(np.array((x, y)) + 0.5 * (np.array((x, y)) - target.start_pos[:2]))
    yaw = math.atan2(*np.subtract(target.start_pos[:2], place)[::-1])
    sim.base = np.array([*place, yaw])
    return sim, episode, PlanStep("(nav)", "navigate", Goal(target.start_pos, target.object), "")


def test_pick_is_told_where_its_object_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """The policy, what is heeded of it, and how the object hangs that is taken there; a script is not."""

    class Seen:
        def __init__(self, sim: Simulator, goal: Goal) -> None:
            self.steps = 0

        def now(self) -> Vec3 | None:
            self.steps += 1
            return (1.1, 0.1, 0.5) if self.steps == 3 else None

    class Told(Script):
        told: list[Vec3]

        def tell(self, goal: Goal) -> None:
            self.told = [*getattr(self, "told", []), goal.position]

    monkeypatch.setattr("planner.chain.Sight", Seen)
    asked: list[Vec3] = []

    def heeded(sim: Simulator, goal: Goal, action: Action) -> Action:
        asked.append(goal.position)
        return action

    step = fetch_plan()[1]
    for scripted in (False, True):
        sim, policy = FakeSim(), Told(grasp)
        sim.ee_pos = np.array((1.1, 0.1, 0.6))
        skills = Skills({"pick": policy}, {"pick": replace(spec("pick"), heeded=heeded)}, True, scripted)
        force = ForceSum(cast(Simulator, sim))
        player = Player(
            cast(Simulator, sim), skills, Limits(100, {"pick": 20}), True, None, ChainResult([]), force, True
        )
        asked.clear()
        player.play(0, step)
        if scripted:
            assert set(asked) == {step.goal.position}
        else:
            assert policy.told == [(1.1, 0.1, 0.5)]
            assert asked == [step.goal.position] * 2 + [(1.1, 0.1, 0.5)] * 4
            assert player._taken == pytest.approx((0.0, 0.0, -0.1))


@pytest.mark.parametrize("before", [True, False])
def test_no_stop_is_heeded_behind_an_open_door(before: bool) -> None:
    """Not for half of the call's time, near as its target may be; before the fridge it is heeded at once."""
    sim, episode, step = before_an_open_fridge(before)
    result = run_chain(sim, episode, [step], navigating(Told(nothing)), Limits(100, {"navigate": 20}), False)
    assert result.steps == (1 if before else 12)
    assert [float(a[STOP][0]) > 0 for a in sim.actions] == [False] * (result.steps - 1) + [True]


@pytest.mark.parametrize("scripted", [False, True])
def test_navigate_backs_out_where_it_gets_nowhere_and_is_told_its_target_anew(scripted: bool) -> None:
    """With another way on its map, if it draws one; a script knows what it does."""
    sim, episode, step = far_from_a_goal()
    closed = []

    class Drawing(Told):
        def reset(self, sim: Simulator, goal: Goal) -> None:
            super().reset(sim, goal)
            goal.memory()["map"] = SimpleNamespace(block=lambda: closed.append(len(self.told)))

    policy = Drawing(nothing)
    begun = sim.base.copy()
    run_chain(sim, episode, [step], navigating(policy, scripted=scripted), Limits(1000, {"navigate": 400}), True)
    if scripted:
        assert len(policy.told) == 1 and not closed
        return
    assert closed[0] == 1 and policy.told[0].position == policy.told[1].position
    backwards = [float(action[BASE][0]) for action in sim.actions if BASE in action]
    assert min(backwards) < -0.2 and np.array_equal(sim.base, begun)


def test_a_blow_on_the_way_back_ends_the_episode() -> None:
    """Of Navigate's way back, and though nothing presses the robot any more."""
    sim, episode, step = far_from_a_goal()

    def step_and_strike(action: Action) -> None:
        FakeSim.step(sim, action)
        sim.force_n = 10_001.0 if BASE in action and float(action[BASE][0]) < -0.2 else 0.0

    sim.step = step_and_strike
    result = run_chain(sim, episode, [step], navigating(Told(nothing)), Limits(1000, {"navigate": 400}), True)
    assert result.trace[-1].reason == "excessive force" and result.steps < 400


def test_behind_a_door_that_it_does_not_get_round_it_may_stop() -> None:
    """What is given up first is keeping it from stopping, and not the call."""
    sim, episode, step = before_an_open_fridge(False)
    result = ChainResult([])
    limits, opened = Limits(100, {"navigate": 50}), frozenset(episode.joints)
    player = Player(sim, navigating(Told(nothing)), limits, False, None, result, ForceSum(sim), opened=opened)
    ended, _ = player.play(0, step, lambda: result.steps == 5)
    assert ended and result.steps == 6


def test_what_lies_on_the_floor_behind_a_door_is_stopped_at() -> None:
    sim, episode, step = before_an_open_fridge(False)
    x, y, _ = step.goal.position
    step = replace(step, goal=replace(step.goal, position=(x, y, 0.04)))
    result = ChainResult([])
    limits, opened = Limits(100, {"navigate": 50}), frozenset(episode.joints)
    player = Player(sim, navigating(Told(nothing)), limits, False, None, result, ForceSum(sim), opened=opened)
    ended, _ = player.play(0, step)
    assert ended and result.steps == 1


@pytest.mark.parametrize("joint", [1.2, 2.0])
def test_a_door_is_drawn_where_the_hand_has_brought_it(joint: float) -> None:
    sim, episode, step = before_an_open_fridge(False)
    fridge = next(a for a in sim.scene.articulations if a.kind == "fridge")
    at = handle_at(fridge, joint)

    def pull(sim: FakeSim, goal: Goal) -> None:
        sim.held, sim.ee_pos = fridge.name, np.array(at)

    class Marked:
        def mark(self, points: np.ndarray) -> None:
            self.middle = points.mean(axis=0) + sim.base[:2]

    drawn = Marked()

    class Drawing(Told):
        def reset(self, sim: Simulator, goal: Goal) -> None:
            super().reset(sim, goal)
            goal.memory().update(map=drawn, began=(*sim.base[:2].tolist(), 0.0))

    pulling = replace(spec("open_fridge", 9), parts=(ARM, GRIP))
    skills = Skills(
        {"navigate": Drawing(nothing), "open_fridge": Script(pull)}, {"navigate": STOPPED, "open_fridge": pulling}
    )
    limits = Limits(100, {"navigate": 50, "open_fridge": 50})
    player = Player(sim, skills, limits, False, None, ChainResult([]), ForceSum(sim))
    opening = PlanStep("(open)", "open_fridge", Goal(at, "", fridge.name), "")
    player.play(0, opening)
    sim.held, player.opened = "", frozenset([fridge.name])
    player.play(1, step)
    assert drawn.middle == pytest.approx(footprint(fridge, joint)[:2], abs=0.02)


@pytest.mark.parametrize("stands_open", [True, False])
def test_navigates_map_shows_the_door_that_stands_open(stands_open: bool) -> None:
    """Though no sensor has met it: the way to what is behind it leads round."""
    drawn = LaserMap(12.0)

    class Drawing(Told):
        def reset(self, sim: Simulator, goal: Goal) -> None:
            super().reset(sim, goal)
            goal.memory().update(map=drawn, began=tuple(sim.base.tolist()))

    sim, episode, step = before_an_open_fridge(False)
    sim.base[2] = 0.7
    if not stands_open:
        episode = replace(episode, joints={})
    limits = Limits(100, {"navigate": 20})
    run_chain(sim, episode, [step], navigating(Drawing(nothing)), limits, False)
    goal = rotated(-sim.base[2], np.subtract(step.goal.position[:2], sim.base[:2]))
    straight_m, way_m = float(np.hypot(*goal)), float(drawn.route(0.0, 0.0, 0.0, (goal[0], goal[1]))[-1])
    assert way_m > straight_m + 0.3 if stands_open else way_m == pytest.approx(straight_m, abs=0.15)


@pytest.mark.parametrize("scripted", [True, False])
def test_oracles_drive_as_they_like(scripted: bool) -> None:
    """What Navigate heeds of a policy's action is for policies: an oracle slowed down is out of time."""
    sim, episode, step = before_an_open_fridge(True)
    deaf = replace(STOPPED, heeded=lambda sim, goal, action: {**action, STOP: -np.ones(1, np.float32)})
    limits = Limits(100, {"navigate": 20})
    result = run_chain(sim, episode, [step], navigating(Told(nothing), deaf, scripted), limits, False)
    assert result.steps == (1 if scripted else 20)


def test_what_comes_to_nothing_on_the_way_is_tried_straight() -> None:
    """A call is given up once Navigate has been told its target, and not before."""
    sim, _, step = far_from_a_goal()
    policy, result = Told(nothing), ChainResult([])
    never = replace(STOPPED, ended=lambda sim, goal, action, progress: False)
    limits = Limits(100, {"navigate": 50})
    player = Player(sim, navigating(policy, never), limits, False, None, result, ForceSum(sim))
    ended, _ = player.play(0, step, lambda: result.steps in (5, 9))
    assert not ended and result.steps == 9
    assert [goal.position == step.goal.position for goal in policy.told] == [False, True]


def test_the_arm_is_reset_between_skills_without_letting_go() -> None:
    def grasp_and_reach(sim: FakeSim, goal: Goal) -> None:
        grasp(sim, goal)
        sim.arm = REST_Q + 0.3

    result, sim = run(pick=Script(grasp_and_reach))
    resets = [a for a in sim.actions if ARM in a]
    assert result.success and 20 <= len(resets) // 2 <= 50
    assert all(a[GRIP][0] > 0 and np.abs(a[ARM]).max() <= 1 for a in resets)
    assert result.trace[2].start_step - result.trace[1].end_step == len(resets) // 2


def test_a_blow_between_two_skills_ends_the_episode() -> None:
    """While the arm goes to rest; the next skill begins with nothing pressing the robot."""

    class Struck(FakeSim):
        def step(self, action: Action) -> None:
            super().step(action)
            self.force_n = 10_001.0 if ARM in action else 0.0

    def grasp_and_reach(sim: FakeSim, goal: Goal) -> None:
        grasp(sim, goal)
        sim.arm = REST_Q + 0.3

    result, sim = run(Struck(), pick=Script(grasp_and_reach))
    assert result.reason == "excessive force" and sum(ARM in action for action in sim.actions) == 1


def test_on_step_sees_every_step() -> None:
    seen = []
    result, _ = run(on_step=lambda stage, action, done: seen.append((stage, sum(done))))
    assert len(seen) == result.steps and seen[0] == (0, 0) and seen[-1] == (7, 3)


class HonestGrip(FakeSim):
    """Lets go as the real suction does: as soon as an action does not ask for it."""

    def step(self, action: Action) -> None:
        super().step(action)
        if float(action.get(GRIP, np.zeros(1))[0]) <= 0.0:
            self.held = ""


def test_a_skill_without_a_grip_keeps_hold_of_what_is_held() -> None:
    wheels = {BASE: np.zeros(2, np.float32), STOP: np.ones(1, np.float32)}
    hold = {GRIP: np.ones(1, np.float32)}
    result, sim = run(
        HonestGrip(), navigate=Script(drive, wheels), pick=Script(grasp, hold), place=Script(put_down, hold)
    )
    assert result.success, result.trace[-1]
    empty_handed = [a for a in sim.actions[:6] if float(a[GRIP][0]) > 0.0]
    assert not empty_handed


@pytest.mark.parametrize("base_movement", [True, False])
def test_skills_act_through_their_own_parts_only(base_movement: bool) -> None:
    everything = {ARM: np.ones(7, np.float32), GRIP: np.ones(1), BASE: np.ones(2), STOP: np.ones(1)}
    seen: dict[str, set[str]] = {}

    def watch(stage: int, action: Action, interactions: Any) -> None:
        skill = fetch_plan()[stage].skill
        if set(action) != {ARM, GRIP}:
            seen.setdefault(skill, set()).update(action)

    run(
        navigate=Script(drive, everything),
        pick=Script(grasp, everything),
        place=Script(put_down, everything),
        on_step=watch,
        base_movement=base_movement,
    )
    assert seen["navigate"] == {BASE, STOP, GRIP}
    for skill in ("pick", "place"):
        assert seen.get(skill, {ARM, GRIP}) == ({ARM, GRIP, BASE} if base_movement else {ARM, GRIP})


class Fetcher:
    """One policy for all: takes the object, and a while later sets it down where it is told to."""

    def __init__(self, drops: str = "", takes: str = "") -> None:
        self.drops, self.takes = drops, takes

    def reset(self, sim: Simulator, goal: Goal) -> None:
        self.goal, self.waited = goal, 0

    def act(self, sim: Simulator) -> Action:
        fake, goal = cast(FakeSim, sim), self.goal
        self.waited += 1
        if self.waited == 3:
            fake.held = self.takes or goal.object
        if self.waited == 6:
            fake.objects[goal.object] = np.array((9.0, 9.0, 0.0) if goal.object == self.drops else goal.then)
            fake.held = self.takes
        return {}


def whole(policy: Fetcher, episode_steps: int = 1000) -> ChainResult:
    limits = Limits(episode_steps, {"rearrange": 20})
    steps = whole_steps(EPISODE)
    specs = {"rearrange": task_class("rearrange").chain_spec()}
    return run_chain(cast(Simulator, FakeSim()), EPISODE, steps, Skills({"rearrange": policy}, specs), limits)


def test_one_policy_for_all_is_measured_by_the_same_interactions() -> None:
    result = whole(Fetcher())
    assert result.success and result.interactions == [True] * 4 and result.steps == 12
    assert [(row.skill, row.interaction, row.outcome) for row in result.trace] == [
        ("rearrange", "place 1", "success"),
        ("rearrange", "place 2", "success"),
    ]


def test_what_one_policy_for_all_took_counts_although_it_dropped_it() -> None:
    result = whole(Fetcher(drops="can"))
    assert result.interactions == [True, True, True, False]
    assert (result.failed_skill, result.reason) == ("rearrange", "object is not at its goal")
    result = whole(Fetcher(), episode_steps=4)
    assert result.interactions == [True, False, False, False] and result.reason == "episode's step limit"
    result = whole(Fetcher(takes="can"))
    assert result.interactions == [False] * 4 and result.reason == "holds the wrong thing"


class Pressed(FakeSim):
    """Something presses the robot with these forces, one a control step, and then with none."""

    def __init__(self, forces_n: list[float]) -> None:
        super().__init__()
        self.left = list(forces_n)

    def step(self, action: Action) -> None:
        super().step(action)
        self.force_n = self.left.pop(0) if self.left else 0.0


@pytest.mark.parametrize(
    ("forces_n", "steps"), [([9_000.0, 10_001.0], 2), ([9_000.0, 0.0] * 12, 23), ([9_000.0] * 30, 48), ([15.0] * 9, 48)]
)
def test_too_much_force_ends_the_episode(forces_n: list[float], steps: int) -> None:
    """10,000 N at once, or rises that add up to 100,000 N: one that lasts has risen once."""
    result, _ = run(Pressed(forces_n))
    assert result.steps == steps and result.success == (steps == 48)
    assert result.succeeded_after == (steps if result.success else None)
    if not result.success:
        assert result.reason == "excessive force" and result.trace[-1].outcome == "failed"
        assert result.trace[-1].end_step == steps
