"""The action distribution against torch.distributions and scipy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from torch import Tensor
from torch import distributions as oracle

from ver_core.config import ConfigError, PolicyConfig
from ver_core.distributions import ActionDistribution, ActionHead
from ver_core.spaces import ActionLayout

FEATURES = 6


def box(size: int, low: float = -1.0, high: float = 1.0) -> spaces.Box:
    return spaces.Box(low, high, (size,))


MIXED = spaces.Dict(
    {
        "ankles": spaces.MultiDiscrete([3, 1, 4]),
        "arm": box(2),
        "grip": box(2, -0.5, 2.0),
        "lamps": spaces.MultiBinary(2),
        "stop": spaces.Discrete(2, start=5),
        "wheels": box(1, -np.inf, np.inf),
    }
)
"""In the flat action as in this (alphabetical) list, so that columns of the same kind do not lie together."""


def make_head(space: spaces.Space[Any], spread: float = 1.0, **config: Any) -> ActionHead:
    """A head whose weights are large enough that the distributions differ from row to row."""
    torch.manual_seed(3)
    head = ActionHead(FEATURES, ActionLayout(space), PolicyConfig(**config))
    torch.nn.init.normal_(head.linear.weight, std=spread)
    return head


def columns(head: ActionHead, features: Tensor, config: PolicyConfig, layout: ActionLayout) -> list[Any]:
    """One torch distribution for each column of the flat action, from the head's linear layer alone.

    The layer's outputs are documented by this order: Gaussians, Bernoullis, Categoricals, each in the parts' order; a
    Gaussian's is its mean in units of its first deviation.
    """
    outputs = list(head.linear(features).T)
    log_stds = list(head.log_std) if hasattr(head, "log_std") else []
    found: dict[int, Any] = {}
    for kind in ("gaussian", "bernoulli", "categorical"):
        for part in layout.parts:
            chosen = config.heads.get(part.name, "gaussian") if part.kind == "box" else "categorical"
            for i in range(part.size) if chosen == kind else ():
                if kind == "gaussian":
                    first_std = config.initial_part_std.get(part.name, config.initial_std)
                    found[part.start + i] = oracle.Normal(first_std * outputs.pop(0), log_stds.pop(0).exp())
                elif kind == "bernoulli":
                    found[part.start + i] = oracle.Bernoulli(logits=outputs.pop(0))
                else:
                    logits = torch.stack([outputs.pop(0) for _ in range(part.choices[i])], dim=1)
                    found[part.start + i] = oracle.Categorical(logits=logits)
    assert not outputs and not log_stds
    return [found[i] for i in range(layout.size)]


CASES = [
    (box(3), {"initial_std": 0.3}),
    (box(3), {"heads": {"": "bernoulli"}}),
    (spaces.Discrete(5), {}),
    (spaces.MultiDiscrete([4, 4]), {}),
    (spaces.MultiDiscrete([2, 7, 3]), {}),
    (spaces.MultiBinary(3), {}),
    (
        MIXED,
        {"heads": {"grip": "bernoulli", "arm": "gaussian"}, "initial_std": 1.7, "initial_part_std": {"wheels": 0.05}},
    ),
]


@pytest.mark.parametrize(("space", "config"), CASES)
def test_agrees_with_torch_distributions(space: spaces.Space[Any], config: dict[str, Any]) -> None:
    head, layout = make_head(space, **config), ActionLayout(space)
    features = torch.randn(50, FEATURES)
    distribution = head(features)
    expected = columns(head, features, PolicyConfig(**config), layout)
    actions = distribution.sample(torch.rand(50, head.noise_size))
    assert actions.shape == (50, layout.size) and actions.dtype == torch.float32

    # Bernoulli columns hold bounds: as 0 or 1 for torch.
    raw = actions.clone()
    mode = distribution.mode().clone()
    for part in layout.parts:
        if config.get("heads", {}).get(part.name) == "bernoulli":
            span = slice(part.start, part.start + part.size)
            low, high = torch.tensor(part.low), torch.tensor(part.high)
            assert ((raw[:, span] == low) | (raw[:, span] == high)).all()
            raw[:, span] = (raw[:, span] == high).float()
            mode[:, span] = (mode[:, span] == high).float()

    log_prob = torch.stack([d.log_prob(raw[:, i]) for i, d in enumerate(expected)]).sum(0)
    torch.testing.assert_close(distribution.log_prob(actions), log_prob, rtol=1e-5, atol=1e-5)
    entropy = torch.stack([d.entropy() for d in expected]).sum(0)
    torch.testing.assert_close(distribution.entropy(), entropy, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(mode, torch.stack([d.mode.float() for d in expected], dim=1))


@pytest.mark.parametrize(("space", "config"), CASES)
def test_gradients_agree_with_torch_distributions(space: spaces.Space[Any], config: dict[str, Any]) -> None:
    head, layout = make_head(space, **config), ActionLayout(space)
    features = torch.randn(20, FEATURES)
    distribution = head(features)
    actions = distribution.sample(torch.rand(20, head.noise_size)).detach()
    parameters = list(head.parameters())
    ours = torch.autograd.grad((distribution.log_prob(actions) + 0.1 * distribution.entropy()).mean(), parameters)

    expected = columns(head, features, PolicyConfig(**config), layout)
    raw = actions.clone()
    for part in layout.parts:
        if config.get("heads", {}).get(part.name) == "bernoulli":
            span = slice(part.start, part.start + part.size)
            raw[:, span] = (raw[:, span] == torch.tensor(part.high)).float()
    terms = [d.log_prob(raw[:, i]) + 0.1 * d.entropy() for i, d in enumerate(expected)]
    theirs = torch.autograd.grad(torch.stack(terms).sum(0).mean(), parameters)
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-5)


def test_the_divergence_from_an_opinion_is_kullback_and_leiblers() -> None:
    space = spaces.Dict({"arm": box(2), "grip": box(2, -0.5, 2.0), "wheels": box(1)})
    config = {"heads": {"grip": "bernoulli"}, "initial_std": 0.4, "initial_part_std": {"wheels": 0.05}}
    layout, features = ActionLayout(space), torch.randn(50, FEATURES)
    teacher, head = (make_head(space, spread, **config) for spread in (1.0, 0.3))
    with torch.no_grad():
        head.log_std += torch.tensor([0.3, -0.2, 0.1])
    opinion = teacher(features).opinion()
    assert opinion.shape == (50, 2 * layout.size)
    theirs, mine = (columns(each, features, PolicyConfig(**config), layout) for each in (teacher, head))
    expected = torch.stack([oracle.kl_divergence(p, q) for p, q in zip(theirs, mine, strict=True)]).sum(0)
    found = head(features).divergence(opinion)
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(
        torch.autograd.grad(found.sum(), list(head.parameters())),
        torch.autograd.grad(expected.sum(), list(head.parameters())),
        rtol=1e-4,
        atol=1e-4,
    )
    torch.testing.assert_close(teacher(features).divergence(opinion), torch.zeros(50), rtol=0.0, atol=1e-5)
    certain = opinion.clone()
    certain[:, 2:4] = torch.tensor([0.0, 1.0])  # as far as float32 tells: no logarithm of 0
    assert head(features).divergence(certain).isfinite().all()


def test_samples_have_the_right_frequencies() -> None:
    """Fixed seed; each test's false alarm has probability 1e-4."""
    config: dict[str, Any] = {"heads": {"grip": "bernoulli"}, "initial_std": 1.7}
    head, layout = make_head(MIXED, spread=0.3, **config), ActionLayout(MIXED)
    features = torch.randn(1, FEATURES).expand(20_000, FEATURES)
    with torch.no_grad():
        noise = torch.rand(20_000, head.noise_size, generator=torch.Generator().manual_seed(1))
        actions = head(features).sample(noise).numpy()
        expected = columns(head, features[:1], PolicyConfig(**config), layout)
    tested = 0
    for part in layout.parts:
        for i in range(part.start, part.start + part.size):
            column, d = actions[:, i], expected[i]
            if isinstance(d, oracle.Normal):
                p_value = stats.kstest(column, stats.norm(d.loc.item(), d.scale.item()).cdf).pvalue
            elif isinstance(d, oracle.Bernoulli):
                wins = int((column == part.high[i - part.start]).sum())
                p_value = stats.binomtest(wins, len(column), d.probs.item()).pvalue
            else:
                counts = np.bincount(column.astype(int), minlength=d.probs.shape[1])
                p = d.probs[0].double().numpy()
                assert len(counts) == len(p)
                p_value = stats.chisquare(counts, p / p.sum() * len(column)).pvalue if len(p) > 1 else 1.0
            assert p_value > 1e-4, (part.name, i)
            tested += 1
    assert tested == 11
    # Entries are independent of each other.
    correlation = np.corrcoef(np.delete(actions, 1, axis=1), rowvar=False)  # column 1 is a choice of one
    assert np.abs(correlation - np.eye(10)).max() < 0.04


