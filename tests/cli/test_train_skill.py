"""`tpsrl train-skill`: its configuration, a real (tiny) training, resuming, and what it says to bad input."""

from __future__ import annotations

import json
import math
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path

import command_line
import numpy as np
import pytest
import torch
from omegaconf import OmegaConf
from safetensors.torch import load_file

from configs.schema import ConfigError, load_train_config, read_train_config, train_config_yaml
from hab.observation_sets import CRITIC_KEYS
from skills import TASKS, make_env
from skills.training import fit_policy
from ver_core.policy import RecurrentPolicy
from ver_core.trainer import Trainer

ROOT = Path(__file__).parents[2]
TINY = ["train.num_envs=2", "train.rollout_length=16", "train.min_batch=1", "train.learner_threads=1"]
LIMIT_S = 300
"""Only against hanging."""

BAD = {
    "unknown skill": (["pik"], "did you mean 'pick'"),
    "unknown option": (["pick", "--observations", "laser"], "No such option"),
    "unknown observation set": (["pick", "--obs", "lasr"], "did you mean 'laser'"),
    "simulator that is not there": (["pick", "--sim", "gazebo"], "choose from mujoco, habitat, planar"),
    "navigate must drive": (["navigate", "--no-nav"], "leave it out"),
    "no steps": (["pick", "--steps", "0"], "0 is not in the range"),
    "steps twice": (["pick", "--steps", "9", "train.total_steps=9"], "give one of them"),
    "typo in a key": (["pick", "train.num_env=2"], "Did you mean: 'num_envs'"),
    "typo in a section": (["pick", "polcy.rnn_size=2"], "Did you mean: 'policy'"),
    "new key": (["pick", "+train.speed=2"], "speed"),
    "unknown group": (["pick", "train=papr"], "Available options in 'train': finetune paper pql pql_small small"),
    "wrong type": (["pick", "train.num_envs=many"], "many"),
    "fraction of an environment": (["pick", "train.num_envs=2.5"], "2.5"),
    "sweep": (["pick", "train.seed=1,2"], "--multirun"),
    "option as override": (["pick", "nav=false"], "argument or option for nav"),
    "skill as override": (["pick", "+skill=place"], "argument or option for skill"),
    "hydra's own override": (["pick", "hydra.run.dir=x"], "only keys of configs/train_skill.yaml"),
    "no environments": (["pick", "train.num_envs=0"], "must be at least 1"),
    "no environments in a process": (["pick", "train.envs_per_worker=0"], "must be at least 1"),
    "negative seed": (["pick", "train.seed=-1"], "must not be negative"),
    "no number": (["pick", "train.learning_rate=nan"], "must be finite"),
    "unequal mini-batches": (["pick", "train.mini_batches=3"], "do not divide"),
    "layer without units": (["pick", "policy.mlp=[0]"], "must be at least 1"),
    "unknown scheduler": (["pick", "train.scheduler=vera"], "choose from ver, nover, ddppo, async"),
    "unknown part": (["pick", "policy.initial_bias.hand=1"], "no such action part; choose from"),
    "unknown observation": (["pick", "policy.tanh_keys=[smell]"], "no vector of floats smell; choose from"),
    "unknown W&B mode": (["pick", "wandb.mode=on"], "choose from disabled, offline, online"),
    "unknown device": (["pick", "train.device=abacus"], "train.device=abacus"),
    "resume what": (["pick", "--resume"], "name the run's folder with --out"),
    "resume nothing": (["pick", "--resume", "--out", "/no/such"], "/no/such: holds no run"),
    "resume otherwise": (["pick", "--resume", "--out", "x", "train.seed=3"], "only train.total_steps"),
    "unwritable folder": (["pick", "--out", "/dev/null/run", *TINY], "cannot be the run's folder"),
    "part that is not there": (["close_fridge", "policy.heads.grip_action=bernoulli"], "no such action part"),
    "noise without a camera": (["pick", "depth_noise=true"], "--obs laser does not have; leave it out"),
    "scan that is not there": (["pick", "policy.scan_keys=[sonar]"], "no observation sonar"),
}


