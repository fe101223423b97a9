"""The state of the closed loop as a robot senses it: by odometry, joints, suction and the head's depth camera."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from hab.episodes import Episode, lies_on
from hab.measures import PLACED_M
from hab.objects import object_model
from hab.openings import drawn_out, joint_of, rotated, widest
from hab.scene import Articulation, Scene, Vec3
from hab.simulator import Simulator
from planner.look import FREE_M, NEAR_M, Look, appeared, fallen, fell, is_shifted, joint_seen, located
from planner.problem import door_atom, goal_name, is_open
from planner.state import CommonState

IN_HAND_M = 0.05
"""An object's centre is about so far before the hand that holds it, where nothing better is known."""
ON_THE_SAME_M = 0.4
"""What is set down so near its goal lies on the same surface."""
LOWEST_M = 0.25
"""What lies lower is on the floor."""
ON_FLOOR_M = 0.05
"""The centre of what has fallen there, until it is seen."""
SHOVED_M = 0.6
"""What Pick has missed may have been moved so far."""
THERE_M = 0.12
"""What is seen so far before an object's middle may be that."""
FLAT = 0.4
"""A ray has gone through a flat object if it goes so much of its height farther than its middle."""
GRIP_BESIDE_M, GRIP_ABOVE_M = 0.02, 0.025
"""The hand takes hold of an object at most so far from it; what it takes hold of farther from where that was believed
to lie is another one …"""
GRIP_BELOW_M = 0.15
"""No hand takes hold of an object from so far below its middle."""
NEARER_M = 0.01
"""… and so is what it takes hold of nearer to another one, by so much."""
SEEKS = 3
"""So often Pick tries where what is lost was last believed to lie, when all else is done."""
REFUSALS = 3
"""… unless that has been thought so often since it was taken to lie there: then the object has been moved."""
UNSURE_M = 0.03
"""What lies so near the edge of what counts as placed is rather placed again."""
DISTURBED_M = 0.35
"""What the hand has come so near to may not be where it was."""


@dataclass(frozen=True)
class Memory:
    """A look, and where objects were believed to lie then."""

    look: Look
    where: Mapping[str, Vec3]


