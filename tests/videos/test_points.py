"""Where rays end, against MuJoCo's own ray caster."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest

from hab import robot
from hab.episodes import make_episode
from hab.mujoco.build import DECORATION_GROUP, SCENE_GROUP
from hab.mujoco.simulator import MujocoSimulator
from videos.points import head_scan_points, laser_points


@pytest.mark.parametrize(
    ("points_of", "origin", "groups"),
    [
        (laser_points, robot.LASER_POS, (SCENE_GROUP,)),
        (head_scan_points, robot.HEAD_CAMERA_POS, (SCENE_GROUP, DECORATION_GROUP)),
    ],
)
def test_points_are_what_a_ray_meets_first(points_of, origin, groups) -> None:  # type: ignore[no-untyped-def]
    sim = MujocoSimulator()
    sim.reset(make_episode("tidy_house", "train", 2))
    sim.step({"base_vel": np.array([0.0, 1.0], np.float32)})
    points = points_of(sim)
    assert len(points) > 10
    x, y, yaw = sim.base
    turned = np.array([[np.cos(yaw), -np.sin(yaw), 0.0], [np.sin(yaw), np.cos(yaw), 0.0], [0.0, 0.0, 1.0]])
    eye = np.array([x, y, 0.0]) + turned @ origin
    seen = np.isin(np.arange(6), groups).astype(np.uint8)
    for point in points:
        away = float(np.linalg.norm(point - eye))
        met = mujoco.mj_ray(sim.model, sim.data, eye, (point - eye) / away, seen, True, -1, np.zeros(1, np.int32))
        assert met == pytest.approx(away, abs=2e-3)
