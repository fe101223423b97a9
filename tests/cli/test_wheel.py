"""The wheel holds all that the commands need: they run from it, in another folder."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the wheel from the files that git knows, in a folder of its own."""
    folder = tmp_path_factory.mktemp("wheel")
    listed = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, check=False)
    if listed.returncode:
        pytest.skip("needs a git checkout")
    for name in listed.stdout.decode().split("\0"):
        source = ROOT / name
        if name and source.is_file() and not name.startswith(("tests/", "docs/", "benchmarks/")):
            copy = folder / "source" / name
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.symlink_to(source)
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder)]
    subprocess.run([*pip, str(folder / "source")], check=True)
    return next(folder.glob("*.whl"))


@pytest.mark.slow  # numba compiles everything anew there; tests/test_packaging.py looks into the wheel in any case
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["doctor"], "mujoco: works"),
        (["eval", "pick", "--episodes", "1"], "pick"),
        (["eval", "tidy_house", "--episodes", "1", "--replan", "sensed", "chain.episode_steps=60"], "whole task"),
        (["train-skill", "--help"], "--resume"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_commands_run_from_the_wheel(wheel: Path, tmp_path: Path, arguments: list[str], said: str) -> None:
    unpacked = wheel.parent / "unpacked"
    if not unpacked.exists():
        zipfile.ZipFile(wheel).extractall(unpacked)
    # Before the checkout's own packages on the path, so that a file that the wheel lacks is missed.
    run = (
        "import sys, tpsrl, hab, skills, planner, eval, videos, configs, ver_core\n"
        f"for package in (tpsrl, hab, skills, planner, eval, videos, configs, ver_core):\n"
        f"    assert package.__file__.startswith({str(unpacked)!r}), package.__file__\n"
        "from tpsrl.cli import main\nmain()"
    )
    environment = {**os.environ, "PYTHONPATH": str(unpacked)}
    done = subprocess.run(
        [sys.executable, "-c", run, *arguments],
        cwd=tmp_path, env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert said in done.stdout
