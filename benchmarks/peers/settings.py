"""One set of hyperparameters for all training systems, by task: PPO on sequences, a small LSTM policy."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Settings:
    """What every driver gives its system."""

    num_envs: int = 16
    rollout: int = 128
    """Steps of each environment, in the mean, in a rollout."""
    sequence: int = 128
    """Longest sequence that is learnt from; TorchRL and SB3 learn from a rollout's whole ones."""
    epochs: int = 3
    mini_batches: int = 2
    learning_rate: float = 2.5e-4
    adam_eps: float = 1e-5
    gamma: float = 0.99
    gae_lambda: float = 0.95
    clip: float = 0.2
    value_coef: float = 0.02
    """A success is worth 10, a step's reward a hundredth."""
    entropy_coef: float = 1e-3
    max_grad_norm: float = 0.5
    initial_std: float = 0.5
    hidden: int = 128
    lstm: int = 128
    """Vector (and features of the image) -> linear, tanh -> LSTM -> linear heads of actor and critic."""
    image_features: int = 128
    normalize: bool = False
    """Whether observations are normalised by their running mean and deviation."""
    learner_threads: int = 1
    """Threads of those that learn while the environments wait: what is faster for each of them."""

    @property
    def steps(self) -> int:
        """Steps of a rollout."""
        return self.num_envs * self.rollout

    @property
    def batch(self) -> int:
        """Steps of a mini-batch."""
        return self.steps // self.mini_batches


SPEED = Settings()
LEARNING = Settings(
    num_envs=32, rollout=256, sequence=64, epochs=4, mini_batches=8, learning_rate=3e-4, entropy_coef=1e-4,
    max_grad_norm=1.0, hidden=256, lstm=256, normalize=True, learner_threads=2,
)  # fmt: skip
"""As `configs/train/small.yaml`, as far as all can follow: one network for actor and critic, which is told nothing
else, one deviation, one rate of learning that stays as it is, no practice of what failed."""


def of(task: str) -> Settings:
    """Return a task's."""
    if task.startswith("learn_"):
        return LEARNING
    return replace(SPEED, learner_threads=(os.cpu_count() or 1) if task.endswith("_depth") else 1)
