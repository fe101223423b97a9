"""The chain: plays a plan's steps as skills, one after the other, and measures what they achieved.

The rules are those of habitat-baselines' TP-SRL evaluation (docs/hab.md): a skill acts through its own parts until its
own termination rule; one that runs out of time ends the episode, unless its interaction holds by then; the arm goes
back to rest between skills; what a skill has achieved is read off the simulator for measurement only, there is no
replanning (planner/closed_loop.py has that). The additions are told in docs/hab.md: Navigate comes to its target from
before the furniture and round fridges' open doors, and, which changes no success rate, the episode ends at the first
missed interaction, because interactions count cumulatively and so no later one can count.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from hab.actions import BASE, GRIP, STOP, Action
from hab.episodes import Episode
from hab.measures import FORCE_SUM_MAX_N, ForceSum, ee_in_base, holding, navigated, object_placed, planar_distance
from hab.openings import widest
from hab.scene import Vec3
from hab.simulator import Simulator
from planner.approach import Approach, approach
from planner.doors import OpenDoors, hidden
from planner.problem import is_open
from planner.recovery import WayOut
from planner.sight import Sight
from planner.task_planner import PlanStep
from skills import always_drives
from skills.skill import START_ZONE_M, Goal, Progress, SkillPolicy, SkillSpec, arm_to_rest, taken_at, upwards
from skills.task import on_memorys_map

STOP_MASK_M = 2.0
"""Navigate's stop is ignored while its target is further away than this (VER, appendix B)."""

SUCCESS = "success"
TOO_MUCH_FORCE = "excessive force"

OnStep = Callable[[int, Action, Sequence[bool]], None]
"""Called after each control step with the call's number, the action and the interactions measured so far."""
OnCall = Callable[[str, PlanStep], None]
"""Called before each call of a skill with a few words on which one it is, and what is called."""


@dataclass(frozen=True)
class Limits:
    """Time limits in control steps (1/30 s)."""

    episode: int
    skills: Mapping[str, int]
    """By skill name."""


@dataclass(frozen=True)
class TraceRow:
    """One skill call of an episode; a line of the trace file."""

    stage: int
    """Number of the plan's step; of the call in the closed loop."""
    skill: str
    action: str
    interaction: str
    start_step: int
    end_step: int
    """Control steps since the episode's start, [start, end)."""
    outcome: str
    """"success", "failed" (ended, but not with its post-condition; in the closed loop: with another state than the plan
    expected) or "timeout"."""
    reason: str
    """Why it did not succeed; "" if it did."""
    start_m: float = 0.0
    """Planar distance of the base from the call's goal when it began; 0 where the physics became unstable."""
    driven_m: float = 0.0
    """Length of the base's path during the call; 0 where the physics became unstable."""
    attempt: int = 1
    """How often the same action has been called, this time included."""
    missing: str = ""
    """Facts that the planner had expected after the call and the state's estimate has not; of the closed loop alone."""
    found: str = ""
    """… and facts that it has instead."""
    why: str = ""
    """Why the call was made: "first plan", "as planned" or, after a new plan, "not as expected"."""


@dataclass
class ChainResult:
    """What one episode came to."""

    interactions: list[bool]
    """Cumulative: interaction i is true only if all before it are."""
    steps: int = 0
    succeeded_after: int | None = None
    """Steps at the end of the call with which the last interaction was done; the closed loop may go on to look."""
    failed_skill: str = ""
    """The first skill call that did not do its job in the stage that was missed; "" on success."""
    reason: str = ""
    trace: list[TraceRow] = field(default_factory=list)

    @property
    def success(self) -> bool:
        return all(self.interactions)

    def trace_rows(self) -> list[dict[str, Any]]:
        """Return the trace as plain rows, ready for JSON Lines."""
        return [asdict(row) for row in self.trace]


@dataclass(frozen=True)
class Skills:
    """What plays the calls of a plan."""

    policies: Mapping[str, SkillPolicy]
    specs: Mapping[str, SkillSpec]
    """Both by skill name."""
    base_movement: bool = True
    """Whether the manipulation skills may drive."""
    scripted: bool = False
    """Whether oracles play, or a person: they find their own way, as fast as they like, and have all their time though
    the hand takes nothing."""

    def parts(self, name: str) -> tuple[str, ...]:
        """Return the action parts that a skill has."""
        spec = self.specs[name]
        return tuple(part for part in spec.parts if part != BASE or self.base_movement or always_drives(spec.name))


