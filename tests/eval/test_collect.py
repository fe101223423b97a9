"""Datasets, read back by the libraries that they are for, against the environments and the simulator."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import tpsrl  # noqa: F401  (makes the environments known)
from eval.collect import collect, file_of, files, held, keep, play
from eval.evaluate import Request, run_episode
from eval.lerobot_dataset import ACTION, STATE, LeRobotMissing, check_lerobot, write_lerobot
from eval.minari_dataset import MinariMissing, check_minari, write_minari
from eval.records import RecordsError
from hab.episodes import make_episode
from hab.mujoco.simulator import MujocoSimulator
from planner.agent import Agent, load_policies, play_skill
from planner.task_planner import PlanStep
from planner.trajectory import Log, ReplayError, Trajectory, environment
from videos.render import renders

ORACLE = Agent("oracle")
SKILL = Request("close_cabinet", ORACLE, "train", 2)
SHORT = Request("set_table", ORACLE, "train", 1, episode_steps=150)


@pytest.fixture(scope="module")
def drawers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two episodes of a skill, collected."""
    folder = tmp_path_factory.mktemp("drawers")
    kept, problem = collect(SKILL, "laser", folder)
    assert problem == "" and [episode.number for episode in kept] == [0, 1]
    return folder


def test_what_is_kept_is_what_evaluation_plays(drawers: Path) -> None:
    for index in range(2):
        result, told = run_episode(SKILL, index), Trajectory.load(file_of(drawers, index)).played.told
        assert (told.success, told.reason) == (result.success, result.reason)
        assert len(Trajectory.load(file_of(drawers, index)).played) == result.steps
        assert told.tasks == ("close the drawer",)


def test_the_whole_task_runs_on_the_simulator_as_the_chain_did(tmp_path: Path) -> None:
    """Its actions, on the bare simulator, lead to the poses that were written down."""
    (episode,), problem = collect(SHORT, "laser", tmp_path)
    assert problem == "" and not episode.success and episode.steps == 150
    trajectory = Trajectory.load(file_of(tmp_path, 0))
    played = trajectory.played
    assert played.told.tasks[0] == "go to the drawer" and not played.actions["rearrange_stop"].any()
    assert list(trajectory.terminated) == [False] * 150 and list(trajectory.truncated) == [False] * 149 + [True]
    sim = MujocoSimulator()
    sim.reset(make_episode("set_table", "train", 0))
    assert np.array_equal(trajectory.start, np.concatenate((sim.base, sim.arm)))
    for t in range(150):
        sim.step({part: rows[t] for part, rows in played.actions.items()})
        assert np.array_equal(played.robot[t], np.concatenate((sim.base, sim.arm))), t
    assert np.abs(played.robot[-1, :2] - trajectory.start[:2]).max() > 0.5


def test_collecting_goes_on_and_does_not_depend_on_workers(drawers: Path, tmp_path: Path) -> None:
    before = file_of(drawers, 0).stat().st_mtime_ns
    played: list[int] = []
    kept, _ = collect(SKILL, "laser", drawers, on_episode=lambda episode: played.append(episode.number))
    assert played == [] and len(kept) == 2 and file_of(drawers, 0).stat().st_mtime_ns == before
    kept, _ = collect(SKILL, "laser", tmp_path, workers=2, on_episode=lambda episode: played.append(episode.number))
    assert sorted(played) == [0, 1] and [episode.number for episode in kept] == [0, 1]
    for number in range(2):
        with np.load(file_of(drawers, number)) as one, np.load(file_of(tmp_path, number)) as other:
            assert set(one) == set(other) and all(np.array_equal(one[key], other[key]) for key in one)


def test_a_folder_of_other_episodes_is_refused(drawers: Path) -> None:
    with pytest.raises(RecordsError, match=r"holds episodes with observe=laser, not depth"):
        collect(SKILL, "depth", drawers)
    with pytest.raises(RecordsError, match=r"holds episodes with split=train, not val"):
        collect(Request("close_cabinet", ORACLE, "val", 2), "laser", drawers)


