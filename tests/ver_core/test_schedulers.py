"""The schedulers as pure logic: environments that answer in any order, some of them replaced on the way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ver_core.config import SCHEDULERS as NAMES
from ver_core.schedulers import SCHEDULERS, DdPpo, NoVer, Scheduler, Ver

MAKE = st.sampled_from([Ver, NoVer, DdPpo])


@dataclass
class Setup:
    kind: type[Ver | NoVer | DdPpo]
    num_envs: int
    length: int
    min_batch: int
    max_batch: int
    """0: as many as there are environments."""

    def make(self) -> Scheduler:
        return self.kind(self.num_envs, self.length, self.min_batch, self.max_batch)


@st.composite
def setups(draw: st.DrawFn, kinds: st.SearchStrategy[type[Ver | NoVer | DdPpo]] = MAKE) -> Setup:
    kind, num_envs = draw(kinds), draw(st.integers(1, 5))
    if kind is DdPpo:
        return Setup(kind, num_envs, draw(st.integers(1, 5)), 1, 0)
    min_batch = draw(st.integers(1, num_envs + 2))
    max_batch = draw(st.just(0) | st.integers(min(min_batch, num_envs), num_envs))
    return Setup(kind, num_envs, draw(st.integers(1, 5)), min_batch, max_batch)


@dataclass
class World:
    """Environments and a collector as simple as can be; checks every choice."""

    setup: Setup
    scheduler: Scheduler
    away: list[int] = field(default_factory=list)
    """Stepping, or starting."""
    waiting: list[int] = field(default_factory=list)
    pending: set[int] = field(default_factory=set)
    """Those that have a step to complete: away, or back and waiting."""
    completed: list[int] = field(default_factory=list)
    batches: list[tuple[list[int], bool]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.away = list(range(self.setup.num_envs))

    def serve(self) -> bool:
        """Let the scheduler choose once; whether it chose anybody."""
        n = self.setup.num_envs
        pending = np.array([env in self.pending for env in range(n)])
        before = list(self.waiting)
        chosen, act = self.scheduler.choose(self.waiting, pending)
        assert self.waiting == before  # the list is the collector's
        if not chosen:
            return False
        assert len(set(chosen)) == len(chosen) and set(chosen) <= set(self.waiting)  # each has asked, once
        assert len(chosen) <= (self.setup.max_batch or n)
        self.batches.append((chosen, act))
        self.completed += [env for env in chosen if env in self.pending]
        self.pending -= set(chosen)
        if act:
            self.waiting = [env for env in self.waiting if env not in chosen]
            self.away += chosen
            self.pending |= set(chosen)
        return True

    def replace(self, env: int) -> None:
        """Lose a worker and start another one."""
        self.pending.discard(env)
        if env in self.waiting:
            self.waiting.remove(env)
            self.away.append(env)

    def arrive(self, env: int) -> None:
        self.away.remove(env)
        self.waiting.append(env)

    def collect(self, data: st.DataObject, losses: int = 0, preempt_after: int | None = None) -> list[int]:
        """Run one rollout; return who completed its steps, in order."""
        self.scheduler.begin()
        self.completed, self.batches = [], []
        preempted, most = False, losses
        while not self.scheduler.complete:
            if preempt_after is not None and not preempted and len(self.completed) >= preempt_after:
                preempted = True
                self.scheduler.preempt()
                continue
            if self.serve():
                # All serve somebody who completes a step, but for the first ones of those who have none.
                assert len(self.batches) <= self.setup.num_envs * (self.setup.length + 1) + most, "it goes on for ever"
                continue
            assert self.away, f"{self.setup}: it waits for somebody, but nobody is away"
            if losses and data.draw(st.integers(0, 4)) == 0:
                losses -= 1
                self.replace(data.draw(st.integers(0, self.setup.num_envs - 1)))
            for env in data.draw(st.lists(st.sampled_from(self.away), min_size=1, unique=True)):
                self.arrive(env)
        return self.completed


def counts(envs: list[int], num_envs: int) -> list[int]:
    return np.bincount(np.array(envs, int), minlength=num_envs).tolist()


@settings(deadline=None, max_examples=150)
@given(setups(), st.integers(0, 4), st.data())
def test_quotas_are_exact_whatever_the_order(setup: Setup, losses: int, data: st.DataObject) -> None:
    world = World(setup, setup.make())
    for number in range(3):
        made = world.collect(data, losses if number == 1 else 0)
        if setup.kind is Ver:
            assert len(made) == setup.num_envs * setup.length
        else:
            assert counts(made, setup.num_envs) == [setup.length] * setup.num_envs
        if setup.kind is DdPpo:
            assert not world.pending  # strictly on-policy: no action of these weights is left over


@settings(deadline=None, max_examples=60)
@given(setups(st.just(DdPpo)), st.data())
def test_ddppo_steps_in_lockstep(setup: Setup, data: st.DataObject) -> None:
    world = World(setup, setup.make())
    everybody = set(range(setup.num_envs))
    for _ in range(3):
        world.collect(data)
        assert [set(chosen) for chosen, _ in world.batches] == [everybody] * (setup.length + 1)
        assert [act for _, act in world.batches] == [True] * setup.length + [False]


@settings(deadline=None, max_examples=60)
@given(setups(st.sampled_from([Ver, NoVer])), st.data())
def test_served_environments_are_sent_off_again(setup: Setup, data: st.DataObject) -> None:
    """Nobody idles while the learner learns, but for those that the last batches had no place for."""
    world = World(setup, setup.make())
    for _ in range(3):
        world.collect(data)
        assert all(act for _, act in world.batches)


@settings(deadline=None, max_examples=100)
@given(setups(st.sampled_from([Ver, NoVer])), st.data())
def test_batches_are_not_below_the_minimum_without_need(setup: Setup, data: st.DataObject) -> None:
    """Fewer only if no more could ever come: towards the end of the rollout."""
    world = World(setup, setup.make())
    world.collect(data)
    fresh = set(range(setup.num_envs))
    done: list[int] = []
    for chosen, _ in world.batches:
        if setup.kind is Ver:
            left = setup.num_envs * setup.length - len(done)
        else:
            left = sum(made < setup.length for made in counts(done, setup.num_envs))
        assert len(chosen) >= min(setup.min_batch, setup.num_envs, left)
        done += [env for env in chosen if env not in fresh]
        fresh -= set(chosen)
    assert done == world.completed


@settings(deadline=None, max_examples=150)
@given(setups(), st.integers(0, 3), st.data())
def test_preempted_rollouts_end_and_the_next_one_is_whole(setup: Setup, losses: int, data: st.DataObject) -> None:
    world = World(setup, setup.make())
    full = setup.num_envs * setup.length
    world.collect(data)
    limit = data.draw(st.integers(0, full))
    made = world.collect(data, losses, preempt_after=limit)
    if setup.kind is DdPpo:
        # Whoever is in flight finishes; with nobody in flight yet, one step each is made.
        assert len(made) <= limit + 2 * setup.num_envs
        assert not world.pending
    else:
        assert limit <= len(made) < limit + setup.num_envs
    assert max(counts(made, setup.num_envs)) <= (full if setup.kind is Ver else setup.length)
    made = world.collect(data)
    assert len(made) == full
    if setup.kind is not Ver:
        assert counts(made, setup.num_envs) == [setup.length] * setup.num_envs


def race(scheduler: Scheduler, seconds: list[int], rollouts: int) -> list[tuple[list[int], int]]:
    """Let environments that take so many ticks a step run against the clock; nobody else takes any time.

    Returns the steps of each environment and the ticks, rollout by rollout.
    """
    n = len(seconds)
    due: dict[int, int] = dict.fromkeys(range(n), 0)
    waiting: list[int] = []
    pending = np.zeros(n, bool)
    now, found = 0, []
    for _ in range(rollouts):
        scheduler.begin()
        made, start = [0] * n, now
        while not scheduler.complete:
            waiting += sorted(env for env, at in due.items() if at <= now)
            due = {env: at for env, at in due.items() if at > now}
            chosen, act = scheduler.choose(waiting, pending)
            if not chosen:
                now = min(due.values())
                continue
            for env in chosen:
                made[env] += bool(pending[env])
                pending[env] = act
                if act:
                    waiting.remove(env)
                    due[env] = now + seconds[env]
        found.append((made, now - start))
    return found


def test_what_speeds_do_to_the_schedulers() -> None:
    """Counted by hand: one environment takes 4 ticks a step, three take 1; a rollout is 4 x 10 steps."""
    seconds = [4, 1, 1, 1]
    # In 12 ticks the fast ones make 36 steps and the slow one 3: 39; one of the next tick's makes it 40.
    (made, ticks), *later = race(Ver(4, 10), seconds, 4)
    assert sum(made) == 40 and made[0] == 3 and min(made[1:]) == 12 and ticks == 13
    assert all(sum(made) == 40 and ticks <= 13 for made, ticks in later)
    # Without variable experience it takes as long as the slow one's 10 steps; one of them is in flight already from
    # the second rollout on, but it began only when the rollout before ended.
    assert race(NoVer(4, 10), seconds, 3) == [([10] * 4, 40)] * 3
    assert race(DdPpo(4, 10), seconds, 3) == [([10] * 4, 40)] * 3
    # NoVER takes as long as the slowest, however the others fare.
    assert race(NoVer(2, 6), [2, 3], 1) == [([6, 6], 18)]


@pytest.mark.parametrize("name", NAMES)
def test_every_configured_name_is_a_scheduler(name: str) -> None:
    make: Callable[..., Scheduler] = SCHEDULERS[name]
    assert not make(2, 3, 1, 2).complete


def test_there_are_no_other_schedulers() -> None:
    assert set(SCHEDULERS) == set(NAMES)
