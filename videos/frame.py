"""One frame of a video: the robot from outside, its head depth image, and a strip of text."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

STRIP_HEIGHT = 64
"""Pixels of the text strip under the pictures."""
DEPTH_SHOWN = 0.5
"""Normalised depth drawn as white (5 m): rooms are small, and all nearer shades are worth having."""
_PAPER, _INK, _FAINT, _DONE = (24, 26, 30), (236, 238, 240), (120, 126, 134), (90, 200, 120)


def compose(
    rgb: NDArray[np.uint8], depth: NDArray[np.float32], caption: str, ticks: Sequence[tuple[str, bool]]
) -> NDArray[np.uint8]:
    """Return the frame: `rgb` beside `depth` (in [0, 1]), `caption` and a box per interaction below."""
    height, width = rgb.shape[:2]
    frame = Image.new("RGB", (width + height, height + STRIP_HEIGHT), _PAPER)
    frame.paste(Image.fromarray(rgb), (0, 0))
    grey = (np.clip(depth[:, :, 0] / DEPTH_SHOWN, 0.0, 1.0) * 255).astype(np.uint8)
    frame.paste(Image.fromarray(grey).resize((height, height), Image.Resampling.NEAREST), (width, 0))

    draw = ImageDraw.Draw(frame)
    draw.text((width + 8, 6), "head depth, 0 - 5 m", _FAINT, ImageFont.load_default(14))
    draw.text((10, height + 6), caption, _INK, ImageFont.load_default(18))
    x = 10
    small = ImageFont.load_default(14)
    for name, done in ticks:
        draw.rectangle((x, height + 39, x + 13, height + 52), _DONE if done else None, _DONE if done else _FAINT)
        if done:
            draw.line([(x + 3, height + 46), (x + 6, height + 49), (x + 11, height + 42)], _PAPER, 2)
        draw.text((x + 19, height + 37), name, _INK if done else _FAINT, small)
        x += 32 + int(small.getlength(name))
    return np.asarray(frame)
