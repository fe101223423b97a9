"""Which episode a training environment plays next."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from hab.episodes import apartments

EPISODES = {"train": 100_000, "val": 1_000, "test": 1_000}
"""Episode indices that are drawn from: of val and test as many as HAB's data sets have per scenario."""
SCENE_REPEATS = 16
"""Draws in a row from the same apartment: a new one takes 0.1 s to compile, a reset in the same one far less."""


class EpisodeSampler:
    """Draws episode indices of a split, the same ones for the same generator; or gives `index` every time.

    retries: the share of the draws that are of episodes of the same apartment that failed before, where there are such.
    favoured: seeds of apartments of which so large a `share` of the draws is to be; the others share the rest.
    """

    def __init__(
        self,
        split: str,
        index: int | None = None,
        retries: float = 0.0,
        favoured: Collection[int] = (),
        share: float = 0.0,
    ) -> None:
        seeds, rounds = apartments(split)  # says so if there is no such split
        if index is not None and index < 0:
            raise ValueError(f"index={index}: episodes are numbered from 0")
        self._index = index
        self._apartments = len(seeds)
        self._rounds = rounds or EPISODES[split] // self._apartments
        numbers = np.arange(self._apartments)
        of_favour = np.isin(seeds, list(favoured))
        self._pools, self._share = (numbers[~of_favour], numbers[of_favour]), share
        self._draws = self._apartment = 0
        self._retries = retries
        self._failed: list[int] = []

    def failed(self, index: int) -> None:
        """Take note of an episode that was drawn and failed."""
        self._failed.append(index)

    def draw(self, rng: np.random.Generator, options: dict[str, Any] | None = None, restart: bool = False) -> int:
        """Return the next episode's index: the one that the reset's options ask for, the fixed one, or a drawn one.

        `restart`: start with a new apartment, because the generator was seeded again.
        """
        if restart:
            self._draws = self._apartment = 0
        wanted = (options or {}).get("index", self._index)
        if wanted is not None:
            return int(wanted)
        if self._draws % SCENE_REPEATS == 0:
            self._apartment = self._drawn_apartment(rng)
            self._failed.clear()
        self._draws += 1
        if self._failed and rng.random() < self._retries:
            return self._failed.pop(int(rng.integers(len(self._failed))))
        return self._apartment + self._apartments * int(rng.integers(self._rounds))

    def _drawn_apartment(self, rng: np.random.Generator) -> int:
        others, favoured = self._pools
        if len(favoured) == 0:
            return int(rng.integers(self._apartments))
        pool = favoured if len(others) == 0 or rng.random() < self._share else others
        return int(pool[rng.integers(len(pool))])
