"""The embedded simulator is honest: contact, force, what stands in the way, and sensors that see what is there."""

from __future__ import annotations

import math

import mujoco
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from hab import robot
from hab.actions import ARM, BASE, CONTROL_HZ, GRIP, Action
from hab.arm import cup_pose, solve
from hab.episodes import Episode, approach_poses, load_scene, make_episode, scene_seed
from hab.measures import ee_in_base
from hab.mujoco import fetch
from hab.mujoco import simulator as simulator_module
from hab.mujoco.build import ROLLING_M
from hab.mujoco.render import RenderingUnavailable
from hab.mujoco.simulator import HOLD_FORCE_N, MujocoSimulator
from hab.navgrid import NavGrid
from hab.objects import OBJECTS, UNSEEN, object_kind, object_model
from hab.openings import handle_at
from hab.robot import BASE_MAX_M_S
from hab.scene import Furniture, Geom, Scene
from hab.simulator import SimulationError

SUCK: Action = {GRIP: np.ones(1, np.float32)}
FLAT_TOPPED = [
    kind
    for kind, model in OBJECTS.items()
    if model.geoms[0].shape in ("box", "cylinder") and sum(geom.collides for geom in model.geoms) == 1
]
SIM = MujocoSimulator()
"""One for all tests: compiled apartments are kept, and nothing may leak from one episode into the next."""


def laid_out(index: int, scenario: str = "tidy_house", split: str = "train") -> MujocoSimulator:
    SIM.reset(make_episode(scenario, split, index))
    return SIM


def house_with(kind: str) -> tuple[str, int, str]:
    """Return the first apartment that holds an object of a kind, as split and index, and the object."""
    split = "test" if kind in UNSEEN else "train"
    name = f"{kind}-1"
    index = next(i for i in range(40) if name in load_scene(scene_seed(split, i)).objects)
    return split, index, name


def random_actions(seed: int, steps: int, hold: int = 8) -> list[Action]:
    """Full-range actions that stay the same for some steps, so that the robot gets somewhere."""
    rng = np.random.default_rng(seed)
    actions: list[Action] = []
    while len(actions) < steps:
        action = {ARM: rng.uniform(-1, 1, 7), BASE: rng.uniform(-1, 1, 2), GRIP: rng.uniform(-1, 1, 1)}
        action[BASE] = np.sign(action[BASE]) * np.sqrt(np.abs(action[BASE]))
        actions += [{key: value.astype(np.float32) for key, value in action.items()}] * hold
    return actions[:steps]


def cup_above(sim: MujocoSimulator, name: str, gap_m: float) -> bool:
    """Put the robot before an object with the cup pointing straight down, its rim that far above the object's top."""
    episode = sim.episode
    target = episode.target(name)
    top = sim.object_pos(name) + (0.0, 0.0, object_model(name).grasp_height_m + gap_m)
    receptacle = sim.scene.receptacle(target.start_receptacle)
    for x, y, yaw in approach_poses(sim.nav, receptacle, top, np.arange(0.55, 0.85, 0.05)):
        dx, dy = top[0] - x, top[1] - y
        ahead, left = math.cos(yaw) * dx + math.sin(yaw) * dy, math.cos(yaw) * dy - math.sin(yaw) * dx
        q = solve(cup_pose(np.array([ahead, left, top[2]]), math.pi / 2))
        if q is None:
            continue
        sim.place_robot(np.array([x, y, yaw]), q)
        if gap_m < 0.0 or not sim.collides():
            return True
    return False


def cup_gap(sim: MujocoSimulator, name: str) -> float:
    """Distance (m) from the cup's rim to an object, by MuJoCo's own geometry."""
    shell = sim.model.geom(f"{name}/{object_model(name).geoms[0].name}").id
    return float(mujoco.mj_geomDistance(sim.model, sim.data, sim.model.geom(fetch.CUP).id, shell, 0.05, None))


