"""What one update costs: CPU time of one core for drawing a batch, for the Q functions and for the policy.

    python benchmarks/pql/updates.py --json FILE

CPU time, so that other work on the machine counts for little; medians of 50.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from gymnasium import spaces

from pql_core.config import PqlConfig
from pql_core.learning import PolicyLearner, ValueLearner
from pql_core.processes import Job, build
from pql_core.replay import DRAWN_AT_ONCE, STEP, TERMINATED, Records, Replay
from ver_core.config import PolicyConfig

CASES = {
    "small": ([256, 128], {}),
    "small, C51": ([256, 128], {"critic": "c51"}),
    "small, SAC": ([256, 128], {"learner": "sac"}),
    "paper's layers": ([512, 256, 128], {}),
}
ENVS, SEEN, ACTED = 64, 105, 8


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    torch.set_num_threads(1)
    found = {}
    for name, (layers, settings) in CASES.items():
        found[name] = measure(layers, PqlConfig(num_envs=ENVS, batch_size=options.batch, **settings))
        print(name, "  ".join(f"{what} {value:.1f}" for what, value in found[name].items()))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def measure(layers: list[int], config: PqlConfig) -> dict[str, float]:
    network = PolicyConfig(rnn_layers=0, previous_action=False, normalize_vectors=True, mlp=layers, critic_mlp=layers)
    observation = spaces.Box(-np.inf, np.inf, (SEEN,))
    nets = build(Job(observation, spaces.Box(-1.0, 1.0, (ACTED,)), network, config, "cpu"))
    values = ValueLearner(nets.q, nets.policy, nets.temperature, config)
    policy = PolicyLearner(nets.policy, nets.temperature, nets.q, config)
    replay = Replay(ENVS, 200_000, nets.policy.obs_layout, ACTED, nets.half, torch.device("cpu"))
    for step in range(1000):
        kind = torch.full((ENVS,), TERMINATED if step % 50 == 0 else STEP, dtype=torch.uint8)
        none = torch.zeros(ENVS, 0, dtype=torch.uint8)
        action = torch.rand(ENVS, ACTED) * 2 - 1
        replay.append(Records(torch.arange(ENVS), torch.randn(ENVS, SEEN), none, action, torch.randn(ENVS), kind))
    (batch,), states = replay.sample(config.batch_size, 3, 0.99, 1), replay.states(config.batch_size)
    return {
        "draw_ms": cpu_ms(lambda: replay.sample(config.batch_size, 3, 0.99, DRAWN_AT_ONCE)) / DRAWN_AT_ONCE,
        "critic_ms": cpu_ms(lambda: values.update(batch)),
        "policy_ms": cpu_ms(lambda: policy.update(*states)),
    }


def cpu_ms(action: Callable[[], object]) -> float:
    """Return the median CPU time of one call."""
    for _ in range(5):
        action()
    taken = []
    for _ in range(50):
        before = time.process_time()
        action()
        taken.append(time.process_time() - before)
    return 1e3 * float(np.median(taken))


if __name__ == "__main__":
    main()
