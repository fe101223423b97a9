"""`python -m tpsrl.train skill=pick out=DIR …`: train-skill as a Hydra application, for --multirun and SLURM.

A run whose folder holds a checkpoint is resumed, so a job that is queued again goes on where it was. Env workers import
this module again: nothing heavy at the top.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omegaconf import DictConfig


def main() -> None:
    """Hand over to Hydra."""
    import hydra

    import configs.schema  # noqa: F401  (registers the schema)

    hydra.main(config_path="pkg://configs", config_name="train_skill")(_job)()


def _job(composed: DictConfig) -> None:
    """Train in Hydra's output folder."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode

    from configs.schema import ConfigError, override_key, typed_train_config
    from hab.mujoco.gl import RenderingUnavailable
    from skills import SkillError
    from tpsrl.inputs import BadInput, Failure
    from tpsrl.training import train_skill

    settings = HydraConfig.get()
    several = settings.mode == RunMode.MULTIRUN
    out = Path(settings.runtime.output_dir)
    try:
        if several and "out" in map(override_key, settings.overrides.task):
            raise BadInput("out: with --multirun each job has a folder of its own; set hydra.sweep.dir instead")
        result = train_skill(typed_train_config(composed), out, resume=(out / "checkpoint.pt").exists())
    except (ConfigError, BadInput, RenderingUnavailable, SkillError, Failure) as error:
        if several:
            raise  # the launcher reports it with the job's number
        print(f"tpsrl: {' '.join(str(error).split())}", file=sys.stderr)
        sys.exit(1 if isinstance(error, Failure) else 2)
    if several and result.interrupted:
        sys.exit(0)  # and do not start the next job


if __name__ == "__main__":
    main()
