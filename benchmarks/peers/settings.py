"""One set of hyperparameters for all training systems: PPO on sequences, a small LSTM policy."""

import os

NUM_ENVS = 16
ROLLOUT = 128
"""Steps of each environment, in the mean, in a rollout; also the longest sequence that is learnt from."""
EPOCHS, MINI_BATCHES = 3, 2
LEARNING_RATE, ADAM_EPS = 2.5e-4, 1e-5
GAMMA, GAE_LAMBDA, CLIP = 0.99, 0.95, 0.2
VALUE_COEF, ENTROPY_COEF, MAX_GRAD_NORM = 0.02, 1e-3, 0.5  # a success is worth 10, a step's reward a hundredth
INITIAL_STD = 0.5
HIDDEN, LSTM = 128, 128
"""Vector (and features of the image) -> linear, tanh -> LSTM -> linear heads of actor and critic."""
IMAGE_FEATURES = 128


def learning_threads(task: str) -> int:
    """Threads of those that learn while the environments wait: what is faster for each of them."""
    return (os.cpu_count() or 1) if task.endswith("_depth") else 1
