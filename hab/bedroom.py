"""Furniture of bedroom and study, and the clutter that stands about (same conventions as `hab.furniture`)."""

from __future__ import annotations

from hab.furniture import BLACK, EDGE_M, STEEL, WHITE, Frame, Piece, Style, front_strip, shade


def bed(frame: Frame, name: str, depth: float, width: float, height: float, style: Style) -> Piece:
    """A bed with its head at local -x; objects lie within reach of its foot."""
    piece = Piece(name, frame)
    piece.box("frame", (0, 0, 0.15), (depth, width, 0.26), style.wood, "wood")
    piece.box("headboard", (-depth / 2 + 0.03, 0, 0.5), (0.06, width, 1.0), shade(style.wood, 0.85), "wood")
    spread = 0.68 * depth
    sheet = depth - 0.08 - spread
    half_height, z = (height - 0.28), 0.28 + (height - 0.28) / 2
    piece.box(
        "bedspread", (depth / 2 - 0.01 - spread / 2, 0, z), (spread, width - 0.03, half_height), style.accent, "fabric"
    )
    piece.box(
        "sheet", (depth / 2 - 0.01 - spread - sheet / 2, 0, z), (sheet, width - 0.05, half_height), WHITE, "fabric"
    )
    for i, sy in enumerate((1, -1)):
        piece.blob(f"pillow_{i}", (-depth / 2 + 0.32, sy * width / 4, height + 0.03), (0.2, 0.21 * width, 0.09), WHITE)
    half_y = width / 2 - EDGE_M - 0.02
    piece.surface("bed", front_strip(depth), (-half_y, half_y), height)
    return piece


def nightstand(frame: Frame, name: str, depth: float, width: float, height: float, style: Style) -> Piece:
    """A small cupboard beside the bed."""
    piece = Piece(name, frame)
    piece.box("body", (0, 0, height / 2), (depth, width, height), style.wood, "wood")
    for i, z in enumerate((0.3, 0.72)):
        piece.box(
            f"front_{i}", (depth / 2, 0, z * height), (0.012, width - 0.04, 0.36 * height), style.front, "", False
        )
        piece.box(f"knob_{i}", (depth / 2 + 0.015, 0, z * height), (0.02, 0.08, 0.015), STEEL, "steel", False)
    half_y = width / 2 - EDGE_M
    piece.surface("nightstand", front_strip(depth), (-half_y, half_y), height)
    return piece


def wardrobe(frame: Frame, name: str, depth: float, width: float, height: float, style: Style) -> Piece:
    """A closed wardrobe (static)."""
    piece = Piece(name, frame)
    piece.box("body", (0, 0, height / 2), (depth, width, height), style.wood, "wood")
    for i, sy in enumerate((1, -1)):
        pos = (depth / 2, sy * width / 4, height / 2 + 0.03)
        piece.box(f"door_{i}", pos, (0.012, width / 2 - 0.015, height - 0.10), style.front, "", False)
        piece.box(f"grip_{i}", (depth / 2 + 0.02, sy * 0.05, 1.0), (0.025, 0.015, 0.25), STEEL, "steel", False)
    return piece


def desk(frame: Frame, name: str, depth: float, width: float, height: float, style: Style) -> Piece:
    """A desk: a stool under its left half, a free surface on its right half (local +y), a monitor at the back."""
    piece = Piece(name, frame)
    piece.box("top", (0, 0, height - 0.015), (depth, width, 0.03), style.wood, "wood")
    for i, sy in enumerate((1, -1)):
        pos = (0, sy * (width / 2 - 0.02), (height - 0.03) / 2)
        piece.box(f"side_{i}", pos, (depth - 0.06, 0.04, height - 0.03), shade(style.wood, 0.85), "wood")
    stool_y = -width / 4
    piece.cylinder("stool_seat", (depth / 2 - 0.12, stool_y, 0.44), 0.18, 0.06, style.accent2, "fabric")
    piece.cylinder("stool_foot", (depth / 2 - 0.12, stool_y, 0.015), 0.17, 0.03, BLACK)
    piece.cylinder("stool_post", (depth / 2 - 0.12, stool_y, 0.22), 0.025, 0.40, STEEL, "steel", False)
    piece.box("monitor", (-depth / 2 + 0.14, stool_y, height + 0.28), (0.03, 0.54, 0.32), BLACK)
    piece.box(
        "screen", (-depth / 2 + 0.156, stool_y, height + 0.28), (0.002, 0.51, 0.29), (0.16, 0.28, 0.42, 1), "", False
    )
    piece.box("stand", (-depth / 2 + 0.12, stool_y, height + 0.06), (0.02, 0.08, 0.12), BLACK, "", False)
    piece.box("foot", (-depth / 2 + 0.14, stool_y, height + 0.005), (0.16, 0.22, 0.01), BLACK, "", False)
    piece.box(
        "keyboard", (depth / 2 - 0.25, stool_y, height + 0.008), (0.14, 0.40, 0.016), (0.2, 0.2, 0.22, 1), "", False
    )
    piece.surface("desk", front_strip(depth), (0.02, width / 2 - EDGE_M), height)
    return piece


