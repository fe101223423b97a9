"""benchmarks/peers: that systems are measured right. The peers themselves are in no environment of ours."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from gymnasium import spaces

from skills import make_env

FOLDER = Path(__file__).parent.parent / "benchmarks" / "peers"


@pytest.fixture(autouse=True)
def on_path(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(FOLDER))


def test_figures_of_known_notes(tmp_path: Path) -> None:
    """Two environments, 100 and 300 steps/s, episodes of 10 s; the first is won in its second half only."""
    import run
    from settings import SPEED

    for name, rate in (("a", 100), ("b", 300)):
        lines = []
        for tenth in range(1, 1001):
            seconds = tenth / 10.0
            if tenth % 100 == 0:
                won = name == "a" and seconds > 50.0
                lines.append(f"{1000.0 + seconds:.3f} {int(rate * seconds)} {int(won)} {seconds:.3f}")
            else:
                lines.append(f"{1000.0 + seconds:.3f} {int(rate * seconds)}")
        (tmp_path / f"{name}.txt").write_text("\n".join(lines) + "\n")
    watch: Any = SimpleNamespace(peak_bytes=2**21, cpu_s=80.0)
    found = run.read(tmp_path, 0.5, watch, 50_000, SPEED)
    assert found.steps == 40_000
    assert found.seconds == pytest.approx(99.9)
    assert found.sps == pytest.approx(400.0, rel=0.01)
    assert found.max_sps == pytest.approx(400.0, rel=0.02)
    # The last fifth begins between the two episodes that end at 80 s.
    assert found.episodes == 5 and found.success == pytest.approx(2 / 5)
    assert found.mean_return == pytest.approx((80 + 2 * 90 + 2 * 100) / 5)
    assert found.until_min is None  # fewer than 100 episodes
    assert found.memory_mb == 2.0 and found.cpu_s_per_million == pytest.approx(2000.0)
    ahead = run.read(tmp_path, 0.5, watch, 21_000, SPEED)  # what was collected beyond is not counted
    assert ahead.sps == pytest.approx(400.0 * (21_000 - 2048) / (40_000 - 2048), rel=0.01)
    assert ahead.cpu_s_per_million == pytest.approx(80.0 / 0.021)


def test_a_rollout_without_its_learning_is_no_rate(tmp_path: Path) -> None:
    """2048 steps in a second, then nine seconds without: the fastest two rollouts still hold two pauses."""
    import run
    from settings import SPEED

    rollouts = ["\n".join(f"{1000 + 10 * i + t / 64:.3f} {2048 * i + 32 * t}" for t in range(1, 65)) for i in range(5)]
    (tmp_path / "a.txt").write_text("\n".join(rollouts) + "\n")
    watch: Any = SimpleNamespace(peak_bytes=0, cpu_s=0.0)
    found = run.read(tmp_path, 0.5, watch, 10_240, SPEED)
    assert found.sps == pytest.approx(204.8, rel=0.01)
    assert found.max_sps == pytest.approx(204.8, rel=0.01)


def test_our_training_is_measured(tmp_path: Path) -> None:
    import run

    found = run.measure(Path(sys.executable), "tpsrl", "pick", 4096, seed=0, success=0.5)
    assert 4096 - 16 * 32 < found.steps < 3 * 4096  # each environment notes its steps every 32
    assert 0.0 < found.sps < 1e5 and 0.0 < found.max_sps < 1e5
    assert 50.0 < found.memory_mb < 2e4
    assert found.cpu_s_per_million > 50.0
    assert found.measuring > 0.0


def test_when_a_success_was_reached(tmp_path: Path) -> None:
    """Episodes of ten steps and a second; from the 51st on all are won: of 100 in a row 80 are with the 130th."""
    import run

    lines = [f"{1000.0 + i:.3f} {10 * i} {int(i > 50)} 0.0" for i in range(1, 201)]
    (tmp_path / "a.txt").write_text("\n".join(lines) + "\n")
    assert run.reached(*run.table(tmp_path), 0.8) == (pytest.approx(129 / 60.0), 1300)
    assert run.reached(*run.table(tmp_path), 1.0) == (pytest.approx(149 / 60.0), 1500)
    curve = run.curve(*run.table(tmp_path))  # at the ends of minutes, of the last 100 episodes
    assert curve == [(1.0, 600, pytest.approx(10 / 60)), (2.0, 1200, 0.7), (3.0, 1800, 1.0)]
    (tmp_path / "a.txt").write_text("\n".join(lines[:120]) + "\n")
    assert run.reached(*run.table(tmp_path), 0.8) is None


@pytest.mark.slow
def test_where_learning_is_measured_a_run_ends_with_its_success(tmp_path: Path) -> None:
    import run

    found = run.measure(Path(sys.executable), "tpsrl", "learn_pick", 10**9, seed=0, success=0.0, limit_s=300.0)
    assert found.until_steps is not None and found.until_steps < 10**5


@pytest.mark.slow
def test_a_run_that_takes_too_long_is_measured_up_to_there(tmp_path: Path) -> None:
    import run

    found = run.measure(Path(sys.executable), "tpsrl", "pick", 10**9, seed=0, success=0.5, limit_s=40.0)
    assert 16 * 128 < found.steps < 10**6
    assert found.seconds < 40.0


def test_a_run_that_is_too_short_is_told(tmp_path: Path) -> None:
    import run
    from settings import SPEED

    watch: Any = SimpleNamespace(peak_bytes=0, cpu_s=0.0)
    with pytest.raises(RuntimeError, match="made 0 steps, not more than a rollout"):
        run.read(tmp_path, 0.5, watch, 10_000, SPEED)
    (tmp_path / "a.txt").write_text("1000.0 32\n1001.0 64\n")
    with pytest.raises(RuntimeError, match="made 64 steps, not more than a rollout"):
        run.read(tmp_path, 0.5, watch, 10_000, SPEED)


def test_what_fails_is_told(tmp_path: Path) -> None:
    import run

    with pytest.raises(RuntimeError, match=r"(?s)tpsrl on nonsense ended with 1.*unknown skill 'nonsense'"):
        run.measure(Path(sys.executable), "tpsrl", "nonsense", 4096, seed=0, success=0.5)


def test_flat_task_is_the_task(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same start, observations, actions and rewards as with dictionaries."""
    import tasks

    monkeypatch.setenv(tasks.LOG_VARIABLE, str(tmp_path))
    flat, task = tasks.make("pick"), make_env("pick", split="train", obs="laser", action_repeat=tasks.ACTION_REPEAT)
    seen, _ = flat.reset(seed=3)
    expected, _ = task.reset(seed=3)
    rng = np.random.default_rng(0)
    keys = list(task.observation_space)  # type: ignore[call-overload]
    for _ in range(40):
        assert np.array_equal(seen, np.concatenate([expected[key] for key in keys]))
        action = {key: rng.uniform(-1, 1, box.shape).astype(np.float32) for key, box in task.action_space.items()}  # type: ignore[attr-defined]
        seen, reward, *ended, _ = flat.step(np.concatenate(list(action.values())))
        expected, wanted, *should, _ = task.step(action)
        assert reward == wanted and ended == should
        if any(ended):
            break
    (notes,) = tmp_path.glob("*.txt")
    assert notes.read_text().splitlines()[0].split()[1] == "32"
    flat.close()


