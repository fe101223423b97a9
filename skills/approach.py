"""What Pick and Place are paid for until the hand is where it works: the hand's way, and the base's along the floor."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hab.episodes import Unsolvable
from hab.scene import Receptacle, Scene
from hab.sensors import RobotPose
from hab.simulator import Simulator
from skills.floor_distance import WAY_SIZE, FloorDistance
from skills.hand_path import SIZE as HAND_SIZE
from skills.hand_path import HandPath

SIZE = HAND_SIZE + WAY_SIZE
NEAR_M = 0.6
"""From so near to where one would work, along the floor, the arm gets there: 95 % of the calls of Pick that succeed."""
FLOOR_SHARE = 0.5
"""What a metre of the base's way beyond that counts, beside one of the hand's."""
NO_NEARER_M, PER_M = 1.5, 3.0
"""However near the hand is to what it is about, that counts as so far while the base has `NO_NEARER_M / PER_M` or more
to go, and the less, the less that is: else a hand at a wall, behind which its object lies, would be worth more than a
base that goes round."""


class Approach:
    """What is left (m) of the way to a place on a receptacle: the hand's (skills/hand_path.py), and, for a base that
    may move, half of the base's along the floor."""

    def __init__(
        self,
        scene: Scene,
        joints: Mapping[str, float],
        receptacle: Receptacle,
        position: Sequence[float],
        base_movement: bool,
    ) -> None:
        """`receptacle` as it is now, `position` on it (m, world); `joints`: doors and drawers."""
        self._hand = HandPath(receptacle)
        self._floor: FloorDistance | None = None
        if base_movement:
            try:
                self._floor = FloorDistance.to_work(scene, joints, receptacle, position)
            except Unsolvable:
                return  # as what has fallen behind furniture

    def __call__(self, sim: Simulator, point: Sequence[float], inside: Sequence[float]) -> float:
        """Return it for a point (m, world), the hand or what is in it, and where that is to go."""
        hand_m = self._hand(point, inside)
        if self._floor is None:
            return hand_m
        floor_m = max(0.0, self._floor(sim.base) - NEAR_M)
        return max(hand_m, min(NO_NEARER_M, PER_M * floor_m)) + FLOOR_SHARE * floor_m

    def surroundings(self, sim: Simulator, point: Sequence[float], inside: Sequence[float]) -> list[float]:
        """Return what of its surroundings it hangs on: `SIZE` numbers, the hand's way and the base's."""
        way = [0.0] * WAY_SIZE if self._floor is None else self._floor.way(sim.base)
        return [*self._hand.surroundings(RobotPose(sim), point, inside), *way]
