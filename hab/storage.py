"""Furniture that only some houses have, and what stands on the floor along their walls (conventions of
`hab.furniture`)."""

from __future__ import annotations

from hab.furniture import BLACK, EDGE_M, STEEL, WHITE, Frame, Piece, Style, front_strip, shade
from hab.scene import Rgba

SEEN_FURNITURE = ("sideboard", "side_table", "armchair", "wash_stand")
UNSEEN_FURNITURE = ("dresser", "trolley", "bench")
"""Kinds of receptacles in houses of test alone."""

_WICKER: Rgba = (0.66, 0.52, 0.34, 1.0)
_CARTON: Rgba = (0.72, 0.58, 0.42, 1.0)


def sideboard(frame: Frame, name: str, depth: float, width: float, height: float, style: Style) -> Piece:
    """A low cupboard on feet with three doors."""
    piece = Piece(name, frame)
    _body_on_feet(piece, depth, width, height, 0.14, style)
    for i in range(3):
        door = width / 3
        pos = (depth / 2, (i - 1) * door, 0.14 + (height - 0.16) / 2)
        piece.box(f"door_{i}", pos, (0.012, door - 0.015, height - 0.20), shade(style.wood, 1.08), "wood", False)
        knob = (depth / 2 + 0.012, pos[1] + 0.3 * door, pos[2] + 0.1)
        piece.box(f"knob_{i}", knob, (0.02, 0.02, 0.02), STEEL, "steel", False)
    _top(piece, "sideboard", depth, width, height)
    return piece


def dresser(frame: Frame, name: str, depth: float, width: float, height: float, style: Style) -> Piece:
    """A chest of four wide drawers that stay shut, painted as the kitchen's fronts."""
    piece = Piece(name, frame)
    piece.box("body", (0, 0, height / 2), (depth, width, height), shade(style.front, 0.92), "")
    step = (height - 0.08) / 4
    for i in range(4):
        z = 0.05 + (i + 0.5) * step
        piece.box(f"front_{i}", (depth / 2, 0, z), (0.014, width - 0.04, step - 0.02), style.front, "", False)
        piece.box(f"grip_{i}", (depth / 2 + 0.015, 0, z), (0.02, 0.3 * width, 0.015), STEEL, "steel", False)
    _top(piece, "dresser", depth, width, height)
    return piece


def side_table(frame: Frame, name: str, size: float, height: float, style: Style) -> Piece:
    """A small square table with one foot in its middle."""
    piece = Piece(name, frame)
    piece.box("top", (0, 0, height - 0.015), (size, size, 0.03), style.wood, "wood")
    piece.cylinder("post", (0, 0, (height - 0.03) / 2 + 0.01), 0.03, height - 0.05, BLACK)
    piece.cylinder("foot", (0, 0, 0.01), 0.4 * size, 0.02, BLACK)
    _top(piece, "side_table", size, size, height)
    return piece


def trolley(frame: Frame, name: str, depth: float, width: float, height: float, style: Style) -> Piece:
    """A kitchen trolley: a board on top, two below."""
    piece = Piece(name, frame)
    for i, z in enumerate((0.18, 0.50, height)):
        piece.box(f"board_{i}", (0, 0, z - 0.015), (depth, width, 0.03), style.wood if i == 2 else STEEL, "wood")
    for i, (sx, sy) in enumerate(((1, 1), (1, -1), (-1, 1), (-1, -1))):
        pos = (sx * (depth / 2 - 0.02), sy * (width / 2 - 0.02), (height - 0.03) / 2 + 0.03)
        piece.box(f"post_{i}", pos, (0.025, 0.025, height - 0.09), STEEL, "steel")
        piece.cylinder(f"wheel_{i}", (pos[0], pos[1], 0.03), 0.03, 0.06, BLACK, "", False)
    _top(piece, "trolley", depth, width, height)
    return piece


def bench(frame: Frame, name: str, depth: float, width: float, height: float, style: Style) -> Piece:
    """A bench without a back: a padded seat on two cheeks."""
    piece = Piece(name, frame)
    piece.box("seat", (0, 0, height - 0.04), (depth, width, 0.08), style.accent2, "fabric")
    for i, sy in enumerate((1, -1)):
        pos = (0, sy * (width / 2 - 0.08), (height - 0.08) / 2)
        piece.box(f"cheek_{i}", pos, (depth - 0.06, 0.05, height - 0.08), style.wood, "wood")
    _top(piece, "bench", depth, width, height)
    return piece


def armchair(frame: Frame, name: str, depth: float, width: float, height: float, style: Style) -> Piece:
    """An armchair whose seat is at `height`."""
    piece = Piece(name, frame)
    back, arm = 0.18, 0.13
    cloth, dark = shade(style.fabric, 1.1), shade(style.fabric, 0.9)
    piece.box("base", (0, 0, 0.06 + (height - 0.06) / 2), (depth, width - 2 * arm, height - 0.06), cloth, "fabric")
    piece.box("back", (-depth / 2 + back / 2, 0, 0.46), (back, width - 2 * arm, 0.80), dark, "fabric")
    for i, sy in enumerate((1, -1)):
        piece.box(f"arm_{i}", (0, sy * (width - arm) / 2, 0.32), (depth, arm, 0.52), dark, "fabric")
    half_y = width / 2 - arm - EDGE_M
    piece.surface("armchair", front_strip(depth), (-half_y, half_y), height)
    return piece


