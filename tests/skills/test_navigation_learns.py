"""The core learns a tiny PointNav: one short episode, from random weights."""

from __future__ import annotations

from functools import partial

from hab.navigation.env import make_navigation_env
from hab.navigation.episodes import make_navigation_episode
from ver_core.config import PolicyConfig, TrainConfig
from ver_core.reporting import Update
from ver_core.trainer import Trainer


def test_it_learns_to_go_to_a_point_and_to_stop_there() -> None:
    index = next(
        3 + 1000 * k for k in range(100) if make_navigation_episode("pointnav", "train", 3 + 1000 * k).geodesic_m < 1.8
    )
    train = TrainConfig(
        total_steps=40_000, num_envs=8, envs_per_worker=8, rollout_length=64, mini_batches=2, learning_rate=2e-3,
        final_learning_rate=2e-3, normalize_advantage=True, entropy_coef=0.01, learn_entropy_coef=False, min_batch=8,
        learner_threads=1, scheduler="ddppo",
    )  # fmt: skip
    policy = PolicyConfig(
        rnn_layers=1, rnn_size=32, mlp=[32], angle_keys=["pointgoal_with_gps_compass"],
        tanh_keys=["pointgoal_with_gps_compass"], initial_bias={"": [-2.0, 1.0, 0.0, 0.0]},
    )  # fmt: skip
    reached: list[float] = []

    def on_update(update: Update) -> bool:
        if update.episode_count >= 100:
            reached.append(update.episodes["success"])
        return bool(reached) and reached[-1] > 0.8

    make_env = partial(make_navigation_env, "pointnav", split="train", index=index, turn_deg=30)
    Trainer(make_env, train, policy, show_progress=False).train(on_update)
    assert reached[-1] > 0.8 and min(reached) < 0.5
