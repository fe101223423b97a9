"""What is compared: the arms of each suite, as settings of one run.

Control suites train gymnasium's Ant-v5 and Humanoid-v5 on env workers; skills, this project's tasks by `tpsrl
train-skill`. All arms of a suite have the same environments and the same number of them, but VER, which has its own.
"""

from __future__ import annotations

from typing import Any

PQL: dict[str, Any] = {
    # Table B.1, but for what 64 environments on two cores ask for (configs/train/pql_small.yaml says why).
    "num_envs": 64, "envs_per_worker": 32, "batch_size": 512, "replay_size": 1_000_000, "warmup_steps": 64,
    "critic_updates_per_step": 8.0, "critic_updates_per_policy_update": 2.0, "greedy_envs": 8, "reward_scale": 0.01,
    "greedy_episodes": 16,  # of up to 1,000 steps each: more would say what the policy was worth long ago
}  # fmt: skip
"""Ant's and Humanoid's reward scale is Table B.2's."""
TURNS: dict[str, Any] = {**PQL, "parallel": False, "threads": 2}
"""The sequential baselines: nothing runs beside them, so they may learn on both cores."""
NETWORK: dict[str, Any] = {
    "rnn_layers": 0, "previous_action": False, "normalize_vectors": True, "mlp": [256, 128], "critic_mlp": [256, 128],
}  # fmt: skip

PQL_D = {**PQL, "critic": "c51"}
CONTROL: dict[str, dict[str, Any]] = {
    "pql": {"system": "pql", "config": PQL},
    "pql_d": {"system": "pql", "config": PQL_D},
    "ddpg_n": {"system": "pql", "config": TURNS},
    "sac_n": {"system": "pql", "config": {**TURNS, "learner": "sac"}},
    "ver": {"system": "ver"},
    "sb3_sac": {"system": "sb3"},
}
EXPLORATION: dict[str, dict[str, Any]] = {
    "mixed": CONTROL["pql"],
    **{
        f"sigma_{sigma}": {"system": "pql", "config": {**PQL, "sigma_min": sigma, "sigma_max": sigma}}
        for sigma in (0.2, 0.4, 0.8)
    },
}
RATIOS: dict[str, dict[str, Any]] = {
    "kept": CONTROL["pql"],
    "free": {"system": "pql", "config": {**PQL, "keep_ratios": False}},
    **{
        f"updates_{updates}": {"system": "pql", "config": {**PQL, "critic_updates_per_step": float(updates)}}
        for updates in (2, 4, 16)
    },
}
SLOWED: dict[str, dict[str, Any]] = {"pql": CONTROL["pql"], "ddpg_n": CONTROL["ddpg_n"]}
SKILLS: dict[str, dict[str, Any]] = {
    "pql_d": {"system": "skill", "options": ["--algorithm", "pql"]},
    "ver": {"system": "skill", "options": []},
}
SUITES: dict[str, tuple[list[str], dict[str, dict[str, Any]]]] = {
    "control": (["Ant-v5", "Humanoid-v5"], CONTROL),
    "exploration": (["Ant-v5"], EXPLORATION),
    "ratios": (["Ant-v5"], RATIOS),
    "slowed": (["Ant-v5"], SLOWED),
    "skills": (["pick", "open_fridge"], SKILLS),
}
"""Suite -> its tasks and arms."""
SLOWED_STEP_S = 0.05
"""Suite `slowed`: each environment sleeps for so long in each step, as a simulator on another machine would keep it
waiting. Sleeping takes no core from the learners, so what is measured is the waiting that PQL saves."""
