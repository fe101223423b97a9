"""What goes wrong while training: env workers that die, hang and raise, spoilt numbers, signals, a full disk, kills."""

from __future__ import annotations

import errno
import json
import os
import resource
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from faulty_envs import LONG, POLICY, Faulty, Ledger, Unmade, Walk, config, until

from ver_core import checkpoint, trainer, worker_pool
from ver_core.checkpoint import CheckpointError
from ver_core.inference import Answer, Inference
from ver_core.reporting import Update
from ver_core.shared_rows import FAILED, RUNNING
from ver_core.spaces import ActionLayout, ObsLayout
from ver_core.trainer import Result, Trainer
from ver_core.worker_pool import EnvironmentFailure, WorkerPool

HERE = Path(__file__).parent


@pytest.fixture
def pools(monkeypatch: pytest.MonkeyPatch) -> list[WorkerPool]:
    """The worker pools that trainers make."""
    made: list[WorkerPool] = []

    def make(*arguments: Any, **named: Any) -> WorkerPool:
        made.append(WorkerPool(*arguments, **named))
        return made[-1]

    monkeypatch.setattr(trainer, "WorkerPool", make)
    return made


def quiet(make_env: Any, out: Path | None, *, resume: bool = False, **changes: Any) -> Trainer:
    return Trainer(make_env, config(**changes), POLICY, out=out, resume=resume, show_progress=False)


def after(updates: int) -> Any:
    """Return what ends a training after so many updates; it keeps the updates in `seen`."""

    def on_update(update: Update) -> bool:
        on_update.seen.append(update)  # type: ignore[attr-defined]
        return len(on_update.seen) == updates  # type: ignore[attr-defined]

    on_update.seen = []  # type: ignore[attr-defined]
    return on_update


def warnings(out: Path) -> list[str]:
    return [line for line in (out / "log.txt").read_text().splitlines() if " WARNING " in line]


def same(a: Any, b: Any) -> bool:
    """Compare two trees bit for bit."""
    if isinstance(a, torch.Tensor):
        return a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple):
        return len(a) == len(b) and all(map(same, a, b))
    return bool(a == b)


# -- env workers that fail -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("changes", [{"scheduler": "ver"}, {"scheduler": "nover"}, {"scheduler": "ddppo"},
                                     {"scheduler": "async"}, {"overlap": True}, {"inference_workers": 2},
                                     {"scheduler": "ver", "envs_per_worker": 3},
                                     {"scheduler": "ddppo", "envs_per_worker": 3},
                                     {"inference_workers": 2, "envs_per_worker": 3}],
                         ids=lambda changes: "_".join(map(str, changes.values())))  # fmt: skip
