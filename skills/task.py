"""What all skill tasks share: start states, stepping, force accounting, observations and the measures in `info`.

A task file says the rest: which parts it acts with, what it sees, where it starts, and its reward as small functions
of the state before and after a control step. Numbers: docs/hab.md, "Skill tasks".
"""

from __future__ import annotations

import cmath
import math
from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from hab import sensors
from hab.actions import ARM, BASE, GRIP, STOP, Action, action_space
from hab.backend import make_simulator
from hab.episodes import Target, Unsolvable, lies_on, load_scene, scene_seed, split_number
from hab.mapping import ROUTE_SIZE, LaserMap, on_map
from hab.measures import PLACED_M, ForceSum, rest_distance
from hab.observation_sets import CRITIC_KEYS, CRITIC_STATE, DEFAULT, LASER_MAP, SURROUNDINGS
from hab.openings import rotated
from hab.sampler import EpisodeSampler
from hab.scene import FLOOR, Receptacle, Scene
from hab.sensors import Observation, RobotPose
from hab.simulator import Simulator
from skills import recorded
from skills.oracle.motion import Scripted
from skills.skill import (
    MANIPULATION_STEPS,
    TAKEN,
    Goal,
    Progress,
    Reflex,
    SkillSpec,
    arm_to_rest,
    as_heeded,
    taken_at,
    upwards_of,
)
from skills.starts import Start, StartKind

SUCCESS_REWARD = 10.0
DISTANCE_REWARD = 10.0
"""A metre that Pick, Place and Rearrange bring hand or object nearer; habitat has 2, with which learning takes longer
(docs/training.md)."""
FORCE_PEN_PER_N, FORCE_PEN_MAX_N = 1e-4, 10_000.0
FORCE_END_PEN = 1.0
SHOVED_PEN = 20.0
"""For a metre that Pick and Place shove a thing, or let it fall, topple or roll; farther than what counts as placed it
is lost, and costs no more."""
DROP_PEN = 1.0
"""For a seal that broke (habitat's `constraint_violate_pen`)."""
_ATTEMPTS, _RECORDED_ATTEMPTS = 400, 10
_KIND = 100
"""The attempt whose random numbers also say of which kind the start state is."""


@dataclass
class State:
    """What every task's rewards are functions of; tasks add their own distances. Lengths in m.

    Not frozen, which makes a new one, three times a decision, three times as slow; nothing changes it."""

    held: str
    rest_m: float
    """End-effector to its resting position."""
    seal_broke: bool
    force_added_n: float
    """By how much the contact force rose, if by more than `hab.measures.FORCE_STEP_N`."""
    force_total_n: float
    """Sum of such rises since the start."""


_CRITIC_SIZE = 28
S = TypeVar("S", bound=State)

KEYS: dict[str, slice] = {
    **sensors.SENSED,
    **dict.fromkeys(
        ("obj_start_sensor", "handle_start_sensor", "obj_goal_sensor"), slice(sensors.SIZE, sensors.SIZE + 3)
    ),
    "goal_to_agent_gps_compass": slice(sensors.SIZE + 3, sensors.SIZE + 5),
}
"""habitat-lab's observations, and where they lie in the row of `sensors.sense` for a skill's goal: `goal.position` is
its object's start or goal, its handle when closed, or its navigation target."""
HAND_KEYS = ("joint", "is_holding", "relative_resting_position")
"""What habitat tells every manipulation skill."""
CallMemory = dict[str, Any]
"""What a skill remembers of its sensors' readings since its call began, Navigate in a plan since the episode did."""


class Common(NamedTuple):
    """The fields of `State`, in its order."""

    held: str
    rest_m: float
    seal_broke: bool
    force_added_n: float
    force_total_n: float


