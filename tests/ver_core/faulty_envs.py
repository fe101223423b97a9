"""A tiny environment that counts what it plays and can be told to fail, and a ledger that checks rollouts of it."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np
from gymnasium import spaces

from ver_core.config import PolicyConfig, TrainConfig

if TYPE_CHECKING:
    from ver_core.rollout import Rollout  # env workers import this module, and must not pay for torch

POLICY = PolicyConfig(rnn_layers=1, rnn_size=8)
LONG = 1e6
"""Seconds or steps that no test lives to see."""


class Walk(gymnasium.Env[Any, Any]):
    """A point pushed about by the actions and by noise drawn at every step.

    `count` is (mark of the seed, episodes since it, step, length of this episode): all a ledger needs to know where a
    step belongs. Episodes of even length terminate, those of odd length are truncated.
    """

    observation_space = spaces.Dict(
        {"count": spaces.Box(0.0, np.inf, (4,), np.float32), "place": spaces.Box(-np.inf, np.inf, (2,), np.float64)}
    )
    action_space = spaces.Dict({"choose": spaces.Discrete(3), "move": spaces.Box(-1.0, 1.0, (2,), np.float32)})

    def __init__(self, step_s: float = 0.0, reset_s: float = 0.0) -> None:
        self.step_s, self.reset_s = step_s, reset_s
        self.mark, self.episode = 0.0, 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        time.sleep(self.reset_s)
        if seed is not None:
            self.mark, self.episode = float(np.float32(self.np_random.random())), 0
        else:
            self.episode += 1
        self.played, self.length = 0, int(self.np_random.integers(3, 18))
        self.place = self.np_random.normal(size=2)
        return self.observe(), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        time.sleep(self.step_s)
        reward = reward_of(self.played, int(action["choose"]))
        self.place = 0.9 * self.place + 0.1 * action["move"] + 0.1 * self.np_random.normal(size=2)
        self.played += 1
        over = self.played == self.length
        info = {"success": over and self.length > 10}
        return self.observe(), reward, over and self.length % 2 == 0, over and self.length % 2 == 1, info

    def observe(self) -> dict[str, Any]:
        return {"place": self.place, "count": np.array([self.mark, self.episode, self.played, self.length], np.float32)}


def reward_of(step: int, choice: int) -> float:
    """The reward of an action, from what the learner knows of it."""
    return step / 32 + choice / 8


class Faulty(Walk):
    """Fails at its step number `at` (counted from 0); with a `marker` file only the first of all environments."""

    def __init__(self, fault: str, at: int, marker: Path | None = None, step_s: float = 0.0) -> None:
        super().__init__(step_s)
        self.fault, self.at, self.marker = fault, at, marker
        self.steps = 0
        if fault == "make" and not self.due():  # the first making is only to look at the spaces
            raise RuntimeError("no licence\nfor a second one")

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = super().reset(seed=seed, options=options)
        if self.fault.endswith("in reset") and self.steps > self.at and self.due():
            if self.fault.startswith("raise"):
                raise ValueError("no way\nto begin")
            observation["place"][1] = np.inf
        return observation, info

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        self.steps += 1
        if self.steps > self.at and not self.fault.endswith("in reset") and self.due():
            if self.fault == "raise":
                raise ValueError("the gripper\nfell off")
            if self.fault == "raise at length":
                raise ValueError("blah " * 100_000)
            if self.fault == "die":
                os._exit(3)
            if self.fault == "hang":
                time.sleep(LONG)
            if self.fault == "slow":
                time.sleep(1.0)
            if self.fault == "nan observation":
                observation["place"] = np.array([0.0, np.nan])
            if self.fault == "nan reward":
                reward = float("nan")
            if self.fault == "huge reward":
                reward = 1e300  # finite here, but no float32
        return observation, reward, terminated, truncated, info

    def due(self) -> bool:
        return self.marker is None or is_first(self.marker)


def is_first(marker: Path) -> bool:
    """Make a file; return whether it was not there. Of several processes at once one is told so."""
    try:
        marker.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


class Unmade(Walk):
    """Cannot be made at all."""

    def __init__(self) -> None:
        raise FileNotFoundError("the scene\nis missing")


def config(**changes: Any) -> TrainConfig:
    """A tiny training; every update leaves a row in scalars.jsonl."""
    values: dict[str, Any] = {
        "total_steps": 100_000,
        "num_envs": 3,
        "rollout_length": 10,
        "epochs": 2,
        "mini_batches": 2,
        "episodes_per_seed": 2,
        "learning_rate": 3e-3,
        "log_every_s": 0.0,
        "checkpoint_every_s": LONG,
        "device": "cpu",
        "learner_threads": 1,
    }
    return TrainConfig(**{**values, **changes})


class Ledger:
    """Follows the steps of each environment through the rollouts that are learnt from.

    `check` raises AssertionError unless every step follows the one before it in its episode, or begins one.
    """

    def __init__(self, num_envs: int) -> None:
        self.last: list[dict[str, Any] | None] = [None] * num_envs
        self.breaks = [0] * num_envs
        """Episodes that were left unfinished: what a lost worker costs."""
        self.ended = {"terminated": 0, "truncated": 0}
        self.steps = [0] * num_envs

    def watch(self, learner: Any) -> None:
        """Have each rollout checked before it is learnt from."""
        update = learner.update

        def checked(rollout: Rollout, *arguments: Any) -> dict[str, float]:
            self.check(rollout)
            return update(rollout, *arguments)

        learner.update = checked

    def check(self, rollout: Rollout) -> None:
        columns = {name: column[: rollout.size].cpu().numpy() for name, column in rollout.wide.items()}
        for row in range(rollout.size):
            env = int(rollout.env[row])
            mark, episode, step, length = (float(x) for x in columns["floats"][row, :4])
            action, previous = columns["action"][row].copy(), columns["previous_action"][row]
            now = {"mark": mark, "episode": episode, "step": step, "length": length, "action": action}
            before = self.last[env]
            over = before is None or before["step"] == before["length"] - 1
            if rollout.start[row]:
                assert step == 0 and previous.tolist() == [-1.0, 0.0, 0.0]
                assert not columns["state"][row].any()
                self.breaks[env] += not over
            else:
                assert not over and before is not None
                assert (mark, episode, step) == (before["mark"], before["episode"], before["step"] + 1)
                assert np.array_equal(previous, before["action"])
                assert columns["state"][row].any()
            assert rollout.reward[row] == np.float32(reward_of(int(step), int(action[0])))
            if step == length - 1:
                self.ended["truncated" if length % 2 else "terminated"] += 1
                assert (rollout.next_value[row] == 0.0) == (length % 2 == 0)
            self.last[env] = now
            self.steps[env] += 1


def until(condition: Callable[[], bool], what: str, timeout_s: float = 60.0) -> None:
    """Wait for something that takes a moment."""
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, f"waited for {timeout_s} s in vain: {what}"
        time.sleep(0.02)
