"""CPC|A: what it predicts from what, against a naive twin; where its gradient goes, and where it must not."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from torch import Tensor
from torch.nn import functional

from skills.trained import without_critic
from ver_core.config import ConfigError, PolicyConfig, TrainConfig
from ver_core.cpc import START_EVERY, ContrastivePrediction
from ver_core.distributed import World
from ver_core.learner import Learner
from ver_core.policy import RecurrentPolicy
from ver_core.rollout import Rollout
from ver_core.sequences import Sequences, find_sequences, pack
from ver_core.shared_rows import Layout

CPU = torch.device("cpu")
OBSERVATION = spaces.Dict({"scan": spaces.Box(0.0, 1.0, (16,)), "goal": spaces.Box(-1.0, 1.0, (2,))})
ACTION = spaces.Discrete(3)
SMALL: dict[str, Any] = {"rnn_layers": 1, "rnn_size": 8, "scan_size": 6, "scan_keys": ["scan"], "mlp": [7]}
LENGTHS = np.array([9, 1, 14, 4, 7])
STEPS = 5


def module() -> ContrastivePrediction:
    torch.manual_seed(0)
    return ContrastivePrediction(belief=6, action=3, encoded=4, steps=STEPS)


def inputs() -> tuple[Tensor, Tensor, Tensor]:
    torch.manual_seed(1)
    n = int(LENGTHS.sum())
    return (
        torch.randn(n, 6, requires_grad=True),
        torch.randn(n, 4, requires_grad=True),
        functional.one_hot(torch.randint(0, 3, (n,)), 3).float().requires_grad_(),
    )


def packed_places() -> tuple[np.ndarray, list[list[int]]]:
    """Return batch sizes, and each sequence's packed rows in time order."""
    sequences = Sequences(np.arange(LENGTHS.sum()), LENGTHS)
    packed = pack(sequences)
    place = {int(row): i for i, row in enumerate(packed.rows)}
    firsts = np.cumsum(LENGTHS) - LENGTHS
    return packed.batch_sizes, [
        [place[int(first) + step] for step in range(length)] for first, length in zip(firsts, LENGTHS, strict=True)
    ]


def test_it_is_the_mean_cross_entropy_of_each_start_and_step_ahead() -> None:
    network, (belief, encoded, action) = module(), inputs()
    batch_sizes, sequences = packed_places()
    loss = network(belief, encoded, action, batch_sizes, np.random.default_rng(3))

    rng = np.random.default_rng(3)
    starts = range(int(rng.integers(START_EVERY)), len(belief), START_EVERY)
    place = {row: (sequence, step) for sequence in sequences for step, row in enumerate(sequence)}
    states = {start: belief[start] for start in starts}
    losses = []

    def chance(state: Tensor, row: int) -> Tensor:
        hidden = torch.relu(network.of_state(state) + network.of_observation(encoded[row]))
        return torch.sigmoid(network.says(hidden))[0]

    for ahead in range(1, STEPS + 1):
        going = [s for s in starts if place[s][1] + ahead < len(place[s][0])]
        if not going:
            break
        wrong = rng.integers(len(belief), size=len(going)).tolist()
        for start, other in zip(going, wrong, strict=True):
            sequence, step = place[start]
            done = action[sequence[step + ahead - 1]]
            states[start] = network.gru(done[None], states[start][None])[0]
            losses += [-chance(states[start], sequence[step + ahead]).log(), -(1 - chance(states[start], other)).log()]
    assert len(losses) > 20
    assert float(loss.detach()) == pytest.approx(float(torch.stack(losses).mean().detach()), rel=1e-5)


def test_no_future_reaches_beyond_a_sequences_end() -> None:
    network = module()
    batch_sizes, sequences = packed_places()
    used = torch.zeros(int(LENGTHS.sum()), dtype=torch.bool)
    for seed in range(40):
        belief, encoded, action = inputs()
        network(belief, encoded, action, batch_sizes, np.random.default_rng(seed)).backward()
        assert belief.grad is not None and action.grad is not None
        for sequence in sequences:
            # From its last step nothing follows: neither is it a start, nor does its action lead anywhere.
            assert (belief.grad[sequence[-1]] == 0.0).all() and (action.grad[sequence[-1]] == 0.0).all()
        used |= (action.grad != 0.0).any(dim=1)
    inner = [row for sequence in sequences for row in sequence[:-1]]
    assert used[inner].all()


def test_an_episodes_end_is_a_sequences_end() -> None:
    """Two episodes of one environment, one after the other in a rollout: they are packed as two sequences."""
    start = np.array([True, False, False, False, True, False, False])
    packed = pack(find_sequences(np.zeros(7, np.int64), start))
    network, action = module(), functional.one_hot(torch.arange(7) % 3, 3).float().requires_grad_()
    for seed in range(8 * START_EVERY):
        belief = torch.randn(7, 6, requires_grad=True)
        network(belief, torch.randn(7, 4), action, packed.batch_sizes, np.random.default_rng(seed)).backward()
    assert action.grad is not None
    by_step = {int(row): float(action.grad[i].abs().sum()) for i, row in enumerate(packed.rows)}
    assert by_step[3] == by_step[6] == 0.0
    assert by_step[0] > 0.0 and by_step[4] > 0.0