# -- suction -----------------------------------------------------------------------------------------------------------


@settings(max_examples=8, deadline=None, derandomize=True)
@given(st.integers(0, 40))
def test_suction_needs_contact(index: int) -> None:
    sim = laid_out(index)
    names = [t.object for t in sim.episode.targets if object_kind(t.object) in FLAT_TOPPED]
    name = next((n for n in names if cup_above(sim, n, 0.001)), "")
    assume(name)
    for _ in range(40):
        sim.step(SUCK)
        assert 0.0 < cup_gap(sim, name) < 0.002
        assert sim.held == ""
    assert cup_above(sim, name, -0.0005)
    for _ in range(4):
        sim.step(SUCK)
    assert sim.held == name


def test_the_side_of_the_cup_holds_nothing() -> None:
    sim = laid_out(0)
    name = next(t.object for t in sim.episode.targets if object_kind(t.object) in FLAT_TOPPED)
    x, y, _ = sim.object_pos(name)
    # Against the cylinder's side, its lower edge a centimetre behind the rim (the resting cup points down).
    model = object_model(name)
    beside = sim.ee_pos + np.array([0.0, 0.0, model.half_extents[2] + 0.010])
    radius = model.half_extents[1]
    side = sim.ee_mat[:, 1]
    sim.data.qpos[sim._object_qpos[name] : sim._object_qpos[name] + 3] = (
        beside + (radius + robot.CUP_RADIUS_M - 0.0008) * side
    )
    yaw = math.atan2(side[1], side[0]) - math.pi / 2
    sim.data.qpos[sim._object_qpos[name] + 3 : sim._object_qpos[name] + 7] = (
        math.cos(yaw / 2),
        0.0,
        0.0,
        math.sin(yaw / 2),
    )
    mujoco.mj_forward(sim.model, sim.data)
    touched = [
        {sim.model.geom(int(g)).name for g in pair}
        for pair in sim.data.contact.geom
        if any(sim.model.geom(int(g)).name == fetch.CUP for g in pair)
    ]
    assert touched
    sim.step(SUCK)
    assert sim.held == ""
    assert (x, y) != tuple(sim.object_pos(name)[:2])


def test_what_is_no_handle_cannot_be_held() -> None:
    sim = laid_out(0)
    handles = {sim.scene.articulation(a.name).handle_geom for a in sim.scene.articulations}
    graspable = {sim.model.geom(g).name for g in sim._graspable}
    links = {g.name for a in sim.scene.articulations for g in a.geoms}
    assert handles <= graspable
    assert not graspable & (links - handles)
    assert all(name in handles or name.split("/")[0] in sim.scene.objects for name in graspable)


@pytest.mark.parametrize("part", [ARM, BASE])
def test_actions_that_are_not_finite_are_refused(part: str) -> None:
    sim = laid_out(0)
    with pytest.raises(SimulationError, match="not finite"):
        sim.step({part: np.full(7 if part == ARM else 2, np.nan, np.float32)})


def test_unstable_physics_is_an_error_and_no_teleport() -> None:
    sim = laid_out(0)
    sim.data.qvel[:3] = 1e12
    with pytest.raises(SimulationError, match="unstable"):
        sim.step({})
    sim = laid_out(0)
    sim.step({})
    assert np.hypot(*(sim.base - sim.episode.robot)[:2]) < 1e-3


def test_the_state_tells_how_a_thing_is_held() -> None:
    sim = laid_out(0)
    free = sim.state()
    name = sim.episode.targets[0].object
    sim.hold(name)
    held = sim.state()
    assert len(held) != len(free)
    sim.model.eq_data[sim._held_eq, 3] += 0.01
    assert not np.array_equal(sim.state(), held)


def test_no_suction_no_hold() -> None:
    sim = laid_out(0)
    assert any(cup_above(sim, t.object, -0.0005) for t in sim.episode.targets if object_kind(t.object) in FLAT_TOPPED)
    for _ in range(10):
        sim.step({})
        assert sim.held == ""