def test_kill_9_of_env_workers_in_the_middle_of_rollouts(
    tmp_path: Path, pools: list[WorkerPool], changes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    training = quiet(Walk, tmp_path, num_envs=4, **changes)
    ledger = Ledger(4)
    ledger.watch(training.learner)
    together = changes.get("envs_per_worker", 1)
    last = 3 // together
    victims = [0, last, last]
    killed: list[int] = []

    def kill(*args: Any) -> Answer:
        calls[0] += 1
        if calls[0] % 50 == 30 and victims and pools[0].restarts == len(killed):
            killed.append(pools[0].pids()[victims.pop()])
            os.kill(killed[-1], signal.SIGKILL)
        return infer(*args)

    calls, infer = [0], Inference.__call__
    monkeypatch.setattr(Inference, "__call__", kill)
    stop = after(30)
    result = training.train(stop)
    assert len(killed) == 3 == result.restarts and not result.interrupted
    lines = warnings(tmp_path)
    one = "environment {} died (exit code -9): started again, its partial episode is dropped"
    three = "environments 0 to 2 died (exit code -9): started again, their partial episodes are dropped"
    ends = [one.format(3), one.format(3), one.format(0) if together == 1 else three]
    assert all(line.endswith(end) for line, end in zip(lines, ends, strict=True))
    assert [update.fresh_steps for update in stop.seen] == [40] * 30
    assert sum(ledger.steps) == result.steps == 1200
    assert max(ledger.breaks[:3]) <= 1 and sum(ledger.breaks) <= 2 + together
    assert together > 1 or ledger.breaks[1:3] == [0, 0]
    rows = [json.loads(line) for line in (tmp_path / "scalars.jsonl").read_text().splitlines()]
    assert rows[-1]["train/env_restarts"] == 3


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("raise", "raised ValueError: the gripper fell off: {}started again"),
        ("raise at length", "raised ValueError: blah blah"),
        ("raise in reset", "raised ValueError: no way to begin: {}started again"),
        ("die", "died (exit code 3): started again"),
        ("hang", "did not answer within 0.5 s: {}started again"),
    ],
)
@pytest.mark.parametrize("together", [1, 3])
def test_a_failing_worker_is_started_again(
    tmp_path: Path, pools: list[WorkerPool], fault: str, words: str, together: int
) -> None:
    make_env = partial(Faulty, fault, 25, tmp_path / "marker")
    timeout_s = 0.5 if fault == "hang" else LONG
    training = quiet(make_env, tmp_path / "run", step_timeout_s=timeout_s, envs_per_worker=together)
    ledger = Ledger(3)
    ledger.watch(training.learner)
    fresh: list[int] = []

    def on_update(update: Update) -> bool:
        """End once the new worker has made many steps."""
        fresh.append(update.fresh_steps)
        if not restarted and pools[0].restarts:
            restarted.extend(ledger.steps)
        return bool(restarted) and min(now - then for now, then in zip(ledger.steps, restarted, strict=True)) > 50

    restarted: list[int] = []
    result = training.train(on_update)
    assert result.restarts == 1
    (line,) = warnings(tmp_path / "run")
    assert words.format("" if together == 1 else "environments 0 to 2 ") in line and len(line) < 2000
    assert set(fresh) == {30}
    assert sum(ledger.steps) == result.steps and sum(ledger.breaks) <= together
    assert sum(group > 0 for group in pools[0].groups) == together
    log = (tmp_path / "run" / "log.txt").read_text()
    assert ("Traceback" in log) == fault.startswith("raise")


def test_a_worker_killed_while_its_last_step_is_being_served() -> None:
    """As may happen with several inference threads: one serves an environment, another finds its worker dead."""
    obs, action = ObsLayout(Walk.observation_space), ActionLayout(Walk.action_space)
    pool = WorkerPool(Walk, obs, action, 2, (0,))
    try:
        ended = -1
        while ended < 0:
            served = pool.take(2, 0.1)
            ended = next((env for env in served if pool.rows.status[env] != RUNNING), -1)
            pool.send([env for env in served if env != ended])
        os.kill(pool.pids()[ended], signal.SIGKILL)
        while not pool.lost:
            pool.send([env for env in pool.take(2, 0.1) if pool.rows.status[env] == RUNNING])
        assert pool.episode(ended) is None
        pool.send([ended])  # for nobody: the new worker has not asked yet
        fresh: list[int] = []
        while ended not in fresh:
            fresh = pool.take(2, 0.1)
        assert pool.lost == [ended] and pool.restarts == 1
        assert pool.rows.floats[ended, 1:3].tolist() == [0.0, 0.0] and pool.rows.steps[ended] >= 2
    finally:
        pool.close()


class Lingering(Faulty):
    """Its process does not end when it has failed."""

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        os._exit = lambda code: time.sleep(LONG)  # type: ignore[assignment,return-value]
        return super().step(action)


def test_what_an_environment_asked_before_another_of_its_worker_failed_is_void() -> None:
    obs, action = ObsLayout(Walk.observation_space), ActionLayout(Walk.action_space)
    pool = WorkerPool(partial(Lingering, "raise", 1), obs, action, 2, (0,), envs_per_worker=2)
    try:
        served: list[int] = []
        while len(served) < 2:
            served += pool.take(2, 0.1)
        pool.send([1])
        while pool.take(2, 0.1) != [1]:
            pass
        pool.send([0, 1])  # the second step of 1 fails
        until(lambda: pool.rows.status[1] == FAILED, "the failure")
        time.sleep(0.1)  # for it to be posted
        assert pool.take(2, 0.1) == [] and pool.lost == [0, 1] and pool.restarts == 1
        pool.send([0, 1])  # for nobody
        asked: list[int] = []
        while len(asked) < 2:
            asked += pool.take(2, 0.1)
        assert sorted(asked) == [0, 1] and pool.groups == [1, 1]
        assert pool.rows.steps.tolist() == [1, 1] and not pool.rows.floats[:, 1:3].any()
    finally:
        pool.close()


