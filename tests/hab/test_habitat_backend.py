"""The Habitat back end against a real habitat-sim, where one is installed; what needs none is tested everywhere."""

from __future__ import annotations

import contextlib
import json
import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from hab import robot
from hab.actions import SIZES
from hab.backend import make_simulator, unavailable
from hab.episodes import SCENARIOS, Episode, load_grid, load_scene, make_episode
from hab.habitat import lab
from hab.habitat.apartments import DATASET, PHYSICS, articulated_name, joint_index, link_name, scene_name
from hab.habitat.data import DATASETS
from hab.habitat.episodes import handle
from hab.habitat.export import export
from hab.habitat.frames import to_habitat
from hab.habitat.played import CACHE_VARIABLE
from hab.mujoco.build import DOOR_DAMPING, DOOR_FRICTION, DRAWER_DAMPING, DRAWER_FRICTION, ROLLING_M
from hab.objects import OBJECTS, object_kind
from hab.scenario_env import ScenarioEnv
from hab.scene import Scene
from hab.simulator import SimulationError, Simulator
from skills.articulated import OpenCabinet
from skills.oracle import make_oracle
from skills.place import Place

needs_habitat = pytest.mark.skipif(bool(lab.missing()), reason=lab.missing())
"""habitat-sim is no package of PyPI's."""
GRASP = {"grip_action": np.ones(1, np.float32)}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("habitat")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_VARIABLE, str(folder))
        yield folder


@pytest.fixture(scope="module")
def sim(cache: Path) -> Iterator[Simulator]:
    made = make_simulator("habitat")
    yield made
    made.close()


def can_of(episode: Episode) -> str:
    return next(name for name in episode.objects if object_kind(name) in ("005_tomato_soup_can", "010_potted_meat_can"))


def test_what_is_missing_is_said_in_one_line() -> None:
    from tpsrl.commands import cli

    reason = unavailable("habitat")
    assert "\n" not in reason
    if reason:
        assert re.search(r"make habitat|--bullet", reason)
        with pytest.raises(RuntimeError, match="habitat"):
            make_simulator("habitat")
        result = CliRunner().invoke(cli, ["eval", "pick", "--sim", "habitat", "--episodes", "1"])
        assert result.exit_code != 0 and reason in result.output
    with pytest.raises(ValueError, match="choose from mujoco, habitat"):
        unavailable("gazebo")


@needs_habitat
def test_episode_is_laid_out_as_in_mujoco(sim: Simulator) -> None:
    ours = make_simulator()
    for scenario, index in (("tidy_house", 0), ("prepare_groceries", 1), ("set_table", 0)):
        episode = make_episode(scenario, "val", index)
        sim.reset(episode)
        ours.reset(episode)
        assert sim.base == pytest.approx(episode.robot, abs=1e-5)
        assert sim.arm == pytest.approx(robot.REST_Q, abs=1e-5)
        assert sim.held == "" and sim.steps == 0
        for name in episode.objects:
            assert sim.object_pos(name) == pytest.approx(ours.object_pos(name), abs=1e-5)
            assert abs(sim.object_quat(name) @ ours.object_quat(name)) == pytest.approx(1.0, abs=1e-6)
        for articulation in sim.scene.articulations:
            assert sim.joint_pos(articulation.name) == pytest.approx(ours.joint_pos(articulation.name), abs=1e-5)
            assert sim.handle_pos(articulation.name) == pytest.approx(ours.handle_pos(articulation.name), abs=1e-5)


@needs_habitat
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_scenario_has_the_same_spaces_and_steps(cache: Path, scenario: str) -> None:
    env, ours = ScenarioEnv(scenario, "val", index=0, sim="habitat"), ScenarioEnv(scenario, "val", index=0)
    assert env.observation_space == ours.observation_space and env.action_space == ours.action_space
    seen, _ = env.reset(seed=0)
    expected, _ = ours.reset(seed=0)
    for key in seen:
        assert seen[key] == pytest.approx(expected[key], abs=0.02), key
    for _ in range(5):
        seen, _, terminated, truncated, info = env.step(env.action_space.sample())
        assert env.observation_space.contains(seen)
        assert not truncated
        if terminated:
            break
    assert info["num_steps"] == env.sim.steps
    env.close()