def held_in_the_air(kind: str) -> tuple[MujocoSimulator, str]:
    split, index, name = house_with(kind)
    sim = laid_out(index, split=split)
    sim.hold(name)
    for _ in range(30):
        sim.step(SUCK)
    assert sim.held == name
    return sim, name


@pytest.mark.parametrize("kind", list(OBJECTS))
def test_every_object_can_be_held_and_falls_when_released(kind: str) -> None:
    """Held still for long enough that MuJoCo would let it sleep: once released it used to hang in mid-air."""
    sim, name = held_in_the_air(kind)
    before = sim.object_pos(name)
    for _ in range(30):
        sim.step(SUCK)
    assert np.linalg.norm(sim.object_pos(name) - before) < 0.002
    sim.step({})
    assert sim.held == ""
    for _ in range(15):
        sim.step({})
    assert before[2] - sim.object_pos(name)[2] > 0.2


@pytest.mark.parametrize("direction", [(0.0, 0.0, -1.0), (1.0, 0.0, 0.0), (0.0, -1.0, 0.0)])
def test_the_seal_breaks_under_force(direction: tuple[float, float, float]) -> None:
    sim, name = held_in_the_air("005_tomato_soup_can")
    body = sim.model.body(name).id
    sim.data.xfrc_applied[body, :3] = 0.4 * HOLD_FORCE_N * np.array(direction)
    for _ in range(20):
        sim.step(SUCK)
        assert sim.held == name and not sim.dropped
    sim.data.xfrc_applied[body, :3] = 1.5 * HOLD_FORCE_N * np.array(direction)
    for _ in range(10):
        sim.step(SUCK)
        if sim.dropped:
            break
    assert sim.dropped and sim.held == ""
    sim.data.xfrc_applied[:] = 0.0


def test_a_cup_on_a_handle_gives_by_millimetres() -> None:
    """Between the cup and the point of the door that it took hold of, while something draws the door away."""
    sim = laid_out(0, "set_table")
    sim.hold("fridge")
    body, door = sim.model.body("fridge").id, sim.scene.articulation("fridge")

    def frame() -> tuple[np.ndarray, np.ndarray]:
        return sim.data.xpos[body].copy(), sim.data.xmat[body].reshape(3, 3).copy()

    origin, axes = frame()
    taken_at = axes.T @ (sim.ee_pos - origin)
    sim.data.xfrc_applied[body, :3] = 300.0 * np.array([math.cos(door.yaw), math.sin(door.yaw), 0.0])
    for _ in range(60):
        sim.step(SUCK)
    sim.data.xfrc_applied[:] = 0.0
    assert sim.held == "fridge"
    origin, axes = frame()
    given_m = float(np.linalg.norm(origin + axes @ taken_at - sim.ee_pos))
    force_n = float(np.linalg.norm(sim.data.efc_force[:3]))  # the held equality's rows come first
    assert force_n > 10.0
    assert 0.00005 < given_m / force_n < 0.0002


@pytest.mark.parametrize("seed", range(3))
def test_the_force_is_that_of_the_hardest_contact(seed: int) -> None:
    """As habitat-lab's, not the sum of them all: against MuJoCo's own reading of every contact."""
    sim, several = laid_out(seed), 0
    robot_root = sim.model.body_rootid[sim.model.body(fetch.BASE).id]
    for action in random_actions(seed, 300, hold=60):
        sim.step({**action, BASE: np.array((1.0, 0.0), np.float32)})
        normal = []
        for i, contact in enumerate(sim.data.contact):
            roots = [sim.model.body_rootid[sim.model.geom_bodyid[g]] for g in contact.geom]
            if (roots[0] == robot_root) != (roots[1] == robot_root):
                wrench = np.zeros(6)
                mujoco.mj_contactForce(sim.model, sim.data, i, wrench)
                normal.append(wrench[0])
        assert sim.force_n == pytest.approx(max(normal, default=0.0), abs=1e-6)
        several += sum(force > 1.0 for force in normal) > 1
    assert several > 0


