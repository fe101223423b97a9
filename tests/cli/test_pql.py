"""`tpsrl train-skill --algorithm pql`: a real (tiny) training, resumed and played; and what it says to bad input."""

from __future__ import annotations

import json
from pathlib import Path

import command_line
import pytest
from omegaconf import OmegaConf

from configs.schema import load_train_config, read_train_config
from pql_core.config import PqlConfig

TINY = [
    "pql.num_envs=4", "pql.envs_per_worker=4", "pql.warmup_steps=8", "pql.batch_size=16", "pql.greedy_envs=1",
    "pql.replay_size=1000", "policy.mlp=[16]", "policy.critic_mlp=[16]", "pql.log_every_s=0.2",
]  # fmt: skip
PQL = ["--algorithm", "pql"]

BAD = {
    "unknown algorithm": (["pick", "--algorithm", "pqr"], "did you mean 'pql'"),
    "VER's parameter": (["pick", *PQL, "train.num_envs=2"], "is for --algorithm ver; --algorithm pql reads pql.*"),
    "PQL's parameter": (["pick", "pql.num_envs=2"], "is for --algorithm pql; --algorithm ver reads train.*"),
    "VER's recipe": (["pick", *PQL, "train=small"], "is a recipe for --algorithm ver"),
    "PQL's recipe": (["pick", "train=pql"], "is a recipe for --algorithm pql"),
    "algorithm as override": (["pick", "algorithm=pql"], "argument or option for algorithm"),
    "steps twice": (["pick", *PQL, "--steps", "9", "pql.total_steps=9"], "give one of them"),
    "a memory": (["pick", *PQL, "policy.rnn_layers=1"], "policy.rnn_layers=1: PQL's policy has no such thing; set 0"),
    "small buffer": (["pick", *PQL, "pql.replay_size=100"], "must be num_envs x warmup_steps x 2 = 8192 or more"),
    "unknown learner": (["pick", *PQL, "pql.learner=td3"], "choose from ddpg, sac"),
    "unknown key": (["pick", *PQL, "pql.half_keys=[smell]"], "no observation smell; choose from"),
    "resume otherwise": (["pick", *PQL, "--resume", "--out", "x", "pql.seed=3"], "only pql.total_steps"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_answered_in_one_line(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments, words = BAD[case]
    assert command_line.run(["train-skill", *arguments], monkeypatch) == 2
    err = capsys.readouterr().err
    assert words in err and len(err.splitlines()) == 1 and err.startswith("tpsrl: ")


def test_the_default_recipe_of_pql_is_table_b1() -> None:
    recipe = load_train_config(["skill=pick", "train=pql"])
    assert recipe.algorithm == "pql"
    ours = {"total_steps", "envs_per_worker", "reward_scale"}  # not in the table, or of other tasks there
    for key, value in vars(PqlConfig()).items():
        assert key in ours or getattr(recipe.pql, key) == value, key
    table = {
        "num_envs": 4096, "critic_learning_rate": 5e-4, "actor_learning_rate": 5e-4, "tau": 5e-2, "batch_size": 8192,
        "critic_updates_per_step": 8, "gamma": 0.99, "max_grad_norm": 0.5, "n_step": 3, "warmup_steps": 32,
        "replay_size": 5_000_000, "sigma_min": 0.05, "sigma_max": 0.8, "critic_updates_per_policy_update": 2,
    }  # fmt: skip
    for key, value in table.items():
        assert getattr(recipe.pql, key) == value


def test_a_skill_is_trained_resumed_and_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "runs" / "pick"
    train = ["train-skill", "pick", *PQL, "--out", str(out)]
    assert command_line.run([*train, "--steps", "80", *TINY], monkeypatch) == 0
    said = capsys.readouterr().out
    assert "of 80 steps" in said and str(out) in said
    config = read_train_config(out / "config.yaml")
    assert config.algorithm == "pql" and config.pql.total_steps == 80 and config.pql.critic == "c51"
    assert command_line.run([*train, "--resume", "--steps", "120"], monkeypatch) == 0
    rows = [json.loads(line) for line in (out / "scalars.jsonl").read_text().splitlines()]
    assert rows[-1]["steps"] >= 120 and rows[-1]["train/critic_updates"] > 0
    assert (
        command_line.run(["train-skill", "pick", "--resume", "--out", str(out), "--algorithm", "ver"], monkeypatch) == 2
    )
    assert "has algorithm=pql, not ver" in capsys.readouterr().err
    report = tmp_path / "report.json"
    evaluate = ["eval", "pick", "--skills", str(tmp_path / "runs"), "--split", "train", "--episodes", "1"]
    assert command_line.run([*evaluate, "--json", str(report)], monkeypatch) == 0
    assert json.loads(report.read_text())["episodes"] == 1


def test_runs_from_before_pql_are_read(tmp_path: Path) -> None:
    config = OmegaConf.structured(load_train_config(["skill=pick"]))
    OmegaConf.set_struct(config, False)
    del config["pql"], config["algorithm"]
    (tmp_path / "config.yaml").write_text(OmegaConf.to_yaml(config))
    assert read_train_config(tmp_path / "config.yaml").algorithm == "ver"
