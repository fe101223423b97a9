"""Steps per second of the training systems, collecting and learning, side by side in one run (the paper's Table 1).

- synthetic: environments whose step time has a heavy tail (benchmarks/tiny_envs.py), 16 of them, rollouts of 16 x 128
  steps. `ddppo_even` is ddppo without stragglers: every step takes the mean time.
- open_fridge: the MuJoCo Open Fridge skill with `laser` observations and a network of three layers.

The systems take turns (--rounds); the first rollout of each turn, in which the environments start, is not counted.
mean_sps: steps by time over all turns; max_sps: of the best rollout, from one update to the next (two that async has
ready at once may exceed the bound). bound_sps: what N environments make if none ever waits for anything, N / (mean time
of a step as measured in the env workers, resets included); open_fridge's steps need a core, so there it is cores / (the
same, of a single environment on its own), with nothing left for the policy. All systems share workers, policy, learner
and parameters: only the scheduler differs; htsrl is nover collecting while it learns.
"""

from __future__ import annotations

import argparse
import json
import os
from functools import partial
from pathlib import Path
from typing import Any

from tiny_envs import Straggler

SYSTEMS: dict[str, dict[str, Any]] = {
    "ver": {"scheduler": "ver"},
    "nover": {"scheduler": "nover"},
    "ddppo": {"scheduler": "ddppo"},
    "async": {"scheduler": "async"},
    "htsrl": {"scheduler": "nover", "overlap": True},
}
NUM_ENVS = 16
ROLLOUT_LENGTH = 128


class Tally:
    """What one system did, over its turns."""

    def __init__(self) -> None:
        self.steps = self.env_steps = 0
        self.seconds = self.busy_s = 0.0
        self.env_s = self.inference_s = self.learn_s = 0.0
        self.max_sps = self.lag = 0.0
        self.updates = self.batches = self.requests = 0

    def add(self, updates: list[Any], busy_s: float, env_steps: int) -> None:
        """Take in a turn's updates, the first one (starting up) left out."""
        self.busy_s, self.env_steps = self.busy_s + busy_s, self.env_steps + env_steps
        for update in updates[1:]:
            self.steps += update.fresh_steps
            self.seconds += update.seconds
            self.env_s += update.collection.wait_s
            self.inference_s += update.collection.inference_s
            self.learn_s += update.learn_s
            self.max_sps = max(self.max_sps, update.fresh_steps / update.seconds)
            self.updates += 1
            self.batches += update.collection.batches
            self.requests += update.collection.requests
            self.lag += update.scalars["policy_lag_mean"]

    def figures(self) -> dict[str, float]:
        return {
            "mean_sps": self.steps / self.seconds,
            "max_sps": self.max_sps,
            "env_share": self.env_s / self.seconds,
            "inference_share": self.inference_s / self.seconds,
            "learn_share": self.learn_s / self.seconds,
            "requests_per_batch": self.requests / self.batches,
            "policy_lag_mean": self.lag / self.updates,
            "env_step_ms": 1e3 * self.busy_s / self.env_steps,
        }


def turn(
    make_env: Any, system: dict[str, Any], min_batch: int, rollouts: int, seed: int, tally: Tally, envs: int = NUM_ENVS
) -> None:
    """Let one system train for some rollouts."""
    from ver_core.config import PolicyConfig, TrainConfig
    from ver_core.reporting import Update
    from ver_core.trainer import Trainer

    train = TrainConfig(
        total_steps=10**9,
        num_envs=envs,
        rollout_length=ROLLOUT_LENGTH,
        min_batch=min_batch,
        learner_threads=1,
        seed=seed,
        **system,
    )
    policy = PolicyConfig(mlp=[128], rnn_layers=1, rnn_size=128)
    trainer = Trainer(make_env, train, policy, show_progress=False)
    updates: list[Update] = []

    def record(update: Update) -> bool:
        updates.append(update)
        return len(updates) == rollouts + 1

    result = trainer.train(record)
    tally.add(updates, result.env_busy_s, result.env_steps)