def test_waiting_for_a_slow_neighbour_is_not_hanging(monkeypatch: pytest.MonkeyPatch) -> None:
    """A round takes 1.5 s."""
    monkeypatch.setattr(worker_pool, "WATCH_S", 0.05)
    obs, action = ObsLayout(Walk.observation_space), ActionLayout(Walk.action_space)
    pool = WorkerPool(partial(Walk, 0.5), obs, action, 3, (0,), step_timeout_s=1.2, envs_per_worker=3)
    try:
        for _ in range(2):
            asked: list[int] = []
            while len(asked) < 3:
                asked += pool.take(3, 0.05)
            pool.send(asked)
        assert pool.restarts == 0 and len(pool.pids()) == 1
    finally:
        pool.close()


@pytest.mark.parametrize("fault", ["raise", "die"])
def test_a_worker_that_always_fails_ends_training(tmp_path: Path, fault: str, pools: list[WorkerPool]) -> None:
    training = quiet(partial(Faulty, fault, 1), tmp_path, max_restarts=4)
    with pytest.raises(EnvironmentFailure) as failure:
        training.train()
    message = str(failure.value)
    assert "\n" not in message and "no episode ended in between" in message
    assert ("the gripper fell off" if fault == "raise" else "exit code 3") in message
    assert pools[0].restarts == 5 == len(warnings(tmp_path)) + 1
    assert checkpoint.load(tmp_path / "checkpoint.pt")["steps"] == 0


def test_an_environment_that_cannot_be_made(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure) as failure:
        quiet(Unmade, tmp_path / "run")
    assert str(failure.value) == "the environment could not be made: FileNotFoundError: the scene is missing"
    assert not (tmp_path / "run").exists()


def test_an_environment_that_can_be_made_only_once(tmp_path: Path, pools: list[WorkerPool]) -> None:
    training = quiet(partial(Faulty, "make", 0, tmp_path / "marker"), tmp_path / "run")
    with pytest.raises(EnvironmentFailure, match=r"^environment \d could not be started: RuntimeError: no licence for"):
        training.train()
    assert pools[0].restarts == 0


# -- spoilt numbers --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        ("nan observation", "gave a NaN or infinity as observation 'place' in environment"),
        ("inf in reset", "gave a NaN or infinity as observation 'place' in environment"),
        ("nan reward", "gave a reward of nan in environment"),
        ("huge reward", "gave a reward of 1e+300 in environment"),
    ],
)
@pytest.mark.parametrize("workers", [1, 3])
def test_a_number_that_is_not_finite_is_an_environments_crash(
    tmp_path: Path, pools: list[WorkerPool], fault: str, words: str, workers: int
) -> None:
    """It starts again with another seed, its partial episode is dropped, and nothing spoilt is learnt from."""
    make_env = partial(Faulty, fault, 24, tmp_path / "marker")
    training = quiet(make_env, tmp_path / "run", inference_workers=workers)
    ledger = Ledger(3)
    ledger.watch(training.learner)
    result = training.train(after(12))
    assert result.restarts == 1 and sum(ledger.steps) == result.steps == 360 and sum(ledger.breaks) <= 1
    (line,) = warnings(tmp_path / "run")
    assert words in line and "its partial episode is dropped" in line and len(line) < 400
    env = int(line.split("in environment ")[1][0])
    assert [group > 0 for group in pools[0].groups].index(True) == env
    rows = [json.loads(line) for line in (tmp_path / "run" / "scalars.jsonl").read_text().splitlines()]
    assert rows[-1]["train/env_nonfinite"] == rows[-1]["train/env_restarts"] == 1
    assert all(bool(torch.isfinite(parameter).all()) for parameter in training.policy.parameters())


