"""Checkpoints: what comes back, and what full disks, kills and spoilt files do to them."""

from __future__ import annotations

import enum
import pickle
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from ver_core.checkpoint import FORMAT, CheckpointError, load, plain, save

DTYPES = ("float32", "float64", "int64", "int32", "int8", "uint8", "bool", ">f4")


def same(restored: Any, original: Any) -> bool:
    """Compare bit for bit, by numpy, with what the checkpoint turns each type into."""
    if isinstance(original, torch.Tensor):
        original = original.detach().numpy()
    if isinstance(original, np.ndarray):
        native = original.astype(original.dtype.newbyteorder("="))
        return bool(
            isinstance(restored, torch.Tensor)
            and restored.numpy().dtype == native.dtype
            and restored.shape == native.shape
            and restored.numpy().tobytes() == native.tobytes()
        )
    if isinstance(original, dict):
        return restored.keys() == original.keys() and all(same(restored[k], original[k]) for k in original)
    if isinstance(original, list | tuple):
        return (
            type(restored) is type(original) and all(map(same, restored, original)) and len(restored) == len(original)
        )
    return type(restored) is type(original) and restored == original


def arrays() -> st.SearchStrategy[Any]:
    shapes = hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4)
    return st.sampled_from(DTYPES).flatmap(lambda dtype: hnp.arrays(np.dtype(dtype), shapes))


LEAVES = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5)
TREES = st.recursive(
    LEAVES | arrays(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3) | st.integers(), inner, max_size=3)
        | st.tuples(inner, inner)
    ),
    max_leaves=8,
)


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(st.text(max_size=4), TREES, max_size=4))
def test_any_tree_comes_back_bit_for_bit(tmp_path_factory: pytest.TempPathFactory, tree: dict[str, Any]) -> None:
    path = tmp_path_factory.mktemp("tree") / "checkpoint.pt"
    save(path, tree)
    assert same(load(path), tree)


