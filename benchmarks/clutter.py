"""Where Pick and Place fail: success by the gap to what stands next to it, by furniture, and by kind of object.

    python benchmarks/clutter.py [--skill pick] [--skills zoo] [--split val] [--episodes 200]

The gap is from the object (Pick) or from where it is to stand (Place) to the nearest other object at about its height:
the distance of their centres along the floor, less both radii (hab/objects.py).
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from typing import Any

from eval.evaluate import Request, run_episode
from eval.statistics import wilson
from hab.objects import object_model
from planner.agent import Agent
from skills import make_env

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
    request = Request(options.skill, Agent(options.skills), split=options.split)
    tables: dict[str, dict[str, list[bool]]] = {
        name: defaultdict(list) for name in ("next to it", "furniture", "kind", "reason")
    }
    for index in range(options.episodes):
        result = run_episode(request, index)
        start = start_of(options.skill, options.split, index)
        tables["next to it"][shown_gap(gap_m(options.skill, start))].append(result.success)
        tables["furniture"][result.kinds[1]].append(result.success)
        tables["kind"][result.kinds[0]].append(result.success)
        if not result.success:
            tables["reason"][result.reason].append(False)
    for name, rows in tables.items():
        print(f"\n{name}")
        for key, done in sorted(rows.items(), key=lambda row: row[0] if name == "next to it" else -len(row[1])):
            if name == "reason":
                print(f"  {key}: {len(done)}")
            elif len(done) >= FEWEST:
                low, high = wilson(sum(done), len(done))
                print(f"  {key}: {sum(done)} of {len(done)}, {sum(done) / len(done):.2f} ({low:.2f}-{high:.2f})")


def start_of(skill: str, split: str, index: int) -> Any:
    """Return the start state that `run_episode` plays."""
    env = make_env(skill, split=split, index=index)
    env.reset(seed=0)
    task: Any = env.unwrapped
    start = task.start
    env.close()
    return start


def gap_m(skill: str, start: Any) -> float:
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
