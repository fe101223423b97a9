"""What is compared: the arms of each suite, as settings of one run.

Control suites train gymnasium's MuJoCo tasks on env workers; skills, this project's tasks by `tpsrl train-skill`. PQL
and its sequential forms have the same environments, 64 of them, networks and batches; VER has its own recipe, and SB3's
SAC SB3's defaults: one environment, an update a step.
"""

from __future__ import annotations

from typing import Any

PQL: dict[str, Any] = {
    # Table B.1, but for what 64 environments on two cores ask for (configs/train/pql_small.yaml says why). Batches of
    # 256, with which PQL makes half as many steps a second again as with 512 and, in one pilot each, learnt Ant-v5
    # about as well by steps (docs/pql.md).
    "num_envs": 64, "envs_per_worker": 32, "batch_size": 256, "replay_size": 1_000_000, "warmup_steps": 64,
    "critic_updates_per_step": 8.0, "critic_updates_per_policy_update": 2.0, "reward_scale": 0.01,
}  # fmt: skip
"""The reward scale is Table B.2's of Ant and Humanoid; the other tasks have it, too."""
TURNS: dict[str, Any] = {**PQL, "parallel": False, "threads": 2}
"""The sequential baselines: nothing runs beside them, so they may learn on both cores."""
SAC: dict[str, Any] = {**TURNS, "learner": "sac", "entropy_coef": 0.002, "entropy_coef_learning_rate": 5e-3}
"""The entropy coefficient's usual 0.2, in units of the scaled rewards; its rate is the authors' code's."""
NETWORK: dict[str, Any] = {
    "rnn_layers": 0, "previous_action": False, "normalize_vectors": True, "mlp": [256, 128], "critic_mlp": [256, 128],
}  # fmt: skip
VER: dict[str, Any] = {
    # configs/train/small.yaml
    "num_envs": 32, "envs_per_worker": 16, "rollout_length": 256, "epochs": 4, "mini_batches": 8,
    "learning_rate": 3e-4, "std_learning_rate": 2e-3, "entropy_coef_learning_rate": 1e-2, "max_grad_norm": 1.0,
    "normalize_advantage": True, "min_batch": 16, "inference_workers": 1, "learner_threads": 2,
}  # fmt: skip
VERS_NETWORK: dict[str, Any] = {**NETWORK, "mlp": [256, 256], "critic_mlp": [256, 256], "initial_std": 0.5}
"""As in small.yaml, with a layer in place of the LSTM."""
VERS_ENTROPY = {"Ant-v5": -4.0, "Humanoid-v5": -8.0}
"""Nats, of all actions together: a deviation of about 0.15 each, as for the skills."""

CONTROL: dict[str, dict[str, Any]] = {
    "pql": {"system": "pql", "config": PQL},
    "pql_d": {"system": "pql", "config": {**PQL, "critic": "c51"}},
    "ddpg_n": {"system": "pql", "config": TURNS},
    "sac_n": {"system": "pql", "config": SAC},
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
}
SLOWED: dict[str, dict[str, Any]] = {"pql": CONTROL["pql"], "ddpg_n": CONTROL["ddpg_n"]}
PAPER: dict[str, Any] = {
    # Table B.1, but 1,024 environments for 4,096: they are stepped by 15 cores here, not by the GPU.
    **PQL, "num_envs": 1024, "envs_per_worker": 69, "batch_size": 8192, "replay_size": 5_000_000, "warmup_steps": 32,
    "save_replay": False,
}  # fmt: skip
PAPERS_NETWORK: dict[str, Any] = {**NETWORK, "mlp": [512, 256, 128], "critic_mlp": [512, 256, 128]}
GPU: dict[str, dict[str, Any]] = {
    "pql": {"system": "pql", "config": PAPER, "network": PAPERS_NETWORK},
    "ddpg_n": {"system": "pql", "config": {**PAPER, "parallel": False}, "network": PAPERS_NETWORK},
}
SKILLS: dict[str, dict[str, Any]] = {
    "pql_d": {"system": "skill", "options": ["--algorithm", "pql", "retries=0"]},
    "ver": {"system": "skill", "options": ["retries=0"]},
}
"""With retries, episodes that failed are played again, and training's success is of harder ones."""
SUITES: dict[str, tuple[list[str], dict[str, dict[str, Any]]]] = {
    "control": (["Ant-v5", "Humanoid-v5"], CONTROL),
    "exploration": (["HalfCheetah-v5"], EXPLORATION),
    "ratios": (["HalfCheetah-v5"], RATIOS),
    "slowed": (["HalfCheetah-v5", "InvertedDoublePendulum-v5"], SLOWED),
    "gpu": (["HalfCheetah-v5"], GPU),
    "skills": (["pick", "open_fridge"], SKILLS),
}
"""Suite -> its tasks and arms; the others are compared with the first one."""
SLOWED_STEP_S = 0.002
"""Suite `slowed`: each environment sleeps for so long in each step, as a simulator on another machine would keep it
waiting: 64 ms for the 32 of a worker, about what a step of a skill's environments takes, and the updates that belong to
it. Sleeping takes no core from the learners, so what is measured is the waiting that PQL saves."""
