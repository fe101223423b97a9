"""Memory CartPole: CartPole-v1 without the two velocities, so that only a policy with a memory can balance the pole.

    python -m ver_core.examples.memory_cartpole [--scheduler ver|nover|ddppo|async] [--overlap] [--seed 0]
    python -m ver_core.examples.memory_cartpole --compare

Trains until the mean return of the last 100 episodes is 475 (CartPole-v1's own bar for "solved") and prints how many
steps that took. The episodes are those of training, so actions are sampled. `--compare` does so with every scheduler
and three seeds, and prints a table.
"""

from __future__ import annotations

import argparse
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.wrappers import TransformObservation, TransformReward

from ver_core.config import SCHEDULERS, PolicyConfig, TrainConfig

SOLVED = 475.0
POSITIONS = [0, 2]
"""Of the cart (m) and of the pole (rad); 1 and 3 are their velocities."""
SCALE = np.array([2.4, 0.21], np.float32)
"""Where an episode ends."""
REWARD = 0.02
"""For each step instead of 1: values of up to 100 would drown the policy's gradient in a network that shares layers."""


def make_env() -> gymnasium.Env[Any, Any]:
    """Return CartPole-v1 that shows positions only."""
    shown = TransformObservation(
        gymnasium.make("CartPole-v1"),
        lambda state: (state[POSITIONS] / SCALE).astype(np.float32),
        spaces.Box(-np.inf, np.inf, (2,), np.float32),
    )
    return TransformReward(shown, lambda reward: REWARD * float(reward))


def configs(scheduler: str, overlap: bool, seed: int) -> tuple[TrainConfig, PolicyConfig]:
    """The same parameters for every scheduler."""
    train = TrainConfig(
        total_steps=300_000,
        scheduler=scheduler,
        overlap=overlap,
        num_envs=16,
        rollout_length=128,
        epochs=4,
        mini_batches=4,
        learning_rate=1e-3,
        normalize_advantage=True,
        entropy_coef=1e-3,
        learn_entropy_coef=False,
        min_batch=8,
        learner_threads=1,
        seed=seed,
    )
    return train, PolicyConfig(rnn_layers=1, rnn_size=64, mlp=[64], previous_action=True)


def solve(scheduler: str, overlap: bool, seed: int, show_progress: bool = True) -> tuple[bool, int, float, float]:
    """Train; return whether it was solved, after how many steps, in how many seconds, and the last mean return."""
    from ver_core.reporting import RECENT_EPISODES, Update
    from ver_core.trainer import Trainer

    def solved(update: Update) -> bool:
        return update.episode_count >= RECENT_EPISODES and update.episodes["length"] >= SOLVED

    train, policy = configs(scheduler, overlap, seed)
    trainer = Trainer(make_env, train, policy, description="Memory CartPole", show_progress=show_progress)
    result = trainer.train(solved)
    if result.interrupted:
        raise SystemExit("interrupted")
    mean = result.episodes.get("length", 0.0)  # CartPole-v1 pays 1 for each step
    return mean >= SOLVED, result.steps, result.seconds, mean


def compare(seeds: range) -> None:
    """Print how many steps and seconds every system needs."""
    systems = [*((name, False) for name in SCHEDULERS), ("ver", True)]
    print(f"{'':>12} {'steps, by seed':>34} {'mean':>10} {'SPS':>7}")
    for scheduler, overlap in systems:
        runs = [solve(scheduler, overlap, seed, show_progress=False) for seed in seeds]
        steps = [f"{count:,}" if done else "not solved" for done, count, _, _ in runs]
        mean = sum(count for _, count, _, _ in runs) / len(runs)
        sps = sum(count for _, count, _, _ in runs) / sum(seconds for _, _, seconds, _ in runs)
        name = scheduler + (" overlap" if overlap else "")
        print(f"{name:>12} {' '.join(f'{text:>11}' for text in steps)} {mean:>9,.0f} {sps:>7,.0f}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scheduler", choices=SCHEDULERS, default="ver")
    parser.add_argument("--overlap", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compare", action="store_true", help="all schedulers, seeds 0, 1 and 2")
    options = parser.parse_args()
    if options.compare:
        compare(range(3))
        return
    done, steps, seconds, mean = solve(options.scheduler, options.overlap, options.seed)
    name = options.scheduler + (" overlap" if options.overlap else "")
    outcome = "solved" if done else "not solved"
    print(
        f"{name}, seed {options.seed}: {outcome} after {steps:,} steps in {seconds:.0f} s ({steps / seconds:,.0f} "
        f"SPS); mean return of the last 100 episodes {mean:.1f}"
    )


if __name__ == "__main__":
    main()
