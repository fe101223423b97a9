"""A training beside a teacher: it says what its network makes of its own sensors and of what the learner has done."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from configs.schema import load_train_config
from hab.actions import ARM
from skills import make_env
from skills.taught import TEACHER, Taught, Teacher
from skills.training import fit_policy
from ver_core.policy import RecurrentPolicy


@pytest.mark.parametrize("nav", [True, False])
def test_it_says_what_the_teachers_network_makes_of_the_whole_episode(tmp_path: Path, nav: bool) -> None:
    settings = ["skill=pick", "policy.critic_keys=[]", "policy.predicted_keys=[]", "policy.rnn_size=16"]
    described = load_train_config(settings).policy
    seen_by_teacher = make_env("pick", "train", "laser", base_movement=nav, action_repeat=3, index=5)
    torch.manual_seed(4)
    network = RecurrentPolicy(
        seen_by_teacher.observation_space,
        seen_by_teacher.action_space,
        fit_policy(described, "pick", "laser", nav),
    )
    torch.nn.init.normal_(network.action_head.linear.weight)
    save_file(network.state_dict(), tmp_path / "policy.safetensors")
    teacher = Teacher("laser", described, tmp_path / "policy.safetensors")
    # With another set of observations, without images here.
    bare: Any = make_env("pick", "train", "laser", base_movement=nav, action_repeat=3, index=5)
    env = Taught(bare, teacher)
    env.action_space.seed(1)
    size = network.action_layout.size
    for _ in range(2):  # a second episode remembers nothing of the first
        observations = [seen_by_teacher.reset()[0]]
        given = [env.reset()[0]]
        actions: list[Any] = []
        for _ in range(12):
            actions.append({part: 0.3 * value for part, value in env.action_space.sample().items()})
            observations.append(seen_by_teacher.step(actions[-1])[0])
            given.append(env.step(actions[-1])[0])
        layout, n = network.obs_layout, len(observations)
        floats = np.zeros((n, layout.floats), np.float32)
        for row, observation in zip(floats, observations, strict=True):
            layout.pack(observation, row, np.zeros(0, np.uint8))
        before = np.stack([network.action_layout.none, *(np.concatenate([*a.values()]) for a in actions)])
        with torch.no_grad():  # all at once, as one sequence
            out = network(
                torch.from_numpy(floats), torch.zeros(n, 0, dtype=torch.uint8), torch.from_numpy(before),
                torch.zeros(1, network.state_size), torch.ones(n, dtype=torch.int64),
            )  # fmt: skip
        said = np.stack([observation[TEACHER] for observation in given])
        assert env.observation_space.contains(given[0]) and said.shape == (n, 2 * size)
        np.testing.assert_allclose(said, out.distribution.opinion().numpy(), atol=1e-4)
        motions = [part for part in network.action_layout.parts if part.name == ARM]
        assert np.abs(np.diff(said[:, motions[0].start : motions[0].start + motions[0].size], axis=0)).max() > 1e-2
