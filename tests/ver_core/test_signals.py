"""Stop signals as real processes get them: sent by the kernel to a child that waits in a loop, as training does."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from ver_core.signals import StopSignals

CHILD = """
import signal, sys, time
from ver_core.signals import StopSignals

def former(number, frame):
    print(f"former got {number}", flush=True)
    if "exit" in sys.argv:
        sys.exit(7)

if "former" in sys.argv:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2):
        signal.signal(number, former)

with StopSignals() as stop:
    print("ready", flush=True)
    deadline = time.monotonic() + 60
    while "wait for" not in sys.argv[1] and stop.received is None and time.monotonic() < deadline:
        time.sleep(0.005)
    for wanted in sys.argv[1].split()[2:]:
        while (stop.received is None or stop.received.name != wanted) and time.monotonic() < deadline:
            time.sleep(0.005)
        print(f"seen {wanted}", flush=True)
    print("checkpoint", stop.received.name, flush=True)
    stop.pass_on()
print("end", flush=True)
"""


class Child:
    """A training-like process; its PATH starts with a fake `scontrol` that writes down its arguments."""

    def __init__(self, tmp_path: Path, *arguments: str, slurm: bool = False, scontrol: str = "") -> None:
        self.calls = tmp_path / "scontrol_calls"
        bin_ = tmp_path / "bin"
        bin_.mkdir()
        (bin_ / "scontrol").write_text(f'#!/bin/sh\necho "$@" >> {self.calls}\n{scontrol}\n')
        (bin_ / "scontrol").chmod(0o755)
        environment = {key: value for key, value in os.environ.items() if not key.startswith("SLURM")}
        environment["PATH"] = f"{bin_}:{environment['PATH']}"
        if slurm:
            environment["SLURM_JOB_ID"] = "4711"
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD, *(arguments or ("any",))],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment,
        )
        self.expect("ready")

    def send(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def expect(self, line: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline() == line + "\n"

    def end(self) -> tuple[int, str, str]:
        out, err = self.process.communicate(timeout=60)
        return self.process.returncode, out, err

    def requeues(self) -> str:
        return self.calls.read_text() if self.calls.exists() else ""


@pytest.mark.parametrize(
    "number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2], ids=lambda n: n.name
)
def test_each_signal_ends_the_loop_and_the_process_with_0(tmp_path: Path, number: signal.Signals) -> None:
    child = Child(tmp_path)
    child.send(number)
    assert child.end() == (0, f"checkpoint {number.name}\nend\n", "")
    assert child.requeues() == ""


def test_a_second_ctrl_c_interrupts_at_once(tmp_path: Path) -> None:
    child = Child(tmp_path, "wait for SIGINT never")
    child.send(signal.SIGINT)
    child.expect("seen SIGINT")
    child.send(signal.SIGINT)
    code, out, err = child.end()
    assert code == -signal.SIGINT and out == "" and err.rstrip().endswith("KeyboardInterrupt")


def test_sigterm_and_ctrl_c_are_one_each_and_do_not_interrupt(tmp_path: Path) -> None:
    child = Child(tmp_path, "wait for SIGTERM SIGUSR2")
    child.send(signal.SIGTERM)
    child.expect("seen SIGTERM")
    child.send(signal.SIGINT)
    child.send(signal.SIGTERM)
    child.send(signal.SIGUSR2)
    assert child.end() == (0, "seen SIGUSR2\ncheckpoint SIGUSR2\nend\n", "")


def test_slurm_requeues_on_usr1_only(tmp_path: Path) -> None:
    child = Child(tmp_path, slurm=True)
    child.send(signal.SIGUSR1)
    assert child.end() == (0, "checkpoint SIGUSR1\nend\n", "")
    assert child.requeues() == "requeue 4711\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGUSR2], ids=lambda n: n.name)
def test_slurm_does_not_requeue_otherwise(tmp_path: Path, number: signal.Signals) -> None:
    child = Child(tmp_path, slurm=True)
    child.send(number)
    assert child.end()[0] == 0
    assert child.requeues() == ""


def test_the_time_out_counts_though_sigterm_came_first(tmp_path: Path) -> None:
    child = Child(tmp_path, "wait for SIGTERM SIGUSR1", slurm=True)
    child.send(signal.SIGTERM)
    child.expect("seen SIGTERM")
    child.send(signal.SIGUSR1)
    assert child.end()[0] == 0
    assert child.requeues() == "requeue 4711\n"


def test_a_failing_requeue_is_a_warning(tmp_path: Path) -> None:
    child = Child(tmp_path, slurm=True, scontrol="echo Job is held >&2; exit 1")
    child.send(signal.SIGUSR1)
    assert child.end() == (
        0,
        "checkpoint SIGUSR1\nend\n",
        "scontrol requeue 4711 failed (Job is held); queue the job again by hand\n",
    )


@pytest.mark.parametrize("number", [signal.SIGUSR1, signal.SIGUSR2], ids=lambda n: n.name)
def test_submitits_handler_is_called_after_the_checkpoint_instead_of_scontrol(
    tmp_path: Path, number: signal.Signals
) -> None:
    child = Child(tmp_path, "any", "former", slurm=True)
    child.send(number)
    assert child.end() == (0, f"checkpoint {number.name}\nformer got {int(number)}\nend\n", "")
    assert child.requeues() == ""


def test_a_former_handler_may_exit(tmp_path: Path) -> None:
    child = Child(tmp_path, "any", "former", "exit")
    child.send(signal.SIGUSR2)
    assert child.end() == (7, f"checkpoint SIGUSR2\nformer got {int(signal.SIGUSR2)}\n", "")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda n: n.name)
def test_former_handlers_of_stop_signals_are_never_called(tmp_path: Path, number: signal.Signals) -> None:
    child = Child(tmp_path, "any", "former")
    child.send(number)
    assert child.end() == (0, f"checkpoint {number.name}\nend\n", "")


def handlers() -> list[Any]:
    return [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGUSR2)]


def test_former_handlers_come_back_even_after_an_error() -> None:
    before = handlers()
    with pytest.raises(ZeroDivisionError), StopSignals():
        assert handlers() != before
        raise ZeroDivisionError
    assert handlers() == before


def test_another_thread_leaves_the_handlers_alone() -> None:
    before = handlers()
    seen: list[Any] = []

    def work() -> None:
        with StopSignals() as stop:
            seen.extend([handlers(), stop.received])
            stop.pass_on()

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert seen == [before, None] and handlers() == before
