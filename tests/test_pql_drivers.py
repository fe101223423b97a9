"""benchmarks/pql: what the runs of a suite are told, and how VER's schedule gets its length."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path

import pytest

from ver_core.config import PolicyConfig, TrainConfig

FOLDER = Path(__file__).parents[1] / "benchmarks" / "pql"


@pytest.mark.parametrize("system", ["pql", "sb3"])
def test_policies_are_played_as_often_whoever_learns(system: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))
    spec = spec_from_file_location("pql_run", FOLDER / "run.py")  # other benchmarks have a run.py, too
    assert spec is not None and spec.loader is not None
    run = module_from_spec(spec)
    spec.loader.exec_module(run)

    options = Namespace(suite="control", seconds=400, keep_s=40.0, train_only=False, venv=Path("venv"))
    command = run._command(options, system, "arm", "Ant-v5", 3, Path("out"))
    assert command[-5:] == ["Ant-v5", "3", "400", "40.0", "out"]


def test_vers_schedule_is_as_long_as_this_machine_takes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Trainings are played from a script: an update every 1.5 s after a start of 7 s, of 6,000 steps each."""
    monkeypatch.syspath_prepend(str(FOLDER))
    import drive

    clock, configs = [100.0], []

    class Scripted:
        def __init__(self, make_env: object, config: TrainConfig, network: object, **named: object) -> None:
            configs.append(config)
            self._out = named.get("out")

        def train(self, over: Callable[[Namespace], bool]) -> Namespace:
            if self._out:
                return Namespace(interrupted=True)
            clock[0] += 7.0
            for steps in range(6000, 10**6, 6000):
                clock[0] += 1.5
                if over(Namespace(steps=steps)):
                    break
            return Namespace(interrupted=False)

    monkeypatch.setattr(drive, "Trainer", Scripted)
    monkeypatch.setattr(drive, "time", Namespace(monotonic=lambda: clock[0]))
    arguments = ("control", "ver", "Ant-v5", PolicyConfig())
    for seed in (0, 1):
        with pytest.raises(SystemExit):  # interrupted
            drive.train(*arguments, tmp_path / str(seed), 400.0, {"seed": seed})
    assert [config.total_steps for config in configs[1:]] == [1.05 * 4000 * 400] * 2  # the second is not tried again
    assert configs[0].total_steps > 10**8 and clock[0] == 100.0 + 7.0 + 15 * 1.5
    assert [config.seed for config in configs[1:]] == [0, 1]