def run(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> int:
    """Run the command in this process."""
    return command_line.run(["train-skill", *arguments], monkeypatch)


def start(*command: str) -> subprocess.Popen[str]:
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=ROOT)


def finish(*command: str) -> str:
    """Run a command that must succeed; return its stdout."""
    process = start(*command)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, err
    return out


def steps_logged(folder: Path) -> list[int]:
    return [json.loads(line)["steps"] for line in (folder / "scalars.jsonl").read_text().splitlines()]


# -- configuration -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("nav", [True, False])
@pytest.mark.parametrize("skill", TASKS)
def test_every_skill_composes_and_its_heads_fit_its_parts(skill: str, nav: bool) -> None:
    config = load_train_config([f"skill={skill}", f"nav={nav}"])
    policy = fit_policy(config.policy, skill, "laser", nav)
    env = make_env(skill, "train", "laser", base_movement=nav, critic_keys=CRITIC_KEYS)
    on_or_off = {"grip_action", "rearrange_stop"} & set(env.action_space.spaces)
    assert policy.heads == dict.fromkeys(on_or_off, "bernoulli")
    drives_ahead = {"base_vel"} if skill == "navigate" else set()
    assert set(policy.initial_bias) == on_or_off | drives_ahead
    torch.manual_seed(0)
    network = RecurrentPolicy(env.observation_space, env.action_space, policy)
    env.close()
    # How often a fresh policy holds on, and stops: whatever it observes, its head's bias decides.
    rows, layout = 2000, network.action_layout
    with torch.no_grad():
        output = network(
            torch.rand(rows, network.obs_layout.floats),
            torch.zeros(rows, 0, dtype=torch.uint8),
            torch.zeros(rows, layout.size),
            torch.zeros(rows, network.state_size),
            torch.tensor([rows]),
        )
        actions = output.distribution.sample(torch.rand(rows, network.noise_size))
        means = output.distribution.mode()
    for part in layout.parts:
        on = float((actions[:, part.start] > 0).float().mean())
        if part.name == "grip_action":
            assert on > 0.93 and on == pytest.approx(1.0 / (1.0 + math.exp(-policy.initial_bias[part.name])), abs=0.02)
        elif part.name == "rearrange_stop":
            assert 0.0 < on < 0.02
        elif part.name in drives_ahead:
            assert means[:, part.start : part.start + 2].mean(dim=0).tolist() == pytest.approx([0.5, 0.0], abs=0.05)
        else:
            assert 0.0 < float(means[:, part.start].abs().max()) < 0.05 and 0.3 < on < 0.7


@pytest.mark.parametrize(
    ("skill", "gates", "fine"),
    [
        ("navigate", [], {"goal_to_agent_gps_compass"}),
        ("pick", ["is_holding"], {"obj_start_sensor"}),
        ("place", ["is_holding"], {"obj_goal_sensor"}),
        *((skill, ["is_holding"], {"handle_start_sensor"}) for skill in TASKS if skill.startswith(("open_", "close_"))),
    ],
)
def test_what_is_seen_to_the_centimetre_and_what_switches_weights(skill: str, gates: list[str], fine: set[str]) -> None:
    policy = fit_policy(load_train_config([f"skill={skill}"]).policy, skill, "laser", True)
    hand = set() if skill == "navigate" else {"relative_resting_position"}
    assert policy.gating_keys == gates and set(policy.tanh_keys) == fine | hand
    env = make_env(skill, "train", "laser", critic_keys=CRITIC_KEYS)
    plain = fit_policy(replace(policy, gating_keys=[], tanh_keys=[]), skill, "laser", True)
    assert plain.gating_keys == [] and plain.tanh_keys == []
    inputs = [RecurrentPolicy(env.observation_space, env.action_space, p).inputs.features for p in (policy, plain)]
    env.close()
    seen_finely = sum(int(np.prod(env.observation_space[key].shape)) for key in policy.tanh_keys)
    assert inputs[0] == (1 + len(gates)) * (inputs[1] + 2 * seen_finely)


