"""The two simulators side by side: the same apartment and robot pose give the same readings.

Each draws in a process of its own: habitat-sim's OpenGL does not get on with another in the same one.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from hab import robot
from hab.habitat import lab
from hab.habitat.played import CACHE_VARIABLE

pytestmark = pytest.mark.skipif(bool(lab.missing()), reason=lab.missing())

POSES = 12
READ = f"""
import sys
import numpy as np
from hab import robot
from hab.backend import make_simulator
from hab.episodes import make_episode

sim = make_simulator(sys.argv[1])
rng = np.random.default_rng(0)
read = {{"depth": [], "laser": [], "head_scan": [], "ee": [], "target": [], "pairs": [], "geodesic": []}}
for i in range({POSES}):
    sim.reset(make_episode("tidy_house", "val", i % 3))
    x, y = sim.nav.sample(rng)
    base = np.array([x, y, rng.uniform(-3, 3)])
    q = robot.REST_Q if i % 2 else rng.uniform(robot.Q_MIN, robot.Q_MAX)
    end = sim.nav.sample(rng)
    sim.place_robot(base, q)
    read["laser"].append(sim.laser())
    read["head_scan"].append(sim.head_scan())
    read["depth"].append(sim.depth())
    read["ee"].append(sim.ee_pos)
    pair = ((x, y), end)
    read["pairs"].append(pair)
    # The embedded grid keeps 30 cm from things, as habitat's mesh does; both are made without what can be moved.
    read["geodesic"].append(
        sim.geodesic_distance(*pair) if sys.argv[1] == "habitat" else sim.nav.distance_field(end)[sim.nav.cell(x, y)]
    )
np.savez(sys.argv[2], **{{key: np.array(value) for key, value in read.items()}})
"""


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, NDArray[np.float64]]]:
    folder: Path = tmp_path_factory.mktemp("parity")
    read = {}
    for name in ("mujoco", "habitat"):
        file = folder / f"{name}.npz"
        done = subprocess.run(
            [sys.executable, "-c", READ, name, str(file)],
            env={**os.environ, CACHE_VARIABLE: str(folder / "cache")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        read[name] = dict(np.load(file))
    return read


def test_depth_images_agree(both: dict[str, dict[str, NDArray[np.float64]]]) -> None:
    """Median error under 1 mm and 96 % of pixels within 5 cm: meshes and primitives of the arm differ, and edges."""
    off_m = np.abs(both["mujoco"]["depth"] - both["habitat"]["depth"]) * robot.DEPTH_MAX_M
    assert np.median(off_m) < 1e-3
    at_rest = off_m[1::2]  # the arm elsewhere may fill the picture with its thicker primitives
    assert np.mean(at_rest < 0.05) > 0.96
    assert np.ptp(both["mujoco"]["depth"][1::2], axis=(1, 2)).min() > 0.05, "there is something to see"


@pytest.mark.parametrize(("key", "share"), [("laser", 0.98), ("head_scan", 0.9)])
def test_ranges_agree(both: dict[str, dict[str, NDArray[np.float64]]], key: str, share: float) -> None:
    """habitat-sim's rays meet what collides, and so no plants, which the head's rays see in MuJoCo."""
    off = np.abs(both["mujoco"][key] - both["habitat"][key])[1::2]  # the arm elsewhere: below
    assert np.mean(off < 0.002) > share
    assert np.median(off) < 1e-5


def test_the_arm_hides_what_is_behind_it(both: dict[str, dict[str, NDArray[np.float64]]]) -> None:
    """In habitat-sim a little more of it: its arm is of meshes."""
    unknown = both["mujoco"]["head_scan"] == robot.UNKNOWN_RANGE
    assert unknown.any()
    assert np.mean(both["habitat"]["head_scan"][unknown] == robot.UNKNOWN_RANGE) > 0.95


def test_joints_reach_the_same_place(both: dict[str, dict[str, NDArray[np.float64]]]) -> None:
    assert np.abs(both["mujoco"]["ee"] - both["habitat"]["ee"]).max() < 1e-3


def test_geodesic_distances_agree(both: dict[str, dict[str, NDArray[np.float64]]]) -> None:
    """Within 5 % and 0.2 m: a grid's paths have eight directions, a navigation mesh's have all."""
    ours, theirs = both["mujoco"]["geodesic"], both["habitat"]["geodesic"]
    assert np.array_equal(both["mujoco"]["pairs"], both["habitat"]["pairs"])
    assert np.isfinite(theirs).all()
    assert np.abs(ours - theirs).max() < 0.2 + 0.09 * theirs.max()
    assert np.median(np.abs(ours - theirs) / np.maximum(theirs, 1.0)) < 0.06