def test_pressing_breaks_no_seal() -> None:
    sim, name = held_in_the_air("005_tomato_soup_can")
    assert sim.ee_mat[2, 0] < -0.95  # the cup points down
    sim.data.xfrc_applied[sim.model.body(name).id, 2] = 1.5 * HOLD_FORCE_N
    for _ in range(10):
        sim.step(SUCK)
        assert sim.held == name and not sim.dropped
    sim.data.xfrc_applied[:] = 0.0


@pytest.mark.parametrize("tilt_rad", [0.0, 0.6])
def test_an_object_put_into_the_hand_touches_the_cup_and_stays_there(tilt_rad: float) -> None:
    _, index, name = house_with("005_tomato_soup_can")
    sim = laid_out(index)
    sim.hold(name, tilt_rad)
    assert cup_gap(sim, name) == pytest.approx(0.0, abs=0.02)
    yaw = float(sim.base[2])
    axis = np.zeros(9)
    mujoco.mju_quat2Mat(axis, sim.object_quat(name))
    up = axis.reshape(3, 3)[:, 2]
    assert up[2] == pytest.approx(math.cos(tilt_rad))
    # Its foot swings towards the robot, its top away from it.
    assert up[:2] @ (math.cos(yaw), math.sin(yaw)) == pytest.approx(math.sin(tilt_rad))
    for _ in range(15):
        sim.step(SUCK)
    assert sim.held == name


# -- doors and drawers -------------------------------------------------------------------------------------------------


def links_touched(sim: MujocoSimulator) -> set[str]:
    names = {sim.model.body(a.name).id: a.name for a in sim.scene.articulations}
    bodies = sim.model.geom_bodyid[sim.data.contact.geom].reshape(-1)
    return {names[int(body)] for body in bodies if int(body) in names}


@settings(max_examples=4, deadline=None, derandomize=True)
@given(st.integers(0, 100), st.booleans())
def test_doors_and_drawers_move_only_when_touched(index: int, ajar: bool) -> None:
    sim = laid_out(index)
    before = dict.fromkeys((a.name for a in sim.scene.articulations), 0.0)
    if ajar:
        for a in sim.scene.articulations:
            before[a.name] = 0.5 * a.joint_range[1]
            sim.data.qpos[sim.model.joint(a.name).qposadr[0]] = before[a.name]
        mujoco.mj_forward(sim.model, sim.data)
    touched: set[str] = set()
    for action in random_actions(index, 150):
        sim.step(action)
        touched |= links_touched(sim)
        for name in before.keys() - touched:
            assert sim.joint_pos(name) == pytest.approx(before[name], abs=5e-4)
    assert len(touched) < len(before)


@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.integers(0, 100), st.floats(0.0, 1.0))
def test_handles_are_where_the_geometry_says(index: int, share: float) -> None:
    sim = laid_out(index)
    for a in sim.scene.articulations:
        sim.data.qpos[sim.model.joint(a.name).qposadr[0]] = share * a.joint_range[1]
    mujoco.mj_kinematics(sim.model, sim.data)
    for a in sim.scene.articulations:
        expected = sim.data.geom(a.handle_geom).xpos
        np.testing.assert_allclose(handle_at(a, share * a.joint_range[1]), expected, atol=1e-9)
        np.testing.assert_allclose(sim.handle_pos(a.name), expected, atol=1e-9)


# -- nothing goes through anything -------------------------------------------------------------------------------------


def deepest(sim: MujocoSimulator) -> float:
    """Deepest overlap (m, negative) of the robot with anything."""
    contact = sim.data.contact
    if sim.data.ncon == 0:
        return 0.0
    roots = sim.model.body_rootid[sim.model.geom_bodyid[contact.geom]]
    robots = (roots == sim.model.body(fetch.BASE).rootid[0]).any(axis=1)
    return float(contact.dist[robots].min(initial=0.0))


