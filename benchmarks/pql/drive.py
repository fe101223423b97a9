"""Trains one arm of a control suite: `drive.py SUITE ARM TASK SEED SECONDS FOLDER`. An interrupted run is resumed.

Training ends after so many seconds of wall clock, all sessions together. Then the policies that were kept meanwhile are
played (snapshots.py): their returns (played.jsonl) are the result.
"""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path
from typing import Any

from arms import NETWORK, SLOWED_STEP_S, SUITES, VER, VERS_ENTROPY, VERS_NETWORK, VERS_PACE
from control_env import make
from snapshots import EVERY_S, Keeper, play_run

from pql_core.config import PqlConfig
from pql_core.trainer import PqlTrainer
from ver_core.config import PolicyConfig, TrainConfig
from ver_core.trainer import Trainer

STEPS = 1_000_000_000
"""More than anybody makes: the clock decides."""


def main() -> None:
    suite, arm, task, seed, seconds, folder = sys.argv[1:]
    settings, out, limit = SUITES[suite][1][arm], Path(folder), float(seconds)
    make_env = partial(make, task, SLOWED_STEP_S if suite == "slowed" else 0.0)
    keeper = Keeper(out)

    def over(_: Any) -> bool:
        row = last_row(out)
        keeper.look(int(row["steps"]), row["seconds"])
        return bool(row["seconds"] >= limit)

    shared: dict[str, Any] = {"out": out, "resume": (out / "checkpoint.pt").is_file(), "description": f"{arm} {task}"}
    saving: dict[str, Any] = {"seed": int(seed), "checkpoint_every_s": EVERY_S}
    if settings["system"] == "pql":
        network = PolicyConfig(**NETWORK)
        config = PqlConfig(**settings["config"], **saving, total_steps=STEPS)
        interrupted = PqlTrainer(make_env, config, network, **shared).train(over).interrupted
        learner = config.learner
    else:
        network, learner = PolicyConfig(**VERS_NETWORK), "ver"
        pace = VERS_PACE[task]
        train = TrainConfig(**VER, **saving, total_steps=int(pace * limit), target_entropy=VERS_ENTROPY[task])
        interrupted = Trainer(make_env, train, network, **shared).train(over).interrupted
    if interrupted:
        raise SystemExit(1)
    keeper.look(**{key: last_row(out)[key] for key in ("steps", "seconds")})
    play_run(out, task, network, learner)


def last_row(run: Path) -> dict[str, Any]:
    """Return the last row of scalars; the clock goes on where an earlier session left it."""
    lines = (run / "scalars.jsonl").read_text(encoding="utf-8").splitlines()
    return dict(json.loads(lines[-1])) if lines else {"steps": 0, "seconds": 0.0}


if __name__ == "__main__":
    main()
