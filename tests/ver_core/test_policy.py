"""The policy's network: packed sequences against single steps, encoders, inputs and the settings it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from ver_core.config import ConfigError, PolicyConfig
from ver_core.encoders import PaperResNet, ScanEncoder, small_cnn, visual_encoder
from ver_core.policy import RecurrentPolicy

VECTOR = spaces.Box(-1.0, 1.0, (5,))
ARM = spaces.Box(-1.0, 1.0, (3,))
ACTION = spaces.Dict({"arm": ARM, "stop": spaces.Discrete(3), "gear": spaces.MultiDiscrete([2, 4])})
"""Flat, as the Dict sorts its keys: arm (3), gear (2), stop (1)."""
SENSES = spaces.Dict(
    {
        "camera": spaces.Box(0, 255, (40, 36, 3), np.uint8),
        "depth": spaces.Box(0.0, 1.0, (36, 44, 1)),
        "joints": spaces.Box(-1.0, 1.0, (4,)),
        "lidar": spaces.Box(0.0, 5.0, (32,)),
        "pose": spaces.Box(-1.0, 1.0, (2, 3)),
    }
)
SMALL = {"rnn_size": 8, "visual_size": 12, "scan_size": 6}


def make_policy(observation: spaces.Space[Any], action: spaces.Space[Any], **config: Any) -> RecurrentPolicy:
    torch.manual_seed(0)
    policy = RecurrentPolicy(observation, action, PolicyConfig(**{**SMALL, **config}))
    # The heads' initial gain of 0.01 would hide differences from the tests.
    nn.init.normal_(policy.action_head.linear.weight)
    return policy


def random_rows(policy: RecurrentPolicy, n: int) -> tuple[Tensor, Tensor, Tensor]:
    floats = torch.rand(n, policy.obs_layout.floats)
    bytes_ = torch.randint(0, 256, (n, policy.obs_layout.bytes), dtype=torch.uint8)
    noise = torch.rand(n, policy.noise_size)
    choices = [n for part in policy.action_layout.parts for n in (part.choices or (0,) * part.size)]
    # Choices as whole numbers, real entries in [0, 1).
    action = torch.stack([torch.floor(u * c) if c else u for u, c in zip(noise.T, choices, strict=True)], dim=1)
    return floats, bytes_, action


def see(policy: RecurrentPolicy, *args: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return value, state and all that the distribution is made of: log-probabilities of fixed actions."""
    with torch.no_grad():
        out = policy(*args)
        n = args[0].shape[0]
        actions = torch.full((n, policy.action_layout.size), 1.0)
        return out.value, out.state, out.distribution.log_prob(actions)


def packed_order(lengths: list[int]) -> tuple[Tensor, list[tuple[int, int]]]:
    """batch_sizes of sequences by decreasing length, and (sequence, step) of each packed row."""
    rows = [(s, t) for t in range(max(lengths)) for s in range(len(lengths)) if lengths[s] > t]
    return torch.tensor([sum(length > t for length in lengths) for t in range(max(lengths))]), rows