def wash_stand(frame: Frame, name: str, depth: float, width: float, height: float, style: Style) -> Piece:
    """A wash stand: a basin on its left half (local -y), room for things on its right, a mirror above."""
    piece = Piece(name, frame)
    piece.box("body", (-0.01, 0, 0.10 + (height - 0.14) / 2), (depth - 0.02, width, height - 0.14), style.front)
    piece.box("top", (0, 0, height - 0.02), (depth, width, 0.04), style.counter, "stone")
    piece.box("plinth", (-0.04, 0, 0.05), (depth - 0.08, width - 0.04, 0.10), BLACK)
    basin_y = -width / 4 - 0.02
    piece.cylinder("basin", (0.0, basin_y, height + 0.03), 0.17, 0.06, WHITE)
    piece.cylinder("bottom", (0.0, basin_y, height + 0.061), 0.15, 0.002, (0.82, 0.85, 0.87, 1), "", False)
    piece.cylinder("tap", (-depth / 2 + 0.05, basin_y, height + 0.09), 0.012, 0.18, STEEL, "steel", False)
    piece.box("mirror", (-depth / 2 + 0.015, 0, 1.50), (0.02, 0.8 * width, 0.7), (0.75, 0.83, 0.88, 1), "steel", False)
    piece.surface("wash_stand", front_strip(depth), (0.22 - width / 4 + EDGE_M - 0.06, width / 2 - EDGE_M), height)
    return piece


def tub(frame: Frame, name: str, depth: float, width: float) -> Piece:
    """A bath tub (static, no receptacle)."""
    piece = Piece(name, frame)
    piece.box("body", (0, 0, 0.28), (depth, width, 0.56), WHITE, "tiles")
    piece.box("inside", (0, 0, 0.56), (depth - 0.14, width - 0.14, 0.004), (0.72, 0.80, 0.84, 1), "", False)
    piece.cylinder("spout", (0, width / 2 - 0.06, 0.66), 0.015, 0.20, STEEL, "steel", False)
    return piece


def rack(frame: Frame, name: str, style: Style) -> Piece:
    """A shoe rack, 0.28 m deep, with two pairs of shoes."""
    piece = Piece(name, frame)
    piece.box("box", (0, 0, 0.10), (0.28, 0.62, 0.20), style.wood, "wood")
    for i, y in enumerate((-0.22, -0.11, 0.11, 0.22)):
        colour = style.accent if i < 2 else BLACK
        piece.box(f"shoe_{i}", (0.01, y, 0.235), (0.25, 0.08, 0.07), colour, "", False)
    return piece


def basket(frame: Frame, name: str, height: float, style: Style) -> Piece:
    """A laundry basket, 0.36 m across."""
    piece = Piece(name, frame)
    piece.cylinder("body", (0, 0, height / 2), 0.18, height, _WICKER, "fabric")
    piece.blob("linen", (0, 0, height), (0.15, 0.15, 0.05), style.accent2, "fabric")
    return piece


def cartons(frame: Frame, name: str, height: float) -> Piece:
    """Two cartons, one on the other."""
    piece = Piece(name, frame)
    low = 0.55 * height
    piece.box("low", (0, 0, low / 2), (0.34, 0.44, low), _CARTON)
    piece.box("high", (-0.01, 0.02, (low + height) / 2), (0.28, 0.34, height - low), shade(_CARTON, 1.1), yaw=0.15)
    piece.box("tape", (0, 0, low + 0.0005), (0.341, 0.05, 0.001), WHITE, "", False)
    return piece


def bin_(frame: Frame, name: str) -> Piece:
    """A waste bin, 0.30 m across."""
    piece = Piece(name, frame)
    piece.cylinder("body", (0, 0, 0.19), 0.15, 0.38, STEEL, "steel")
    piece.cylinder("lid", (0, 0, 0.39), 0.152, 0.03, BLACK, "", False)
    return piece


def _top(piece: Piece, kind: str, depth: float, width: float, height: float) -> None:
    half_y = width / 2 - EDGE_M
    piece.surface(kind, front_strip(depth), (-half_y, half_y), height)


def _body_on_feet(piece: Piece, depth: float, width: float, height: float, feet: float, style: Style) -> None:
    piece.box("body", (0, 0, (feet + height) / 2), (depth, width, height - feet), style.wood, "wood")
    for i, (sx, sy) in enumerate(((1, 1), (1, -1), (-1, 1), (-1, -1))):
        pos = (sx * (depth / 2 - 0.04), sy * (width / 2 - 0.06), feet / 2)
        piece.box(f"foot_{i}", pos, (0.04, 0.04, feet), shade(style.wood, 0.7), "wood")
