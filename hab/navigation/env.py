"""The navigation tasks as gymnasium environments, without physics (docs/navigation.md)."""

from __future__ import annotations

import math
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from hab import robot
from hab.navigation import NAVIGATION_IDS, TASKS
from hab.navigation.apartment import CATEGORIES, load_apartment
from hab.navigation.episodes import NavigationEpisode, make_navigation_episode
from hab.navigation.geodesic import Field
from hab.navigation.measures import soft_spl, spl
from hab.navigation.motion import move
from hab.navigation.noise import noisy_depth, noisy_laser, noisy_motion
from hab.navigation.topdown import TopDownMap
from hab.sampler import EpisodeSampler

STOP, FORWARD, LEFT, RIGHT = ACTIONS = range(4)
FORWARD_M = 0.25
TURNS_DEG = (10, 30)
MAX_STEPS = 500
SUCCESS_M = 0.2
"""PointNav succeeds where stop is called with less of the way left."""
REACH_M = 1.5
"""What lies beyond is not what was found."""
VIEW_RAD = math.radians(robot.HEAD_CAMERA_FOV_DEG) / 2
SENSORS = ("laser", "depth", "rgb")
LASER, DEPTH, RGB = SENSORS
SUCCESS_REWARD, SLACK_REWARD = 2.5, -0.01
"""DD-PPO, section 4: 2.5 SPL at the end, and at every step what was made good of the way (m) and the slack."""
FLEE_REWARD, EXPLORE_REWARD = 5.0, 0.25
"""DD-PPO, section 6: of the farthest that one can get from the start, and of each new cube of 1 m."""

Observation = dict[str, NDArray[Any]]


