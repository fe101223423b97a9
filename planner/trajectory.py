"""One played episode, control step by control step: what an agent did, and what its environment showed and paid for it.

An agent is first played without any observations of its environment's, and its actions are written down (`Log`); then
the environment itself plays them again (`replay`) and what comes of it is kept. So whatever a `Trajectory` says is what
`env.reset(options={"index": i})` and `env.step(action)` give for the same actions, for whoever has them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from numpy.typing import NDArray

from hab import IDS
from hab.actions import SIZES, STOP, Action
from hab.episodes import SCENARIOS, Episode
from hab.objects import object_kind
from hab.scene import Scene
from hab.simulator import Simulator
from planner.task_planner import PlanStep
from skills import make_env

_OBSERVATION, _ACTION = "observation/", "action/"


class ReplayError(RuntimeError):
    """The same actions did not lead to the same states; the message is one line."""


@dataclass(frozen=True)
class Told:
    """Which episode it was, who played it, and what came of it: all that is no array."""

    name: str
    """A scenario or a skill."""
    agent: str
    """"oracle", "zoo", a folder of runs, or "teleoperation"."""
    split: str
    index: int
    base_movement: bool
    tasks: tuple[str, ...]
    """What was to be done, in words, one for each call of a skill."""
    success: bool
    reason: str
    """Why it did not succeed; "" if it did."""


@dataclass(frozen=True)
class Played:
    """What an agent did, T control steps long."""

    told: Told
    actions: Action
    """(T, size) by the environment's action parts."""
    task: NDArray[np.int32]
    """(T,) which of `told.tasks` it was at."""
    interactions: NDArray[np.int32]
    """(T,) how many interactions had been achieved after the step."""
    robot: NDArray[np.float64]
    """(T, 10) base x, y (m) and yaw (rad) in the world, arm joints (rad), after the step."""

    def __len__(self) -> int:
        return len(self.task)


@dataclass(frozen=True)
class Trajectory:
    """… and what its environment showed: T + 1 observations, the first before any action."""

    played: Played
    observations: dict[str, NDArray[np.float32]]
    """(T + 1, …) by the environment's keys."""
    rewards: NDArray[np.float64]
    terminated: NDArray[np.bool_]
    truncated: NDArray[np.bool_]
    """The last step is one of the two: where the agent was at its end and the environment was not, truncated."""
    start: NDArray[np.float64]
    """(10,) where the robot stood before the first action, as in `played.robot`."""

    def save(self, path: Path) -> None:
        """Write it as one NumPy archive, which is there only when it is complete."""
        played = self.played
        arrays: dict[str, Any] = {"told": np.array(json.dumps(asdict(played.told)))}
        arrays |= {f"{_ACTION}{part}": values for part, values in played.actions.items()}
        arrays |= {f"{_OBSERVATION}{key}": values for key, values in self.observations.items()}
        arrays |= {"task": played.task, "interactions": played.interactions, "robot": played.robot}
        arrays |= {"rewards": self.rewards, "terminated": self.terminated, "truncated": self.truncated}
        arrays["start"] = self.start
        path.parent.mkdir(parents=True, exist_ok=True)
        part = path.with_name(f".{path.stem}.part.npz")
        try:
            np.savez_compressed(part, **arrays)
        except BaseException:
            part.unlink(missing_ok=True)
            raise
        part.replace(path)

    @classmethod
    def load(cls, path: Path) -> Trajectory:
        """Read what `save` wrote. Raises OSError, ValueError or KeyError for any other file."""
        with np.load(path) as file:
            arrays = dict(file)
        told = told_of(arrays["told"])

        def named(prefix: str) -> dict[str, Any]:
            return {key.removeprefix(prefix): values for key, values in arrays.items() if key.startswith(prefix)}

        played = Played(told, named(_ACTION), arrays["task"], arrays["interactions"], arrays["robot"])
        return cls(
            played, named(_OBSERVATION), arrays["rewards"], arrays["terminated"], arrays["truncated"], arrays["start"]
        )


def told_of(text: NDArray[np.str_]) -> Told:
    """Return what a saved trajectory says of itself."""
    said = json.loads(str(text))
    return Told(**{**said, "tasks": tuple(said["tasks"])})