@needs_habitat
def test_base_drives_as_far_as_commanded(sim: Simulator) -> None:
    sim.reset(make_episode("tidy_house", "val", 0))
    x, y, yaw = sim.base
    for _ in range(30):
        sim.step({"base_vel": np.array([0.0, 1.0], np.float32)})
    assert math.remainder(sim.base[2] - yaw, math.tau) == pytest.approx(1.5, abs=0.05)
    assert sim.base[:2] == pytest.approx((x, y), abs=0.02)
    before = sim.base
    for _ in range(6):
        sim.step({"base_vel": np.array([0.5, 0.0], np.float32)})
    went = sim.base - before
    assert went[:2] == pytest.approx(0.1 * np.array([math.cos(before[2]), math.sin(before[2])]), abs=0.02)
    assert sim.path_m == pytest.approx(0.1, abs=0.03)


@needs_habitat
def test_base_slides_along_what_it_drives_against(sim: Simulator) -> None:
    """HAB's stops dead at the navigation mesh's edge; MuJoCo's does not."""
    sim.reset(make_episode("tidy_house", "val", 0))
    rng = np.random.default_rng(0)
    moved = []
    for _ in range(10):
        sim.place_robot(np.array([*sim.nav.sample(rng), rng.uniform(-3.0, 3.0)]))
        for _ in range(150):  # 1 m/s for 5 s ends at some wall or furniture
            before = sim.base
            sim.step({"base_vel": np.array([0.3, 0.0], np.float32)})
        moved.append(float(np.hypot(*(sim.base - before)[:2])) / 0.01)
    assert all(share <= 1.01 for share in moved)
    assert sum(0.02 < share < 0.98 for share in moved) >= 1, moved


@needs_habitat
def test_arm_moves_as_far_as_commanded(sim: Simulator) -> None:
    sim.reset(make_episode("tidy_house", "val", 0))
    action = np.array([0.5, 1.0, 0.0, -1.0, 0.0, 0.0, 0.3], np.float32)
    for _ in range(20):
        sim.step({"arm_action": action})
    for _ in range(10):
        sim.step({})
    assert sim.arm - robot.REST_Q == pytest.approx(20 * 0.0125 * action, abs=0.01)


@needs_habitat
def test_suction_takes_what_it_touches_and_keeps_it(sim: Simulator) -> None:
    """Over a can, straight down: no hold while the cup is in the air, one as soon as it touches; then up with it."""
    episode = make_episode("tidy_house", "val", 0)
    sim.reset(episode)
    name = can_of(episode)
    sim.hold(name)
    for _ in range(15):
        sim.step(GRASP)
    assert sim.held == name
    apart = float(np.linalg.norm(sim.object_pos(name) - sim.ee_pos))
    assert apart < 0.1
    height = sim.object_pos(name)[2]
    sim.step({})
    assert sim.held == ""
    for _ in range(20):
        sim.step(GRASP)  # falling free of the cup, it is not caught again
    assert sim.object_pos(name)[2] < height - 0.2


@needs_habitat
def test_the_same_actions_lead_to_the_same_state(sim: Simulator) -> None:
    """Whatever was played before: films are replays, and workers play what comes."""
    episode = make_episode("tidy_house", "val", 1)
    rng = np.random.default_rng(0)
    actions = [{part: rng.uniform(-1, 1, size).astype(np.float32) for part, size in SIZES.items()} for _ in range(40)]
    states = []
    for resets in (1, 2, 1):
        for _ in range(resets):
            sim.reset(make_episode("tidy_house", "val", 2))
            sim.reset(episode)
        for action in actions:
            sim.step(action)
        states.append(sim.state())
    assert np.array_equal(states[0], states[1])
    assert np.array_equal(states[0], states[2])


@needs_habitat
def test_what_is_held_keeps_its_place_while_the_base_drives(sim: Simulator) -> None:
    episode = make_episode("tidy_house", "val", 0)
    sim.reset(episode)
    name = can_of(episode)
    sim.hold(name)

    def in_cup() -> np.ndarray[Any, Any]:
        return sim.ee_mat.T @ (sim.object_pos(name) - sim.ee_pos)

    held_at = in_cup()
    for velocity in ((0.0, 0.0), (0.02, 0.0), (0.0, 0.5), (-0.3, 0.2)):
        for _ in range(5):
            sim.step({**GRASP, "base_vel": np.array(velocity, np.float32)})
            assert in_cup() == pytest.approx(held_at, abs=0.01), velocity


