"""What the training core itself costs: environments that do nothing, a tiny policy, no learning.

A step is one round trip: the environment's worker writes its observation, the learner's process runs the policy on the
requests that have come, the action goes back. `python benchmarks/transport.py` prints steps per second of 16 workers
together, and the microseconds that each step takes of the whole machine; `--json FILE` writes the figures, `--quick`
takes 10 seconds instead of 40.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
from pathlib import Path

from tiny_envs import NoOp

WORKERS = 16
ROLLOUT_LENGTH = 512
TARGET_SPS = 25_000


def measure(min_batch: int, seconds: float) -> tuple[list[float], float]:
    """Return the steps per second of each rollout, and the mean number of requests in a batch."""
    import torch  # not above: env workers import this file

    from ver_core.collector import Collector
    from ver_core.config import PolicyConfig
    from ver_core.policy import RecurrentPolicy
    from ver_core.rollout import Rollout
    from ver_core.schedulers import Ver
    from ver_core.shared_rows import Layout
    from ver_core.spaces import ActionLayout, ObsLayout
    from ver_core.worker_pool import WorkerPool

    torch.set_num_threads(1)
    obs, action = ObsLayout(NoOp.observation_space), ActionLayout(NoOp.action_space)
    layout = Layout.of(WORKERS, obs, action)
    policy = RecurrentPolicy(NoOp.observation_space, NoOp.action_space, PolicyConfig(rnn_layers=0, mlp=[32]))
    device = torch.device("cpu")
    pool = WorkerPool(NoOp, obs, action, WORKERS, (0,))
    collector = Collector(pool, policy, Ver(WORKERS, ROLLOUT_LENGTH, min_batch), layout, device, (0,))
    rollout = Rollout(layout, ROLLOUT_LENGTH, policy.state_size, device)
    try:
        collector.collect(rollout)  # starts the workers
        rates, batches, requests = [], 0, 0
        end = time.perf_counter() + seconds
        while time.perf_counter() < end:
            collection = collector.collect(rollout)
            rates.append(rollout.size / collection.seconds)
            batches, requests = batches + collection.batches, requests + collection.requests
        return rates, requests / batches
    finally:
        collector.close()
        pool.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    rows = {}
    for min_batch in (1, WORKERS // 2, WORKERS):
        rates, batch = measure(min_batch, 2.5 if options.quick else 12.0)
        rows[min_batch] = (statistics.median(rates), batch)
    print(f"{'min batch':>10} {'steps/s':>10} {'us/step':>9} {'mean batch':>11}")
    for min_batch, (sps, batch) in rows.items():
        print(f"{min_batch:>10} {sps:>10,.0f} {1e6 / sps:>9.1f} {batch:>11.1f}")
    best = max(rows, key=lambda key: rows[key][0])
    sps = rows[best][0]
    print(f"\n{WORKERS} workers, min batch {best}: {sps:,.0f} steps/s (target {TARGET_SPS:,})")
    if options.json:
        figures = {
            "workers": WORKERS,
            "sps": sps,
            "us_per_step": 1e6 / sps,
            "min_batch": best,
            "sps_by_min_batch": {str(key): value for key, (value, _) in rows.items()},
        }
        options.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