def gap_to_furniture(sim: MujocoSimulator) -> float:
    """Distance (m) from the base's centre to the nearest furniture at its height, by plane geometry alone."""
    x, y, _ = sim.base
    nearest = math.inf
    for geom in (g for piece in sim.scene.furniture for g in piece.geoms if g.collides and g.shape == "box"):
        if geom.pos[2] - geom.size[2] > 0.34 or geom.pos[2] + geom.size[2] < 0.05 or abs(geom.quat[1]) > 1e-6:
            continue
        turn = 2.0 * math.atan2(geom.quat[3], geom.quat[0])
        dx, dy = x - geom.pos[0], y - geom.pos[1]
        ahead, left = math.cos(turn) * dx + math.sin(turn) * dy, math.cos(turn) * dy - math.sin(turn) * dx
        nearest = min(nearest, math.hypot(max(0.0, abs(ahead) - geom.size[0]), max(0.0, abs(left) - geom.size[1])))
    return nearest


@pytest.mark.parametrize("seed", range(12))
def test_driven_full_speed_into_things_the_base_stops(seed: int) -> None:
    """Walls are 10 cm thick and a control step moves the base 3.3 cm: overlaps below 2 cm cannot become a passage."""
    sim = laid_out(seed)
    rng = np.random.default_rng(seed)
    x0, y0, x1, y1 = sim.scene.bounds
    for _ in range(3):
        drive = {BASE: np.array([rng.choice([1.0, -1.0]), rng.uniform(-0.3, 0.3)], np.float32)}
        for _ in range(75):
            before = sim.base
            sim.step(drive)
            x, y, _ = sim.base
            assert math.dist((x, y), before[:2]) < 1.3 * BASE_MAX_M_S / CONTROL_HZ
            assert deepest(sim) > -0.02
            assert gap_to_furniture(sim) > robot.BASE_RADIUS_M - 0.02
            assert x0 + 0.25 < x < x1 - 0.25 and y0 + 0.25 < y < y1 - 0.25


@pytest.mark.parametrize("index", [8, 24])
def test_the_base_feels_corners(index: int) -> None:
    """Between a cylinder and a box's corner MuJoCo 4.0 finds a wrong normal: a table leg sank 4 cm into the base."""
    sim = laid_out(index)
    legs = [g for piece in sim.scene.furniture for g in piece.geoms if "/leg" in g.name and g.shape == "box"]
    checked = 0
    for leg in legs:
        for angle in np.arange(0.1, 2.0 * math.pi, 0.5):
            away = np.array([math.cos(angle), math.sin(angle)])
            # Go inwards until the disc overlaps the leg's outline by 5 mm.
            for distance in np.arange(0.40, 0.25, -0.0005):
                sim_x, sim_y = np.array(leg.pos[:2]) + distance * away
                sim.data.qpos[sim._base_qpos] = (sim_x, sim_y, 0.3)
                if gap_to_furniture(sim) < robot.BASE_RADIUS_M - 0.005:
                    break
            mujoco.mj_forward(sim.model, sim.data)
            names = [{sim.model.geom(g).name for g in pair} for pair in sim.data.contact.geom]
            wanted = {leg.name, fetch.attached("base_link/collision")}
            depths = [-float(sim.data.contact.dist[i]) for i, pair in enumerate(names) if pair == wanted]
            others = sum(fetch.attached("base_link/collision") in pair for pair in names) - len(depths)
            if others == 0:
                checked += 1
                assert depths and max(depths) == pytest.approx(0.005, abs=0.002)
    assert checked > 10


