"""A short film of the real simulator, where OpenGL works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import imageio.v2 as imageio
import numpy as np
import pytest

from hab.actions import Action
from hab.episodes import Episode
from hab.mujoco.gl import RenderingUnavailable, make_gl_context
from hab.simulator import Simulator
from planner.agent import Agent, chain_limits
from planner.chain import ChainResult
from videos import render
from videos.render import Style, render_scenario

SHORT = ("tidy_house", "val", 0, "laser", Agent(), chain_limits(100, {}), Style(height=240, fps=5, max_s=2))


@pytest.fixture(autouse=True)
def gl() -> None:
    try:
        make_gl_context(16, 16).free()
    except RenderingUnavailable as error:
        pytest.skip(str(error))


def test_a_film_fits_its_length(tmp_path: Path) -> None:
    out, seen = tmp_path / "new" / "film.mp4", []
    success, rows = render_scenario(*SHORT, out, lambda done, total: seen.append((done, total)))
    assert not success and rows[-1]["reason"] == "episode's step limit"
    assert seen[-1][0] == seen[-1][1] <= 10
    film = imageio.get_reader(out)
    assert film.count_frames() in (seen[-1][0], seen[-1][0] + 1) and film.get_data(0).shape == (304, 560, 3)
    assert list(out.parent.iterdir()) == [out]


def test_the_last_interaction_is_ticked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is measured after the last control step, so only the closing picture can show it."""
    drawn: list[tuple[str, list[bool]]] = []

    def play(sim: Simulator, episode: Episode, *others: Any) -> object:
        on_step = others[-2]
        sim.reset(episode)
        still: Action = {}
        for done in ([False] * 10, [True] * 9 + [False]):
            sim.step(still)
            on_step(0, still, done)
        return ChainResult([True] * 10, 2)

    def compose(rgb: object, depth: object, caption: str, ticks: list[tuple[str, bool]]) -> object:
        drawn.append((caption, [done for _, done in ticks]))
        return np.zeros((304, 560, 3), np.uint8)

    monkeypatch.setattr(render, "play_episode", play)
    monkeypatch.setattr(render, "compose", compose)
    success, _ = render_scenario(*SHORT, tmp_path / "film.mp4", lambda done, total: None)
    assert success and drawn[-1] == ("whole task done   step 2", [True] * 10)
    assert [sum(ticks) for _, ticks in drawn] == [0, 9, 10]


def test_an_interrupted_film_is_not_left_behind(tmp_path: Path) -> None:
    out = tmp_path / "film.mp4"
    out.write_text("the film before")

    def interrupt(done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        render_scenario(*SHORT, out, interrupt)
    assert list(tmp_path.iterdir()) == [out] and out.read_text() == "the film before"
