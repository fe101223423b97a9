"""What a training reports of itself: an `Update` after each rollout, and rows of scalars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ver_core.collector import Collection
from ver_core.worker_pool import WorkerPool

RECENT_EPISODES = 100
"""Over which success and return are averaged."""


@dataclass
class Update:
    """One rollout collected and learnt from."""

    steps: int
    """Of the whole training so far."""
    fresh_steps: int
    """Of this rollout, of all processes."""
    seconds: float
    """Wall clock, from the end of the update before."""
    learn_s: float
    collection: Collection
    scalars: dict[str, float]
    """What the learner reports."""
    episodes: dict[str, float]
    """Means over the last `RECENT_EPISODES` episodes: return, length, the info's numbers; shares of its words."""
    episode_count: int
    """Episodes finished so far in this session."""
    random_steps: int = 0
    """Of `steps`, those of the first rollout, if it served the observations' statistics alone."""


class Clock:
    """Adds up where the time goes between two reports."""

    def __init__(self, steps: int, pool: WorkerPool) -> None:
        self._steps, self._pool = steps, pool
        self._busy_s, self._env_steps = float(pool.rows.busy_s.sum()), int(pool.rows.steps.sum())
        self.seconds = 0.0
        self._env_s = self._inference_s = self._learn_s = 0.0

    def add(self, update: Update) -> None:
        self.seconds += update.seconds
        self._env_s += update.collection.wait_s
        self._inference_s += update.collection.inference_s
        self._learn_s += update.learn_s

    def read(self, steps: int) -> tuple[float, dict[str, float]]:
        """Return steps per second and the shares of the learner process's time.

        env: waiting for environments; inference: running the policy and writing steps down; learn; wait: the rest, for
        other processes and for what is done between two rollouts. Collecting alongside, env and inference are another
        thread's, so the shares add up to more than 1.
        """
        shares = {"env": self._env_s, "inference": self._inference_s, "learn": self._learn_s}
        shares = {name: seconds / self.seconds for name, seconds in shares.items()}
        shares["wait"] = max(0.0, 1.0 - sum(shares.values()))
        return (steps - self._steps) / self.seconds, shares

    @property
    def step_ms(self) -> float:
        """Mean time of one environment step, resets included."""
        steps = int(self._pool.rows.steps.sum()) - self._env_steps
        return 1e3 * (float(self._pool.rows.busy_s.sum()) - self._busy_s) / max(steps, 1)


def row(
    update: Update, sps: float, shares: dict[str, float], step_ms: float, restarts: int, nonfinite: int
) -> dict[str, float]:
    collection = update.collection
    return {
        "train/sps": sps,
        "train/fresh_steps": update.fresh_steps,
        "train/random_steps": update.random_steps,
        "train/preempted": float(collection.preempted),
        "train/requests_per_batch": collection.requests / max(collection.batches, 1),
        "train/env_restarts": restarts,
        "train/env_nonfinite": nonfinite,
        "time/env_step_ms": step_ms,
        **{f"time/{name}": share for name, share in shares.items()},
        **{f"learn/{name}": value for name, value in update.scalars.items()},
        **{f"episode/{name}": value for name, value in update.episodes.items()},
    }


def means(episodes: Sequence[dict[str, float | str]]) -> dict[str, float]:
    """Average the numbers of episodes; of their words, return how often each came."""
    sums: dict[str, float] = {}
    for episode in episodes:
        for key, value in episode.items():
            if isinstance(value, str):
                if value:
                    sums[f"{key}/{value}"] = sums.get(f"{key}/{value}", 0.0) + 1.0
            else:
                sums[key] = sums.get(key, 0.0) + value
    return {key: value / len(episodes) for key, value in sums.items()}