def test_random_actions_explode_nothing() -> None:
    """A hand let loose on objects: no NaN, nothing faster than a fall from a shelf, nothing under the floor."""
    played = moved = 0
    for seed in range(12):
        sim = laid_out(seed, ("tidy_house", "prepare_groceries")[seed % 2])
        names = sim.scene.objects
        dofs = np.array([sim.model.joint(name).dofadr[0] for name in names])
        if not any(cup_above(sim, t.object, 0.02) for t in sim.episode.targets):
            continue
        played += 1
        before = sim.object_positions(names)
        for action in random_actions(seed, 240):
            action[ARM][1] = abs(action[ARM][1])  # the shoulder presses down
            sim.step({**action, BASE: 0.3 * action[BASE]})
            speeds = np.linalg.norm(sim.data.qvel[dofs[:, None] + np.arange(3)], axis=1)
            assert np.isfinite(sim.data.qpos).all() and speeds.max() < 6.0, names[int(speeds.argmax())]
            assert sim.object_positions(names)[:, 2].min() > 0.0
            # An object between hand and table is squeezed, but sinks into neither by as much as its radius.
            assert sim.data.contact.dist.min(initial=0.0) > -0.03
        moved += bool(np.abs(sim.object_positions(names) - before).max() > 0.01)
    assert played >= 8 and moved >= 4


# -- determinism -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scenario", ["tidy_house", "set_table"])
def test_replaying_actions_reproduces_the_state_exactly(scenario: str) -> None:
    actions = random_actions(5, 150)

    def play(sim: MujocoSimulator) -> list[np.ndarray]:
        sim.reset(make_episode(scenario, "train", 4))
        states = []
        for action in actions:
            sim.step(action)
            states.append(sim.state())
        return states

    first = play(SIM)
    laid_out(4).hold("024_bowl-1")  # another episode in the same apartment, then one elsewhere
    for action in random_actions(6, 40):
        SIM.step(action)
    laid_out(9)
    for states in (play(SIM), play(MujocoSimulator())):
        assert all(np.array_equal(a, b) for a, b in zip(first, states, strict=True))


# -- sensors -----------------------------------------------------------------------------------------------------------


def test_sensors_see_the_state_after_the_step() -> None:
    """Links used to lag one substep behind the joints: 8 mm at full speed."""
    sim = laid_out(2)
    now = mujoco.MjData(sim.model)
    for action in random_actions(2, 40):
        sim.step(action)
        now.qpos[:] = sim.data.qpos
        mujoco.mj_kinematics(sim.model, now)
        np.testing.assert_allclose(sim.ee_pos, now.site(fetch.EE).xpos, atol=1e-9)


def turned(index: int, yaw: float) -> tuple[MujocoSimulator, float, float]:
    """An apartment with the robot facing `yaw`; and its x and y."""
    sim = laid_out(index)
    x, y, _ = sim.base
    sim.place_robot(np.array([x, y, yaw]))
    return sim, x, y


def first_hit(sim: MujocoSimulator, origin: np.ndarray, ray: list[float], max_m: float) -> float:
    """One ray by itself, as a share of the longest; the resting arm is nowhere in its way."""
    seen = np.array([1, 0, 0, 0, int(max_m == robot.HEAD_SCAN_MAX_M), 0], dtype=np.uint8)  # the head sees decoration
    hit = mujoco.mj_ray(sim.model, sim.data, origin, np.array(ray), seen, 1, -1, np.zeros(1, np.int32))
    return min(hit / max_m, 1.0) if hit >= 0.0 else 1.0


@settings(max_examples=10, deadline=None, derandomize=True)
@given(st.integers(0, 100), st.floats(-math.pi, math.pi))
def test_laser_is_one_ray_after_the_other(index: int, yaw: float) -> None:
    sim, x, y = turned(index, yaw)
    scan = sim.laser()
    origin = np.array([x + 0.235 * math.cos(yaw), y + 0.235 * math.sin(yaw), 0.2878])
    for i, angle in enumerate(np.deg2rad(np.linspace(-110.0, 110.0, 64)) + yaw):
        expected = first_hit(sim, origin, [math.cos(angle), math.sin(angle), 0.0], 10.0)
        assert scan[i] == pytest.approx(expected, abs=1e-5)


