"""Trains with Sample Factory's asynchronous PPO: `drive_sample_factory.py TASK STEPS SEED`."""

import os
import sys
import tempfile

import tasks
from features import Features
from sample_factory.algo.utils.context import global_model_factory
from sample_factory.cfg.arguments import parse_full_cfg, parse_sf_args
from sample_factory.envs.env_utils import register_env
from sample_factory.model.encoder import Encoder
from sample_factory.train import run_rl
from settings import of

settings = of(sys.argv[1])


class Encoded(Encoder):
    """`Features` as Sample Factory wants them."""

    def __init__(self, cfg, obs_space):
        super().__init__(cfg)
        keys = obs_space.spaces
        self._vector = "vector" if "vector" in keys else "obs"
        self.features = Features(settings, keys[self._vector], keys.get("image"))

    def forward(self, obs_dict):
        return self.features(obs_dict[self._vector], obs_dict.get("image"))

    def get_out_size(self):
        return settings.hidden


def make_env(name, cfg, env_config, render_mode=None):
    return tasks.make(name)


def main():
    task, steps, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    register_env(task, make_env)
    global_model_factory().register_encoder_factory(Encoded)
    # A worker steps its environments in turn: one for each that sleeps, one for each core where they compute.
    workers = settings.num_envs if task == "synthetic" else os.cpu_count() or 1
    with tempfile.TemporaryDirectory() as folder:
        given = {
            "env": task,
            "experiment": "peer",
            "train_dir": folder,
            "seed": seed,
            "device": "cpu",
            "train_for_env_steps": steps,
            "num_workers": workers,
            "num_envs_per_worker": settings.num_envs // workers,
            "worker_num_splits": 2 if settings.num_envs // workers > 1 else 1,
            "rollout": settings.rollout,
            "recurrence": settings.sequence,
            "batch_size": settings.batch,
            "num_batches_per_epoch": settings.mini_batches,
            "num_epochs": settings.epochs,
            "learning_rate": settings.learning_rate,
            "adam_eps": settings.adam_eps,
            "gamma": settings.gamma,
            "gae_lambda": settings.gae_lambda,
            "ppo_clip_ratio": settings.clip,
            "ppo_clip_value": 1e6,
            "value_loss_coeff": settings.value_coef,
            "exploration_loss_coeff": settings.entropy_coef,
            "max_grad_norm": settings.max_grad_norm,
            "normalize_input": settings.normalize,
            "normalize_returns": False,
            "use_rnn": True,
            "rnn_type": "lstm",
            "rnn_size": settings.lstm,
            "rnn_num_layers": 1,
            "nonlinearity": "tanh",
            "adaptive_stddev": False,
            "initial_stddev": settings.initial_std,
            "decorrelate_experience_max_seconds": 0,
            "save_every_sec": 10**6,
            "stats_avg": 100,
        }
        parser, _ = parse_sf_args(argv=(argv := [f"--{key}={value}" for key, value in given.items()]))
        run_rl(parse_full_cfg(parser, argv))


if __name__ == "__main__":
    main()
