"""How fast navigation is learnt: by scheduler, with an auxiliary loss, from another task's weights, in processes.

    python benchmarks/navigation_learning.py schedulers --out runs/navigation
    python benchmarks/navigation_learning.py cpc --out runs/navigation --steps 5000000

Studies, each of `laser` from random weights unless it says otherwise, seed by seed, so that all arms have the machine
alike:

- schedulers: PointNav until 0.90 of the last 100 training episodes succeed, ver, nover, ddppo and async. Each step
  also draws the depth image, which nobody looks at: it makes a step ten times as long, and the length vary. Minutes
  and steps to 0.90, and their ratios to ver's.
- processes: PointNav until 0.90, in one process, and in two and four under torchrun with half and a quarter of the
  environments each, so that a rollout is as large: whether a step teaches as much.
- cpc: ObjectNav with CPC|A (policy.cpc_steps=16) and without, both with an encoder of the laser's rays. Success by
  steps, and on val.
- transfer: Flee and Explore from PointNav's weights (--weights, default: the packaged policy) and from random ones.
  The measure of the last 100 training episodes by steps (flee_distance: share of the farthest; visited: squares).
- sensors: PointNav without GPS+compass, and with depth, for --steps: success by steps, and on val.

With rliable at hand (benchmarks/pql/requirements.txt), means over seeds have its intervals. Each run has a folder in
--out; what is there is taken up where it was left, so the command may be interrupted and given again.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from training_runs import TPSRL, Row, first_over, interval, rows, train

BAR = 0.90
SHARES = (0.125, 0.25, 0.5, 0.75, 1.0)
"""Of the budget, where curves are read."""
ONE_RUN, DONE = "one-run", "done.json"


@dataclass(frozen=True)
class Arm:
    """One way to train: `tpsrl train-nav` with these arguments, in so many processes."""

    task: str = "pointnav"
    arguments: tuple[str, ...] = ()
    overrides: tuple[str, ...] = ()
    processes: int = 1
    measure: str = "success"
    """What its curve is of."""
    val: bool = False
    """Whether it is evaluated on val at the end."""


def arms(study: str, weights: Path) -> dict[str, Arm]:
    """Return a study's arms by their names."""
    if study == "schedulers":
        return dict.fromkeys(("ver", "nover", "ddppo", "async"), Arm())
    if study == "processes":
        return {
            f"{count} processes": Arm(
                overrides=(f"train.num_envs={64 // count}", f"train.envs_per_worker={64 // count}"), processes=count
            )
            for count in (1, 2, 4)
        }
    if study == "cpc":
        encoder = "policy.scan_keys=[laser]"
        return {
            "without": Arm("objectnav", overrides=(encoder,), val=True),
            "CPC|A": Arm("objectnav", overrides=(encoder, "policy.cpc_steps=16"), val=True),
        }
    if study == "transfer":
        return {
            f"{task}, {name}": Arm(task, overrides=given, measure=measure)
            for task, measure in (("flee", "flee_distance"), ("explore", "visited"))
            for name, given in (("from PointNav", (f"initial_weights={weights}",)), ("from random weights", ()))
        }
    return {
        "no GPS+compass": Arm(arguments=("--no-gps",), val=True),
        "depth": Arm(arguments=("--obs", "depth"), val=True),
    }


STEPS = {"schedulers": 3_000_000, "processes": 3_000_000, "cpc": 5_000_000, "transfer": 2_000_000, "sensors": 5_000_000}
SEEDS = {"schedulers": [0, 1, 2], "sensors": [0]}


def main() -> None:
    from skills.navigator import NAVIGATION_ZOO, policy_name

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("study", choices=STEPS)
    parser.add_argument("--arms", nargs="+", help="by their names; default: all")
    parser.add_argument("--seeds", nargs="+", type=int)
    parser.add_argument("--steps", type=int, help="budget of a run; the learning rate falls to nothing over it")
    parser.add_argument("--episodes", type=int, default=1000, help="of val")
    parser.add_argument("--weights", type=Path, default=NAVIGATION_ZOO / policy_name("pointnav", "laser"))
    parser.add_argument("--override", nargs="*", default=[], help="Hydra overrides of all trainings")
    parser.add_argument("--out", type=Path, default=Path("outputs/navigation"))
    parser.add_argument("--only-report", action="store_true", help="train nothing, print what is there")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    budget = options.steps or STEPS[options.study]
    found: dict[str, list[dict[str, Any]]] = {}
    for seed in options.seeds or SEEDS.get(options.study, [0, 1]):
        for name, arm in arms(options.study, options.weights.resolve()).items():
            if options.arms and name not in options.arms:
                continue
            folder = (options.out / options.study / name.replace(" ", "_") / str(seed)).resolve()
            if not options.only_report:
                if options.study == "schedulers":
                    _train_here(folder, name, seed, budget, options.override)
                else:
                    _train(folder, arm, seed, budget, options.study == "processes", options.override)
            if known := rows(folder):
                found.setdefault(name, []).append(_measure(folder, arm, known, seed, budget, options.episodes))
                print(f"{name}, seed {seed}: {_words(found[name][-1])}", flush=True)
    _print(found, next(iter(found), ""))
    if options.json:
        options.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def _train(folder: Path, arm: Arm, seed: int, budget: int, to_bar: bool, overrides: list[str]) -> None:
    def there(known: list[Row]) -> bool:
        return to_bar and first_over(known, BAR) is not None

    launcher = TPSRL
    if arm.processes > 1:
        torchrun = ("-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={arm.processes}")
        launcher = (sys.executable, *torchrun, "-m", "tpsrl")
    command = ["train-nav", arm.task, *arm.arguments, "--steps", str(budget)]
    train(command, [f"train.seed={seed}", *arm.overrides, *overrides], folder, budget, there, launcher=launcher)


