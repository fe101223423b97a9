"""How fast the embedded simulator is: control steps per second in Tidy House, decisions per second in skills, under
random actions.

Tidy House: the same run measures bare physics (`mj_step` with the very same controls, from the very same state) and
bare rendering, chunk by chunk in turn, and within the steps how much time MuJoCo's physics and the rays take: the rest
is Python's. Skills: a decision is an action held for three control steps and one observation; the shares are of the
time of stepping alone, and resets are told apart. `python benchmarks/sim_speed.py` prints a table; `--json FILE` writes
the figures, `--quick` takes 20 seconds instead of two minutes.
"""

from __future__ import annotations

import argparse
import copy
import json
import multiprocessing
import statistics
import time
from collections.abc import Callable, Iterable
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

import gymnasium
import mujoco
import numpy as np

import hab  # noqa: F401 - registers the environments
from hab.actions import CONTROL_HZ, PHYSICS_HZ
from hab.mujoco.rays import RangeSensors
from hab.mujoco.render import HeadCamera, RenderingUnavailable
from hab.mujoco.simulator import MujocoSimulator
from hab.observation_sets import DEPTH, LASER
from skills import make_env

CHUNK = 150
"""Control steps after which the contenders take turns."""
ACTION_REPEAT = 3
SKILLS = ("pick", "navigate", "open_fridge")
TARGETS = {
    "laser control_steps_per_s": ">= 2000",
    "laser python_overhead": "<= 0.15",
    "depth control_steps_per_s_two_processes": ">= 500",
    "reset_ms": "<= 50",
}


def make(obs: str, index: int = 0) -> gymnasium.Env[Any, Any]:
    env = gymnasium.make("tpsrl/TidyHouse-v0", split="val", obs=obs, index=index)
    env.reset(seed=0)
    return env


def random_actions(env: gymnasium.Env[Any, Any], seed: int) -> list[dict[str, np.ndarray]]:
    """One chunk of actions; stop is never called."""
    env.action_space.seed(seed)
    actions = [env.action_space.sample() for _ in range(CHUNK)]
    for action in actions:
        action["rearrange_stop"][:] = -1.0
    return actions


def timed(work: Callable[[Any], object], items: Iterable[Any]) -> float:
    """Seconds that `work` takes on all items."""
    start = time.perf_counter()
    for item in items:
        work(item)
    return time.perf_counter() - start


class Stopwatch:
    """Times functions where they are called, by part: MuJoCo's and the range sensors'."""

    PARTS: dict[str, tuple[tuple[Any, str], ...]] = {
        "physics": ((mujoco, "mj_step"), (mujoco, "mj_kinematics")),
        "ranges": ((RangeSensors, "laser"), (RangeSensors, "head_scan")),
        "rendering": ((HeadCamera, "depth"),),
    }

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(self.PARTS, 0.0)
        self._originals: list[tuple[Any, str, Any]] = []

    def __enter__(self) -> Stopwatch:
        for part, functions in self.PARTS.items():
            for owner, name in functions:
                original = getattr(owner, name)
                self._originals.append((owner, name, original))
                setattr(owner, name, self._watched(part, original))
        return self

    def __exit__(self, *_: object) -> None:
        for owner, name, original in self._originals:
            setattr(owner, name, original)

    def _watched(self, part: str, function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any) -> Any:
            start = time.perf_counter()
            answer = function(*arguments)
            self.seconds[part] += time.perf_counter() - start
            return answer

        return call


