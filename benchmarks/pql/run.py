"""PQL against its baselines and against VER: runs the arms of a suite one after another, and reports.

    python3 -m venv VENV && VENV/bin/pip install torch -r benchmarks/pql/requirements.txt
    python benchmarks/pql/run.py control --seconds 3600 --seeds 0 1 2 --venv VENV --out runs/pql
    VENV/bin/python benchmarks/pql/report.py runs/pql/control --json control.json

Suites (arms.py): control (Ant-v5, Humanoid-v5: PQL, PQL-D, DDPG(n), SAC(n), VER, SB3's SAC), exploration (mixed noise
and one sigma for all), ratios (kept and left free), slowed (PQL and DDPG(n), environments that keep one waiting), gpu
(PQL and DDPG(n) with Table B.1's values), skills (Pick and Open Fridge: PQL-D and VER).
Control suites end after `--seconds` of wall clock, skills after `--steps` decisions. Seed by seed, so that all arms
have the machine alike. What is there is not run again, what was interrupted is resumed (SB3's runs begin anew): the
command may be given again.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from pathlib import Path

from arms import SUITES
from report import DONE, SCALARS, first_over, read, rows_of

HERE = Path(__file__).parent
POLL_S = 5.0
PLAYED_AFTERWARDS = ("pql", "ver")
"""Systems whose policies are kept and played when training is over (snapshots.py)."""


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("suite", choices=SUITES)
    parser.add_argument("--tasks", nargs="+")
    parser.add_argument("--arms", nargs="+")
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--seconds", type=int, default=3600, help="of each run of a control suite")
    parser.add_argument("--keep-s", type=float, default=30.0, help="between policies that are kept and played")
    parser.add_argument("--train-only", action="store_true", help="play them when the command is given without this")
    parser.add_argument("--steps", type=int, default=500_000, help="decisions of each run of the suite skills")
    parser.add_argument("--until", type=float, help="a skill's run ends once training success stays at that")
    parser.add_argument("--obs", default="laser", help="what skills see")
    parser.add_argument("--also", nargs="+", default=[], help="overrides of skills' runs, such as of one core's")
    parser.add_argument("--venv", type=Path, help="with SB3 (requirements.txt); without, its arm is left out")
    parser.add_argument("--out", type=Path, default=Path("outputs/pql"))
    options = parser.parse_args()
    tasks, arms = SUITES[options.suite]
    for seed in options.seeds:
        for task in options.tasks or tasks:
            for arm in options.arms or arms:
                folder = options.out / options.suite / task / arm / str(seed)
                system = arms[arm]["system"]
                if (folder / DONE).is_file() or (system == "sb3" and options.venv is None):
                    continue
                command = _command(options, system, arm, task, seed, folder)
                print(f"{task} {arm} seed {seed}", flush=True)
                path = os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")])
                child = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": path})
                try:
                    code = _wait(child, folder, options.until)
                except KeyboardInterrupt:
                    child.wait()  # Ctrl-C reaches it, too: it saves
                    raise SystemExit("interrupted; give the same command again to go on") from None
                if not (_complete(options, folder) if system == "skill" else code == 0):
                    raise SystemExit(f"{' '.join(command)}: interrupted or failed; the same command goes on")
                if not (options.train_only and system in PLAYED_AFTERWARDS):
                    (folder / DONE).write_text(json.dumps({"command": command}) + "\n", encoding="utf-8")


def _command(options: argparse.Namespace, system: str, arm: str, task: str, seed: int, folder: Path) -> list[str]:
    if system == "sb3":
        driver = [str(options.venv / "bin" / "python"), str(HERE / "drive_sb3.py")]
        return [*driver, task, str(seed), str(options.seconds), str(options.keep_s), str(folder)]
    if system in PLAYED_AFTERWARDS:
        driver = [sys.executable, str(HERE / "drive.py"), options.suite, arm]
        train = ["train"] if options.train_only else []
        return [*driver, task, str(seed), str(options.seconds), str(options.keep_s), str(folder), *train]
    command = [sys.executable, "-m", "tpsrl", "train-skill", task, "--steps", str(options.steps), "--out", str(folder)]
    if (folder / "checkpoint.pt").is_file():
        return [*command, "--resume"]
    given = SUITES[options.suite][1][arm]["options"]
    section = "pql" if "pql" in given else "train"
    return [*command, "--nav", "--obs", options.obs, *given, *options.also, f"{section}.seed={seed}"]


def _wait(child: subprocess.Popen[bytes], folder: Path, until: float | None) -> int:
    """Return the exit code; before, end the run when its training success is `until`."""
    while until is not None and child.poll() is None:
        time.sleep(POLL_S)
        if _reached(folder, until):
            child.terminate()  # it saves
            break
    return child.wait()


def _reached(folder: Path, until: float | None) -> bool:
    return until is not None and first_over(read(folder), "steps", until) is not None


def _complete(options: argparse.Namespace, folder: Path) -> bool:
    rows = rows_of(folder / SCALARS)
    return bool(rows) and (rows[-1]["steps"] >= options.steps or _reached(folder, options.until))


if __name__ == "__main__":
    main()