class SkillTask(gymnasium.Env[Any, Any], Generic[S]):
    """One skill as a gymnasium environment on a simulator (`hab.backend`).

    `index` fixes the start state; None draws one at each reset. `reset(options={"index": i})` plays start state i.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 30}

    skill: ClassVar[str]
    """Its name."""
    number: ClassVar[int]
    """Seeds its start states: its own, and the same for ever."""
    parts: ClassVar[tuple[str, ...]]
    """Action parts; the base, which others have or not, only if it is nothing without."""
    keys: ClassVar[tuple[str, ...]]
    """habitat-lab's observations besides the range sensors' or the camera's."""
    map_room_m: ClassVar[float] = 0.0
    """With `laser+map` it draws a map, and is told the way on it to its goal (hab/mapping.py): so far (m) it may lead
    beyond its two ends. 0: none is drawn."""
    start_kinds: ClassVar[tuple[StartKind, ...]] = ("wide",)
    """Which kinds of start states (skills/starts.py) it has of its own."""
    max_steps: int = MANIPULATION_STEPS
    critic_measures: ClassVar[tuple[str, ...]] = ()
    """Of its `measures`, those that are part of `CRITIC_STATE`."""
    surroundings_size: ClassVar[int]
    """Numbers in `surroundings`."""
    slack_reward: ClassVar[float] = -0.005
    pays_for_shoving: ClassVar[bool] = False
    """Whether it costs something if things do not stay where they lie (`Shoved`)."""
    force_pen_per_n: ClassVar[float] = FORCE_PEN_PER_N
    force_sum_max_n: float = math.inf
    """Rises of the contact force may add up to so much, or the episode ends."""
    oracle: ClassVar[type[Scripted] | None] = None
    """None: it has none."""
    chain_steps: ClassVar[int] = 0
    """Control steps that a plan grants it; 0: `max_steps`."""

    _state: S

    def __init__(
        self,
        split: str = "train",
        obs: str = DEFAULT,
        base_movement: bool = True,
        index: int | None = None,
        render_mode: str | None = None,
        action_repeat: int = 1,
        starts: StartKind = "wide",
        chain_starts: float = 0.0,
        chain_states: str = "",
        retries: float = 0.0,
        practised: Mapping[str, float] | None = None,
        sim: str = "mujoco",
        depth_noise: bool = False,
        critic_keys: Sequence[str] = (),
    ) -> None:
        """`action_repeat`: control steps that one `step` plays, with one action; fewer where the episode ends or the
        hand takes or loses something, more (unless it is 1) while the task acts itself.

        `depth_noise`: whether the depth image has a real camera's flaws (hab/depth_noise.py).

        `critic_keys`: which of `CRITIC_KEYS` to show, too; they are for training and not for any policy.

        `starts`: which kind of start states the task's own are, "near" for Pick and Place alone.

        `chain_starts`: share of the start states, for training, that are as the chain hands over, not the task's own:
        drawn, or, with a file of `chain_states`, recorded (skills/recorded.py). Then it is the share of the episodes in
        apartments in which the skill was recorded, all of which begin so.

        `retries`: share of the episodes, for training, that are in the same apartment failed ones again, where there
        are such: what is hard is practised more.

        `practised`: by kind of furniture (`Receptacle.kind`; `FLOOR` for none), how much likelier than another one of
        the same episode or apartment a call of Pick or Place is played, for training, whose object lies, or is to lie,
        on that.
        """
        if starts not in self.start_kinds:
            raise ValueError(f"{self.skill} has no start states {starts!r}; choose from {', '.join(self.start_kinds)}")
        for name, share in (("chain_starts", chain_starts), ("retries", retries)):
            if not 0.0 <= share <= 1.0:
                raise ValueError(f"{name}={share}: must lie between 0 and 1")
        if action_repeat < 1:
            raise ValueError(f"action_repeat={action_repeat}: must be at least 1")
        if unknown := set(critic_keys) - set(CRITIC_KEYS):
            raise ValueError(f"no critic_keys {', '.join(sorted(unknown))}; choose from {', '.join(CRITIC_KEYS)}")
        self._recorded = recorded.load(chain_states, self.skill) if chain_states else {}
        self._sampler = EpisodeSampler(split, index, retries, self._recorded, chain_starts)
        self.split, self.obs, self.base_movement = split, obs, base_movement
        self.action_repeat = action_repeat
        self._starts: StartKind = starts
        self._chain_starts = chain_starts
        self._practised = practised or {}
        self.render_mode = render_mode
        self.sim = make_simulator(sim, render_mode == "rgb_array", depth_noise)
        self.action_space = action_space(self.action_parts(base_movement))
        self.observation_space = self.observed_space(obs)
        sizes = {CRITIC_STATE: _CRITIC_SIZE + len(self.critic_measures), SURROUNDINGS: self.surroundings_size}
        told = {key: sensors.vector_space(sizes[key]) for key in critic_keys}
        self.observation_space = spaces.Dict({**self.observation_space.spaces, **told})
        self._critic_keys = tuple(critic_keys)
        self.goal = Goal((0.0, 0.0, 0.0))

    @classmethod
    def action_parts(cls, base_movement: bool) -> tuple[str, ...]:
        """Return the parts it acts with, in the order of its action space."""
        return tuple(p for p in (ARM, GRIP, BASE, STOP) if p in cls.parts or (p == BASE and base_movement))

    @classmethod
    def observed_space(cls, obs: str) -> spaces.Dict:
        """Return the space of what it sees with an observation set."""
        told: dict[str, spaces.Space[Any]] = dict(sensors.exteroception_space(obs))
        told |= {key: _key_space(key) for key in cls.keys}
        if obs == LASER_MAP and cls.map_room_m:
            told["route"] = sensors.vector_space(ROUTE_SIZE)
        return spaces.Dict(told)

    @classmethod
    def observe(cls, sim: Simulator, obs: str, goal: NDArray[np.float64], memory: CallMemory) -> Observation:
        """Read its sensors; `goal` is `Goal.positions`, `memory` what has been so: empty when a call begins,
        and changed here."""
        read = sensors.exteroception(sim, obs)
        row = sensors.sense(sim, goal[:1])
        for key in cls.keys:
            read[key] = row[KEYS[key]]
        if obs == LASER_MAP and cls.map_room_m:
            read["route"] = cls._route(sim, goal[0], read, memory)
        return read

    @classmethod
    def _route(
        cls, sim: Simulator, goal: NDArray[np.float64], read: Observation, memory: CallMemory
    ) -> NDArray[np.float32]:
        """Return the way to a goal (3,) on the map of all that laser and head have seen since the memory began, by
        odometry, but for what the hand holds, by its joints; and of what a planner has marked there."""
        x, y, yaw = moved = odometry(sim, memory)
        if "map" not in memory:
            memory["map"] = LaserMap(cls.map_room_m)
        drawn = memory["map"]
        pose = RobotPose(sim)
        drawn.read(x, y, yaw, read["laser"], read["head_scan"], pose.ee if sim.held else None)
        ahead, left, _ = sensors.in_base_frame(pose, goal)
        return drawn.route(x, y, yaw, on_map(moved, ahead, left))

    # -- in a plan (docs/hab.md, "Planning"): for skills that plans are made of ----------------------------------------

    @classmethod
    def chain_spec(cls) -> SkillSpec:
        """Return it as the chain sees it."""
        steps = cls.chain_steps or cls.max_steps
        return SkillSpec(cls.skill, steps, cls.action_parts(True), cls.ended, cls.achieved, cls.heeded, cls.reflex)

    @staticmethod
    def heeded(sim: Simulator, goal: Goal, action: Action) -> Action:
        """Return what of an action is heeded; it may read the robot's own state and what it was told, nothing else."""
        return action

    @staticmethod
    def reflex(sim: Simulator, goal: Goal) -> Reflex:
        """Return its reflex for a call that begins now; it may read what `heeded` may."""
        return as_heeded

    @staticmethod
    def ended(sim: Simulator, goal: Goal, action: Action, progress: Progress) -> bool:
        """Whether it is over: its own termination rule, asked after each control step."""
        raise NotImplementedError

    @staticmethod
    def achieved(sim: Simulator, goal: Goal) -> bool:
        """Whether its post-condition holds; for measurement only."""
        raise NotImplementedError

    # -- what a task defines ---------------------------------------------------------------------------------------

    @abstractmethod
    def draw(self, scene: Scene, rng: np.random.Generator, index: int, kind: StartKind) -> Iterator[Start]:
        """Yield candidate start states, the preferred first; the first one free of contact is played.

        May raise `Unsolvable`, or yield none: then everything is drawn again.
        """

    @classmethod
    def weight(cls, call: recorded.Recorded) -> float:
        """Return how much likelier than another one a recorded call is to be played, of those in its apartment."""
        return 1.0

    @abstractmethod
    def measure(self, common: Common) -> S:
        """Return the state now; `common` holds the fields every task has."""

    @abstractmethod
    def rewards(self, was: S, now: S) -> dict[str, float]:
        """Return the reward's terms by name, beyond those every task has."""

    @abstractmethod
    def succeeded(self, now: S, action: Action) -> bool: ...

    def success_reward(self, now: S) -> float:
        """Return what a success is worth."""
        return SUCCESS_REWARD

    @abstractmethod
    def failure(self, was: S, now: S, action: Action) -> str:
        """Return why the episode ends without success ("" while it goes on)."""

    @abstractmethod
    def surroundings(self) -> list[float]:
        """Return what of its surroundings the skill hangs on, for an actor's features to predict in training."""

    @abstractmethod
    def measures(self, now: S) -> dict[str, Any]:
        """Return the measures of this skill for `info`, by habitat's names."""

    def acts_itself(self) -> bool:
        """Whether the task moves the robot in the next control step, whatever the action."""
        return False

    def goes_on(self, steps: int, action_repeat: int) -> bool:
        """Whether a decision that has lasted so many control steps lasts longer, unless something ends it: nobody is
        asked for actions that nothing hangs on."""
        return steps < action_repeat or (action_repeat > 1 and self.acts_itself())

    # -- gymnasium -------------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        self._lay_out(self._sampler.draw(self.np_random, options, restart=seed is not None))
        return self.observation(), self._info(self._state, False, "", {})

    def step(self, action: Action) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        terms: dict[str, float] = {}
        held, success, reason = self.sim.held, False, ""
        for step in count(1):
            success, reason = self.control_step(action, terms)
            # Whatever the hand has taken or lost is answered at once.
            if success or reason or self.sim.held != held:
                break
            if not self.goes_on(step, self.action_repeat):
                break
        truncated = reason == "timeout"
        terminated = success or (reason != "" and not truncated)
        if reason:
            self._sampler.failed(self._index)
        info = self._info(self._state, success, reason, terms)
        return self.observation(), float(sum(terms.values())), terminated, truncated, info

    def render(self) -> NDArray[np.uint8] | None:
        """(480, 640, 3) third-person view, if `render_mode` is "rgb_array"."""
        return self.sim.render_rgb(640, 480) if self.render_mode == "rgb_array" else None

    def close(self) -> None:
        self.sim.close()

    @property
    def steps(self) -> int:
        """Control steps since the skill began."""
        return self.sim.steps - self._began

    # -- inside ----------------------------------------------------------------------------------------------------

    def control_step(self, action: Action, total: dict[str, float]) -> tuple[bool, str]:
        """Play one control step and add up its reward's terms; return success, and why the episode ends or ""."""
        action = self._reflex(self.heeded(self.sim, self.goal, action))
        self.sim.step(action)
        was = self._state
        self._state = now = self.measure(self._common(self._force.update(), self._force.total_n))
        success = self.succeeded(now, action)
        reason = "" if success else self.failure(was, now, action)
        terms = self.rewards(was, now)
        terms["slack"] = self.slack_reward
        terms["force"] = -force_penalty(now, self.force_pen_per_n)
        terms["seal_broke"] = -DROP_PEN if now.seal_broke else 0.0
        if self._shoved is not None:
            terms["shoved"] = -SHOVED_PEN * self._shoved.grown()
        if not success and self._force.too_much(self.force_sum_max_n):
            reason = "excessive force"
            terms["force_end"] = -FORCE_END_PEN
        if success:
            terms["success"] = self.success_reward(now)
        if reason:
            # To fail at once must not be the cheapest way to fail, or it is what is learnt first.
            terms["failure"] = self.slack_reward * (self.max_steps - self.steps)
        for name, value in terms.items():
            total[name] = total.get(name, 0.0) + value
        if not success and not reason and self.steps >= self.max_steps:
            reason = "timeout"
        return success, reason

    def _lay_out(self, index: int) -> None:
        """Find start state `index` and put the simulator there: a pure function of skill, variant, split and index."""
        self._index = index
        scene = load_scene(scene_seed(self.split, index))
        variant = [self.number, int(self.base_movement), split_number(self.split), index]
        # With recordings, the apartment says which kind it is (hab/sampler.py).
        chain = not self._recorded and np.random.default_rng([*variant, _KIND]).random() < self._chain_starts
        kind: StartKind = "chain" if chain else self._starts
        for attempt in range(_ATTEMPTS):
            rng = np.random.default_rng([*variant, attempt])
            calls = self._recorded.get(scene.seed) if attempt < _RECORDED_ATTEMPTS else None
            try:
                for start in self._drawn(scene, rng, index, kind, calls):
                    self._begin(start)
                    if start.snapshot is not None or (not self.sim.collides() and self._handed_over()):
                        self._force, self._began = ForceSum(self.sim), self.sim.steps
                        self._shoved = Shoved(self.sim, self.goal.object) if self.pays_for_shoving else None
                        self._state = self.measure(self._common(0.0, 0.0))
                        return
            except Unsolvable:
                continue
        raise RuntimeError(f"no {self.skill} start fits apartment {scene.seed} ({self.split} {index})")

    def _drawn(
        self,
        scene: Scene,
        rng: np.random.Generator,
        index: int,
        kind: StartKind,
        calls: Sequence[recorded.Recorded] | None,
    ) -> Iterator[Start]:
        """Yield candidate start states: one of the recorded calls, if there are such."""
        if calls:
            weights = np.array(
                [self.weight(call) * self._likelier(lies_on(scene, call.goal.position)) for call in calls]
            )
            yield recorded.start_of(calls[int(rng.choice(len(calls), p=weights / weights.sum()))])
        else:
            yield from self.draw(scene, rng, index, kind)

    def _drawn_target(
        self, scene: Scene, targets: Sequence[Target], rng: np.random.Generator, where: Callable[[Target], str]
    ) -> Target:
        """Draw one of an episode's targets; `where` names what it lies on, or is to lie on."""
        if not self._practised:
            return targets[int(rng.integers(len(targets)))]
        weights = np.array([self._likelier(scene.receptacle(where(target))) for target in targets])
        return targets[int(rng.choice(len(targets), p=weights / weights.sum()))]

    def _likelier(self, surface: Receptacle | None) -> float:
        return self._practised.get(FLOOR if surface is None else surface.kind, 1.0)

    def _begin(self, start: Start) -> None:
        self.start, self.goal = start, start.goal
        self._goal_position = self.goal.positions()
        self.sim.reset(start.episode)
        if start.arm is not None:
            self.sim.place_robot(np.array(start.episode.robot), np.array(start.arm))
        if start.snapshot is not None:
            self.sim.restore(start.snapshot)
        elif start.held:
            self.sim.hold(start.held, start.tilt_rad)
        if start.held in start.episode.objects:
            # As if it had been taken from just where it was told to lie, and had stood there.
            x, y, z = self.sim.object_pos(start.held).tolist()
            taken = self.goal.taken or taken_at(self.sim, (x, y, z))
            self.goal = replace(self.goal, taken=taken, up=upwards_of(self.sim, start.held))
        self._reflex = self.reflex(self.sim, self.goal)
        self._memory: CallMemory = self.goal.memory()
        self._posture = np.concatenate((self.sim.base, self.sim.arm))

    def _handed_over(self) -> bool:
        """Play what comes before the start; say whether what is in hand is still there."""
        forward, left, steps = self.start.shove
        grip = np.array([1.0 if self.start.held else -1.0], np.float32)
        for _ in range(steps):
            self.sim.step({BASE: np.array((forward, left), np.float32), GRIP: grip})
        if self.start.arm is not None:
            for action in arm_to_rest(self.sim):
                self.sim.step(action)
        return self.sim.held == self.start.held

    def _common(self, force_added_n: float, force_total_n: float) -> Common:
        sim = self.sim
        return Common(sim.held, rest_distance(sim), sim.dropped, force_added_n, force_total_n)

    def observation(self) -> Observation:
        """Read what it sees now."""
        read = self.observe(self.sim, self.obs, self._goal_position, self._memory)
        if CRITIC_STATE in self._critic_keys:
            read[CRITIC_STATE] = self._critic_state()
        if SURROUNDINGS in self._critic_keys:
            read[SURROUNDINGS] = np.array(self.surroundings(), np.float32)
        return read

    def _critic_state(self) -> NDArray[np.float32]:
        """Return what only the simulator knows, and what most rewards hang on; never part of `observe`.

        The measures, the hand's distance from rest (m), contact forces (kN, and 10 kN for their sum), whether the seal
        broke, the share of the time that is over; where the object, or the handle, and the goal are, in the base's and
        the end-effector's frame (m); how base and arm have moved since the last observation.
        """
        sim, goal, now = self.sim, self.goal, self._state
        pose, measures = RobotPose(sim), self.measures(now)
        place = self._goal_position[0]
        if goal.object:
            place = sim.object_pos(goal.object)
        elif goal.articulation:
            place = sim.handle_pos(goal.articulation)
        aim = self._goal_position[-1]
        posture = np.concatenate((sim.base, sim.arm))
        moved, self._posture = posture - self._posture, posture
        told = [
            *(float(measures[key]) for key in self.critic_measures),
            now.rest_m, sim.force_n / 1e3, now.force_added_n / 1e3, now.force_total_n / 1e4, float(now.seal_broke),
            self.steps / self.max_steps,
            *sensors.in_base_frame(pose, place), *sensors.in_ee_frame(pose, place[None]),
            *sensors.in_base_frame(pose, aim), *sensors.in_ee_frame(pose, aim[None]),
            *moved,
        ]  # fmt: skip
        return np.array(told, np.float32)

    def _info(self, now: S, success: bool, reason: str, terms: dict[str, float]) -> dict[str, Any]:
        return {
            "success": success,
            "reason": reason,
            "index": self._index,
            "num_steps": self.steps,
            "end_effector_to_rest_distance": now.rest_m,
            "robot_force": self.sim.force_n,
            "accumulated_force": now.force_total_n,
            **self.measures(now),
            "reward_terms": terms,
        }


