"""Where Pick and Place fail: success by the gap to what stands next to it, by furniture, and by kind of object.

    python benchmarks/clutter.py [--skill pick] [--skills zoo] [--split val] [--episodes 200]

The gap is from the object (Pick) or from where it is to stand (Place) to the nearest other object at about its height:
the distance of their centres along the floor, less both radii (hab/objects.py).
"""

from __future__ import annotations

import argparse
import math
from collections import Counter, defaultdict
from typing import Any

from eval.statistics import wilson
from hab.objects import object_kind, object_model
from planner.agent import Agent, load_policies, play_skill, seed_draws
from skills import make_env
from skills.starts import Start

EDGES_M = (0.03, 0.06, 0.10, 0.20)
SAME_HEIGHT_M = 0.25
"""What is higher or lower stands on another board."""
FEWEST = 4
"""Kinds that so many episodes ask for are listed."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--skill", choices=("pick", "place"), default="pick")
    parser.add_argument("--skills", default="zoo", help="zoo, or a folder of runs")
    parser.add_argument("--split", default="val")
    parser.add_argument("--episodes", type=int, default=200)
    options = parser.parse_args()
    policy = load_policies(Agent(options.skills), options.skill)[options.skill]
    tables: dict[str, dict[str, list[bool]]] = {name: defaultdict(list) for name in ("next to it", "furniture", "kind")}
    reasons: Counter[str] = Counter()
    for index in range(options.episodes):
        seed_draws(0, index)
        env = make_env(options.skill, split=options.split, index=index)
        env.reset(seed=0)
        task: Any = env.unwrapped
        target = task.start.episode.target(task.goal.object)
        place = target.start_receptacle if options.skill == "pick" else target.goal_receptacle
        row = play_skill(options.skill, env, policy)
        success = row.outcome == "success"
        tables["next to it"][shown_gap(gap_m(options.skill, task.start))].append(success)
        tables["furniture"][task.sim.scene.receptacle(place).kind].append(success)
        tables["kind"][object_kind(target.object)].append(success)
        if not success:
            reasons[row.reason] += 1
        env.close()
    for name, rows in tables.items():
        print(f"\n{name}")
        for key, done in sorted(rows.items(), key=lambda row: row[0] if name == "next to it" else -len(row[1])):
            if len(done) >= FEWEST:
                low, high = wilson(sum(done), len(done))
                print(f"  {key}: {sum(done)} of {len(done)}, {sum(done) / len(done):.2f} ({low:.2f}-{high:.2f})")
    print("\nfailures: " + ", ".join(f"{reason} {count}" for reason, count in reasons.most_common()))


def gap_m(skill: str, start: Start) -> float:
    """Return how far the nearest other object is; infinite where there is none."""
    name, objects = start.goal.object, start.episode.objects
    x, y, z = start.goal.position if skill == "place" else objects[name][0]
    gaps = [math.inf]
    for other, ((ox, oy, oz), _) in objects.items():
        if other != name and abs(oz - z) < SAME_HEIGHT_M:
            wide = object_model(name).radius_m + object_model(other).radius_m
            gaps.append(max(0.0, math.hypot(ox - x, oy - y) - wide))
    return min(gaps)


def shown_gap(gap: float) -> str:
    """Return a gap's class, in cm."""
    for low, high in zip((0.0, *EDGES_M), EDGES_M, strict=False):
        if gap < high:
            return f"{low * 100:02.0f} to {high * 100:02.0f} cm"
    return f"{EDGES_M[-1] * 100:02.0f} cm or more"


if __name__ == "__main__":
    main()
