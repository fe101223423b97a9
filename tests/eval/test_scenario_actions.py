"""What `hab.scenario_env` takes: actions with parts missing, episode numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hab.scenario_env import ScenarioEnv


@pytest.mark.parametrize("action", [{}, {"arm_action": np.zeros(7, np.float32)}, {"base_vel": np.zeros(2, np.float32)}])
def test_a_missing_part_means_zeros(action: Any) -> None:
    env = ScenarioEnv("set_table", split="val", index=0)
    env.reset()
    assert env.step(action)[2] is False
    assert env.step({"rearrange_stop": np.ones(1, np.float32)})[2] is True


def test_a_negative_index_is_refused() -> None:
    with pytest.raises(ValueError, match="index=-1: episodes are numbered from 0"):
        ScenarioEnv("set_table", index=-1)
    with pytest.raises(ValueError, match="index=-1"):
        ScenarioEnv("set_table").reset(options={"index": -1})