class Pit(Walk):
    """Cannot go on from its third step with any of its first five seeds: whoever plays it, whatever it does."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        if seed is not None:
            self.deep = seed in PITS
        return super().reset(seed=seed, options=options)

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = super().step(action)
        if self.deep and self.played == 3:
            observation["place"] = np.array([np.nan, 0.0])
        return observation, reward, terminated, truncated, info


PITS = [int(np.random.SeedSequence((0, 0, 0, group)).generate_state(1)[0]) for group in range(5)]
"""The first seeds of environment 0 of a run with seed 0 (docs/training.md, "Determinism")."""


def test_past_the_limit_the_run_ends_and_a_resume_goes_on(tmp_path: Path, pools: list[WorkerPool]) -> None:
    """Seeds, actions and noise being the same, a resume that replayed all would end where the run did."""
    changes = {"num_envs": 1, "max_restarts": 2, "scheduler": "ddppo"}
    with pytest.raises(EnvironmentFailure) as failure:
        quiet(Pit, tmp_path, **changes).train(after(20))
    message = str(failure.value)
    assert "NaN or infinity as observation 'place' in environment 0" in message and "no episode ended" in message
    assert "\n" not in message and pools[0].nonfinite == pools[0].restarts == 3
    assert checkpoint.load(tmp_path / "checkpoint.pt")["steps"] == 0
    result = quiet(Pit, tmp_path, resume=True, **changes).train(after(20))
    assert result.steps == 200 and pools[1].nonfinite == 2 and pools[1].groups[0] >= 5


def test_a_spoilt_number_in_the_replay_of_a_resume(tmp_path: Path, pools: list[WorkerPool]) -> None:
    """What went well before need not do so again: still a crash, and no reason not to begin."""
    marker = tmp_path / "marker"
    marker.touch()  # nothing fails
    make_env = partial(Faulty, "nan reward", 3, marker)
    changes = {"scheduler": "ddppo", "episodes_per_seed": 100}
    quiet(make_env, tmp_path / "run", **changes).train(after(4))
    marker.unlink()
    result = quiet(make_env, tmp_path / "run", resume=True, **changes).train(after(4))
    assert result.steps == 240 and result.restarts == pools[1].nonfinite == 1
    assert sorted(pools[1].groups) == [0, 0, 1]


def test_an_environment_spoilt_from_the_start_cannot_be_started(tmp_path: Path) -> None:
    with pytest.raises(EnvironmentFailure, match=r"^environment 0 could not be started: NonFinite: NaN or infinity as"):
        quiet(partial(Faulty, "inf in reset", -1), tmp_path, num_envs=1).train()


def test_of_several_inference_workers_one_error_is_told(tmp_path: Path) -> None:
    """The others leave, instead of meeting the failed worker's remains."""
    for number in range(3):
        training = quiet(partial(Faulty, "nan reward", 1), tmp_path / str(number), inference_workers=3, max_restarts=2)
        with pytest.raises(EnvironmentFailure, match="gave a reward of nan in environment"):
            training.train()


# -- disk ------------------------------------------------------------------------------------------------------------


