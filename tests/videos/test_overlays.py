"""What is drawn over the world, and the frame around it."""

from __future__ import annotations

import numpy as np

from videos.frame import STRIP_HEIGHT, compose
from videos.overlays import wireframe_box


def test_a_wireframe_box_has_twelve_edges_that_meet_in_eight_corners() -> None:
    turned = np.array([[0.0, -1.0, 0.0], [1.0, 0.0, 0.0], [0.0, 0.0, 1.0]])
    edges = wireframe_box(np.array([1.0, 2.0, 3.0]), turned, (0.1, 0.2, 0.3), margin_m=0.0)
    assert len(edges) == 12
    ends = []
    for edge in edges:
        axis = int(np.argmax(edge.size))
        along = np.reshape(edge.mat, (3, 3))[:, axis] * edge.size[axis]
        ends += [tuple(np.round(np.asarray(edge.pos) + sign * along, 6)) for sign in (-1, 1)]
    corners = set(ends)
    assert len(corners) == 8 and all(ends.count(c) == 3 for c in corners)
    assert np.allclose(np.ptp(np.array(sorted(corners)), axis=0), (0.4, 0.2, 0.6))


def test_frames_have_sizes_that_video_codecs_take() -> None:
    rgb, depth = np.zeros((480, 640, 3), np.uint8), np.full((128, 128, 1), 0.25, np.float32)
    frame = compose(rgb, depth, "1/20 navigate", [("pick 1", True), ("place 1", False)])
    assert frame.shape == (480 + STRIP_HEIGHT, 640 + 480, 3)
    assert frame.shape[0] % 16 == frame.shape[1] % 16 == 0
    assert tuple(frame[300, 700]) == (180, 180, 180)  # 255 sqrt(2.5 m / 5 m)
