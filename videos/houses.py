"""A contact sheet of apartments, each seen from above as an episode begins in it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from hab.episodes import Episode, make_episode
from hab.mujoco.simulator import MujocoSimulator
from hab.objects import object_kind
from hab.openings import against_wall
from hab.scene import Scene
from videos.render import prepare_rendering

FORMATS = (".png", ".jpg")
SIZE = (640, 480)
"""Pixels of one house."""
STRIP = 40
_PAPER, _INK = (24, 26, 30), (236, 238, 240)


def draw_houses(scenario: str, split: str, count: int, columns: int, out: Path) -> None:
    """Draw the first so many apartments of a split as a scenario's episodes begin there.

    The file's ending says in which format. Raises `RenderingUnavailable` where no OpenGL works.
    """
    prepare_rendering()
    sim = MujocoSimulator()
    tiles = []
    for index in range(count):
        episode = make_episode(scenario, split, index)
        sim.reset(episode)
        tiles.append(_tile(Image.fromarray(sim.render_overview(*SIZE)), _caption(sim.scene, episode)))
    sim.close()
    out.parent.mkdir(parents=True, exist_ok=True)
    _sheet(tiles, columns).save(out)


def _caption(scene: Scene, episode: Episode) -> tuple[str, str]:
    """Say in two lines what kind of house it is."""
    x0, y0, x1, y1 = scene.bounds
    fridge = scene.fridge
    corner = ", fridge in a corner" if against_wall(fridge) else ""
    kinds = len({object_kind(name) for name in episode.objects})
    surfaces = len({receptacle.kind for receptacle in scene.receptacles})
    return (
        f"{episode.split} {episode.index}: apartment {scene.seed}, {x1 - x0:.1f} m x {y1 - y0:.1f} m{corner}",
        f"{len(episode.objects)} objects of {kinds} kinds, {surfaces} kinds of furniture for them",
    )


def _tile(picture: Image.Image, caption: tuple[str, str]) -> Image.Image:
    tile = Image.new("RGB", (SIZE[0], SIZE[1] + STRIP), _PAPER)
    tile.paste(picture, (0, 0))
    draw, font = ImageDraw.Draw(tile), ImageFont.load_default(15)
    for row, line in enumerate(caption):
        draw.text((8, SIZE[1] + 3 + 17 * row), line, _INK, font)
    return tile


def _sheet(tiles: Sequence[Image.Image], columns: int) -> Image.Image:
    wide, high = SIZE[0], SIZE[1] + STRIP
    rows = -(-len(tiles) // columns)
    sheet = Image.new("RGB", (wide * min(columns, len(tiles)), high * rows), _PAPER)
    for i, tile in enumerate(tiles):
        sheet.paste(tile, (wide * (i % columns), high * (i // columns)))
    return sheet