def run_chain(
    sim: Simulator,
    episode: Episode,
    plan: Sequence[PlanStep],
    skills: Skills,
    limits: Limits,
    stop_mask: bool = True,
    on_step: OnStep | None = None,
    on_call: OnCall | None = None,
) -> ChainResult:
    """Play `plan` from the simulator's present state (the episode's start) to its end or first missed interaction."""
    names = [name for step in plan for name in (step.on_the_way, step.interaction) if name]
    result = ChainResult([False] * len(names))
    opened = frozenset(name for name, at in episode.joints.items() if is_open(sim.scene.articulation(name), at))
    chain = Player(sim, skills, limits, stop_mask, on_step, result, ForceSum(sim), True, opened)
    carried = ""
    for stage, step in enumerate(plan):
        if on_call is not None:
            on_call(f"{stage + 1}/{len(plan)}", step)
        begun = chain.begin(step)
        spec = skills.specs[step.skill]
        ended, grasped = chain.play(stage, step)
        if step.on_the_way and grasped and _picked(sim, episode, step):
            result.interactions[names.index(step.on_the_way)] = True
        missed = bool(step.interaction) and not _interaction_holds(sim, episode, step)
        if step.skill.startswith("open"):
            chain.opened |= {step.goal.articulation}
        elif step.skill.startswith("close"):
            chain.opened -= {step.goal.articulation}
        if step.interaction and not missed:
            result.interactions[names.index(step.interaction)] = True

        lost = carried not in ("", sim.held) and GRIP not in spec.parts
        carried = sim.held
        if chain.too_much_force():
            outcome, reason = "failed", TOO_MUCH_FORCE
        elif not ended:
            outcome, reason = "timeout", "episode's step limit" if result.steps >= limits.episode else "timeout"
        elif missed or not spec.achieved(sim, step.goal):
            outcome, reason = "failed", explain(sim, episode, step)
        elif lost:
            outcome, reason = "failed", "lost what it carried"
        else:
            outcome, reason = SUCCESS, ""
        chain.note(begun, stage, step, outcome, reason)
        # An interaction that holds when the skill's time is out counts, and the episode goes on.
        if missed or not (ended or step.interaction) or result.steps >= limits.episode or chain.too_much_force():
            break
        if stage + 1 < len(plan):
            chain.reset_arm(stage)

    if result.success:
        result.succeeded_after = result.steps
    else:
        result.failed_skill, result.reason = first_failure(result.trace)
    return result


@dataclass(frozen=True)
class Begun:
    """Where a call of a skill begins."""

    steps: int
    """Control steps since the episode's start."""
    start_m: float
    """Planar distance of the base from the call's goal."""
    path_m: float
    """What the base has driven until then."""