def odometry(sim: Simulator, memory: CallMemory) -> tuple[float, float, float]:
    """Return how the base has moved since the memory began: x, y (m) and yaw (rad) in the frame of its pose then."""
    x0, y0, yaw0 = memory.setdefault("began", sim.base.tolist())
    moved = (complex(*sim.base[:2]) - complex(x0, y0)) * cmath.exp(-1j * yaw0)
    return moved.real, moved.imag, float(sim.base[2]) - yaw0


def on_memorys_map(points: NDArray[np.float64], memory: CallMemory) -> NDArray[np.float64]:
    """Return points (n, 2; world, m) in the frame of the pose at which the memory began, as `odometry` has it."""
    x0, y0, yaw0 = memory["began"]
    return rotated(-yaw0, (points - (x0, y0)).T).T


def from_what_is_held(read: Observation, memory: CallMemory) -> None:
    """Let `obj_goal_sensor` tell where the goal is from the object in hand, as far as the robot knows how it hangs."""
    if TAKEN in memory:
        read["obj_goal_sensor"] = read["obj_goal_sensor"] - memory[TAKEN]


def force_penalty(now: State, per_n: float) -> float:
    """Charge for a rise of the contact force, up to `FORCE_PEN_MAX_N`."""
    return per_n * min(now.force_added_n, FORCE_PEN_MAX_N)


