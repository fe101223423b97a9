"""The kitchen: a counter with sliding drawers and a fridge with a hinged door (conventions of `hab.furniture`)."""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np

from hab.furniture import BLACK, BOARD_REACH_M, EDGE_M, REACH_M, STEEL, WHITE, Frame, Piece, Style, shade
from hab.scene import Articulation, Geom, Rgba, Vec3

COUNTER_DEPTH_M = 0.60
COUNTER_MODULES = 5
"""Drawers, oven, drawers, sink, drawers."""
DRAWER_COLUMNS = (0, 2, 4)
DRAWERS_M, DRAWERS_APART_M = (0.387, 0.853), 0.014
"""From where up to where the two drawers of a column reach, and what is between them."""
UPPER_HALF_M = (0.092, 0.134)
"""Half the height of a column's upper drawer; the lower one has the rest."""
MODULE_SHARE = (0.86, 1.14)
"""How wide a module is, by what it would be if all were the same."""
DRAWER_RANGE_M = (0.0, 0.5)
FRIDGE_SIZE_M = (0.70, 0.75, 1.75)
"""Depth (door included), width, height."""
FRIDGE_RANGE_RAD = (0.0, 2.3)
WALL_STOP_RAD = 1.35
"""So far the door opens that has a wall beside its hinge: a stop keeps the handle a hand's breadth off the wall."""
HANDLE_HEIGHT_M = 0.92
"""Centre of the fridge's handle: near shoulder height, where the arm has the most room to draw it along its arc."""
FRIDGE_SHELVES_M = (0.66, 0.98, 1.31)

_PANEL = 0.018
_FRONT_X = COUNTER_DEPTH_M / 2 - 0.02
"""Front face of the carcass; the drawers' fronts lie before it, under the edge of the top."""


@dataclass(frozen=True)
class Modules:
    """What differs from counter to counter."""

    widths: tuple[float, ...]
    """(5,) of the modules (m)."""
    uppers: tuple[float, ...]
    """(3,) half the heights of the upper drawers (m), by column."""

    @property
    def middles(self) -> tuple[float, ...]:
        """(5,) where the modules' middles are along the counter (local y, m)."""
        ends = list(itertools.accumulate(self.widths, initial=-sum(self.widths) / 2))
        return tuple((a + b) / 2 for a, b in itertools.pairwise(ends))


def draw_modules(rng: np.random.Generator, width: float) -> Modules:
    """Divide a counter of that width (m)."""
    shares = rng.uniform(*MODULE_SHARE, COUNTER_MODULES)
    uppers = rng.uniform(*UPPER_HALF_M, len(DRAWER_COLUMNS))
    return Modules(tuple((width * shares / shares.sum()).tolist()), tuple(uppers.tolist()))