def test_training_goes_on_exactly_as_without_the_detour(tmp_path: Path) -> None:
    """An Adam step after a load is the step that the saved one would have made; so are numpy's next random numbers."""

    def make() -> tuple[torch.nn.Module, torch.optim.Optimizer]:
        network = torch.nn.Linear(3, 2)
        return network, torch.optim.Adam(network.parameters())

    def step(network: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        network(torch.ones(1, 3)).square().sum().backward()
        optimizer.step()

    network, optimizer = make()
    random = np.random.default_rng(3)
    step(network, optimizer)
    random.random(5)
    state = {
        "network": network.state_dict(),
        "optimizer": optimizer.state_dict(),
        "numpy": random.bit_generator.state,
        "torch": torch.get_rng_state(),
        "steps": np.int64(128),
    }
    save(tmp_path / "c.pt", state)
    step(network, optimizer)
    expected = ([p.detach().clone() for p in network.parameters()], random.random(4))

    loaded = load(tmp_path / "c.pt")
    assert loaded["steps"] == 128 and type(loaded["steps"]) is int
    network, optimizer = make()
    network.load_state_dict(loaded["network"])
    optimizer.load_state_dict(loaded["optimizer"])
    random = np.random.default_rng(0)
    random.bit_generator.state = loaded["numpy"]
    torch.set_rng_state(loaded["torch"])
    step(network, optimizer)
    assert all(map(torch.equal, network.parameters(), expected[0]))
    assert (random.random(4) == expected[1]).all()


def test_a_view_does_not_bring_along_what_it_is_a_view_of(tmp_path: Path) -> None:
    save(tmp_path / "c.pt", {"row": torch.zeros(1000, 1000)[3]})
    assert (tmp_path / "c.pt").stat().st_size < 20_000


class Colour(enum.IntEnum):
    RED = 1


@pytest.mark.parametrize(
    "thing",
    [Colour.RED, b"", {1, 2}, Path("x"), np.array(["x"]), torch.nn.ReLU(), lambda: 0],
    ids=lambda t: type(t).__name__,
)
def test_what_would_not_load_is_not_saved(tmp_path: Path, thing: Any) -> None:
    with pytest.raises(TypeError, match=r"^state\['a'\]\[1\]: .* cannot be in a checkpoint"):
        save(tmp_path / "c.pt", {"a": [0, thing]})
    assert not list(tmp_path.iterdir())


def test_plain_leaves_the_callers_tree_alone() -> None:
    tree: dict[str, Any] = {"a": np.arange(3), "b": [np.float32(0.5)]}
    copy = plain(tree)
    copy["a"][0] = 9
    copy["b"].append(1)
    assert tree["a"].tolist() == [0, 1, 2] and len(tree["b"]) == 1


# A stand-in for a full disk that is as real as can be had without one: the kernel itself refuses to let the file grow,
# part of the way through it.
FULL_DISK = """
import resource, signal, sys, torch
from pathlib import Path
from ver_core.checkpoint import CheckpointError, save
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
try:
    save(Path(sys.argv[1]), {"big": torch.ones(100_000)})
except CheckpointError as error:
    print(error)
"""


def test_a_full_disk_leaves_the_old_checkpoint_alone(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    old = {"w": torch.randn(7, 5), "steps": 5}
    save(path, old)
    before = path.read_bytes()
    done = subprocess.run([sys.executable, "-c", FULL_DISK, str(path)], capture_output=True, text=True, check=True)
    assert done.stdout == f"{path}: cannot save the checkpoint: File too large\n"
    assert path.read_bytes() == before and same(load(path), old)
    assert list(tmp_path.iterdir()) == [path]


def test_a_missing_folder_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot save the checkpoint: No such file or directory$"):
        save(tmp_path / "gone" / "checkpoint.pt", {})


SAVE_FOREVER = """
import itertools, sys, torch
from pathlib import Path
from ver_core.checkpoint import save
for n in itertools.count():
    save(Path(sys.argv[1]), {"n": n, "w": torch.full((300_000,), float(n))})
    if n == 0:
        print("saved", flush=True)
"""


def test_a_kill_at_any_moment_leaves_a_whole_checkpoint(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    for wait_s in (0.0, 0.05, 0.13):
        process = subprocess.Popen([sys.executable, "-c", SAVE_FOREVER, str(path)], stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None and process.stdout.readline() == "saved\n"
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(wait_s)
        process.kill()
        assert process.wait() == -signal.SIGKILL
        process.stdout.close()
        state = load(path)
        assert state["w"].shape == (300_000,) and (state["w"] == state["n"]).all()
    # What a kill leaves of a file half written is in nobody's way.
    save(path, {"n": -1})
    assert load(path) == {"n": -1} and list(tmp_path.iterdir()) == [path]


def test_every_truncation_is_noticed(tmp_path: Path) -> None:
    path = tmp_path / "checkpoint.pt"
    save(path, {"w": torch.ones(50), "n": 3})
    whole = path.read_bytes()
    for size in [*range(0, len(whole), 97), len(whole) - 1]:
        path.write_bytes(whole[:size])
        with pytest.raises(CheckpointError, match=r"^.*checkpoint\.pt: truncated, or not a checkpoint; [^\n]*$"):
            load(path)


class Bomb:
    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (Path(str(self.mark)),))

    def __init__(self, mark: Path) -> None:
        self.mark = mark


def test_foreign_files_are_refused_and_not_executed(tmp_path: Path) -> None:
    mark = tmp_path / "executed"
    path = tmp_path / "c.pt"

    def refused() -> str:
        with pytest.raises(CheckpointError) as caught:
            load(path)
        message = str(caught.value)
        assert message.startswith(f"{path}: ") and "\n" not in message
        return message

    path.write_bytes(b"\x00\x01 not a checkpoint")
    assert "not a checkpoint" in refused()
    path.write_bytes(pickle.dumps(Bomb(mark), protocol=2))
    assert "not a checkpoint" in refused()
    torch.save({"format": FORMAT, "state": {"x": Bomb(mark)}}, path)
    assert "not a checkpoint" in refused()
    assert not mark.exists()
    torch.save(torch.nn.Linear(2, 2).state_dict(), path)
    assert "another program" in refused()
    torch.save([1, 2], path)
    assert "another program" in refused()
    torch.save({"format": FORMAT + 1, "state": {}}, path)
    assert f"format {FORMAT + 1}" in refused()
    path.unlink()
    assert "no such checkpoint" in refused()
    path.mkdir()
    assert "cannot read" in refused()
