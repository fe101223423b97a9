"""Where fridges' doors stand open: Navigate goes round them, and does not stop behind one.

Its policy, which sees little to its sides, pushes them shut in passing, and what lies behind one is out of reach. Known
of a door is how scenarios begin, where the hand has brought it, and where the head's camera sees it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from hab.navgrid import OrientedBox
from hab.openings import fridge_start, joint_of, opened_boxes, rotated, widest
from hab.scene import Scene
from hab.simulator import Simulator
from planner.look import LOOK_EVERY, Look, joint_seen

SEEN_M = 2.5
"""So near to the base a door is looked at."""
POINTS_APART_M = 0.05


class OpenDoors:
    """Where fridges' doors that stand open are believed to be (rad)."""

    def __init__(self, scene: Scene) -> None:
        self._scene, self._fridges = scene, [a for a in scene.articulations if a.kind == "fridge"]
        self._opened: Collection[str] = ()
        self._joints: dict[str, float] = {}
        self._steps = 0

    def begin(self, opened: Collection[str]) -> None:
        """Begin a call of Navigate; `opened`: what is believed to be open."""
        self._opened, self._steps = opened, 0

    @property
    def joints(self) -> dict[str, float]:
        """Where those are that are believed to be open: as a scenario begins, if nothing else is known of them."""
        fridges = [a for a in self._fridges if a.name in self._opened]
        return {a.name: self._joints.get(a.name, fridge_start(a)) for a in fridges}

    def bring(self, name: str, hand: NDArray[np.float64]) -> None:
        """Take note that the hand, which is at a place (3,) (world, m), has a handle."""
        for fridge in self._fridges:
            if fridge.name == name:
                self._joints[name] = min(joint_of(fridge, tuple(hand.tolist())), widest(fridge))

    def boxes(self) -> list[OrientedBox]:
        """Return where they are on the floor."""
        return opened_boxes(self._scene, self.joints)

    def points(self) -> NDArray[np.float64]:
        """Return points (n, 2) all over them (m)."""
        found = [np.empty((0, 2))]
        for x, y, yaw, *halves in self.boxes():
            ahead, aside = (np.linspace(-half, half, 2 + round(2.0 * half / POINTS_APART_M)) for half in halves)
            grid = np.stack([axis.ravel() for axis in np.meshgrid(ahead, aside)])
            found.append(rotated(yaw, grid).T + (x, y))
        return np.concatenate(found)

    def watch(self, sim: Simulator) -> bool:
        """Look, now and then, with the head's camera at the doors around; asked in each control step. Return whether it
        was time to, and there are any."""
        self._steps += 1
        if self._steps % LOOK_EVERY != 1 or not self.joints:
            return False
        x, y, _ = sim.base.tolist()
        near = [a for a in self._fridges if a.name in self._opened and math.dist(a.pos[:2], (x, y)) < SEEN_M]
        if near:
            look = Look.of(sim).past(sim.ee_pos) if sim.held else Look.of(sim)
            seen = {fridge.name: joint_seen(look, fridge) for fridge in near}
            self._joints.update({name: joint for name, joint in seen.items() if joint is not None})
        return True


def hidden(boxes: Iterable[OrientedBox], base: Sequence[float], place: Sequence[float]) -> bool:
    """Whether one of some rectangles is between the base and a place (x, y, ...; m)."""
    return any(_crosses(box, base, place) for box in boxes)


def _crosses(box: OrientedBox, one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether the straight line between two points meets a rectangle: what is left of it between each pair of sides."""
    x, y, yaw, *halves = box
    begin, end = (rotated(-yaw, (point[0] - x, point[1] - y)) for point in (one, other))
    first, last = 0.0, 1.0
    for start, way, half in zip(begin, end - begin, halves, strict=True):
        if abs(way) < 1e-9:
            if abs(start) > half:
                return False
            continue
        into, out = sorted(((-half - start) / way, (half - start) / way))
        first, last = max(first, into), min(last, out)
    return bool(first <= last)