def counter(frame: Frame, name: str, height: float, modules: Modules, style: Style) -> Piece:
    """A counter along a wall: five modules, three of them with two drawers each, whose tops are free for objects."""
    piece = Piece(name, frame)
    depth, width = COUNTER_DEPTH_M, sum(modules.widths)
    slab, low, plinth = 0.04, 0.375, 0.10
    under = height - slab
    body_x = (_FRONT_X - depth / 2) / 2
    body_depth = _FRONT_X + depth / 2
    carcass = shade(style.front, 0.9)
    piece.box("top", (0, 0, height - slab / 2), (depth, width, slab), style.counter, "stone")
    piece.box("plinth", (-0.04, 0, plinth / 2), (depth - 0.08, width, plinth), BLACK)
    piece.box("base", (body_x, 0, (plinth + low) / 2), (body_depth, width, low - plinth), carcass)
    back = (-depth / 2 + _PANEL / 2, 0, (low + under) / 2)
    piece.box("back", back, (_PANEL, width, under - low), carcass)
    for i, sy in enumerate((1, -1)):
        pos = (body_x, sy * (width - _PANEL) / 2, (low + under) / 2)
        piece.box(f"side_{i}", pos, (body_depth, _PANEL, under - low), carcass)
    for column, (y, module) in enumerate(zip(modules.middles, modules.widths, strict=True)):
        if column in DRAWER_COLUMNS:
            piece.box(
                f"kick_{column}", (_FRONT_X + 0.008, y, 0.237), (0.016, module - 0.01, 0.265), style.front, "", False
            )
            strip = (depth / 2 - REACH_M, depth / 2 - EDGE_M)
            left, right = max(y - module / 2, EDGE_M - width / 2), min(y + module / 2, width / 2 - EDGE_M)
            piece.surface("counter", strip, (left, right), height, 0.6, name=f"{name}_{column // 2}")
            _drawer_column(piece, column, y, module, modules.uppers[column // 2], style)
        else:
            pos = (body_x, y, (low + under) / 2)
            piece.box(f"module_{column}", pos, (body_depth, module, under - low), carcass)
            (_oven if column == 1 else _sink)(piece, y, module, height, style)
    _wall_fittings(piece, modules, height, style)
    return piece


def fridge(frame: Frame, name: str, hinge: int, at_wall: bool, style: Style) -> Piece:
    """A fridge: a hollow body `NAME_body` with three shelves and one door `NAME`.

    The door is hinged at local y = `hinge` * half width; `hinge` is +1 or -1. `at_wall`: a wall stands there.
    """
    piece = Piece(f"{name}_body", frame)
    depth, width, height = FRIDGE_SIZE_M
    door, wall = 0.05, 0.035
    front = depth / 2 - door - 0.005
    body_x, body_depth = (front - depth / 2) / 2, front + depth / 2
    shell: Rgba = style.front if min(style.front[:3]) > 0.8 else (0.80, 0.81, 0.82, 1.0)
    floor = FRIDGE_SHELVES_M[0]
    piece.box("freezer", (body_x, 0, 0.02 + (floor - 0.02) / 2), (body_depth, width, floor - 0.02), shell)
    for i, sy in enumerate((1, -1)):
        pos = (body_x, sy * (width - wall) / 2, (floor + height) / 2)
        piece.box(f"side_{i}", pos, (body_depth, wall, height - floor), shell)
    piece.box("back", (-depth / 2 + wall / 2, 0, (floor + height) / 2), (wall, width - 2 * wall, height - floor), WHITE)
    piece.box("lid", (body_x, 0, height - 0.04), (body_depth, width - 2 * wall, 0.08), shell)
    inner_depth = body_depth - wall - 0.05
    shelf_x = front - 0.05 - inner_depth / 2
    for i, z in enumerate(FRIDGE_SHELVES_M[1:]):
        piece.box(f"shelf_{i}", (shelf_x, 0, z - 0.008), (inner_depth, width - 2 * wall, 0.016), (0.75, 0.85, 0.9, 1))
    piece.box("freezer_front", (front + 0.027, 0, 0.28), (0.045, width - 0.006, 0.40), shell, "", False)
    piece.box("freezer_grip", (front + 0.07, 0, 0.43), (0.04, 0.3, 0.03), STEEL, "steel", False)
    for i in (0, 1):
        z = FRIDGE_SHELVES_M[i]
        reach = front if i == 0 else front - 0.05
        half_y = width / 2 - wall - EDGE_M
        clearance = FRIDGE_SHELVES_M[i + 1] - 0.016 - z
        piece.surface(
            "fridge",
            (reach - BOARD_REACH_M, reach - EDGE_M),
            (-half_y, half_y),
            z,
            clearance,
            name=f"{name}_{i}",
            articulation=name,
        )
    piece.articulations.append(_fridge_door(piece, name, hinge, at_wall, front, shell))
    return piece


def _fridge_door(piece: Piece, name: str, hinge: int, at_wall: bool, front: float, rgba: Rgba) -> Articulation:
    """The door; its link frame is the centre of the closed panel."""
    _, width, height = FRIDGE_SIZE_M
    bottom, thick = 0.50, 0.05
    x, z = front + 0.005 + thick / 2, (bottom + height) / 2
    half_width = width / 2 - 0.003
    side = -hinge if piece.frame.flip else hinge
    grip_y, grip_z = -side * (half_width - 0.06), HANDLE_HEIGHT_M - z
    geoms = (
        Geom(f"{name}/door", "box", (0, 0, 0), (thick / 2, half_width, (height - bottom) / 2), rgba),
        Geom(
            f"{name}/handle",
            "box",
            (thick / 2 + 0.0425, grip_y, grip_z),
            (0.0075, 0.018, 0.20),
            STEEL,
            material="steel",
        ),
        _link_box(f"{name}/mount_0", (thick / 2 + 0.0175, grip_y, grip_z + 0.16), (0.0175, 0.012, 0.015), STEEL),
        _link_box(f"{name}/mount_1", (thick / 2 + 0.0175, grip_y, grip_z - 0.16), (0.0175, 0.012, 0.015), STEEL),
        _link_box(f"{name}/inside", (-thick / 2 - 0.001, 0, 0), (0.001, half_width - 0.03, 0.58), WHITE),
    )
    wx, wy = piece.frame.point(x, 0)
    anchor = (-thick / 2, side * half_width, 0.0)
    return Articulation(
        name,
        "fridge",
        piece.name,
        (wx, wy, z),
        piece.frame.yaw,
        (0.0, 0.0, float(side)),
        (FRIDGE_RANGE_RAD[0], WALL_STOP_RAD) if at_wall else FRIDGE_RANGE_RAD,
        geoms,
        geoms[1].name,
        geoms[1].pos,
        anchor,
    )


def _drawer_column(piece: Piece, column: int, y: float, module: float, upper: float, style: Style) -> None:
    """Two drawers, one above the other, with the surfaces of their front halves."""
    # End modules have the counter's side panel inside of their width.
    inner = module - (_PANEL if column in (0, 4) else 0.0)
    shift = _PANEL / 2 if column == 0 else -_PANEL / 2 if column == 4 else 0.0
    bottom, top = DRAWERS_M
    lower = (top - bottom - DRAWERS_APART_M) / 2 - upper
    for row, (half, z) in enumerate(((upper, top - upper), (lower, bottom + lower))):
        index = (column // 2) * 2 + row
        name = f"drawer_{index}"
        box_width = inner - 0.024
        geoms, floor = _drawer_geoms(
            name, module - 0.008, box_width, half, -shift if piece.frame.flip else shift, style
        )
        wx, wy = piece.frame.point(_FRONT_X + 0.012, y)
        handle = next(g for g in geoms if g.name.endswith("/handle"))
        piece.articulations.append(
            Articulation(
                name,
                "cabinet",
                piece.name,
                (wx, wy, z),
                piece.frame.yaw,
                (1.0, 0.0, 0.0),
                DRAWER_RANGE_M,
                geoms,
                handle.name,
                handle.pos,
            )
        )
        front = _FRONT_X - 0.01
        half_y = box_width / 2 - 0.012 - EDGE_M
        middle = y + shift
        piece.surface(
            "drawer",
            (front - 0.23, front - 0.08),
            (middle - half_y, middle + half_y),
            z + floor,
            half - floor - 0.025,
            name=f"{name}_inside",
            articulation=name,
        )


def _drawer_geoms(
    name: str, front_width: float, width: float, half: float, shift: float, style: Style
) -> tuple[tuple[Geom, ...], float]:
    """Geoms of one drawer in its link frame (centre of its front panel, `half` as high) and the height of its floor
    there."""
    length, wall, bottom = 0.50, 0.012, 0.031 - half
    back, side_top = -0.012 - length, half - 0.055
    x, z = (back - 0.012) / 2, (bottom + side_top) / 2
    inside: Rgba = (0.86, 0.80, 0.70, 1.0)
    half_side = (side_top - bottom) / 2
    geoms = (
        Geom(f"{name}/front", "box", (-0.002, 0, 0), (0.010, front_width / 2, half), style.front),
        Geom(f"{name}/bottom", "box", (x, shift, bottom - wall / 2), (length / 2, width / 2, wall / 2), inside),
        Geom(f"{name}/left", "box", (x, shift + (width - wall) / 2, z), (length / 2, wall / 2, half_side), inside),
        Geom(f"{name}/right", "box", (x, shift - (width - wall) / 2, z), (length / 2, wall / 2, half_side), inside),
        Geom(f"{name}/back", "box", (back + wall / 2, shift, z), (wall / 2, width / 2 - wall, half_side), inside),
        Geom(f"{name}/handle", "box", (0.0475, 0, 0.03), (0.0075, 0.09, 0.018), STEEL, material="steel"),
        _link_box(f"{name}/mount", (0.024, 0, 0.03), (0.018, 0.07, 0.008), STEEL),
    )
    return geoms, bottom


def _oven(piece: Piece, y: float, module: float, height: float, style: Style) -> None:
    """A stove on the counter with an oven door under it (decoration) and a hood above."""
    piece.box("oven", (_FRONT_X + 0.008, y, 0.48), (0.018, module - 0.012, 0.74), (0.16, 0.16, 0.17, 1), "", False)
    piece.box("oven_glass", (_FRONT_X + 0.012, y, 0.46), (0.018, module - 0.12, 0.36), BLACK, "steel", False)
    piece.box("oven_grip", (_FRONT_X + 0.035, y, 0.70), (0.02, module - 0.14, 0.02), STEEL, "steel", False)
    piece.box("stove", (-0.02, y, height + 0.001), (0.5, module - 0.06, 0.004), BLACK, "", False)
    for i, (dx, dy) in enumerate(((0.11, 0.12), (0.11, -0.12), (-0.14, 0.12), (-0.14, -0.12))):
        piece.cylinder(f"ring_{i}", (dx - 0.02, y + dy, height + 0.003), 0.08, 0.002, (0.3, 0.3, 0.31, 1), "", False)
    piece.box("hood", (-COUNTER_DEPTH_M / 2 + 0.2, y, 1.63), (0.40, module, 0.12), STEEL, "steel")
    piece.box("duct", (-COUNTER_DEPTH_M / 2 + 0.13, y, 2.0), (0.24, 0.28, 0.64), STEEL, "steel", False)


def _sink(piece: Piece, y: float, module: float, height: float, style: Style) -> None:
    """A basin let into the counter, a tap and the cabinet doors under it (decoration)."""
    for i, sy in enumerate((1, -1)):
        pos = (_FRONT_X + 0.008, y + sy * module / 4, 0.48)
        piece.box(f"sink_door_{i}", pos, (0.016, module / 2 - 0.008, 0.75), style.front, "", False)
        piece.box(f"sink_grip_{i}", (_FRONT_X + 0.03, y + sy * 0.04, 0.70), (0.02, 0.014, 0.16), STEEL, "steel", False)
    piece.box("basin_rim", (0.0, y, height + 0.001), (0.42, module - 0.08, 0.004), STEEL, "steel", False)
    piece.box("basin", (0.0, y, height + 0.002), (0.36, module - 0.14, 0.004), (0.38, 0.39, 0.41, 1), "", False)
    piece.cylinder("tap", (-0.25, y, height + 0.14), 0.014, 0.28, STEEL, "steel", False)
    piece.box("spout", (-0.18, y, height + 0.27), (0.16, 0.022, 0.022), STEEL, "steel", False)


def _wall_fittings(piece: Piece, modules: Modules, height: float, style: Style) -> None:
    """Backsplash and wall cabinets on both sides of the hood."""
    back, width = -COUNTER_DEPTH_M / 2, sum(modules.widths)
    piece.box(
        "backsplash", (back + 0.004, 0, (height + 1.55) / 2), (0.008, width, 1.55 - height), WHITE, "tiles", False
    )
    # Module 0 is left of the hood, modules 2-4 are right of it.
    for i, columns in enumerate(((0,), (2, 3, 4))):
        wide = sum(modules.widths[column] for column in columns)
        y = (modules.middles[columns[0]] - modules.widths[columns[0]] / 2) + wide / 2
        piece.box(f"wall_cabinet_{i}", (back + 0.165, y, 1.90), (0.33, wide, 0.70), shade(style.front, 0.9))
        for column in columns:
            pos = (back + 0.338, modules.middles[column], 1.90)
            size = (0.016, modules.widths[column] - 0.01, 0.68)
            piece.box(f"wall_door_{column}", pos, size, style.front, "", False)


def _link_box(name: str, pos: Vec3, half: Vec3, rgba: Rgba) -> Geom:
    """A decorative box of half sizes `half` in a link frame."""
    return Geom(name, "box", pos, half, rgba, collides=False)
