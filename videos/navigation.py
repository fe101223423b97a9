"""Films of navigation: what the robot sees beside the top-down map."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from hab import robot
from hab.navigation.env import NavigationEnv
from videos.render import OnFrame, Style, open_film

HEIGHT = 480
HELD_S = 1.5
"""The last picture stands for so long."""


def film_navigation(
    env: NavigationEnv, index: int, act: Callable[[Any], int], fps: int, out: Path, on_frame: OnFrame, seed: int
) -> dict[str, Any]:
    """Play one episode and write its film; return its info at the end. `env` renders "rgb_array"; `seed`: of noise."""
    observation, info = env.reset(seed=seed, options={"index": index})
    frames, over = 0, False
    with open_film(Style(HEIGHT, fps, 0), out) as video:
        picture = _picture(env)
        while True:
            video.append_data(picture)
            frames += 1
            on_frame(frames, 0)
            if over:
                break
            observation, _, terminated, truncated, info = env.step(act(observation))
            over, picture = terminated or truncated, _picture(env)
        for _ in range(round(HELD_S * fps)):
            video.append_data(picture)
    return info


def _picture(env: NavigationEnv) -> NDArray[np.uint8]:
    """Return (480, width, 3): the camera's colours above its depth, and the map."""
    camera = env.apartment.camera
    depth = np.repeat((255 * camera.depth(env.pose)).astype(np.uint8), 3, axis=2)
    side = HEIGHT // 2
    views = [_resized(view, side, side) for view in (camera.rgb(env.pose), depth)]
    drawn = env.render()
    assert drawn is not None
    scale = HEIGHT / drawn.shape[0]
    width = max(16, round(drawn.shape[1] * scale / 16) * 16)
    return np.concatenate((np.concatenate(views), _resized(drawn, width, HEIGHT)), axis=1)


def _resized(image: NDArray[np.uint8], width: int, height: int) -> NDArray[np.uint8]:
    big = image.shape[0] == robot.DEPTH_SIZE
    return np.asarray(
        Image.fromarray(image).resize((width, height), Image.Resampling.NEAREST if big else Image.Resampling.BILINEAR)
    )
