"""Both simulators on the same episodes: readings compared, control steps per second, frames side by side.

Needs habitat-sim. Each simulator draws in a process of its own. Writes docs/habitat_side_by_side.png.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import imageio.v3 as imageio
import numpy as np
from numpy.typing import NDArray

from hab import robot
from hab.actions import SIZES
from hab.backend import make_simulator
from hab.episodes import make_episode
from hab.habitat import lab

POSES, STEPS, FRAMES, NAVIGATED = 60, 300, 3, 40
PICTURE = Path(__file__).parent.parent / "docs" / "habitat_side_by_side.png"
SENSORS = {"none": (), "laser": ("laser", "head_scan"), "depth": ("depth",)}


def main() -> None:
    if reason := lab.missing():
        print(f"benchmarks/simulators.py: left out: {reason}")
        return
    if len(sys.argv) == 3:
        np.savez(sys.argv[2], **measure(sys.argv[1]))
        return
    read: dict[str, dict[str, NDArray[np.float64]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in ("mujoco", "habitat"):
            file = Path(folder) / f"{name}.npz"
            done = subprocess.run([sys.executable, __file__, name, str(file)], stderr=subprocess.PIPE, text=True)
            if done.returncode:
                raise SystemExit(f"benchmarks/simulators.py: {name}: {done.stderr[-2000:]}")
            read[name] = dict(np.load(file))
    ours, theirs = read["mujoco"], read["habitat"]
    report(ours, theirs)
    rows = [np.concatenate([a, b], axis=1) for a, b in zip(ours["frames"], theirs["frames"], strict=True)]
    imageio.imwrite(PICTURE, np.concatenate(rows))
    print(f"frames side by side (left: MuJoCo): {PICTURE}")


def measure(name: str) -> dict[str, Any]:
    """Read the sensors at poses of val episodes, film some, and time control steps."""
    sim = make_simulator(name, films=True)
    rng = np.random.default_rng(0)
    read: dict[str, list[Any]] = {key: [] for key in ("depth", "laser", "head_scan", "ee", "geodesic", "frames")}
    for i in range(POSES):
        sim.reset(make_episode("tidy_house", "val", i % 10))
        start, end = sim.nav.sample(rng), sim.nav.sample(rng)
        q = robot.REST_Q if i % 2 else rng.uniform(robot.Q_MIN, robot.Q_MAX)
        sim.place_robot(np.array([*start, rng.uniform(-3, 3)]), q)
        read["laser"].append(sim.laser())
        read["head_scan"].append(sim.head_scan())
        read["depth"].append(sim.depth())
        read["ee"].append(sim.ee_pos)
        where = sim.nav.cell(*start)
        field = sim.nav.distance_field(end)
        read["geodesic"].append(sim.geodesic_distance(start, end) if name == "habitat" else field[where])  # type: ignore[attr-defined]
        if i < 2 * FRAMES and i % 2:
            read["frames"].append(sim.render_rgb(480, 360))
    if name == "habitat":
        read["navigated"] = navigate()
    speeds = {f"speed_{sensors}": speed(sim, keys) for sensors, keys in SENSORS.items()}
    return {key: np.array(value) for key, value in {**read, **speeds}.items()}


def navigate() -> list[bool]:
    """Return in which of habitat-lab's own nav_to_obj episodes its path finder's way led to success."""
    from hab.habitat.export import export
    from hab.habitat.follower import PathFollower
    from hab.habitat.task import HabitatTask

    successes = []
    with tempfile.TemporaryDirectory() as folder:
        export(Path(folder), "val", scenes=4, episodes=NAVIGATED)
        env = HabitatTask("navigate", Path(folder))
        for i in range(NAVIGATED):
            env.reset(seed=i, options={"index": i})
            follower = PathFollower(env.habitat.sim, tuple(map(float, env.habitat.task.nav_goal_pos)))  # type: ignore[arg-type]
            done, info = False, {}
            while not done:
                *_, terminated, truncated, info = env.step(follower.action())
                done = terminated or truncated
            successes.append(bool(info["success"]))
        env.close()
    return successes


def speed(sim: Any, sensors: tuple[str, ...]) -> float:
    """Return control steps per second of random actions, reading these sensors at each."""
    sim.reset(make_episode("tidy_house", "val", 0))
    rng = np.random.default_rng(0)
    actions = [{part: rng.uniform(-1, 1, n).astype(np.float32) for part, n in SIZES.items()} for _ in range(STEPS)]
    begun = time.perf_counter()
    for action in actions:
        sim.step(action)
        for sensor in sensors:
            getattr(sim, sensor)()
    return STEPS / (time.perf_counter() - begun)


def report(ours: dict[str, NDArray[np.float64]], theirs: dict[str, NDArray[np.float64]]) -> None:
    import habitat_sim

    print(f"mujoco and habitat-sim {habitat_sim.__version__}, {POSES} poses in 10 val apartments, seed 0")
    depth_m = np.abs(ours["depth"] - theirs["depth"]) * robot.DEPTH_MAX_M
    for arm, images in (("at rest", depth_m[1::2]), ("anywhere", depth_m[::2])):
        print(
            f"depth, arm {arm}: median error {1000 * np.median(images):.3f} mm, "
            f"within 5 cm {100 * np.mean(images < 0.05):.1f} % of pixels"
        )
    for key, metres in (("laser", robot.LASER_MAX_M), ("head_scan", robot.HEAD_SCAN_MAX_M)):
        off = np.abs(ours[key] - theirs[key]) * metres
        print(f"{key}: median error {1000 * np.median(off):.4f} mm, 99 % within {1000 * np.quantile(off, 0.99):.2f} mm")
    print(f"end effector: at most {1000 * np.abs(ours['ee'] - theirs['ee']).max():.4f} mm apart")
    off = (ours["geodesic"] - theirs["geodesic"]) / np.maximum(theirs["geodesic"], 1.0)
    print(f"geodesic distance: {100 * np.median(off):+.1f} % in the median, {100 * np.abs(off).max():.1f} % at most")
    print(f"habitat-lab's nav_to_obj, its path finder: {int(theirs['navigated'].sum())} of {NAVIGATED} episodes")
    for sensors in SENSORS:
        a, b = float(ours[f"speed_{sensors}"]), float(theirs[f"speed_{sensors}"])
        print(f"control steps/s, sensors {sensors}: mujoco {a:,.0f}, habitat {b:,.0f}, ratio {a / b:.1f}")


if __name__ == "__main__":
    main()
