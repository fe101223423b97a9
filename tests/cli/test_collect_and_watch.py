"""`tpsrl collect` and `tpsrl watch` from the command line: what is refused, and a dataset that is collected."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from command_line import run

from eval.collect import keep, play
from eval.evaluate import Request
from planner.agent import Agent


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["collect", "pick"], "Missing option '--out'"),
        (["collect", "pikc", "--out", "new"], "did you mean 'pick'"),
        (["collect", "pick", "--out", "file"], "--out file: is a file; name a folder"),
        (["collect", "pick", "--out", "new", "--format", "hdf5"], "choose from minari, lerobot"),
        (["collect", "pick", "--out", "new", "--observe", "rgb"], "unknown observation set 'rgb'"),
        (["collect", "tidy_house", "--out", "new", "sim.objects=11"], "leave sim.objects=11 out"),
        (["watch", "tidy_house", "--record", "new", "sim.objects=11"], "leave sim.objects=11 out"),
        (["watch", "pick", "--skills", "nowhere"], "no such folder"),
        (["watch", "pick", "--record", "file", "--skills", "oracle"], "--record file: is a file; name a folder"),
        (
            ["watch", "set_table", "--skills", "teleoperation", "--replan", "oracle"],
            "leave --monolithic and --replan out",
        ),
        (["watch", "pick", "--port", "0"], "0 is not in the range"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if "--record" in arguments:
        pytest.importorskip("mjviser", reason="mjviser is not installed: pip install 'tpsrl[watch]'")
    (tmp_path / "file").touch()
    monkeypatch.chdir(tmp_path)
    assert run(arguments, monkeypatch) == 2
    said = capsys.readouterr().err.strip()
    assert message in said and "\n" not in said
    assert not (tmp_path / "new").exists()


@pytest.mark.parametrize(
    ("arguments", "module", "extra"),
    [
        (["watch", "pick", "--skills", "oracle"], "mjviser", "tpsrl[watch]"),
        (["collect", "pick", "--skills", "oracle", "--out", "new"], "minari", "tpsrl[minari]"),
    ],
)
def test_a_missing_extra_is_named(
    arguments: list[str],
    module: str,
    extra: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in (module, "videos.watch", "videos.live_scene"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, module, None)
    assert run(arguments, monkeypatch) == 2
    assert f"pip install '{extra}'" in capsys.readouterr().err


def test_collecting_says_what_there_is_and_where(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    minari = pytest.importorskip("minari", reason="Minari is not installed: pip install 'tpsrl[minari]'")
    out = tmp_path / "drawers"
    command = ["collect", "close_cabinet", "--skills", "oracle", "--split", "train", "--out", str(out), "--episodes"]
    assert run([*command, "1"], monkeypatch) == 0
    assert run([*command, "2"], monkeypatch) == 0
    assert "2 episodes" in capsys.readouterr().out.splitlines()[-1]
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(out / "minari"))
    assert minari.load_dataset("tpsrl/close_cabinet/oracle-train-v0").total_episodes == 2
    assert run([*command, "2", "--split", "val"], monkeypatch) == 2
    assert "holds episodes with split=train, not val" in capsys.readouterr().err
    (out / "episodes" / "0 copy.npz").write_bytes(b"")
    assert run([*command, "2"], monkeypatch) == 2
    said = capsys.readouterr().err
    assert "0 copy.npz: is no episode of a collection" in said and said.count("\n") == 1


def test_what_ends_watching_leaves_a_dataset_of_what_was_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("mjviser", reason="mjviser is not installed: pip install 'tpsrl[watch]'")
    pytest.importorskip("minari", reason="Minari is not installed: pip install 'tpsrl[minari]'")

    def end(watch: object) -> None:
        keep(play(Request("close_cabinet", Agent("oracle"), "train"), 0), "laser", tmp_path, 0)
        raise OSError("No space left on device")

    monkeypatch.setattr("videos.watch.Watch.run", end)
    command = ["watch", "close_cabinet", "--skills", "teleoperation", "--record", str(tmp_path), "--port", "8471"]
    assert run(command, monkeypatch) == 1
    out, err = capsys.readouterr()
    assert "1 episodes" in out and err.endswith("No space left on device\n")
    assert (tmp_path / "minari").is_dir()
