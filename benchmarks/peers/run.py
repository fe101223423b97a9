"""Our training core beside others, on the same environments, policy, hyperparameters, steps and cores, in one run.

Each system has a virtual environment of its own (made on first use, under --venvs) and a driver here. They take turns,
one at a time. What is counted comes from outside: the environments' own notes (tasks.py) and the process tree.

sps: environment steps by time, from the moment that each environment has made a rollout's steps (starting up is not
counted) to the end; those beyond the steps that were asked for are not counted, as nobody learns from them. max_sps: of
the fastest tenth of the steps, or two rollouts if that is more. success, return: of the last fifth of the steps'
episodes. until: minutes and steps of training until 100 episodes in a row had --success among them (tasks whose name
begins with learn_ end there); memory: the most that all processes held at once (PSS, every ten seconds);
cpu: seconds of all processes for a million steps.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
import venv
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import numpy as np
import psutil
from settings import Settings, of
from tasks import LOG_VARIABLE, ROOT, TASKS

HERE = Path(__file__).parent
PEERS = ("tpsrl", "sample_factory", "sb3", "rl_games", "torchrl")
HABITAT = "habitat_baselines"
"""Is measured where the interpreter of an environment with habitat-sim is named; pip cannot make one."""
STEPS = {"synthetic": 25_000, "pick": 100_000, "open_fridge": 150_000, "pick_depth": 20_000, "cartpole": 300_000}
STEPS |= {"learn_pick": 3_000_000, "learn_open_fridge": 3_000_000}
LOOK_EVERY_S = 15.0
"""A training that ends with its success is looked at so often."""
WATCH_EVERY_S, MEMORY_TICKS = 1.0, 10
"""Processor time is read so often, memory every so many of these times: of dozens of processes that takes a while."""
TORCH = "torch==2.13.0"


@dataclass(frozen=True)
class Run:
    """What one system did on one task."""

    steps: int
    seconds: float
    sps: float
    max_sps: float
    episodes: int
    success: float
    mean_return: float
    until_min: float | None
    until_steps: int | None
    memory_mb: float
    cpu_s_per_million: float
    curve: list[tuple[float, int, float]]
    """Each minute: minutes, steps, success of the last 100 episodes."""
    measuring: float = 0.0
    """Share of a core that watching took, which the system did not have."""


def python_of(peer: str, folder: Path) -> Path:
    """Return the interpreter of a system's virtual environment, made now if it is not there; ours is this one."""
    if peer == "tpsrl":
        return Path(sys.executable)
    home = folder / peer
    if not (home / "made").is_file():
        print(f"making {home}", flush=True)
        venv.create(home, clear=True, with_pip=True)
        pip = [str(home / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*pip, TORCH, "-r", str(HERE / "requirements" / f"{peer}.txt")], check=True)
        environments = ["-r", str(HERE / "requirements" / "environments.txt"), "-c", str(ROOT / "constraints.txt")]
        subprocess.run([*pip, "--no-deps", *environments], check=True)
        (home / "made").touch()
    return home / "bin" / "python"


def measure(
    python: Path, peer: str, task: str, steps: int, seed: int, success: float, limit_s: float | None = None
) -> Run:
    """Let one system train, for so long at most, and read what it did. Raises `RuntimeError` if it fails."""
    with tempfile.TemporaryDirectory() as notes, tempfile.TemporaryFile() as said:
        command = [str(python), str(HERE / f"drive_{peer}.py"), task, str(steps), str(seed)]
        variables = {**os.environ, LOG_VARIABLE: notes, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(ROOT)}
        process = subprocess.Popen(command, env=variables, stdout=said, stderr=said, start_new_session=True, cwd=notes)
        watch = Watch(process.pid)
        watch.start()
        begun_s, spent_s = time.monotonic(), time.process_time()
        try:
            code = _wait(process, Path(notes), limit_s, success if task.startswith("learn_") else None)
        finally:
            watch.done.set()
            watch.join()
            _end(process.pid)
        if code != 0:
            said.seek(0)
            raise RuntimeError(f"{peer} on {task} ended with {code}: {said.read()[-3000:].decode(errors='replace')}")
        measuring = (time.process_time() - spent_s) / (time.monotonic() - begun_s)
        found = read(Path(notes), success, watch, steps + -steps % of(task).steps, of(task))
        return replace(found, measuring=measuring)