class NavigationEnv(gymnasium.Env[Any, Any]):
    """One navigation task. Actions: 0 stop, 1 forward 0.25 m, 2 and 3 turn left and right.

    obs: what it sees, `laser`, `depth` or `rgb`. gps: whether it knows where it is, by its start (GPS+Compass).
    turn_deg: 10 or 30. noise: of motion and sensors (hab/navigation/noise.py). in_view: ObjectNav succeeds only with an
    instance before the camera. `index` fixes the episode; None draws one at each reset; `reset(options={"index": i})`
    plays episode i. Rendering is the top-down map.
    """

    metadata: dict[str, Any] = {"render_modes": ["rgb_array"], "render_fps": 10}

    def __init__(
        self,
        task: str = "pointnav",
        split: str = "train",
        obs: str = LASER,
        gps: bool = True,
        index: int | None = None,
        turn_deg: int = 10,
        noise: bool = False,
        in_view: bool = False,
        render_mode: str | None = None,
    ) -> None:
        choices: dict[str, tuple[Any, tuple[Any, ...]]] = {
            "task": (task, TASKS),
            "obs": (obs, SENSORS),
            "turn_deg": (turn_deg, TURNS_DEG),
        }
        for name, (value, allowed) in choices.items():
            if value not in allowed:
                raise ValueError(f"{name}={value!r}: choose from {', '.join(map(str, allowed))}")
        if in_view and task != "objectnav":
            raise ValueError(f"in_view: {task} looks for nothing; leave it out")
        self.task, self.split, self.obs, self.gps, self.render_mode = task, split, obs, gps, render_mode
        self._sampler = EpisodeSampler(split, index)
        self.turn_rad, self._noise, self._in_view = math.radians(turn_deg), noise, in_view
        self.action_space = spaces.Discrete(len(ACTIONS))
        self.observation_space = spaces.Dict(observation_spaces(task, obs, gps))
        self.pose = np.zeros(3)
        """x, y (m) and yaw (rad) in the world."""

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        super().reset(seed=seed)
        index = self._sampler.draw(self.np_random, options, restart=seed is not None)
        self.episode: NavigationEpisode = make_navigation_episode(self.task, self.split, index)
        self.apartment = load_apartment(self.episode.scene_seed)
        self.pose[:] = self.episode.start
        self._start = self.episode.start
        self._start_cos, self._start_sin = math.cos(self._start[2]), math.sin(self._start[2])
        self.steps = self.collisions = 0
        self.path_m = 0.0
        """Way made so far."""
        self.success = False
        self._begin()
        self._map = TopDownMap(self) if self.render_mode == "rgb_array" else None
        observation = self._observe()
        if self._map is not None:
            self._map.note(self)
        return observation, self._info()

    def step(self, action: int) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        self.steps += 1
        if action == STOP:
            self.success = self.at_goal()
            reward = self._reward() + (SUCCESS_REWARD * self._spl() if self._has_goal else 0.0)
            return self._observe(), reward, True, False, self._info()
        forward_m, left_m, turn_rad = FORWARD_M if action == FORWARD else 0.0, 0.0, 0.0
        if action != FORWARD:
            turn_rad = self.turn_rad if action == LEFT else -self.turn_rad
        if self._noise:
            forward_m, left_m, turn_rad = noisy_motion(self.np_random, forward_m, turn_rad)
        pose, apartment = self.pose, self.apartment
        if forward_m or left_m:
            x, y, _ = pose.tolist()
            self.collisions += move(apartment.free, apartment.frame, pose, forward_m, left_m)
            self.path_m += math.dist((x, y), pose[:2].tolist())
        if turn_rad:
            pose[2] = math.remainder(pose[2] + turn_rad, math.tau)
        reward = self._reward()
        observation = self._observe()
        if self._map is not None:
            self._map.note(self)
        return observation, reward, False, self.steps >= MAX_STEPS, self._info()

    def render(self) -> NDArray[np.uint8] | None:
        """(height, width, 3): the top-down map, if `render_mode` is "rgb_array"."""
        return None if self._map is None else self._map.draw(self)

    def to_goal_m(self) -> float:
        """Way left (m) to the goal; in Flee, back to the start."""
        x, y, _ = self.pose.tolist()
        return self.apartment.distance(self._field, x, y)

    @property
    def field(self) -> Field:
        """Distances to the goal; in Flee, to the start."""
        return self._field

    def shortest_path(self) -> NDArray[np.float64]:
        """Shortest way from here: (n, 2) its corners, world (m); in tasks with a goal."""
        x, y, _ = self.pose.tolist()
        return self.apartment.path(self._field, x, y)

    @property
    def _has_goal(self) -> bool:
        return self.task in ("pointnav", "objectnav")

    # The tasks' own -----------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        episode, apartment = self.episode, self.apartment
        x, y, _ = episode.start
        match self.task:
            case "pointnav":
                assert episode.goal is not None
                self._field = apartment.field(apartment.cell(*episode.goal))
                self._goal_polar = self._polar(*episode.goal)
            case "objectnav":
                self._field = apartment.field(episode.category)
                self._category = np.array([name == episode.category for name in CATEGORIES], np.float32)
            case "flee":
                self._field = apartment.field(apartment.cell(x, y))
                self._farthest_m = float(self._field.distance_m[apartment.free].max())
            case _:
                self._cubes = {(math.floor(x), math.floor(y))}
        self._before = 0.0 if self.task == "explore" else self.to_goal_m()

    def _reward(self) -> float:
        """Reward the step that has just been made, but for the success."""
        if self.task == "explore":
            x, y, _ = self.pose.tolist()
            known = len(self._cubes)
            self._cubes.add((math.floor(x), math.floor(y)))
            return EXPLORE_REWARD * (len(self._cubes) - known)
        before, self._before = self._before, self.to_goal_m()
        if self.task == "flee":
            return FLEE_REWARD * (self._before - before) / self._farthest_m
        return before - self._before + SLACK_REWARD

    def at_goal(self) -> bool:
        """Whether stop succeeds here."""
        return self.near_goal() and (not self._in_view or self._sees_category())

    def near_goal(self) -> bool:
        """Whether it is near enough to stop, wherever it looks."""
        if self.task == "pointnav":
            return self._before < SUCCESS_M
        if self.task != "objectnav":
            return False
        x, y, _ = self.pose.tolist()
        return bool(self.apartment.found(self.episode.category)[self.apartment.cell(x, y)])

    def _sees_category(self) -> bool:
        """Whether some part of an instance within reach lies before the camera."""
        x, y, yaw = self.pose.tolist()
        left, low, size = self.apartment.frame.tolist()
        rows, columns = np.nonzero(self.apartment.footprint(self.episode.category))
        dx, dy = left + (columns + 0.5) * size - x, low + (rows + 0.5) * size - y
        ahead, aside = np.cos(yaw) * dx + np.sin(yaw) * dy, np.cos(yaw) * dy - np.sin(yaw) * dx
        return bool(((np.hypot(dx, dy) < REACH_M) & (np.abs(np.arctan2(aside, ahead)) < VIEW_RAD)).any())

    def _spl(self) -> float:
        return spl(self.success, self.episode.geodesic_m, self.path_m)

    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = {
            "num_steps": self.steps,
            "collisions": self.collisions,
            "path_length": self.path_m,
            "index": self.episode.index,
        }
        match self.task:
            case "flee":
                info["flee_distance"] = self._before / self._farthest_m
            case "explore":
                info["visited"] = len(self._cubes)
            case _:
                info["success"] = self.success
                info["spl"] = self._spl()
                info["softspl"] = soft_spl(self.episode.geodesic_m, self._before, self.path_m)
                info["distance_to_goal"] = self._before
        return info

    # Sensors ------------------------------------------------------------------------------------------------------

    def _observe(self) -> Observation:
        observation: Observation = {}
        match self.obs:
            case "laser":
                self.ranges = self.apartment.shapes.laser(self.pose)
                if self._noise:
                    self.ranges = noisy_laser(self.np_random, self.ranges, robot.LASER_MAX_M)
                observation[LASER] = self.ranges
            case "depth":
                image = self.apartment.camera.depth(self.pose)
                observation[DEPTH] = noisy_depth(self.np_random, image, robot.DEPTH_MAX_M) if self._noise else image
            case _:
                observation[RGB] = self.apartment.camera.rgb(self.pose)
        if self.task == "objectnav":
            observation["objectgoal"] = self._category.copy()
            if self.gps:
                x, y, yaw = self.pose.tolist()
                dx, dy = x - self._start[0], y - self._start[1]
                c, s = self._start_cos, self._start_sin
                observation["gps"] = np.array((c * dx + s * dy, c * dy - s * dx), np.float32)
                observation["compass"] = np.array((math.remainder(yaw - self._start[2], math.tau),), np.float32)
        elif self.gps:
            goal = self.episode.goal
            observation[WITH_GPS] = np.zeros(2, np.float32) if goal is None else self._polar(*goal)
        else:
            observation[WITHOUT_GPS] = self._goal_polar.copy() if self.task == "pointnav" else np.zeros(2, np.float32)
        return observation

    def _polar(self, goal_x: float, goal_y: float) -> NDArray[np.float32]:
        """Return distance (m) and bearing (rad, left is positive) of a world point (habitat-lab: PointGoalSensor)."""
        x, y, yaw = self.pose.tolist()
        dx, dy = goal_x - x, goal_y - y
        angle = math.remainder(math.atan2(dy, dx) - yaw, math.tau)
        return np.array((math.hypot(dx, dy), angle), np.float32)


