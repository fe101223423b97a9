"""Who waits for whom: the ratios hold however fast each process is, and never do all wait."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pql_core.ratios import Ratios

speeds = st.floats(0.02, 50.0)


@settings(deadline=None, max_examples=60)
@given(
    speeds, speeds, speeds, st.sampled_from([0.5, 4.0, 8.0, 12.0]), st.sampled_from([0.5, 1.0, 2.0, 4.0]),
    st.integers(1, 16),
)  # fmt: skip
def test_the_ratios_are_reached_at_any_speeds(
    actor: float, v_learner: float, p_learner: float, per_step: float, per_p: float, batch: int
) -> None:
    """Each process is an event queue of its own: units of work that take 1 / speed, or it is asleep until it may."""
    envs = 16
    ratios = Ratios(envs, per_step, per_p)
    done = {"a": 0, "v": 0, "p": 0}
    takes = {"a": 1.0 / actor, "v": 1.0 / v_learner, "p": 1.0 / p_learner}
    ends: dict[str, float] = {}
    now = 0.0

    def may(who: str) -> bool:
        e, v, p = done["a"], done["v"], done["p"]
        return {"a": ratios.actor_may(e, v), "v": ratios.v_may(e, v, p), "p": ratios.p_may(v, p)}[who]

    while done["a"] < 200 * envs:
        for who in takes:
            if who not in ends and may(who):
                ends[who] = now + takes[who]
        assert ends, f"all wait for each other at {done}"
        who = min(ends, key=lambda key: ends[key])
        now = ends.pop(who)
        done[who] += batch if who == "a" else 1
    steps = done["a"] / envs
    assert done["v"] / steps == pytest.approx(per_step, rel=0.05)
    assert done["v"] / done["p"] == pytest.approx(per_p, rel=0.05 + 2.0 / done["p"])


@given(st.integers(0, 10_000), st.floats(0.1, 20.0), st.integers(0, 100))
def test_due_is_what_may_be_done_until_new_data_comes(e: int, per_step: float, v: int) -> None:
    ratios, done = Ratios(16, per_step, 2.0), v
    while ratios.v_may(e, done, p=10_000):
        done += 1
    assert done - v == max(0, ratios.v_due(e, v))


def test_without_them_nobody_waits() -> None:
    free = Ratios(4, 8.0, 2.0, kept=False)
    for e, v, p in np.random.default_rng(0).integers(0, 10_000, (50, 3)).tolist():
        assert free.actor_may(e, v) and free.v_may(e, v, p) and free.p_may(v, p)