def test_cartpole_is_the_examples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import tasks

    from ver_core.examples import memory_cartpole

    monkeypatch.setenv(tasks.LOG_VARIABLE, str(tmp_path))
    ours, theirs = tasks.make("cartpole"), memory_cartpole.make_env()
    seen, _ = ours.reset(seed=5)
    expected, _ = theirs.reset(seed=5)
    ended = False
    while not ended:
        assert np.array_equal(seen, expected)
        right = bool(seen[1] > 0.0)
        seen, reward, ended, _, info = ours.step(np.array([0.5 if right else -0.5], np.float32))
        expected, wanted, should, *_ = theirs.step(int(right))
        assert (reward, ended, info["success"]) == (pytest.approx(wanted), should, False)
    ours.close()


@pytest.mark.parametrize("leading", [(), (3,), (2, 3)])
def test_the_peers_network_takes_any_leading_dimensions(leading: tuple[int, ...]) -> None:
    """TorchRL asks for a single step without any."""
    from features import Features
    from settings import SPEED

    network = Features(SPEED, spaces.Box(-1.0, 1.0, (5,)), spaces.Box(0.0, 1.0, (40, 48, 1)))
    vector, image = torch.randn(*leading, 5), torch.rand(*leading, 40, 48, 1)
    found = network(vector, image)
    assert found.shape == (*leading, 128)
    rows = zip(vector.reshape(-1, 5), image.reshape(-1, 40, 48, 1), strict=True)
    one_by_one = torch.cat([network(v[None], i[None]) for v, i in rows])
    torch.testing.assert_close(found.reshape(-1, 128), one_by_one)
