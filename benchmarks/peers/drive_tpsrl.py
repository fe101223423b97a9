"""Trains with our core: `drive_tpsrl.py TASK STEPS SEED`."""

import os
import sys
from functools import partial

import tasks
from settings import of

settings = of(sys.argv[1])


def main() -> None:
    from ver_core.config import PolicyConfig, TrainConfig
    from ver_core.trainer import Trainer

    task, steps, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    train = TrainConfig(
        total_steps=steps,
        num_envs=settings.num_envs,
        rollout_length=settings.rollout,
        epochs=settings.epochs,
        mini_batches=settings.mini_batches,
        learning_rate=settings.learning_rate,
        final_learning_rate=settings.learning_rate,
        adam_eps=settings.adam_eps,
        gamma=settings.gamma,
        gae_lambda=settings.gae_lambda,
        clip=settings.clip,
        value_coef=2 * settings.value_coef,  # ours is halved
        entropy_coef=settings.entropy_coef,
        learn_entropy_coef=False,
        normalize_advantage=True,
        sequence_length=settings.sequence,
        max_grad_norm=settings.max_grad_norm,
        # One process for each environment that sleeps, one for each core where they compute.
        envs_per_worker=1 if task == "synthetic" else settings.num_envs // (os.cpu_count() or 1),
        learner_threads=settings.learner_threads,
        min_batch=1 if task == "synthetic" else settings.num_envs // 2,
        seed=seed,
    )
    policy = PolicyConfig(
        visual_size=settings.image_features,
        mlp=[settings.hidden],
        rnn_layers=1,
        rnn_size=settings.lstm,
        previous_action=False,
        initial_std=settings.initial_std,
        normalize_vectors=settings.normalize,
    )
    Trainer(partial(tasks.make, task), train, policy, show_progress=False).train()


if __name__ == "__main__":
    main()