class Log:
    """Writes down what an agent does; its methods are what `planner.agent.play_episode` calls."""

    def __init__(self, sim: Simulator, parts: Sequence[str]) -> None:
        """`parts`: of the environment's action space; a part that an agent does not use is zero there."""
        self._sim, self._parts = sim, parts
        self._tasks: list[str] = []
        self._rows: list[tuple[Action, int, int, NDArray[np.float64]]] = []

    def on_call(self, label: str, step: PlanStep) -> None:
        """Take note of a call of a skill that begins."""
        self._tasks.append(in_words(step, self._sim.episode, self._sim.scene))

    def on_step(self, call: int, action: Action, done: Sequence[bool]) -> None:
        """Take note of a control step that has been played."""
        sim = self._sim
        self._rows.append((action, len(self._tasks) - 1, sum(done), np.concatenate((sim.base, sim.arm))))

    def played(
        self, name: str, agent: str, split: str, index: int, base_movement: bool, success: bool, reason: str
    ) -> Played:
        """Return all that was noted."""
        zeros = {part: np.zeros(SIZES[part], np.float32) for part in self._parts}
        actions = {
            part: np.array([row[0].get(part, zero) for row in self._rows], np.float32).reshape(-1, SIZES[part])
            for part, zero in zeros.items()
        }
        if name in SCENARIOS:
            # A skill's stop is a word from the skill to the chain; the whole task's would end the episode.
            actions[STOP] = np.zeros_like(actions[STOP])
        told = Told(name, agent, split, index, base_movement, tuple(self._tasks), success, reason)
        task, done = (np.array([row[i] for row in self._rows], np.int32) for i in (1, 2))
        return Played(told, actions, task, done, np.array([row[3] for row in self._rows]).reshape(-1, 10))


def environment(name: str, split: str, obs: str, base_movement: bool) -> gymnasium.Env[Any, Any]:
    """Return the Gymnasium environment that a scenario's or a skill's trajectories are of."""
    if name in SCENARIOS:
        return gymnasium.make(IDS[name], split=split, obs=obs, disable_env_checker=True)
    return make_env(name, split=split, obs=obs, base_movement=base_movement)


def replay(played: Played, obs: str) -> Trajectory:
    """Play actions again in their environment, to its end or theirs. Raises `ReplayError` if it goes another way.

    What came of it is what is told, unless the environment's time is out before: whoever played may have had more.
    """
    told = played.told
    if not len(played):
        raise ReplayError(f"{told.name}, {told.split} episode {told.index}: ended before its first step")
    env = environment(told.name, told.split, obs, told.base_movement)
    sim: Simulator = env.unwrapped.sim  # type: ignore[attr-defined]
    shown: list[dict[str, NDArray[np.float32]]] = []
    paid: list[tuple[float, bool, bool]] = []
    try:
        shown.append(env.reset(seed=0, options={"index": told.index})[0])
        start = np.concatenate((sim.base, sim.arm))
        for step in range(len(played)):
            observation, reward, terminated, truncated, _ = env.step(
                {part: values[step] for part, values in played.actions.items()}
            )
            shown.append(observation)
            paid.append((float(reward), terminated, truncated or (step + 1 == len(played) and not terminated)))
            if not np.array_equal(np.concatenate((sim.base, sim.arm)), played.robot[step]):
                raise ReplayError(f"{told.name}, {told.split} episode {told.index}: step {step} went another way")
            if terminated or truncated:
                if truncated and step + 1 < len(played):
                    told = replace(told, success=False, reason="timeout")
                break
    finally:
        env.close()
    steps = len(paid)
    kept = Played(
        told,
        {part: values[:steps] for part, values in played.actions.items()},
        played.task[:steps],
        played.interactions[:steps],
        played.robot[:steps],
    )
    rewards, terminated_at, truncated_at = zip(*paid, strict=True)
    return Trajectory(
        kept,
        {key: np.stack([observation[key] for observation in shown]) for key in shown[0]},
        np.array(rewards),
        np.array(terminated_at),
        np.array(truncated_at),
        start,
    )


def in_words(step: PlanStep, episode: Episode, scene: Scene) -> str:
    """Say what a call of a skill is to do, as one would tell a person: "put the apple on the table"."""
    goal, skill = step.goal, step.skill
    thing = re.sub(r"^[^_]*_", "", object_kind(goal.object)).replace("_", " ") if goal.object else ""
    furniture = scene.articulation(goal.articulation).kind if goal.articulation else ""
    target = next((target for target in episode.targets if target.object == goal.object), None)
    if skill == "navigate":
        if furniture:
            return f"go to the {_of_furniture(furniture)}"
        if target and goal.position == target.goal_pos:
            return f"take the {thing} to the {_of_furniture(scene.receptacle(target.goal_receptacle).kind)}"
        return f"go to the {thing}" if thing else "go to the goal"
    if skill == "pick":
        return f"pick up the {thing}"
    if skill in ("place", "rearrange"):
        kind = scene.receptacle(target.goal_receptacle).kind if target else ""
        where = (
            f"{'into' if kind in ('fridge', 'drawer') else 'on'} the {_of_furniture(kind)}" if kind else "at its goal"
        )
        return f"put the {thing} {where}"
    if furniture:
        return f"{skill.split('_')[0]} the {_of_furniture(furniture)}"
    return skill.replace("_", " ")


def _of_furniture(kind: str) -> str:
    return {"cabinet": "drawer", "tv_bench": "TV bench"}.get(kind, kind.replace("_", " "))
