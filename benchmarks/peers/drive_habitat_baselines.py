"""Trains with habitat-baselines' own VER: `drive_habitat_baselines.py TASK STEPS SEED`; needs habitat-sim."""

import os
import sys
import tempfile
from pathlib import Path
from unittest.mock import MagicMock

# Imported for imitation learning, which is not used here, and for images; not each build of torch has the latter.
for name in ("eqa_cnn_pretrain", "pacman", "vqa"):
    sys.modules[f"habitat_baselines.il.trainers.{name}_trainer"] = MagicMock()
sys.modules |= {name: MagicMock() for name in ("torchvision", "torchvision.transforms")}

import gym
import habitat
import numpy as np
import tasks
from features import Features
from habitat.config import read_write
from habitat.core.dataset import Dataset
from habitat_baselines.common.baseline_registry import baseline_registry
from habitat_baselines.config.default_structured_configs import HabitatBaselinesRLConfig
from habitat_baselines.rl.models.rnn_state_encoder import build_rnn_state_encoder
from habitat_baselines.rl.ppo.policy import Net, NetPolicy
from habitat_baselines.rl.ver.ver_trainer import VERTrainer
from omegaconf import OmegaConf
from settings import of

settings = of(sys.argv[1])

# Its worker processes import this file again, and find these by name.


@habitat.registry.register_dataset(name="nothing")
class Nothing(Dataset):
    """The environments bring their own episodes."""

    def __init__(self, config=None):
        self.episodes = []

    @staticmethod
    def get_scenes_to_load(config):
        return ["none"]


@habitat.registry.register_env(name="peer")
class Env(gym.Env):
    """One of our environments in gym's older interface."""

    def __init__(self, config, dataset=None):
        self._env = tasks.make(config.env_task_gym_id)
        self.action_space = _older(self._env.action_space)
        self.observation_space = _older(self._env.observation_space)
        self._seed = None

    def seed(self, seed=None):
        self._seed = seed

    def reset(self):
        seen, _ = self._env.reset(seed=self._seed)
        self._seed = None
        return seen

    def step(self, action):
        seen, reward, terminated, truncated, _ = self._env.step(action)
        return seen, reward, terminated or truncated, {}

    def close(self):
        self._env.close()


def _older(space):
    if hasattr(space, "spaces"):
        return gym.spaces.Dict({key: _older(inner) for key, inner in space.spaces.items()})
    return gym.spaces.Box(space.low, space.high, space.shape, space.dtype)


class Recurrent(Net):
    """`Features` -> LSTM."""

    output_size = recurrent_hidden_size = perception_embedding_size = settings.lstm
    visual_encoder = None
    is_blind = False

    def __init__(self, keys):
        super().__init__()
        self._vector = "vector" if "vector" in keys else "obs"
        self.features = Features(settings, keys[self._vector], keys.get("image"))
        self.state_encoder = build_rnn_state_encoder(settings.hidden, settings.lstm, "lstm")

    @property
    def num_recurrent_layers(self):
        return self.state_encoder.num_recurrent_layers

    def forward(self, observations, rnn_hidden_states, prev_actions, masks, rnn_build_seq_info=None):
        seen = self.features(observations[self._vector], observations.get("image"))
        features, state = self.state_encoder(seen, rnn_hidden_states, masks, rnn_build_seq_info)
        return features, state, {}


@baseline_registry.register_policy(name="peer")
class Policy(NetPolicy):
    @classmethod
    def from_config(cls, config, observation_space, action_space, **kwargs):
        policy = config.habitat_baselines.rl.policy.main_agent
        return cls(Recurrent(observation_space.spaces), action_space, policy_config=policy)


def main():
    task, steps, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    config = habitat.get_config("benchmark/rearrange/skills/pick.yaml")
    with tempfile.TemporaryDirectory() as folder, read_write(config):
        OmegaConf.set_struct(config, False)
        config.habitat_baselines = OmegaConf.structured(HabitatBaselinesRLConfig)
        config.habitat.seed, config.habitat.env_task, config.habitat.env_task_gym_id = seed, "peer", task
        config.habitat.dataset.type, config.habitat.dataset.content_scenes = "nothing", ["none"]
        given = {
            "trainer_name": "ver",
            "num_environments": settings.num_envs,
            "total_num_steps": steps,
            "num_updates": -1,
            "num_checkpoints": 1,
            "checkpoint_folder": folder,
            "tensorboard_dir": "",
            "log_file": str(Path(folder) / "train.log"),
            "verbose": False,
            "rl.policy.main_agent.name": "peer",
            "rl.policy.main_agent.action_distribution_type": "gaussian",
            "rl.policy.main_agent.action_dist.log_std_init": float(np.log(settings.initial_std)),
            "rl.policy.main_agent.action_dist.use_std_param": True,
            "rl.policy.main_agent.action_dist.action_activation": "",
            "rl.ppo.clip_param": settings.clip,
            "rl.ppo.ppo_epoch": settings.epochs,
            "rl.ppo.num_mini_batch": settings.mini_batches,
            "rl.ppo.value_loss_coef": 2 * settings.value_coef,  # it is halved
            "rl.ppo.entropy_coef": settings.entropy_coef,
            "rl.ppo.lr": settings.learning_rate,
            "rl.ppo.eps": settings.adam_eps,
            "rl.ppo.max_grad_norm": settings.max_grad_norm,
            "rl.ppo.num_steps": settings.rollout,
            "rl.ppo.gamma": settings.gamma,
            "rl.ppo.tau": settings.gae_lambda,
            "rl.ppo.use_normalized_advantage": True,
            "rl.ppo.use_clipped_value_loss": False,
            "rl.ver.num_inference_workers": 1,
            "rl.ver.overlap_rollouts_and_learn": True,
        }
        for key, value in given.items():
            OmegaConf.update(config.habitat_baselines, key, value)
        os.chdir(folder)
        VERTrainer(config).train()


if __name__ == "__main__":
    main()
