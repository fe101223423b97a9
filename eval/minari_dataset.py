"""Collected episodes as a Minari dataset (minari.farama.org; the extra `minari`)."""

from __future__ import annotations

import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from planner.trajectory import Told, Trajectory, environment

if TYPE_CHECKING:
    from minari.data_collector import EpisodeBuffer

MINARI = "minari"
"""The folder of the datasets, in that of the collection: Minari's root, as `MINARI_DATASETS_PATH` names it."""


class MinariMissing(RuntimeError):
    """Minari is not installed; the message is one line."""


def check_minari() -> None:
    """Raise `MinariMissing` where datasets cannot be written."""
    try:
        import h5py  # noqa: F401
        import minari  # noqa: F401
    except ImportError as error:
        raise MinariMissing("--format minari needs Minari: pip install 'tpsrl[minari]'") from error


def dataset_id(told: Told) -> str:
    """Return Minari's name of an agent's episodes: "tpsrl/tidy_house/oracle-val-v0"."""
    agent = "".join(c if c.isalnum() or c in "-_" else "_" for c in Path(told.agent).name)
    return f"tpsrl/{told.name}/{agent}-{told.split}-v0"


def write_minari(files: Sequence[Path], observe: str, folder: Path, on_file: Callable[[], None] = lambda: None) -> str:
    """Write the trajectories of `files`, of one task, agent and split, as a dataset under `folder`/minari, in place of
    the one that is there; return its id.

    An episode's `options` are those of the reset that begins it. Its `infos`, one row longer than its actions as
    Minari's are, hold what the environment does not show (`_infos`), and its metadata what was to be done, in words.
    """
    import minari

    told = Trajectory.load(files[0]).played.told
    name, root = dataset_id(told), folder / MINARI
    shutil.rmtree(root / name, ignore_errors=True)
    root.mkdir(parents=True, exist_ok=True)
    env = environment(told.name, told.split, observe, told.base_movement)
    try:
        with _root(root), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*(author|code_permalink|description|requirements|eval_env).*")
            dataset = minari.create_dataset_from_buffers(
                name,
                _buffers(files, on_file),
                env=env,
                algorithm_name=told.agent,
                author="tpsrl",
                description=f"{told.name} played by {told.agent}; `import tpsrl` before recovering the environment",
                requirements=["tpsrl"],
                jpeg_encoding=False,
            )
            dataset.storage.update_episode_metadata([_metadata(Trajectory.load(path).played.told) for path in files])
    finally:
        env.close()
    return name


def _buffers(files: Sequence[Path], on_file: Callable[[], None]) -> Iterator[EpisodeBuffer]:
    for number, path in enumerate(files):
        yield _buffer(number, Trajectory.load(path))
        on_file()


def _buffer(number: int, trajectory: Trajectory) -> EpisodeBuffer:
    from minari.data_collector import EpisodeBuffer

    return EpisodeBuffer(
        id=number,
        seed=0,
        options={"index": trajectory.played.told.index},
        observations=trajectory.observations,
        actions=trajectory.played.actions,
        rewards=trajectory.rewards,
        terminations=trajectory.terminated,
        truncations=trajectory.truncated,
        infos=_infos(trajectory),
    )


def _infos(trajectory: Trajectory) -> dict[str, Any]:
    """Return (T + 1, …) arrays: the first row, of before any action, repeats the second."""
    played = trajectory.played
    told: dict[str, NDArray[Any]] = {
        "task": played.task,
        "interactions": played.interactions,
        "base": played.robot[:, :3],
    }
    return {key: np.concatenate((rows[:1], rows)) for key, rows in told.items()}


def _metadata(told: Told) -> dict[str, Any]:
    """`index` is what `env.reset(options={"index": …})` takes; `tasks` are what `infos["task"]` numbers."""
    return {
        "index": told.index,
        "success": told.success,
        "reason": told.reason,
        "tasks": "\n".join(told.tasks),
    }


@contextmanager
def _root(folder: Path) -> Iterator[None]:
    """Let Minari, which asks the environment, keep its datasets in a folder."""
    key = "MINARI_DATASETS_PATH"
    before = os.environ.get(key)
    os.environ[key] = str(folder.resolve())
    try:
        yield
    finally:
        if before is None:
            del os.environ[key]
        else:
            os.environ[key] = before