@needs_habitat
def test_handle_is_held_where_it_is(sim: Simulator) -> None:
    """And swivels there: drawn out by the base alone, a drawer comes along, and nothing presses."""
    task = OpenCabinet("train", sim="habitat", index=0)
    task.reset(seed=0)
    oracle = make_oracle("open_cabinet", True)
    oracle.reset(task.sim, task.goal)
    name = task.goal.articulation
    while task.sim.held != name:
        task.step(oracle.act(task.sim))
    gap = float(np.linalg.norm(task.sim.handle_pos(name) - task.sim.ee_pos))
    back: Any = {**GRASP, "base_vel": np.array([-0.2, 0.0], np.float32)}
    for _ in range(30):
        task.sim.step(back)
        assert task.sim.held == name
        assert np.linalg.norm(task.sim.handle_pos(name) - task.sim.ee_pos) == pytest.approx(gap, abs=0.01)
    assert task.sim.joint_pos(name) > 0.1
    assert task.sim.force_n < 50.0
    task.close()


@needs_habitat
def test_what_is_let_go_of_above_the_counter_stays_on_it(sim: Simulator) -> None:
    """habitat-lab lets what was held pass through robots, and habitat-sim takes every URDF for one."""
    for index in range(30):  # until a place has the counter in front
        task = Place("train", sim="habitat", index=index)
        task.reset(seed=0)
        goal = task.goal
        if any(
            r.kind == "counter" and np.linalg.norm(np.subtract(r.center, goal.position)) < 0.7
            for r in task.sim.scene.receptacles
        ):
            break
        task.close()
    oracle = make_oracle("place", True)
    oracle.reset(task.sim, goal)
    while task.sim.held:
        task.sim.step(oracle.act(task.sim))
    for _ in range(30):
        task.sim.step({})
    assert task.sim.object_pos(goal.object)[2] == pytest.approx(goal.position[2], abs=0.03)
    task.close()


@contextlib.contextmanager
def bullet_world(folder: Path, scene: Scene) -> Iterator[Any]:
    """An exported apartment in habitat-sim itself, without habitat-lab."""
    import habitat_sim

    backend = habitat_sim.SimulatorConfiguration()
    backend.scene_dataset_config_file, backend.scene_id = str(folder / DATASET), scene_name(scene.seed)
    backend.create_renderer, backend.enable_physics = False, True
    backend.physics_config_file = str(folder / PHYSICS)
    agent = habitat_sim.agent.AgentConfiguration()
    agent.sensor_specifications = []
    with habitat_sim.Simulator(habitat_sim.Configuration(backend, [agent])) as world:
        yield world


@needs_habitat
def test_fruit_rolls_as_far_as_its_resistance_says(exported: Path) -> None:
    """A ball that rolls without slipping slows down by (5/7) g c / r; Bullet's default c is none."""
    scene = load_scene(make_episode("tidy_house", "val", 0).scene_seed)
    grid, name, speed = load_grid(scene.seed), "017_orange", 0.3
    radius, rolling_m = OBJECTS[name].half_height_m, ROLLING_M["sphere"]
    x, y = grid.xy(*map(int, np.unravel_index(int(grid.clearance.argmax()), grid.shape)))
    with bullet_world(exported, scene) as world:
        template = next(iter(world.get_object_template_manager().get_templates_by_handle_substring(name)))
        orange = world.get_rigid_object_manager().add_object_by_template_handle(template)
        orange.translation = np.array(to_habitat((x, y, radius + 0.001)), np.float32)
        world.step_physics(1.0)
        start = np.array(orange.translation)
        orange.linear_velocity, orange.angular_velocity = (speed, 0.0, 0.0), (0.0, 0.0, -speed / radius)
        world.step_physics(3.0)
        rolled = float(np.linalg.norm(np.array(orange.translation) - start))
    assert rolled == pytest.approx(speed**2 / (2.0 * 5.0 / 7.0 * 9.8 * rolling_m / radius), rel=0.25)


