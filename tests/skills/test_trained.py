"""A trained policy in the simulator: it sees and does what its training environment let it, and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from configs.schema import load_train_config
from hab.observation_sets import CRITIC_KEYS
from pql_core.networks import Policy
from skills import make_env
from skills.trained import TrainedPolicy, WeightsError
from skills.training import fit_policy
from ver_core.policy import RecurrentPolicy


def fresh(
    folder: Path, skill: str, nav: bool = True, spread: float = 1.0, **config: Any
) -> tuple[TrainedPolicy, RecurrentPolicy]:
    """A policy with random weights, as a skill and as the network alone; with `spread` 0 it says the same always."""
    settings = [
        f"skill={skill}",
        "policy.critic_keys=[]",
        "policy.predicted_keys=[]",
        *(f"policy.{key}={value}" for key, value in config.items()),
    ]
    policy = load_train_config(settings).policy
    env = make_env(skill, obs="laser", base_movement=nav)
    torch.manual_seed(3)
    network = RecurrentPolicy(env.observation_space, env.action_space, fit_policy(policy, skill, "laser", nav))
    torch.nn.init.normal_(network.action_head.linear.weight, std=spread)
    weights = folder / "policy.safetensors"
    save_file(network.state_dict(), weights)
    return TrainedPolicy(skill, "laser", nav, policy, 3, weights), network


@pytest.mark.parametrize(
    ("skill", "nav"), [("pick", True), ("place", False), ("open_cabinet", True), ("navigate", True)]
)
def test_it_acts_as_in_its_training_environment(tmp_path: Path, skill: str, nav: bool) -> None:
    played, network = fresh(tmp_path, skill, nav)
    trained_in = make_env(skill, "train", "laser", base_movement=nav, action_repeat=3, index=5)
    used_in = make_env(skill, "train", "laser", base_movement=nav, index=5)
    observation, _ = trained_in.reset()
    used_in.reset()
    task: Any = used_in.unwrapped
    played.reset(task.sim, task.goal)
    layout = network.obs_layout
    state, previous = torch.zeros(1, network.state_size), torch.from_numpy(network.action_layout.none)[None]
    np.random.seed(8)
    noise = np.random.random_sample((40, network.noise_size))
    np.random.seed(8)
    over, decisions = False, 0
    while not over and decisions < 40:
        floats = np.zeros((1, layout.floats), np.float32)
        layout.pack(observation, floats[0], np.zeros(0, np.uint8))
        with torch.no_grad():
            row = torch.zeros(1, 0, dtype=torch.uint8)
            out = network(torch.from_numpy(floats), row, previous, state, torch.tensor([1]))
        previous, state = out.distribution.sample(torch.from_numpy(noise[decisions : decisions + 1])), out.state
        observation, _, terminated, truncated, info = trained_in.step(network.action_layout.decode(previous[0].numpy()))
        over, decisions = terminated or truncated, decisions + 1
        ended = False
        while task.sim.steps < info["num_steps"]:
            *_, ended, late, _ = used_in.step(played.act(task.sim))
            ended |= late
        np.testing.assert_array_equal(task.sim.state(), trained_in.unwrapped.sim.state())  # type: ignore[attr-defined]
        assert ended == over
    assert decisions > 1 or over


def test_it_lets_go_as_often_as_it_says(tmp_path: Path) -> None:
    """By what is likelier a policy that lets go with a chance of a fifth at each decision would hold on for ever."""
    played, _ = fresh(tmp_path, "place", False, spread=0.0, initial_bias="{grip_action: 1.386}")
    env = make_env("place", "train", "laser", base_movement=False, index=5)
    env.reset()
    task: Any = env.unwrapped
    played.reset(task.sim, task.goal)
    np.random.seed(0)
    held = [played.act(task.sim)["grip_action"][0] > 0.0 for _ in range(3 * 400)][::3]
    assert played.grip_probability == pytest.approx(0.8, abs=1e-3)
    assert abs(np.mean(held) - 0.8) < 4 * 0.02


def test_a_new_call_remembers_nothing(tmp_path: Path) -> None:
    policy, _ = fresh(tmp_path, "open_cabinet", rnn_layers=1)  # what it remembers changes its actions
    env: Any = make_env("open_cabinet", obs="laser", index=2).unwrapped
    env.reset()
    runs = []
    for _ in range(2):
        policy.reset(env.sim, env.goal)
        np.random.seed(0)
        runs.append([policy.act(env.sim)["arm_action"].copy() for _ in range(7)])
    np.testing.assert_array_equal(runs[0], runs[1])
    # Three control steps each: the simulator stands still here, so only a new decision changes the action.
    assert all(np.array_equal(a, b) == (i % 3 != 2) for i, (a, b) in enumerate(zip(runs[0], runs[0][1:], strict=False)))


@pytest.mark.parametrize("skill", ["place", "pick"])
def test_weights_of_another_policy_are_refused_in_one_line(tmp_path: Path, skill: str) -> None:
    fresh(tmp_path, "pick")
    weights = tmp_path / "policy.safetensors"
    if skill == "pick":
        weights.write_bytes(b"no weights")
    config = load_train_config([f"skill={skill}", "policy.mlp=[9]"]).policy
    with pytest.raises(WeightsError) as error:
        TrainedPolicy(skill, "laser", True, config, 3, weights)
    assert str(weights) in str(error.value) and "\n" not in str(error.value)


def test_a_policy_of_pql_acts_as_in_its_training_environment(tmp_path: Path) -> None:
    """It plays its mean, its suction on or off, and was trained with what only the critic reads."""
    config = load_train_config(["skill=pick", "train=pql_small"])
    trained_in = make_env("pick", "train", "laser", action_repeat=3, index=5, critic_keys=CRITIC_KEYS)
    used_in = make_env("pick", "train", "laser", index=5)
    network = fit_policy(config.policy, "pick", "laser", True)
    torch.manual_seed(3)
    policy = Policy(trained_in.observation_space, trained_in.action_space, network, "ddpg")
    torch.nn.init.normal_(policy.mlp[-1].weight)
    weights = tmp_path / "policy.safetensors"
    save_file(policy.state_dict(), weights)
    played = TrainedPolicy("pick", "laser", True, config.policy, 3, weights, "ddpg")
    observation, _ = trained_in.reset()
    used_in.reset()
    task: Any = used_in.unwrapped
    played.reset(task.sim, task.goal)
    over, decisions, grips = False, 0, set()
    while not over and decisions < 25:
        floats = np.zeros((1, policy.obs_layout.floats), np.float32)
        policy.obs_layout.pack(observation, floats[0], np.zeros(0, np.uint8))
        with torch.no_grad():
            numbers = policy(torch.from_numpy(floats), torch.zeros(1, 0, dtype=torch.uint8))
        action = policy.action_layout.decode(policy.scale(policy.scale.executed(numbers))[0].numpy())
        observation, _, terminated, truncated, info = trained_in.step(action)
        grips.add(float(action["grip_action"][0]))
        decisions += 1
        held, ended = task.sim.held, False
        for _ in range(3):
            mine = played.act(task.sim)
            assert {part: value.tolist() for part, value in mine.items()} == {
                part: pytest.approx(value.tolist(), abs=1e-5) for part, value in action.items()
            }
            *_, ended_by, cut, _ = used_in.step(mine)
            ended = ended_by or cut
            if ended or task.sim.held != held:
                break
        over = terminated or truncated
        assert over == ended
    assert decisions > 5 and grips <= {-1.0, 1.0}
    assert played.stop_probability is None and played.value is None