def measure_laser(chunks: int) -> dict[str, float]:
    """Steps of the whole environment, and physics alone from the same state with the same controls."""
    env = make("laser")
    sim: MujocoSimulator = env.unwrapped.sim  # type: ignore[attr-defined]
    env_s, physics_s, python_shares = [], [], []
    for seed in range(-1, chunks):
        actions = random_actions(env, seed + 1)
        env.reset()
        model, data = copies(sim)
        whole = timed(env.step, actions)
        env.reset()
        with Stopwatch() as watch:
            watched = timed(env.step, actions)
        env.reset()
        physics = bare_physics(model, data, [stepped(env, action) for action in actions])
        if seed >= 0:  # the first chunk warms up
            env_s.append(whole)
            physics_s.append(physics)
            python_shares.append(1.0 - sum(watch.seconds.values()) / watched)
    return {
        "control_steps_per_s": CHUNK / statistics.median(env_s),
        "bare_physics_steps_per_s": CHUNK / statistics.median(physics_s),
        "python_overhead": statistics.median(python_shares),
    }


def measure_skill(skill: str, obs: str, chunks: int) -> dict[str, float]:
    """Decisions of a skill's task, shares of a decision's time by part, and what resets take of all."""
    env = make_env(skill, "train", obs=obs, action_repeat=ACTION_REPEAT)
    env.reset(seed=0)
    env.action_space.seed(0)
    actions = [env.action_space.sample() for _ in range(CHUNK)]
    for action in actions:
        if "rearrange_stop" in action:
            action["rearrange_stop"][:] = -1.0
    rates, reset_shares, shares = [], [], []
    for number in range(-1, chunks):
        env.reset(seed=max(0, number))
        step_s = reset_s = 0.0
        for action in actions:
            start = time.perf_counter()
            *_, terminated, truncated, _ = env.step(action)
            step_s += time.perf_counter() - start
            if terminated or truncated:
                start = time.perf_counter()
                env.reset()
                reset_s += time.perf_counter() - start
        env.reset(seed=max(0, number))
        with Stopwatch() as watch:
            watched = 0.0
            for action in actions:
                start = time.perf_counter()
                *_, terminated, truncated, _ = env.step(action)
                watched += time.perf_counter() - start
                if terminated or truncated:
                    break
        if number >= 0:  # the first chunk warms up
            rates.append(CHUNK / step_s)
            reset_shares.append(reset_s / (step_s + reset_s))
            shares.append({part: seconds / watched for part, seconds in watch.seconds.items()})
    env.close()
    parts = {f"{part}_share": statistics.median(share[part] for share in shares) for part in Stopwatch.PARTS}
    return {
        "decisions_per_s": statistics.median(rates),
        **parts,
        "python_share": 1.0 - sum(parts.values()),
        "reset_share_of_all": statistics.mean(reset_shares),
    }


def stepped(env: gymnasium.Env[Any, Any], action: dict[str, np.ndarray]) -> np.ndarray:
    """Step, and return the controls that the simulator set."""
    env.step(action)
    return env.unwrapped.sim.data.ctrl.copy()  # type: ignore[attr-defined]


def copies(sim: MujocoSimulator) -> tuple[mujoco.MjModel, mujoco.MjData]:
    """The simulator's model and state, to be stepped without it."""
    model = copy.copy(sim.model)
    data = mujoco.MjData(model)
    mujoco.mj_copyData(data, model, sim.data)
    return model, data