class Shoved:
    """How far a house's objects lie from where they lay when this was made; a call's own object (`name`) from where it
    was last in hand, if it was."""

    def __init__(self, sim: Simulator, name: str) -> None:
        self._sim, self._names = sim, tuple(sim.scene.objects)
        self._own = self._names.index(name)
        self._lay = sim.object_positions(self._names)
        self._in_all_m = 0.0

    def grown(self) -> float:
        """Return what the sum of the distances (m), of each no more than `PLACED_M`, in millimetres, has grown by since
        this was asked last; negative if it has shrunk."""
        lie = self._sim.object_positions(self._names)
        if self._sim.held == self._names[self._own]:
            self._lay[self._own] = lie[self._own]
        moved = np.minimum(np.sqrt(((lie - self._lay) ** 2).sum(axis=1)), PLACED_M)
        before, self._in_all_m = self._in_all_m, to_mm(float(moved.sum()))
        return self._in_all_m - before


def to_mm(difference_m: float) -> float:
    """Round a difference of distances to millimetres, which filters the joints' trembling."""
    return round(difference_m, 3)


def ee_distance(sim: Simulator, position: NDArray[np.float64]) -> float:
    """Distance (m) of the end-effector from a point (3,) of the world."""
    return math.dist(sim.ee_pos.tolist(), position.tolist())


def _key_space(key: str) -> spaces.Box:
    if key == "is_holding":
        return spaces.Box(0.0, 1.0, (1,), np.float32)
    span = KEYS[key]
    return sensors.vector_space(span.stop - span.start)