def compare(
    name: str,
    make_envs: dict[str, Any],
    systems: dict[str, dict[str, Any]],
    min_batch: int,
    rounds: int,
    rollouts: int,
    needs_core: bool,
) -> tuple[dict[str, dict[str, float]], float]:
    """Measure all systems in turns, print their table, and return it and the bound."""
    tallies = {system: Tally() for system in systems}
    alone = Tally() if needs_core else None
    if alone:
        turn(make_envs[""], {"scheduler": "ver"}, 1, 40, 0, alone, envs=1)
    for number in range(rounds):
        names = list(systems)
        for system in names[number % len(names) :] + names[: number % len(names)]:
            settings = systems[system]
            make_env = make_envs.get(system, make_envs[""])
            turn(make_env, settings, min_batch, rollouts, number, tallies[system])
    figures = {system: tally.figures() for system, tally in tallies.items()}
    if alone is None:
        uneven = [tally for system, tally in tallies.items() if system not in make_envs]
        bound = NUM_ENVS * sum(tally.env_steps for tally in uneven) / sum(tally.busy_s for tally in uneven)
    else:
        bound = min(NUM_ENVS, os.cpu_count() or 1) * alone.env_steps / alone.busy_s
    print(f"\n{name}: {rounds} turns of {rollouts} rollouts of {NUM_ENVS} x {ROLLOUT_LENGTH} steps")
    columns = ("mean_sps", "max_sps", "env_share", "inference_share", "learn_share", "requests_per_batch")
    headings = (*columns, "policy_lag_mean", "env_step_ms", "of bound")
    print(f"{'':>12} " + " ".join(f"{heading:>18}" for heading in headings))
    for system, row in figures.items():
        cells = [f"{row[c]:>18,.0f}" for c in columns[:2]] + [f"{100 * row[c]:>17.0f}%" for c in columns[2:5]]
        cells += [f"{row[c]:>18.2f}" for c in ("requests_per_batch", "policy_lag_mean", "env_step_ms")]
        print(f"{system:>12} " + " ".join(cells) + f" {row['mean_sps'] / bound:>18.2f}")
    print(f"{'bound':>12} {bound:>18,.0f}")
    return figures, bound


def main() -> None:
    from skills import make_env

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--quick", action="store_true", help="one short turn each")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument(
        "--rollouts", type=int, default=5, help="counted in each turn (open_fridge: four times as many)"
    )
    parser.add_argument("--only", choices=("synthetic", "open_fridge"))
    options = parser.parse_args()
    rounds, rollouts = (1, 1) if options.quick else (options.rounds, options.rollouts)
    report: dict[str, Any] = {}
    if options.only != "open_fridge":
        even = {"ddppo_even": {"scheduler": "ddppo"}}
        makers = {"": Straggler, "ddppo_even": partial(Straggler, even=True)}
        found, bound = compare("synthetic", makers, {**SYSTEMS, **even}, 1, rounds, rollouts, needs_core=False)
        ver, of_even = found["ver"]["mean_sps"], found["ddppo"]["mean_sps"] / found["ddppo_even"]["mean_sps"]
        ratios = {
            "ddppo / its straggler-free rate (0.39 +- 0.05)": of_even,
            "ver / ddppo (>= 2.3)": ver / found["ddppo"]["mean_sps"],
            "ver / nover (>= 1.25)": ver / found["nover"]["mean_sps"],
            "ver / async (>= 0.97)": ver / found["async"]["mean_sps"],
            "ver / bound (>= 0.90)": ver / bound,
        }
        for what, ratio in ratios.items():
            print(f"{what:>48}: {ratio:.2f}")
        report["synthetic"] = {**found, "bound_sps": bound, "ratios": ratios}
    if options.only != "synthetic":
        fridge = {"": partial(make_env, "open_fridge", split="train", obs="laser")}
        found, bound = compare("open_fridge", fridge, SYSTEMS, 8, rounds, 4 * rollouts, needs_core=True)
        report["open_fridge"] = {**found, "bound_sps": bound}
    if options.json:
        options.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
