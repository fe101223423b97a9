"""From a training run to a published policy that is listed, measured and played: on a training of a few steps."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch
from command_line import run
from PIL import Image
from safetensors.torch import load_file

from configs.schema import read_train_config
from eval.evaluate import Request, evaluate
from eval.model_card import card_text
from planner.agent import Agent, AgentError, check_agent
from planner.zoo import ZOO, ZooError, entries, find, run_entry
from skills import TASKS
from skills.navigator import NAVIGATION_ZOO

TINY = [
    *("train.num_envs=2", "train.envs_per_worker=2", "train.min_batch=1", "train.rollout_length=16", "--steps", "32"),
    *("policy.critic_mlp=[8]", "policy.critic_keys=[critic_state]", "policy.predicted_keys=[]"),
]


@pytest.fixture(scope="module")
def run_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "close_fridge"
    with pytest.MonkeyPatch.context() as monkeypatch:
        for more in (TINY, ["--resume", "--steps", "64"]):
            command = ["train-skill", "close_fridge", "--no-nav", "--out", str(out), *more]
            assert run(command, monkeypatch) == 0
    return out


def test_a_configuration_that_is_known_is_read_again_once_it_changes(tmp_path: Path) -> None:
    folder = tmp_path / "pick"
    shutil.copytree(ZOO / "pick_nav_laser", folder)
    entry = run_entry(folder)
    assert entry.config.action_repeat == 3
    entry.config.action_repeat = 9  # a copy of its own
    assert run_entry(folder).config.action_repeat == 3
    config = folder / "config.yaml"
    config.write_text(config.read_text().replace("action_repeat: 3", "action_repeat: 4"))
    assert run_entry(folder).config.action_repeat == 4
    config.unlink()
    with pytest.raises(ZooError, match="holds no run"):
        run_entry(folder)


def test_publishing_lists_measures_and_plays(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["publish-skill", str(run_folder), "--zoo", str(tmp_path), "--episodes", "3"], monkeypatch) == 0
    folder = tmp_path / "close_fridge_nonav_laser"
    assert {path.name for path in folder.iterdir()} == {
        "policy.safetensors", "config.yaml", "card.json", "curve.png", "curve.json", "README.md"
    }  # fmt: skip
    critic = [
        any(name.startswith("critic.") for name in load_file(it / "policy.safetensors")) for it in (run_folder, folder)
    ]
    assert critic == [True, False]  # it is for training, and told what no policy may know
    kept, rounded = load_file(run_folder / "policy.safetensors"), load_file(folder / "policy.safetensors")
    assert {t.dtype for t in rounded.values() if t.ndim > 1} == {torch.float16}
    assert all(torch.allclose(t.double(), kept[name].double(), rtol=1e-3, atol=1e-6) for name, t in rounded.items())
    card = json.loads((folder / "card.json").read_text())
    assert card["training"]["steps"] == 64 and card["training"]["command"].startswith("tpsrl train-skill close_fridge")
    assert "--out" not in card["training"]["command"]
    resumed = "tpsrl train-skill close_fridge --no-nav --resume --steps 64 --out RUN"
    assert card["training"]["resumed"] == [resumed]
    again = evaluate(Request("close_fridge", Agent(str(tmp_path), skill_nav=False), episodes=3))
    assert card["results"]["val"]["success"] == round(sum(r.success for r in again.results) / 3, 4)
    assert card["results"]["val"]["steps"] == sum(r.steps for r in again.results)
    text = (folder / "README.md").read_text()
    assert card["training"]["command"] in text and "| val | " in text and "3 control steps" in text
    with Image.open(folder / "curve.png") as picture:
        assert picture.width > 300

    # It is measured where it lies; a navigation run beside it is not in the way.
    again = ["publish-skill", str(folder), "--zoo", str(tmp_path)]
    assert run(again, monkeypatch) == 2 and "is published already" in capsys.readouterr().err
    shutil.copytree(NAVIGATION_ZOO / "pointnav_laser", tmp_path / "pointnav")

    # The test split comes on top; what was measured before stays.
    assert run(["publish-skill", str(folder), "--split", "test", "--episodes", "1"], monkeypatch) == 0
    assert set(json.loads((folder / "card.json").read_text())["results"]) == {"val", "test"}
    capsys.readouterr()
    assert run(["skills", "--zoo", str(tmp_path)], monkeypatch) == 0
    listed = capsys.readouterr().out
    picture = tmp_path / "pictures" / "curves.png"
    assert run(["skills", "--zoo", str(tmp_path), "--curves", str(picture)], monkeypatch) == 2
    assert "keeps no curve" in capsys.readouterr().err and not picture.exists()  # not one episode ended in 64 steps
    (folder / "curve.json").write_text("[5]")
    assert run(["skills", "--zoo", str(tmp_path), "--curves", str(picture)], monkeypatch) == 2
    assert capsys.readouterr().err.count("\n") == 1
    (folder / "curve.json").write_text("[[0, 0.0], [100000, 0.4], [200000, 0.7]]")
    assert run(["skills", "--zoo", str(tmp_path), "--curves", str(picture)], monkeypatch) == 0
    assert "1 of 1 policies" in capsys.readouterr().out
    with Image.open(picture) as curves:
        assert curves.width > 300
    assert "close_fridge_nonav_laser" in listed and "stands" in listed
    assert (
        run(["eval", "close_fridge", "--skills", str(tmp_path), "--no-skill-nav", "--episodes", "1"], monkeypatch) == 0
    )


def test_a_policy_that_sees_depth_learns_beside_a_packaged_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The teacher is for training: what is published knows nothing of it, and is played without it."""
    out, zoo, teacher = tmp_path / "run", tmp_path / "zoo", ZOO / "close_fridge_nonav_laser"
    command = ["train-skill", "close_fridge", "--no-nav", "--obs", "depth", "--out", str(out)]
    taught = ["train=taught", f"teacher={teacher}", "policy.visual_size=8", "train.mini_batches=2", *TINY]
    for more in (taught, ["--resume", "--steps", "64"]):
        assert run([*command, *more], monkeypatch) == 0
    config = read_train_config(out / "config.yaml")
    assert (config.teacher, config.policy.teacher_key) == (str(teacher), "teacher")
    learnt = [json.loads(line) for line in (out / "scalars.jsonl").read_text().splitlines()]
    assert any(row.get("learn/teacher_divergence", 0.0) > 0.0 for row in learnt)
    assert run(["publish-skill", str(out), "--zoo", str(zoo), "--episodes", "1"], monkeypatch) == 0
    text = (zoo / "close_fridge_nonav_depth" / "README.md").read_text()
    assert "a teacher, `close_fridge_nonav_laser`" in text
    played = ["eval", "close_fridge", "--skills", str(zoo), "--obs", "depth", "--no-skill-nav", "--episodes", "1"]
    assert run(played, monkeypatch) == 0
    capsys.readouterr()
    for arguments, says in (
        (["close_fridge", "--nav", "train=taught", f"teacher={teacher}"], "has nav=False, the training nav=True"),
        (["close_cabinet", "--no-nav", "train=taught", f"teacher={teacher}"], "has skill=close_fridge"),
        (["close_fridge", "--no-nav", "train=taught", "teacher=/no/such"], "give a run's folder"),
        (["close_fridge", "--no-nav", "train=taught", f"teacher={teacher}", "policy.critic_mlp=[]"], "critic_keys"),
        (["close_fridge", "--no-nav", "train=taught"], "train=taught does nothing without teacher=FOLDER"),
        (["close_fridge", "--no-nav", f"teacher={teacher}"], "teacher does nothing without train=taught"),
        (["close_fridge", "--no-nav", f"teacher={teacher}", "--algorithm", "pql"], "PQL learns from rewards alone"),
    ):
        assert run(["train-skill", *arguments, "--out", str(tmp_path / "none")], monkeypatch) == 2
        err = capsys.readouterr().err
        assert says in err and err.count("\n") == 1