@pytest.mark.parametrize(("space", "config"), CASES)
def test_a_rows_sample_depends_on_its_own_noise_only(space: spaces.Space[Any], config: dict[str, Any]) -> None:
    head = make_head(space, **config)
    features, noise = torch.randn(9, FEATURES), torch.rand(9, head.noise_size)
    with torch.no_grad():
        together = head(features).sample(noise)
        alone = torch.cat([head(features[i : i + 1]).sample(noise[i : i + 1]) for i in range(9)])
        order = torch.tensor([4, 8, 0])
        some = head(features[order]).sample(noise[order])
    torch.testing.assert_close(together, alone, rtol=0, atol=1e-5)
    torch.testing.assert_close(together[order], some, rtol=0, atol=1e-5)


@settings(max_examples=60, deadline=None)
@given(
    edge=st.sampled_from([0.0, 2.0**-25, 2.0**-24, 0.5, 1.0 - 2.0**-24, 1.0 - 2.0**-25, 1.0]),
    dtype=st.sampled_from([torch.float32, torch.float64]),
    spread=st.sampled_from([0.0, 1.0, 100.0]),
    seed=st.integers(0, 2**16),
)
def test_extreme_noise_gives_actions_that_exist(edge: float, dtype: torch.dtype, spread: float, seed: int) -> None:
    """1 - 2^-25 as a float32 is 1."""
    head, layout = make_head(MIXED, spread, heads={"grip": "bernoulli"}), ActionLayout(MIXED)
    features = torch.randn(16, FEATURES, generator=torch.Generator().manual_seed(seed))
    distribution = head(features)
    actions = distribution.sample(torch.full((16, head.noise_size), edge, dtype=dtype))
    assert torch.isfinite(actions).all() and actions.dtype == torch.float32
    for part in layout.parts:
        for i, choices in enumerate(part.choices):
            assert set(actions[:, part.start + i].tolist()) <= set(range(choices))
    assert torch.isfinite(distribution.log_prob(actions)).all()
    assert torch.isfinite(distribution.entropy()).all()


