"""A short film of the real simulator, where OpenGL works."""

from __future__ import annotations

from pathlib import Path

import imageio.v2 as imageio
import pytest

from hab.mujoco.render import RenderingUnavailable, make_gl_context
from planner.agent import Agent, chain_limits
from videos.render import Style, render_scenario


def test_a_film_fits_its_length(tmp_path: Path) -> None:
    try:
        make_gl_context(16, 16).free()
    except RenderingUnavailable as error:
        pytest.skip(str(error))
    out, seen = tmp_path / "film.mp4", []
    rows = render_scenario(
        *("tidy_house", "val", 0, Agent(), chain_limits(100, {}), Style(height=240, fps=5, max_s=2), out),
        lambda done, total: seen.append((done, total)),
    )
    assert rows[-1]["reason"] == "episode's step limit"
    assert seen[-1] == (10, 10)
    film = imageio.get_reader(out)
    assert film.count_frames() in (10, 11) and film.get_data(0).shape == (304, 560, 3)