@settings(max_examples=5, deadline=None, derandomize=True)
@given(st.integers(0, 100), st.floats(-math.pi, math.pi))
def test_head_scan_is_one_ray_after_the_other(index: int, yaw: float) -> None:
    sim, x, y = turned(index, yaw)
    scan = sim.head_scan().reshape(3, 16)
    origin = np.array([x + 0.25 * math.cos(yaw), y + 0.25 * math.sin(yaw), 1.2])
    for i, aside in enumerate(np.deg2rad([-20.0, 0.0, 20.0]) + yaw):
        for j, up in enumerate(np.deg2rad(np.linspace(-65.0, 15.0, 16))):
            ray = [math.cos(up) * math.cos(aside), math.cos(up) * math.sin(aside), math.sin(up)]
            assert scan[i, j] == pytest.approx(first_hit(sim, origin, ray, 3.0), abs=1e-5)


BOX = (-3.0, -2.0, 2.5, 9.5)
"""An empty room, one wall of which can be out of the laser's range."""


@pytest.fixture
def empty_room(monkeypatch: pytest.MonkeyPatch) -> MujocoSimulator:
    x0, y0, x1, y1 = BOX
    walls = [
        Geom("west", "box", (x0 - 0.05, (y0 + y1) / 2, 1.0), (0.05, (y1 - y0) / 2, 1.0), (1, 1, 1, 1)),
        Geom("east", "box", (x1 + 0.05, (y0 + y1) / 2, 1.0), (0.05, (y1 - y0) / 2, 1.0), (1, 1, 1, 1)),
        Geom("south", "box", ((x0 + x1) / 2, y0 - 0.05, 1.0), ((x1 - x0) / 2, 0.05, 1.0), (1, 1, 1, 1)),
        Geom("north", "box", ((x0 + x1) / 2, y1 + 0.05, 1.0), ((x1 - x0) / 2, 0.05, 1.0), (1, 1, 1, 1)),
    ]
    every_kind = tuple(f"{kind}-1" for kind in OBJECTS)
    scene = Scene(10**6, BOX, (Furniture("walls", tuple(walls)),), (), (), objects=every_kind)
    monkeypatch.setattr(simulator_module, "load_scene", lambda seed: scene)
    monkeypatch.setattr(simulator_module, "load_grid", lambda seed: NavGrid(scene))
    return MujocoSimulator()


@pytest.mark.parametrize("speed", [0.15, 0.3])
@pytest.mark.parametrize(
    "name", ["002_master_chef_can-1", "005_tomato_soup_can-1", "007_tuna_fish_can-1", "013_apple-1"]
)
def test_what_rolls_comes_to_rest(empty_room: MujocoSimulator, name: str, speed: float) -> None:
    """A can on its side rolls on by v² / 2a, where a = g c / (R (1 + k²/R²)) and c is its rolling resistance."""
    sim, radius = empty_room, object_model(name).geoms[0].size[0]
    sphere = object_model(name).geoms[0].shape == "sphere"
    sim.reset(Episode("tidy_house", "train", 0, 10**6, (-2.0, 0.0, 0.0), {name: ((0.0, 2.0, radius), 0.0)}, {}, ()))
    joint = sim.model.joint(name)
    at, dof = int(joint.qposadr[0]), int(joint.dofadr[0])
    sim.data.qpos[at : at + 7] = (0.0, 2.0, radius, math.sqrt(0.5), math.sqrt(0.5), 0.0, 0.0)  # its axis along y
    sim.data.qvel[dof : dof + 6] = (speed, 0.0, 0.0, 0.0, 0.0, 0.0)
    mujoco.mj_forward(sim.model, sim.data)
    turning = sim.data.xmat[sim.model.body(name).id].reshape(3, 3).T @ (0.0, speed / radius, 0.0)
    sim.data.qvel[dof + 3 : dof + 6] = turning
    for _ in range(90):
        sim.step({})
    rolled = float(sim.object_pos(name)[0])
    deceleration = 9.81 * ROLLING_M["sphere" if sphere else "cylinder"] / (radius * (1.4 if sphere else 1.5))
    assert rolled == pytest.approx(speed**2 / (2.0 * deceleration), rel=0.35, abs=0.005)
    for _ in range(30):
        sim.step({})
    assert sim.object_pos(name)[0] == pytest.approx(rolled, abs=0.001)


