"""The task planner: an episode in, the skills to play and their goals out.

pddlpy parses `domain.pddl` and the episode's problem file, grounds them and searches with its A*. The objects are
brought home in the episode's order, as the Home Assistant Benchmark fixes it: each object is one *stage* whose goal is
"this object and all earlier ones placed, hand free" (the benchmark's stage goals), planned from the state in which
the stage before ends. Blind search over the whole problem finds the stages in any order, so it is not asked to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from pddlpy.pddl import Atom
from pddlpy.planning import AStarPlanner, State

from hab.episodes import Episode, Target
from hab.openings import drawn_out, handle_at, widest
from hab.scene import Scene
from planner.problem import ROBOT, domain_text, goal_name, object_name, parse, problem_pddl
from skills.skill import Goal

SKILL_OF_ACTION = {
    "nav": "navigate",
    "nav_to_receptacle": "navigate",
    "pick": "pick",
    "place": "place",
    "open_cab": "open_cabinet",
    "close_cab": "close_cabinet",
    "open_fridge": "open_fridge",
    "close_fridge": "close_fridge",
}
PLANNED = (*dict.fromkeys(SKILL_OF_ACTION.values()), "rearrange")
"""The skills that plans are made of, and what plays an object's whole way without one."""


@dataclass(frozen=True)
class PlanStep:
    """One ground action of the plan, as a skill to play."""

    action: str
    """The ground action, as PDDL writes it: "(pick ycb_013_apple robot)"."""
    skill: str
    """Of `PLANNED`."""
    goal: Goal
    interaction: str
    """"pick 1", "place 1", … as in Figure 6 of the paper; "" for driving and for opening.

    Opening has no interaction of its own: it is a precondition of the pick that follows, which fails without it.
    """
    on_the_way: str = ""
    """The interaction that the step passes before its own, if it has two."""


def domain_pddl(nav_skill: bool = True) -> str:
    """Return the text of the domain file: with Navigate, or for an agent without it (NoNav)."""
    return domain_text("domain.pddl" if nav_skill else "domain_nonav.pddl")


def interactions(episode: Episode) -> list[str]:
    """Name the episode's interactions in order: Tidy House 10, Prepare Groceries 6, Set Table 4."""
    return [f"{kind} {k}" for k in range(1, len(episode.targets) + 1) for kind in ("pick", "place")]


def plan(episode: Episode, scene: Scene, nav_skill: bool = True) -> list[PlanStep]:
    """Plan an episode. `nav_skill=False`: for an agent without Navigate, whose other skills drive themselves (NoNav).

    Raises `ValueError` if no plan exists.
    """
    problem = parse(domain_pddl(nav_skill), problem_pddl(episode, scene))
    state = State.from_problem(problem)
    steps: list[PlanStep] = []
    for number, target in enumerate(episode.targets, start=1):
        problem.problem.initialstate = {Atom(a) for a in state.atoms}
        placed = [("object_at", object_name(t), goal_name(t)) for t in episode.targets[:number]]
        problem.problem.goals = {Atom(a) for a in [*placed, ("not_holding", ROBOT)]}
        stage = AStarPlanner().solve(problem)
        if stage is None:
            raise ValueError(f"no plan brings {target.object} to its goal")
        for operator in stage:
            arguments = [str(v) for v in operator.variable_list.values()]
            steps.append(
                _step(str(operator.operator_name), arguments, _as_it_lies(target, steps, scene), number, scene)
            )
            state = state.apply(operator)
    return steps


def whole_steps(episode: Episode) -> list[PlanStep]:
    """Return what a policy without skills is to do: an object after the other, in the episode's order."""
    steps = []
    for number, target in enumerate(episode.targets, start=1):
        goal = Goal(target.start_pos, target.object, then=target.goal_pos)
        action = f"(rearrange {object_name(target)})"
        steps.append(PlanStep(action, "rearrange", goal, f"place {number}", f"pick {number}"))
    return steps


def _as_it_lies(target: Target, steps: Sequence[PlanStep], scene: Scene) -> Target:
    """Return a target with its start where it lies once the steps are played: a drawer brings its content along, and
    glides on to where it ends when the hand has let go."""
    container = scene.receptacle(target.start_receptacle).articulation
    if not any(step.skill == "open_cabinet" and step.goal.articulation == container for step in steps):
        return target
    drawer = scene.articulation(container)
    return replace(target, start_pos=drawn_out(drawer, widest(drawer), target.start_pos))


def _step(action: str, arguments: list[str], target: Target, number: int, scene: Scene) -> PlanStep:
    """Turn a ground action of a target's stage into a skill call."""
    skill = SKILL_OF_ACTION[action]
    name = arguments[0]
    if action in ("pick", "place"):
        goal = Goal(target.start_pos if action == "pick" else target.goal_pos, target.object)
    elif action == "nav":
        goal = Goal(target.start_pos if name == object_name(target) else target.goal_pos, target.object)
    else:
        goal = Goal(handle_at(scene.articulation(name), 0.0), target.object, name)
    interaction = f"{skill} {number}" if skill in ("pick", "place") else ""
    return PlanStep(f"({' '.join([action, *arguments])})", skill, goal, interaction)
