"""Trains with TorchRL's environments, collector, LSTM module and PPO loss: `drive_torchrl.py TASK STEPS SEED`."""

import sys
from functools import partial

import settings
import tasks
import torch
from features import Features
from tensordict.nn import TensorDictModule, TensorDictSequential
from torchrl.collectors import Collector
from torchrl.envs import Compose, GymWrapper, InitTracker, ParallelEnv, TransformedEnv
from torchrl.modules import LSTMModule, ProbabilisticActor, set_recurrent_mode
from torchrl.objectives import ClipPPOLoss
from torchrl.objectives.value import GAE


class Gaussian(torch.nn.Module):
    """Mean and a standard deviation of its own for each action."""

    def __init__(self, actions):
        super().__init__()
        self.mean = torch.nn.Linear(settings.LSTM, actions)
        self.log_std = torch.nn.Parameter(torch.full((actions,), settings.INITIAL_STD).log())

    def forward(self, features):
        mean = self.mean(features)
        return mean, self.log_std.exp().expand_as(mean)


def independent_normal(loc, scale):
    return torch.distributions.Independent(torch.distributions.Normal(loc, scale), 1)


def make_lstm():
    return LSTMModule(settings.HIDDEN, settings.LSTM, in_key="features", out_key="recurrent")


def make_env(task):
    return TransformedEnv(GymWrapper(tasks.make(task)), Compose(InitTracker(), make_lstm().make_tensordict_primer()))


def main():
    task, steps, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
    torch.manual_seed(seed)
    lstm = make_lstm()
    envs = ParallelEnv(settings.NUM_ENVS, partial(make_env, task), num_threads=settings.learning_threads(task))
    envs.set_seed(seed)
    spec = envs.observation_spec
    keys = ["vector", "image"] if "image" in set(spec.keys()) else ["observation"]
    features = Features(*(spec[key] for key in keys))
    body = TensorDictSequential(TensorDictModule(features, keys, ["features"]), lstm)
    head = Gaussian(envs.action_spec.shape[-1])
    actor = ProbabilisticActor(
        TensorDictSequential(body, TensorDictModule(head, ["recurrent"], ["loc", "scale"])),
        in_keys=["loc", "scale"],
        distribution_class=independent_normal,
        return_log_prob=True,
        spec=envs.action_spec,
    )
    value = TensorDictModule(torch.nn.Linear(settings.LSTM, 1), ["recurrent"], ["state_value"])
    critic = TensorDictSequential(body, value)
    with torch.no_grad():
        critic(envs.fake_tensordict()[0])
    loss = ClipPPOLoss(
        actor,
        value,
        clip_epsilon=settings.CLIP,
        entropy_coeff=settings.ENTROPY_COEF,
        critic_coeff=settings.VALUE_COEF,
        loss_critic_type="l2",
        normalize_advantage=True,
    )
    advantage = GAE(gamma=settings.GAMMA, lmbda=settings.GAE_LAMBDA, value_network=critic, shifted=True)
    optimizer = torch.optim.Adam(loss.parameters(), lr=settings.LEARNING_RATE, eps=settings.ADAM_EPS)
    frames = settings.NUM_ENVS * settings.ROLLOUT
    collector = Collector(envs, actor, frames_per_batch=frames, total_frames=steps // frames * frames)
    for batch in collector:  # (environments, steps)
        with set_recurrent_mode(True):
            with torch.no_grad():
                advantage(batch)
            for _ in range(settings.EPOCHS):
                for part in torch.randperm(settings.NUM_ENVS).chunk(settings.MINI_BATCHES):
                    terms = loss(batch[part])
                    total = terms["loss_objective"] + terms["loss_critic"] + terms["loss_entropy"]
                    optimizer.zero_grad()
                    total.backward()
                    torch.nn.utils.clip_grad_norm_(loss.parameters(), settings.MAX_GRAD_NORM)
                    optimizer.step()
        collector.update_policy_weights_()
    collector.shutdown()


if __name__ == "__main__":
    main()