@pytest.mark.parametrize("pose", [(0.0, 0.0, 0.0), (1.0, -1.0, 2.0), (-2.0, 8.0, -1.7), (2.0, -1.2, 1.2)])
def test_laser_measures_an_empty_room(empty_room: MujocoSimulator, pose: tuple[float, float, float]) -> None:
    sim = empty_room
    sim.reset(Episode("tidy_house", "train", 0, 10**6, pose, {}, {}, ()))
    x, y, yaw = pose
    angles = yaw + np.deg2rad(np.linspace(-110.0, 110.0, 64))
    ox, oy = x + 0.235 * math.cos(yaw), y + 0.235 * math.sin(yaw)
    with np.errstate(divide="ignore"):
        to_x = np.where(np.cos(angles) > 0, BOX[2] - ox, BOX[0] - ox) / np.cos(angles)
        to_y = np.where(np.sin(angles) > 0, BOX[3] - oy, BOX[1] - oy) / np.sin(angles)
    expected = np.minimum(np.minimum(to_x, to_y), 10.0) / 10.0
    np.testing.assert_allclose(sim.laser(), expected, atol=1e-5)


@pytest.mark.parametrize("index", [0, 5, 11, 17])
def test_depth_is_what_rays_find(index: int) -> None:
    sim = laid_out(index)
    try:
        image = sim.depth()
    except RenderingUnavailable as error:
        pytest.skip(str(error))
    assert image.shape == (128, 128, 1) and image.dtype == np.float32
    camera = sim.data.camera(fetch.HEAD_CAMERA)
    # The optical frame: x right, y up, looking along -z, 90 degrees wide.
    rng = np.random.default_rng(index)
    seen = np.array([1, 1, 0, 0, 1, 0], dtype=np.uint8)
    errors = []
    for row, column in rng.integers(4, 124, (150, 2)):
        ray = camera.xmat.reshape(3, 3) @ np.array([(column + 0.5) / 64 - 1.0, 1.0 - (row + 0.5) / 64, -1.0])
        geom = np.zeros(1, np.int32)
        length = np.linalg.norm(ray)
        hit = mujoco.mj_ray(sim.model, sim.data, camera.xpos.copy(), ray / length, seen, 1, -1, geom)
        if geom[0] >= 0 and sim.model.geom_group[geom[0]] != 0:
            continue  # the robot's own arm, which the camera may be inside of, and pictures on the wall
        depth = min(hit / length, 10.0) if hit >= 0 else 10.0
        errors.append(abs(10.0 * float(image[row, column, 0]) - depth))
    assert len(errors) > 60
    # Silhouettes fall between pixels; all else is true to the triangles of round shapes.
    assert np.mean(np.array(errors) < 0.02) > 0.93 and np.median(errors) < 0.003


def test_the_resting_hand_is_where_habitat_has_it() -> None:
    sim = laid_out(0)
    # Where the resting joint angles put the rim: 0.29 m from the task's resting position, as in habitat.
    assert ee_in_base(sim) == pytest.approx([0.6422, -0.2409, 0.9132], abs=2e-3)
    assert math.dist(ee_in_base(sim), robot.REST_EE_BASE) == pytest.approx(0.293, abs=3e-3)
    assert sim.arm == pytest.approx(robot.REST_Q)
