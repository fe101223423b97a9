"""Trains with sb3-contrib's RecurrentPPO: `drive_sb3.py TASK STEPS SEED`."""

import sys
from functools import partial

import tasks
import torch
from features import Features
from sb3_contrib import RecurrentPPO
from settings import of
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import SubprocVecEnv, VecNormalize

settings = of(sys.argv[1])


class Extracted(BaseFeaturesExtractor):
    """`Features` as SB3 wants them."""

    def __init__(self, observation_space):
        super().__init__(observation_space, settings.hidden)
        keys = getattr(observation_space, "spaces", {"vector": observation_space})
        self.features = Features(settings, keys["vector"], keys.get("image"))

    def forward(self, seen):
        parts = seen if isinstance(seen, dict) else {"vector": seen}
        return self.features(parts["vector"], parts.get("image"))


def main():
    task, steps, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(settings.learner_threads)
    envs = SubprocVecEnv([partial(tasks.make, task)] * settings.num_envs)
    if settings.normalize:
        envs = VecNormalize(envs, norm_reward=False)
    policy = "MlpLstmPolicy" if len(envs.observation_space.shape or ()) == 1 else "MultiInputLstmPolicy"
    RecurrentPPO(
        policy,
        envs,
        n_steps=settings.rollout,
        batch_size=settings.batch,
        n_epochs=settings.epochs,
        learning_rate=settings.learning_rate,
        gamma=settings.gamma,
        gae_lambda=settings.gae_lambda,
        clip_range=settings.clip,
        vf_coef=settings.value_coef,
        ent_coef=settings.entropy_coef,
        max_grad_norm=settings.max_grad_norm,
        policy_kwargs={
            "features_extractor_class": Extracted,
            "net_arch": [],
            "lstm_hidden_size": settings.lstm,
            "n_lstm_layers": 1,
            "shared_lstm": True,
            "enable_critic_lstm": False,
            "log_std_init": float(torch.tensor(settings.initial_std).log()),
            "optimizer_kwargs": {"eps": settings.adam_eps},
            "normalize_images": False,
        },
        seed=seed,
        device="cpu",
    ).learn(steps)
    envs.close()


if __name__ == "__main__":
    main()