def plant(frame: Frame, name: str, height: float, style: Style) -> Piece:
    """A potted plant, 0.32 m across at its pot."""
    piece = Piece(name, frame)
    piece.cylinder("pot", (0, 0, 0.16), 0.16, 0.32, style.accent2)
    piece.cylinder("stem", (0, 0, height / 2), 0.02, height - 0.2, (0.36, 0.26, 0.16, 1), "wood")
    leaf = (0.22, 0.42, 0.20, 1.0)
    piece.blob("crown", (0, 0, height - 0.05), (0.21, 0.21, 0.28), leaf, "leaves")
    piece.blob("crown_left", (0.07, 0.11, height - 0.26), (0.17, 0.15, 0.18), shade(leaf, 0.85), "leaves")
    piece.blob("crown_right", (-0.05, -0.12, height - 0.33), (0.15, 0.16, 0.17), shade(leaf, 1.1), "leaves")
    return piece


def floor_lamp(frame: Frame, name: str) -> Piece:
    """A standing lamp with a 0.30 m foot."""
    piece = Piece(name, frame)
    piece.cylinder("foot", (0, 0, 0.015), 0.15, 0.03, BLACK)
    piece.cylinder("pole", (0, 0, 0.78), 0.015, 1.5, BLACK)
    piece.cylinder("shade", (0, 0, 1.6), 0.19, 0.26, (0.98, 0.93, 0.80, 1), "glow", False)
    return piece


def rug(frame: Frame, name: str, depth: float, width: float, style: Style) -> Piece:
    """A rug with a border; flat decoration."""
    piece = Piece(name, frame)
    piece.box("border", (0, 0, 0.002), (depth, width, 0.004), shade(style.accent, 0.75), "rug", False)
    piece.box("field", (0, 0, 0.003), (depth - 0.24, width - 0.24, 0.005), style.accent, "rug", False)
    return piece


def window(frame: Frame, name: str, width: float) -> Piece:
    """A window on a wall: the frame's origin lies on the wall's face, local +x points into the room."""
    piece = Piece(name, frame)
    piece.box("frame", (0.012, 0, 1.50), (0.024, width, 1.10), WHITE, "", False)
    for i, sy in enumerate((1, -1)):
        pane = (0.016, sy * (width / 4 - 0.012), 1.50)
        piece.box(f"pane_{i}", pane, (0.024, width / 2 - 0.075, 0.98), (0.66, 0.82, 0.94, 1), "glow", False)
    return piece


def picture(frame: Frame, name: str, width: float, height: float, style: Style) -> Piece:
    """A framed picture; the frame's origin lies on the wall's face, local +x points into the room."""
    piece = Piece(name, frame)
    piece.box("frame", (0.012, 0, 1.55), (0.024, width, height), shade(style.wood, 0.6), "wood", False)
    piece.box("mat", (0.014, 0, 1.55), (0.024, width - 0.05, height - 0.05), WHITE, "", False)
    piece.box("field", (0.016, 0, 1.52), (0.024, width - 0.16, 0.45 * height), style.accent, "", False)
    piece.blob("sun", (0.026, 0.1 * width, 1.55 + 0.14 * height), (0.004, 0.12 * width, 0.12 * width), style.accent2)
    return piece
