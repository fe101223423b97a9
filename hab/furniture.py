"""Furniture as functions: each returns one piece at a pose, with the surfaces on which objects may rest.

A piece's local frame has its origin on the floor under the centre of its footprint and +x out of its front, so that
"depth" is measured along x and "width" along y. All sizes are metres, full (not half) unless named otherwise.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from hab.scene import Articulation, Furniture, Geom, Receptacle, Rgba, Vec3

EDGE_M = 0.09
"""Objects rest at least this far inside of a surface's edge."""
REACH_M = 0.38
"""… and at most this far from an edge at which the robot can stand."""
BOARD_REACH_M = 0.15
"""The same under a board: deeper in, only a flat hand fits, and the arm takes ten seconds to fold itself flat."""
OPEN_AIR_M = 1.0
"""`clearance_m` of a surface with nothing above."""

WHITE: Rgba = (0.93, 0.92, 0.90, 1.0)
BLACK: Rgba = (0.07, 0.07, 0.08, 1.0)
STEEL: Rgba = (0.72, 0.74, 0.76, 1.0)


@dataclass(frozen=True)
class Style:
    """Colours of one apartment."""

    wood: Rgba
    front: Rgba
    """Kitchen and wardrobe fronts."""
    counter: Rgba
    fabric: Rgba
    accent: Rgba
    """Cushions, rugs, bedspread."""
    accent2: Rgba
    wall: Rgba


@dataclass(frozen=True)
class Frame:
    """A pose on the floor; with `flip`, local y is mirrored (a right-handed piece becomes a left-handed one)."""

    x: float
    y: float
    yaw: float
    flip: bool = False

    def point(self, lx: float, ly: float) -> tuple[float, float]:
        """World position of a local point."""
        ly = -ly if self.flip else ly
        c, s = math.cos(self.yaw), math.sin(self.yaw)
        return self.x + c * lx - s * ly, self.y + s * lx + c * ly


@dataclass
class Piece:
    """A piece under construction; `add…` take local coordinates."""

    name: str
    frame: Frame
    geoms: list[Geom] = field(default_factory=list)
    receptacles: list[Receptacle] = field(default_factory=list)
    articulations: list[Articulation] = field(default_factory=list)

    @property
    def furniture(self) -> Furniture:
        return Furniture(self.name, tuple(self.geoms))

    def box(
        self, name: str, pos: Vec3, size: Vec3, rgba: Rgba, material: str = "", collides: bool = True, yaw: float = 0.0
    ) -> None:
        """Add a box of full sizes `size` centred at `pos`."""
        self._add(name, "box", pos, (size[0] / 2, size[1] / 2, size[2] / 2), rgba, material, collides, yaw)

    def cylinder(
        self, name: str, pos: Vec3, radius: float, height: float, rgba: Rgba, material: str = "", collides: bool = True
    ) -> None:
        """Add an upright cylinder centred at `pos`."""
        self._add(name, "cylinder", pos, (radius, height / 2, 0.0), rgba, material, collides)

    def blob(self, name: str, pos: Vec3, half: Vec3, rgba: Rgba, material: str = "") -> None:
        """Add a decorative ellipsoid of half axes `half`."""
        self._add(name, "ellipsoid", pos, half, rgba, material, False)

    def surface(
        self,
        kind: str,
        x: tuple[float, float],
        y: tuple[float, float],
        z: float,
        clearance: float = OPEN_AIR_M,
        fronts: tuple[float, ...] = (0.0,),
        name: str = "",
        articulation: str = "",
    ) -> None:
        """Register the usable rectangle x[0]..x[1], y[0]..y[1] at height z, named as the piece unless told."""
        cx, cy = self.frame.point((x[0] + x[1]) / 2, (y[0] + y[1]) / 2)
        half = ((x[1] - x[0]) / 2, (y[1] - y[0]) / 2)
        self.receptacles.append(
            Receptacle(name or self.name, kind, (cx, cy, z), self.frame.yaw, half, clearance, fronts, articulation)
        )

    def _add(
        self, name: str, shape: str, pos: Vec3, size: Vec3, rgba: Rgba, material: str, collides: bool, yaw: float = 0.0
    ) -> None:
        x, y = self.frame.point(pos[0], pos[1])
        turn = (self.frame.yaw + (-yaw if self.frame.flip else yaw)) / 2
        quat = (math.cos(turn), 0.0, 0.0, math.sin(turn))
        self.geoms.append(Geom(f"{self.name}/{name}", shape, (x, y, pos[2]), size, rgba, quat, collides, material))


