"""Trains with rl_games' PPO: `drive_rl_games.py TASK STEPS SEED`."""

import math
import sys
import tempfile
from functools import partial

import numpy as np
import tasks
import torch
from gymnasium.vector import AsyncVectorEnv, AutoresetMode
from rl_games.algos_torch import model_builder
from rl_games.algos_torch.network_builder import A2CBuilder
from rl_games.common import env_configurations, vecenv
from rl_games.common.algo_observer import AlgoObserver
from rl_games.common.ivecenv import IVecEnv
from rl_games.torch_runner import Runner
from settings import of

from ver_core.encoders import small_cnn

settings = of(sys.argv[1])


class Envs(IVecEnv):
    """Gymnasium's processes in rl_games' interface."""

    def __init__(self, envs, seed):
        self._envs = envs
        self._seed = seed

    def reset(self):
        return self._envs.reset(seed=self._seed)[0]

    def step(self, actions):
        seen, rewards, terminated, truncated, _ = self._envs.step(actions)
        return seen, rewards, terminated | truncated, {"time_outs": (truncated & ~terminated).astype(np.float32)}

    def get_env_info(self):
        seen, actions = self._envs.single_observation_space, self._envs.single_action_space
        return {"observation_space": seen, "action_space": actions}


class Policy(A2CBuilder.Network):
    """Vector and image -> linear, tanh -> LSTM -> actor, critic; all but the image's part is rl_games' own."""

    def __init__(self, params, input_shape, **kwargs):
        cnn = None
        if isinstance(input_shape, dict):
            height, width, channels = input_shape["image"]
            cnn = small_cnn(channels, height, width, settings.image_features)
            input_shape = (settings.image_features + input_shape["vector"][0],)
        super().__init__(params, input_shape=input_shape, **kwargs)
        self.image = cnn  # not before, as rl_games would set its biases

    def forward(self, given):
        seen = given["obs"]
        if self.image is not None:
            seen = torch.cat([self.image(seen["image"]), seen["vector"]], dim=1)
        return super().forward({**given, "obs": seen})


class Builder(A2CBuilder):
    def build(self, name, **kwargs):
        return Policy(self.params, **kwargs)


class AdamEps(AlgoObserver):
    """rl_games has no setting for it."""

    def after_init(self, algo):
        for group in algo.optimizer.param_groups:
            group["eps"] = settings.adam_eps


def main():
    task, steps, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.manual_seed(seed)  # rl_games takes a seed of 0 for none
    envs = AsyncVectorEnv([partial(tasks.make, task)] * settings.num_envs, autoreset_mode=AutoresetMode.SAME_STEP)
    vecenv.register("peer", lambda name, number: Envs(envs, seed))
    env_configurations.register("peer", {"vecenv_type": "peer"})
    model_builder.register_network("peer", Builder)
    plain, log_std = {"name": "default"}, math.log(settings.initial_std)
    actor = {"mu_activation": "None", "mu_init": plain, "sigma_activation": "None", "fixed_sigma": True}
    actor["sigma_init"] = {"name": "const_initializer", "val": log_std}
    network = {
        "name": "peer",
        "mlp": {"units": [settings.hidden], "activation": "tanh", "initializer": plain},
        "rnn": {"name": "lstm", "units": settings.lstm, "layers": 1},
        "space": {"continuous": actor},
    }
    config = {
        "name": "peer",
        "env_name": "peer",
        "save_best_after": 10**9,
        "device": "cpu",
        "torch_compile": False,
        "num_actors": settings.num_envs,
        "max_frames": steps,
        "horizon_length": settings.rollout,
        "seq_length": settings.sequence,
        "minibatch_size": settings.batch,
        "mini_epochs": settings.epochs,
        "learning_rate": settings.learning_rate,
        "lr_schedule": "constant",
        "gamma": settings.gamma,
        "tau": settings.gae_lambda,
        "e_clip": settings.clip,
        "clip_value": False,
        "critic_coef": 2 * settings.value_coef,  # rl_games halves it
        "entropy_coef": settings.entropy_coef,
        "bounds_loss_coef": 0.0,
        "truncate_grads": True,
        "grad_norm": settings.max_grad_norm,
        "normalize_input": settings.normalize,
        "normalize_value": False,
        "normalize_advantage": True,
        "value_bootstrap": True,
        "clip_actions": False,  # the environments do
        "reward_shaper": {},
    }
    params = {"algo": {"name": "a2c_continuous"}, "model": {"name": "continuous_a2c_logstd"}, "network": network}
    params |= {"seed": seed, "torch_threads": settings.learner_threads}
    runner = Runner(AdamEps())
    with tempfile.TemporaryDirectory() as folder:
        runner.load({"params": {**params, "config": {**config, "train_dir": folder}}})
        runner.run({"train": True})
    envs.close()


if __name__ == "__main__":
    main()