def test_what_cannot_be_replayed_is_not_kept(tmp_path: Path) -> None:
    played = play(SKILL, 0)
    played.actions["base_vel"][3] = (1.0, 1.0)
    with pytest.raises(ReplayError, match=r"close_cabinet, train episode 0: step \d went another way"):
        keep(played, "laser", tmp_path, 0)
    assert not file_of(tmp_path, 0).exists()


def test_a_success_after_the_environments_time_is_kept_as_its_timeout(tmp_path: Path) -> None:
    """Whoever plays by hand, or with a longer chain.episode_steps, has more time than the replay."""
    env = environment("close_cabinet", "train", "laser", True)
    env.reset(seed=0, options={"index": 0})
    task: Any = env.unwrapped
    limit, task.max_steps = task.max_steps, 2 * task.max_steps
    log = Log(task.sim, tuple(env.action_space.spaces))  # type: ignore[attr-defined]
    log.on_call("", PlanStep("", "close_cabinet", task.goal, ""))
    idle = {part: np.zeros(space.shape, np.float32) for part, space in env.action_space.spaces.items()}  # type: ignore[attr-defined]
    for _ in range(limit):
        env.step(idle)
        log.on_step(0, idle, ())
    policy = load_policies(ORACLE, "close_cabinet", None)["close_cabinet"]
    assert play_skill("close_cabinet", env, policy, lambda action: log.on_step(0, action, ())).outcome == "success"
    env.close()
    kept = keep(log.played("close_cabinet", "teleoperation", "train", 0, True, True, ""), "laser", tmp_path, 0)
    trajectory = Trajectory.load(file_of(tmp_path, 0))
    told = trajectory.played.told
    assert trajectory.truncated[-1] and len(trajectory.played) == kept.steps == limit
    assert (told.success, told.reason, kept.told) == (False, "timeout", told)


def test_an_episode_without_a_step_is_not_kept(tmp_path: Path) -> None:
    nothing = Log(MujocoSimulator(), ("arm_action",)).played("pick", "oracle", "train", 3, True, False, "unstable")
    with pytest.raises(ReplayError, match="pick, train episode 3: ended before its first step"):
        keep(nothing, "laser", tmp_path, 0)


def cut_short(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-100])


def damage(file: Path) -> None:
    """Change what is packed in the middle of it, and not its list of contents."""
    content = bytearray(file.read_bytes())
    content[60:200] = bytes(140)
    file.write_bytes(content)


@pytest.mark.parametrize(
    "spoil",
    [
        cut_short,
        damage,
        lambda file: file.write_bytes(b""),
        lambda file: file.write_text("no archive"),
        lambda file: np.savez(file, other=np.zeros(3)),
        lambda file: np.savez(file, told=np.array("[]"), task=np.zeros(3)),
        lambda file: np.savez(file, told=np.array('{"tasks": []}'), task=np.zeros(3)),
        lambda file: file.rename(file.with_name("0 copy.npz")),
    ],
)
def test_a_file_that_is_no_episode_is_named(drawers: Path, tmp_path: Path, spoil: Any) -> None:
    copied = Path(shutil.copytree(drawers, tmp_path / "copied"))
    spoil(file_of(copied, 1))
    with pytest.raises(RecordsError, match=r"episodes/0\S*( copy)?\.npz: is no episode of a collection .*; delete it$"):
        held(copied)