def bare_physics(model: mujoco.MjModel, data: mujoco.MjData, controls: list[np.ndarray]) -> float:
    """Seconds in which `mj_step` does as many control steps: four of its own each."""

    def step(control: np.ndarray) -> None:
        data.ctrl[:] = control
        mujoco.mj_step(model, data, PHYSICS_HZ // CONTROL_HZ)

    return timed(step, controls)


def measure_depth(chunks: int) -> dict[str, float]:
    """Steps of the whole environment with the head camera, and frames of the camera alone on the same states."""
    env = make("depth")
    sim: MujocoSimulator = env.unwrapped.sim  # type: ignore[attr-defined]
    camera = sim._head
    assert camera is not None
    env_s, render_s = [], []
    for seed in range(-1, chunks):
        env.reset()
        states: list[np.ndarray] = []
        whole = 0.0
        for action in random_actions(env, seed + 1):
            whole += timed(env.step, [action])
            states.append(sim.data.qpos.copy())
        model, data = copies(sim)
        drawn = 0.0
        for qpos in states:
            data.qpos[:] = qpos
            mujoco.mj_kinematics(model, data)
            mujoco.mj_camlight(model, data)
            drawn += timed(camera.depth, [data])
        if seed >= 0:
            env_s.append(whole)
            render_s.append(drawn)
    env.close()
    return {
        "control_steps_per_s": CHUNK / statistics.median(env_s),
        "bare_render_fps": CHUNK / statistics.median(render_s),
    }


def _depth_worker(barrier: Barrier, chunks: int, answers: Any) -> None:
    env = make("depth")
    for action in random_actions(env, 0):
        env.step(action)
    barrier.wait()
    seconds = []
    for seed in range(chunks):
        env.reset()
        seconds.append(timed(env.step, random_actions(env, seed + 1)))
    answers.put((CHUNK / statistics.median(seconds), rss_mb()))


def measure_two_depth_processes(chunks: int) -> tuple[float, float]:
    """Control steps per second of the slower of two processes at once, and the memory of one (MB)."""
    context = multiprocessing.get_context("spawn")
    barrier, answers = context.Barrier(2), context.Queue()
    workers = [context.Process(target=_depth_worker, args=(barrier, chunks, answers)) for _ in range(2)]
    for worker in workers:
        worker.start()
    results = [answers.get(timeout=300) for _ in workers]
    for worker in workers:
        worker.join()
    return min(speed for speed, _ in results), max(memory for _, memory in results)


def _laser_worker(answers: Any) -> None:
    env = make("laser")
    for action in random_actions(env, 0):
        env.step(action)
    answers.put(rss_mb())


def measure_memory() -> float:
    """Resident memory (MB) of a process that runs one laser environment."""
    context = multiprocessing.get_context("spawn")
    answers = context.Queue()
    worker = context.Process(target=_laser_worker, args=(answers,))
    worker.start()
    memory = float(answers.get(timeout=300))
    worker.join()
    return memory


def rss_mb() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def measure_reset_ms(resets: int) -> float:
    """Milliseconds of a reset to another episode of the same apartment."""
    env = make("laser")
    seconds = [timed(lambda i: env.reset(options={"index": 20 * i}), [i]) for i in range(resets)]
    return 1e3 * statistics.median(seconds[1:])


def measure(quick: bool) -> dict[str, Any]:
    chunks = 5 if quick else 30
    results: dict[str, Any] = {"laser": measure_laser(chunks), "skills": {}}
    for skill in SKILLS:
        results["skills"][skill] = {LASER: measure_skill(skill, LASER, chunks)}
    try:
        depth = measure_depth(chunks)
        depth["control_steps_per_s_two_processes"], depth["env_process_rss_mb"] = measure_two_depth_processes(chunks)
        results["depth"] = depth
        results["skills"]["pick"][DEPTH] = measure_skill("pick", DEPTH, chunks)
    except RenderingUnavailable as error:
        print(error)
        results["depth"] = {"control_steps_per_s": None, "bare_render_fps": None}
    results["reset_ms"] = measure_reset_ms(12)
    results["env_process_rss_mb"] = measure_memory()
    return results


def print_table(results: dict[str, Any]) -> None:
    groups = {group: results[group] for group in ("laser", "depth")}
    groups |= {
        f"{skill}, {obs}:": figures for skill, sets in results["skills"].items() for obs, figures in sets.items()
    }
    rows = {f"{group} {key}": value for group, figures in groups.items() for key, value in figures.items()}
    rows |= {key: results[key] for key in ("reset_ms", "env_process_rss_mb")}
    for name, value in rows.items():
        figure = "-" if value is None else f"{value:,.2f}" if value < 10 else f"{value:,.0f}"
        print(f"{name:45} {figure:>10}  {TARGETS.get(name, '')}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    parser.add_argument("--quick", action="store_true", help="a few seconds instead of a minute")
    arguments = parser.parse_args()
    results = measure(arguments.quick)
    print_table(results)
    if arguments.json:
        arguments.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
