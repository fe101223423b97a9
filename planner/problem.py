"""One episode as a PDDL problem over `domain.pddl`: symbols only, read off the episode and its apartment."""

from __future__ import annotations

import re
import tempfile
from importlib import resources
from pathlib import Path

from pddlpy import DomainProblem

from hab.episodes import Episode, Target
from hab.scene import DRAWER_OPEN_M, FRIDGE_OPEN_RAD, Articulation, Scene

ROBOT = "robot"
Atom = tuple[str, ...]
"""A ground fact: ("holding", "ycb_013_apple-1", "robot")."""


def object_name(target: Target) -> str:
    """Return the PDDL name of a target's object; a PDDL name starts with a letter, YCB's with a number."""
    return f"ycb_{target.object}" if target.object[0].isdigit() else target.object


def goal_name(target: Target) -> str:
    """Return the PDDL name of the place where a target's object has to go."""
    return f"{object_name(target)}_goal"


def is_open(articulation: Articulation, joint_pos: float) -> bool:
    """Say whether a joint position (m or rad) counts as opened; habitat's predicates opened_cab and opened_fridge."""
    if articulation.kind == "fridge":
        return joint_pos > FRIDGE_OPEN_RAD - 0.15
    return joint_pos > DRAWER_OPEN_M - 0.1


def problem_pddl(episode: Episode, scene: Scene, domain: str = "home_rearrangement") -> str:
    """Return the text of the episode's problem file.

    Only the objects to rearrange and the drawers and fridges that hold them or their goals are named: nothing else
    bears on the plan. The robot starts at nothing, as habitat's episodes do, so every plan begins by driving.
    """
    goals = [f"(object_at {object_name(t)} {goal_name(t)})" for t in episode.targets]
    return "\n".join(
        [
            f"; {episode.scenario}, {episode.split} episode {episode.index}, apartment {episode.scene_seed}",
            f"(define (problem {_name(f'{episode.scenario}_{episode.split}_{episode.index}')})",
            f"  (:domain {domain})",
            _block("objects", _objects(episode, scene)),
            _block("init", [f"({' '.join(atom)})" for atom in initial_atoms(episode, scene)]),
            _block("goal", ["(and"] + [f"  {g}" for g in [*goals, f"(not_holding {ROBOT})"]], end="))") + ")",
            "",
        ]
    )


def initial_atoms(episode: Episode, scene: Scene) -> list[Atom]:
    """Return what holds at the episode's start."""
    atoms: list[Atom] = [("not_holding", ROBOT)]
    for a in _articulations(episode, scene):
        atoms.append(door_atom(a, is_open(a, episode.joints.get(a.name, 0.0))))
    for t in episode.targets:
        start, goal = _containers(t, scene)
        atoms += [("in", object_name(t), start)] if start else []
        atoms += [("in", goal_name(t), goal)] if goal else []
    return atoms


def door_atom(articulation: Articulation, opened: bool) -> Atom:
    """Return the fact that a drawer or fridge is open, or closed."""
    kind = "fridge" if articulation.kind == "fridge" else "cab"
    return f"{'opened' if opened else 'closed'}_{kind}", articulation.name


def domain_text(name: str) -> str:
    """Return the text of one of the domain files beside this module."""
    return resources.files("planner").joinpath(name).read_text(encoding="utf-8")


def parse(domain: str, problem: str) -> DomainProblem:
    """Parse a domain and a problem; pddlpy reads files, so the texts are written to a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        domain_file, problem_file = Path(folder, "domain.pddl"), Path(folder, "problem.pddl")
        domain_file.write_text(domain, encoding="utf-8")
        problem_file.write_text(problem, encoding="utf-8")
        return DomainProblem(str(domain_file), str(problem_file))


def _articulations(episode: Episode, scene: Scene) -> list[Articulation]:
    """Return the drawers and fridges that hold targets or their goals."""
    names = {name for t in episode.targets for name in _containers(t, scene) if name}
    return [scene.articulation(name) for name in sorted(names)]


def _objects(episode: Episode, scene: Scene) -> list[str]:
    objects = [f"{ROBOT} - robot"]
    objects += [
        f"{_name(a.name)} - {'fridge' if a.kind == 'fridge' else 'cab'}" for a in _articulations(episode, scene)
    ]
    objects += [f"{_name(object_name(t))} - movable" for t in episode.targets]
    return objects + [f"{_name(goal_name(t))} - goal" for t in episode.targets]


def _containers(target: Target, scene: Scene) -> tuple[str, str]:
    """Name the articulations that the target's start and goal are inside of ("" = an open surface)."""
    return (
        scene.receptacle(target.start_receptacle).articulation,
        scene.receptacle(target.goal_receptacle).articulation,
    )


def _name(text: str) -> str:
    """Return `text` if it is a PDDL name; scenes and objects are named so that it always is."""
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_-]*", text):
        raise ValueError(f"{text!r} is not a PDDL name: a letter, then letters, digits, - and _")
    return text


def _block(keyword: str, lines: list[str], end: str = ")") -> str:
    return f"  (:{keyword}\n" + "\n".join(f"    {line}" for line in lines) + end