@needs_habitat
@pytest.mark.parametrize(("kind", "speed"), [("fridge", 1.0), ("cabinet", 0.5)])
def test_doors_and_drawers_coast_as_far_as_their_brake_says(exported: Path, kind: str, speed: float) -> None:
    """v^2 I / 2 T of dry friction T, which is MuJoCo's with its viscous damping at 0.3 m/s or rad/s."""
    scene = load_scene(make_episode("tidy_house", "val", 0).scene_seed)
    part = next(a for a in scene.articulations if a.kind == kind)
    with bullet_world(exported, scene) as world:
        manager = world.get_articulated_object_manager()
        piece = manager.get_object_by_handle(handle(articulated_name(kind, scene.seed)))
        file = exported / "urdf" / articulated_name(kind, scene.seed) / f"{articulated_name(kind, scene.seed)}.urdf"
        link = next(e for e in ElementTree.parse(file).iter("link") if e.get("name") == link_name(part))
        inertia, mass = link.find("inertial/inertia"), link.find("inertial/mass")
        assert inertia is not None and mass is not None
        heavy = float(inertia.attrib["iyy"]) if kind == "fridge" else float(mass.attrib["value"])
        brake = DOOR_FRICTION + 0.3 * DOOR_DAMPING if kind == "fridge" else DRAWER_FRICTION + 0.3 * DRAWER_DAMPING
        joint, positions = joint_index(part), [0.0] * len(piece.joint_positions)
        positions[joint] = start = 0.02
        piece.joint_positions = positions
        piece.joint_velocities = [speed if i == joint else 0.0 for i in range(len(positions))]
        world.step_physics(3.0)
        coasted = piece.joint_positions[joint] - start
    assert coasted == pytest.approx(speed**2 * heavy / (2.0 * brake), rel=0.15)


@needs_habitat
def test_action_that_is_not_finite_is_refused(sim: Simulator) -> None:
    sim.reset(make_episode("tidy_house", "val", 0))
    with pytest.raises(SimulationError, match="not finite"):
        sim.step({"arm_action": np.full(7, np.nan, np.float32)})


@needs_habitat
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["eval", "navigate", "--skills", "oracle", "--episodes", "2"], "2/2"),
        (["eval", "pick", "--skills", "zoo", "--episodes", "2"], "pick"),
        (["eval", "pick", "--skills", "oracle", "--episodes", "2", "--no-skill-nav"], "pick"),
    ],
)
def test_evaluation(cache: Path, arguments: list[str], said: str) -> None:
    from tpsrl.commands import cli

    result = CliRunner().invoke(cli, [*arguments, "--sim", "habitat"])
    assert result.exit_code == 0, result.output
    assert said in result.output


@needs_habitat
def test_training(cache: Path, tmp_path: Path) -> None:
    from tpsrl.commands import cli

    small = ["train.num_envs=2", "train.rollout_length=64", "train.mini_batches=2"]
    out = ["--out", str(tmp_path / "run"), "--steps", "256"]
    result = CliRunner().invoke(cli, ["train-skill", "pick", "--sim", "habitat", *out, *small])
    assert result.exit_code == 0, result.output
    assert (tmp_path / "run" / "policy.safetensors").is_file()