def test_sequences_of_one_step_have_no_loss() -> None:
    network, (belief, encoded, action) = module(), inputs()
    loss = network(belief, encoded, action, np.array([len(belief)]), np.random.default_rng(0))
    loss.backward()
    assert float(loss.detach()) == 0.0


def test_it_learns_to_foresee_what_its_actions_lead_to() -> None:
    """What is seen is which action was made last."""
    rng = np.random.default_rng(0)
    batch_sizes = np.full(20, 16)
    choice = torch.from_numpy(rng.integers(0, 3, (20, 16)))
    action = functional.one_hot(choice, 3).float().reshape(-1, 3)
    seen = torch.cat((torch.zeros(1, 16, 3), functional.one_hot(choice[:-1], 3).float())).reshape(-1, 3)
    torch.manual_seed(0)
    network = ContrastivePrediction(6, 3, 3, STEPS)
    optimizer = torch.optim.Adam(network.parameters(), 1e-2)
    losses = []
    for _ in range(80):
        loss = network(torch.zeros(320, 6), seen, action, batch_sizes, rng)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[0] == pytest.approx(math.log(2), abs=0.1)
    # A third of the wrong ones are the right ones by chance: even odds a fourth of the time.
    assert np.mean(losses[-10:]) < 0.5


def make_policy(**changes: Any) -> RecurrentPolicy:
    torch.manual_seed(2)
    return RecurrentPolicy(OBSERVATION, ACTION, PolicyConfig(**{**SMALL, **changes}))


def make_rollout(policy: RecurrentPolicy) -> Rollout:
    rng, count = np.random.default_rng(0), 96
    rollout = Rollout(Layout.of(4, policy.obs_layout, policy.action_layout), count // 4, policy.state_size, CPU)
    rollout.clear()
    rollout.extend(count)
    rollout.wide["floats"].copy_(torch.from_numpy(rng.random((count, policy.obs_layout.floats), np.float32)))
    rollout.wide["action"].copy_(torch.from_numpy(rng.integers(0, 3, (count, 1)).astype(np.float32)))
    rollout.env[:] = np.tile(np.arange(4), count // 4)
    rollout.start[:] = rng.random(count) < 0.1
    rollout.log_prob[:] = -math.log(3)
    return rollout


def learner_of(policy: RecurrentPolicy, **changes: Any) -> Learner:
    config = TrainConfig(num_envs=4, rollout_length=24, epochs=1, mini_batches=1, value_coef=0.0, **changes)
    return Learner(policy, config, CPU, World())


def test_its_gradient_reaches_the_encoder_and_the_memory() -> None:
    policy = make_policy(cpc_steps=4)
    # No advantage, no value, no entropy: nothing else moves the weights.
    learner = learner_of(policy, learn_entropy_coef=False, entropy_coef=0.0)
    before = {name: tensor.clone() for name, tensor in policy.state_dict().items()}
    logged = learner.update(make_rollout(policy), 0.0)
    assert logged["cpc_loss"] == pytest.approx(math.log(2), abs=0.1)
    moved = {name for name, tensor in policy.state_dict().items() if not torch.equal(tensor, before[name])}
    for part in (
        "inputs.encoders.0.1.weight",
        "mlp.0.weight",
        "lstm.weight_hh_l0",
        "cpc.gru.weight_hh",
        "cpc.says.weight",
    ):
        assert part in moved, part
    assert not any(name.startswith(("action_head", "value_head")) for name in moved)


def test_its_weight_scales_it() -> None:
    policy = make_policy(cpc_steps=4)
    before = {name: tensor.clone() for name, tensor in policy.state_dict().items()}
    learner_of(policy, learn_entropy_coef=False, entropy_coef=0.0, cpc_coef=0.0).update(make_rollout(policy), 0.0)
    assert all(torch.equal(tensor, before[name]) for name, tensor in policy.state_dict().items())


def test_it_is_off_by_default_and_no_part_of_the_policy_in_use() -> None:
    plain, with_cpc = make_policy(), make_policy(cpc_steps=4)
    assert not any(name.startswith("cpc") for name in plain.state_dict())
    assert "cpc_loss" not in learner_of(plain).update(make_rollout(plain), 0.0)
    used = RecurrentPolicy(OBSERVATION, ACTION, PolicyConfig(**SMALL, cpc_steps=4), critic=False)
    used.load_state_dict(without_critic(with_cpc.state_dict()))
    assert used.state_dict().keys() == plain.state_dict().keys()


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"cpc_steps": -1}, "must not be negative"),
        ({"cpc_steps": 4, "rnn_layers": 0}, "set policy.rnn_layers"),
        ({"cpc_steps": 4, "scan_keys": []}, "needs an image, or policy.scan_keys"),
    ],
)
def test_what_it_cannot_work_with_is_named(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        make_policy(**changes)
