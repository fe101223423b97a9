"""The Home Assistant Benchmark: apartments, the Fetch robot, episodes, sensors and measures.

Importing it registers the scenarios with gymnasium: tpsrl/TidyHouse-v0, tpsrl/PrepareGroceries-v0, tpsrl/SetTable-v0;
and those of `hab.navigation`.
"""

import gymnasium

from hab import navigation

__all__ = ["IDS", "navigation"]

IDS = {
    "tidy_house": "tpsrl/TidyHouse-v0",
    "prepare_groceries": "tpsrl/PrepareGroceries-v0",
    "set_table": "tpsrl/SetTable-v0",
}
"""Scenario -> gymnasium id."""

for _scenario, _id in IDS.items():
    gymnasium.register(_id, entry_point="hab.scenario_env:ScenarioEnv", kwargs={"scenario": _scenario})