@dataclass
class Player:
    """Acts on the simulator within an episode's limits, counting the steps."""

    sim: Simulator
    skills: Skills
    limits: Limits
    stop_mask: bool
    on_step: OnStep | None
    result: ChainResult
    force: ForceSum
    sighted: bool = False
    """Whether Pick is told where its object is seen (planner/sight.py); the closed loop's state looks for itself."""
    opened: frozenset[str] = frozenset()
    """Drawers and fridges that are believed to be open."""
    _held: str = ""
    _taken: Vec3 | None = None
    """Of `_held`, as `Goal.taken` has it."""
    _up: Vec3 | None = None
    """… and `Goal.up`."""
    _told: Vec3 | None = None
    """Where Pick, if that is being played, was told that its object lies."""
    _map: dict[str, Any] = field(default_factory=dict)
    """What Navigate has drawn in this episode."""

    def __post_init__(self) -> None:
        self._doors = OpenDoors(self.sim.scene)

    def begin(self, step: PlanStep) -> Begun:
        """Take note of where a call begins."""
        return Begun(self.result.steps, planar_distance(self.sim, step.goal.position), self.sim.path_m)

    def note(self, begun: Begun, stage: int, step: PlanStep, outcome: str, reason: str, **told: Any) -> None:
        """Write a call's line of the trace; `told`: what the closed loop has to say besides."""
        row = TraceRow(
            stage,
            step.skill,
            step.action,
            step.interaction,
            begun.steps,
            self.result.steps,
            outcome,
            reason,
            round(begun.start_m, 3),
            round(self.sim.path_m - begun.path_m, 3),
            **told,
        )
        self.result.trace.append(row)

    def play(self, stage: int, step: PlanStep, given_up: Callable[[], bool] = lambda: False) -> tuple[bool, bool]:
        """Play one call; return whether it ended on its own rule, in time, and whether it had anything in hand.

        `given_up`: asked after each control step, whether it comes to nothing: what keeps it from its target, or from
        stopping there, is given up then, and after that the call.
        """
        sim, skills, goal, progress = self.sim, self.skills, step.goal, Progress()
        is_guided = step.skill == "navigate" and not skills.scripted
        policy, spec, parts = skills.policies[step.skill], skills.specs[step.skill], skills.parts(step.skill)
        deadline = min(self.result.steps + self.limits.skills[step.skill], self.limits.episode)
        self._told = goal.position if step.skill == "pick" else None
        if step.skill == "place":
            goal = replace(goal, taken=self._taken, up=self._up)
        elif step.skill == "navigate":
            goal = replace(goal, map=self._map)
        by_way_of, until = None, (self.result.steps + deadline) // 2
        if is_guided:
            self._doors.begin(self.opened)
            by_way_of = approach(sim.scene, sim.nav, goal, self._joints(), sim.base)
        comes_by = by_way_of is not None and not self._arrived(by_way_of, goal)

        def begin() -> None:
            policy.reset(sim, replace(goal, position=by_way_of.place) if by_way_of is not None and comes_by else goal)

        begin()
        sight = Sight(sim, goal) if step.skill == "pick" and self.sighted and not skills.scripted else None
        start, reflex = ee_in_base(sim), spec.reflex(sim, goal)
        way_out = WayOut(sim) if is_guided else None
        while self.result.steps < deadline:
            if sight is not None and (at := sight.now()) is not None:
                goal = replace(goal, position=at)
                self._told = at
                policy.tell(goal)
            if way_out is not None and way_out.is_needed():
                if not self.play_script(stage, way_out.back()):
                    return False, progress.grasped
                self.avoid_the_way()
                begin()
                continue
            action = own_parts(policy.act(sim), parts, sim.held != "")
            if is_guided or step.skill != "navigate":
                action = reflex(spec.heeded(sim, goal, action))
            masked = self.stop_mask and step.skill == "navigate" and planar_distance(sim, goal.position) > STOP_MASK_M
            waits = comes_by or self._is_behind_a_door(by_way_of, goal)
            early = is_guided and self.result.steps <= until and not navigated(sim, goal.position)
            if masked or waits or early:
                action = {**action, STOP: np.array([-1.0], np.float32)}
            if is_guided and self._doors.watch(sim):
                self._draw_doors()
            self._advance(stage, action)
            if sim.held and goal.articulation and step.skill != "navigate":
                self._doors.bring(goal.articulation, sim.ee_pos)
            if self.too_much_force():
                return False, progress.grasped
            vain = given_up()
            if self.result.steps > until or (vain and waits):
                by_way_of = None
            if comes_by and (by_way_of is None or self._arrived(by_way_of, goal)):
                comes_by = False
                begin()
            if vain and not waits:
                return False, progress.grasped
            progress.steps += 1
            progress.grasped |= sim.held != ""
            progress.left_start |= math.dist(ee_in_base(sim), start) > START_ZONE_M
            if spec.ended(sim, goal, action, progress):
                return True, progress.grasped
        return False, progress.grasped

    def _joints(self) -> dict[str, float]:
        """Return how far (m or rad) what is believed to be open is."""
        stand_open = [a for a in self.sim.scene.articulations if a.name in self.opened]
        return {a.name: self._doors.joints.get(a.name, widest(a)) for a in stand_open}

    def _draw_doors(self) -> None:
        """Let Navigate's map, if it draws one, show the doors that are believed to stand open: the head, which looks
        ahead alone, has seen little of them."""
        if "map" in self._map:
            self._map["map"].mark(on_memorys_map(self._doors.points(), self._map))

    def _arrived(self, by_way_of: Approach, goal: Goal) -> bool:
        """Whether Navigate has passed what it comes by, and may be told its target."""
        return by_way_of.passed(self.sim.base) and not self._is_behind_a_door(by_way_of, goal)

    def _is_behind_a_door(self, by_way_of: Approach | None, goal: Goal) -> bool:
        """Whether a fridge's open door is believed to be between the base and what lies at a goal, and not between that
        and what Navigate comes by, if that is anything."""
        if by_way_of is None or goal.articulation:
            return False
        doors, target = self._doors.boxes(), goal.position
        return hidden(doors, self.sim.base.tolist(), target) and not hidden(doors, by_way_of.place, target)

    def avoid_the_way(self) -> None:
        """Let Navigate, if it draws a map, take another way than the one on which it has just got stuck."""
        if "map" in self._map:
            self._map["map"].block()

    def play_script(self, stage: int, script: Iterable[Action]) -> bool:
        """Play actions to their end; return whether the time and the forces allowed that."""
        for action in script:
            if self.result.steps >= self.limits.episode or self.too_much_force():
                return False
            self._advance(stage, action)
        return True

    def let_go(self, stage: int) -> None:
        """Switch the suction off for a control step."""
        self._advance(stage, {GRIP: np.array([-1.0], np.float32)})

    def reset_arm(self, stage: int) -> None:
        """Bring the arm to rest between two skills."""
        self.play_script(stage, arm_to_rest(self.sim))

    def too_much_force(self) -> bool:
        """Whether the robot has been pressed too hard, now or in all: the episode ends."""
        return self.force.too_much(FORCE_SUM_MAX_N)

    def _advance(self, stage: int, action: Action) -> None:
        self.sim.step(action)
        if self.sim.held != self._held:
            self._held = self.sim.held
            self._taken = taken_at(self.sim, self._told) if self._held and self._told else None
            self._up = upwards(self.sim) if self._taken else None
        self.force.update()
        self.result.steps += 1
        if self.on_step is not None:
            self.on_step(stage, action, self.result.interactions)