def test_scans_are_for_the_laser_only() -> None:
    config = load_train_config(["skill=pick", "train=paper"])
    assert fit_policy(config.policy, "pick", "laser", True).scan_keys == ["laser"]
    assert fit_policy(config.policy, "pick", "depth", True).scan_keys == []


def test_the_base_is_left_out_where_it_stands() -> None:
    policy = load_train_config(["skill=pick"]).policy
    assert fit_policy(policy, "pick", "laser", True).initial_part_std == {"base_vel": 0.3}
    assert fit_policy(policy, "pick", "laser", False).initial_part_std == {}
    assert fit_policy(policy, "navigate", "laser", True).initial_bias == {}  # it has no grip


def test_overrides_win_over_what_follows_from_the_parts() -> None:
    overrides = ["policy.heads.grip_action=gaussian", "policy.initial_bias.rearrange_stop=-1"]
    policy = fit_policy(load_train_config(["skill=pick", *overrides[:1]]).policy, "pick", "laser", True)
    assert policy.heads == {"grip_action": "gaussian"} and policy.initial_bias == {}
    policy = fit_policy(load_train_config(["skill=navigate", *overrides[1:]]).policy, "navigate", "laser", True)
    assert policy.initial_bias == {"base_vel": [0.5, 0.0], "rearrange_stop": -1.0}


@pytest.mark.parametrize("skill", TASKS)
def test_paper_is_table_a1(skill: str) -> None:
    """Wijmans et al. 2022, appendix D, and the policy of section 4."""
    config = load_train_config([f"skill={skill}", "train=paper"])
    assert (config.action_repeat, config.chain_starts, config.retries) == (1, 0.0, 0.0)
    table = {
        "learning_rate": 2.5e-4,
        "final_learning_rate": 0.0,
        "total_steps": 500_000_000,
        "epochs": 3,
        "mini_batches": 2,
        "clip": 0.2,
        "entropy_coef": 1e-3,
        "entropy_coef_min": 1e-4,
        "entropy_coef_max": 1.0,
        "target_entropy": 0.0,
        "value_coef": 0.5,
        "normalize_advantage": False,
        "gae_lambda": 0.95,
        "gamma": 0.99,
        "scheduler": "ver",
        "sampling_weight_max": 1.0,
        "num_envs": 16,
        "rollout_length": 128,
        "learn_entropy_coef": True,
    }
    assert {key: getattr(config.train, key) for key in table} == table
    policy = config.policy
    assert (policy.visual, policy.rnn_layers, policy.rnn_size, policy.previous_action) == ("paper", 2, 512, True)


def test_the_default_is_small_and_the_folder_says_what_is_in_it() -> None:
    config = load_train_config(["skill=open_fridge", "nav=false"])
    assert config.train.total_steps == 2_000_000
    assert config.train.num_envs == 32 and config.train.envs_per_worker == 16
    assert re.fullmatch(r"outputs/train/open_fridge_nonav_laser_\d{4}-\d\d-\d\d_\d\d-\d\d-\d\d", config.out)


@pytest.mark.parametrize("skill", TASKS)
def test_the_default_is_one_recipe_for_all_skills(skill: str) -> None:
    """What a skill's file adds follows from its task, not from the machine."""
    config = load_train_config([f"skill={skill}"])
    driving = skill == "navigate"
    assert config.action_repeat == (6 if driving else 3) and (config.chain_starts, config.retries) == (0.3, 0.5)
    assert (config.policy.rnn_layers, config.policy.rnn_size, config.policy.previous_action) == (1, 256, True)
    assert config.policy.initial_std == 0.5 and config.policy.initial_part_std == {"base_vel": 0.5 if driving else 0.3}
    assert config.train.learning_rate == 3e-4 and config.train.total_steps == 2_000_000
    assert config.train.std_learning_rate > config.train.learning_rate < config.train.entropy_coef_learning_rate
    assert config.train.target_entropy == (-1.0 if driving else -5.0)


