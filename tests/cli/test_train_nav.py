"""`tpsrl train-nav`, and `eval` and `render` of navigation: real (tiny) runs, and what they say to bad input."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import command_line
import imageio.v3 as imageio
import numpy as np
import pytest
from omegaconf import OmegaConf
from safetensors.torch import load_file

from configs.navigation import load_nav_config, read_nav_config
from eval.navigation import evaluate_navigation, summary
from hab.navigation import TASKS
from hab.navigation.env import make_navigation_env
from skills.navigator import Navigator, fit_navigation_policy
from ver_core.policy import RecurrentPolicy

ROOT = Path(__file__).parents[2]
TINY = [
    "train.num_envs=4", "train.envs_per_worker=4", "train.rollout_length=16", "train.min_batch=1",
    "train.learner_threads=1", "train.sequence_length=8", "policy.rnn_size=8", "policy.mlp=[8]",
]  # fmt: skip

BAD = {
    "unknown task": (["train-nav", "pointnva"], "did you mean 'pointnav'"),
    "unknown sensor": (["train-nav", "pointnav", "--obs", "lasr"], "did you mean 'laser'"),
    "unknown scheduler": (["train-nav", "pointnav", "--scheduler", "vera"], "choose from ver, nover, ddppo, async"),
    "option as override": (["train-nav", "pointnav", "gps=false"], "argument or option"),
    "steps twice": (["train-nav", "pointnav", "--steps", "9", "train.total_steps=9"], "give one of them"),
    "scheduler twice": (["train-nav", "pointnav", "--scheduler", "ver", "train.scheduler=ver"], "give one of them"),
    "typo in a key": (["train-nav", "pointnav", "train.num_env=2"], "Did you mean: 'num_envs'"),
    "turn": (["train-nav", "pointnav", "turn_deg=15"], "choose from 10, 30"),
    "nothing to look for": (["train-nav", "pointnav", "in_view=true"], "leave it out"),
    "prediction without encoder": (["train-nav", "objectnav", "policy.cpc_steps=4", *TINY], "policy.scan_keys"),
    "resume what": (["train-nav", "pointnav", "--resume"], "name the run's folder with --out"),
    "resume nothing": (["train-nav", "pointnav", "--resume", "--out", "/no/such"], "holds no run"),
    "resume otherwise": (["train-nav", "pointnav", "--resume", "--out", "x", "train.seed=3"], "only train.total_steps"),
    "weights of nothing": (["train-nav", "pointnav", "initial_weights=/no/such"], "holds no policy.safetensors"),
    "no policy": (["eval", "flee"], "no policy for flee is packaged"),
    "no policy of the sensor": (["render", "pointnav", "--obs", "rgb"], "that sees rgb is packaged"),
    "no policy without GPS": (["eval", "pointnav", "--no-gps"], "without GPS and compass is packaged"),
    "a sense for the oracle": (["eval", "pointnav", "--policy", "oracle", "--no-gps"], "leave it out"),
    "policy that is not there": (["eval", "pointnav", "--policy", "/no/such"], "holds no run"),
    "options before the task": (["eval", "--seed", "5", "pointnav", "--policy", "/no/such"], "holds no run"),
    "oracle without goal": (["eval", "flee", "--policy", "oracle"], "has no goal"),
    "oracle that draws": (["eval", "pointnav", "--policy", "oracle", "--deterministic"], "leave it out"),
    "unknown split": (["eval", "pointnav", "--policy", "oracle", "--split", "vla"], "did you mean 'val'"),
    "film of another kind": (["render", "pointnav", "--policy", "oracle", "--out", "x.gif"], "must end in .mp4"),
}


def run(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    return command_line.run(arguments, monkeypatch)


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_answered_in_one_line(
    case: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, says = BAD[case]
    assert run(arguments, monkeypatch) == 2
    out, err = capsys.readouterr()
    assert says in err and err.count("\n") == 1 and "Traceback" not in err and out == ""
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("gps", [True, False])
@pytest.mark.parametrize("obs", ["laser", "depth", "rgb"])
@pytest.mark.parametrize("task", TASKS)
def test_every_variant_composes_and_its_network_fits_its_spaces(task: str, obs: str, gps: bool) -> None:
    recipe = "laser" if obs == "laser" else "depth"
    config = load_nav_config([f"task={task}", f"obs={obs}", f"gps={gps}", f"nav_recipe={recipe}"])
    env = make_navigation_env(task, obs=obs, gps=gps)
    network = RecurrentPolicy(
        env.observation_space, env.action_space, fit_navigation_policy(config.policy, task, obs, gps)
    )
    assert network.action_layout.size == 1 and network.state_size > 0
    bias = network.action_head.linear.bias.tolist()
    assert bias[0] < min(bias[1:])  # a fresh policy seldom stops
    assert bool(network.inputs.encoded_size) == (obs != "laser")


def test_a_run_is_trained_resumed_evaluated_and_filmed(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    folder, report, film = tmp_path / "run", tmp_path / "report.json", tmp_path / "film.mp4"
    train = ["train-nav", "pointnav", "--no-gps", "--scheduler", "ddppo", "--out", str(folder)]
    assert run([*train, "--steps", "128", *TINY], monkeypatch) == 0
    config = read_nav_config(folder / "config.yaml")
    assert (config.task, config.gps, config.train.scheduler) == ("pointnav", False, "ddppo")
    assert config.policy.angle_keys == ["pointgoal"] and config.policy.tanh_keys == []
    assert run(["train-nav", "pointnav", "--resume", "--steps", "192", "--out", str(folder)], monkeypatch) == 0
    assert "192 of 192 steps" in capsys.readouterr().out
    assert run(["train-nav", "pointnav", "--resume", "--gps", "--out", str(folder)], monkeypatch) == 2
    assert "has gps=False" in capsys.readouterr().err

    play = ["pointnav", "--policy", str(folder), "--split", "train"]
    assert run(["eval", *play, "--episodes", "3", "--json", str(report)], monkeypatch) == 0
    assert "softspl" in capsys.readouterr().out
    measured = json.loads(report.read_text())
    assert measured["options"]["gps"] is False and [r["index"] for r in measured["episode_results"]] == [0, 1, 2]
    assert run(["render", *play, "--episode", "1", "--out", str(film)], monkeypatch) == 0
    frames = imageio.imread(film, plugin="FFMPEG")
    assert len(frames) >= measured["episode_results"][1]["num_steps"] and frames.shape[1] == 480
    assert run(["eval", "flee", "--policy", str(folder)], monkeypatch) == 2
    assert "was trained for pointnav" in capsys.readouterr().err
    assert run(["eval", "pointnav", "--gps", "--policy", str(folder)], monkeypatch) == 2
    assert "has neither GPS nor compass" in capsys.readouterr().err


def test_a_policy_of_pointnav_goes_on_with_flee(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    first, second = tmp_path / "pointnav", tmp_path / "flee"
    assert run(["train-nav", "pointnav", "--steps", "128", "--out", str(first), *TINY], monkeypatch) == 0
    # A rate of next to nothing leaves what was taken over as it was; with another seed, what begins anew is another.
    again = [*TINY, f"initial_weights={first}", "train.learning_rate=1e-12", "train.seed=7"]
    assert run(["train-nav", "flee", "--steps", "128", "--out", str(second), *again], monkeypatch) == 0
    before, after = load_file(first / "policy.safetensors"), load_file(second / "policy.safetensors")
    assert np.allclose(before["lstm.weight_hh_l0"], after["lstm.weight_hh_l0"], atol=1e-6)
    assert not np.allclose(before["value_head.weight"], after["value_head.weight"], atol=0.05)
    gone = first.rename(tmp_path / "moved")  # a resume needs them no more
    resume = ["train-nav", "flee", "--resume", "--steps", "192", "--out", str(second)]
    assert run(resume, monkeypatch) == 0
    gone.rename(first)
    other = [*TINY, f"initial_weights={first}", "policy.rnn_size=9"]
    assert run(["train-nav", "flee", "--steps", "128", "--out", str(tmp_path / "x"), *other], monkeypatch) == 2
    assert "is of another network" in capsys.readouterr().err


def test_a_run_is_published_and_then_the_one_that_is_played(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    run_folder, zoo, report = tmp_path / "run", tmp_path / "zoo", tmp_path / "report.json"
    for more in (["--steps", "128", *TINY], ["--resume", "--steps", "192"]):
        # A process of its own: the card quotes its command.
        command = [sys.executable, "-m", "tpsrl", "train-nav", "pointnav", "--no-gps", "--out", str(run_folder), *more]
        subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    monkeypatch.setattr("skills.navigator.NAVIGATION_ZOO", zoo)
    assert run(["eval", "pointnav", "--no-gps"], monkeypatch) == 2
    assert run(["publish-skill", str(run_folder), "--episodes", "5", "--split", "train"], monkeypatch) == 0
    folder = zoo / "pointnav_laser_nogps"
    assert {path.name for path in folder.iterdir()} == {
        "policy.safetensors", "config.yaml", "card.json", "curve.png", "curve.json", "README.md"
    }  # fmt: skip
    text = (folder / "README.md").read_text()
    assert "`tpsrl eval pointnav --obs laser --no-gps --split SPLIT`" in text
    play = ["eval", "pointnav", "--obs", "laser", "--no-gps", "--split", "train", "--episodes", "5"]
    assert run([*play, "--json", str(report)], monkeypatch) == 0
    measured, card = json.loads(report.read_text())["measures"], json.loads((folder / "card.json").read_text())
    found = card["results"]["train"]
    assert found["episodes"] == 5 and found["return"] == round(measured["return"]["mean"], 4)
    assert found["spl_ci95"] == [round(end, 4) for end in measured["spl"]["ci95"]]
    assert card["training"]["steps"] == 192 and card["training"]["command"].startswith("tpsrl train-nav pointnav")
    assert card["training"]["resumed"] == ["tpsrl train-nav pointnav --no-gps --resume --steps 192 --out RUN"]
    assert card["training"]["command"] in text and "| train | " in text

    # Measured again on another split, in place; listed with the packaged ones.
    assert run(["publish-skill", str(folder), "--episodes", "2", "--split", "val"], monkeypatch) == 0
    assert set(json.loads((folder / "card.json").read_text())["results"]) == {"train", "val"}
    capsys.readouterr()
    assert run(["skills"], monkeypatch) == 0
    assert "pointnav_laser_nogps" in capsys.readouterr().out
    assert run(["publish-skill", str(run_folder), "--workers", "2"], monkeypatch) == 2
    assert "leave it out" in capsys.readouterr().err


def test_the_oracle_is_measured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    command = ["eval", "pointnav", "--policy", "oracle", "--split", "train", "--episodes", "8", "--json", str(report)]
    assert run(command, monkeypatch) == 0
    measures = json.loads(report.read_text())["measures"]
    assert measures["success"]["mean"] == 1.0 and measures["spl"]["mean"] > 0.95
    low, high = measures["spl"]["ci95"]
    assert 0.9 < low <= measures["spl"]["mean"] <= high <= 1.0


def test_results_do_not_depend_on_who_plays_beside_whom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    assert run(["train-nav", "pointnav", "--steps", "64", "--out", str(folder), *TINY], monkeypatch) == 0
    config = read_nav_config(folder / "config.yaml")

    def player() -> Navigator:
        return Navigator(config.policy, "pointnav", "laser", True, folder / "policy.safetensors")

    together = evaluate_navigation("pointnav", {}, "train", 6, player(), seed=1)
    monkeypatch.setattr("eval.navigation.AT_ONCE", 1)
    alone = evaluate_navigation("pointnav", {}, "train", 6, player(), seed=1)
    assert [r.index for r in together] == list(range(6))
    for ours, theirs in zip(together, alone, strict=True):
        assert ours.measures["num_steps"] == theirs.measures["num_steps"]
        assert ours.measures["return"] == pytest.approx(theirs.measures["return"], abs=1e-4)
    counted = summary(together)
    mean = math.fsum(r.measures["path_length"] for r in together) / 6
    assert counted["path_length"]["mean"] == pytest.approx(mean)
    assert set(counted["success"]) == {"mean", "ci95"}


def test_each_episode_has_noise_of_its_own_and_its_film_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first draws of an episode's noise tell streams apart."""
    drawn: list[float] = []

    def noted(rng: np.random.Generator, forward_m: float, turn_rad: float) -> tuple[float, float, float]:
        drawn.append(rng.random())
        return forward_m, 0.0, turn_rad

    monkeypatch.setattr("hab.navigation.env.noisy_motion", noted)
    monkeypatch.setattr("eval.navigation.AT_ONCE", 1)
    ends = [0]
    for seed in (0, 5):
        evaluate_navigation("pointnav", {"noise": True}, "train", 3, None, seed, lambda _: ends.append(len(drawn)))
    assert len({drawn[at] for at in ends[:-1]}) == 6
    measured = drawn[ends[4] : ends[5]]
    drawn.clear()
    monkeypatch.setattr("tpsrl.commands.navigation._player", lambda *asked: ({"obs": "laser", "noise": True}, None))
    film = ["render", "pointnav", "--policy", "oracle", "--split", "train", "--seed", "5", "--episode", "1"]
    assert run([*film, "--out", str(tmp_path / "film.mp4")], monkeypatch) == 0
    assert drawn == measured


def test_what_a_run_keeps_is_its_configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "run"
    settings = ["noise=true", "turn_deg=30", *TINY]
    assert run(["train-nav", "explore", "--steps", "64", "--out", str(folder), *settings], monkeypatch) == 0
    kept = OmegaConf.load(folder / "config.yaml")
    assert kept.noise is True and kept.turn_deg == 30 and kept.task == "explore" and "out" not in kept
