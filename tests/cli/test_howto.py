"""The skill and the object of the how-to pages, from outside of the package: read off the pages, installed and run."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from configs.schema import read_train_config
from hab.episodes import SCENARIOS, SPLITS, load_scene, make_episode
from hab.layout import generate_scene
from hab.objects import OBJECTS
from planner.zoo import ZooError, run_entry

ROOT = Path(__file__).parents[2]
PAGES = {page.stem: page.read_text(encoding="utf-8") for page in (ROOT / "docs" / "howto").glob("new_*.md")}
TINY = ["--steps", "128", "train.num_envs=2", "train.envs_per_worker=2", "train.rollout_length=32", "train.min_batch=1"]
TINY += ["train.sequence_length=16", "train.mini_batches=2", "train.learner_threads=1"]


def files_of(page: str) -> dict[str, str]:
    return dict(re.findall(r'^```\w+ title="(.+?)"\n(.*?)^```', PAGES[page], re.M | re.S))


def commands_of(page: str) -> list[list[str]]:
    (block,) = re.findall(r"^```bash\n(.*?)^```", PAGES[page], re.M | re.S)
    return [shlex.split(line) for line in block.splitlines()]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Both pages' packages, installed; and one that cannot be imported, which is to disturb nobody."""
    folder: Path = tmp_path_factory.mktemp("howto")
    for page in ("new_skill", "new_object"):
        for name, text in files_of(page).items():
            file = folder / page / name
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
    installed = folder / "site"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", "--no-index"]
    subprocess.run([*pip, "--target", installed, folder / "new_skill", folder / "new_object"], check=True)
    spoilt = installed / "spoilt-0.1.dist-info"
    spoilt.mkdir()
    (spoilt / "METADATA").write_text("Metadata-Version: 2.1\nName: spoilt\nVersion: 0.1\n")
    skills = "spoilt = no_such_package:Skill\nface_off = tpsrl_face.face:Face\n"
    (spoilt / "entry_points.txt").write_text(f"[tpsrl.skills]\n{skills}")
    return installed


def tpsrl(site: Path, cwd: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    path = os.pathsep.join(filter(None, (str(site), str(ROOT), os.environ.get("PYTHONPATH"))))
    return subprocess.run(
        [sys.executable, "-m", "tpsrl", *arguments],
        cwd=cwd, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, check=False,
    )  # fmt: skip


def success(site: Path, cwd: Path, command: list[str]) -> float:
    """The success rate that a page's `tpsrl eval` measures, over two episodes."""
    done = tpsrl(site, cwd, *command[1:], "--episodes", "2", "--json", "report.json")
    assert done.returncode == 0, done.stderr
    report = json.loads((cwd / "report.json").read_text())
    assert report["episodes"] == 2
    return float(report["success"])


def test_a_skill_from_outside_is_played_trained_and_evaluated(site: Path, tmp_path: Path) -> None:
    scripted, training, learnt = commands_of("new_skill")
    assert success(site, tmp_path, scripted) == 1.0
    trained = tpsrl(site, tmp_path, *training[1:], *TINY)
    assert trained.returncode == 0, trained.stderr
    assert "face (nav, laser): 128 of 128 steps" in trained.stdout
    config = read_train_config(tmp_path / "runs" / "face" / "config.yaml")
    assert (config.skill, config.action_repeat, config.train.target_entropy) == ("face", 6, -1.0)
    assert 0.0 <= success(site, tmp_path, learnt) <= 1.0
    with pytest.raises(ZooError, match="plays 'face', which is no skill here"):
        run_entry(tmp_path / "runs" / "face")


def test_an_object_from_outside_is_where_its_skill_puts_it(site: Path, tmp_path: Path) -> None:
    (command,) = commands_of("new_object")
    assert success(site, tmp_path, command) == 1.0
    report = json.loads((tmp_path / "report.json").read_text())
    assert "100_thermos" in json.dumps(report)


def test_an_object_from_outside_changes_no_episode(monkeypatch: pytest.MonkeyPatch) -> None:
    which = [(scenario, split, 41) for scenario in SCENARIOS for split in SPLITS]
    before = [make_episode(*each) for each in which]
    monkeypatch.setattr("hab.objects.OBJECTS", dict(OBJECTS))
    (line,) = re.findall(r"^OBJECTS\[.*$", files_of("new_object")["tpsrl_thermos/__init__.py"], re.M)
    exec(f"from hab.objects import OBJECTS, can\n{line}", {})
    from hab.objects import OBJECTS as with_it

    assert len(with_it) == len(OBJECTS) + 1
    load_scene.cache_clear()
    generate_scene.cache_clear()
    assert [make_episode(*each) for each in which] == before


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["eval", "fase"], "did you mean 'face'?"),
        (["eval", "spoilt", "--skills", "oracle"], "no_such_package:Skill cannot be loaded"),
        (["eval", "face_off", "--skills", "oracle"], "has to have skill = 'face_off'"),
        (["train-skill", "face", "--no-nav"], "face has to drive the base"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(site: Path, tmp_path: Path, arguments: list[str], said: str) -> None:
    done = tpsrl(site, tmp_path, *arguments)
    assert done.returncode == 2
    assert said in done.stderr and done.stderr.strip().count("\n") <= 2, done.stderr