def test_inverse_cdf_rises_with_the_noise() -> None:
    """Gaussian quantiles as scipy's; choices in their order, each as wide as its probability."""
    head = make_head(box(1), initial_std=2.0)
    u = torch.linspace(1e-6, 1 - 1e-6, 2001)[:, None]
    features = torch.randn(1, FEATURES).expand(2001, FEATURES)
    with torch.no_grad():
        distribution = head(features)
        expected = stats.norm(distribution.mode()[0].item(), 2.0).ppf(u.double().numpy())
        np.testing.assert_allclose(distribution.sample(u).numpy(), expected, rtol=1e-4, atol=1e-4)

        head = make_head(spaces.Discrete(4))
        p = torch.softmax(head.linear(features[0]).double(), dim=0).numpy()
        choice = head(features).sample(u).numpy()[:, 0]
    bounds = np.cumsum(p)
    clear = np.abs(u.numpy() - bounds).min(axis=1) > 1e-5
    np.testing.assert_array_equal(choice[clear], np.searchsorted(bounds, u.numpy()[clear, 0]))


def test_initial_bias_std_and_gain() -> None:
    config = PolicyConfig(heads={"grip": "bernoulli"}, initial_bias={"grip": -2.0, "arm": 0.25}, initial_std=0.5)
    layout = ActionLayout(MIXED)
    head = ActionHead(FEATURES, layout, config)
    distribution = head(torch.zeros(1, FEATURES))
    mode = dict(zip([part.name for part in layout.parts], mode_by_part(distribution, layout), strict=True))
    assert mode["arm"] == [0.25, 0.25] and mode["wheels"] == [0.0] and mode["grip"] == [-0.5, -0.5]
    each = ActionHead(FEATURES, layout, replace(config, initial_bias={"arm": [0.25, -0.5]}))
    apart = mode_by_part(each(torch.zeros(1, FEATURES)), layout)
    assert apart[[part.name for part in layout.parts].index("arm")] == [0.25, -0.5]
    u = torch.linspace(0.0005, 0.9995, 1000)[:, None].expand(1000, head.noise_size)
    grip = next(part for part in layout.parts if part.name == "grip")
    high = head(torch.zeros(1000, FEATURES)).sample(u)[:, grip.start] == 2.0
    assert high.float().mean().item() == pytest.approx(1 / (1 + np.e**2), abs=2e-3)
    torch.testing.assert_close(head.log_std.exp(), torch.full((3,), 0.5))
    # Rows of an orthogonal matrix (more outputs than features: its columns) of gain 0.01.
    gram = head.linear.weight.T @ head.linear.weight
    torch.testing.assert_close(gram, 1e-4 * torch.eye(FEATURES), rtol=0, atol=1e-8)