def front_strip(depth: float) -> tuple[float, float]:
    """Local x range of the part of a surface of that depth that is within reach from its front."""
    return max(depth / 2 - REACH_M, -depth / 2 + EDGE_M), depth / 2 - EDGE_M


def shade(rgba: Rgba, factor: float) -> Rgba:
    """A darker (factor < 1) or lighter colour."""
    r, g, b = (min(1.0, c * factor) for c in rgba[:3])
    return r, g, b, rgba[3]


def _legs(piece: Piece, depth: float, width: float, height: float, thick: float, rgba: Rgba, inset: float) -> None:
    """Four legs from the floor to `height`."""
    for i, (sx, sy) in enumerate(((1, 1), (1, -1), (-1, 1), (-1, -1))):
        pos = (sx * (depth / 2 - inset), sy * (width / 2 - inset), height / 2)
        piece.box(f"leg_{i}", pos, (thick, thick, height), rgba, "wood")


def table(frame: Frame, name: str, depth: float, width: float, height: float, style: Style) -> Piece:
    """A dining table, reached from both long sides (local +-x)."""
    piece = Piece(name, frame)
    piece.box("top", (0, 0, height - 0.02), (depth, width, 0.04), style.wood, "wood")
    _legs(piece, depth, width, height - 0.04, 0.06, shade(style.wood, 0.8), 0.06)
    half_x, half_y = depth / 2 - EDGE_M, width / 2 - EDGE_M
    piece.surface("table", (-half_x, half_x), (-half_y, half_y), height, fronts=(0.0, math.pi))
    return piece


def chair(frame: Frame, name: str, style: Style) -> Piece:
    """A chair of 0.44 m x 0.42 m, facing local +x."""
    piece = Piece(name, frame)
    wood = shade(style.wood, 0.85)
    piece.box("seat", (0, 0, 0.45), (0.44, 0.42, 0.04), style.accent2, "fabric")
    piece.box("back", (-0.205, 0, 0.75), (0.03, 0.40, 0.26), wood, "wood")
    for i, sy in enumerate((1, -1)):
        piece.box(f"front_leg_{i}", (0.19, sy * 0.18, 0.215), (0.035, 0.035, 0.43), wood, "wood")
        piece.box(f"back_leg_{i}", (-0.205, sy * 0.18, 0.44), (0.029, 0.035, 0.88), wood, "wood")
    return piece


def coffee_table(frame: Frame, name: str, depth: float, width: float, height: float, style: Style) -> Piece:
    """A low table, reached from both long sides (local +-x)."""
    piece = Piece(name, frame)
    piece.box("top", (0, 0, height - 0.02), (depth, width, 0.04), style.wood, "wood")
    _legs(piece, depth, width, height - 0.04, 0.045, BLACK, 0.05)
    piece.box("magazine_shelf", (0, 0, 0.15), (depth - 0.08, width - 0.08, 0.02), shade(style.wood, 0.8), "wood", False)
    half_x, half_y = depth / 2 - EDGE_M, width / 2 - EDGE_M
    piece.surface("coffee_table", (-half_x, half_x), (-half_y, half_y), height, fronts=(0.0, math.pi))
    return piece


