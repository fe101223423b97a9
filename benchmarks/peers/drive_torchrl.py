"""Trains with TorchRL's environments, collector, LSTM module and PPO loss: `drive_torchrl.py TASK STEPS SEED`."""

import sys
from functools import partial

import tasks
import torch
from features import Features
from settings import of
from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl.collectors import Collector
from torchrl.envs import Compose, GymWrapper, InitTracker, ParallelEnv, TransformedEnv, VecNormV2
from torchrl.modules import LSTMModule, ProbabilisticActor, set_recurrent_mode
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE

settings = of(sys.argv[1])


class Gaussian(torch.nn.Module):
    """Mean and a standard deviation of its own for each action."""

    def __init__(self, actions):
        super().__init__()
        self.mean = torch.nn.Linear(settings.lstm, actions)
        self.log_std = torch.nn.Parameter(torch.full((actions,), settings.initial_std).log())

    def forward(self, features):
        mean = self.mean(features)
        return mean, self.log_std.exp().expand_as(mean)


def independent_normal(loc, scale):
    return torch.distributions.Independent(torch.distributions.Normal(loc, scale), 1)


def make_lstm():
    return LSTMModule(settings.hidden, settings.lstm, in_key="features", out_key="recurrent")


def make_env(task):
    return TransformedEnv(GymWrapper(tasks.make(task)), Compose(InitTracker(), make_lstm().make_tensordict_primer()))


def main():
    task, steps, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.manual_seed(seed)
    lstm = make_lstm()
    envs = ParallelEnv(settings.num_envs, partial(make_env, task), num_threads=settings.learner_threads)
    if settings.normalize:
        envs = TransformedEnv(envs, VecNormV2(in_keys=["observation"]))
    envs.set_seed(seed)
    spec = envs.observation_spec
    keys = ["vector", "image"] if "image" in set(spec.keys()) else ["observation"]
    features = Features(settings, *(spec[key] for key in keys))
    body = TensorDictSequential(TensorDictModule(features, keys, ["features"]), lstm)
    head = Gaussian(envs.action_spec.shape[-1])
    actor = ProbabilisticActor(
        TensorDictSequential(body, TensorDictModule(head, ["recurrent"], ["loc", "scale"])),
        in_keys=["loc", "scale"],
        distribution_class=independent_normal,
        return_log_prob=True,
        spec=envs.action_spec,
    )
    value = TensorDictModule(torch.nn.Linear(settings.lstm, 1), ["recurrent"], ["state_value"])
    critic = TensorDictSequential(body, value)
    with torch.no_grad():
        critic(envs.fake_tensordict()[0])
    loss = ClipPPOLoss(
        actor,
        value,
        clip_epsilon=settings.clip,
        entropy_coeff=settings.entropy_coef,
        critic_coeff=settings.value_coef,
        loss_critic_type="l2",
        normalize_advantage=True,
    )
    advantage = GAE(gamma=settings.gamma, lmbda=settings.gae_lambda, value_network=critic, shifted=True)
    optimizer = torch.optim.Adam(loss.parameters(), lr=settings.learning_rate, eps=settings.adam_eps)
    frames = settings.steps
    collector = Collector(envs, actor, frames_per_batch=frames, total_frames=steps // frames * frames)
    for batch in collector:  # (environments, steps)
        with set_recurrent_mode(True):
            with torch.no_grad():
                advantage(batch)
            for _ in range(settings.epochs):
                for part in torch.randperm(settings.num_envs).chunk(settings.mini_batches):
                    terms = loss(batch[part])
                    total = terms["loss_objective"] + terms["loss_critic"] + terms["loss_entropy"]
                    optimizer.zero_grad()
                    total.backward()
                    torch.nn.utils.clip_grad_norm_(loss.parameters(), settings.max_grad_norm)
                    optimizer.step()
        collector.update_policy_weights_()
    collector.shutdown()


if __name__ == "__main__":
    main()
