"""A policy that takes over the weights of one that acts with more parts says what that one said of the parts it has."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from gymnasium import spaces

from ver_core.config import PolicyConfig
from ver_core.policy import RecurrentPolicy

ARM, GRIP, BASE, MODE = (
    spaces.Box(-1.0, 1.0, (3,), np.float32),
    spaces.Box(-1.0, 1.0, (1,), np.float32),
    spaces.Box(-1.0, 1.0, (2,), np.float32),
    spaces.Discrete(3),
)
SEEN = spaces.Dict({"goal": spaces.Box(-1.0, 1.0, (3,), np.float32), "holding": spaces.Box(0.0, 1.0, (1,), np.float32)})


@pytest.mark.parametrize("gating_keys", [[], ["holding"]])
@pytest.mark.parametrize("rnn_layers", [0, 1])
def test_what_it_says_of_the_parts_it_has_is_the_same(gating_keys: list[str], rnn_layers: int) -> None:
    config = PolicyConfig(
        mlp=[] if rnn_layers else [16], rnn_layers=rnn_layers, rnn_size=8, gating_keys=gating_keys,
        previous_action=True,
        heads={"grip": "bernoulli"}, initial_std=0.3, critic_mlp=[8], normalize_vectors=True, tanh_keys=["goal"],
    )  # fmt: skip
    more = spaces.Dict({"arm": ARM, "mode": MODE, "base": BASE, "grip": GRIP})
    theirs = RecurrentPolicy(SEEN, more, config)
    mine = RecurrentPolicy(SEEN, spaces.Dict({"arm": ARM, "grip": GRIP}), config)
    with torch.no_grad():
        for parameter in theirs.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    mine.load_of_more_parts(theirs.state_dict(), more)

    rows = 5
    parts = {part.name: slice(part.start, part.start + part.size) for part in theirs.action_layout.parts}
    floats = torch.rand(rows, theirs.obs_layout.floats)
    bytes_ = torch.zeros(rows, theirs.obs_layout.bytes, dtype=torch.uint8)
    before = torch.rand(rows, theirs.action_layout.size)
    before[:, parts["mode"]] = 3.0  # no choice at all: what it reads of the mode is nothing
    before[:, parts["base"]] = 0.0
    state = torch.rand(rows, theirs.state_size)
    has = torch.cat([torch.arange(theirs.action_layout.size)[parts[name]] for name in ("arm", "grip")])
    said, told = (
        policy(floats, bytes_, previous, state, torch.tensor([rows]))
        for policy, previous in ((theirs, before), (mine, before[:, has]))
    )
    torch.testing.assert_close(said.distribution.mode()[:, has], told.distribution.mode())
    torch.testing.assert_close(said.distribution.chances()[:, has], told.distribution.chances(), equal_nan=True)
    torch.testing.assert_close(said.value, told.value)
    torch.testing.assert_close(said.state, told.state)
    noise = torch.rand(rows, theirs.noise_size)
    torch.testing.assert_close(said.distribution.sample(noise)[:, has], told.distribution.sample(noise[:, has]))
