"""What the closed loop believes, and what is so: training episodes, packaged policies, the sensed state.

    python benchmarks/beliefs.py tidy_house [--first 0] [--episodes 40] [--workers 2] [--trace FILE]

Two tables. Facts: after each call, how many of a kind are believed and hold, are believed and do not hold, and hold
without being believed. Tasks that fail: where each object lies at the end that is not at its goal, and how far from
there it is believed to lie. `--trace`: a line of JSON for every call, with both states and both places of each object.
"""

from __future__ import annotations

import argparse
import functools
import json
import math
from collections import Counter
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from hab.episodes import Episode, lies_on, make_episode
from hab.measures import object_placed
from hab.mujoco.simulator import MujocoSimulator
from hab.scenario_env import MAX_STEPS
from planner.agent import Agent, chain_limits, load_policies, seed_draws, skills_of
from planner.closed_loop import ClosedLoop
from planner.problem import Atom, object_name
from planner.sensed import LOWEST_M
from planner.state import OracleState
from planner.task_planner import SKILL_OF_ACTION
from skills.skill import SkillPolicy

KINDS = ("holding", "in", "object_at", "opened_cab", "opened_fridge", "robot_at", "arm_out")
"""Facts that both estimates tell; the others are about what has been tried."""


@dataclass
class Played:
    """What one episode came to."""

    index: int
    success: bool
    reason: str
    facts: Counter[tuple[str, str]] = field(default_factory=Counter)
    """By kind, and `both`, `believed`, `true`."""
    ends: list[tuple[str, str, str]] = field(default_factory=list)
    """Object, where it lies, what is believed."""
    lines: list[dict[str, Any]] = field(default_factory=list)


def play(asked: tuple[str, int]) -> Played:
    """Play one training episode."""
    scenario, index = asked
    episode, sim, agent = make_episode(scenario, "train", index), MujocoSimulator(), Agent("zoo", replan="sensed")
    seed_draws(0, index)
    sim.reset(episode)
    truth = OracleState(sim, episode, sim.scene)
    played = Played(index, False, "")

    def look() -> None:
        """Compare what is believed with what is so, after the call that has just ended."""
        if not loop.result.trace:
            return
        row = loop.result.trace[-1]
        truth.update(*_told(row.action), True)
        believed, true = _of_interest(loop.state.atoms), _of_interest(truth.atoms)
        for what, atoms in (("both", believed & true), ("believed", believed - true), ("true", true - believed)):
            played.facts.update((atom[0], what) for atom in atoms)
        names = {object_name(target): target.object for target in episode.targets}
        places = {
            name: {"is": _rounded(sim.object_pos(of)), "believed": _rounded(loop.state.where[name])}
            for name, of in names.items()
        }
        told = {"believed": sorted(believed - true), "true": sorted(true - believed)}
        played.lines.append({"episode": index, **vars(row), **told, "places": places, "at": loop.result.steps})

    skills = skills_of(agent, _policies(agent, scenario))
    limits = chain_limits(MAX_STEPS, {})
    loop = ClosedLoop(sim, episode, skills, limits, "sensed", on_call=lambda label, step: look())
    result = loop.run()
    look()
    played.success, played.reason = result.success, result.reason
    if not result.success:
        for target in episode.targets:
            if not object_placed(sim, target):
                played.ends.append((target.object, _where(sim, episode, target.object), _belief(loop, sim, target)))
    sim.close()
    return played


@functools.cache
def _policies(agent: Agent, scenario: str) -> dict[str, SkillPolicy]:
    """Load them once in each process."""
    return load_policies(agent, scenario)


def _told(action: str) -> tuple[str, list[str]]:
    name, *arguments = action.strip("()").split()
    return SKILL_OF_ACTION.get(name, name), arguments


def _of_interest(atoms: frozenset[Atom]) -> frozenset[Atom]:
    return frozenset(atom for atom in atoms if atom[0] in KINDS)


def _rounded(place: Any) -> list[float]:
    return [round(float(x), 3) for x in place]


def _where(sim: MujocoSimulator, episode: Episode, name: str) -> str:
    """Say where an object lies that is not at its goal."""
    if sim.held == name:
        return "in hand"
    place = tuple(sim.object_pos(name).tolist())
    target = episode.target(name)
    if place[2] < LOWEST_M:
        return "on the floor"
    under = lies_on(sim.scene, place)
    if math.dist(place, target.start_pos) < 0.05:
        return "where it began"
    if under is not None and under.name == target.goal_receptacle:
        return "beside its goal"
    return "on its first furniture" if under is not None and under.name == target.start_receptacle else "elsewhere"


def _belief(loop: ClosedLoop, sim: MujocoSimulator, target: Any) -> str:
    name = object_name(target)
    if any(atom[:2] == ("holding", name) for atom in loop.state.atoms):
        return "in hand"
    if any(atom[0] == "object_at" and atom[1] == name for atom in loop.state.atoms):
        return "at its goal"
    away = math.dist(loop.state.where[name], sim.object_pos(target.object))
    lost = " (lost)" if ("lost", name) in loop.state.atoms else ""
    return ("there" if away < 0.1 else "within 0.5 m" if away < 0.5 else "farther off") + lost


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("scenario")
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--episodes", type=int, default=40)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--trace", type=Path)
    options = parser.parse_args()
    asked = [(options.scenario, index) for index in range(options.first, options.first + options.episodes)]
    facts, ends, reasons, won = Counter[tuple[str, str]](), Counter[tuple[str, str]](), Counter[str](), 0
    lines: list[str] = []
    with get_context("spawn").Pool(options.workers) as pool:
        for played in pool.imap(play, asked):
            facts += played.facts
            won += played.success
            reasons.update([played.reason] if played.reason else [])
            ends.update((where, belief) for _, where, belief in played.ends)
            for name, where, belief in played.ends:
                print(f"episode {played.index}: {played.reason}: {name} {where}, believed {belief}", flush=True)
            lines += [json.dumps(line) for line in played.lines]
    if options.trace:
        options.trace.write_text("\n".join(lines) + "\n", encoding="utf-8")
    causes = ", ".join(f"{count} {why}" for why, count in reasons.most_common())
    print(f"\n{options.scenario}: {won} of {len(asked)}; {causes}")
    print("\n| fact | believed and so | believed, not so | so, not believed |\n| --- | --- | --- | --- |")
    for kind in KINDS:
        print(f"| {kind} | {facts[kind, 'both']} | {facts[kind, 'believed']} | {facts[kind, 'true']} |")
    print("\n| at the end it lies | and is believed to be | objects |\n| --- | --- | --- |")
    for (where, belief), count in ends.most_common():
        print(f"| {where} | {belief} | {count} |")


if __name__ == "__main__":
    main()