def test_the_initial_bias_of_a_choice_is_its_logits() -> None:
    head = ActionHead(FEATURES, ActionLayout(spaces.Discrete(3)), PolicyConfig(initial_bias={"": [-2.0, 0.0, 1.0]}))
    log_prob = head(torch.zeros(3, FEATURES)).log_prob(torch.tensor([[0.0], [1.0], [2.0]]))
    torch.testing.assert_close(log_prob, torch.tensor([-2.0, 0.0, 1.0]).log_softmax(0))


def mode_by_part(distribution: ActionDistribution, layout: ActionLayout) -> list[list[float]]:
    flat = distribution.mode()[0]
    return [flat[part.start : part.start + part.size].tolist() for part in layout.parts]


@pytest.mark.parametrize(
    ("space", "config", "message"),
    [
        (MIXED, {"heads": {"grap": "bernoulli"}}, "policy.heads.grap: no such action part; choose from ankles, arm, "),
        (MIXED, {"initial_bias": {"grap": 1.0}}, "policy.initial_bias.grap: no such action part"),
        (MIXED, {"heads": {"grip": "beta"}}, "policy.heads.grip=beta: choose from gaussian, bernoulli"),
        (MIXED, {"heads": {"wheels": "bernoulli"}}, "policy.heads.wheels=bernoulli: .* finite"),
        (MIXED, {"heads": {"stop": "bernoulli"}}, "policy.heads.stop: only for a part that is a Box"),
        (MIXED, {"initial_bias": {"ankles": 1.0}}, "policy.initial_bias.ankles: .* multi_discrete"),
        (MIXED, {"initial_bias": {"arm": [1.0]}}, r"policy.initial_bias.arm=\[1.0\]: give a number, or a list of 2"),
        (MIXED, {"initial_bias": {"arm": "up"}}, "policy.initial_bias.arm=up: give a number"),
        (box(2), {"heads": {"grip": "bernoulli"}}, "policy.heads.grip: no such action part; choose from ''"),
        (box(2), {"initial_std": 0.0}, "policy.initial_std=0.0: must be positive"),
    ],
)
def test_senseless_settings_are_refused(space: spaces.Space[Any], config: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message) as error:
        ActionHead(FEATURES, ActionLayout(space), PolicyConfig(**config))
    assert "\n" not in str(error.value)
