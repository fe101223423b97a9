"""The dependency set holds together, and the wheel holds what the code reads."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]


def test_installed_distributions_agree() -> None:
    """All but habitat-lab, whose pins contradict habitat-sim's (requirements-habitat.txt), and lerobot (likewise)."""
    checked = subprocess.run([sys.executable, "-m", "pip", "check"], capture_output=True, text=True)
    complaints = [line for line in checked.stdout.splitlines() if not line.startswith(("habitat-lab ", "lerobot "))]
    assert complaints in ([], ["No broken requirements found."])


def test_hydra_and_pddlpy_live_in_one_process(tmp_path: Path) -> None:
    """They parse with antlr4 grammars of one runtime version: hydra-core 1.3 and pddlpy 1.2 could not."""
    from hydra import compose, initialize_config_module
    from pddlpy import DomainProblem

    with initialize_config_module("configs"):
        assert compose("eval", overrides=["video.fps=7"]).video.fps == 7
    domain, problem = tmp_path / "domain.pddl", tmp_path / "problem.pddl"
    domain.write_text((ROOT / "planner" / "domain.pddl").read_text())
    problem.write_text("(define (problem p) (:domain home_rearrangement) (:objects r - robot) (:init) (:goal (and)))")
    assert set(DomainProblem(str(domain), str(problem)).operators()) >= {"nav", "pick", "place", "open_cab"}


def test_constraints_satisfy_the_declared_ranges() -> None:
    pinned = dict(
        line.split("==") for line in (ROOT / "constraints.txt").read_text().split("\n") if line and line[0] != "#"
    )
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    tested = ("dev", "rerun", "habitat", "watch", "minari", "lerobot-parts", "docs")
    for text in project["dependencies"] + [text for extra in tested for text in extras[extra]]:
        requirement = Requirement(text)
        version = pinned[requirement.name.lower()]
        assert requirement.specifier.contains(version, prereleases=True), f"{text} but {version} in constraints.txt"


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    ignored = shutil.ignore_patterns(".git", ".venv", "outputs", "build", "*.egg-info", "__pycache__", ".*_cache")
    shutil.copytree(ROOT, source, ignore=ignored)
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        str(source),
        "--no-deps",
        "--no-build-isolation",
        "-w",
        str(folder),
    ]
    built = subprocess.run(command, capture_output=True, text=True)
    assert built.returncode == 0, built.stderr
    (wheel,) = folder.glob("tpsrl-*.whl")
    return wheel


def test_wheel_holds_code_and_data(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    assert {"configs/eval.yaml", "planner/domain.pddl", "tpsrl/cli.py", "hab/mujoco/build.py"} <= names
    assert not any(name.startswith(("tests/", "benchmarks/")) for name in names)


@pytest.mark.parametrize(
    "make",
    [
        "import tpsrl; env = gymnasium.make('tpsrl/Pick-v0')",
        pytest.param("env = gymnasium.make('tpsrl:tpsrl/Pick-v0')", marks=pytest.mark.slow),
    ],
)
def test_gymnasium_makes_the_installed_environments(wheel: Path, tmp_path: Path, make: str) -> None:
    """From the wheel alone, elsewhere, without loading what learns, and without a warning."""
    installed = tmp_path / "installed"
    zipfile.ZipFile(wheel).extractall(installed)
    script = f"""
import sys
sys.path.insert(0, {str(installed)!r})
import gymnasium
{make}
assert sys.modules["skills"].__file__.startswith({str(installed)!r}), sys.modules["skills"].__file__
observation, info = env.reset(seed=0)
observation, reward, terminated, truncated, info = env.step(env.action_space.sample())
assert env.observation_space.contains(observation)
assert "torch" not in sys.modules
"""
    ran = subprocess.run(
        [sys.executable, "-W", "error::UserWarning", "-c", script], cwd=tmp_path, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    assert "already in registry" not in ran.stderr
