"""The top-down map of an episode: floor, obstacles, what was seen, the shortest way, the way made, goal and robot."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from hab import robot

if TYPE_CHECKING:
    from hab.navigation.env import NavigationEnv

SCALE = 3
"""Pixels a cell; a multiple of 16 of them in all, as codecs want."""
FLOOR, OBSTACLE, SEEN, FOUND = (235, 235, 232), (120, 124, 130), (255, 255, 255), (204, 232, 204)
SHORTEST, PATH, GOAL, START, ROBOT = (60, 160, 75), (40, 90, 200), (205, 45, 45), (40, 90, 200), (235, 140, 30)


class TopDownMap:
    """Gathers what an episode's map shows."""

    def __init__(self, env: NavigationEnv) -> None:
        self._apartment = apartment = env.apartment
        rows, columns = apartment.free.shape
        self._size = columns * SCALE, rows * SCALE
        self._seen = Image.new("1", self._size)
        self._path: list[tuple[float, float]] = []
        self._shortest = [self._pixel(*point) for point in env.shortest_path()] if env.episode.geodesic_m else []

    def note(self, env: NavigationEnv) -> None:
        """Take note of where the robot is and of what lies within its sensors' view."""
        x, y, yaw = env.pose.tolist()
        self._path.append(self._pixel(x, y))
        ranges = self._apartment.shapes.laser(env.pose) * robot.LASER_MAX_M
        yaws = robot.LASER_YAWS_RAD
        if env.obs != "laser":
            ahead = np.abs(yaws) <= math.radians(robot.HEAD_CAMERA_FOV_DEG) / 2
            ranges, yaws = ranges[ahead], yaws[ahead]
        at = robot.LASER_POS[0]
        eye = x + at * math.cos(yaw), y + at * math.sin(yaw)
        fan = [
            self._pixel(eye[0] + r * math.cos(yaw + a), eye[1] + r * math.sin(yaw + a))
            for r, a in zip(ranges, yaws, strict=True)
        ]
        ImageDraw.Draw(self._seen).polygon([self._pixel(*eye), *fan], fill=1)

    def draw(self, env: NavigationEnv) -> NDArray[np.uint8]:
        """Return (height, width, 3); both multiples of 16."""
        free = self._apartment.free
        colours = np.where(free[:, :, None], np.array(FLOOR, np.uint8), np.array(OBSTACLE, np.uint8))
        if env.episode.category:
            colours[self._apartment.found(env.episode.category)] = FOUND
        colours = np.kron(colours[::-1], np.ones((SCALE, SCALE, 1), np.uint8))
        lit = np.asarray(self._seen) & (colours == FLOOR).all(axis=2)
        colours[lit] = SEEN
        image = Image.fromarray(colours)
        pen = ImageDraw.Draw(image)
        if env.episode.category:
            self._outline(pen, env)
        if len(self._shortest) > 1:
            pen.line(self._shortest, fill=SHORTEST, width=SCALE)
        if len(self._path) > 1:
            pen.line(self._path, fill=PATH, width=SCALE)
        _dot(pen, self._path[0], 2 * SCALE, START)
        if env.episode.goal is not None:
            _dot(pen, self._pixel(*env.episode.goal), 3 * SCALE, GOAL)
        x, y, yaw = env.pose.tolist()
        size = 0.3
        corners = [(size, 0.0), (-0.7 * size, 0.6 * size), (-0.7 * size, -0.6 * size)]
        cos, sin = math.cos(yaw), math.sin(yaw)
        pen.polygon([self._pixel(x + cos * a - sin * b, y + sin * a + cos * b) for a, b in corners], fill=ROBOT)
        width, height = (-(-side // 16) * 16 for side in image.size)
        page = Image.new("RGB", (width, height), OBSTACLE)
        page.paste(image)
        return np.asarray(page)

    def _outline(self, pen: ImageDraw.ImageDraw, env: NavigationEnv) -> None:
        """Draw what ObjectNav looks for."""
        for row, column in np.argwhere(self._apartment.footprint(env.episode.category)).tolist():
            left, top = column * SCALE, self._size[1] - (row + 1) * SCALE
            pen.rectangle((left, top, left + SCALE - 1, top + SCALE - 1), fill=GOAL)

    def _pixel(self, x: float, y: float) -> tuple[float, float]:
        left, low, size = self._apartment.frame.tolist()
        return (x - left) / size * SCALE, self._size[1] - (y - low) / size * SCALE


def _dot(pen: ImageDraw.ImageDraw, at: tuple[float, float], radius: float, colour: tuple[int, int, int]) -> None:
    pen.ellipse((at[0] - radius, at[1] - radius, at[0] + radius, at[1] + radius), fill=colour)
