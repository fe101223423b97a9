"""Trains with sb3-contrib's RecurrentPPO: `drive_sb3.py TASK STEPS SEED`."""

import sys
from functools import partial

import settings
import tasks
import torch
from features import Features
from sb3_contrib import RecurrentPPO
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from stable_baselines3.common.vec_env import SubprocVecEnv


class Extracted(BaseFeaturesExtractor):
    """`Features` as SB3 wants them."""

    def __init__(self, observation_space):
        super().__init__(observation_space, settings.HIDDEN)
        keys = getattr(observation_space, "spaces", {"vector": observation_space})
        self.features = Features(keys["vector"], keys.get("image"))

    def forward(self, seen):
        parts = seen if isinstance(seen, dict) else {"vector": seen}
        return self.features(parts["vector"], parts.get("image"))


def main():
    task, steps, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(settings.learning_threads(task))
    envs = SubprocVecEnv([partial(tasks.make, task)] * settings.NUM_ENVS)
    policy = "MlpLstmPolicy" if len(envs.observation_space.shape or ()) == 1 else "MultiInputLstmPolicy"
    RecurrentPPO(
        policy,
        envs,
        n_steps=settings.ROLLOUT,
        batch_size=settings.NUM_ENVS * settings.ROLLOUT // settings.MINI_BATCHES,
        n_epochs=settings.EPOCHS,
        learning_rate=settings.LEARNING_RATE,
        gamma=settings.GAMMA,
        gae_lambda=settings.GAE_LAMBDA,
        clip_range=settings.CLIP,
        vf_coef=settings.VALUE_COEF,
        ent_coef=settings.ENTROPY_COEF,
        max_grad_norm=settings.MAX_GRAD_NORM,
        policy_kwargs={
            "features_extractor_class": Extracted,
            "net_arch": [],
            "lstm_hidden_size": settings.LSTM,
            "n_lstm_layers": 1,
            "shared_lstm": True,
            "enable_critic_lstm": False,
            "log_std_init": float(torch.tensor(settings.INITIAL_STD).log()),
            "optimizer_kwargs": {"eps": settings.ADAM_EPS},
            "normalize_images": False,
        },
        seed=seed,
        device="cpu",
    ).learn(steps)
    envs.close()


if __name__ == "__main__":
    main()
