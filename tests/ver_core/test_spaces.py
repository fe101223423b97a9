"""Observations and actions as flat rows: there and back, against what the spaces themselves say."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst
from numpy.typing import NDArray

from ver_core.spaces import PLAIN, ActionLayout, ObsLayout, UnsupportedSpace

NAMES = st.text("abcxyz_.0", min_size=1, max_size=4)
SHAPES = npst.array_shapes(min_dims=0, max_dims=3, max_side=4)


@st.composite
def observation_boxes(draw: st.DrawFn) -> spaces.Box:
    shape = draw(SHAPES)
    if draw(st.booleans()):
        return spaces.Box(0, 255, shape, np.uint8)
    return spaces.Box(-math.inf, math.inf, shape, draw(st.sampled_from([np.float32, np.float64])))


@st.composite
def action_parts(draw: st.DrawFn) -> spaces.Space[Any]:
    kind = draw(st.sampled_from(["box", "discrete", "multi_discrete", "multi_binary"]))
    starts = st.integers(-5, 5)
    if kind == "box":
        shape = draw(npst.array_shapes(max_dims=2, max_side=3))
        low = draw(npst.arrays(np.float32, shape, elements=st.floats(-10, 0, width=32)))
        return spaces.Box(low, low + draw(st.sampled_from([0.5, 4.0, math.inf])), dtype=np.float32)
    if kind == "discrete":
        return spaces.Discrete(draw(st.integers(1, 6)), start=draw(starts))
    if kind == "multi_discrete":
        choices = draw(st.lists(st.integers(1, 5), min_size=1, max_size=4))
        return spaces.MultiDiscrete(choices, start=draw(st.lists(starts, min_size=len(choices), max_size=len(choices))))
    return spaces.MultiBinary(draw(st.integers(1, 4)))


def a_dict_or_plain(entries: st.SearchStrategy[Any]) -> st.SearchStrategy[spaces.Space[Any]]:
    return entries | st.dictionaries(NAMES, entries, min_size=1, max_size=4).map(spaces.Dict)


def samples(space: spaces.Space[Any], count: int, seed: int) -> list[Any]:
    space.seed(seed)
    return [space.sample() for _ in range(count)]


@settings(deadline=None)
@given(a_dict_or_plain(observation_boxes()), st.integers(1, 3), st.integers(0, 99), st.booleans())
def test_observations_there_and_back(space: spaces.Space[Any], count: int, seed: int, tensors: bool) -> None:
    layout = ObsLayout(space)
    # Dirty memory: every element has to be written.
    floats: Any = np.full((count, layout.floats), np.nan, np.float32)
    bytes_: Any = np.full((count, layout.bytes), 77, np.uint8)
    observations = samples(space, count, seed)
    for observation, row, byte_row in zip(observations, floats, bytes_, strict=True):
        layout.pack(observation, row, byte_row)
    assert np.isfinite(floats).all()
    if tensors:
        floats, bytes_ = torch.from_numpy(floats), torch.from_numpy(bytes_)
    parts = layout.split(floats, bytes_)
    entries = dict(space.spaces) if isinstance(space, spaces.Dict) else {PLAIN: space}
    assert list(parts) == list(entries)
    for name, entry in entries.items():
        assert isinstance(entry, spaces.Box)
        given_ = [observation[name] if isinstance(space, spaces.Dict) else observation for observation in observations]
        kind = np.uint8 if entry.dtype == np.uint8 else np.float32
        expected = np.stack(given_).astype(kind)
        found = np.asarray(parts[name])
        assert found.dtype == kind and found.shape == (count, *entry.shape)
        np.testing.assert_array_equal(found, expected)
        if found.size:
            assert np.shares_memory(found, np.asarray(bytes_ if kind == np.uint8 else floats))


@settings(deadline=None)
@given(st.dictionaries(NAMES, observation_boxes(), min_size=1, max_size=4).map(spaces.Dict))
def test_a_bad_number_is_traced_to_its_key(space: spaces.Dict) -> None:
    layout = ObsLayout(space)
    at = 0
    for name, entry in space.spaces.items():
        if entry.dtype != np.uint8:
            for index in range(at, at := at + math.prod(entry.shape)):
                assert layout.name_at(index) == name
    assert layout.floats == at


@pytest.mark.parametrize(
    "space",
    [
        spaces.Discrete(3),
        spaces.Dict({"ok": spaces.Box(0, 1, (2,)), "word": spaces.Text(4)}),
        spaces.Dict({"nested": spaces.Dict({"a": spaces.Box(0, 1, (2,))})}),
    ],
)
def test_other_observations_are_refused(space: spaces.Space[Any]) -> None:
    with pytest.raises(UnsupportedSpace) as caught:
        ObsLayout(space)
    assert "\n" not in str(caught.value) and "Box" in str(caught.value)


def flat_of(space: spaces.Space[Any], action: Any) -> NDArray[np.float32]:
    """Write an action as a flat row: entry after entry, choices counted from 0."""
    if isinstance(space, spaces.Dict):
        return np.concatenate([flat_of(entry, action[name]) for name, entry in space.spaces.items()])
    first = space.start if isinstance(space, spaces.Discrete | spaces.MultiDiscrete) else 0
    return (np.asarray(action) - first).astype(np.float32).reshape(-1)


def assert_same_action(found: Any, expected: Any) -> None:
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        for name in expected:
            assert_same_action(found[name], expected[name])
    else:
        np.testing.assert_array_equal(found, expected)


@settings(deadline=None)
@given(a_dict_or_plain(action_parts()), st.integers(0, 99))
def test_every_action_of_the_space_can_be_said(space: spaces.Space[Any], seed: int) -> None:
    layout = ActionLayout(space)
    for action in samples(space, 3, seed):
        flat = flat_of(space, action)
        assert flat.shape == (layout.size,)
        assert_same_action(layout.decode(flat), action)
        np.testing.assert_array_equal(layout.encode(action), flat)


@settings(deadline=None)
@given(a_dict_or_plain(action_parts()), st.data())
def test_whatever_the_policy_says_is_an_action_of_the_space(space: spaces.Space[Any], data: st.DataObject) -> None:
    """Real numbers beyond the bounds are clipped; choices are whole numbers from 0 to below their count."""
    layout = ActionLayout(space)
    flat = np.zeros(layout.size, np.float32)
    stop = 0
    for part in layout.parts:
        assert part.start == stop
        stop += part.size
        for i in range(part.size):
            value = st.integers(0, part.choices[i] - 1) if part.choices else st.floats(-50, 50, width=32)
            flat[part.start + i] = data.draw(value)
    assert stop == layout.size
    given_ = flat.copy()
    action = layout.decode(flat)
    assert space.contains(action), action
    np.testing.assert_array_equal(flat, given_)  # what is stored, and learnt from, is what the policy said
    inside = np.array([
        value if part.choices else min(max(value, part.low[i]), part.high[i])
        for part in layout.parts
        for i, value in enumerate(flat[part.start : part.start + part.size].tolist())
    ])  # fmt: skip
    np.testing.assert_array_equal(flat_of(space, action), inside.astype(np.float32))


def test_no_action_is_zeros_and_no_choice() -> None:
    space = spaces.Dict(
        {
            "arm": spaces.Box(-1.0, 1.0, (2,)),
            "gear": spaces.Discrete(3),
            "legs": spaces.MultiDiscrete([2, 2]),
            "lights": spaces.MultiBinary(1),
        }
    )
    np.testing.assert_array_equal(ActionLayout(space).none, [0.0, 0.0, -1.0, -1.0, -1.0, -1.0])


@pytest.mark.parametrize(
    ("space", "name"),
    [
        (spaces.Text(4), "the action space"),
        (spaces.MultiDiscrete(np.array([[2, 3], [4, 5]])), "the action space"),
        (spaces.MultiBinary([2, 3]), "the action space"),
        (spaces.Dict({"arm": spaces.Box(-1, 1, (2,)), "say": spaces.Text(4)}), "'say'"),
    ],
)
def test_other_actions_are_refused(space: spaces.Space[Any], name: str) -> None:
    with pytest.raises(UnsupportedSpace, match=name) as caught:
        ActionLayout(space)
    assert "\n" not in str(caught.value)
