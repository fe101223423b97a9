"""Several environments side by side: in processes of their own, or as threads of one process.

MuJoCo lets go of Python's lock while it steps, so threads of one process could step several environments at once; what
is around it in Python cannot run at once, and each hand-over of the lock costs. `python benchmarks/threads.py` lets as
many of each as there are cores step Pick with random actions, alternating, and prints decisions per second (three
control steps each) and the memory (proportional set size, MB) of what steps. `--json FILE`, `--quick`.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import os
import statistics
import threading
import time
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from skills.training import env_factory

ENVS = 4
"""Of each worker, stepped in turn."""


class Worker:
    """Some environments, and actions for them."""

    def __init__(self, number: int) -> None:
        factory = env_factory("pick", base_movement=True, action_repeat=3)
        self._envs = [factory() for _ in range(ENVS)]
        for i, env in enumerate(self._envs):
            env.reset(seed=ENVS * number + i)
            env.action_space.seed(i)
        self._actions = [self._envs[0].action_space.sample() for _ in range(64)]

    def play(self, seconds: float) -> float:
        """Step until time is up; return decisions per second."""
        made, start = 0, time.perf_counter()
        while (now := time.perf_counter()) - start < seconds:
            for env in self._envs:
                *_, terminated, truncated, _ = env.step(self._actions[made % len(self._actions)])
                made += 1
                if terminated or truncated:
                    env.reset()
        return made / (now - start)


def pss_mb() -> float:
    for line in Path("/proc/self/smaps_rollup").read_text().splitlines():
        if line.startswith("Pss:"):
            return int(line.split()[1]) / 1e3
    return float("nan")


def _process(number: int, seconds: float, rounds: int, barrier: Barrier, answers: Any) -> None:
    worker = Worker(number)
    for _ in range(rounds):
        barrier.wait()
        answers.put((worker.play(seconds), pss_mb()))
        barrier.wait()


def _threads(count: int, seconds: float, rounds: int, barrier: Barrier, answers: Any) -> None:
    workers = [Worker(number) for number in range(count)]
    for _ in range(rounds):
        barrier.wait()
        made = [0.0] * count

        def play(number: int, made: list[float] = made) -> None:
            made[number] = workers[number].play(seconds)

        threads = [threading.Thread(target=play, args=(number,)) for number in range(count)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        answers.put((sum(made), pss_mb()))
        barrier.wait()


def measure(seconds: float, rounds: int) -> dict[str, float]:
    cores = os.cpu_count() or 1
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    apart, together = context.Barrier(cores + 1), context.Barrier(2)
    jobs = [context.Process(target=_process, args=(number, seconds, rounds, apart, answers)) for number in range(cores)]
    jobs.append(context.Process(target=_threads, args=(cores, seconds, rounds, together, answers)))
    for job in jobs:
        job.start()
    found: dict[str, list[tuple[float, float]]] = {"processes": [], "threads": []}
    for _ in range(rounds):
        for kind, barrier, count in (("processes", apart, cores), ("threads", together, 1)):
            barrier.wait()
            parts = [answers.get(timeout=60 + seconds) for _ in range(count)]
            found[kind].append((sum(speed for speed, _ in parts), sum(memory for _, memory in parts)))
            barrier.wait()
    for job in jobs:
        job.join()
    figures = {f"{kind}_decisions_per_s": statistics.median(s for s, _ in turns) for kind, turns in found.items()}
    figures |= {f"{kind}_pss_mb": statistics.median(m for _, m in turns) for kind, turns in found.items()}
    return figures | {"threads_by_processes": figures["threads_decisions_per_s"] / figures["processes_decisions_per_s"]}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    report = measure(2.0 if options.quick else 5.0, 2 if options.quick else 4)
    for name, value in report.items():
        print(f"{name:>32} {value:>10,.2f}")
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
