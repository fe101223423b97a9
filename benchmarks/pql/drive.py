"""Trains one arm of a control suite: `drive.py SUITE ARM TASK SEED SECONDS KEEP_S FOLDER`. An interrupted run is
resumed.

Training ends after so many seconds of wall clock, all sessions together. Then the policies that were kept meanwhile,
one every KEEP_S seconds, are played (snapshots.py): their returns (played.jsonl) are the result. With `train` as one
more argument they are not; the same command without it plays them.

VER's learning rate follows a cosine over all its steps, so it has to be told how many there will be: before its first
run of a task a trial of 20 s says how many this machine makes a second (`pace.json`, beside the seeds' folders). The
schedule has room for 5 % more; the clock ends the run all the same.
"""

from __future__ import annotations

import json
import platform
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from arms import NETWORK, SLOWED_STEP_S, SUITES, VER, VERS_ENTROPY, VERS_NETWORK
from control_env import make
from snapshots import Keeper, last_row, play_run

from pql_core.config import PqlConfig
from pql_core.trainer import PqlTrainer
from ver_core.config import PolicyConfig, TrainConfig
from ver_core.env_worker import MakeEnv
from ver_core.reporting import Update
from ver_core.trainer import Trainer

STEPS = 1_000_000_000
"""More than anybody makes: the clock decides."""
TRIAL_S, MARGIN = 20.0, 1.05
"""Of VER: how long its pace is measured, and how many more steps its schedule has than it would make."""


def main() -> None:
    suite, arm, task, seed, seconds, keep_s, folder, *only = sys.argv[1:]
    settings, out = SUITES[suite][1][arm], Path(folder)
    if settings["system"] == "ver":
        network, learner = PolicyConfig(**VERS_NETWORK), "ver"
    else:
        network = PolicyConfig(**settings.get("network", NETWORK))
        learner = settings["config"].get("learner", "ddpg")
    if last_row(out)["seconds"] < float(seconds):
        saving = {"seed": int(seed), "checkpoint_every_s": float(keep_s)}
        train(suite, arm, task, network, out, float(seconds), saving)
    if only != ["train"]:
        play_run(out, task, network, learner)


def train(suite: str, arm: str, task: str, network: PolicyConfig, out: Path, limit: float, saving: Any) -> None:
    """Train until `limit` seconds of clock are over, and keep policies meanwhile."""
    settings = SUITES[suite][1][arm]
    make_env = partial(make, task, SLOWED_STEP_S if suite == "slowed" else 0.0)
    keeper = Keeper(out)

    def over(_: Any) -> bool:
        keeper.look()
        return bool(last_row(out)["seconds"] >= limit)

    shared: dict[str, Any] = {"out": out, "resume": (out / "checkpoint.pt").is_file(), "description": f"{arm} {task}"}
    if settings["system"] == "pql":
        config = PqlConfig(**settings["config"], **saving, total_steps=STEPS)
        interrupted = PqlTrainer(make_env, config, network, **shared).train(over).interrupted
    else:
        steps = int(MARGIN * pace(task, make_env, network, out.parent / "pace.json") * limit)
        config_of_ver = TrainConfig(**VER, **saving, total_steps=steps, target_entropy=VERS_ENTROPY[task])
        interrupted = Trainer(make_env, config_of_ver, network, **shared).train(over).interrupted
    if interrupted:
        raise SystemExit(1)
    keeper.look()


def pace(task: str, make_env: MakeEnv, network: PolicyConfig, file: Path) -> float:
    """Return how many steps a second VER makes on this machine, its start left out: from the file, or tried now."""
    known = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    machine = platform.node()
    if machine not in known:
        seen: list[tuple[float, int]] = []

        def over(update: Update) -> bool:
            seen.append((time.monotonic(), update.steps))
            return seen[-1][0] - seen[0][0] >= TRIAL_S

        config = TrainConfig(**VER, total_steps=STEPS, target_entropy=VERS_ENTROPY[task])
        if Trainer(make_env, config, network, description=f"pace of {task}").train(over).interrupted:
            raise SystemExit(1)
        (began, before), (ended, after) = seen[0], seen[-1]
        known[machine] = (after - before) / (ended - began)
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(known) + "\n", encoding="utf-8")
    return float(known[machine])


if __name__ == "__main__":
    main()
