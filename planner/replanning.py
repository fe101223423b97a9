"""Plans from any state, again and again: the domain of the closed loop, parsed and grounded once for an episode.

pddlpy parses, grounds and applies actions; its own planners ground anew at each call and know unit costs only, so
the A* is here. Costs are control steps: what a way and a call take, roughly, and more for what has failed, so that the
order of the objects comes from the search, and what fails is put off until the others are done.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from pddlpy.pddl import Operator
from pddlpy.planning import State
from pddlpy.planning.grounding import GroundedTask

from hab.episodes import Episode
from hab.openings import handle_at, obstruct
from hab.scene import Scene, Vec3
from planner.problem import ROBOT, Atom, domain_text, goal_name, object_name, parse, problem_pddl

DOMAIN, DOMAIN_FILE = "home_rearrangement_closed_loop", "domain_closed_loop.pddl"
CALL_STEPS = {
    "nav": 60.0,
    "nav_to_receptacle": 60.0,
    "pick": 150.0,
    "place": 150.0,
    "open_cab": 250.0,
    "open_fridge": 250.0,
    "go_round": 200.0,
    "put_back": 400.0,
    "look": 1.0,
    "back_off": 60.0,
    "tuck": 30.0,
}
"""What a call takes besides its way."""
OBSTRUCTED_STEPS = {"open_cab": 2000.0, "open_fridge": 400.0}
"""What opening costs more where an open door or drawer is in the way. In training episodes 15 of 21 drawers behind an
open fridge's door were not opened at the first try, most of them never; of 10 fridges beside an open drawer 4."""
STEPS_PER_M = 45.0
FAILED_STEPS = 400.0
"""What an object that has failed costs more, for each failure and each other object that is still to be done."""


@dataclass(frozen=True)
class Action:
    """A ground action of a plan."""

    name: str
    arguments: tuple[str, ...]

    def __str__(self) -> str:
        return f"({' '.join([self.name, *self.arguments])})"


@dataclass
class Replanner:
    """The planner of one episode."""

    episode: Episode
    scene: Scene
    failures: dict[str, int] = field(default_factory=dict)
    """By the PDDL name of an object: how many calls about it have failed."""

    def __post_init__(self) -> None:
        problem = parse(domain_text(DOMAIN_FILE), problem_pddl(self.episode, self.scene, DOMAIN))
        self._task = GroundedTask(problem)
        # pddlpy grounds from sets: without an order of their own, which of several cheapest plans is found would hang
        # on the process's hash seed.
        self._task.actions.sort(key=lambda operator: str(_action(operator)))
        self._always = frozenset(("belongs", object_name(t), goal_name(t)) for t in self.episode.targets)
        self.containers = sorted(name for name, kind in problem.worldobjects().items() if kind in ("cab", "fridge"))
        self._places: dict[str, Vec3] = {goal_name(t): t.goal_pos for t in self.episode.targets}
        self._places |= {name: handle_at(self.scene.articulation(name), 0.0) for name in self.containers}
        pairs = itertools.permutations(map(self.scene.articulation, self.containers), 2)
        self.obstructing = {(one.name, other.name) for one, other in pairs if obstruct(one, other)}
        """What is in another one's way when it is open."""

    def plan(
        self, atoms: Iterable[Atom], where: Mapping[str, Vec3], here: tuple[float, float], goals: Iterable[Atom]
    ) -> list[Action] | None:
        """Return the cheapest plan from a state to the goals; None: there is none.

        `where`: the objects' places (m, world), by PDDL name; `here`: the base's.
        """
        wanted = frozenset(goals)
        search = _Search(self, sorted(wanted), {**self._places, **where}, here)
        start = State(frozenset(atoms) | self._always)
        order = itertools.count()
        frontier = [(search.least(start), next(order), 0.0, start)]
        cheapest: dict[State, float] = {start: 0.0}
        came: dict[State, tuple[State, Action]] = {}
        while frontier:
            _, _, spent, state = heapq.heappop(frontier)
            if wanted <= state.atoms:
                return _traced(came, state)
            if spent > cheapest[state]:
                continue
            for operator, after in self._task.successors(state):
                action = _action(operator)
                total = spent + search.cost(action, state)
                if total < cheapest.get(after, math.inf):
                    cheapest[after] = total
                    came[after] = state, action
                    heapq.heappush(frontier, (total + search.least(after), next(order), total, after))
        return None

    def place_of(self, name: str) -> Vec3:
        """Return an object's goal, or a drawer's or fridge's handle, closed (m, world)."""
        return self._places[name]

    def actions(self, atoms: Iterable[Atom]) -> Iterator[Action]:
        """Yield what can be done in a state."""
        for operator, _ in self._task.successors(State(frozenset(atoms) | self._always)):
            yield _action(operator)

    def expected(self, atoms: Iterable[Atom], action: Action) -> frozenset[Atom]:
        """Return what holds after an action that does what the domain says. Raises `ValueError` if it cannot be."""
        state = State(frozenset(atoms) | self._always)
        for operator, after in self._task.successors(state):
            if _action(operator) == action:
                return frozenset(after.atoms) - self._always
        raise ValueError(f"{action} cannot be done now")