WITH_GPS, WITHOUT_GPS = "pointgoal_with_gps_compass", "pointgoal"
"""Distance and bearing of the goal from here, and from the start. Flee and Explore have zeros there, so that a policy
of PointNav can go on with them (DD-PPO, footnote 7)."""


def observation_spaces(task: str, obs: str, gps: bool) -> dict[str, spaces.Space[Any]]:
    """Return the observations' keys and spaces."""
    size = robot.DEPTH_SIZE
    far = spaces.Box(-np.inf, np.inf, (2,), np.float32)
    seen: dict[str, spaces.Space[Any]] = {
        LASER: spaces.Box(0.0, 1.0, (robot.LASER_RAYS,), np.float32),
        DEPTH: spaces.Box(0.0, 1.0, (size, size, 1), np.float32),
        RGB: spaces.Box(0, 255, (size, size, 3), np.uint8),
    }
    found: dict[str, spaces.Space[Any]] = {obs: seen[obs]}
    if task == "objectnav":
        found["objectgoal"] = spaces.Box(0.0, 1.0, (len(CATEGORIES),), np.float32)
        return found | {"gps": far, "compass": spaces.Box(-math.pi, math.pi, (1,), np.float32)} if gps else found
    return found | {WITH_GPS if gps else WITHOUT_GPS: far}


def make_navigation_env(task: str, **options: Any) -> gymnasium.Env[Any, Any]:
    """Return a task's environment; `options` are `NavigationEnv`'s.

    For env workers: whoever forks them imports this module, and what it runs, once.
    """
    return gymnasium.make(NAVIGATION_IDS[task], **options)