def test_training_goes_on_from_a_published_policy(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its actor is left alone until its new critic has learnt; the card and the curve tell of both trainings."""
    assert run(["publish-skill", str(run_folder), "--zoo", str(tmp_path), "--episodes", "1"], monkeypatch) == 0
    folder = tmp_path / "close_fridge_nonav_laser"
    (folder / "curve.json").write_text("[[64, 0.5]]")

    def train(out: Path, *more: str) -> int:
        command = ["train-skill", "close_fridge", "--no-nav", "train=finetune", "--out", str(out)]
        return run([*command, *TINY, *more], monkeypatch)

    def go_on(origin: Path, out: Path, *more: str) -> dict[str, torch.Tensor]:
        assert train(out, f"initial_weights={origin}", *more) == 0
        return {k: v for k, v in load_file(out / "policy.safetensors").items() if "normalizer" not in k}

    def same(a: dict[str, torch.Tensor], b: dict[str, torch.Tensor], of_critic: bool = False) -> bool:
        return all(torch.equal(a[k], b[k]) for k in a.keys() & b.keys() if k.startswith("critic.") == of_critic)

    def floats(weights: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        return {name: tensor.float() if tensor.dtype == torch.float16 else tensor for name, tensor in weights.items()}

    published = floats(load_file(folder / "policy.safetensors"))
    moved = go_on(folder, tmp_path / "on", "--steps", "96")
    assert same(moved, published) and len(moved.keys() & published.keys()) > 5
    assert read_train_config(tmp_path / "on" / "config.yaml").train.critic_warmup == 10
    from_run = go_on(run_folder, tmp_path / "on_from_run")  # whose critic came along
    assert not same(from_run, published) and not same(from_run, moved, of_critic=True)
    assert read_train_config(tmp_path / "on_from_run" / "config.yaml").train.critic_warmup == 0

    # A critic that was told other things, had less to predict, or is of another size begins anew.
    other = go_on(run_folder, tmp_path / "predicting", "policy.predicted_keys=[critic_state]")
    assert not same(other, from_run, of_critic=True) and "critic.predictor.weight" in other
    assert read_train_config(tmp_path / "predicting" / "config.yaml").train.critic_warmup == 10
    wider = go_on(run_folder, tmp_path / "wider", "policy.critic_mlp=[48]")
    assert read_train_config(tmp_path / "wider" / "config.yaml").train.critic_warmup == 10
    assert any(
        wider[name].shape != from_run[name].shape for name in wider.keys() & from_run.keys() if name[:7] == "critic."
    )

    # A resume needs them no more.
    gone = folder.rename(tmp_path / "moved")
    resume = ["train-skill", "close_fridge", "--out", str(tmp_path / "on"), "--resume", "--steps", "128"]
    assert run(resume, monkeypatch) == 0
    gone.rename(folder)

    zoo = tmp_path / "zoo"
    for origin in ("on", "on_from_run"):
        assert run(["publish-skill", str(tmp_path / origin), "--zoo", str(zoo), "--episodes", "1"], monkeypatch) == 0
        card = json.loads((zoo / folder.name / "card.json").read_text())
        (before,) = card["before"]
        assert before["training"] == json.loads((folder / "card.json").read_text())["training"]
        assert before["training"]["command"] in (zoo / folder.name / "README.md").read_text()
        curve = json.loads((zoo / folder.name / "curve.json").read_text())
        assert curve == ([[64, 0.5]] if origin == "on" else [])  # no episode has ended since

    # What does not fit is said in one line.
    for overrides, said in (
        ([f"initial_weights={folder}", "policy.mlp=[7]"], "policy.mlp=[7]: the policy in"),
        ([f"initial_weights={folder}", "--obs", "depth"], "has obs=laser; give that"),
        (["initial_weights=/no/such"], "give a run's folder"),
    ):
        capsys.readouterr()
        assert train(tmp_path / "bad", *overrides) == 2
        err = capsys.readouterr().err
        assert said in err and err.count("\n") == 1


def test_a_trained_agents_results_are_the_same_for_any_number_of_workers(run_folder: Path) -> None:
    request = Request("close_fridge", Agent(str(run_folder.parent), skill_nav=False), episodes=4, seed=5)
    alone, together = evaluate(request, 1), evaluate(request, 2)
    assert together.error == "" and alone.results == together.results


def test_a_run_of_an_installed_package_can_be_published(
    run_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It lies in no git repository, so nobody knows its revision."""
    installed = Path(shutil.copytree(run_folder, tmp_path / "run"))
    told = json.loads((installed / "run.json").read_text())
    for session in told["sessions"]:
        session["git"] = "no git"
    (installed / "run.json").write_text(json.dumps(told))
    zoo = tmp_path / "zoo"
    assert run(["publish-skill", str(installed), "--zoo", str(zoo), "--episodes", "1"], monkeypatch) == 0
    assert "revision unknown" in (zoo / "close_fridge_nonav_laser" / "README.md").read_text()


@pytest.mark.parametrize("missing", ["git", "date", "cores", "command"])
def test_a_run_that_lacks_a_note_is_not_published(
    run_folder: Path, tmp_path: Path, missing: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Path(shutil.copytree(run_folder, tmp_path / "run"))
    told = json.loads((other / "run.json").read_text())
    del told["sessions"][-1][missing]
    (other / "run.json").write_text(json.dumps(told))
    assert run(["publish-skill", str(other), "--zoo", str(tmp_path / "zoo"), "--episodes", "1"], monkeypatch) == 2
    err = capsys.readouterr().err
    assert f"run.json or scalars.jsonl is not as training writes it (KeyError: '{missing}')" in err
    assert err.count("\n") == 1


def test_two_policies_for_one_job_are_refused(run_folder: Path, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        for file in ("policy.safetensors", "config.yaml"):
            (tmp_path / name / file).write_bytes((run_folder / file).read_bytes())
    with pytest.raises(AgentError, match="are both close_fridge_nonav_laser;"):
        check_agent(Agent(str(tmp_path), skill_nav=False), "close_fridge", "laser")


@pytest.mark.parametrize(("arguments", "said"), [
    (["publish-skill", "/no/such"], "holds no run"),
    (["skills", "--zoo", "/no/such"], "holds no trained policies"),
])  # fmt: skip
def test_bad_input_is_one_line(
    arguments: list[str], said: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments, monkeypatch) == 2
    err = capsys.readouterr().err
    assert said in err and err.count("\n") == 1


def test_the_packaged_zoo_is_whole() -> None:
    """Every policy has a card with its val success, in words, too; is small, and lies in the folder that it names."""
    packaged = entries(ZOO)
    for entry in packaged:
        assert entry.folder.name == entry.name and entry.config.skill in TASKS
        assert find(packaged, entry.config.skill, entry.config.nav, entry.config.obs) == entry
        assert (entry.folder / "policy.safetensors").stat().st_size < 5_000_000
        card = json.loads((entry.folder / "card.json").read_text())
        assert card["results"]["val"]["episodes"] >= 100
        assert (entry.folder / "README.md").read_text() == card_text(entry.name, card)
        assert ("no sensor noise" in card_text(entry.name, card)) != entry.config.depth_noise
        assert read_train_config(entry.folder / "config.yaml") == entry.config
