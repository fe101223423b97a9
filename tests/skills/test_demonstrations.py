"""What the oracles show, against the oracles played on their own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch

from configs.schema import load_train_config
from hab.actions import BASE
from hab.measures import NAV_ANGLE_RAD, NAV_DISTANCE_M
from skills import demonstrations as module
from skills import make_env
from skills.demonstrations import Job, NothingShown, clone_oracle, demonstrate
from skills.oracle import make_oracle
from skills.training import fit_policy
from ver_core.cloning import Demonstrations
from ver_core.distributed import World
from ver_core.policy import RecurrentPolicy

TASK = {"obs": "laser+map", "base_movement": True, "action_repeat": 3, "chain_starts": 0.0}


def job(skill: str, episodes: int, weights: Any = None, **task: Any) -> Job:
    config = load_train_config([f"skill={skill}", "train=clone"])
    settings = {**TASK, **task}
    policy = fit_policy(config.policy, skill, "laser+map", settings["base_movement"])
    return Job(skill, settings, 0.99, policy, weights, episodes, (0,), 0.6, 0.0)


def network(skill: str) -> RecurrentPolicy:
    env = make_env(skill, obs="laser+map")
    torch.manual_seed(0)
    return RecurrentPolicy(env.observation_space, env.action_space, job(skill, 1).policy)


def shown(parts: Sequence[tuple[Demonstrations, int]]) -> Demonstrations:
    return Demonstrations.join([part for part, _ in parts])


def same(one: Demonstrations, other: Demonstrations) -> bool:
    return all(np.array_equal(getattr(one, name), getattr(other, name)) for name in Demonstrations.__annotations__)


def test_the_same_is_shown_by_any_number_of_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    one, two = (list(demonstrate(job("open_cabinet", 30), workers)) for workers in (1, 2))
    assert [played for _, played in one] == [25, 5]
    assert same(shown(one), shown(two)) and len(shown(one).actions) > 30 * 20


def test_undisturbed_oracles_are_written_down_as_they_act(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NOISE", 0.0)
    monkeypatch.setattr(module, "DONE_SHARE", 1.0)
    player = module._Player(job("open_cabinet", 1, action_repeat=1))
    told = player.episode()
    observed, acted = player.network.obs_layout, player.network.action_layout
    env: Any = make_env("open_cabinet", "train", "laser+map", index=player.task.start.episode.index).unwrapped
    env.reset()
    rewards, total, over = [], 0.0, False
    for row, floats in zip(told.actions, told.floats, strict=True):
        assert not over
        seen = np.zeros(observed.floats, np.float32)
        observed.pack(env.observation(), seen, np.zeros(0, np.uint8))
        np.testing.assert_array_equal(seen, floats)
        _, reward, over, _, info = env.step(acted.decode(row))
        rewards.append(reward)
    assert over and info["success"]
    for i in reversed(range(len(rewards))):
        total = rewards[i] + 0.99 * total
        assert told.returns[i] == pytest.approx(total, abs=1e-4)
    grip = next(part.start for part in acted.parts if part.name == "grip_action")
    assert set(np.unique(told.actions[:, grip])) == {-1.0, 1.0}


def test_an_action_that_is_held_is_the_mean_of_what_the_oracle_did(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "NOISE", 0.0)
    monkeypatch.setattr(module, "DONE_SHARE", 1.0)
    one, three = (module._Player(job("close_cabinet", 1, action_repeat=n)) for n in (1, 3))
    each, held = one.episode(), three.episode()
    whole = len(each.actions) // 3
    np.testing.assert_allclose(
        held.actions[:whole], each.actions[: 3 * whole].reshape(whole, 3, -1).mean(axis=1), atol=1e-6
    )
    np.testing.assert_array_equal(held.floats[:whole], each.floats[: 3 * whole : 3])


def test_nobody_shows_what_the_task_does_itself() -> None:
    """Once the object is where the arm is lowered, Pick asks for no more actions."""
    player = module._Player(job("pick", 1))
    told = next(told for told in (player.episode() for _ in range(6)) if len(told.expert) and told.expert.all())
    span = {key.name: slice(key.start, key.stop) for key in player.network.obs_layout.keys}
    holding = told.floats[:, span["is_holding"]][:, 0] > 0.5
    off = np.linalg.norm(told.floats[:, span["relative_resting_position"]], axis=1)
    assert holding.sum() > 10 and not (holding & (off < 0.15)).any()


def test_the_learner_begins_and_the_oracle_takes_over() -> None:
    fresh = network("navigate")
    weights = {name: value.numpy() for name, value in fresh.state_dict().items()}
    first, later = (shown(list(demonstrate(job("navigate", 12, w), 2))) for w in (None, weights))
    assert first.expert.all() and 0 < later.expert.sum() < len(later.expert) and first.starts.sum() == 12
    assert len(first.actions) > 12 * 20 and not same(first, later)
    # Episodes end where the oracle stops: the learner's own stop is left out. And once it may, it would, to the end.
    stops, ends = (later.actions[:, 2] > 0.0) & later.expert, np.append(later.starts[1:], True)
    assert stops[ends].all() and stops.sum() > 1.5 * ends.sum()
    compass = fresh.obs_layout.keys[[key.name for key in fresh.obs_layout.keys].index("goal_to_agent_gps_compass")]
    distance, heading = later.floats[stops, compass.start], later.floats[stops, compass.start + 1]
    assert (distance < NAV_DISTANCE_M).all() and (np.abs(heading) < NAV_ANGLE_RAD).all()


def test_the_learner_begins_for_its_share_of_the_steps_at_most() -> None:
    weights = {name: value.numpy() for name, value in network("open_cabinet").state_dict().items()}

    def longest(share: float) -> int:
        played = shown(list(demonstrate(replace(job("open_cabinet", 12, weights), learner_share=share), 2)))
        return max(int((~part).sum()) for part in np.split(played.expert, np.flatnonzero(played.starts)[1:]))

    assert 1 <= longest(0.05) < 0.05 * 600 / 3 < longest(0.6) < 0.6 * 600 / 3


def test_the_oracle_is_asked_at_its_share_of_the_learners_steps() -> None:
    """Asking changes what is cloned of the learner's steps, and nothing of what happens in them."""
    weights = {name: value.numpy() for name, value in network("open_cabinet").state_dict().items()}
    never, half, always = (
        shown(list(demonstrate(replace(job("open_cabinet", 12, weights), asked_share=share), 2)))
        for share in (0.0, 0.5, 1.0)
    )
    np.testing.assert_array_equal(never.floats, always.floats)
    learners = ~never.expert
    count = np.arange(len(never.starts))
    step = count - np.maximum.accumulate(np.where(never.starts, count, 0))
    # Once it has stood still for a while, and a fresh policy does, each time; until it is relieved.
    early, still = learners & (step <= module.ASKED_STILL), learners & (step > module.ASKED_STILL)
    assert always.expert.all() and 0.35 < half.expert[early].mean() < 0.65 < half.expert[still].mean()
    np.testing.assert_array_equal(never.actions[~learners], always.actions[~learners])
    np.testing.assert_array_equal(half.actions[half.expert], always.actions[half.expert])
    np.testing.assert_array_equal(half.actions[~half.expert], never.actions[~half.expert])
    # What it says there is what it does once it has taken over, the arm being where it was a step before.
    takeovers = np.flatnonzero(learners[:-1] & ~learners[1:] & ~never.starts[1:])
    said, did = always.actions[takeovers], always.actions[takeovers + 1]
    assert np.abs(said - did).max(axis=1).mean() < 0.5 < np.abs(never.actions[takeovers] - did).max(axis=1).mean()


