"""How fast the navigation tasks are: environment steps per second on one core, without a policy.

Actions are drawn (forward half of the time, never stop), episodes are of 500 steps; steps alone, and with the resets
that come in between (`reset_ms` each, new episodes in the same apartment; `apartment_ms`: a new apartment). By sensor;
and what of a step the laser, the camera and the distance to the goal take. `cpu` figures are of the time that this
process was running, which on a machine with other work is the better one. `--json FILE` writes the figures, `--quick`
takes ten seconds instead of a minute.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from hab.navigation.apartment import Apartment
from hab.navigation.env import FORWARD, LEFT, RIGHT, SENSORS, NavigationEnv, make_navigation_env

CHUNK = {"laser": 5000, "depth": 500, "rgb": 500}
"""Steps after which the contenders take turns."""
TARGETS = {"laser steps_per_s": ">= 15000"}
CLOCKS: dict[str, Callable[[], float]] = {"steps_per_s": time.perf_counter, "steps_per_cpu_s": time.process_time}


def measure_chunk(env: Any, actions: list[int]) -> dict[str, float]:
    """Steps per second, and per second of this process's running, of the steps alone; milliseconds of a reset."""
    spent, resets = dict.fromkeys(CLOCKS, 0.0), []
    before = {name: clock() for name, clock in CLOCKS.items()}
    for action in actions:
        *_, terminated, truncated, _ = env.step(action)
        if terminated or truncated:
            for name, clock in CLOCKS.items():
                spent[name] += clock() - before[name]
            start = time.process_time()
            env.reset()
            resets.append(time.process_time() - start)
            before = {name: clock() for name, clock in CLOCKS.items()}
    for name, clock in CLOCKS.items():
        spent[name] += clock() - before[name]
    return {name: len(actions) / seconds for name, seconds in spent.items()} | (
        {"reset_cpu_ms": 1e3 * statistics.median(resets)} if resets else {}
    )


def per_call_us(work: Callable[[], object], calls: int) -> float:
    """Microseconds of this process's running that a call takes."""
    start = time.process_time()
    for _ in range(calls):
        work()
    return 1e6 * (time.process_time() - start) / calls


def measure(quick: bool) -> dict[str, Any]:
    envs = {obs: make_navigation_env("pointnav", split="train", obs=obs) for obs in SENSORS}
    rng = np.random.default_rng(0)
    found: dict[str, list[dict[str, float]]] = {obs: [] for obs in SENSORS}
    for env in envs.values():
        env.reset(seed=0)
        for _ in range(20):
            env.step(FORWARD)
    for _ in range(3 if quick else 15):
        for obs, env in envs.items():
            actions = rng.choice([FORWARD, FORWARD, LEFT, RIGHT], CHUNK[obs]).tolist()
            found[obs].append(measure_chunk(env, actions))
    results: dict[str, Any] = {
        obs: {key: statistics.median(row[key] for row in rows if key in row) for key in rows[0]}
        for obs, rows in found.items()
    }
    task = envs["laser"].unwrapped
    assert isinstance(task, NavigationEnv)
    _ = task.apartment.camera  # made before it is timed
    results["us_per_call"] = {
        "laser": per_call_us(lambda: task.apartment.shapes.laser(task.pose), 2000),
        "distance": per_call_us(task.to_goal_m, 2000),
        "depth": per_call_us(lambda: task.apartment.camera.depth(task.pose), 200),
    }
    results["apartment_cpu_ms"] = statistics.median(
        per_call_us(lambda s=s: Apartment(s), 1) / 1e3 for s in range(500, 510)
    )
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--quick", action="store_true", help="ten seconds instead of a minute")
    arguments = parser.parse_args()
    results = measure(arguments.quick)
    rows = {
        f"{group} {key}": value
        for group, part in results.items()
        if isinstance(part, dict)
        for key, value in part.items()
    }
    rows["apartment_cpu_ms"] = results["apartment_cpu_ms"]
    for name, value in rows.items():
        print(f"{name:30} {f'{value:,.2f}' if value < 10 else f'{value:,.0f}':>10}  {TARGETS.get(name, '')}")
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