def own_parts(action: Action, parts: tuple[str, ...], holding_on: bool) -> Action:
    """Return an action's parts that a skill has; one that has no grip keeps hold of what is held."""
    kept = {part: action[part] for part in parts if part in action}
    if GRIP not in parts:
        kept[GRIP] = np.array([1.0 if holding_on else -1.0], np.float32)
    return kept


def _interaction_holds(sim: Simulator, episode: Episode, step: PlanStep) -> bool:
    """Say whether the stage goal of a step's interaction holds (HAB: k - 1/2 picked, k placed, earlier ones kept)."""
    number = _number(episode, step)
    if step.skill == "pick":
        return holding(sim, step.goal.object) and _placed(sim, episode, number)
    return sim.held == "" and _placed(sim, episode, number + 1)


def _picked(sim: Simulator, episode: Episode, step: PlanStep) -> bool:
    """Say whether what was in hand is the step's object, with the earlier ones where they belong."""
    return sim.held in ("", step.goal.object) and _placed(sim, episode, _number(episode, step))


def _placed(sim: Simulator, episode: Episode, count: int) -> bool:
    """Say whether the first `count` objects lie at their goals."""
    return all(object_placed(sim, target) for target in episode.targets[:count])


def _number(episode: Episode, step: PlanStep) -> int:
    return next(i for i, target in enumerate(episode.targets) if target.object == step.goal.object)


def explain(sim: Simulator, episode: Episode, step: PlanStep) -> str:
    """Say in a few words what is missing after a skill that ended; the causes in the evaluation's table."""
    if step.skill == "navigate":
        return "stopped too far or facing away"
    if step.skill == "pick":
        if sim.held and sim.held != step.goal.object:
            return "holds the wrong thing"
        if not sim.held:
            return "holds nothing"
        return "an earlier object was moved"
    if step.skill in ("place", "rearrange"):
        if sim.held:
            return "did not let go" if sim.held == step.goal.object else "holds the wrong thing"
        is_there = object_placed(sim, episode.target(step.goal.object))
        return "an earlier object was moved" if is_there else "object is not at its goal"
    return "not far enough" if not sim.held else "did not let go of the handle"


def came_to(failed_skill: str, reason: str) -> str:
    """Return what an episode came to in a few words: "success", or the skill that failed and why."""
    return f"{failed_skill}: {reason}" if failed_skill else SUCCESS


def first_failure(trace: Sequence[TraceRow]) -> tuple[str, str]:
    """Blame the first call since the last achieved interaction that did not succeed: later ones suffer from it."""
    stage: list[TraceRow] = []
    for row in trace:
        stage.append(row)
        if row.interaction and row is not trace[-1]:  # achieved, or the episode would have ended with it
            stage = []
    blamed = next((row for row in stage if row.outcome != SUCCESS), trace[-1])
    return blamed.skill, blamed.reason
