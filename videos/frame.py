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
_PAPER, _INK, _FAINT, _DONE = (24, 26, 30), (236, 238, 240), (150, 156, 164), (90, 200, 120)


def compose(
    rgb: NDArray[np.uint8], depth: NDArray[np.float32], caption: str, ticks: Sequence[tuple[str, bool]]
) -> NDArray[np.uint8]:
    """Return the frame: `rgb` beside `depth` (in [0, 1]), `caption` and a box per interaction below."""
    height, width = rgb.shape[:2]
    frame = Image.new("RGB", (width + height, height + STRIP_HEIGHT), _PAPER)
    frame.paste(Image.fromarray(rgb), (0, 0))
    grey = Image.fromarray(depth_shades(depth))
    frame.paste(grey.resize((height, height), Image.Resampling.NEAREST), (width, 0))

    draw = ImageDraw.Draw(frame)
    label = "head depth, 0 to 5 m"
    small = ImageFont.load_default(14)
    draw.rectangle((width, 0, width + 16 + int(small.getlength(label)), 25), _PAPER)
    draw.text((width + 8, 4), label, _INK, small)
    draw.text((10, height + 6), caption, _INK, _fitting(caption, 18, width + height - 20))
    widths = [int(small.getlength(name)) for name, _ in ticks]
    named = sum(widths) + 32 * len(ticks) <= width + height  # a small frame shows the boxes only
    x = 10
    for (name, done), wide in zip(ticks, widths, strict=True):
        draw.rectangle((x, height + 39, x + 13, height + 52), _DONE if done else None, _DONE if done else _FAINT)
        if done:
            draw.line([(x + 3, height + 46), (x + 6, height + 49), (x + 11, height + 42)], _PAPER, 2)
        if named:
            draw.text((x + 19, height + 37), name, _INK if done else _FAINT, small)
        x += 32 + wide if named else 22
    return np.asarray(frame)


def depth_shades(depth: NDArray[np.float32]) -> NDArray[np.uint8]:
    """(height, width, 1) in [0, 1] -> (height, width) grey, which grows with the square root of depth: what the arm
    handles is within a metre."""
    return (np.sqrt(np.clip(depth[:, :, 0] / DEPTH_SHOWN, 0.0, 1.0)) * 255).astype(np.uint8)


def _fitting(text: str, size: int, width: int) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return the default font of that size, or smaller where the text would be wider than `width` pixels."""
    font = ImageFont.load_default(size)
    return ImageFont.load_default(size * min(1.0, width / font.getlength(text)))
