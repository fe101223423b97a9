"""Trains with our core: `drive_tpsrl.py TASK STEPS SEED`."""

import os
import sys
from functools import partial

import settings
import tasks


def main() -> None:
    from ver_core.config import PolicyConfig, TrainConfig
    from ver_core.trainer import Trainer

    task, steps, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    train = TrainConfig(
        total_steps=steps,
        num_envs=settings.NUM_ENVS,
        rollout_length=settings.ROLLOUT,
        epochs=settings.EPOCHS,
        mini_batches=settings.MINI_BATCHES,
        learning_rate=settings.LEARNING_RATE,
        final_learning_rate=settings.LEARNING_RATE,
        adam_eps=settings.ADAM_EPS,
        gamma=settings.GAMMA,
        gae_lambda=settings.GAE_LAMBDA,
        clip=settings.CLIP,
        value_coef=2 * settings.VALUE_COEF,  # ours is halved
        entropy_coef=settings.ENTROPY_COEF,
        learn_entropy_coef=False,
        normalize_advantage=True,
        max_grad_norm=settings.MAX_GRAD_NORM,
        # One process for each environment that sleeps, one for each core where they compute.
        envs_per_worker=1 if task == "synthetic" else settings.NUM_ENVS // (os.cpu_count() or 1),
        learner_threads=settings.learning_threads(task),
        min_batch=1 if task == "synthetic" else settings.NUM_ENVS // 2,
        seed=seed,
    )
    policy = PolicyConfig(
        visual_size=settings.IMAGE_FEATURES,
        mlp=[settings.HIDDEN],
        rnn_layers=1,
        rnn_size=settings.LSTM,
        previous_action=False,
        initial_std=settings.INITIAL_STD,
    )
    Trainer(partial(tasks.make, task), train, policy, show_progress=False).train()


if __name__ == "__main__":
    main()
