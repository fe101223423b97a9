"""Checkpoints that are either whole or not there: a crash, a full disk or a kill never harms the one before."""

from __future__ import annotations

import io
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch

FORMAT = 1
"""Raised whenever an older program could no longer make sense of a new checkpoint, or the other way round."""


class CheckpointError(RuntimeError):
    """A checkpoint that cannot be written or read; the message is one line that says how to mend it."""


def save(path: Path, state: Mapping[str, Any]) -> None:
    """Write a tree of tensors, arrays and plain python values (see `plain`) to `path`, all or nothing.

    Raises `CheckpointError` if the system refuses (full disk, no permission); an older file at `path` stays as it is.
    """
    # Serialised in memory first: torch reports a full disk as a bare RuntimeError, we want the system's own reason.
    buffer = io.BytesIO()
    torch.save({"format": FORMAT, "state": plain(state)}, buffer)
    try:
        write_atomically(path, buffer.getbuffer())
    except OSError as error:
        raise CheckpointError(f"{path}: cannot save the checkpoint: {error.strerror or error}") from error


def load(path: Path) -> dict[str, Any]:
    """Read what `save` wrote, every tensor on the CPU; arrays come back as tensors, numpy scalars as python ones.

    Raises `CheckpointError` for a missing, truncated or foreign file. Nothing in the file is executed.
    """
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise CheckpointError(f"{path}: no such checkpoint; give one that exists, or start a new run") from None
    except OSError as error:
        raise CheckpointError(f"{path}: cannot read the checkpoint: {error.strerror or error}") from error
    try:
        content = torch.load(io.BytesIO(data), map_location="cpu", weights_only=True)
    except Exception as error:  # torch and pickle raise whatever the bytes happen to provoke
        raise CheckpointError(
            f"{path}: truncated, or not a checkpoint; restore a good copy of it, or start a new run"
        ) from error
    if not isinstance(content, dict) or "format" not in content or not isinstance(content.get("state"), dict):
        raise CheckpointError(f"{path}: written by another program; give a checkpoint of ver_core, or start a new run")
    if content["format"] != FORMAT:
        raise CheckpointError(
            f"{path}: has format {content['format']}, this version reads format {FORMAT}; use the version of the code "
            "that wrote it (run.json beside it names the git revision)"
        )
    state: dict[str, Any] = content["state"]
    return state


def plain(tree: Any, where: str = "state") -> Any:
    """Return a nested tree anew in the few types that `load` accepts; its tensors share memory where they can.

    Arrays become tensors, numpy scalars python numbers, mappings dicts. `where` names the tree in the `TypeError` that
    anything else raises (a module, an enum, ...): such a thing would save well and then refuse to load.
    """
    if isinstance(tree, torch.Tensor):
        # detach: of a parameter only its value is kept. clone: a view would be saved with all it is a view of.
        return tree.detach().clone() if tree.untyped_storage().nbytes() > tree.nbytes else tree.detach()
    if isinstance(tree, np.ndarray):
        try:
            return torch.from_numpy(np.array(tree, dtype=tree.dtype.newbyteorder("="), order="C"))
        except TypeError as error:
            raise TypeError(f"{where}: an array of {tree.dtype} cannot be in a checkpoint") from error
    if isinstance(tree, np.generic):
        return plain(tree.item(), where)
    if isinstance(tree, Mapping):
        return {plain(key, f"{where}: key"): plain(value, f"{where}[{key!r}]") for key, value in tree.items()}
    if isinstance(tree, list | tuple):
        values = [plain(value, f"{where}[{i}]") for i, value in enumerate(tree)]
        return tuple(values) if isinstance(tree, tuple) else values
    # By exact type: a subclass (an IntEnum, say) is pickled by its class's name, which loading refuses.
    if tree is None or type(tree) in (bool, int, float, str):
        return tree
    raise TypeError(f"{where}: a {type(tree).__name__} cannot be in a checkpoint; make it tensors and plain values")


def write_atomically(path: Path, data: bytes | memoryview) -> None:
    """Replace the file at `path` by `data`, on the disk when this returns. Raises OSError, with `path` untouched."""
    # A fixed name, so that what a kill leaves behind is overwritten by the next save and does not pile up.
    temporary = path.with_name(path.name + ".tmp")
    try:
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
    # The new name itself is only safe from a power cut once the folder is on the disk too.
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
