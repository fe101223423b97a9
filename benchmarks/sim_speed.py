"""How fast the embedded simulator is: control steps per second in Tidy House under random actions.

The same run measures what the steps are made of, chunk by chunk in turn: bare physics (`mj_step` with the very same
controls, from the very same state), the laser's rays on those states, and bare rendering. `python benchmarks/sim_speed.py`
prints a table; `--json FILE` writes the figures, `--quick` takes a few seconds instead of a minute.
"""

from __future__ import annotations

import argparse
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
from hab import robot
from hab.actions import CONTROL_HZ, PHYSICS_HZ
from hab.mujoco.render import RenderingUnavailable
from hab.mujoco.simulator import MujocoSimulator

CHUNK = 150
"""Control steps after which the contenders take turns."""
TARGETS = {
    "laser control_steps_per_s": ">= 2000",
    "laser python_overhead": "<= 0.25",
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


def measure_laser(chunks: int) -> dict[str, float]:
    """Steps of the whole environment, and of `mj_step` and `mj_multiRay` alone on the same states."""
    env = make("laser")
    sim: MujocoSimulator = env.unwrapped.sim  # type: ignore[attr-defined]
    env_s, physics_s, rays_s = [], [], []
    for seed in range(-1, chunks):
        env.reset()
        bare_model, bare = copies(sim)
        actions, controls = random_actions(env, seed + 1), []

        def step(action: dict[str, np.ndarray], controls: list[np.ndarray] = controls) -> None:
            env.step(action)
            controls.append(sim.data.ctrl.copy())

        whole = timed(step, actions) - timed(lambda _, keep=[]: keep.append(sim.data.ctrl.copy()), actions)
        physics, rays = bare_physics_and_rays(bare_model, bare, controls)
        if seed >= 0:  # the first chunk warms up
            env_s.append(whole)
            physics_s.append(physics)
            rays_s.append(rays)
    shares = [(p + r) / e for p, r, e in zip(physics_s, rays_s, env_s, strict=True)]
    return {
        "control_steps_per_s": CHUNK / statistics.median(env_s),
        "bare_physics_steps_per_s": CHUNK / statistics.median(physics_s),
        "python_overhead": 1.0 - statistics.median(shares),
    }


def copies(sim: MujocoSimulator) -> tuple[mujoco.MjModel, mujoco.MjData]:
    """The simulator's model and state, to be stepped without it."""
    model = sim.model.__copy__()
    data = mujoco.MjData(model)
    mujoco.mj_copyData(data, model, sim.data)
    return model, data


def bare_physics_and_rays(
    model: mujoco.MjModel, data: mujoco.MjData, controls: list[np.ndarray]
) -> tuple[float, float]:
    """Seconds in `mj_step` (a control step is four) and in `mj_multiRay`, called directly."""
    angles = np.linspace(-0.5, 0.5, robot.LASER_RAYS) * robot.LASER_FOV_RAD
    origin, rays = np.zeros(3), np.zeros((robot.LASER_RAYS, 3))
    ranges, geoms = np.zeros(robot.LASER_RAYS), np.zeros(robot.LASER_RAYS, np.int32)
    groups, flat = np.array([1, 0, 0, 0, 0, 0], np.uint8), rays.reshape(-1)
    base = data.qpos[model.joint("fetch/robot0:base_x").qposadr[0] :][:3]
    physics = ray_casting = 0.0
    for control in controls:
        data.ctrl[:] = control
        start = time.perf_counter()
        mujoco.mj_step(model, data, PHYSICS_HZ // CONTROL_HZ)
        physics += time.perf_counter() - start
        x, y, yaw = base
        origin[:] = x + robot.LASER_POS[0] * np.cos(yaw), y + robot.LASER_POS[0] * np.sin(yaw), robot.LASER_POS[2]
        rays[:, 0], rays[:, 1] = np.cos(angles + yaw), np.sin(angles + yaw)
        start = time.perf_counter()
        mujoco.mj_multiRay(
            model, data, origin, flat, groups, True, -1, geoms, ranges, None, robot.LASER_RAYS, robot.LASER_MAX_M
        )
        ray_casting += time.perf_counter() - start
    return physics, ray_casting


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
    results: dict[str, Any] = {"laser": measure_laser(chunks)}
    try:
        depth = measure_depth(chunks)
        depth["control_steps_per_s_two_processes"], depth["env_process_rss_mb"] = measure_two_depth_processes(chunks)
        results["depth"] = depth
    except RenderingUnavailable as error:
        print(error)
        results["depth"] = {"control_steps_per_s": None, "bare_render_fps": None}
    results["reset_ms"] = measure_reset_ms(12)
    results["env_process_rss_mb"] = measure_memory()
    return results


def print_table(results: dict[str, Any]) -> None:
    rows = {
        f"{group} {key}": value for group in ("laser", "depth") for key, value in results[group].items()
    } | {key: results[key] for key in ("reset_ms", "env_process_rss_mb")}
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
