"""The apartment generator: `generate_scene(seed)` plans rooms, places furniture and keeps what a robot can live in.

Planning happens in a canonical house whose corner is the origin; at the end the house is centred, possibly mirrored
and turned by a multiple of 90 degrees. Rectangles are (x_min, y_min, x_max, y_max) in metres.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from hab import bedroom, furniture, kitchen, storage
from hab.furniture import Frame, Piece, Style
from hab.navgrid import NavGrid
from hab.objects import draw_objects
from hab.openings import footprint, fridge_start
from hab.palette import draw_style
from hab.placing import TRIES, Item, Placer, back_zone, bounds, front_zone, overlap
from hab.robot import NAV_RADIUS_M
from hab.rooms import PLANS, HousePlan, Rect, Room, walls
from hab.scene import Receptacle, Scene

SPLIT_SEEDS: dict[str, range] = {"train": range(0, 1000), "val": range(1000, 1040), "test": range(2000, 2040)}
"""Disjoint seeds of the apartments of each split."""

FRONT_M = 1.15
"""Free depth in front of a surface."""
COUNTER_FRONT_M, FRIDGE_FRONT_M, CORNER_FRONT_M = 1.5, 1.7, 1.8
CORNER_GAP_M = (0.056, 0.085)
"""Between a fridge in a corner and the wall beside it."""
DESK_SHARE, SHELF_SHARE = 0.75, 0.85
STORAGE_SHARES = {"sideboard": 0.6, "side_table": 0.55, "armchair": 0.55, "wash_stand": 0.9}
"""How many houses have a desk, a shelf, each of `hab.storage.SEEN_FURNITURE`, if there is room; a wash stand stands in
bathrooms alone."""
PASSAGE_RADIUS_M = 0.48
"""A disc of this radius gets to every surface: passages are about 1 m wide."""
DOOR_ROOM_M = 0.20
"""The arm wants so much room beside a fridge's door that stands open."""
TURN_M = 0.62
"""Every room has a place with that much room around it, for turning with the arm out."""
APPROACH_M = 0.75
"""From an accessible edge to the nearest place where the base can stand."""
FACING_SLACK_M = 1.4
"""Most that the sofa stands further from the television than it must."""

FLOORS = ("wood_floor", "dark_floor", "tile_floor")


def split_of(seed: int) -> str:
    """Return the split that an apartment is of; those of none are as in train."""
    return next((split for split, seeds in SPLIT_SEEDS.items() if seed in seeds), "train")


def fridge_at_wall(seed: int) -> bool:
    """Whether an apartment's fridge stands in a corner: in every third of each split, however often it is redrawn."""
    return seed % 3 == 0


@functools.lru_cache(maxsize=32)
def generate_scene(seed: int) -> Scene:
    """The apartment of a seed (any non-negative integer)."""
    rng = np.random.default_rng(seed)
    split = split_of(seed)
    # What kind of house it is stays as drawn; sizes and places are drawn again until a robot can live there.
    draw_plan = PLANS[rng.integers(len(PLANS))]
    objects = draw_objects(rng, split)
    while True:
        plan = draw_plan(rng)
        style = draw_style(rng)
        house = _House(plan, style, split, fridge_at_wall(seed), rng=rng)
        if not house.furnish():
            continue
        scene, rooms = house.build(seed, str(rng.choice(FLOORS, p=(0.5, 0.3, 0.2))), objects)
        if _liveable(scene, rooms):
            return scene