@pytest.mark.parametrize("obs", ["laser", "laser+map"])
def test_navigate_goes_on_in_physics_from_where_it_learnt_its_way(
    tmp_path: Path, obs: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    planar, after = tmp_path / "planar", tmp_path / "after"
    both = ["navigate", "--obs", obs, *TINY, "--steps", "64"]
    assert run([*both, "--sim", "planar", "--out", str(planar)], monkeypatch) == 0
    assert run([*both, f"initial_weights={planar}", "--out", str(after)], monkeypatch) == 0
    assert read_train_config(planar / "config.yaml").sim == "planar"
    assert read_train_config(after / "config.yaml").sim == "mujoco"
    first, then = (load_file(folder / "policy.safetensors") for folder in (planar, after))
    assert first.keys() == then.keys()
    assert any(not torch.equal(first[name], then[name]) for name in first)


def test_the_monolithic_policy_is_trained_as_the_others_are(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out = tmp_path / "run"
    assert run(["rearrange", *TINY, "--steps", "32", "--out", str(out)], monkeypatch) == 0
    config = read_train_config(out / "config.yaml")
    assert config.train.learning_rate == 3e-4 and config.policy.initial_std == 0.5 and config.action_repeat == 3


def test_a_configuration_survives_its_file(tmp_path: Path) -> None:
    config = load_train_config(["skill=place", "train.learning_rate=3e-5", "policy.mlp=[7,8]", "out=somewhere"])
    (tmp_path / "config.yaml").write_text(train_config_yaml(config))
    again = read_train_config(tmp_path / "config.yaml")
    assert again.out == ""  # the folder may be moved
    again.out = "somewhere"
    assert again == config


@pytest.mark.parametrize("text", ["", "skill: [", "train: {num_envs: x}", "\x00", "- 1"])
def test_a_spoilt_configuration_is_one_line(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.yaml").write_text(text)
    with pytest.raises(ConfigError) as error:
        read_train_config(tmp_path / "config.yaml")
    assert str(tmp_path) in str(error.value) and "\n" not in str(error.value)


# -- bad input ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("arguments", "said"), BAD.values(), ids=BAD)
def test_bad_input_is_one_line(
    arguments: list[str],
    said: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    def must_not_train(trainer: Trainer) -> None:
        raise AssertionError("it was not refused")

    monkeypatch.setattr(Trainer, "train", must_not_train)
    monkeypatch.chdir(tmp_path)
    assert run(arguments, monkeypatch) == 2
    out, err = capsys.readouterr()
    assert out == "" and said in err
    assert err.count("\n") == 1 and err.startswith("tpsrl: ")
    assert list(tmp_path.iterdir()) == []


def test_depth_without_opengl_is_one_line(tmp_path: Path) -> None:
    """In a process of its own: MuJoCo reads the variable when it is imported."""
    done = subprocess.run(
        [sys.executable, "-m", "tpsrl", "train-skill", "pick", "--obs", "depth", "--out", str(tmp_path / "run")],
        **{"capture_output": True, "text": True, "cwd": ROOT, "env": {**os.environ, "MUJOCO_GL": "disable"}},
    )
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "switches rendering off" in done.stderr
    assert not (tmp_path / "run").exists()


def test_an_environment_that_fails_is_exit_code_1(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["pick", "--out", str(tmp_path / "run"), "train.start_timeout_s=0.001"], monkeypatch) == 1
    err = capsys.readouterr().err
    assert err.count("\n") == 1 and "could not be made within 0.001 s" in err


# -- training ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A run of 64 steps, and what the command printed. Not to be changed."""
    folder = tmp_path_factory.mktemp("train") / "run"
    command = [sys.executable, "-m", "tpsrl", "train-skill", "pick", "--steps", "64", "--out", str(folder), *TINY]
    return folder, finish(*command)


@pytest.fixture
def copied(trained: tuple[Path, str], tmp_path: Path) -> Path:
    """The same run, in a folder that may be changed."""
    return Path(shutil.copytree(trained[0], tmp_path / "run"))


def test_the_run_directory_is_complete(trained: tuple[Path, str]) -> None:
    folder, printed = trained
    assert "64 of 64 steps" in printed and str(folder) in printed
    names = {path.name for path in folder.iterdir()}
    assert names == {
        *("config.yaml", "run.json", "scalars.jsonl", "checkpoint.pt", "policy.safetensors", "log.txt", "tensorboard")
    }
    assert list((folder / "tensorboard").glob("events*"))
    row = json.loads((folder / "scalars.jsonl").read_text().splitlines()[-1])
    assert row["steps"] == 64 and row["train/sps"] > 0 and math.isfinite(row["learn/value_loss"])
    (session,) = json.loads((folder / "run.json").read_text())["sessions"]
    git = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, cwd=ROOT)
    if git.returncode == 0:
        assert session["git"]["revision"] == git.stdout.strip()
    assert "train-skill" in session["command"]


def test_the_saved_policy_and_configuration_make_the_network_again(trained: tuple[Path, str]) -> None:
    config = read_train_config(trained[0] / "config.yaml")
    assert (config.skill, config.nav, config.obs, config.train.num_envs) == ("pick", True, "laser", 2)
    env = make_env("pick", critic_keys=CRITIC_KEYS)
    network = RecurrentPolicy(env.observation_space, env.action_space, config.policy)
    env.close()
    before = {name: tensor.clone() for name, tensor in network.state_dict().items()}
    network.load_state_dict(load_file(trained[0] / "policy.safetensors"))
    assert any(not torch.equal(before[name], tensor) for name, tensor in network.state_dict().items())


def test_resume_goes_on_with_the_runs_own_configuration(
    copied: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["pick", "--resume", "--out", str(copied), "--steps", "128"], monkeypatch) == 0
    assert "128 of 128 steps, 64 of them now" in capsys.readouterr().out
    logged = steps_logged(copied)  # a slow machine logs in between, too
    assert (logged[0], logged[-1]) == (64, 128) and logged == sorted(set(logged))
    assert len(json.loads((copied / "run.json").read_text())["sessions"]) == 2
    old, new = (OmegaConf.load(copied / name) for name in ("config.1.yaml", "config.yaml"))
    assert (old.train.total_steps, new.train.total_steps) == (64, 128)
    old.train.total_steps = 128
    assert old == new and new.train.num_envs == 2


def test_resume_refuses_another_task(
    trained: tuple[Path, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = str(trained[0])
    for arguments, said in (
        (["place", "--resume"], "skill=pick, not place"),
        (["pick", "--no-nav", "--resume"], "nav=True, not False"),
        (["pick"], "holds a run already; use --resume"),
    ):
        assert run([*arguments, "--out", folder], monkeypatch) == 2
        err = capsys.readouterr().err
        assert said in err and err.count("\n") == 1
    assert steps_logged(trained[0]) == [64]


def test_a_spoilt_checkpoint_is_one_line(
    copied: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (copied / "checkpoint.pt").write_bytes((copied / "checkpoint.pt").read_bytes()[:1000])
    assert run(["pick", "--resume", "--out", str(copied), "--steps", "128"], monkeypatch) == 2
    err = capsys.readouterr().err
    assert "truncated" in err and err.count("\n") == 1


def test_sigterm_saves_and_says_how_to_go_on(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    process = start(
        *(sys.executable, "-m", "tpsrl", "train-skill", "close_fridge", "--no-nav", "--out", str(folder)),
        *(*TINY, "train.log_every_s=0"),
    )
    wait_for_rows(process, folder)
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, err
    assert f"go on with: tpsrl train-skill close_fridge --out {folder} --resume" in out
    assert (folder / "checkpoint.pt").exists()


def test_env_workers_do_not_load_torch(tmp_path: Path) -> None:
    """In a process of its own, since the fork server is shared by all that a process starts."""
    script = """
from dataclasses import replace
from pathlib import Path
from skills.training import env_factory
from ver_core.spaces import ActionLayout, ObsLayout
from ver_core.worker_pool import WorkerPool, probe
factory = env_factory("pick", obs="laser", base_movement=True)
spaces = probe(factory, 200.0)
pool = WorkerPool(factory, ObsLayout(spaces[0]), ActionLayout(spaces[1]), 1, (0, 0))
while not pool.take(1, 1.0):
    pass
maps = Path(f"/proc/{pool.pids()[0]}/maps").read_text()
print("mujoco" in maps, "torch" in maps)
pool.close()
"""
    if not Path("/proc/self/maps").exists():
        pytest.skip("needs Linux's /proc")
    assert finish(sys.executable, "-c", script).split() == ["True", "False"]


def wait_for_rows(process: subprocess.Popen[str], folder: Path, rows: int = 1) -> None:
    deadline = time.monotonic() + LIMIT_S
    scalars = folder / "scalars.jsonl"
    while not scalars.exists() or scalars.read_bytes().count(b"\n") < rows:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)


# -- several processes, and Hydra's way of starting --------------------------------------------------------------------


@pytest.mark.slow  # tests/ver_core/test_distributed.py has two processes in any case
def test_two_processes_under_torchrun(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    printed = finish(
        *(sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "tpsrl"),
        *("train-skill", "pick", "--nav", "--steps", "64", "--out", str(folder), *TINY),
    )
    assert printed.count("64 of 64 steps") == 1  # rank 0 speaks for both
    assert steps_logged(folder) == [64]


def test_the_hydra_application_resumes_by_itself(copied: Path) -> None:
    command = [sys.executable, "-m", "tpsrl.train", "skill=pick", f"out={copied}", *TINY]
    assert "96 of 96 steps, 32 of them now" in finish(*command, "train.total_steps=96")
    assert steps_logged(copied) == [64, 96]
    process = start(*command, "train.seed=1")
    out, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 2 and out == ""
    assert err.startswith("tpsrl: train.seed=1: ") and err.count("\n") == 1


@pytest.mark.slow
def test_submitit_queues_again_after_its_signal(tmp_path: Path) -> None:
    """On this machine instead of SLURM's: submitit's local executor, with the signal handlers of the real one."""
    pytest.importorskip("submitit")
    pytest.importorskip("hydra_plugins.hydra_submitit_launcher")
    process = start(
        *(sys.executable, "-m", "tpsrl.train", "--multirun", "hydra/launcher=submitit_local", "skill=pick"),
        *(f"hydra.sweep.dir={tmp_path}", "train.total_steps=3000", "train.log_every_s=0", *TINY),
    )
    wait_for_rows(process, tmp_path / "0", 3)
    (job,) = (folder.name for folder in (tmp_path / ".submitit").iterdir() if folder.name.isdigit())
    # The job's id is its controller's process; the training is that one's child.
    (training,) = Path(f"/proc/{job}/task/{job}/children").read_text().split()
    os.kill(int(training), signal.SIGUSR2)
    _, err = process.communicate(timeout=LIMIT_S)
    assert process.returncode == 0, err
    steps = steps_logged(tmp_path / "0")
    assert steps[-1] == 3008 and steps == sorted(set(steps))
    assert len(json.loads((tmp_path / "0" / "run.json").read_text())["sessions"]) == 2