def _wait(process: subprocess.Popen[bytes], notes: Path, limit_s: float | None, success: float | None) -> int:
    """Wait until a system is done, its time is over, or its episodes are successful enough; return its exit code."""
    end = time.monotonic() + (limit_s or float("inf"))
    while True:
        left_s = max(0.0, end - time.monotonic())
        try:
            return process.wait(min(left_s, LOOK_EVERY_S))
        except subprocess.TimeoutExpired:
            if time.monotonic() >= end or (success is not None and reached(*table(notes), success) is not None):
                return 0


class Watch(threading.Thread):
    """Follows a process tree's memory and processor time."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self.done = threading.Event()
        self._root = psutil.Process(pid)
        self._cpu: dict[tuple[int, float], float] = {}
        self.peak_bytes = 0

    @property
    def cpu_s(self) -> float:
        return sum(self._cpu.values())

    def run(self) -> None:
        for tick in itertools.count():
            if self.done.wait(WATCH_EVERY_S):
                return
            held = 0
            try:
                tree = [self._root, *self._root.children(recursive=True)]
            except psutil.NoSuchProcess:
                return
            for process in tree:
                try:
                    times = process.cpu_times()
                    self._cpu[process.pid, process.create_time()] = times.user + times.system
                    if tick % MEMORY_TICKS == 0:
                        held += process.memory_full_info().pss
                except (psutil.NoSuchProcess, psutil.AccessDenied):
                    continue
            self.peak_bytes = max(self.peak_bytes, held)


def table(notes: Path) -> tuple[np.ndarray, np.ndarray]:
    """Return the environments' notes, a row each in the order of time (time, environment, its steps, and of an episode
    that ended: won, return), and the steps that all had made by then."""
    rows = []  # time, environment, its steps, and of an episode that ended: won, return
    for number, file in enumerate(sorted(notes.glob("*.txt"))):
        for line in file.read_text().splitlines():
            fields = [float(value) for value in line.split()]
            rows.append([fields[0], number, fields[1], *(fields[2:] or (np.nan, np.nan))])
    noted = np.array(sorted(rows)).reshape(-1, 5)
    last: dict[float, float] = {}
    total = np.zeros(len(noted))
    for i, (_, number, made) in enumerate(noted[:, :3]):
        total[i] = (total[i - 1] if i else 0.0) + made - last.get(number, 0.0)
        last[number] = made
    return noted, total


def episode_ends(noted: np.ndarray) -> np.ndarray:
    """Return the rows of notes with which an episode ended."""
    return np.flatnonzero(~np.isnan(noted[:, 3]))


def curve(noted: np.ndarray, total: np.ndarray) -> list[tuple[float, int, float]]:
    """Return what was made and won by the end of each minute; see `Run.curve`."""
    ended = episode_ends(noted)
    minutes = (noted[:, 0] - noted[0, 0]) / 60.0
    points = []
    for minute in range(1, int(minutes[-1]) + 1):
        row = int(np.searchsorted(minutes, minute))
        last = ended[ended < row][-100:]
        points.append((float(minute), int(total[row - 1]), float(noted[last, 3].mean()) if len(last) else 0.0))
    return points


def reached(noted: np.ndarray, total: np.ndarray, success: float) -> tuple[float, int] | None:
    """Return after how many minutes and steps 100 episodes in a row had so much success among them, if they had."""
    ended = episode_ends(noted)
    if len(ended) < 100:
        return None
    share = np.convolve(noted[ended, 3], np.ones(100) / 100, mode="valid")
    enough = np.flatnonzero(share >= success - 1e-9)
    if not len(enough):
        return None
    row = ended[enough[0] + 99]
    return float(noted[row, 0] - noted[0, 0]) / 60.0, int(total[row])


def read(notes: Path, success: float, watch: Watch, learnt: int, settings: Settings) -> Run:
    """Work out the figures from the environments' notes; raises `RuntimeError` if they are too few.

    learnt: how many steps were asked for; more may have been collected.
    """
    noted, total = table(notes)
    at = noted[:, 0]
    first = int(np.searchsorted(total, settings.steps))
    if first >= len(noted) - 1:
        raise RuntimeError(f"it made {int(total[-1]) if len(noted) else 0} steps, not more than a rollout")
    seconds, made = at[-1] - at[first], min(total[-1], learnt) - total[first]
    # Two rollouts, as one could be made without learning in between.
    window = min(made, max(0.1 * made, 2 * settings.steps))
    begins = np.flatnonzero((total >= total[first]) & (total + window <= total[first] + made))
    ends = np.searchsorted(total, total[begins] + window)
    best = ((total[ends] - total[begins]) / np.maximum(at[ends] - at[begins], 1e-9)).max()
    ended = episode_ends(noted)
    late = ended[total[ended] >= 0.8 * total[-1]]
    minutes, steps = reached(noted, total, success) or (None, None)
    return Run(
        int(total[-1]),
        float(at[-1] - at[0]),
        float(made / seconds),
        float(best),
        len(late),
        float(noted[late, 3].mean()) if len(late) else float("nan"),
        float(noted[late, 4].mean()) if len(late) else float("nan"),
        minutes,
        steps,
        watch.peak_bytes / 2**20,
        watch.cpu_s / min(total[-1], learnt) * 1e6,
        curve(noted, total),
    )


def described(run: Run) -> str:
    """Return what a run did in a line."""
    line = f"{run.steps:,} steps in {run.seconds:.0f} s, {run.sps:,.0f} steps/s, success {run.success:.2f} at the end"
    line += f" (measuring took {run.measuring:.0%} of a core)"
    if run.until_min is None or run.until_steps is None:
        return line
    return f"{line}, as much as was asked for after {run.until_min:.1f} min and {run.until_steps:,} steps"


def report(task: str, runs: dict[str, list[Run]]) -> None:
    print(f"\n{task}: {of(task).num_envs} environments, {len(next(iter(runs.values())))} turns, medians")
    columns = ("sps", "max_sps", "success", "mean_return", "episodes", "memory_mb", "cpu_s_per_million")
    print(f"{'':>16}" + "".join(f"{column:>18}" for column in (*columns, "until_min", "until_steps", "steps")))
    middle = {
        peer: {c: float(np.median([getattr(r, c) for r in done])) for c in columns} for peer, done in runs.items()
    }
    for peer, done in runs.items():
        cells = [f"{middle[peer][c]:>18,.{3 if c in ('success', 'mean_return') else 0}f}" for c in columns]
        for values, digits in (([run.until_min for run in done], 1), ([run.until_steps for run in done], 0)):
            told = ("-" if value is None else f"{value:,.{digits}f}" for value in values)
            cells.append(f"{' '.join(told):>18}")
        print(f"{peer:>16}" + "".join(cells) + f"{done[0].steps:>18,}")
    others = {peer: row["sps"] for peer, row in middle.items() if peer != "tpsrl"}
    if others and "tpsrl" in middle:
        best = max(others, key=lambda peer: others[peer])
        print(f"tpsrl / {best}, the best of the others: {middle['tpsrl']['sps'] / others[best]:.2f} of its steps/s")


def _end(group: int) -> None:
    """Stop what a system left behind."""
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=TASKS, default=[t for t in TASKS if not t.startswith("learn_")])
    parser.add_argument("--peers", nargs="+", choices=PEERS, default=list(PEERS))
    parser.add_argument("--habitat-python", type=Path, metavar="PYTHON", help="measure habitat-baselines' VER with it")
    parser.add_argument("--steps", type=int, help="of each run; otherwise as many as takes minutes, by task")
    parser.add_argument("--rounds", type=int, default=1, help="turns of each system on each task, with other seeds")
    parser.add_argument("--seed", type=int, default=0, help="of the first turn; each later one has the next")
    parser.add_argument("--limit-s", type=float, help="end a run that takes longer; its figures are of what it did")
    parser.add_argument("--success", type=float, default=0.5)
    parser.add_argument("--venvs", type=Path, default=Path.home() / ".cache" / "tpsrl" / "peers")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    pythons = {peer: python_of(peer, options.venvs) for peer in options.peers}
    if options.habitat_python:
        pythons[HABITAT] = options.habitat_python
    print(f"{time.strftime('%Y-%m-%d')}, {os.cpu_count()} cores")
    found: dict[str, dict[str, list[Run]]] = {}
    for task in options.tasks:
        runs = found[task] = {peer: [] for peer in pythons}
        for turn in range(options.rounds):
            for peer in [*runs][turn % len(runs) :] + [*runs][: turn % len(runs)]:
                steps, seed = options.steps or STEPS[task], options.seed + turn
                try:
                    run = measure(pythons[peer], peer, task, steps, seed, options.success, options.limit_s)
                except RuntimeError as error:
                    print(f"{task}, {peer}: no figures: {error}", flush=True)
                    continue
                runs[peer].append(run)
                print(f"{task}, {peer}: {described(run)}", flush=True)
                if options.json:
                    rows = {t: {p: [asdict(r) for r in done] for p, done in by.items()} for t, by in found.items()}
                    options.json.write_text(json.dumps(rows, indent=1) + "\n")
        if measured := {peer: done for peer, done in runs.items() if done}:
            report(task, measured)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