def test_minari_reads_it_and_its_environment_plays_it_again(drawers: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    minari = pytest.importorskip("minari", reason="Minari is not installed: pip install 'tpsrl[minari]'")
    kept, _ = collect(SKILL, "laser", drawers)
    name = write_minari(files(drawers, kept), "laser", drawers)
    assert name == "tpsrl/close_cabinet/oracle-train-v0"
    assert write_minari(files(drawers, kept), "laser", drawers) == name  # in place of the first
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(drawers / "minari"))
    dataset = minari.load_dataset(name)
    assert (dataset.total_episodes, dataset.total_steps) == (2, sum(episode.steps for episode in kept))
    env = dataset.recover_environment()
    for episode, told in zip(dataset, dataset.storage.get_episode_metadata(range(2)), strict=True):
        assert (told["success"], told["tasks"]) == (kept[told["id"]].success, "close the drawer")
        shown = [env.reset(seed=told["seed"], options={"index": int(told["options"]["index"])})[0]]
        for t in range(len(episode)):
            observation, reward, terminated, truncated, info = env.step({k: v[t] for k, v in episode.actions.items()})
            shown.append(observation)
            assert np.array_equal(episode.infos["base"][t + 1], env.unwrapped.sim.base)
            assert (reward, terminated) == (episode.rewards[t], episode.terminations[t])
            assert truncated == episode.truncations[t]
        assert info["success"] == told["success"]
        for key, rows in episode.observations.items():
            assert np.array_equal(rows, [observation[key] for observation in shown]), key
        assert not episode.infos["task"].any() and len(episode.infos["interactions"]) == len(episode) + 1
    env.close()


def lerobot() -> Any:
    """Import LeRobot, or skip.

    Beside a torch for CPUs the registry's torchvision, which is built for CUDA, lacks operators that LeRobot does not
    use, and cannot be imported unless they are at least declared.
    """
    library = torch.library.Library("torchvision", "FRAGMENT")
    for operator in ("nms", "qnms"):
        if not hasattr(torch.ops.torchvision, operator):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    try:
        check_lerobot()
    except LeRobotMissing as error:
        pytest.skip(str(error))
    from lerobot.datasets.lerobot_dataset import LeRobotDataset

    return LeRobotDataset, library


@pytest.mark.filterwarnings("ignore:Conversion of an array with ndim > 0:DeprecationWarning")
def test_lerobot_reads_it(tmp_path: Path) -> None:
    dataset_of, _library = lerobot()
    observe = "depth" if renders() else "laser"
    kept, _ = collect(SKILL, observe, tmp_path)
    name, root = write_lerobot(files(tmp_path, kept), tmp_path)
    dataset = dataset_of(name, root=root)
    assert (dataset.num_episodes, dataset.num_frames, dataset.fps) == (2, sum(e.steps for e in kept), 30)
    offset = 0
    for episode in kept:
        trajectory = Trajectory.load(file_of(tmp_path, episode.number))
        actions = trajectory.played.actions
        for t in (0, 1, episode.steps // 2, episode.steps - 1):
            frame = dataset[offset + t]
            assert frame["task"] == "close the drawer" and int(frame["episode_index"]) == episode.number
            expected = np.concatenate([actions[part][t] for part in ("arm_action", "base_vel")])
            assert np.array_equal(frame[ACTION].numpy(), expected)
            pose = trajectory.start if t == 0 else trajectory.played.robot[t - 1]
            assert np.allclose(frame[STATE].numpy(), np.roll(pose, -3), atol=1e-6)
            assert float(frame["next.reward"]) == pytest.approx(trajectory.rewards[t])
            assert bool(frame["next.done"]) == (t == episode.steps - 1)
            assert np.array_equal(frame["observation.joint"].numpy(), trajectory.observations["joint"][t])
            if observe == "depth":
                error = (
                    frame["observation.images.head_depth"].numpy()[0] - trajectory.observations["head_depth"][t, ..., 0]
                )
                assert np.abs(error).mean() < 0.01  # a share of 10 m
        offset += episode.steps


@pytest.mark.parametrize(
    ("module", "check", "error", "advice"),
    [
        ("minari", check_minari, MinariMissing, r"pip install 'tpsrl\[minari\]'"),
        ("lerobot.datasets.lerobot_dataset", check_lerobot, LeRobotMissing, r"pip install 'tpsrl\[lerobot\]'"),
    ],
)
def test_without_the_library_it_says_how_to_get_it(
    module: str, check: Any, error: type[Exception], advice: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(error, match=advice):
        check()