def _train_here(folder: Path, scheduler: str, seed: int, budget: int, overrides: list[str]) -> None:
    """Train to the bar by the library, in a process of its own, as the environment is not one that tpsrl has."""
    if (folder / DONE).is_file():
        return
    if folder.exists():
        shutil.rmtree(folder)  # minutes at most
    subprocess.run(
        [sys.executable, __file__, ONE_RUN, str(folder), scheduler, str(seed), str(budget), *overrides], check=True
    )


def one_run(folder: str, scheduler: str, seed: str, budget: str, *overrides: str) -> None:
    """Be the process that `_train_here` starts."""
    from drawing_env import drawing_pointnav

    from configs.navigation import load_nav_config
    from skills.navigator import fit_navigation_policy
    from ver_core.reporting import Update
    from ver_core.trainer import Trainer

    settings = [f"train.scheduler={scheduler}", f"train.seed={seed}", f"train.total_steps={budget}", *overrides]
    config = load_nav_config(["task=pointnav", "obs=laser", "nav_recipe=laser", *settings])
    policy = fit_navigation_policy(config.policy, "pointnav", "laser", True)

    seconds, reached = 0.0, None

    def there(update: Update) -> bool:
        nonlocal seconds, reached
        seconds += update.seconds
        if update.episode_count < 100 or update.episodes.get("success", 0.0) < BAR:
            return False
        reached = {"steps": update.steps, "seconds": seconds}
        return True

    Trainer(drawing_pointnav, config.train, policy, out=Path(folder), description=f"{scheduler} {seed}").train(there)
    (Path(folder) / DONE).write_text(json.dumps(reached) + "\n", encoding="utf-8")


def _measure(folder: Path, arm: Arm, known: list[Row], seed: int, budget: int, episodes: int) -> dict[str, Any]:
    # Rows are written every few seconds, and the last one may be of a rollout before.
    done = folder / DONE
    at = json.loads(done.read_text(encoding="utf-8")) if done.is_file() else first_over(known, BAR)
    key = f"episode/{arm.measure}"
    curve = {}
    for share in SHARES:
        past = [row[key] for row in known if key in row and row["steps"] <= share * budget * 1.01]
        if past and known[-1]["steps"] >= share * budget * 0.99:
            curve[f"{share * budget:.0f}"] = past[-1]
    result = {
        "seed": seed,
        "steps": known[-1]["steps"],
        "minutes": known[-1]["seconds"] / 60.0,
        "measure": arm.measure,
        "curve": curve,
        "steps_to_bar": at and at["steps"],
        "minutes_to_bar": at and at["seconds"] / 60.0,
        "sps": known[-1]["steps"] / known[-1]["seconds"],
    }
    if arm.val and known[-1]["steps"] >= budget:
        result["val"] = _val(folder, arm.task, episodes)
    return result


def _val(folder: Path, task: str, episodes: int) -> dict[str, Any]:
    file = folder / f"val_{episodes}.json"
    if not file.is_file():
        command = ["eval", task, "--policy", str(folder), "--episodes", str(episodes), "--json", str(file)]
        subprocess.run([*TPSRL, *command], check=True, stdout=subprocess.DEVNULL)
    measures: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))["measures"]
    return {name: measures[name] for name in ("success", "spl") if name in measures}


def _words(run: dict[str, Any]) -> str:
    said = [f"{run['measure']} " + ", ".join(f"{value:.2f}@{float(at):,.0f}" for at, value in run["curve"].items())]
    if run["steps_to_bar"]:
        said.append(f"{BAR:.2f} after {run['steps_to_bar']:,.0f} steps, {run['minutes_to_bar']:.1f} min")
    said.append(f"{run['steps']:,.0f} steps in {run['minutes']:.1f} min ({run['sps']:,.0f}/s)")
    for name, measured in run.get("val", {}).items():
        low, high = measured["ci95"]
        said.append(f"val {name} {measured['mean']:.3f} ({low:.3f}-{high:.3f})")
    return "; ".join(said)


def _print(found: dict[str, list[dict[str, Any]]], first: str) -> None:
    print("\nmeans over seeds")
    for name, runs in found.items():
        said = []
        for at in runs[0]["curve"]:
            values = [run["curve"][at] for run in runs if at in run["curve"]]
            said.append(f"{_interval(values)}@{float(at):,.0f}")
        for key in ("steps_to_bar", "minutes_to_bar"):
            values = [run[key] for run in runs if run[key]]
            if len(values) == len(runs):
                theirs = [run[key] for run in found[first] if run[key]]
                ratio = f", {np.mean(values) / np.mean(theirs):.2f} of {first}'s" if theirs and name != first else ""
                said.append(f"{key.replace('_', ' ')} {_interval(values)}{ratio}")
        print(f"  {name} ({len(runs)}): " + "; ".join(said))


def _interval(values: list[float]) -> str:
    """Return the mean, with rliable's interval if it is at hand."""
    form = "{:,.2f}" if max(values) < 1000 else "{:,.0f}"
    said, bounds = form.format(np.mean(values)), interval(values)
    return f"{said} ({form.format(bounds[0])}-{form.format(bounds[1])})" if bounds else said


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    if sys.argv[1:2] == [ONE_RUN]:
        one_run(*sys.argv[2:])
    else:
        main()
