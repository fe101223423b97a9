"""Rerun recordings, read back with Rerun's own reader, against the same episode played again."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from hab import robot
from hab.episodes import make_episode
from hab.mujoco.simulator import MujocoSimulator
from hab.simulator import Simulator
from planner.agent import Agent, chain_limits, load_policies, play_episode, seed_draws
from skills.trained import TrainedPolicy
from videos import recording
from videos.recording import RerunMissing, check_rerun, record_scenario

STEPS = 150
ZOO = Agent(skills="zoo")
SHORT: Any = ("tidy_house", "val", 1, "laser", ZOO, chain_limits(STEPS, {}))


def test_without_rerun_it_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "rerun", None)
    with pytest.raises(RerunMissing, match=r"pip install 'tpsrl\[rerun\]'"):
        check_rerun()


def columns(path: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of each entity, in the order of the steps."""
    chunks = pytest.importorskip("rerun.chunk", reason="rerun-sdk is not installed: pip install 'tpsrl[rerun]'")
    rows = defaultdict(list)
    for chunk in chunks.RrdReader(path).stream():
        batch = chunk.to_record_batch()
        named = [name for name in batch.schema.names if name not in ("log_time", "episode")]
        rows[chunk.entity_path.removeprefix("/")] += batch.select(named).to_pylist()
    return {entity: sorted(told, key=lambda row: row.get("step") or 0) for entity, told in rows.items()}


def test_a_recording_tells_what_happened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    decide = TrainedPolicy._decide

    def valued(self: TrainedPolicy, sim: Simulator) -> None:
        decide(self, sim)
        self.value = 1.5  # a policy that shares its network with its critic says one; published ones come without

    monkeypatch.setattr(TrainedPolicy, "_decide", valued)
    pytest.importorskip("rerun", reason="rerun-sdk is not installed: pip install 'tpsrl[rerun]'")
    out = tmp_path / "new" / "episode.rrd"
    assert not record_scenario(*SHORT, out)
    assert list(out.parent.iterdir()) == [out]
    told = columns(out)

    sim, episode = MujocoSimulator(), make_episode("tidy_house", "val", 1)
    bases, stops = [], []
    policies = load_policies(ZOO, "tidy_house", "laser")
    navigate: Any = policies["navigate"]

    def watch(stage: int, action: Any, done: Any) -> None:
        bases.append(sim.base)
        stops.append(navigate.stop_probability)

    seed_draws(0, 1)
    play_episode(sim, episode, ZOO, policies, SHORT[-1], watch)
    poses = [row for row in told["world/fetch_base_link"] if row.get("Transform3D:translation") and row["step"]]
    for row in poses:
        at = bases[row["step"] - 1]
        np.testing.assert_allclose(row["Transform3D:translation"][0][:2], at[:2], atol=2e-3)
    assert poses[-1]["step"] > STEPS - 10
    assert len({row["step"] for row in told["world/laser"]}) >= STEPS // recording.EVERY
    assert 0.0 < max(np.asarray(row["Points3D:positions"][0]).max() for row in told["world/laser"]) < 15.0
    probabilities = {row["step"]: row["Scalars:scalars"][0] for row in told["policy/stop_probability"]}
    assert probabilities == pytest.approx({step: stops[step - 1] for step in probabilities})
    assert all(0.0 < p < 1.0 for p in probabilities.values())
    assert {row["Scalars:scalars"][0] for row in told["policy/value"]} == {1.5}
    texts = [row["TextLog:text"][0] for row in told["plan"]]
    assert texts[0].startswith("1/20: navigate") and texts[-1].endswith("step limit")
    goals = {target.object: target.goal_pos for target in episode.targets}
    for name, position in goals.items():
        (box,) = told[f"world/goals/{name}"]
        np.testing.assert_allclose(box["Boxes3D:centers"][0], position, atol=1e-5)


def test_rays_that_tell_nothing_are_no_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither what ends at the robot's own arm nor what meets nothing within range."""
    pytest.importorskip("rerun", reason="rerun-sdk is not installed: pip install 'tpsrl[rerun]'")
    ranges = np.ones(robot.LASER_RAYS, np.float32)
    ranges[:5], ranges[5:40] = 0.25, robot.UNKNOWN_RANGE
    monkeypatch.setattr(MujocoSimulator, "laser", lambda sim: ranges)
    still = Agent(skills="oracle")
    record_scenario("tidy_house", "val", 1, "laser", still, chain_limits(20, {}), tmp_path / "episode.rrd")
    drawn = columns(tmp_path / "episode.rrd")["world/laser"]
    assert drawn and all(len(row["Points3D:positions"]) == 5 for row in drawn)


def test_fewer_objects_are_recorded_where_fewer_are_asked_for(tmp_path: Path) -> None:
    pytest.importorskip("rerun", reason="rerun-sdk is not installed: pip install 'tpsrl[rerun]'")
    out, still = tmp_path / "episode.rrd", Agent(skills="oracle")
    record_scenario("tidy_house", "val", 1, None, still, chain_limits(2, {}), out, objects=11)
    told, full = columns(out), make_episode("tidy_house", "val", 1)
    begun = {name: told[f"world/{name}"][0]["Transform3D:translation"][0] for name in full.objects}
    in_place = {name for name, (position, _) in full.objects.items() if np.allclose(begun[name], position, atol=0.01)}
    assert in_place == set(make_episode("tidy_house", "val", 1, objects=11).objects) != set(full.objects)


def test_an_interrupted_recording_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("rerun", reason="rerun-sdk is not installed: pip install 'tpsrl[rerun]'")

    def interrupted(*arguments: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(recording, "play_episode", interrupted)
    with pytest.raises(KeyboardInterrupt):
        record_scenario(*SHORT, tmp_path / "episode.rrd")
    assert list(tmp_path.iterdir()) == []