@dataclass(frozen=True)
class _Search:
    """The costs of one call of the planner."""

    planner: Replanner
    goals: Collection[Atom]
    """In an order of their own: what they are to cost is added up in it."""
    places: Mapping[str, Vec3]
    here: tuple[float, float]

    def cost(self, action: Action, state: State) -> float:
        """Return what an action costs in a state (control steps)."""
        steps = CALL_STEPS[action.name]
        if action.name.startswith("nav"):
            steps += STEPS_PER_M * self._way(self._at(state), action.arguments[0])
        elif action.name == "pick":
            name = action.arguments[0]
            others = sum(goal not in state.atoms and name not in goal for goal in self.goals)
            steps += FAILED_STEPS * self.planner.failures.get(name, 0) * others
        elif action.name in OBSTRUCTED_STEPS:
            opened = {atom[1] for atom in state.atoms if atom[0].startswith("opened")}
            if any((other, action.arguments[0]) in self.planner.obstructing for other in opened):
                steps += OBSTRUCTED_STEPS[action.name]
        return steps

    def least(self, state: State) -> float:
        """Return what is still to be done at least: calls, each object's own way, and the shortest way to it."""
        atoms, at = state.atoms, self._at(state)
        missing = [(goal[1], goal[2]) for goal in self.goals if goal[0] == "object_at" and goal not in atoms]
        ends = [goal for _, goal in missing] + self.planner.containers
        steps, shut = 0.0, set[str]()
        for name, goal in missing:
            steps += CALL_STEPS["place"]
            if ("holding", name, ROBOT) in atoms:
                if ("robot_at", goal, ROBOT) not in atoms:
                    steps += CALL_STEPS["nav"] + STEPS_PER_M * self._way(at, goal)
                continue
            steps += CALL_STEPS["pick"] + CALL_STEPS["nav"] + STEPS_PER_M * self._way(self._place(name), goal)
            inside = [atom[2] for atom in atoms if atom[0] == "in" and atom[1] == name]
            if ("robot_at", name, ROBOT) not in atoms:
                before = [self._place(end) for end in ends if end != goal]
                steps += CALL_STEPS["nav"] + STEPS_PER_M * min(self._way(p, name) for p in (at, *before))
            shut |= {c for c in inside if ("closed_cab", c) in atoms or ("closed_fridge", c) in atoms}
        return steps + len(shut) * min(CALL_STEPS["open_cab"], CALL_STEPS["open_fridge"])

    def _at(self, state: State) -> tuple[float, float]:
        return next((self._place(atom[1]) for atom in state.atoms if atom[0] == "was_at"), self.here)

    def _place(self, name: str) -> tuple[float, float]:
        return self.places[name][:2]

    def _way(self, start: tuple[float, float], name: str) -> float:
        return math.dist(start, self._place(name))


def _action(operator: Operator) -> Action:
    return Action(str(operator.operator_name), tuple(str(v) for v in operator.variable_list.values()))


def _traced(came: Mapping[State, tuple[State, Action]], state: State) -> list[Action]:
    actions = []
    while state in came:
        state, action = came[state]
        actions.append(action)
    return actions[::-1]
