"""Memory CartPole: CartPole-v1 without the two velocities, so that only a policy with a memory can balance the pole.

    python -m ver_core.examples.memory_cartpole [--scheduler ver|nover|ddppo|async] [--overlap] [--seed 0]

Trains until the mean return of the last 100 episodes is 475 (CartPole-v1's own bar for "solved") and prints how many
steps that took. The episodes are those of training, so actions are sampled.
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
        total_steps=600_000,
        scheduler=scheduler,
        overlap=overlap,
        num_envs=16,
        rollout_length=64,
        epochs=6,
        learning_rate=1e-3,
        normalize_advantage=True,
        entropy_coef=5e-3,
        learn_entropy_coef=False,
        min_batch=16 if scheduler == "ddppo" else 8,
        seed=seed,
    )
    return train, PolicyConfig(rnn_layers=1, rnn_size=64, mlp=[64], previous_action=True)


def solve(scheduler: str, overlap: bool, seed: int, show_progress: bool = True) -> tuple[bool, int, float, float]:
    """Train; return whether it was solved, after how many steps, in how many seconds, and the last mean return."""
    from ver_core.trainer import RECENT_EPISODES, Trainer, Update

    def solved(update: Update) -> bool:
        return update.episode_count >= RECENT_EPISODES and update.episodes["length"] >= SOLVED

    train, policy = configs(scheduler, overlap, seed)
    trainer = Trainer(make_env, train, policy, description="Memory CartPole", show_progress=show_progress)
    result = trainer.train(solved)
    mean = result.episodes.get("length", 0.0)  # CartPole-v1 pays 1 for each step
    return mean >= SOLVED, result.steps, result.seconds, mean


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scheduler", choices=SCHEDULERS, default="ver")
    parser.add_argument("--overlap", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    done, steps, seconds, mean = solve(options.scheduler, options.overlap, options.seed)
    print(
        f"{options.scheduler}{' overlap' if options.overlap else ''}, seed {options.seed}: "
        f"{'solved' if done else 'not solved'} after {steps:,} steps in {seconds:.0f} s ({steps / seconds:,.0f} "
        f"SPS); mean return of the last 100 episodes {mean:.1f}"
    )


if __name__ == "__main__":
    main()