@dataclass
class _House(Placer):
    """The state of one attempt at furnishing a house."""

    plan: HousePlan
    style: Style
    split: str
    fridge_at_wall: bool

    def furnish(self) -> bool:
        """Place everything; False where something necessary found no place."""
        self.zones.extend(self.plan.door_zones)
        rooms = {room.name: room for room in self.plan.rooms}
        work = rooms.get("study", rooms["living"])
        ok = (
            self._kitchen(rooms["kitchen"])
            and self._dining(rooms["kitchen"])
            and self._living(rooms["living"])
            and self._bedroom(rooms["bedroom"])
        )
        if ok:
            if self.rng.random() < DESK_SHARE:
                self._desk((work, rooms["bedroom"], rooms["living"]))
            if self.rng.random() < SHELF_SHARE:
                self._shelf((rooms["living"], work, rooms["kitchen"]))
            ok = self._storage(rooms)
        if ok:
            self._clutter(rooms)
            self._on_walls()
        return ok

    def build(self, seed: int, floor: str, objects: tuple[str, ...]) -> tuple[Scene, list[Rect]]:
        """Turn the plan into geometry in the world; also gives the rooms' floors there."""
        mirror, turns = bool(self.rng.integers(2)), int(self.rng.integers(4))
        place = functools.partial(_to_world, width=self.plan.width, depth=self.plan.depth, mirror=mirror, turns=turns)
        house = place(Frame(0.0, 0.0, 0.0))
        pieces = [walls(house, self.plan, self.style)]
        pieces += [item.build(place(item.frame)) for item in self.items]
        scene = Scene(
            seed,
            bounds(house, (0.0, 0.0, self.plan.width, self.plan.depth)),
            tuple(piece.furniture for piece in pieces),
            tuple(itertools.chain.from_iterable(piece.articulations for piece in pieces)),
            tuple(itertools.chain.from_iterable(piece.receptacles for piece in pieces)),
            floor,
            objects,
        )
        return scene, [bounds(house, room.rect) for room in self.plan.rooms]

    # Rooms -------------------------------------------------------------------------------------------------------

    def _kitchen(self, room: Room) -> bool:
        """Counter and fridge side by side along one wall, the fridge perhaps in a corner."""
        rng, depth = self.rng, kitchen.COUNTER_DEPTH_M
        fridge_depth, fridge_width, _ = kitchen.FRIDGE_SIZE_M
        at_wall = self.fridge_at_wall
        for _ in range(TRIES):
            width, gap = rng.uniform(2.70, 3.05), 0.06
            flip, hinge = bool(rng.integers(2)), 1 if at_wall else int(rng.choice((-1, 1)))
            # With the hinge on the outer side (+1) the door swings past the fridge's flank, unless a wall is there.
            outer = rng.uniform(*(CORNER_GAP_M if at_wall else (0.62, 0.75) if hinge == 1 else (0.35, 0.5)))
            total = width + gap + fridge_width + outer
            wall = int(rng.integers(4))
            length = room.wall_length(wall)
            slack = length - total
            if slack < 0.02:
                continue
            start = (slack if at_wall else rng.uniform(0, min(slack, 0.3))) - length / 2
            # Along the wall (local y of the wall's frame): counter from `start`, then the fridge; mirrored by flip.
            at_counter = start + width / 2
            at_fridge = start + width + gap + fridge_width / 2
            sign = -1 if flip else 1
            counter_frame = room.wall_frame(wall, sign * at_counter, depth, 0.005, flip)
            fridge_frame = room.wall_frame(wall, sign * at_fridge, fridge_depth, 0.03, flip)
            modules = kitchen.draw_modules(rng, width)
            height = rng.uniform(0.90, 0.92)
            counter = functools.partial(
                kitchen.counter, name="counter", height=height, modules=modules, style=self.style
            )
            cooler = functools.partial(kitchen.fridge, name="fridge", hinge=hinge, at_wall=at_wall, style=self.style)
            mark = self.mark()
            zone = (depth / 2, -width / 2, depth / 2 + COUNTER_FRONT_M, width / 2)
            far = fridge_width / 2 + outer - (0.001 if at_wall else 0.02)
            front = CORNER_FRONT_M if at_wall else FRIDGE_FRONT_M
            before = (fridge_depth / 2, -fridge_width / 2 - 0.5, fridge_depth / 2 + front, far)
            beside = (-fridge_depth / 2, fridge_width / 2, fridge_depth / 2, far)
            # The wall beside a fridge in a corner has no opening where its door swings.
            swing = bounds(fridge_frame, (fridge_depth / 2, far - 0.2, fridge_depth / 2 + 0.9, far))
            if at_wall and any(overlap(swing, other, 0.0) for other in self.plan.door_zones):
                continue
            if self.place(room, counter, counter_frame, (depth, width), (zone,), tall=True) and self.place(
                room, cooler, fridge_frame, (fridge_depth, fridge_width), (before, beside), tall=True
            ):
                return True
            self.undo(mark)
        return False

    def _dining(self, room: Room) -> bool:
        """A table that stands free, a chair at each end and, where there is room, two more at a wall."""
        rng = self.rng
        depth, width, height = rng.uniform(0.78, 0.86), rng.uniform(1.35, 1.6), rng.uniform(0.72, 0.76)
        build = functools.partial(
            furniture.table, name="table", depth=depth, width=width, height=height, style=self.style
        )
        over = 0.32  # the chairs at the ends stick out by that
        zones = (
            (depth / 2, -width / 2, depth / 2 + FRONT_M, width / 2),
            (-depth / 2 - FRONT_M, -width / 2, -depth / 2, width / 2),
        )
        for _ in range(TRIES):
            frame = self.anywhere(room, margin=0.5)
            if not self.place(room, build, frame, (depth, width + 2 * over), zones):
                continue
            for i, side in enumerate((1, -1)):
                x, y = frame.point(rng.uniform(-0.04, 0.04), side * (width / 2 + 0.09))
                turn = frame.yaw - side * math.pi / 2 + rng.uniform(-0.06, 0.06)
                self.items.append(Item(self._chair(i), Frame(x, y, turn)))
            for i in (2, 3):
                self.along_wall(room, self._chair(i), (0.46, 0.44), (), tries=15)
            return True
        return False

    def _living(self, room: Room) -> bool:
        """Sofa and TV bench face each other, the coffee table between them."""
        rng = self.rng
        sofa_depth, sofa_width = rng.uniform(0.86, 0.94), rng.uniform(1.8, 2.2)
        bench_depth, bench_width = rng.uniform(0.40, 0.45), rng.uniform(1.4, 1.7)
        low_depth, low_width = rng.uniform(0.50, 0.60), rng.uniform(0.9, 1.15)
        sofa = functools.partial(
            furniture.sofa,
            name="sofa",
            depth=sofa_depth,
            width=sofa_width,
            height=rng.uniform(0.42, 0.46),
            style=self.style,
        )
        bench = functools.partial(
            furniture.tv_bench,
            name="tv_bench",
            depth=bench_depth,
            width=bench_width,
            height=rng.uniform(0.45, 0.55),
            style=self.style,
        )
        low = functools.partial(
            furniture.coffee_table,
            name="coffee_table",
            depth=low_depth,
            width=low_width,
            height=rng.uniform(0.42, 0.48),
            style=self.style,
        )
        need = sofa_depth + bench_depth + low_depth + 2 * FRONT_M + 0.06
        for _ in range(TRIES):
            wall = int(rng.integers(4))
            slack = room.wall_length(wall + 1) - need
            along = self.offset(room.wall_length(wall), sofa_width)
            if not 0 <= slack <= FACING_SLACK_M or along is None:
                continue
            shift = float(rng.uniform(-0.2, 0.2))
            at = room.wall_frame(wall, along, sofa_depth, 0.02)
            opposite = room.wall_frame((wall + 2) % 4, -along - shift, bench_depth, 0.01)
            ahead = sofa_depth / 2 + FRONT_M + low_depth / 2 + rng.uniform(0.2, 0.8) * slack
            middle = Frame(*at.point(ahead, shift / 2), at.yaw)
            mark = self.mark()
            free = [front_zone(d, w, FRONT_M) for d, w in ((sofa_depth, sofa_width), (bench_depth, bench_width))]
            both = front_zone(low_depth, low_width, FRONT_M)
            if (
                self.place(room, sofa, at, (sofa_depth, sofa_width), (free[0],))
                and self.place(room, bench, opposite, (bench_depth, bench_width), (free[1],), tall=True)
                and self.place(room, low, middle, (low_depth, low_width), (both, back_zone(both)))
            ):
                # The rug ends before the nearest walls.
                behind = sofa_depth / 2 + 0.02 + ahead
                reach = min(behind, room.wall_length(wall + 1) - behind)
                aside = room.wall_length(wall) / 2 - abs(along + shift / 2)
                size = min(low_depth + 1.5, 2 * reach - 0.1), min(low_width + 1.1, 2 * aside - 0.1)
                carpet = functools.partial(bedroom.rug, name="rug", depth=size[0], width=size[1], style=self.style)
                self.items.append(Item(carpet, middle))
                return True
            self.undo(mark)
        return False

    def _bedroom(self, room: Room) -> bool:
        """Bed with its head at a wall, a nightstand beside it and a wardrobe."""
        rng = self.rng
        depth, width = 2.02, rng.uniform(1.25, 1.6)
        build = functools.partial(
            bedroom.bed, name="bed", depth=depth, width=width, height=rng.uniform(0.46, 0.52), style=self.style
        )
        stand_depth, stand_width = 0.42, 0.46
        stand = functools.partial(
            bedroom.nightstand,
            name="nightstand",
            depth=stand_depth,
            width=stand_width,
            height=rng.uniform(0.48, 0.56),
            style=self.style,
        )
        closet_depth, closet_width = 0.58, rng.uniform(1.1, 1.6)
        closet = functools.partial(
            bedroom.wardrobe, name="wardrobe", depth=closet_depth, width=closet_width, height=2.05, style=self.style
        )
        for _ in range(TRIES):
            wall, flip = int(rng.integers(4)), bool(rng.integers(2))
            along = self.offset(room.wall_length(wall), width)
            if along is None:
                continue
            beside = along + (-1 if flip else 1) * (width / 2 + 0.06 + stand_width / 2)
            mark = self.mark()
            # The nightstand is reached from a lane of 1 m along the bed.
            lane = (stand_depth / 2, -stand_width / 2, stand_depth / 2 + FRONT_M, 1.0 - stand_width / 2)
            if (
                self.place(
                    room,
                    build,
                    room.wall_frame(wall, along, depth, 0.01),
                    (depth, width),
                    (front_zone(depth, width, FRONT_M),),
                )
                and self.place(
                    room,
                    stand,
                    room.wall_frame(wall, beside, stand_depth, 0.01, flip),
                    (stand_depth, stand_width),
                    (lane,),
                )
                and self.along_wall(
                    room,
                    closet,
                    (closet_depth, closet_width),
                    (front_zone(closet_depth, closet_width, 0.9),),
                    tall=True,
                )
            ):
                return True
            self.undo(mark)
        return False

    def _desk(self, rooms: tuple[Room, ...]) -> bool:
        depth, width, height = 0.65, self.rng.uniform(1.25, 1.45), self.rng.uniform(0.72, 0.76)
        build = functools.partial(bedroom.desk, name="desk", depth=depth, width=width, height=height, style=self.style)
        zones = (front_zone(depth, width, FRONT_M),)
        return any(self.along_wall(room, build, (depth, width), zones, tall=True) for room in rooms)

    def _shelf(self, rooms: tuple[Room, ...]) -> bool:
        rng = self.rng
        depth, width, height = 0.36, rng.uniform(0.9, 1.1), rng.uniform(1.7, 1.9)
        build = functools.partial(
            furniture.shelf_unit,
            name="shelf",
            depth=depth,
            width=width,
            height=height,
            style=self.style,
            books=int(rng.integers(20)),
        )
        zones = (front_zone(depth, width, FRONT_M),)
        order = [rooms[i] for i in rng.permutation(len(rooms))]
        return any(self.along_wall(room, build, (depth, width), zones, tall=True) for room in order)

    def _storage(self, rooms: dict[str, Room]) -> bool:
        """Furniture that only some houses have; False where what a house of test is to have found no place."""
        rng = self.rng
        for kind in storage.SEEN_FURNITURE:
            if rng.random() < STORAGE_SHARES[kind]:
                self._stand(kind, rooms)
        if "bath" in rooms:
            tub = functools.partial(storage.tub, name="tub", depth=0.72, width=1.6)
            foot = (0.72, 1.6)
            self.along_wall(rooms["bath"], tub, foot, (front_zone(*foot, 0.7),), gap=0.005)
        if self.split != "test":
            return True
        order = [storage.UNSEEN_FURNITURE[i] for i in rng.permutation(len(storage.UNSEEN_FURNITURE))]
        stood = [self._stand(kind, rooms) for kind in order[: int(rng.integers(1, len(order) + 1))]]
        return any(stood)

    def _stand(self, kind: str, rooms: dict[str, Room]) -> bool:
        """Find a place for a piece in one of the rooms where such a one stands."""
        rng = self.rng
        build: Callable[[Frame], Piece]
        where: tuple[str, ...]
        named: dict[str, Any] = {"name": kind, "style": self.style}
        match kind:
            case "sideboard":
                size, where = (rng.uniform(0.40, 0.46), rng.uniform(1.0, 1.4)), ("living", "kitchen", "study", "hall")
                build = functools.partial(storage.sideboard, **named, height=rng.uniform(0.72, 0.85))
            case "side_table":
                size, where = (edge := rng.uniform(0.44, 0.54), edge), ("living", "bedroom", "study")
                build = functools.partial(storage.side_table, **named, height=rng.uniform(0.50, 0.62))
            case "armchair":
                size, where = (rng.uniform(0.78, 0.86), rng.uniform(0.78, 0.90)), ("living", "study", "bedroom")
                build = functools.partial(storage.armchair, **named, height=rng.uniform(0.42, 0.46))
            case "wash_stand":
                size, where = (rng.uniform(0.48, 0.52), rng.uniform(0.95, 1.15)), ("bath",)
                build = functools.partial(storage.wash_stand, **named, height=rng.uniform(0.80, 0.86))
            case "dresser":
                size, where = (rng.uniform(0.44, 0.50), rng.uniform(0.9, 1.2)), ("bedroom", "hall", "living", "study")
                build = functools.partial(storage.dresser, **named, height=rng.uniform(0.78, 0.90))
            case "trolley":
                size, where = (rng.uniform(0.42, 0.48), rng.uniform(0.62, 0.78)), ("kitchen", "living", "study")
                build = functools.partial(storage.trolley, **named, height=rng.uniform(0.80, 0.88))
            case _:
                size, where = (rng.uniform(0.38, 0.44), rng.uniform(0.9, 1.3)), ("hall", "bedroom", "living", "study")
                build = functools.partial(storage.bench, **named, height=rng.uniform(0.44, 0.50))
        depth, width = size
        sized = {"size": depth} if kind == "side_table" else {"depth": depth, "width": width}
        build = functools.partial(build, **sized)
        zones = (front_zone(depth, width, FRONT_M),)
        tall = kind == "wash_stand"
        found = [rooms[name] for name in where if name in rooms]
        return any(
            self.along_wall(found[i], build, (depth, width), zones, tall=tall, tries=20)
            for i in rng.permutation(len(found))
        )

    def _clutter(self, rooms: dict[str, Room]) -> None:
        """What stands on the floor along walls: plants and a lamp in corners, baskets and the like."""
        rng = self.rng
        for i, name in enumerate(rng.permutation(["living", "kitchen", "study", "bedroom", "hall"])[:2]):
            if name in rooms:
                build = functools.partial(
                    bedroom.plant, name=f"plant_{i}", height=rng.uniform(0.9, 1.3), style=self.style
                )
                self.along_wall(rooms[str(name)], build, (0.36, 0.36), (), tries=20, gap=0.06, corner=True)
        lamp = functools.partial(bedroom.floor_lamp, name="lamp")
        self.along_wall(rooms["living"], lamp, (0.36, 0.36), (), tries=30, gap=0.05, corner=True)
        order = [self.plan.rooms[i] for i in rng.permutation(len(self.plan.rooms))]
        for i, room in enumerate(order[: int(rng.integers(2, 1 + min(4, len(order))))]):
            kind = int(rng.integers(4))
            foot, piece = (
                ((0.30, 0.64), functools.partial(storage.rack, style=self.style)),
                ((0.38, 0.38), functools.partial(storage.basket, height=rng.uniform(0.4, 0.6), style=self.style)),
                ((0.40, 0.48), functools.partial(storage.cartons, height=rng.uniform(0.4, 0.7))),
                ((0.32, 0.32), storage.bin_),
            )[kind]
            thing = functools.partial(piece, name=f"floor_{i}")
            self.along_wall(room, thing, foot, (), tries=20, gap=0.02, corner=bool(rng.random() < 0.5))

    def _on_walls(self) -> None:
        """Windows in outer walls and pictures, where nothing tall stands."""
        count = 0
        for room in self.plan.rooms:
            for wall in self.rng.permutation(4):
                length = room.wall_length(int(wall))
                outside = self.plan.is_outer(room, int(wall))
                for _ in range(4):
                    wide = self.rng.uniform(1.2, 1.7) if outside else self.rng.uniform(0.5, 0.9)
                    along = self.offset(length, wide + 0.3)
                    if along is None:
                        continue
                    frame = room.wall_frame(int(wall), along, 0.0, 0.0)
                    strip = bounds(frame, (0.0, -wide / 2 - 0.08, 0.5, wide / 2 + 0.08))
                    doors = self.plan.door_zones
                    if any(overlap(strip, other, 0.0) for other in itertools.chain(self.tall, doors)):
                        continue
                    if outside:
                        build = functools.partial(bedroom.window, name=f"window_{count}", width=wide)
                    else:
                        tall = wide * self.rng.uniform(0.65, 0.9)
                        build = functools.partial(
                            bedroom.picture, name=f"picture_{count}", width=wide, height=tall, style=self.style
                        )
                    self.items.append(Item(build, frame))
                    self.tall.append(strip)
                    count += 1
                    break

    def _chair(self, index: int) -> Callable[[Frame], Piece]:
        return functools.partial(furniture.chair, name=f"chair_{index}", style=self.style)


