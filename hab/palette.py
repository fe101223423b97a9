"""Colours of the apartments."""

from __future__ import annotations

import numpy as np

from hab.furniture import Rgba, Style

Rgb = tuple[float, float, float]

WOODS = ((0.80, 0.64, 0.45), (0.62, 0.44, 0.29), (0.45, 0.31, 0.21), (0.87, 0.77, 0.62), (0.72, 0.55, 0.38))
FRONTS = (
    (0.92, 0.91, 0.88),
    (0.36, 0.45, 0.42),
    (0.30, 0.38, 0.48),
    (0.80, 0.74, 0.64),
    (0.70, 0.72, 0.70),
    (0.55, 0.62, 0.56),
)
COUNTERS = ((0.88, 0.87, 0.85), (0.42, 0.42, 0.44), (0.72, 0.68, 0.62))
FABRICS = (
    (0.48, 0.52, 0.57),
    (0.68, 0.63, 0.56),
    (0.28, 0.37, 0.47),
    (0.42, 0.48, 0.40),
    (0.58, 0.42, 0.36),
    (0.36, 0.36, 0.39),
)
ACCENTS = (
    (0.80, 0.56, 0.24),
    (0.66, 0.32, 0.26),
    (0.25, 0.46, 0.52),
    (0.55, 0.60, 0.45),
    (0.44, 0.36, 0.52),
    (0.78, 0.72, 0.62),
)
WALLS = ((0.93, 0.91, 0.87), (0.90, 0.90, 0.89), (0.86, 0.89, 0.88), (0.93, 0.88, 0.82))


def draw_style(rng: np.random.Generator) -> Style:
    """A palette; two accents that differ."""

    def pick(colours: tuple[Rgb, ...], jitter: float = 0.03) -> Rgba:
        r, g, b = np.clip(np.array(colours[rng.integers(len(colours))]) + rng.uniform(-jitter, jitter), 0.05, 0.97)
        return float(r), float(g), float(b), 1.0

    first, second = rng.permutation(len(ACCENTS))[:2]
    return Style(
        wood=pick(WOODS),
        front=pick(FRONTS),
        counter=pick(COUNTERS),
        fabric=pick(FABRICS),
        accent=pick((ACCENTS[first],)),
        accent2=pick((ACCENTS[second],)),
        wall=pick(WALLS, 0.01),
    )
