"""The planar simulator against the embedded one, and what a disc with a hand may not do."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hab import robot
from hab.actions import ARM, BASE, GRIP
from hab.backend import make_simulator
from hab.episodes import load_scene, make_episode
from hab.openings import grid_with_openings, widest
from hab.planar import BLOCKED_N, HAND_M, PlanarSimulator
from hab.simulator import SimulationError, Snapshot

EPISODES = [("tidy_house", 3), ("prepare_groceries", 60), ("set_table", 81)]


def laid_out(scenario: str = "tidy_house", index: int = 3) -> PlanarSimulator:
    sim = PlanarSimulator()
    sim.reset(make_episode(scenario, "train", index))
    return sim


def drive(forward: float, turn: float) -> dict[str, np.ndarray]:
    return {BASE: np.array((forward, turn), np.float32), GRIP: np.ones(1, np.float32)}


@pytest.mark.parametrize(("scenario", "index"), EPISODES)
def test_the_house_looks_as_it_does_in_the_embedded_simulator(scenario: str, index: int) -> None:
    """The laser sees no objects at its height; the head scan does, on what they lie on, and the hand's fringe."""
    planar, embedded = laid_out(scenario, index), make_simulator()
    episode = make_episode(scenario, "train", index)
    scene, rng = load_scene(episode.scene_seed), np.random.default_rng(0)
    embedded.reset(episode)
    joints = {a.name: 0.7 * widest(a) for a in scene.articulations}
    objects = [part for name in scene.objects for part in (embedded.object_pos(name), embedded.object_quat(name))]
    lasers, scans = [], []
    for opened in (episode.joints, joints):
        grid = grid_with_openings(scene, embedded.nav, opened)
        for _ in range(15):
            base = [*grid.sample(rng), float(rng.uniform(-math.pi, math.pi))]
            positions = [opened.get(a.name, 0.0) for a in scene.articulations]
            snapshot = Snapshot(np.concatenate((base, robot.REST_Q, *objects, positions)), "")
            for sim in (planar, embedded):
                sim.restore(snapshot)
            lasers.append(np.abs(planar.laser() - embedded.laser()))
            scans.append(np.abs(planar.head_scan() - embedded.head_scan()))
            assert planar.ee_pos == pytest.approx(embedded.ee_pos, abs=0.01)
            assert planar.ee_mat == pytest.approx(embedded.ee_mat, abs=0.01)
            for link in scene.articulations:
                assert planar.handle_pos(link.name) == pytest.approx(embedded.handle_pos(link.name), abs=1e-6)
    assert np.mean(np.concatenate(lasers) < 1e-5) > 0.99
    assert np.mean(np.concatenate(scans) < 1e-5) > 0.95


@pytest.mark.parametrize(("scenario", "index"), EPISODES)
def test_it_drives_over_free_floor_as_the_body_does(scenario: str, index: int) -> None:
    planar, embedded = laid_out(scenario, index), make_simulator()
    embedded.reset(planar.episode)
    rng, apart, longer = np.random.default_rng(index), [], []
    room = np.minimum(planar.nav.clearance, planar.nav.tall_clearance - 0.3) * planar.nav.largest_component
    place = planar.nav.xy(*divmod(int(np.argmax(room)), room.shape[1]))
    for _ in range(6):
        base = np.array((*place, rng.uniform(-math.pi, math.pi)))
        for sim in (planar, embedded):
            sim.place_robot(base, robot.REST_Q)
        for _ in range(4):
            action = drive(*rng.uniform(-1.0, 1.0, 2))
            for _ in range(6):
                planar.step(action)
                embedded.step(action)
        apart.append(np.abs(planar.base - embedded.base))
        assert planar.steps == embedded.steps == 24
        longer.append(planar.path_m - embedded.path_m)
    assert np.median(apart, axis=0) == pytest.approx(np.zeros(3), abs=0.03) and abs(np.mean(longer)) < 0.03


@given(st.integers(0, 10_000), st.lists(st.tuples(st.floats(-2.0, 2.0), st.floats(-2.0, 2.0)), min_size=1, max_size=12))
@settings(deadline=None, max_examples=40)
def test_neither_base_nor_hand_goes_into_anything(seed: int, speeds: list[tuple[float, float]]) -> None:
    sim, rng = laid_out(), np.random.default_rng(seed)
    sim.place_robot(np.array((*sim.nav.sample(rng), rng.uniform(-math.pi, math.pi))), robot.REST_Q)

    def room() -> float:
        i, j = sim.nav.cell(*sim.ee_pos[:2])
        inside = 0 <= i < sim.nav.shape[0] and 0 <= j < sim.nav.shape[1]
        return float(sim.nav.tall_clearance[i, j]) if inside else 0.0

    for forward, turn in speeds:
        for _ in range(10):
            before, had = sim.base, room()
            sim.step(drive(forward, turn))
            assert sim.nav.is_free(*sim.base[:2])
            assert room() >= min(HAND_M, had)
            moved = math.dist(before[:2].tolist(), sim.base[:2].tolist())
            assert moved <= 1.0 / 30 + 1e-9 and abs(sim.base[2] - before[2]) <= 1.4 / 30
            assert sim.force_n in (0.0, BLOCKED_N)
            if moved < 1e-9 and abs(forward) > 0.5:  # 0.1 m/s a step: it never stands while it is free to drive
                assert sim.force_n == BLOCKED_N or abs(sim.state()[3]) < 0.5 / 30


def test_the_hand_keeps_what_it_holds_until_it_is_told_to_let_go() -> None:
    sim = laid_out()
    name = sim.episode.targets[0].object
    assert sim.object_pos(name).tolist() == list(sim.episode.objects[name][0])
    sim.hold(name)
    for _ in range(5):
        sim.step({**drive(0.3, 0.3), ARM: np.ones(7, np.float32)})
    assert sim.held == name and (sim.object_pos(name) == sim.ee_pos).all() and (sim.arm == robot.REST_Q).all()
    sim.step({GRIP: -np.ones(1, np.float32)})
    assert sim.held == "" and not sim.dropped


def test_what_it_cannot_do_is_said() -> None:
    sim = laid_out()
    with pytest.raises(SimulationError, match="not finite"):
        sim.step(drive(math.nan, 0.0))
    with pytest.raises(SimulationError, match="no images"):
        sim.depth()
    with pytest.raises(SimulationError, match="no images"):
        sim.render_rgb(64, 48)