def approach_points(receptacle: Receptacle) -> list[tuple[float, float]]:
    """World points just outside of a surface: the middle of each accessible edge, `EDGE_M` beyond the usable area."""
    points = []
    for local in receptacle.fronts:
        along = abs(math.cos(local)) * receptacle.half_extents[0] + abs(math.sin(local)) * receptacle.half_extents[1]
        reach = along + furniture.EDGE_M
        angle = receptacle.yaw + local
        points.append((receptacle.center[0] + reach * math.cos(angle), receptacle.center[1] + reach * math.sin(angle)))
    return points


def _liveable(scene: Scene, rooms: list[Rect]) -> bool:
    """Whether a wide robot gets to every accessible side and can turn in every room, and whether the fridge's door,
    standing open, parts no room from the others."""
    grid = NavGrid(scene, radius_m=PASSAGE_RADIUS_M)
    for receptacle in scene.receptacles:
        for x, y in approach_points(receptacle):
            if math.dist((x, y), grid.nearest_free(x, y)) > APPROACH_M:
                return False
    fridge = scene.fridge
    x, y, yaw, hx, hy = footprint(fridge, fridge_start(fridge))
    opened = grid.with_boxes([(x, y, yaw, hx + DOOR_ROOM_M, hy + DOOR_ROOM_M)], NAV_RADIUS_M)
    if opened.largest_component.sum() < 0.95 * opened.free.sum():
        return False
    open_places = grid.largest_component & (grid.tall_clearance > TURN_M) & (grid.clearance > TURN_M)
    for x0, y0, x1, y1 in rooms:
        (i0, j0), (i1, j1) = grid.cell(x0, y0), grid.cell(x1, y1)
        if not open_places[max(i0, 0) : i1, max(j0, 0) : j1].any():
            return False
    return True


def _to_world(frame: Frame, width: float, depth: float, mirror: bool, turns: int) -> Frame:
    """A canonical pose in the world: centred, mirrored in x if asked, then turned by quarter turns."""
    x, y, yaw = frame.x - width / 2, frame.y - depth / 2, frame.yaw
    if mirror:
        x, yaw = -x, math.pi - yaw
    for _ in range(turns):
        x, y = -y, x
    yaw = yaw + turns * math.pi / 2
    return Frame(x, y, math.remainder(yaw, 2 * math.pi), frame.flip != mirror)
