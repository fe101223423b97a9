"""A tiny environment that says in every observation where it stands, and writes down all that it plays."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from faulty_envs import is_first
from gymnasium import spaces
from numpy.typing import NDArray

Record = dict[str, Any]
NUMBERS = count()

OBSERVATION = spaces.Dict(
    {
        "place": spaces.Box(0.0, 1.0, (3,)),
        "touch": spaces.Box(0, 255, (2, 3), np.uint8),
        "world": spaces.Box(-9.0, 9.0, (3,)),
    }
)
ACTION = spaces.Dict({"arm": spaces.Box(-1.0, 1.0, (2,)), "gear": spaces.Discrete(3)})
PLACE = np.array([4096.0, 64.0, 64.0])
"""`place` times this: mark of the seed, episodes since it, step of the episode. Exact in float32."""


class Counting(gymnasium.Env[dict[str, NDArray[Any]], dict[str, Any]]):
    """Episodes of 1 to `longest` steps that end in any way; everything is drawn from the seed.

    log_dir: writes a line of JSON for each step into a file of its own there.
    together: so many processes end their first steps only when all of them have written theirs.
    slowest_s: a step takes up to that long, or less, according to the seed's mark.
    gate: a folder; whoever gets there first owns it, writes its mark there as it begins its first step, and ends that
    only once a file `open` lies there. The others begin theirs only after that.
    """

    def __init__(
        self,
        log_dir: Path | None = None,
        together: int = 0,
        longest: int = 9,
        slowest_s: float = 0.0,
        gate: Path | None = None,
    ) -> None:
        self.observation_space, self.action_space = OBSERVATION, ACTION
        self._log_dir, self._together = log_dir, together
        self._log = (log_dir / f"{os.getpid()}_{next(NUMBERS)}.jsonl").open("a") if log_dir else None
        self._longest, self._slowest_s = longest, slowest_s
        self._gate, self._owner = gate, gate is not None and is_first(gate / "taken")
        self._rng = np.random.default_rng(0)
        self._mark, self._episode = 0, -1

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[dict[str, Any], Record]:
        if seed is not None:
            self._rng, self._mark, self._episode = np.random.default_rng(seed), seed % 4096, -1
        self._episode += 1
        self._step = 0
        self._length, self._ending = int(self._rng.integers(1, self._longest + 1)), int(self._rng.integers(3))
        self._world = self._rng.normal(size=3)
        return self._look(), {}

    def step(self, action: dict[str, Any]) -> tuple[dict[str, Any], float, bool, bool, Record]:
        self._pass_gate()
        if self._slowest_s:
            time.sleep(self._slowest_s * (self._mark % 4) / 3 * self._rng.random())
        before, arm, gear = self._seen, action["arm"], action["gear"]
        reward = 0.5 * float(arm[0]) - 0.25 * float(arm[1]) + 0.2 * gear + 0.01 * self._step
        self._world = 0.8 * self._world + np.array([0.3 * arm[0], 0.3 * arm[1], 0.4 * gear - 0.4])
        self._world += 0.1 * self._rng.normal(size=3)
        self._step += 1
        over = self._step == self._length
        terminated, truncated = over and self._ending != 1, over and self._ending != 0  # 2: both at once
        observation = self._look()
        if self._log:
            record = {
                "before": _flat(before),
                "after": _flat(observation),
                "arm": arm.tolist(),
                "gear": gear,
                "reward": reward,
                "terminated": bool(terminated),
                "truncated": bool(truncated),
                "first": self._step == 1,
            }
            self._log.write(json.dumps(record) + "\n")
            self._log.flush()
            self._wait_for_the_others()
        return observation, reward, bool(terminated), bool(truncated), {"success": self._ending == 0}

    def _wait_for_the_others(self) -> None:
        while self._together and self._log_dir:
            if sum(path.stat().st_size > 0 for path in self._log_dir.iterdir()) >= self._together:
                self._together = 0
            else:
                time.sleep(2e-3)

    def _pass_gate(self) -> None:
        if self._gate is None:
            return
        if self._owner and not (self._gate / "owner").exists():
            (self._gate / "new").write_text(str(self._mark))
            (self._gate / "new").rename(self._gate / "owner")
        while not (self._gate / ("open" if self._owner else "owner")).exists():
            time.sleep(2e-3)

    def _look(self) -> dict[str, Any]:
        self._seen = {
            "place": (np.array([self._mark, self._episode, self._step]) / PLACE).astype(np.float32),
            "touch": self._rng.integers(0, 256, (2, 3)).astype(np.uint8),
            "world": self._world.astype(np.float32),
        }
        return self._seen


def read_logs(log_dir: Path) -> dict[int, list[Record]]:
    """Return what each environment played, by the mark of its first seed."""
    # What stands after the last line's end is being written.
    lines = [path.read_text().split("\n")[:-1] for path in sorted(log_dir.iterdir())]
    logs = [[json.loads(line) for line in part] for part in lines]
    found = {mark_of(records[0]["before"][0]): records for records in logs if records}
    assert len(found) == sum(map(bool, logs)), "two environments with the same mark: take another seed"
    return found


def mark_of(floats: Sequence[float]) -> int:
    """Return the mark of the seed that an observation's float row shows."""
    return round(float(floats[0]) * PLACE[0])


def _flat(observation: dict[str, Any]) -> tuple[list[float], list[int]]:
    """Return the float row and the byte row, as the layout is documented: entry after entry."""
    return [*observation["place"].tolist(), *observation["world"].tolist()], observation["touch"].reshape(-1).tolist()