@needs_habitat
def test_film(cache: Path, tmp_path: Path) -> None:
    """In a process of its own: habitat-sim's OpenGL does not get on with another in the same one."""
    film = tmp_path / "film.mp4"
    command = ["render", "navigate", "--skills", "oracle", "--sim", "habitat", "--out", str(film)]
    done = subprocess.run([sys.executable, "-m", "tpsrl", *command], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert f"{film}: success" in done.stdout
    assert film.stat().st_size > 10_000


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder: Path = tmp_path_factory.mktemp("exported")
    export(folder, "val", scenes=1, episodes=2)
    return folder


@needs_habitat
@pytest.mark.parametrize("name", lab.CONFIGS)
def test_habitat_labs_own_task(exported: Path, name: str) -> None:
    """Every HAB task of habitat-lab's: composed, reset and stepped, with our names and spaces."""
    from hab.habitat.task import HabitatTask

    env = HabitatTask(name, exported, index=1)
    seen, info = env.reset(seed=0)
    assert env.habitat.current_episode.episode_id == "1"
    assert env.observation_space.contains(seen)
    assert info["success"] is False
    done = False
    for _ in range(5):
        action: dict[str, Any] = {part: np.zeros(size, np.float32) for part, size in SIZES.items()}
        action["grip_action"][:] = 1.0 if name == "place" else -1.0
        seen, reward, terminated, truncated, info = env.step(action)
        done = terminated or truncated
        assert env.observation_space.contains(seen) and math.isfinite(reward)
        assert not done, info
    if "ee_pos" in seen:  # of an arm at rest, in our base frame
        assert seen["ee_pos"] == pytest.approx((0.642, -0.24, 0.913), abs=0.03)
    if name in SCENARIOS:
        sensors = ScenarioEnv(name, "val", index=20).reset(seed=0)[0]
        assert {k: v.shape for k, v in seen.items() if k != "head_depth"}.items() <= {
            k: v.shape for k, v in sensors.items()
        }.items()
    env.close()


@needs_habitat
def test_follower_drives_to_the_object(exported: Path) -> None:
    """habitat-lab's own Navigate, by habitat-sim's path finder, and the film of it; OpenGL again in its own process."""
    drive = f"""
from pathlib import Path
from hab.habitat.follower import PathFollower
from hab.habitat.task import HabitatTask

env = HabitatTask("navigate", Path({str(exported)!r}), films=True)
for seed in (1, 2):
    env.reset(seed=seed)
    follower = PathFollower(env.habitat.sim, tuple(map(float, env.habitat.task.nav_goal_pos)))
    first, done = env.render_rgb(160, 120), False
    while not done:
        *_, terminated, truncated, info = env.step(follower.action())
        done = terminated or truncated
    last = env.render_rgb(160, 120)
    assert last.shape == (120, 160, 3) and last.std() > 10.0 and (first != last).mean() > 0.5
    print(info["success"], info["num_steps"])
"""
    done = subprocess.run([sys.executable, "-c", drive], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert [line.split()[0] for line in done.stdout.splitlines()] == ["True", "True"], done.stdout


@needs_habitat
def test_habitat_labs_episodes_start_on_the_floor(exported: Path) -> None:
    """habitat-lab starts anywhere on the mesh, tops of beds too, where it takes all of it for outdoors."""
    from hab.habitat.task import HabitatTask

    env = HabitatTask("navigate", exported)
    env.reset(seed=0)
    sim = env.habitat.sim
    areas = [sim.pathfinder.island_area(i) for i in range(sim.pathfinder.num_islands)]
    assert areas[sim.largest_island_idx] == max(areas)
    env.close()


@needs_habitat
def test_navigation_meshes_are_habitat_labs(exported: Path) -> None:
    import habitat_sim

    from hab.habitat.task import HabitatTask

    env = HabitatTask("navigate", exported, index=0)
    env.reset(seed=0)
    computed, loaded = env.habitat.sim.pathfinder, habitat_sim.PathFinder()
    name = scene_name(load_scene(make_episode("tidy_house", "val", 0).scene_seed).seed)
    dataset = json.loads((exported / DATASET).read_text())
    assert json.loads((exported / "scenes" / f"{name}.scene_instance.json").read_text())["navmesh_instance"] == name
    assert loaded.load_nav_mesh(str(exported / dataset["navmesh_instances"][name]))
    assert loaded.navigable_area == pytest.approx(computed.navigable_area)
    assert np.array_equal(loaded.build_navmesh_vertices(), computed.build_navmesh_vertices())
    env.close()


@needs_habitat
def test_missing_episodes_are_named(tmp_path: Path) -> None:
    from hab.habitat.task import HabitatTask

    with pytest.raises(FileNotFoundError, match="tpsrl export habitat"):
        HabitatTask("pick", tmp_path)


@pytest.mark.skipif(find_spec("habitat") is None, reason=lab.INSTALL_LAB)
def test_habitat_lab_has_what_we_set() -> None:
    """habitat-lab's files, unimported (they import habitat-sim): each configuration, and each key we override."""
    package = find_spec("habitat")
    assert package is not None and package.origin is not None
    folder = Path(package.origin).parent / "config"
    for file in lab.CONFIGS.values():
        assert (folder / file).is_file()
    fields = set(re.findall(r"^    (\w+):", (folder / "default_structured_configs.py").read_text(), re.M))
    for key in lab.overrides(lab.Files.of_export(Path("x"), "pick"), "val"):
        leaf = key.rsplit(".", 1)[1]
        assert leaf in fields, key
    stop = folder / "habitat" / "task" / "rearrange" / "actions" / "fetch_suction_arm_base_stop.yaml"
    actions = stop.read_text()
    assert "arm_action" in actions and "base_velocity" in actions and "rearrange_stop" in actions


def test_official_data_is_told_of(tmp_path: Path) -> None:
    from tpsrl.commands import cli

    result = CliRunner().invoke(cli, ["data", "habitat", str(tmp_path)])
    assert result.exit_code == 0
    assert "habitat_sim.utils.datasets_download --uids replica_cad_dataset rearrange_dataset_v2" in result.output
    for dataset in DATASETS:
        (tmp_path / dataset.place).mkdir(parents=True)
    assert "nothing is missing" in CliRunner().invoke(cli, ["data", "habitat", str(tmp_path)]).output
