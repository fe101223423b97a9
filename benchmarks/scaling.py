"""SIMULATED: how the schedulers scale from 1 to 256 workers, from step times that are measured first.

A worker is a learning process with its 16 environments, each on a core of its own; all workers learn together, after
each rollout. Nothing but time is simulated: environments take the steps' times that were measured of real ones (whole
episodes are drawn, resets included), inference and learning take what a real training took just before. Rules of
preemption are the training's own (ver_core/preemption.py). What this machine has not, many cores and a network, is left
out: nothing competes, and averaging gradients costs --allreduce-s each update.

- synthetic: step times of benchmarks/tiny_envs.py, tuned to lose as much to stragglers as the VER paper's do.
- open_fridge: the MuJoCo skill with `laser`, each step three control steps, random actions.

ddppo steps its environments in lock-step; nover lets each make its 128 steps on its own; ver takes the rollout's steps
from whoever makes them. Figures: steps/s; times the steps/s of one worker (Figure 4 of the DD-PPO paper, Table 1 of
VER's); spread (standard deviation by mean) of the workers' collecting times, with preemption and without.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from throughput import NUM_ENVS, ROLLOUT_LENGTH, Tally, turn
from tiny_envs import Straggler

from ver_core.config import TrainConfig
from ver_core.preemption import best_duration_s

Times = NDArray[np.float64]
SYSTEMS = ("ddppo", "nover", "ver")
WORKERS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
MIN_FRACTION = 0.25


@dataclass(frozen=True)
class Costs:
    """Seconds."""

    episodes: list[Times]
    """Of each measured episode: its steps, the first one's with the reset."""
    inference: float
    """One batch."""
    learn: float
    """One update, with the averaging of gradients."""


class Stream:
    """One environment: the times of its steps to come, episodes drawn one after the other."""

    def __init__(self, episodes: list[Times], rng: np.random.Generator) -> None:
        self._episodes, self._rng = episodes, rng
        first = self._draw()
        self._ahead = first[int(rng.integers(len(first))) :]  # environments are out of step with each other

    def look(self, steps: int) -> Times:
        """Return the times of the next steps (steps,), which stay ahead."""
        while len(self._ahead) < steps:
            self._ahead = np.concatenate([self._ahead, self._draw()])
        return self._ahead[:steps]

    def take(self, steps: int, into_next_s: float = 0.0) -> None:
        """Leave steps behind, and some of the next one's time."""
        self.look(steps + 1)
        self._ahead = self._ahead[steps:].copy()
        self._ahead[0] = max(0.0, self._ahead[0] - into_next_s)

    def _draw(self) -> Times:
        return self._episodes[int(self._rng.integers(len(self._episodes)))]


class Worker:
    """One learning process's environments under one scheduler."""

    def __init__(self, system: str, costs: Costs, rng: np.random.Generator) -> None:
        self._system, self._costs = system, costs
        self._streams = [Stream(costs.episodes, rng) for _ in range(NUM_ENVS)]
        self._arrivals: list[Times] = []

    def plan(self) -> float:
        """Return after how many seconds the rollout would be full."""
        steps = ROLLOUT_LENGTH * (2 if self._system == "ver" else 1)
        while True:
            ahead = np.stack([stream.look(steps) for stream in self._streams]) + self._costs.inference
            if self._system == "ddppo":
                ahead = np.broadcast_to(ahead.max(axis=0), ahead.shape)
            self._arrivals = list(np.cumsum(ahead, axis=1))
            if self._system != "ver":
                return float(max(ends[ROLLOUT_LENGTH - 1] for ends in self._arrivals))
            full = np.sort(np.concatenate(self._arrivals))[NUM_ENVS * ROLLOUT_LENGTH - 1]
            if full <= min(ends[-1] for ends in self._arrivals):
                return float(full)
            steps *= 2

    def collect(self, seconds: float) -> tuple[int, Times]:
        """Collect for so long, then learn; return the steps, and each environment's mean step time (N,)."""
        counts = [int(np.searchsorted(ends, seconds + 1e-12, side="right")) for ends in self._arrivals]
        if self._system != "ver":
            counts = [min(count, ROLLOUT_LENGTH) for count in counts]
        means = np.full(NUM_ENVS, np.nan)
        for i, (stream, ends, count) in enumerate(zip(self._streams, self._arrivals, counts, strict=True)):
            if count:
                means[i] = ends[count - 1] / count
            # What is under way goes on while the others collect and learn; in lock-step nothing is.
            spent = seconds - (ends[count - 1] if count else 0.0) + self._costs.learn
            stream.take(count, spent if self._system == "ver" else 0.0)
        return sum(counts), means


