"""The Actor's environments, in one interface: the core's env workers, or anything that steps as one batch.

Shapes: n environments of N; floats (n, F), bytes (n, U) as in `ObsLayout`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import torch
from gymnasium.vector import AutoresetMode, VectorEnv
from torch import Tensor

from ver_core.shared_rows import RUNNING, TERMINATED, TRUNCATED
from ver_core.spaces import ActionLayout, ObsLayout
from ver_core.worker_pool import EnvironmentFailure, WorkerPool

POLL_S = 0.2
"""How often stop signals are looked for while environments step."""
Episode = dict[str, float | str]


@dataclass
class Arrived:
    """Environments that wait for an action, each once."""

    env: Tensor
    """(n,) int64."""
    floats: Tensor
    bytes: Tensor
    """What they see now."""
    stepped: Tensor
    """(n,) bool: whether the last action led here; else an episode begins, and nothing is known of that action."""
    reward: Tensor
    """(n,) of that step; this and the next two mean nothing where there was none."""
    terminated: Tensor
    truncated: Tensor
    """(n,) bool: whether it ended an episode, by a terminal state or a time limit; then the next one has begun."""
    final_floats: Tensor
    final_bytes: Tensor
    """(n, ...) the last observation of a truncated episode; else anything."""
    episodes: list[tuple[int, Episode]] = field(default_factory=list)
    """Environment -> what its episode that just ended came to."""


class EnvironmentBatch(Protocol):
    """N environments. Every one is taken once at the beginning, and again after each action that it was sent."""

    @property
    def restarts(self) -> int:
        """Workers replaced so far."""

    @property
    def nonfinite(self) -> int:
        """Of these, how many because of a number that was none."""

    def take(self, stop: Callable[[], bool]) -> Arrived | None:
        """Wait for environments; None: `stop` said so. Raises `EnvironmentFailure`."""

    def send(self, env: Tensor, actions: Tensor) -> None:
        """Let environments (n,) make a step: flat actions (n, A) of the environment."""

    def busy(self) -> tuple[float, int]:
        """Return the seconds that environments have spent in steps, added up, and the number of these steps."""

    def groups(self) -> list[int]:
        """Return the number of the seed that each one is on, which a resume does not use again; empty: not known."""

    def close(self) -> None:
        """End them."""


class Workers:
    """Environments in processes of their own (`WorkerPool`): whoever is ready is taken, `min_batch` at once."""

    def __init__(self, pool: WorkerPool, num_envs: int, min_batch: int, device: torch.device) -> None:
        self._pool, self._n, self._least, self._device = pool, num_envs, min_batch, device
        self._waiting: list[int] = []
        self._acting = np.zeros(num_envs, bool)

    @property
    def restarts(self) -> int:
        return self._pool.restarts

    @property
    def nonfinite(self) -> int:
        return self._pool.nonfinite

    def take(self, stop: Callable[[], bool]) -> Arrived | None:
        """See `EnvironmentBatch`."""
        pool, rows = self._pool, self._pool.rows
        while True:
            if stop():
                return None
            self._waiting += pool.take(self._n, 0.0 if len(self._waiting) >= self._least else POLL_S)
            for lost in pool.lost:
                self._acting[lost] = False
                self._waiting = [other for other in self._waiting if other != lost]
            pool.lost.clear()
            if len(self._waiting) >= self._least:
                break
        env = np.sort(np.array(self._waiting, np.int64))
        self._waiting = []
        stepped = self._acting[env]
        status = np.where(stepped, rows.status[env], RUNNING)
        self._acting[env] = False
        episodes = []
        for index in env[status != RUNNING].tolist():
            if (episode := pool.episode(index)) is not None:
                episodes.append((index, episode))
        return Arrived(
            self._tensor(env), self._tensor(rows.floats[env]), self._tensor(rows.bytes[env]), self._tensor(stepped),
            self._tensor(rows.reward[env]), self._tensor(status == TERMINATED), self._tensor(status == TRUNCATED),
            self._tensor(rows.final_floats[env]), self._tensor(rows.final_bytes[env]), episodes,
        )  # fmt: skip

    def send(self, env: Tensor, actions: Tensor) -> None:
        """See `EnvironmentBatch`."""
        chosen = env.cpu().numpy()
        self._pool.rows.action[chosen] = actions.cpu().numpy()
        self._acting[chosen] = True
        self._pool.send(chosen.tolist())

    def busy(self) -> tuple[float, int]:
        """See `EnvironmentBatch`."""
        return float(self._pool.rows.busy_s.sum()), int(self._pool.rows.steps.sum())

    def groups(self) -> list[int]:
        """See `EnvironmentBatch`."""
        return [max(pair) for pair in zip(self._pool.groups, self._pool.rows.group.tolist(), strict=True)]

    def close(self) -> None:
        """End the workers."""
        self._pool.close()

    def _tensor(self, array: Any) -> Tensor:
        return torch.from_numpy(np.ascontiguousarray(array)).to(self._device)


class Vector:
    """A `gymnasium.vector.VectorEnv`: all N step together. Tensors stay on their device.

    All three auto-reset modes work. With SAME_STEP, `infos["final_obs"]` has to hold what gymnasium says it does, or a
    batch of observations; without it, a truncated episode's last observation is unknown and the step that led there is
    not learnt from.
    """

    restarts = nonfinite = 0  # what fails here ends the training

    def __init__(self, envs: VectorEnv[Any, Any, Any], device: torch.device, seed: int) -> None:
        """Reset it with `seed`."""
        self._envs, self._device, self._n = envs, device, envs.num_envs
        self._layout = ObsLayout(envs.single_observation_space)
        self._actions = ActionLayout(envs.single_action_space)
        self._mode = envs.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
        self._all = torch.arange(self._n, device=device)
        observation, _ = envs.reset(seed=seed)
        self._seen = self._rows(observation)
        self._over = torch.zeros(self._n, dtype=torch.bool, device=device)
        self._action: Tensor | None = None
        self._returns = torch.zeros(self._n, dtype=torch.float64, device=device)
        self._lengths = torch.zeros(self._n, dtype=torch.int64, device=device)
        self._tensors = not isinstance(self._first(observation), np.ndarray)
        self._steps, self._seconds = 0, 0.0

    def take(self, stop: Callable[[], bool]) -> Arrived | None:
        """See `EnvironmentBatch`."""
        if stop():
            return None
        none = torch.zeros(self._n, dtype=torch.bool, device=self._device)
        if self._action is None:
            floats, bytes_ = self._seen
            self._check(floats)
            return Arrived(self._all, floats, bytes_, none, none.float(), none, none, floats, bytes_)
        started = time.perf_counter()
        observation, reward, terminated, truncated, infos = self._envs.step(self._decode(self._action))
        stepped = ~self._over if self._mode == AutoresetMode.NEXT_STEP else ~none
        reward, terminated, truncated = (
            torch.as_tensor(column, device=self._device) for column in (reward, terminated, truncated)
        )
        reward = reward.float()
        truncated = truncated & ~terminated
        over = terminated | truncated
        seen = final = self._rows(observation)
        self._returns += torch.where(stepped, reward, 0.0)
        self._lengths += stepped
        ended = torch.nonzero(over)[:, 0]
        episodes = self._episodes(ended, infos)
        if self._mode == AutoresetMode.SAME_STEP and len(ended):
            final, known = self._final(infos, seen, ended)
            # Nothing to bootstrap from: as if nobody had acted.
            stepped = stepped & (known | ~truncated)
        elif self._mode == AutoresetMode.DISABLED and len(ended):
            again, _ = self._envs.reset(options={"reset_mask": self._native(over)})
            seen = self._rows(again)
        self._over = over
        self._seconds += time.perf_counter() - started
        self._steps += int(stepped.sum())
        self._check(seen[0])
        if len(
            ended
        ):  # what is bootstrapped from is learnt from, too; of the others, the final observation is anything
            self._check(torch.where((stepped & truncated)[:, None], final[0], seen[0]))
        self._check(reward[:, None], "reward")
        return Arrived(self._all, *seen, stepped, reward, terminated, truncated, *final, episodes)

    def send(self, env: Tensor, actions: Tensor) -> None:
        """See `EnvironmentBatch`."""
        self._action = actions

    def busy(self) -> tuple[float, int]:
        """See `EnvironmentBatch`."""
        return self._seconds, self._steps

    def groups(self) -> list[int]:
        """See `EnvironmentBatch`."""
        return []

    def close(self) -> None:
        """Close the environments."""
        self._envs.close()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _rows(self, observation: Any) -> tuple[Tensor, Tensor]:
        """Return (N, F) and (N, U) of a batch of observations."""
        parts: dict[bool, list[Tensor]] = {False: [], True: []}
        for key in self._layout.keys:
            value = observation if self._layout.plain else observation[key.name]
            parts[key.byte].append(torch.as_tensor(value, device=self._device).reshape(self._n, -1))
        empty = torch.zeros(self._n, 0, dtype=torch.uint8, device=self._device)
        floats = torch.cat([part.float() for part in parts[False]], 1) if parts[False] else empty.float()
        return floats, torch.cat(parts[True], 1) if parts[True] else empty

    def _first(self, observation: Any) -> Any:
        return observation if self._layout.plain else observation[self._layout.keys[0].name]

    def _decode(self, flat: Tensor) -> Any:
        """Return the batch's action, tensors if its observations are."""
        values = {}
        for part in self._actions.parts:
            value = flat[:, part.start : part.start + part.size].reshape(self._n, *part.shape)
            values[part.name] = value if self._tensors else value.cpu().numpy()
        return values[""] if self._actions.plain else values

    def _native(self, mask: Tensor) -> Any:
        return mask if self._tensors else mask.cpu().numpy()

    def _final(self, infos: dict[str, Any], seen: tuple[Tensor, Tensor], ended: Tensor) -> tuple[Any, Tensor]:
        """Return the last observations of the episodes that ended, and which of them are known (N,)."""
        known = torch.ones(self._n, dtype=torch.bool, device=self._device)
        found = infos.get("final_obs")
        if found is None:
            known[ended] = False
            return seen, known
        if not (isinstance(found, np.ndarray) and found.dtype == object):  # a batch, as simulators on a GPU have it
            return self._rows(found), known
        floats, bytes_ = seen[0].clone(), seen[1].clone()
        for env in ended.tolist():
            f, b = np.zeros(self._layout.floats, np.float32), np.zeros(self._layout.bytes, np.uint8)
            self._layout.pack(found[env], f, b)
            floats[env], bytes_[env] = torch.from_numpy(f).to(self._device), torch.from_numpy(b).to(self._device)
        return (floats, bytes_), known

    def _episodes(self, ended: Tensor, infos: dict[str, Any]) -> list[tuple[int, Episode]]:
        if not len(ended):
            return []
        if self._mode == AutoresetMode.SAME_STEP:
            infos = infos.get("final_info", infos)
        columns = dict(_numbers(infos, self._n))
        found = []
        sums = zip(ended.tolist(), self._returns[ended].tolist(), self._lengths[ended].tolist(), strict=True)
        for env, total, length in sums:
            numbers = {name: float(values[env]) for name, values in columns.items()}
            found.append((env, {**numbers, "return": total, "length": float(length)}))
        self._returns[ended], self._lengths[ended] = 0.0, 0
        return found

    def _check(self, rows: Tensor, what: str = "") -> None:
        finite = rows.isfinite()
        if not bool(finite.all()):
            env, entry = torch.nonzero(~finite)[0].tolist()
            what = what or f"observation {self._layout.name_at(entry)!r}"
            raise EnvironmentFailure(f"environment {env} of the batch gave NaN or infinity as {what}")


def _numbers(infos: dict[str, Any], n: int) -> Iterable[tuple[str, Any]]:
    """Yield what infos say of each environment as one number."""
    for name, values in infos.items():
        if name.startswith("_") or not isinstance(values, np.ndarray | Tensor) or values.shape != (n,):
            continue
        if isinstance(values, Tensor) or values.dtype.kind in "bif":
            yield name, values
