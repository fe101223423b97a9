"""The closed loop: plan, play one call of a skill, look what came of it, and plan anew if that is not as expected.

The skills, their termination rules and time limits, and the arm's way to rest between them are the chain's
(planner/chain.py). A call that fails costs time and nothing else: the episode ends when all is done, when the time is
out, or when no plan is left.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from hab.episodes import Episode, Target, lies_on
from hab.measures import ForceSum, object_placed
from hab.scene import Vec3
from hab.simulator import Simulator
from planner.chain import SUCCESS, TOO_MUCH_FORCE, ChainResult, Limits, OnCall, OnStep, Player, Skills
from planner.problem import ROBOT, Atom, goal_name, object_name
from planner.recovery import Idleness, Trail, back_off, tuck
from planner.replanning import Action, Replanner
from planner.sensed import SensedState
from planner.state import OracleState, StateEstimate
from planner.task_planner import SKILL_OF_ACTION, PlanStep
from skills.skill import Goal

RECOVERY = ("back_off", "tuck")
NOT_EXPECTED = "not as expected"
ANOTHER_THING = "took another thing"
NO_PLAN, OUT_OF_TIME = "no plan is left", "episode's step limit"
ROUND_M, ROUND_RAD = 1.0, (0.5 * math.pi, -0.5 * math.pi, math.pi)
LOOKS = 2
"""So often it is looked whether an object is where it belongs; then that is believed."""
VAIN_TUCKS = 3
"""An arm that has not come to rest so often in a row is worked with as it is."""


class ClosedLoop:
    """Plays one episode by one of `planner.state.STATES`."""

    def __init__(
        self,
        sim: Simulator,
        episode: Episode,
        skills: Skills,
        limits: Limits,
        estimate: str,
        stop_mask: bool = True,
        on_step: OnStep | None = None,
        on_call: OnCall | None = None,
    ) -> None:
        """`sim` stands at the episode's start; `estimate` is one of `planner.state.STATES`; the rest is the chain's."""
        self.sim, self.episode, self.limits, self.on_call = sim, episode, limits, on_call
        self.result = ChainResult([False] * (2 * len(episode.targets)))
        self.trail, self.calls = Trail(), 0
        self.state: StateEstimate = (OracleState if estimate == "oracle" else SensedState)(sim, episode, sim.scene)
        self.planner = Replanner(episode, sim.scene)
        self.player = Player(sim, skills, limits, stop_mask, self._watching(on_step), self.result, ForceSum(sim))
        self.goals = [("object_at", object_name(t), goal_name(t)) for t in episode.targets]
        self.targets = {object_name(t): t for t in episode.targets}
        """… and what has been taken by mistake, and goes back to where it was."""
        self.attempts: dict[str, int] = {}
        self.vain_tucks = 0
        self.looks: dict[str, int] = {}
        """By object, how often it was looked after; … and how many plans were made for that."""
        self.plans_to_look = 0

    def run(self) -> ChainResult:
        """Play from the simulator's present state (the episode's start) until all is done, the time is out or no plan
        is left."""
        plan: list[Action] = []
        why = "first plan"
        while self.result.steps < self.limits.episode and not self.player.too_much_force():
            if not plan:
                found = self._plan()
                if found is None:
                    self._fail("planner", NO_PLAN)
                    return self.result
                if not found:
                    break
                plan = found
            action = plan.pop(0)
            expected = self._call(action, why)
            why = "as planned"
            # An arm that has not come to rest is brought there anew once a call of a skill is over.
            if _state_of_things(self._atoms()) != expected:
                plan, why = [], NOT_EXPECTED
        self._count()
        if not self.result.success and not self.result.reason:
            last = self.result.trace[-1] if self.result.trace else None
            reason = TOO_MUCH_FORCE if self.player.too_much_force() else OUT_OF_TIME
            if self.result.steps < self.limits.episode and reason == OUT_OF_TIME:
                reason = "believed to be done"
            self._fail(last.skill if last else "planner", reason)
        return self.result

    def _fail(self, skill: str, reason: str) -> None:
        self._count()
        if not self.result.success:
            self.result.failed_skill, self.result.reason = skill, reason

    def _plan(self) -> list[Action] | None:
        """Plan for all objects that are not lost, when they are done to look after them, and then for the lost ones
        after all. None: there is no plan."""
        self._adopt()
        atoms = self._atoms()
        open_goals = [goal for goal in self.goals if ("lost", goal[1]) not in atoms]
        empty: Atom = ("not_holding", ROBOT)
        x, y, _ = self.sim.base.tolist()
        plan = self.planner.plan(atoms, self.state.where, (x, y), [*open_goals, empty])
        if plan == []:
            plan = self.planner.plan(atoms, self.state.where, (x, y), [*open_goals, empty, *self._to_confirm(atoms)])
        if plan == [] and len(open_goals) < len(self.goals):
            return self._plan() if self.state.seek_again() else None
        return plan

    def _to_confirm(self, atoms: frozenset[Atom]) -> list[Atom]:
        """Return what is believed to be done and has not been seen since something came near it."""
        doubtful = [a for a in sorted(atoms) if a[0] == "object_at" and ("confirmed", *a[1:]) not in atoms]
        doubtful = [a for a in doubtful if self.looks.get(a[1], 0) < LOOKS]
        self.plans_to_look += bool(doubtful)
        if self.plans_to_look > LOOKS * len(self.goals):
            return []
        return [("confirmed", *atom[1:]) for atom in doubtful]

    def _adopt(self) -> None:
        """Let the planner know of an object in hand that nobody asked for, if the state's estimate tells."""
        name = self._held()
        if not name or name in self.targets:
            return
        place = self.episode.objects[name][0]
        under = lies_on(self.sim.scene, place)
        if under is None:
            return
        target = Target(name, under.name, under.name, place, place)
        self.targets[object_name(target)] = target
        self.state.adopt(target)
        failures = self.planner.failures
        known = replace(self.episode, targets=tuple(self.targets.values()))
        self.planner = Replanner(known, self.sim.scene, failures)

    def _atoms(self) -> frozenset[Atom]:
        """Return the believed facts, but for those that nothing more is done about."""
        return self.state.atoms - self._given_up()

    def _given_up(self) -> frozenset[Atom]:
        return frozenset({("arm_out", ROBOT)} if self.vain_tucks >= VAIN_TUCKS else ())

    def _call(self, action: Action, why: str) -> frozenset[Atom]:
        """Play one action of the plan and write its line of the trace; return what was expected to come of it."""
        given_up = self._given_up()
        expected = _state_of_things(self.planner.expected(self.state.atoms - given_up, action))
        step = self._step(action)
        begun = self.player.begin(step)
        self.attempts[str(action)] = attempt = self.attempts.get(str(action), 0) + 1
        if self.on_call is not None:
            again = f", attempt {attempt}" if attempt > 1 else ""
            self.on_call(f"{self.calls + 1}{again}" + (f" ({why})" if why == NOT_EXPECTED else ""), step)
        told = SKILL_OF_ACTION.get(action.name, action.name)
        self.state.begin(told, action.arguments)
        if action.name in RECOVERY:
            script = back_off(self.sim, self.trail) if action.name == "back_off" else tuck(self.sim)
            ended = self.player.play_script(self.calls, script)
        elif action.name == "look":
            self.looks[action.arguments[0]] = self.looks.get(action.arguments[0], 0) + 1
            ended = True
        else:
            self.trail.begin()
            opened = (atom[1] for atom in self.state.atoms if atom[0] in ("opened_cab", "opened_fridge"))
            self.player.opened = frozenset(opened)
            ended, _ = self.player.play(self.calls, step, self._comes_to_nothing(step.skill))
            if step.skill == "navigate" and not ended:
                self.player.avoid_the_way()
            if self.result.steps < self.limits.episode and not self.player.too_much_force():
                if self.state.has_to_let_go(step.skill):
                    self.player.let_go(self.calls)
                self.player.reset_arm(self.calls)
        self.state.update(told, action.arguments, ended)
        found = _state_of_things(self.state.atoms - given_up)
        as_expected = found == expected
        self._take_note(action, as_expected)
        self._count()
        outcome, reason = SUCCESS, ""
        if not as_expected and self.state.wrong_in_hand:
            outcome, reason = "failed", ANOTHER_THING
        elif not as_expected:
            outcome = "failed" if ended else "timeout"
            reason = "timeout" if not ended else _explained(expected - found, found)
        missing, instead = _told(expected - found), _told(found - expected)
        self.player.note(
            begun, self.calls, step, outcome, reason, attempt=attempt, missing=missing, found=instead, why=why
        )
        self.calls += 1
        return expected

    def _comes_to_nothing(self, skill: str) -> Callable[[], bool]:
        """Return what tells, asked after each control step of a call that begins now, that it will come to nothing."""
        if skill == "navigate":
            return self.trail.stands_still
        hand = Idleness(self.sim)
        return lambda: self.state.wrong_in_hand or (not self.player.skills.scripted and hand.too_long())

    def _take_note(self, action: Action, as_expected: bool) -> None:
        """Count failures by object, and how often in a row the arm has not come to rest."""
        if action.name == "tuck":
            self.vain_tucks = self.vain_tucks + 1 if ("arm_out", ROBOT) in self.state.atoms else 0
        if action.name in RECOVERY:
            return
        self.vain_tucks = 0
        about = next((a for a in action.arguments if a in self.targets), "")
        if about and not as_expected:
            self.planner.failures[about] = self.planner.failures.get(about, 0) + 1

    def _step(self, action: Action) -> PlanStep:
        """Turn a ground action into a skill call: to where its object is believed to be."""
        name = action.arguments[0] if action.arguments else ""
        if action.name in RECOVERY:
            x, y, _ = self.sim.base.tolist()
            return PlanStep(str(action), action.name, Goal((x, y, 0.0)), "")
        if action.name == "look":
            return PlanStep(str(action), action.name, Goal(self.planner.place_of(action.arguments[1])), "")
        if action.name == "go_round":
            place = self.state.where.get(name) or self.planner.place_of(name)
            return PlanStep(str(action), "navigate", Goal(self._round(place), self._in_hand()), "")
        where = self.state.where
        if action.name == "put_back":
            return PlanStep(str(action), "place", Goal(where[name], self.targets[name].object), "")
        skill = SKILL_OF_ACTION[action.name]
        if action.name == "pick":
            goal = Goal(where[name], self.targets[name].object)
        elif action.name == "place":
            goal = Goal(self.targets[name].goal_pos, self.targets[name].object)
        elif action.name == "nav":
            goal = self._way_to(name, where)
        else:
            about = self.targets.get(action.arguments[1])
            goal = Goal(self.planner.place_of(name), about.object if about else "", name)
        number = len([g for g in self.goals if g in self.state.atoms]) + 1
        return PlanStep(str(action), skill, goal, f"{skill} {number}" if skill in ("pick", "place") else "")

    def _held(self) -> str:
        """Return the PDDL name of what is believed to be in hand; "" for nothing."""
        return next((atom[1] for atom in self.state.atoms if atom[0] == "holding"), "")

    def _in_hand(self) -> str:
        name = self._held()
        return self.targets[name].object if name in self.targets else ""

    def _round(self, place: Vec3) -> Vec3:
        """Return a point of the floor beside a place, a quarter or half turn about it from where the robot stands, in
        turn."""
        x, y, _ = self.sim.base.tolist()
        rounds = sum(times for action, times in self.attempts.items() if action.startswith("(go_round"))
        turn = ROUND_RAD[rounds % len(ROUND_RAD)]
        angle = math.atan2(y - place[1], x - place[0]) + turn
        return place[0] + ROUND_M * math.cos(angle), place[1] + ROUND_M * math.sin(angle), 0.0

    def _way_to(self, name: str, where: Mapping[str, Vec3]) -> Goal:
        if name in where:
            return Goal(where[name], self.targets[name].object)
        target = next(t for t in self.targets.values() if goal_name(t) == name)
        return Goal(target.goal_pos, target.object)

    def _count(self) -> None:
        """Tick the interactions off by number: k objects placed at a time, or k - 1 and another one in hand."""
        placed = [object_placed(self.sim, target) for target in self.episode.targets]
        done = self.result.interactions
        count = sum(placed)
        held = any(self.sim.held == t.object for t, lies in zip(self.episode.targets, placed, strict=True) if not lies)
        for k in range(count):
            done[2 * k] = done[2 * k + 1] = True
        if held and count < len(placed):
            done[2 * count] = True
        if self.result.success and self.result.succeeded_after is None:
            self.result.succeeded_after = self.result.steps

    def _watching(self, on_step: OnStep | None) -> OnStep:
        def watch(call: int, action: object, done: Sequence[bool]) -> None:
            self.state.watch()
            self.trail.watch(self.sim.base)
            if on_step is not None:
                on_step(call, action, done)  # type: ignore[arg-type]

        return watch


def _state_of_things(atoms: frozenset[Atom]) -> frozenset[Atom]:
    """Leave out where the robot was last, a matter of the plan's costs alone, and what it has seen."""
    return frozenset(atom for atom in atoms if atom[0] not in ("was_at", "confirmed"))


def _told(atoms: frozenset[Atom]) -> str:
    return " ".join(sorted(f"({' '.join(atom)})" for atom in atoms))


def _explained(missing: frozenset[Atom], found: frozenset[Atom]) -> str:
    """Say in a few words what a call that ended has not done."""
    for fact, words in (
        ("holding", "does not hold it"),
        ("object_at", "object is not at its goal"),
        ("opened_cab", "not far enough"),
        ("opened_fridge", "not far enough"),
        ("robot_at", "stopped too far or facing away"),
        ("not_holding", "did not let go"),
    ):
        if any(atom[0] == fact for atom in missing):
            return words
    return "arm not at rest" if ("arm_out", ROBOT) in found else NOT_EXPECTED