def sofa(frame: Frame, name: str, depth: float, width: float, height: float, style: Style) -> Piece:
    """A sofa whose seat is at `height`, with cushions along its back."""
    piece = Piece(name, frame)
    back, arm, cushion = 0.20, 0.17, 0.13
    cloth, dark = style.fabric, shade(style.fabric, 0.88)
    piece.box("base", (0, 0, 0.06 + (height - 0.06) / 2), (depth, width - 2 * arm, height - 0.06), cloth, "fabric")
    piece.box("back", (-depth / 2 + back / 2, 0, 0.43), (back, width - 2 * arm, 0.74), dark, "fabric")
    for i, sy in enumerate((1, -1)):
        piece.box(f"arm_{i}", (0, sy * (width - arm) / 2, 0.33), (depth, arm, 0.54), dark, "fabric")
        seat = width / 2 - arm
        pos = (-depth / 2 + back + cushion / 2, sy * seat / 2, height + 0.21)
        piece.box(f"cushion_{i}", pos, (cushion, seat - 0.02, 0.42), cloth, "fabric")
        pillow = (-depth / 2 + back + cushion + 0.05, sy * (seat - 0.2), height + 0.2)
        piece.blob(f"pillow_{i}", pillow, (0.08, 0.19, 0.19), style.accent if i else style.accent2, "fabric")
    piece.box("seam", (depth / 2 - 0.02, 0, height - 0.14), (0.044, width - 2 * arm, 0.006), dark, "", False)
    half_y = width / 2 - arm - EDGE_M
    piece.surface("sofa", front_strip(depth), (-half_y, half_y), height)
    return piece


def tv_bench(frame: Frame, name: str, depth: float, width: float, height: float, style: Style) -> Piece:
    """A low cupboard against the wall, with a television above it."""
    piece = Piece(name, frame)
    piece.box("body", (0, 0, height / 2), (depth, width, height), style.wood, "wood")
    for i in range(3):
        door = width / 3
        pos = (depth / 2, (i - 1) * door, height / 2 + 0.02)
        piece.box(f"door_{i}", pos, (0.012, door - 0.015, height - 0.10), style.front, "", False)
    screen = (-depth / 2 + 0.04, 0, height + 0.62)
    piece.box("tv", screen, (0.05, 0.72 * width, 0.40 * width), BLACK)
    piece.box(
        "picture",
        (screen[0] + 0.026, 0, screen[2]),
        (0.002, 0.70 * width, 0.38 * width),
        (0.1, 0.13, 0.2, 1),
        "",
        False,
    )
    half_y = width / 2 - EDGE_M
    piece.surface("tv_bench", front_strip(depth), (-half_y, half_y), height)
    return piece


def shelf_unit(frame: Frame, name: str, depth: float, width: float, height: float, style: Style, books: int) -> Piece:
    """An open shelf: boards at 0.64 m and 1.00 m are for objects, books stand on the others.

    `books` is a number from which their sizes and colours are derived.
    """
    piece = Piece(name, frame)
    board, wood = 0.02, style.wood
    for i, sy in enumerate((1, -1)):
        piece.box(f"side_{i}", (0, sy * (width - board) / 2, height / 2), (depth, board, height), wood, "wood")
    back = (-depth / 2 + 0.006, 0, height / 2)
    piece.box("back", back, (0.012, width - 2 * board, height), shade(wood, 0.85), "wood")
    levels = (0.08, 0.64, 1.00, 1.37, height)
    for i, z in enumerate(levels):
        piece.box(f"board_{i}", (0.006, 0, z - board / 2), (depth - 0.012, width - 2 * board, board), wood, "wood")
    inner = width / 2 - board
    _books(piece, "low", inner, levels[0], 0.26, books, style, solid=True)
    _books(piece, "high", inner, levels[3], 0.24, books + 3, style, solid=False)
    for i in (1, 2):
        clearance = levels[i + 1] - levels[i] - board
        piece.surface(
            "shelf",
            (depth / 2 - BOARD_REACH_M, depth / 2 - EDGE_M),
            (EDGE_M - inner, inner - EDGE_M),
            levels[i],
            clearance,
            name=f"{name}_{i}",
        )
    return piece


def _books(piece: Piece, row: str, inner: float, z: float, height: float, seed: int, style: Style, solid: bool) -> None:
    """A row of books along the left of a board whose inner half width is `inner`."""
    colours = (style.accent, style.accent2, shade(style.fabric, 0.9), WHITE, (0.35, 0.2, 0.16, 1.0))
    y = -inner + 0.02
    for i in range(5):
        thick = 0.05 + 0.025 * ((seed * 7 + i * 5) % 4)
        tall = height - 0.02 * ((seed + 3 * i) % 4)
        pos = (-0.02, y + thick / 2, z + tall / 2)
        piece.box(f"books_{row}_{i}", pos, (0.2, thick - 0.004, tall), colours[(seed + i) % 5], "", solid and i == 0)
        y += thick
