"""A critic of its own, which may be told more than the actor: nothing of that reaches the actor."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor, nn

from ver_core.config import ConfigError, PolicyConfig, TrainConfig
from ver_core.distributed import World
from ver_core.learner import Learner
from ver_core.policy import Output, RecurrentPolicy
from ver_core.rollout import Rollout
from ver_core.shared_rows import Layout

CPU = torch.device("cpu")
SEEN = {
    "camera": spaces.Box(0, 255, (40, 36, 3), np.uint8),
    "depth": spaces.Box(0.0, 1.0, (36, 36, 1)),
    "joints": spaces.Box(-1.0, 1.0, (4,)),
}
SECRET = spaces.Box(-1.0, 1.0, (3,))
ACTION = spaces.Dict({"arm": spaces.Box(-1.0, 1.0, (2,)), "gear": spaces.Discrete(3)})
TOLD: dict[str, Any] = {"critic_mlp": [8], "critic_keys": ["secret"]}
SMALL = {"rnn_layers": 1, "rnn_size": 6, "visual_size": 5, "normalize_vectors": True}


def make_policy(told: bool = True, critic: bool = True, **config: Any) -> RecurrentPolicy:
    torch.manual_seed(2)
    space = spaces.Dict({**SEEN, **({"secret": SECRET} if told else {})})
    policy = RecurrentPolicy(space, ACTION, PolicyConfig(**{**SMALL, **TOLD, **config}), critic=critic)
    nn.init.normal_(policy.action_head.linear.weight)
    return policy


def columns(policy: RecurrentPolicy, name: str) -> slice:
    return next(slice(key.start, key.stop) for key in policy.obs_layout.keys if key.name == name)


def rows(policy: RecurrentPolicy, n: int) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n)
    bytes_ = torch.randint(0, 256, (n, policy.obs_layout.bytes), dtype=torch.uint8, generator=generator)
    return torch.rand(n, policy.obs_layout.floats, generator=generator), bytes_


def see(policy: RecurrentPolicy, floats: Tensor, bytes_: Tensor) -> Output:
    n = len(floats)
    return policy(floats, bytes_, torch.zeros(n, 3), torch.zeros(n, policy.state_size), torch.tensor([n]))


def log_prob(out: Output) -> Tensor:
    return out.distribution.log_prob(torch.ones(len(out.value), 3))


def test_what_the_critic_is_told_changes_values_alone() -> None:
    policy = make_policy()
    floats, bytes_ = rows(policy, 7)
    policy.learn_normalization(floats, bytes_, World())
    other = floats.clone()
    other[:, columns(policy, "secret")] += 1.0
    before, after = see(policy, floats, bytes_), see(policy, other, bytes_)
    assert torch.equal(log_prob(before), log_prob(after)) and torch.equal(before.state, after.state)
    assert (before.value != after.value).all()


def test_the_critic_reads_vectors_and_no_images() -> None:
    policy = make_policy()
    floats, bytes_ = rows(policy, 7)
    floats.requires_grad_()
    out = see(policy, floats, bytes_)
    (reaches,) = torch.autograd.grad(out.value.sum(), floats)
    read = torch.zeros_like(reaches, dtype=torch.bool)
    for name in ("joints", "secret"):
        read[:, columns(policy, name)] = True
    assert torch.equal(reaches != 0.0, read)
    assert torch.equal(see(policy, floats, 255 - bytes_).value, out.value)


def test_actor_and_critic_share_nothing() -> None:
    policy = make_policy()
    out = see(policy, *rows(policy, 7))
    log_prob(out).sum().backward(retain_graph=True)
    reached = {name for name, parameter in policy.named_parameters() if parameter.grad is not None}
    assert reached and not any(name.startswith("critic.") for name in reached)
    policy.zero_grad()
    out.value.sum().backward()
    reached = {name for name, parameter in policy.named_parameters() if parameter.grad is not None}
    assert reached == {name for name, _ in policy.named_parameters() if name.startswith("critic.")}


def test_the_policy_in_use_is_built_without_it() -> None:
    """On the space that has no secret, from the weights of the actor alone."""
    trained, used = make_policy(), make_policy(told=False, critic=False)
    floats, bytes_ = rows(trained, 7)
    trained.learn_normalization(floats, bytes_, World())
    actor = {name: weights for name, weights in trained.state_dict().items() if not name.startswith("critic.")}
    used.load_state_dict(actor)
    seen = torch.cat([floats[:, columns(trained, key.name)] for key in used.obs_layout.keys if not key.byte], dim=1)
    ours, theirs = see(used, seen, bytes_), see(trained, floats, bytes_)
    assert torch.equal(log_prob(ours), log_prob(theirs)) and torch.equal(ours.state, theirs.state)
    assert ours.value.isnan().all()


def test_it_needs_statistics_of_its_own() -> None:
    policy = make_policy(normalize_vectors=False)
    assert policy.lacks_statistics
    floats, bytes_ = rows(policy, 50)
    policy.learn_normalization(floats, bytes_, World())
    assert not policy.lacks_statistics
    assert policy.critic is not None
    read = policy.critic.normalizer(policy.critic.read(floats))
    assert torch.allclose(read.mean(0), torch.zeros(7), atol=1e-4)
    assert torch.allclose(read.std(0, correction=0), torch.ones(7), atol=1e-2)


@pytest.mark.parametrize("keys", [["smell"], ["depth"], ["camera"]])
def test_what_is_no_vector_is_refused(keys: list[str]) -> None:
    with pytest.raises(ConfigError, match=f"critic_keys: no vector of floats {keys[0]}; choose from joints, secret"):
        make_policy(critic_keys=keys)


def test_keys_without_a_critic_are_refused() -> None:
    with pytest.raises(ConfigError, match="set policy.critic_mlp too"):
        PolicyConfig(critic_keys=["secret"]).check()


def a_rollout(policy: RecurrentPolicy) -> Rollout:
    layout = policy.obs_layout
    rollout = Rollout(Layout(2, layout.floats, layout.bytes, 3), 4, policy.state_size, CPU)
    taken = rollout.extend(8)
    rollout.wide["floats"][taken], rollout.wide["bytes"][taken] = rows(policy, 8)
    rollout.env[taken] = [0, 1] * 4
    rollout.start[:2] = True
    rollout.reward[taken] = np.arange(8)
    return rollout


def weights(policy: RecurrentPolicy, of_critic: bool) -> list[Tensor]:
    named = policy.named_parameters()
    return [p.detach().clone() for name, p in named if name.startswith("critic.") == of_critic]


def test_a_fresh_critic_learns_alone_at_first() -> None:
    policy = make_policy()
    config = TrainConfig(num_envs=2, rollout_length=4, epochs=1, mini_batches=1, critic_warmup=2, device="cpu")
    learner = Learner(policy, config, CPU, World())
    began, coefficient = weights(policy, of_critic=False), learner.log_entropy_coef.item()
    for update in range(3):
        critic = weights(policy, of_critic=True)
        learner.update(a_rollout(policy), 0.0)
        assert not all(map(torch.equal, critic, weights(policy, of_critic=True)))
        still = all(map(torch.equal, began, weights(policy, of_critic=False)))
        assert still == (update < 2) and (learner.log_entropy_coef.item() == coefficient) == (update < 2)


def test_no_critic_of_its_own_can_learn_alone() -> None:
    policy = RecurrentPolicy(spaces.Dict(SEEN), ACTION, PolicyConfig(**SMALL))
    with pytest.raises(ConfigError, match="set policy.critic_mlp, or leave it at 0"):
        Learner(policy, TrainConfig(critic_warmup=1), CPU, World())


def actors_step(value_coef: float) -> dict[str, Tensor]:
    policy = make_policy()
    config = TrainConfig(
        num_envs=2, rollout_length=4, epochs=1, mini_batches=1, max_grad_norm=1e-3, value_coef=value_coef, device="cpu"
    )
    rollout = a_rollout(policy)
    before = {name: parameter.detach().clone() for name, parameter in policy.named_parameters()}
    Learner(policy, config, CPU, World()).update(rollout, 0.0)
    actor = [name for name in before if not name.startswith("critic.")]
    return {name: policy.get_parameter(name).detach() - before[name] for name in actor}


def test_the_critics_gradient_does_not_clip_the_actors() -> None:
    """The actor's step is the same however much the critic's errors weigh."""
    light, heavy = actors_step(0.5), actors_step(500.0)
    assert all(torch.equal(moved, heavy[name]) for name, moved in light.items())
    assert any(moved.abs().max() > 0.0 for moved in light.values())


# -- what the actor's features learn to predict ------------------------------------------------------------------------


def test_predicting_changes_the_features_and_reads_nothing_secret() -> None:
    policy = make_policy(predicted_keys=["secret"])
    floats, bytes_ = rows(policy, 7)
    policy.learn_normalization(floats, bytes_, World())
    out = see(policy, floats, bytes_)
    assert out.predicted is not None and out.predicted.shape == (7, 3)
    other = floats.clone()
    other[:, columns(policy, "secret")] += 1.0
    assert torch.equal(out.predicted, see(policy, other, bytes_).predicted)
    out.predicted.sum().backward()
    reached = {name for name, parameter in policy.named_parameters() if parameter.grad is not None}
    assert {"lstm.weight_ih_l0", "critic.predictor.weight"} <= reached and "critic.head.weight" not in reached


def test_what_is_to_be_predicted_is_normalised() -> None:
    policy = make_policy(predicted_keys=["secret"])
    floats, bytes_ = rows(policy, 50)
    policy.learn_normalization(floats, bytes_, World())
    assert policy.critic is not None
    secret = floats[:, columns(policy, "secret")]
    expected = (secret - secret.mean(0)) / secret.std(0, correction=0)
    assert torch.allclose(policy.critic.truth(floats), expected, atol=1e-2)


def test_an_actor_learns_to_predict_what_follows_from_what_it_sees() -> None:
    """The secret is what the joints say; without the loss the features do not know it."""
    missed = {}
    for coefficient in (0.0, 1.0):
        policy = make_policy(predicted_keys=["secret"], rnn_size=16)
        config = TrainConfig(
            num_envs=2, rollout_length=32, epochs=10, mini_batches=1, learning_rate=1e-2, max_grad_norm=10.0,
            prediction_coef=coefficient, device="cpu",
        )  # fmt: skip
        layout = policy.obs_layout
        rollout = Rollout(Layout(2, layout.floats, layout.bytes, 3), 32, policy.state_size, CPU)
        taken = rollout.extend(64)
        floats, bytes_ = rows(policy, 64)
        floats[:, columns(policy, "secret")] = floats[:, columns(policy, "joints")][:, :3].square()
        rollout.wide["floats"][taken], rollout.wide["bytes"][taken] = floats, bytes_
        rollout.env[taken] = [0, 1] * 32
        rollout.start[taken] = True
        learner = Learner(policy, config, CPU, World())
        learner.observe(rollout)
        for _ in range(12):
            logged = learner.update(rollout, 0.0)
        missed[coefficient] = logged["prediction_loss"]
    assert missed[1.0] < 0.1 < 0.4 < missed[0.0]


def test_an_actor_does_as_a_teacher_would_while_the_teacher_counts() -> None:
    """The teacher's mean is what the first joint says; it counts less and less, at the end nothing."""
    space = spaces.Dict({"joints": spaces.Box(-1.0, 1.0, (4,)), "secret": spaces.Box(-1.0, 1.0, (4,))})
    missed: dict[float, list[float]] = {}
    for progress in (0.0, 1.0):
        torch.manual_seed(2)
        described = PolicyConfig(**SMALL, **TOLD, teacher_key="secret", mlp=[16])
        policy = RecurrentPolicy(space, spaces.Box(-1.0, 1.0, (2,)), described)
        config = TrainConfig(
            num_envs=2, rollout_length=32, epochs=10, mini_batches=1, learning_rate=1e-2, max_grad_norm=10.0,
            final_learning_rate=1e-2, std_learning_rate=1e-2, device="cpu", teacher_coef=1.0,
        )  # fmt: skip
        rollout = Rollout(Layout(2, policy.obs_layout.floats, 0, 2), 32, policy.state_size, CPU)
        taken = rollout.extend(64)
        floats = torch.rand(64, policy.obs_layout.floats, generator=torch.Generator().manual_seed(1))
        told = columns(policy, "secret")
        floats[:, told.start : told.start + 2] = floats[:, columns(policy, "joints")][:, :1]
        floats[:, told.start + 2 : told.stop] = 0.3
        rollout.wide["floats"][taken] = floats
        rollout.env[taken] = [0, 1] * 32
        rollout.start[taken] = True
        learner = Learner(policy, config, CPU, World())
        learner.observe(rollout)
        missed[progress] = [learner.update(rollout, progress)["teacher_divergence"] for _ in range(12)]
    assert missed[0.0][-1] < 0.05 < 0.5 * missed[0.0][0]
    assert missed[1.0][-1] > 0.5 * missed[1.0][0]


def test_a_teacher_that_does_not_fit_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"teacher_key=joints: is none of policy\.critic_keys"):
        make_policy(teacher_key="joints")
    with pytest.raises(ConfigError, match="only motions and switches"):
        make_policy(teacher_key="secret")
    space = spaces.Dict({"joints": spaces.Box(-1.0, 1.0, (4,)), "secret": SECRET})
    with pytest.raises(ConfigError, match="has 3 entries; an opinion of this action has 4"):
        RecurrentPolicy(space, spaces.Box(-1.0, 1.0, (2,)), PolicyConfig(**SMALL, **TOLD, teacher_key="secret"))


def test_what_the_critic_is_not_told_cannot_be_predicted() -> None:
    with pytest.raises(ConfigError, match=r"predicted_keys: joints is none of policy\.critic_keys"):
        make_policy(predicted_keys=["joints"])