def simulate(system: str, workers: int, costs: Costs, rounds: int, preempt: bool, seed: int = 0) -> dict[str, float]:
    """Return steps/s, and the spread of the workers' collecting times, of some rollouts."""
    rng = np.random.default_rng(seed)
    fleet = [Worker(system, costs, rng) for _ in range(workers)]
    steps, seconds, spreads = 0, 0.0, []
    means: Times | None = None
    for number in range(rounds + 1):
        full = np.array([worker.plan() for worker in fleet])
        ends = np.minimum(full, _deadline(system, full, means, costs)) if preempt and workers > 1 else full
        told = [worker.collect(end) for worker, end in zip(fleet, ends, strict=True)]
        means = np.stack([mean for _, mean in told])
        if number:  # the first rollout only measures
            steps += sum(count for count, _ in told)
            seconds += float(ends.max()) + costs.learn
            spreads.append(float(ends.std() / ends.mean()))
    return {"sps": steps / seconds, "spread": float(np.mean(spreads))}


def _deadline(system: str, full: Times, means: Times | None, costs: Costs) -> float:
    """Return when the rollouts of stragglers are ended."""
    if system == "ddppo":
        enough = int(np.ceil(TrainConfig().sync_fraction * len(full))) - 1
        return max(float(np.sort(full)[enough]), MIN_FRACTION * float(full.max()))
    if means is None:
        return float("inf")
    return best_duration_s(means, ROLLOUT_LENGTH, costs.learn, fixed_length=system == "nover")


def measured_episodes(make_env: Callable[[], Any], steps: int) -> list[Times]:
    """Return the step times of the episodes that one environment plays with random actions."""
    env = make_env()
    env.action_space.seed(0)
    episodes: list[Times] = []
    env.reset(seed=0)
    times: list[float] = []
    waiting = 0.0
    for _ in range(steps):
        begun = time.perf_counter()
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        times.append(waiting + time.perf_counter() - begun)
        waiting = 0.0
        if terminated or truncated:
            episodes.append(np.array(times))
            times, begun = [], time.perf_counter()
            env.reset()
            waiting = time.perf_counter() - begun
    env.close()
    return episodes


def synthetic_episodes(count: int) -> Iterator[Times]:
    """Draw the step times of `Straggler`'s episodes, without sleeping."""
    from tiny_envs import EPISODE_STEPS, MEAN_S

    env = Straggler()
    env.reset(seed=0)
    for _ in range(count):
        env.reset()
        yield np.array([MEAN_S * env._scale * env._action_time() for _ in range(EPISODE_STEPS)])


def main() -> None:
    from skills import make_env

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--workers", type=int, nargs="+", default=list(WORKERS))
    parser.add_argument("--steps", type=int, default=30_000, help="of Open Fridge that are measured")
    parser.add_argument("--allreduce-s", type=float, default=0.01)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    fridge = partial(make_env, "open_fridge", split="train", obs="laser", action_repeat=3)
    tally = Tally()
    turn(fridge, {"scheduler": "ver"}, 8, 4, 0, tally)
    learn = tally.seconds * tally.figures()["learn_share"] / tally.updates + options.allreduce_s
    inference = tally.inference_s / tally.batches
    print(f"measured: learning {learn:.3f} s an update, inference {1e3 * inference:.2f} ms a batch")
    report: dict[str, Any] = {}
    for name, episodes in (
        ("synthetic", list(synthetic_episodes(2000))),
        ("open_fridge", measured_episodes(fridge, options.steps)),
    ):
        ms = 1e3 * np.concatenate(episodes)
        print(
            f"\nSIMULATED, step times of {name}: {len(episodes)} episodes, {ms.mean():.2f} ms a step, median "
            f"{np.median(ms):.2f}, 99 % below {np.quantile(ms, 0.99):.2f}, longest {ms.max():.1f}"
        )
        costs = Costs(episodes, inference, learn)
        found = {
            system: [simulate(system, workers, costs, options.rounds, True) for workers in options.workers]
            for system in SYSTEMS
        }
        loose = {
            system: [simulate(system, workers, costs, options.rounds, False) for workers in options.workers]
            for system in SYSTEMS
        }
        print(f"{'workers':>8}" + "".join(f"{s + ' sps':>14}{'x':>8}{'spread':>8}{'(loose)':>9}" for s in SYSTEMS))
        for i, workers in enumerate(options.workers):
            cells = [
                f"{found[s][i]['sps']:>14,.0f}{found[s][i]['sps'] / found[s][0]['sps']:>8.1f}"
                f"{found[s][i]['spread']:>8.3f}{loose[s][i]['spread']:>9.3f}"
                for s in SYSTEMS
            ]
            print(f"{workers:>8}" + "".join(cells))
        report[name] = {"preempted": found, "loose": loose, "workers": options.workers}
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