class SensedState(CommonState):
    """Facts from the robot's own senses; each is said where it is set."""

    def __init__(self, sim: Simulator, episode: Episode, scene: Scene) -> None:
        super().__init__(sim, episode, scene)
        self._skill, self._about, self._carried = "", "", ""
        self.wrong_in_hand = False
        self._refused: dict[str, int] = {}
        """How often another thing was taken than an object."""
        self._offset = np.zeros(3)
        """From the hand to the centre of what it carries, in the hand's axes: where that lay when it was taken."""
        self._gripped: NDArray[np.float64] | None = None
        """Where the hand last held anything in this call; … and what it carries was (m, world)."""
        self._left: NDArray[np.float64] | None = None
        self._from: Vec3 = (0.0, 0.0, 0.0)
        """Where what it carries was taken from (m, world)."""
        self._looked: Look | None = None
        """What was in view when the last call of Pick or Place began."""
        self._now: Look | None = None
        self._missed = ""
        """What Pick was sent for and has not brought, while its place has not been seen since."""
        self._surface_m = {n: scene.receptacle(t.start_receptacle).center[2] for n, t in self._targets.items()}
        """Height of what an object lies on."""
        self._fallen: dict[str, int] = {}
        """Objects on the floor that have not been seen there: how often Navigate has come for them."""
        self._sought: dict[str, int] = {}
        """How often what was lost has been sought again."""
        self._stood: dict[str, tuple[Vec3, float]] = {}
        """Where, and on how high a surface, objects were believed to lie that Pick is taken to have knocked down."""
        self._drawn: dict[str, float] = {}
        """How far drawers (m) and doors (rad) are taken to be open: as last seen, or as Open has left them."""
        self._stowed = dict(self.where)
        """Where what is inside something lies (m, world), were that shut."""
        self._doors = [a for a in scene.articulations if self._facts & {door_atom(a, True), door_atom(a, False)}]
        """Of what holds an object or its goal."""
        self._seen_doors = set[str]()
        """Of these, which have been in view since the last call."""
        self._met: dict[str, Memory] = {}
        """By object, what was in view when it was seen last where it was believed to lie."""
        self._empty: dict[str, Memory] = {}
        """What was in view before an object was placed."""

    def begin(self, skill: str, arguments: Sequence[str]) -> None:
        self._skill, self._about, self._gripped = skill, arguments[0] if arguments else "", None
        self.wrong_in_hand = False
        if skill in ("pick", "place", "put_back"):
            self._looked, self._missed = self._senses.look(), ""

    def watch(self) -> None:
        senses = self._senses
        hand, axes = senses.hand, senses.hand_axes
        for _, name, goal in [a for a in self._facts if a[0] == "confirmed"]:
            if math.dist(hand, self.where[name]) < DISTURBED_M:
                self._facts.discard(("confirmed", name, goal))
        if not senses.holds or self.wrong_in_hand:
            return
        if self._skill == "pick" and not self._carried:
            another = self._is_another(self._about, hand)
            self.wrong_in_hand = another and self._refused.get(self._about, 0) < REFUSALS
            if self.wrong_in_hand:
                self._refused[self._about] = self._refused.get(self._about, 0) + 1
                return
            self._carried, self._from = self._about, self.where[self._about]
            offset = axes.T @ (np.asarray(self.where[self._about]) - hand)
            self._offset = np.array([IN_HAND_M, 0.0, 0.0]) if another else offset
        self._gripped, self._left = hand, hand + axes @ self._offset

    def _is_another(self, name: str, hand: NDArray[np.float64]) -> bool:
        """Whether what the hand has taken hold of is too far from where the object was believed to lie to be that, or
        is rather another one beside it."""
        beside = self._beside(name, hand)
        rather = min((self._beside(other, hand) for other in self.where if other != name), default=math.inf)
        return beside > GRIP_BESIDE_M or rather < beside - NEARER_M

    def _beside(self, name: str, hand: NDArray[np.float64]) -> float:
        """Return how far the hand is outside of an object's radius, along the floor (m); infinite if it is above or
        below it."""
        model, where = object_model(self._targets[name].object), self.where[name]
        level = -GRIP_BELOW_M < hand[2] - where[2] < model.half_extents[2] + GRIP_ABOVE_M
        return math.dist(hand[:2], where[:2]) - model.radius_m if level else math.inf

    def seek_again(self) -> bool:
        lost = [atom[1] for atom in self._facts if atom[0] == "lost" and self._sought.get(atom[1], 0) < SEEKS]
        for name in lost:
            self._sought[name] = self._sought.get(name, 0) + 1
            self._facts.discard(("lost", name))
            self._fallen.pop(name, None)
        return bool(lost)

    def has_to_let_go(self, skill: str) -> bool:
        # A handle is what Open ended with; that another skill has taken hold of one, it cannot tell.
        return (skill.startswith("open") or self.wrong_in_hand) and self._senses.holds

    def update(self, skill: str, arguments: Sequence[str], ended: bool) -> None:
        holds, self._now = self._senses.holds, None
        if self._carried and holds:
            # `holding`: the suction holds something, which is taken to be what the hand was sent for.
            name = self._carried
            self._hold(name)
            self._taken(name)
            self._met.pop(name, None)
        elif self._carried:
            self._let_go_of(self._carried)
        elif skill == "pick":
            self._missed = self._about
            if self.where[self._about][2] < LOWEST_M:
                self._fallen[self._about] = 0  # it may have rolled on
        if skill in ("open_cabinet", "open_fridge") and self._gripped is not None:
            self._drew(self._scene.articulation(arguments[0]), ended)
        self._look_at_doors()
        self._look_about()
        if self._missed:
            self._look_for_missed(self._missed)
        if skill == "look":
            self._look_after(arguments[0])
        came_for = arguments[0] if skill == "navigate" and ended else ""
        if came_for in self.where and came_for != self._carried:
            self._look_where_it_was(came_for)
        self._look_for_fallen()
        self._stands(skill, arguments, ended and not self._seeks(came_for))

    def _let_go_of(self, name: str) -> None:
        """`object_at`: what was carried is within 0.15 m of its goal, where the head's camera sees something new, or,
        if it sees nothing new, was there when the suction's hold ended. Elsewhere it is taken to lie on what is below:
        the furniture that the hand was over, or the floor."""
        assert self._left is not None
        self._hold("")
        self._carried = ""
        self._stood.pop(name, None)
        x, y, z = self._left.tolist()
        if self._skill == "pick":
            self._lies(name, self._seen(name, (x, y)) or (x, y, self._from[2]), False)
        elif self._skill == "place":
            goal = self._targets[name].goal_pos
            near = math.dist((x, y), goal[:2]) < ON_THE_SAME_M
            self._surface_m[name] = self._scene.receptacle(self._targets[name].goal_receptacle).center[2]
            at = self._seen(name, (x, y), floor=not near)
            lies = at or ((x, y, min(z, goal[2])) if near else (x, y, ON_FLOOR_M))
            assert self._looked is not None
            self._empty[name] = Memory(self._looked, dict(self.where))
            self._lies(name, lies, self._at_goal(name, at or (x, y, z)), at is not None)
        else:
            under, placed = lies_on(self._scene, (x, y, z)), False
            if under is not None:
                self._surface_m[name] = under.center[2]
                seen = self._seen(name, (x, y), floor=False) if self._skill == "put_back" else None
                x, y, z = seen or (x, y, under.center[2] + self._height(name) / 2.0)
                placed = math.dist((x, y, z), self._targets[name].goal_pos) < PLACED_M
            self._lies(name, (x, y, ON_FLOOR_M if under is None else z), placed)

    def _lies(self, name: str, place: Vec3, placed: bool, seen: bool = False) -> None:
        if math.dist(place, self.where[name]) > GRIP_BESIDE_M:
            self._refused.pop(name, None)
        super()._lies(name, place, placed, seen)
        self._fallen.pop(name, None)
        self._set(("lost", name), False)
        if name == self._missed:
            self._missed = ""
        if place[2] < LOWEST_M:
            self._fallen[name], self._surface_m[name] = 0, 0.0
            self._facts = {a for a in self._facts if a[:2] != ("in", name)}
        for drawer in (self._scene.articulation(a[2]) for a in self._facts if a[:2] == ("in", name)):
            self._stowed[name] = drawn_out(drawer, -self._drawn.get(drawer.name, 0.0), place)

    def _at_goal(self, name: str, place: Vec3) -> bool:
        """Whether a place is surely near enough to an object's goal."""
        return math.dist(place, self._targets[name].goal_pos) < PLACED_M - UNSURE_M

    def _look(self) -> Look:
        """Return what is in view now that the call is over, but for what is in hand: looked at once."""
        if self._now is None:
            look, senses = self._senses.look(), self._senses
            self._now = look.past(senses.hand) if senses.holds else look
        return self._now

    def _look_for_missed(self, name: str) -> None:
        """Pick has ended with an empty hand: once the head's camera sees that the object's place is empty, it lies
        where something has appeared beside or below that, or else, unless it was sought there in vain, on the floor."""
        x, y, _ = place = self.where[name]
        if not self._look().beyond(np.array([place]))[0] > FREE_M:
            return
        if (at := self._seen(name, (x, y), SHOVED_M)) is not None:
            if at[2] < LOWEST_M <= place[2]:
                self._stood.setdefault(name, (place, self._surface_m[name]))
            self._lies(name, at, False)
        else:
            self._fell(name)

    def _look_where_it_was(self, name: str) -> None:
        """Navigate has come for an object: if its place is seen to be empty it is sought on the floor, unless it was
        sought there in vain."""
        shut_in = any(atom[:2] == ("in", name) for atom in self._facts)
        if name not in self._fallen and not shut_in and self._is_gone(name):
            self._fell(name)

    def _fell(self, name: str) -> None:
        """Take an object to have fallen to the floor, unless it was sought there in vain since it was put down."""
        x, y, _ = place = self.where[name]
        if name not in self._stood and place[2] >= LOWEST_M:
            self._stood[name] = place, self._surface_m[name]
            self._lies(name, (x, y, ON_FLOOR_M), False)

    def _look_about(self) -> None:
        """An object on open furniture is seen where it was believed to lie, or shifted a little; if that place is
        empty, it lies where something has appeared since, beside or below."""
        inside = {atom[1] for atom in self._facts if atom[0] == "in"}
        for name in [n for n in self.where if n not in inside and n not in self._fallen and n != self._carried]:
            place, then = self.where[name], self._met.get(name, self._empty.get(name))
            if (at := self._located(name)) is not None:
                if is_shifted(at, place, self._half(name)):
                    self._lies(name, at, self._at_goal(name, at), True)
                self._meet(name)
            elif self._is_gone(name):
                if then and (at := self._moved(name, then)) is not None:
                    self._lies(name, at, self._at_goal(name, at), True)
            elif -THERE_M < self._look().beyond(np.array([place]))[0] < FREE_M:
                self._meet(name)

    def _meet(self, name: str) -> None:
        """Keep a look at an object, a close one rather than one from far off."""
        look = self._look()
        if name not in self._met or look.is_close(self.where[name]):
            self._met[name] = Memory(look, dict(self.where))

    def _is_gone(self, name: str) -> bool:
        """Whether the camera sees that nothing is where an object was believed to lie, however flat that is; nor lower,
        if it looks along the surface rather than down on it: there the object may have tipped over."""
        look, place = self._look(), self.where[name]
        lower = place[0], place[1], self._surface_m[name] + min(self._half(name))
        nothing_lower = not look.passes_over(lower, self._surface_m[name]) or look.empty(lower)
        return nothing_lower and look.empty(place, min(FREE_M, FLAT * self._height(name)))

    def _located(self, name: str) -> Vec3 | None:
        """Return where the camera sees an object in its place, or shifted a little."""
        return located(self._look(), self.where[name], *self._measures(name))

    def _measures(self, name: str) -> tuple[float, float, Vec3]:
        """Return how high the surface is that an object lies on, how high it stands there, and its half sizes (m)."""
        return self._surface_m[name], self._height(name), self._half(name)

    def _look_at_doors(self) -> None:
        """`opened_…`, `closed_…`: the head's camera sees how far the door or the drawer's front has come. A drawer has
        brought its content along."""
        self._seen_doors.clear()
        for articulation in self._doors:
            position = joint_seen(self._look(), articulation)
            if position is not None:
                self._seen_doors.add(articulation.name)
                self._door(articulation, is_open(articulation, position))
                self._bring_along(articulation, position)

    def _look_after(self, name: str) -> None:
        """`confirmed`: an object that was placed is not seen to be gone. If it is, and is seen nowhere else, it is
        taken to have fallen to the floor."""
        x, y, _ = self.where[name]
        if self._located(name) is None and self._is_gone(name):
            then = self._empty.get(name)
            at = (then and self._moved(name, then)) or (x, y, ON_FLOOR_M)
            self._lies(name, at, self._at_goal(name, at))
        else:
            self._set(("confirmed", name, goal_name(self._targets[name])), True)

    def _look_for_fallen(self) -> None:
        """Correct where objects lie that have fallen to the floor, once the head's camera sees them."""
        for name in sorted(self._fallen):
            if (at := fallen(self._look(), self.where[name][:2], self._half(name))) is not None:
                self.where[name] = at
                del self._fallen[name]
                self._set(("lost", name), False)

    def _seeks(self, name: str) -> bool:
        """Whether Navigate has come for what has fallen and is not to be seen from there: the first time the robot
        backs off, as if it were `stuck`, and looks from there; then it is `lost`, or has not fallen after all."""
        if name not in self._fallen:
            return False
        self._fallen[name] += 1
        if self._fallen[name] > 1 and name in self._stood:
            place, surface = self._stood[name]
            self._lies(name, place, False)
            self._surface_m[name] = surface
        else:
            self._set(("lost", name), self._fallen[name] > 1)
        return True

    def _seen(self, name: str, near: tuple[float, float], within_m: float = NEAR_M, floor: bool = True) -> Vec3 | None:
        """Return where the head's camera sees an object, on its surface or (`floor`) on the floor, that was not there
        when the call began."""
        assert self._looked is not None
        look, (surface, height, half) = self._look(), self._measures(name)
        at = appeared(self._looked, look, near, surface, height, half, within_m) if surface > 0.0 else None
        return at or (fell(self._looked, look, near, half) if floor else None)

    def _moved(self, name: str, then: Memory) -> Vec3 | None:
        """Return where the camera sees an object that was not there `then`, on its surface, another one or the floor.
        The others may have been moved since, too."""
        x, y, _ = self.where[name]
        others = {n: place for n, place in self.where.items() if n != name}
        before = then.look.without([place for n, place in then.where.items() if others.get(n, place) != place])
        own, height, half = self._measures(name)
        for surface in sorted(self._surfaces_at(x, y), key=lambda z: abs(z - own)):
            at = appeared(before, self._look(), (x, y), surface, height, half, SHOVED_M, [*others.values()])
            if at is not None:
                self._surface_m[name] = surface
                return at
        return fell(before, self._look(), (x, y), half, [place for place in others.values() if place[2] < LOWEST_M])

    def _surfaces_at(self, x: float, y: float) -> set[float]:
        """Return how high the furniture is on which something may lie that has been shoved from a place (m)."""
        found = set()
        for r in self._scene.receptacles:
            ahead, left = np.abs(rotated(-r.yaw, np.array((x, y)) - r.center[:2])) - r.half_extents
            if not r.articulation and math.hypot(max(ahead, 0.0), max(left, 0.0)) < SHOVED_M:
                found.add(r.center[2])
        return found

    def _half(self, name: str) -> Vec3:
        """Return an object's half sizes (m)."""
        return object_model(self._targets[name].object).half_extents

    def _height(self, name: str) -> float:
        """Return how high an object stands, or lies, where the episode says that it starts (m)."""
        target = self._targets[name]
        low = target.start_pos[2] - self._scene.receptacle(target.start_receptacle).center[2]
        return object_model(target.object).reaches_m(low)

    def _not_there(self, name: str) -> None:
        """`closed_…`: a drawer or fridge in which the hand does not find what it seeks is taken to be shut, unless its
        door is seen."""
        for atom in [atom for atom in self._facts if atom[0] == "in" and atom[1] == name]:
            articulation = self._scene.articulation(atom[2])
            if articulation.name in self._seen_doors:
                continue
            self._door(articulation, False)
            self._bring_along(articulation, 0.0)

    def _drew(self, articulation: Articulation, ended: bool) -> None:
        """`opened_…`: the call has had the handle and ended by its own rule, or the hand has come far enough with it.
        (A policy may let go early and push on.) A drawer brings its content along, and glides on to where it ends."""
        assert self._gripped is not None
        joint = joint_of(articulation, tuple(self._gripped.tolist()))
        opened = ended or is_open(articulation, joint)
        self._door(articulation, opened)
        if articulation.kind == "cabinet":
            self._bring_along(articulation, widest(articulation) if opened else joint)

    def _bring_along(self, articulation: Articulation, position: float) -> None:
        """Note where the content of a drawer is that is drawn out so far (m); a fridge's has stayed."""
        self._drawn[articulation.name] = position
        for name, place in self._stowed.items():
            if ("in", name, articulation.name) in self._facts:
                self.where[name] = drawn_out(articulation, position, place)
