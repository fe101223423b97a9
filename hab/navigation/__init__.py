"""Navigation without physics in the generated apartments: PointNav, ObjectNav, Flee and Explore (docs/navigation.md).

Importing it registers the tasks with gymnasium.
"""

import gymnasium

NAVIGATION_IDS = {
    "pointnav": "tpsrl/PointNav-v0",
    "objectnav": "tpsrl/ObjectNav-v0",
    "flee": "tpsrl/Flee-v0",
    "explore": "tpsrl/Explore-v0",
}
"""Task -> gymnasium id."""
TASKS = tuple(NAVIGATION_IDS)

for _task, _id in NAVIGATION_IDS.items():
    gymnasium.register(
        _id, entry_point="hab.navigation.env:NavigationEnv", kwargs={"task": _task}, disable_env_checker=True
    )