def test_a_learner_that_stands_still_is_relieved(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it has got stuck it stays, and what to do there is for the oracle to show."""
    weights = {name: value.numpy() for name, value in network("open_cabinet").state_dict().items()}
    monkeypatch.setattr(module, "LEARNER_BEGINS", 1.0)
    monkeypatch.setattr(module, "STILL", 10.0)  # whatever it does
    asked = replace(job("open_cabinet", 1, weights), learner_share=1.0, asked_share=1e-9)
    lengths = []
    for seed in range(8):
        told = module._Player(replace(asked, seed=(seed,))).episode()
        alone = np.flatnonzero(~told.expert)
        lengths.append(len(alone))
        # At first it is on its own, then the oracle is asked at each step, then it plays.
        np.testing.assert_array_equal(alone, np.arange(len(alone)))
    assert max(lengths) == module.ASKED_STILL + 1


def test_where_a_learner_would_stop_the_oracle_plays_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEARNER_BEGINS", 1.0)
    env = make_env("navigate", obs="laser+map")
    for stops, alone in ((30.0, False), (-30.0, True)):
        plain = job("navigate", 1)
        policy = replace(plain.policy, initial_bias={"rearrange_stop": stops})
        fresh = RecurrentPolicy(env.observation_space, env.action_space, policy)
        weights = {name: value.numpy() for name, value in fresh.state_dict().items()}
        player = module._Player(replace(plain, policy=policy, weights=weights, learner_share=1.0))
        told = Demonstrations.join([player.episode() for _ in range(3)])
        assert told.expert.all() != alone and told.expert.sum() > 3 * 10


def test_what_a_learner_was_told_is_kept_when_the_episode_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    weights = {name: value.numpy() for name, value in network("open_cabinet").state_dict().items()}
    monkeypatch.setattr(module, "LEARNER_BEGINS", 1.0)
    monkeypatch.setattr(module, "PATIENCE", 0.1)  # 60 control steps in all: too few for the oracle
    asked = replace(job("open_cabinet", 1, weights), asked_share=1.0)
    # The learner begins for a part of them, and the oracle fails; or the learner plays to the end.
    for share, oracle_too in ((0.05, True), (0.9, False)):
        told = module._Player(replace(asked, learner_share=share)).episode()
        count = int(told.expert.sum())
        assert count > 0 and told.expert[:count].all() and (count < len(told.expert)) == oracle_too


def test_cloning_an_oracle_in_rounds_gets_nearer_to_it() -> None:
    policy = network("open_cabinet")
    losses: list[float] = []

    def on_episodes(count: int, state: str) -> None:
        if "loss" in state:
            losses.append(float(state.rpartition(" ")[2]))

    clone_oracle(policy, job("open_cabinet", 25), 2, 10, World(), 2, on_episodes)
    assert len(losses) == 5 + 10 and losses[-1] < 0.85 * losses[0], losses


def test_an_oracle_that_never_succeeds_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = network("open_cabinet")
    player = module._Player(job("open_cabinet", 1))
    monkeypatch.setattr(module, "demonstrate", lambda job, workers: iter([(player._shown([]), job.episodes)]))
    with pytest.raises(NothingShown, match="none of 2 episodes of open_cabinet"):
        clone_oracle(policy, job("open_cabinet", 2), 1, 1, World(), 1)


def test_navigate_is_shown_with_what_is_in_hand() -> None:
    player = module._Player(job("navigate", 1))
    held = []
    for index in range(40):
        player.task.reset(options={"index": index})
        if not player.task.start.held:
            continue
        oracle = make_oracle("navigate", True)
        oracle.reset(player.task.sim, player.task.goal)
        for _ in range(5):
            player.task.control_step({BASE: oracle.act(player.task.sim)[BASE]}, {})
        held.append(player.task.sim.held == player.task.start.held)
    assert held and all(held)


def test_letting_go_is_seen_where_it_is_done() -> None:
    """One step opens the hand, the next one finds it empty."""
    told = shown(list(demonstrate(job("place", 8), 2)))
    layout = RecurrentPolicy(
        make_env("place", obs="laser+map").observation_space, make_env("place").action_space, job("place", 1).policy
    )
    grip = next(part.start for part in layout.action_layout.parts if part.name == "grip_action")
    holding = next(key.start for key in layout.obs_layout.keys if key.name == "is_holding")
    full, opens = told.floats[:, holding] > 0.0, told.actions[:, grip] < 0.0
    lets_go = full[:-1] & ~full[1:] & ~told.starts[1:]
    assert lets_go.sum() >= 4 and opens[:-1][lets_go].all()