def test_a_full_disk_is_a_warning_and_spares_the_checkpoint_before(tmp_path: Path) -> None:
    training = quiet(Walk, tmp_path, checkpoint_every_s=0.0)
    file = tmp_path / "checkpoint.pt"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    kept: dict[int, bytes] = {}
    count = [0]

    def on_update(update: Update) -> bool:
        count[0] += 1
        kept[count[0]] = file.read_bytes() if file.exists() else b""
        if count[0] == 3:
            # Less than a checkpoint takes. The disk refuses what goes beyond, in the midst of a file.
            resource.setrlimit(resource.RLIMIT_FSIZE, (len(kept[3]) // 2, limits[1]))
        if count[0] == 5:
            resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        return count[0] == 7

    try:
        result = training.train(on_update)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert result.steps == 210 and not result.interrupted
    assert kept[3] == kept[4] == kept[5] != b""
    assert kept[2] != kept[3] and kept[6] not in (b"", kept[5]) and kept[7] != kept[6]
    refused = [line for line in warnings(tmp_path) if "cannot save the checkpoint" in line]
    assert len(refused) == 2 and all("training goes on" in line for line in refused)
    assert checkpoint.load(file)["steps"] == 210
    assert not list(tmp_path.glob("*.tmp"))


def test_a_disk_with_room_for_the_checkpoint_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write = checkpoint.write_atomically
    full = [True]

    def refuse(path: Path, data: bytes | memoryview) -> None:
        if path.name == "policy.safetensors" and full[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        write(path, data)

    monkeypatch.setattr(checkpoint, "write_atomically", refuse)
    training = quiet(Walk, tmp_path, checkpoint_every_s=0.0)

    def on_update(update: Update) -> bool:
        full[0] = update.steps < 90
        return update.steps == 120

    assert training.train(on_update).steps == 120
    lines = warnings(tmp_path)
    assert len(lines) == 3 and all("policy.safetensors" in line and "No space left" in line for line in lines)
    assert checkpoint.load(tmp_path / "checkpoint.pt")["steps"] == 120
    assert (tmp_path / "policy.safetensors").exists()


def test_a_disk_that_is_full_at_the_end_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    training = quiet(Walk, tmp_path)

    def refuse(path: Path, data: bytes | memoryview) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(checkpoint, "write_atomically", refuse)
    with pytest.raises(CheckpointError, match="No space left on device"):
        training.train(after(2))


# -- signals and kills, as a real process gets them ------------------------------------------------------------------

SCRIPT = """
# Two quick updates; then a rollout that takes twenty seconds, or an update that takes a day.
if __name__ == "__main__":  # env workers import this module too, and had better not import torch
    import sys
    from functools import partial
    from pathlib import Path
    from faulty_envs import POLICY, Faulty, config
    from ver_core.trainer import Trainer

    out, where = Path(sys.argv[1]), sys.argv[2]
    make_env = partial(Faulty, "slow", 70 if where == "collecting" else 10**9)
    training = Trainer(make_env, config(rollout_length=30), POLICY, out=out, show_progress=False)
    learner, update = training.learner, training.learner.update

    def tell(*arguments):
        if learner.version == 2:
            learner.config.epochs = 10**7
            print("learning", flush=True)
        return update(*arguments)

    learner.update = tell
    result = training.train(lambda update: print("update", update.steps, flush=True))
    print("result", result.interrupted, result.steps, flush=True)
"""


class Child:
    """A training in a process group of its own."""

    def __init__(self, tmp_path: Path, where: str) -> None:
        script = tmp_path / "train.py"
        script.write_text(SCRIPT)
        self.out = tmp_path / "run"
        path = os.pathsep.join([str(HERE), str(HERE.parents[1])])
        self.process = subprocess.Popen(
            [sys.executable, str(script), str(self.out), where],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": path},
            start_new_session=True,
        )
        self.guard = threading.Timer(90.0, self.process.kill)  # reading a line would wait for ever
        self.guard.start()

    def expect(self, line: str) -> None:
        assert self.process.stdout is not None
        found = self.process.stdout.readline()
        assert found == line + "\n", self.process.communicate()

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=60)
        self.guard.cancel()
        return self.process.returncode, out, err


def descendants(pid: int) -> set[int]:
    """Return the processes that a process started, and those that they started."""
    parents: dict[int, int] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except (FileNotFoundError, ProcessLookupError):
                continue
    found, size = {pid}, 0
    while len(found) > size:
        size = len(found)
        found |= {child for child, parent in parents.items() if parent in found}
    return found - {pid}


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] not in ("Z", "X")
    except (FileNotFoundError, ProcessLookupError):
        return False


def shared_memory(pids: set[int]) -> set[str]:
    """Return the shared memory that these processes look at."""
    found = set()
    for pid in pids:
        for line in Path(f"/proc/{pid}/maps").read_text().splitlines():
            if "/dev/shm/psm_" in line:
                found.add(line.split()[-1])
    return found


@pytest.mark.parametrize(
    ("number", "to_all", "where"),
    [
        (signal.SIGTERM, False, "learning"),
        (signal.SIGTERM, True, "collecting"),
        (signal.SIGINT, True, "learning"),
        (signal.SIGUSR1, True, "learning"),
    ],
)
def test_a_signal_saves_and_ends_in_time(tmp_path: Path, number: signal.Signals, to_all: bool, where: str) -> None:
    """To the learner, or to its whole process group, as a terminal and SLURM do it."""
    child = Child(tmp_path, where)
    child.expect("update 90")
    child.expect("update 180")
    if where == "learning":
        child.expect("learning")
    time.sleep(0.2)  # to be in the midst of it
    children = descendants(child.process.pid)
    blocks = shared_memory(children)
    assert len(children) >= 3 and len(blocks) == 1
    if to_all:
        os.killpg(child.process.pid, number)
    else:
        child.process.send_signal(number)
    code, out, err = child.end()
    assert (code, out, err) == (0, "result True 180\n", "")
    saved = checkpoint.load(child.out / "checkpoint.pt")
    assert saved["steps"] == 180 and saved["learner"]["version"] == 2
    until(lambda: not any(map(alive, children)), "the end of the environments")
    assert not any(map(os.path.exists, blocks))

    training = quiet(Walk, child.out, resume=True, total_steps=360, rollout_length=30)
    assert training.steps == 180
    result: Result = training.train()
    assert (result.steps, result.interrupted, result.restarts) == (360, False, 0)


def test_what_is_killed_after_its_first_row_can_be_resumed(tmp_path: Path) -> None:
    """As by the system, for want of memory: no checkpoint is due for minutes."""

    def killed(update: Update) -> bool:
        raise MemoryError

    with pytest.raises(MemoryError):
        quiet(Walk, tmp_path, total_steps=180, rollout_length=30, log_every_s=0.0).train(killed)
    assert (tmp_path / "scalars.jsonl").stat().st_size > 0
    assert quiet(Walk, tmp_path, resume=True, total_steps=180, rollout_length=30).train().steps == 180


def test_a_resume_knows_the_last_episodes(tmp_path: Path) -> None:
    """And leaves this process as many threads as it had."""
    threads, known = torch.get_num_threads(), list[list[dict[str, float]]]()
    torch.set_num_threads(threads + 1)
    try:
        for steps in (360, 450):
            quiet(Walk, tmp_path, resume=steps > 360, total_steps=steps, rollout_length=30).train()
            known.append(checkpoint.load(tmp_path / "checkpoint.pt")["recent"])
        assert torch.get_num_threads() == threads + 1
    finally:
        torch.set_num_threads(threads)
    assert 0 < len(known[0]) < len(known[1]) and known[1][: len(known[0])] == known[0]


def test_kill_9_of_the_learner_leaves_nothing_behind(tmp_path: Path) -> None:
    child = Child(tmp_path, "learning")
    for line in ("update 90", "update 180", "learning"):
        child.expect(line)
    children = descendants(child.process.pid)
    blocks = shared_memory(children)
    assert len(children) >= 4 and len(blocks) == 1 and all(map(os.path.exists, blocks))
    child.process.kill()
    assert child.end()[0] == -signal.SIGKILL
    until(lambda: not any(map(alive, children)), "the end of the environments")
    until(lambda: not any(map(os.path.exists, blocks)), "the end of the shared memory")


def test_a_module_beside_the_script_is_imported_once_for_all_workers(tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text(
        "import os\n"
        "import numpy as np\n"
        "from gymnasium import Env, spaces\n"
        "IMPORTED_BY = os.getpid()\n"
        "class Told(Env):\n"
        "    observation_space = spaces.Box(0.0, 1e9, (1,), np.float64)\n"
        "    action_space = spaces.Discrete(2)\n"
        "    def reset(self, *, seed=None, options=None):\n"
        "        return np.zeros(1), {}\n"
        "    def step(self, action):\n"
        "        with open(f'told_{os.getpid()}', 'w') as file:\n"
        "            file.write(str(IMPORTED_BY))\n"
        "        return np.zeros(1), 0.0, False, True, {}\n"
    )
    (tmp_path / "script.py").write_text(
        "import os\n"
        "from beside import Told\n"
        "from ver_core.config import PolicyConfig, TrainConfig\n"
        "from ver_core.trainer import Trainer\n"
        "if __name__ == '__main__':\n"
        "    train = TrainConfig(total_steps=64, num_envs=2, rollout_length=32, mini_batches=1, scheduler='nover')\n"
        "    Trainer(Told, train, PolicyConfig(rnn_layers=0, mlp=[8]), show_progress=False).train()\n"
        "    assert 'PYTHONPATH' not in os.environ\n"
    )
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [sys.executable, str(tmp_path / "script.py")]
    (tmp_path / "elsewhere").mkdir()
    done = subprocess.run(
        command, cwd=tmp_path / "elsewhere", env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    told = {int(file.name.removeprefix("told_")): int(file.read_text()) for file in tmp_path.glob("elsewhere/told_*")}
    assert len(told) == 2 and len(set(told.values())) == 1  # by the server, not by each of them
    assert not set(told) & set(told.values())
