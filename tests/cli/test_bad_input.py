"""Bad input: one line on stderr that says what is wrong and how to mend it, exit code 2, no traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import run

from hab.mujoco import gl
from hab.simulator import SimulationError

ROOT = Path(__file__).parents[2]
CASES = {
    "unknown scenario": (["eval", "tidy_hose"], "did you mean 'tidy_house'"),
    "unknown skill": (["render", "pik"], "did you mean 'pick'"),
    "nothing like it": (["plan", "xyz"], "choose from tidy_house, prepare_groceries, set_table"),
    "a skill has no plan": (["plan", "pick"], "unknown scenario 'pick'"),
    "unknown split": (["eval", "tidy_house", "--split", "validation"], "choose from train, val, test"),
    "unknown override": (["eval", "tidy_house", "chain.episode_step=9"], "episode_step"),
    "override of the wrong type": (["eval", "tidy_house", "chain.episode_steps=soon"], "soon"),
    "override out of range": (["eval", "tidy_house", "chain.skill_steps.pick=0"], "at least 1"),
    "override without a value": (["eval", "tidy_house", "chain"], "bad override"),
    "override without a key": (["eval", "tidy_house", "=3"], "bad override"),
    "hydra's own override": (["eval", "tidy_house", "hydra.run.dir=x"], "only keys of configs/eval.yaml"),
    "removed default": (["eval", "tidy_house", "~video.height"], "video.height"),
    "limit of an unknown skill": (["eval", "tidy_house", "+chain.skill_steps.pck=3"], "chain.skill_steps.pck: no such"),
    "video too small": (["render", "tidy_house", "video.height=1"], "choose from 144 to 1056"),
    "video too large": (["render", "tidy_house", "video.height=20000"], "choose from 144 to 1056"),
    "video no codec takes": (["render", "tidy_house", "video.height=485"], "multiple of 48, as 480"),
    "video too fast": (["render", "tidy_house", "video.fps=1000"], "choose from 1 to 60"),
    "no plan to limit": (["eval", "pick", "chain.skill_steps.pick=1"], "do not apply to a single skill"),
    "no chain to limit": (["eval", "pick", "chain.episode_steps=9"], "do not apply to a single skill"),
    "no stop to mask": (["eval", "navigate", "--stop-mask"], "--stop-mask/--no-stop-mask: does nothing"),
    "no plan": (["eval", "tidy_house", "--monolithic", "--no-stop-mask"], "--monolithic has none"),
    "one skill plans not": (["eval", "pick", "--replan", "sensed"], "--replan: pick on its own has no plan"),
    "one policy has no plan": (
        ["eval", "tidy_house", "--monolithic", "--replan", "sensed"],
        "--monolithic has no plan",
    ),
    "no driving there again": (
        ["eval", "tidy_house", "--no-nav-skill", "--replan", "oracle"],
        "leave --no-nav-skill out",
    ),
    "no such state": (["eval", "tidy_house", "--replan", "senses"], "did you mean 'sensed'"),
    "one policy as it is": (["eval", "pick", "--monolithic"], "--monolithic: pick is one policy"),
    "no oracle": (["eval", "rearrange", "--skills", "oracle"], "rearrange has no oracle"),
    "no plan to change": (["render", "pick", "--no-nav-skill"], "--nav-skill/--no-nav-skill: does nothing"),
    "Navigate must drive": (["eval", "navigate", "--no-skill-nav"], "--skill-nav/--no-skill-nav: does nothing"),
    "nobody sees the noise": (["eval", "pick", "sim.depth_noise=true"], "no policy here sees it"),
    "nor does a planner that looks": (
        ["eval", "tidy_house", "--replan", "sensed", "sim.depth_noise=true"],
        "no policy here sees it",
    ),
    "nor does an ablation": (["ablate", "tidy_house", "sim.depth_noise=true"], "no policy here sees it"),
    "a folder called as a task": (["eval", "pick", "--skills", "explore"], "'explore': no such folder"),
    "an override called as a task": (["eval", "pick", "flee"], "bad override"),
    "a run itself": (["eval", "pick", "--skills", "skills/zoo/pick_nav_laser"], "give the folder that it lies in"),
    "a navigation task, nearly": (["eval", "pointnavv"], "did you mean 'pointnav'?"),
    "nobody looks": (["eval", "tidy_house", "sim.obs=depth", "--skills", "oracle"], "read no observations"),
    "an ablation of a skill": (["ablate", "pick"], "unknown scenario 'pick'"),
    "unknown agent": (["ablate", "tidy_house", "--agent", "nonaw"], "did you mean 'nonav'"),
    "agents whose skills are missing": (["ablate", "tidy_house", "--skills", "nowhere"], "no such folder"),
    "a skill has no plan to record": (["render", "pick", "--rerun"], "pick has none, choose from tidy_house"),
    "a recording is no video": (["render", "tidy_house", "--rerun", "--out", "x.mp4"], "must end in .rrd"),
    "a gallery of nothing": (["gallery", "nowhere"], "nowhere: no such folder"),
    "a recording's name": (["record-starts", "calls.json"], "its name must end in .npz"),
    "nothing for oracles to see": (
        ["record-starts", "calls.npz", "--skills", "oracle", "--obs", "laser"],
        "leave it out",
    ),
    "near starts stand still": (["train-skill", "pick", "--no-nav", "starts=near"], "leave it out"),
    "recorded starts drive": (
        ["train-skill", "pick", "--no-nav", "chain_states=x.npz", "chain_starts=0.5"],
        "without base movement",
    ),
    "nobody looks at a skill, either": (
        ["eval", "pick", "sim.obs=depth", "--skills", "oracle"],
        "read no observations",
    ),
    "nobody plays what is recorded": (["record-starts", "calls.npz", "--skills", "nowhere"], "no such folder"),
    "unknown start states": (["train-skill", "pick", "starts=far"], "choose from wide, near"),
    "nothing to grasp with": (["train-skill", "pick", "--sim", "planar"], "for navigate without --obs depth"),
    "no images": (["train-skill", "navigate", "--sim", "planar", "--obs", "depth"], "for navigate without --obs depth"),
    "played without physics": (["eval", "navigate", "sim.name=planar"], "for training Navigate"),
    "start states of Pick's": (["train-skill", "navigate", "starts=near"], "one kind of start states"),
    "recorded starts for nobody": (
        ["train-skill", "pick", "chain_states=x.npz", "chain_starts=0"],
        "give chain_starts",
    ),
    "starts that were not recorded": (
        ["train-skill", "pick", "chain_states=x.npz"],
        "make one with tpsrl record-starts",
    ),
    "practice of nothing": (["train-skill", "pick", "practised={roof: 4}"], "no such furniture; choose from table"),
    "practice never": (["train-skill", "place", "practised={shelf: 0}"], "must be positive"),
    "practice for drives": (["train-skill", "navigate", "practised={shelf: 4}"], "leave it out"),
    "one file for two": (["eval", "pick", "--json", "o", "--trace", "./o"], "is the file of --json, too"),
    "fewer objects than targets": (["eval", "tidy_house", "sim.objects=4"], "sim.objects=4: choose from 5 to 30"),
    "fewer objects around one skill": (["eval", "pick", "sim.objects=11"], "plays in full houses"),
    "houses in no picture": (["houses", "--out", "houses.txt"], "must end in .png or .jpg"),
    "said twice": (["eval", "pick", "--obs", "depth", "sim.obs=laser"], "leave one of them out"),
    "unknown observation set": (["eval", "tidy_house", "sim.obs=rgb"], "choose from laser+map, laser, depth"),
    "simulator that is not there": (["eval", "tidy_house", "sim.name=gazebo"], "choose from mujoco, habitat"),
    "not in the zoo yet": (
        ["eval", "open_fridge", "--no-skill-nav", "--skills", "zoo", "sim.obs=depth"],
        "holds no policy of open_fridge without base movement for depth",
    ),
    "no checkpoint folder": (["eval", "tidy_house", "--skills", "/no/such"], "no such folder"),
    "no episodes": (["eval", "tidy_house", "--episodes", "0"], "0 is not in the range"),
    "no workers": (["eval", "tidy_house", "--workers", "0"], "0 is not in the range"),
    "negative episode": (["render", "tidy_house", "--episode", "-1"], "-1 is not in the range"),
    "unwritable report": (["eval", "tidy_house", "--json", "/dev/null/report.json"], "cannot be written"),
    "report is a folder": (["eval", "tidy_house", "--json", "/tmp"], "is a folder"),
    "not a video's name": (["render", "tidy_house", "--out", "film.avi"], "must end in .mp4"),
    "unwritable video": (["render", "tidy_house", "--out", "/dev/null/film.mp4"], "cannot be written"),
    "unknown option": (["eval", "tidy_house", "--worker", "2"], "--workers"),
    "unknown command": (["evaluate", "tidy_house"], "No such command"),
    "missing name": (["eval"], "Missing argument"),
}


@pytest.mark.parametrize(("arguments", "said"), CASES.values(), ids=CASES)
def test_one_line_and_exit_code_2(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments, monkeypatch) == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err
    assert err.count("\n") == 1 and err.startswith("tpsrl: ")


def test_incomplete_checkpoints_are_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["eval", "set_table", "--skills", str(tmp_path)], monkeypatch) == 2
    assert "holds no policy of navigate, open_cabinet, open_fridge, pick, place with" in capsys.readouterr().err
    assert run(["eval", "pick", "--skills", str(tmp_path), "--no-skill-nav"], monkeypatch) == 2
    assert "holds no policy of pick without base movement: train it" in capsys.readouterr().err


def test_rendering_without_opengl_is_one_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(gl, "GL_BACKENDS", ("no_such_backend",))
    monkeypatch.delenv("MUJOCO_GL", raising=False)
    for arguments in (["render", "tidy_house"], ["eval", "pick", "--video", "1"]):
        assert run(arguments, monkeypatch) == 2
        err = capsys.readouterr().err
        assert err.count("\n") == 1 and "libegl1" in err


def in_its_own_process(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tpsrl", *arguments]
    env = {k: v for k, v in os.environ.items() if k not in ("DISPLAY", "WAYLAND_DISPLAY", "PYOPENGL_PLATFORM")}
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env={**env, **environment})


@pytest.mark.parametrize("arguments", [["doctor"], ["plan", "set_table"], ["eval", "pick", "--episodes", "1"]])
def test_an_unknown_mujoco_gl_is_one_line(arguments: list[str]) -> None:
    """In a process of its own: MuJoCo reads the variable when it is imported."""
    done = in_its_own_process(*arguments, MUJOCO_GL="foo")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "MUJOCO_GL=foo: unset it" in done.stderr


RENDER, FILMED = ["render", "tidy_house"], ["eval", "pick", "--video", "1"]


@pytest.mark.parametrize(
    ("variable", "said", "arguments"),
    [
        ("glfw", "tried glfw", RENDER),
        ("disable", "switches rendering off", FILMED),
        ("off", "MUJOCO_GL=off", RENDER),
        pytest.param("glfw", "tried glfw", FILMED, marks=pytest.mark.slow),
        pytest.param("disable", "switches rendering off", RENDER, marks=pytest.mark.slow),
        pytest.param("off", "MUJOCO_GL=off", FILMED, marks=pytest.mark.slow),
    ],
)
def test_a_back_end_that_does_not_work_is_one_line(variable: str, said: str, arguments: list[str]) -> None:
    """GLFW warns on stderr of the display it does not find."""
    done = in_its_own_process(*arguments, MUJOCO_GL=variable)
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and said in done.stderr


def test_what_an_ablation_cannot_film_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """All has been measured by then."""

    def unstable(*played: object) -> None:
        raise SimulationError("the physics became unstable")

    monkeypatch.setattr("videos.render.prepare_rendering", lambda: None)
    monkeypatch.setattr("videos.render.render_scenario", unstable)
    asked = ["ablate", "set_table", "--skills", "oracle", "--agent", "nonav", "--out", str(tmp_path), "--videos"]
    asked += ["--episodes", "1", "chain.episode_steps=5"]
    assert run(asked, monkeypatch) == 1
    said = capsys.readouterr().err.splitlines()[-1]  # after the bars of progress
    assert said.startswith("tpsrl: nonav, val episode 0: the physics became unstable (what was measured is in ")
    assert (tmp_path / "report.html").exists()
    films = tmp_path / "videos"
    films.mkdir()
    (films / "nonav_0.mp4").write_bytes(b"cut off")
    (films / "nonav_0.jsonl").write_text("")
    assert run(asked, monkeypatch) == 2
    said = capsys.readouterr().err.splitlines()[-1]
    assert said.startswith(f"tpsrl: {films / 'nonav_0.mp4'}: is no film that can be read")


def test_refusals_leave_no_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    deep = tmp_path / "a" / "b" / "report.json"
    assert run(["eval", "pick", "--json", str(deep), "--trace", "/dev/null/t"], monkeypatch) == 2
    assert "cannot be written" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_films_of_an_evaluation_are_checked_before_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("outputs").write_text("not a folder")
    assert run(["eval", "pick", "--video", "1"], monkeypatch) == 2
    assert "--video 0 outputs/pick_val_0.mp4: cannot be written" in capsys.readouterr().err
