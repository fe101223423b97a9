"""Which episode a training environment plays next."""

from __future__ import annotations

import numpy as np

from hab.episodes import scene_seed
from hab.layout import SPLIT_SEEDS

EPISODES = {"train": 10_000, "val": 1_000, "test": 1_000}
"""Episode indices that are drawn from, as many as HAB's data sets have per scenario."""
SCENE_REPEATS = 8
"""Draws in a row from the same apartment: a new one takes 0.1 s to compile, a reset in the same one far less."""


class EpisodeSampler:
    """Draws episode indices of a split, the same ones for the same generator."""

    def __init__(self, split: str) -> None:
        scene_seed(split, 0)  # says so if there is no such split
        self._apartments = len(SPLIT_SEEDS[split])
        self._rounds = EPISODES[split] // self._apartments
        self.restart()

    def restart(self) -> None:
        """Start with a new apartment (the generator was seeded again)."""
        self._draws = 0
        self._apartment = 0

    def draw(self, rng: np.random.Generator) -> int:
        """Return the next episode's index."""
        if self._draws % SCENE_REPEATS == 0:
            self._apartment = int(rng.integers(self._apartments))
        self._draws += 1
        return self._apartment + self._apartments * int(rng.integers(self._rounds))
