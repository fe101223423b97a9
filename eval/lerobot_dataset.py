"""Collected episodes as a LeRobot dataset, version 3.0 of its format (huggingface.co/docs/lerobot; extra `lerobot`)."""

from __future__ import annotations

import logging
import os
import shutil
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hab import robot
from hab.actions import ARM, BASE, CONTROL_HZ, GRIP, STOP
from planner.trajectory import Trajectory

LEROBOT = "lerobot"
"""The folder of the dataset, in that of the collection."""
STATE, ACTION = "observation.state", "action"
STATE_NAMES = (*robot.ARM_JOINTS, "base_x_m", "base_y_m", "base_yaw_rad")
"""What `observation.state` holds before an action: arm joints (rad); the base's pose in the world."""
ACTION_NAMES = {
    ARM: robot.ARM_JOINTS,
    GRIP: ("suction",),
    BASE: ("forward", "turn_left"),
    STOP: ("stop",),
}
"""What `action` holds, of those parts that the environment has: hab/actions.py says what the numbers mean."""


class LeRobotMissing(RuntimeError):
    """LeRobot is not installed; the message is one line."""


def check_lerobot() -> None:
    """Raise `LeRobotMissing` where datasets cannot be written."""
    try:
        from lerobot.datasets.lerobot_dataset import LeRobotDataset  # noqa: F401
    except (ImportError, RuntimeError) as error:  # torchvision and torch that do not fit say RuntimeError
        said = " ".join(str(error).split())
        raise LeRobotMissing(
            f"--format lerobot needs LeRobot, in an environment of its own: pip install 'tpsrl[lerobot]' ({said})"
        ) from error


def write_lerobot(files: Sequence[Path], folder: Path, on_file: Callable[[], None] = lambda: None) -> tuple[str, Path]:
    """Write the trajectories of `files` as a dataset in `folder`/lerobot, in place of what is there; return its
    repository's name and its folder.

    Frame t holds the state and the observations before action t, which it holds, too, the reward, and in words what was
    to be done. Images are a video, eight bits a pixel: depth's grey times `robot.DEPTH_MAX_M` are metres, to 4 cm and
    the video's losses. Other observations are features as they are, `observation.KEY`.
    """
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    first = Trajectory.load(files[0])
    told, root = first.played.told, folder / LEROBOT
    name, part = f"tpsrl/{told.name}_{told.split}", folder / f".{LEROBOT}.part"
    shutil.rmtree(part, ignore_errors=True)
    with _quietly():
        dataset = LeRobotDataset.create(
            repo_id=name,
            fps=CONTROL_HZ,
            features=_features(first),
            root=part,
            robot_type="fetch",
            streaming_encoding=True,
        )
        try:
            for path in files:
                for frame in _frames(Trajectory.load(path)):
                    dataset.add_frame(frame)
                dataset.save_episode()
                on_file()
        finally:
            dataset.finalize()
    shutil.rmtree(root, ignore_errors=True)
    part.replace(root)
    return name, root


def _features(trajectory: Trajectory) -> dict[str, dict[str, Any]]:
    played = trajectory.played
    actions = [name for part in _parts(trajectory) for name in ACTION_NAMES[part]]
    told: dict[str, dict[str, Any]] = {
        STATE: {"dtype": "float32", "shape": (len(STATE_NAMES),), "names": list(STATE_NAMES)},
        ACTION: {"dtype": "float32", "shape": (len(actions),), "names": actions},
        "next.reward": {"dtype": "float32", "shape": (1,), "names": None},
        "next.done": {"dtype": "bool", "shape": (1,), "names": None},
        "next.interactions": {"dtype": "int64", "shape": (1,), "names": None},
    }
    assert sum(played.actions[part].shape[1] for part in _parts(trajectory)) == len(actions)
    for key, values in trajectory.observations.items():
        shape = values.shape[1:]
        if len(shape) == 3:
            told[_key(key)] = {
                "dtype": "video",
                "shape": (3, *shape[:2]),
                "names": ["channels", "height", "width"],
            }
        else:
            told[_key(key)] = {"dtype": "float32", "shape": shape, "names": None}
    return told


def _key(key: str) -> str:
    return f"observation.images.{key}" if key == "head_depth" else f"observation.{key}"


def _parts(trajectory: Trajectory) -> list[str]:
    return [part for part in ACTION_NAMES if part in trajectory.played.actions]


def _frames(trajectory: Trajectory) -> Iterator[dict[str, Any]]:
    played = trajectory.played
    robot_before = np.concatenate((trajectory.start[None], played.robot[:-1]))
    state = np.column_stack((robot_before[:, 3:], robot_before[:, :3])).astype(np.float32)
    action = np.concatenate([played.actions[part] for part in _parts(trajectory)], axis=1)
    for t in range(len(played)):
        frame: dict[str, Any] = {
            STATE: state[t],
            ACTION: action[t],
            "next.reward": np.array([trajectory.rewards[t]], np.float32),
            "next.done": np.array([trajectory.terminated[t] or trajectory.truncated[t]]),
            "next.interactions": np.array([played.interactions[t]], np.int64),
            "task": played.told.tasks[played.task[t]],
        }
        for key, values in trajectory.observations.items():
            frame[_key(key)] = grey(values[t]) if values.ndim == 4 else values[t]
        yield frame


def grey(depth: NDArray[np.float32]) -> NDArray[np.uint8]:
    """(height, width, 1) in [0, 1] -> (3, height, width) in 0 … 255."""
    return np.repeat(np.round(depth * 255.0).astype(np.uint8).transpose(2, 0, 1), 3, axis=0)


@contextmanager
def _quietly() -> Iterator[None]:
    """Keep the remarks of LeRobot, its tables and its encoder off the terminal."""
    import av
    import datasets

    os.environ.setdefault("SVT_LOG", "1")  # the encoder's: errors alone
    av.logging.set_level(av.logging.ERROR)
    datasets.disable_progress_bars()
    before = logging.root.manager.disable
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="Converting input from bool")
            yield
    finally:
        logging.disable(before)
        datasets.enable_progress_bars()
