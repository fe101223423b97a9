"""Advantages and value targets of a rollout's steps, and the weights that undo VER's preference for fast environments.

Arrays are columns (n,) of the rollout's buffer, in its row order. `next_value` is what a step's future is worth:
V(o_{t+1}) where the episode goes on, V of the final observation where it was truncated, 0 where it terminated.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ver_core.sequences import Sequences, pack

Floats = NDArray[np.floating[Any]]


def gae(
    reward: Floats, value: Floats, next_value: Floats, sequences: Sequences, gamma: float, lam: float
) -> NDArray[np.float32]:
    """Return the generalised advantage estimates (n,): Schulman et al. 2016, equation 16.

    delta_t = r_t + gamma V(o_{t+1}) - V(o_t) and A_t = delta_t + gamma lam A_{t+1}. A sequence ends where its episode
    does or where the rollout was cut; there `next_value` alone stands for the future.
    """
    delta = reward.astype(np.float64) + gamma * next_value.astype(np.float64) - value
    return _sums(delta, np.full(len(delta), gamma * lam), sequences).astype(np.float32)


def vtrace(
    reward: Floats,
    value: Floats,
    next_value: Floats,
    log_ratio: Floats,
    sequences: Sequences,
    gamma: float,
    lam: float = 1.0,
    rho_max: float = 1.0,
    c_max: float = 1.0,
) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Return V-trace's value targets v (n,) and advantages (n,): Espeholt et al. 2018, equation 1 and remark 2 (lam).

    `value` is the current policy's; log_ratio = log pi(a|o) of the current policy - log mu(a|o) of the one that acted.
    `next_value` is read at the sequences' last steps only: elsewhere it is the next row's value, which is newer. The
    truncations rho_max and c_max are positive.

    The advantage is r_t + gamma v_{t+1} - V(o_t) (next_value for v_{t+1} at a last step), without the paper's factor
    rho_t: PPO's ratio weighs the step already.
    """
    current = value.astype(np.float64)
    following = _next(current, next_value, sequences)
    # Truncated before exp, which would overflow otherwise.
    rho = np.exp(np.minimum(log_ratio.astype(np.float64), math.log(rho_max)))
    c = np.exp(np.minimum(log_ratio.astype(np.float64), math.log(c_max)))
    delta = rho * (reward + gamma * following - current)
    target = current + _sums(delta, gamma * lam * c, sequences)
    advantage = reward + gamma * _next(target, next_value, sequences) - current
    return target.astype(np.float32), advantage.astype(np.float32)


def sampling_weights(
    env: NDArray[np.integer], num_envs: int, rollout_length: int, maximum: float
) -> NDArray[np.float32]:
    """Return the truncated importance weights (n,) min(maximum, T / n_i) of the steps, n_i of them of environment i.

    Uniform sampling would give T steps of each environment; VER takes more of the fast ones (VER, section 4).
    """
    steps = np.bincount(env, minlength=num_envs)
    return np.minimum(maximum, rollout_length / steps[env]).astype(np.float32)


def _sums(term: NDArray[np.float64], decay: NDArray[np.float64], sequences: Sequences) -> NDArray[np.float64]:
    """Solve sum_t = term_t + decay_t sum_{t+1} in each sequence, all (n,); all sequences at once, backwards in time."""
    packed = pack(sequences)
    result, factor = term[packed.rows], decay[packed.rows]
    sizes = packed.batch_sizes.tolist()
    end = len(result)  # of the step after the current one
    for size, next_size in zip(reversed(sizes[:-1]), reversed(sizes[1:]), strict=True):
        later = end - next_size
        begin = later - size
        goes_on = slice(begin, begin + next_size)
        result[goes_on] += factor[goes_on] * result[later:end]
        end = later
    out = np.empty_like(result)
    out[packed.rows] = result
    return out


def _next(column: NDArray[np.float64], at_last: Floats, sequences: Sequences) -> NDArray[np.float64]:
    """Return `column` of each step's next step, and `at_last` of the last steps; all (n,) in buffer order."""
    out = at_last.astype(np.float64)
    last = np.cumsum(sequences.lengths) - 1
    order = sequences.order
    inner = np.ones(len(order), dtype=bool)
    inner[last] = False
    out[order[inner]] = column[order[np.flatnonzero(inner) + 1]]
    return out