@settings(max_examples=15, deadline=None)
@given(
    lengths=st.lists(st.integers(1, 7), min_size=1, max_size=6).map(lambda x: sorted(x, reverse=True)),
    layers=st.integers(0, 3),
    mlp=st.sampled_from([[], [7], [7, 9]]),
)
def test_packed_sequences_equal_single_steps(lengths: list[int], layers: int, mlp: list[int]) -> None:
    policy = make_policy(VECTOR, ACTION, rnn_layers=layers, mlp=mlp)
    batch_sizes, order = packed_order(lengths)
    rows = random_rows(policy, len(order))
    before = torch.randn(len(lengths), policy.state_size)
    value, _, log_prob = see(policy, *rows, before, batch_sizes)
    assert value.shape == log_prob.shape == (len(order),)

    states = list(before[:, None])
    for s in range(len(lengths)):
        for t in range(lengths[s]):
            i = order.index((s, t))
            one_value, states[s], one_log_prob = see(
                policy, *(r[i : i + 1] for r in rows), states[s], torch.tensor([1])
            )
            torch.testing.assert_close(value[i : i + 1], one_value, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(log_prob[i : i + 1], one_log_prob, rtol=1e-5, atol=1e-5)


def test_one_step_is_what_the_lstm_says() -> None:
    """The shortcut for a single step against nn.LSTM itself, on the state as documented: (h or c, layer, unit)."""
    policy = make_policy(VECTOR, ARM, rnn_layers=2, previous_action=False)
    rows, state = random_rows(policy, 6), torch.randn(6, policy.state_size)
    assert policy.state_size == 32 and policy.lstm is not None
    value, after, _ = see(policy, *rows, state, torch.tensor([6]))
    h = torch.stack([state[:, 0:8], state[:, 8:16]])
    c = torch.stack([state[:, 16:24], state[:, 24:32]])
    with torch.no_grad():
        expected, (h, c) = policy.lstm(rows[0][None], (h, c))
        expected_value = policy.value_head(expected[0]).squeeze(1)
    torch.testing.assert_close(value, expected_value, rtol=0, atol=1e-6)
    torch.testing.assert_close(after, torch.cat([h[0], h[1], c[0], c[1]], dim=1), rtol=0, atol=1e-6)


def test_sequences_do_not_influence_each_other() -> None:
    policy = make_policy(VECTOR, ACTION, rnn_layers=2)
    lengths = [4, 3, 3, 1]
    batch_sizes, order = packed_order(lengths)
    rows, state = random_rows(policy, len(order)), torch.randn(4, policy.state_size)
    value, _, log_prob = see(policy, *rows, state, batch_sizes)
    first, single = [column[:4] for column in rows], torch.tensor([4])
    _, after, _ = see(policy, *first, state, single)
    for changed in range(4):
        other = state.clone()
        other[changed] += 1.0
        value_2, _, log_prob_2 = see(policy, *rows, other, batch_sizes)
        _, after_2, _ = see(policy, *first, other, single)
        own = torch.tensor([s == changed for s, _ in order])
        assert (value[own] != value_2[own]).all() and (log_prob[own] != log_prob_2[own]).all()
        torch.testing.assert_close(value[~own], value_2[~own], rtol=0, atol=0)
        torch.testing.assert_close(log_prob[~own], log_prob_2[~own], rtol=0, atol=0)
        same = torch.arange(4) != changed
        torch.testing.assert_close(after[same], after_2[same], rtol=0, atol=0)
        assert (after[changed] != after_2[changed]).any()


def test_feed_forward_has_no_state() -> None:
    policy = make_policy(VECTOR, spaces.Discrete(4), rnn_layers=0, mlp=[16], previous_action=False)
    assert policy.state_size == 0 and policy.noise_size == 1
    rows = random_rows(policy, 5)
    value, state, _ = see(policy, *rows, torch.zeros(3, 0), torch.tensor([3, 2]))
    assert state.shape == (3, 0)
    hidden = policy.mlp[0]
    assert isinstance(hidden, nn.Linear)
    expected = torch.tanh(rows[0] @ hidden.weight.T + hidden.bias) @ policy.value_head.weight.T
    torch.testing.assert_close(value, (expected + policy.value_head.bias)[:, 0])


@pytest.mark.parametrize("visual", ["slim", "small", "paper"])
def test_gradient_reaches_every_parameter(visual: str) -> None:
    config = {"visual": visual, "scan_keys": ["lidar"], "mlp": [10], "heads": {"arm": "gaussian"}}
    policy = make_policy(SENSES, ACTION, **config)
    rows = random_rows(policy, 5)
    out = policy(*rows, torch.randn(3, policy.state_size), torch.tensor([3, 2]))
    (out.value.sum() + out.distribution.log_prob(rows[2]).sum()).backward()
    for name, parameter in policy.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


@pytest.mark.parametrize("key", list(SENSES.spaces))
@pytest.mark.parametrize("visual", ["slim", "small", "paper"])
def test_every_observation_matters(key: str, visual: str) -> None:
    policy = make_policy(SENSES, ARM, visual=visual, scan_keys=["lidar"])
    floats, bytes_, action = random_rows(policy, 2)
    state = torch.zeros(2, policy.state_size)
    value, _, _ = see(policy, floats, bytes_, action, state, torch.tensor([2]))
    entry = next(entry for entry in policy.obs_layout.keys if entry.name == key)
    rows = bytes_ if entry.byte else floats
    rows[0, entry.start : entry.stop] = 0
    changed, _, _ = see(policy, floats, bytes_, action, state, torch.tensor([2]))
    assert changed[0] != value[0] and torch.isclose(changed[1], value[1], rtol=0, atol=1e-6)


@pytest.mark.parametrize("visual", ["slim", "small", "paper"])
def test_byte_images_are_float_images_times_255(visual: str) -> None:
    as_bytes = make_policy(spaces.Box(0, 255, (40, 48, 3), np.uint8), ARM, visual=visual)
    as_floats = make_policy(spaces.Box(0.0, 1.0, (40, 48, 3)), ARM, visual=visual)
    as_floats.load_state_dict(as_bytes.state_dict())
    assert (as_bytes.obs_layout.bytes, as_bytes.obs_layout.floats) == (40 * 48 * 3, 0)
    _, bytes_, action = random_rows(as_bytes, 3)
    rest = (action, torch.zeros(3, as_bytes.state_size), torch.tensor([3]))
    from_bytes = see(as_bytes, torch.zeros(3, 0), bytes_, *rest)
    from_floats = see(as_floats, bytes_ / 255.0, torch.zeros(3, 0, dtype=torch.uint8), *rest)
    for a, b in zip(from_bytes, from_floats, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_images_are_read_channels_last() -> None:
    """The small encoder's first convolution, written out for one place of the image (row, column)."""
    encoder = small_cnn(3, 44, 40, 7)
    images = torch.rand(2, 44, 40, 3)
    first = encoder[1]
    assert isinstance(first, nn.Conv2d) and first.bias is not None
    patch = images[1, 4:12, 8:16]
    expected = torch.einsum("ocij,ijc->o", first.weight, patch) + first.bias
    torch.testing.assert_close(first(encoder[0](images))[1, :, 1, 2], expected, rtol=1e-4, atol=1e-5)
    assert encoder(images).shape == (2, 7)


def test_slim_has_the_small_encoders_shape_with_fewer_channels() -> None:
    channels = [
        [
            layer.out_channels
            for layer in visual_encoder(kind, "image", (64, 64, 1), 9).modules()
            if isinstance(layer, nn.Conv2d)
        ]
        for kind in ("slim", "small")
    ]
    assert channels == [[16, 32, 32], [32, 64, 32]]


@pytest.mark.parametrize(
    ("build", "least"), [(lambda h, w: small_cnn(1, h, w, 5), 36), (lambda h, w: PaperResNet(1, h, w, 5), 32)]
)
def test_image_sizes(build: Any, least: int) -> None:
    for height, width in ((least, least), (least, 67), (71, least + 1)):
        assert build(height, width)(torch.rand(2, height, width, 1)).shape == (2, 5)


def test_paper_resnet() -> None:
    network = PaperResNet(1, 128, 128, 512)
    images = torch.rand(2, 128, 128, 1)
    shapes = []
    for layer in network:
        layer.register_forward_hook(lambda _layer, _in, out: shapes.append(tuple(out.shape[1:])))
    features = network(images)
    assert features.shape == (2, 512) and (features >= 0).all() and features.std() > 0
    # Stages at 1/4, 1/8, 1/16 and 1/32 of the image, as in ResNet18, with half of its 64 to 512 channels.
    assert [s for s in dict.fromkeys(shapes) if len(s) == 3 and s[0] >= 32] == [
        (32, 32, 32), (64, 16, 16), (128, 8, 8), (256, 4, 4), (128, 4, 4),
    ]  # fmt: skip
    convolutions = [m for m in network.modules() if isinstance(m, nn.Conv2d)]
    assert sum(m.kernel_size == (3, 3) for m in convolutions) == 4 * 2 * 2 + 1
    assert sum(m.dilation == (2, 2) for m in convolutions) == 8
    assert not any(isinstance(m, nn.BatchNorm2d) for m in network.modules())
    # A row's features are its own: GroupNorm, not BatchNorm.
    torch.testing.assert_close(network(images[:1]), features[:1], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rays", [9, 32, 64, 101])
def test_scans_of_any_length(rays: int) -> None:
    assert ScanEncoder(rays, 6)(torch.rand(4, rays)).shape == (4, 6)


def test_previous_choices_are_one_hot() -> None:
    """Two policies of the same seed differ only in the input: the second is given the one-hot vector to observe."""
    policy = make_policy(VECTOR, ACTION, rnn_layers=1)
    wide = make_policy(spaces.Box(-1.0, 1.0, (5 + 3 + 2 + 4 + 3,)), ACTION, rnn_layers=1, previous_action=False)
    wide.load_state_dict(policy.state_dict())
    floats, bytes_, action = random_rows(policy, 40)
    one_hot = [torch.eye(n)[action[:, i].long()] for i, n in ((3, 2), (4, 4), (5, 3))]
    rest = (torch.randn(40, policy.state_size), torch.tensor([40]))
    ours = see(policy, floats, bytes_, action, *rest)
    theirs = see(wide, torch.cat([floats, action[:, :3], *one_hot], dim=1), bytes_, action, *rest)
    for a, b in zip(ours, theirs, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)


def test_previous_action_can_be_left_out() -> None:
    policy = make_policy(VECTOR, ACTION, previous_action=False)
    floats, bytes_, action = random_rows(policy, 3)
    rest = (torch.zeros(3, policy.state_size), torch.tensor([3]))
    a, b = see(policy, floats, bytes_, action, *rest), see(policy, floats, bytes_, action * 0.0 + 1.0, *rest)
    assert all(torch.equal(x, y) for x, y in zip(a, b, strict=True))


def test_recurrent_weights_are_orthogonal() -> None:
    policy = make_policy(VECTOR, ARM, rnn_layers=2)
    assert policy.lstm is not None
    for layer in range(2):
        weight = getattr(policy.lstm, f"weight_hh_l{layer}")
        torch.testing.assert_close(weight.T @ weight, torch.eye(8), rtol=0, atol=1e-5)


@pytest.mark.parametrize("inputs", [2, 64, 500])
def test_units_start_as_wide_awake_whatever_the_number_of_inputs(inputs: int) -> None:
    policy = make_policy(spaces.Box(-9.0, 9.0, (inputs,)), ARM, mlp=[64], previous_action=False)
    with torch.no_grad():
        sums = policy.mlp[0](torch.randn(4000, inputs, generator=torch.Generator().manual_seed(1)))
    assert float(sums.square().mean().sqrt()) == pytest.approx(2.0**0.5, rel=0.05)


@pytest.mark.parametrize(
    ("observation", "config", "message"),
    [
        (SENSES, {"visual": "vit"}, "policy.visual=vit: choose from slim, small, paper"),
        (VECTOR, {"visual": "vit"}, "policy.visual=vit: choose from slim, small, paper"),
        (SENSES, {"scan_keys": ["radar"]}, "policy.scan_keys: no observation radar; choose from camera, depth, "),
        (SENSES, {"scan_keys": ["pose"]}, r"policy.scan_keys: pose is \(2, 3\); a scan is 1-D"),
        (SENSES, {"scan_keys": ["joints"]}, "policy.scan_keys: joints .* 9 rays"),
        (spaces.Box(0.0, 1.0, (35, 64, 1)), {}, "policy.visual=small: needs 36x36 pixels; obs has 35x64"),
        (spaces.Box(0.0, 1.0, (64, 31, 1)), {"visual": "paper"}, "policy.visual=paper: needs 32x32"),
        (VECTOR, {"heads": {"leg": "gaussian"}}, "policy.heads.leg: no such action part"),
    ],
)
def test_senseless_settings_are_refused(observation: spaces.Space[Any], config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        make_policy(observation, ARM, **config)
    assert "\n" not in str(error.value)
