"""Evaluates navigation: plays episodes of a split, and sums up their measures."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium
import numpy as np

from eval.statistics import bootstrap_mean, wilson
from hab.navigation.env import NavigationEnv, make_navigation_env
from hab.navigation.oracle import shortest_path_action
from skills.navigator import Navigator

AT_ONCE = 32
"""Episodes played side by side."""


@dataclass(frozen=True)
class EpisodeResult:
    """How one episode went."""

    index: int
    scene: int
    measures: dict[str, float]
    """What the environment says at the end, and `return`."""

    @property
    def success(self) -> bool:
        return bool(self.measures.get("success", 0.0))


def noise_seed(seed: int, index: int) -> int:
    """Return what an episode's environment is seeded with: episodes of one noise would not be independent."""
    return int(np.random.SeedSequence((seed, index)).generate_state(1, np.uint64)[0])


def evaluate_navigation(
    task: str,
    options: dict[str, Any],
    split: str,
    episodes: int,
    navigator: Navigator | None,
    seed: int = 0,
    on_result: Callable[[EpisodeResult], None] = lambda result: None,
) -> list[EpisodeResult]:
    """Play the split's first episodes by a policy, or (None) by the shortest-path follower; return them in order.

    `options` are `NavigationEnv`'s. Interrupted, it returns those that have ended.
    """
    count = min(AT_ONCE, episodes)
    envs = [make_navigation_env(task, split=split, **options) for _ in range(count)]
    results: list[EpisodeResult] = []
    waiting = iter(range(episodes))
    observations: dict[int, Any] = {}
    returns = dict.fromkeys(range(count), 0.0)

    def begin(place: int) -> None:
        index = next(waiting, None)
        if index is None:
            observations.pop(place, None)
            return
        observations[place], _ = envs[place].reset(seed=noise_seed(seed, index), options={"index": index})
        returns[place] = 0.0
        if navigator is not None:
            navigator.begin(place, np.random.default_rng((seed, index)))

    if navigator is not None:
        navigator.start(count, [np.random.default_rng((seed, index)) for index in range(count)])
    try:
        for place in range(count):
            begin(place)
        while observations:
            places = list(observations)
            for place, action in zip(places, _actions(navigator, envs, places, observations), strict=True):
                observations[place], reward, terminated, truncated, info = envs[place].step(action)
                returns[place] += float(reward)
                if terminated or truncated:
                    results.append(_result(envs[place], info, returns[place]))
                    on_result(results[-1])
                    begin(place)
    except KeyboardInterrupt:
        pass
    return sorted(results, key=lambda result: result.index)


def summary(results: list[EpisodeResult]) -> dict[str, dict[str, Any]]:
    """Return the mean of each measure and its 95 % interval: Wilson's of a rate, else the bootstrap's."""
    found: dict[str, dict[str, Any]] = {}
    for name in results[0].measures:
        values = [result.measures[name] for result in results]
        rate = name == "success"
        interval = wilson(round(sum(values)), len(values)) if rate else bootstrap_mean(values)
        found[name] = {"mean": float(np.mean(values)), "ci95": list(interval)}
    return found


def _actions(
    navigator: Navigator | None, envs: list[gymnasium.Env[Any, Any]], places: list[int], seen: dict[int, Any]
) -> list[int]:
    if navigator is not None:
        return navigator.act(places, [seen[place] for place in places])
    return [shortest_path_action(_task(envs[place])) for place in places]


def _result(env: gymnasium.Env[Any, Any], info: dict[str, Any], returned: float) -> EpisodeResult:
    measures = {name: float(value) for name, value in info.items() if name != "index"}
    return EpisodeResult(info["index"], _task(env).episode.scene_seed, measures | {"return": returned})


def _task(env: gymnasium.Env[Any, Any]) -> NavigationEnv:
    task = env.unwrapped
    assert isinstance(task, NavigationEnv)
    return task
