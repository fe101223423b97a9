"""Episodes live in a browser, while they are played: to look into, to pause, to step through, and to drive oneself.

Everything that the visitors do is a change of `_Wishes`, which viser's threads write; the thread that plays reads it
after each control step.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Condition
from typing import Any

import numpy as np
import viser
import viser.uplot

from hab.actions import CONTROL_HZ, SIZES, Action
from hab.episodes import SCENARIOS, SPLITS, make_episode
from hab.mujoco.simulator import MujocoSimulator
from hab.objects import HOUSE_OBJECTS
from hab.observation_sets import LASER
from hab.simulator import SimulationError, Simulator
from planner.agent import (
    Agent,
    check_agent,
    load_policies,
    play_episode,
    play_skill,
    seed_draws,
    steps_of,
)
from planner.chain import Limits
from planner.task_planner import PlanStep, interactions
from planner.trajectory import Log, Played, environment, in_words
from skills import TASKS
from skills.skill import Goal, SkillPolicy
from videos.frame import depth_shades
from videos.live_scene import LiveScene
from videos.render import renders
from videos.teleoperation import KEYS, Keys, Teleoperation

HANDS = "teleoperation"
"""The agent that is whoever watches."""
SPEEDS = {"1/4": 0.25, "1/2": 0.5, "1": 1.0, "2": 2.0, "4": 4.0, "as fast as it goes": 0.0}
FRAME_S, SLOW_S = 1.0 / 20.0, 1.0 / 4.0
"""Between two pictures; between two updates of plots, depth image and text."""
SHOWN = 300
"""Points of a plot."""
STOPPED = "stopped before its end"
"""Why a demonstration that was interrupted has not succeeded."""
PATIENCE = 20
"""A person may take so many times a skill's and an episode's time."""
BEFORE, AFTER = 2, 4
"""Calls that the page shows beside the present one."""
TOLD = {
    "value": "value (what the critic expects)",
    "stop_probability": "probability of stop",
    "grip_probability": "probability of suction",
}
"""What policies say of themselves, by attribute; oracles say nothing, and who has no critic no value."""


@dataclass(frozen=True)
class Choice:
    """What to play."""

    name: str
    """A scenario or a skill."""
    agent: Agent
    """`Agent.skills` may be `HANDS`."""
    split: str
    index: int
    objects: int = HOUSE_OBJECTS
    """In a scenario's house."""


@dataclass
class _Wishes:
    """What the visitors want; all of it under `changed`."""

    choice: Choice
    paused: bool
    speed: float = 1.0
    step: bool = False
    restart: bool = False
    changed: Condition = field(default_factory=Condition)


_FAILURES = (RuntimeError, ValueError, OSError)
"""Of an episode, after which another one can be played: no OpenGL, no room for a start, a replay that goes another way,
a full disk."""


class _Restart(Exception):
    """Another episode is wanted, or the same from its start."""


class Watch:
    """A page on which episodes are played. Serves until `run`'s caller is interrupted."""

    def __init__(
        self,
        choice: Choice,
        limits: Limits,
        obs: str | None = None,
        host: str = "127.0.0.1",
        port: int = 8080,
        paused: bool = False,
        seed: int = 0,
        on_played: Callable[[Played], str] | None = None,
    ) -> None:
        """`on_played`: gets what a person at the keys has played, and says what became of it."""
        # The camera of a visitor who is just leaving.
        warnings.filterwarnings("ignore", message="Queued a .* on a closed connection")
        self._limits, self._obs, self._seed, self._on_played = limits, obs, seed, on_played
        self._server = viser.ViserServer(host=host, port=port, label="tpsrl watch", verbose=False)
        self._sim = MujocoSimulator()
        self._wishes = _Wishes(choice, paused)
        self._keys = Keys()
        self._sees = renders()
        self._policies: Mapping[str, SkillPolicy] = {}
        self._loaded: tuple[Agent, str] | None = None
        self._page = _Page(self._server, self._wishes, self._keys, self._sees)
        self._scene = LiveScene(self._server, self._sim)
        self._page.on_follow(self._follow)

    @property
    def url(self) -> str:
        """Where it is."""
        return f"http://{self._server.get_host()}:{self._server.get_port()}"

    def close(self) -> None:
        """Stop serving."""
        self._server.stop()
        self._sim.close()

    def run(self) -> None:
        """Play what is wanted, again and again, until interrupted."""
        while True:
            with self._wishes.changed:
                self._wishes.restart, choice = False, self._wishes.choice
            self._keys.clear()
            try:
                self._page.ended(self._play(choice))
            except _Restart:
                continue
            except _FAILURES as error:
                self._page.failed(" ".join(str(error).split()))
            with self._wishes.changed:
                while not self._wishes.restart:
                    self._wishes.changed.wait(0.5)  # an interrupt comes through between waits

    # -- playing ---------------------------------------------------------------------------------------------------

    def _play(self, choice: Choice) -> str:
        """Play one episode; return what it came to."""
        self._load(choice)
        seed_draws(self._seed, choice.index)
        self._last_frame = self._last_slow = 0.0
        self._due = time.monotonic()
        return self._play_scenario(choice) if choice.name in SCENARIOS else self._play_skill(choice)

    def _load(self, choice: Choice) -> None:
        if self._loaded == (choice.agent, choice.name):
            return
        self._page.status("loading …")
        if choice.agent.skills == HANDS:
            hands = Teleoperation(self._keys, self._idle)
            self._policies = dict.fromkeys(TASKS, hands)
        else:
            check_agent(choice.agent, choice.name, self._obs)
            self._policies = load_policies(choice.agent, choice.name, self._obs)
        self._loaded = (choice.agent, choice.name)

    def _play_scenario(self, choice: Choice) -> str:
        sim, agent = self._sim, choice.agent
        episode = make_episode(choice.name, choice.split, choice.index, choice.objects)
        sim.reset(episode)
        steps = [] if agent.replan else steps_of(agent, episode, sim.scene)
        planned = [in_words(step, episode, sim.scene) for step in steps]
        self._begin(choice, planned, interactions(episode))
        limits = self._limits
        if agent.skills == HANDS:
            limits = Limits(PATIENCE * limits.episode, {k: PATIENCE * v for k, v in limits.skills.items()})
        log, ended, success, reason = Log(sim, tuple(SIZES)), "", False, STOPPED

        def on_call(label: str, step: PlanStep) -> None:
            log.on_call(label, step)
            self._page.call(label, in_words(step, episode, sim.scene))
            self._goal, self._skill = step.goal, step.skill

        def on_step(number: int, action: Action, done: Sequence[bool]) -> None:
            log.on_step(number, action, done)
            self._page.done(done)
            self._after_step(sim)

        try:
            result = play_episode(sim, episode, agent, self._policies, limits, on_step, on_call)
            success, reason = result.success, f"{result.failed_skill}: {result.reason}"
            ended = "whole task done" if success else reason
        except SimulationError as error:
            ended = reason = str(error)
        finally:
            self._show(sim, slow=True)
            self._keep(log, choice, success, "" if success else reason)
        return ended

    def _play_skill(self, choice: Choice) -> str:
        agent, skill = choice.agent, choice.name
        env = environment(skill, choice.split, LASER, agent.skill_nav)
        task: Any = env.unwrapped
        sim: MujocoSimulator = task.sim
        task.sim = self._sim  # the one that is shown
        ended, success, reason = "", False, STOPPED
        try:
            env.reset(seed=0, options={"index": choice.index})
            if agent.skills == HANDS:
                task.max_steps *= PATIENCE
            step = PlanStep(f"({skill})", skill, task.goal, "")
            log = Log(self._sim, tuple(env.action_space.spaces))  # type: ignore[attr-defined]
            log.on_call("1", step)
            words = in_words(step, self._sim.episode, self._sim.scene)
            self._begin(choice, [words], [])
            self._page.call("1/1", words)
            self._goal, self._skill = task.goal, skill

            def on_step(action: Action) -> None:
                log.on_step(0, action, ())
                self._after_step(self._sim)

            try:
                row = play_skill(skill, env, self._policies[skill], on_step)
                success, reason = row.outcome == "success", row.reason
                ended = row.reason or row.outcome
            except SimulationError as error:
                ended = reason = str(error)
            finally:
                self._show(self._sim, slow=True)
                self._keep(log, choice, success, reason)
        finally:
            sim.close()
        return ended

    def _begin(self, choice: Choice, planned: Sequence[str], names: Sequence[str]) -> None:
        """Show the episode that the simulator was just reset to."""
        self._goal, self._skill = Goal((*self._sim.base[:2].tolist(), 0.0)), ""
        self._scene.lay_out(self._sim.episode)
        self._page.begin(choice, planned, names)
        self._show(self._sim, slow=True)

    def _keep(self, log: Log, choice: Choice, success: bool, reason: str) -> None:
        """Hand over what a person has played; what is begun anew is nobody's."""
        if self._on_played is None or choice.agent.skills != HANDS or self._wishes.restart:
            return
        agent = choice.agent
        played = log.played(choice.name, HANDS, choice.split, choice.index, agent.skill_nav, success, reason)
        if not len(played):
            return
        try:
            self._page.recorded(self._on_played(played))
        except _FAILURES as error:  # not raised here: the episode's own end, or Ctrl-C, would be lost
            self._page.recorded(f"the demonstration is not kept: {' '.join(str(error).split())}")

    def _after_step(self, sim: MujocoSimulator) -> None:
        """Keep the time, show what is due, and do what the visitors want."""
        wishes, now = self._wishes, time.monotonic()
        speed = wishes.speed
        if speed:
            self._due = max(self._due + 1.0 / (CONTROL_HZ * speed), now - 0.1)
            if self._due > now:
                time.sleep(self._due - now)
        self._page.waits = False
        self._show(sim)
        self._check(sim)

    def _idle(self) -> None:
        """Wait a moment for a person at the keys."""
        self._page.waits = True
        if time.monotonic() - self._last_slow >= SLOW_S:
            self._show(self._sim, slow=True)
        time.sleep(0.01)
        self._due = time.monotonic()
        self._check(self._sim)

    def _check(self, sim: MujocoSimulator) -> None:
        """Raise `_Restart` if that is wanted; stay here while it is paused."""
        wishes = self._wishes
        with wishes.changed:
            if wishes.paused and not wishes.step and not wishes.restart:
                self._show(sim, slow=True)
                while wishes.paused and not wishes.step and not wishes.restart:
                    wishes.changed.wait(0.5)
                self._due = time.monotonic()
            wishes.step = False
            if wishes.restart:
                raise _Restart

    def _show(self, sim: MujocoSimulator, slow: bool = False) -> None:
        now = time.monotonic()
        if slow or now - self._last_frame >= FRAME_S:
            self._last_frame = now
            self._scene.update(self._goal)
        self._page.sample(sim.steps, self._policies.get(self._skill))
        if slow or now - self._last_slow >= SLOW_S:
            self._last_slow = now
            self._page.show(sim, sim.depth() if self._sees else None)

    def _follow(self, follows: bool) -> None:
        self._scene.follows = follows


class _Page:
    """What is beside the picture."""

    def __init__(self, server: viser.ViserServer, wishes: _Wishes, keys: Keys, sees: bool) -> None:
        self._server, self._wishes = server, wishes
        gui, choice = server.gui, wishes.choice
        gui.configure_theme(control_layout="fixed", control_width="large", dark_mode=False)
        self._status = gui.add_markdown("")
        self._kept = gui.add_markdown("", visible=False)
        with gui.add_folder("Time"):
            self._pause = gui.add_button("Pause" if not wishes.paused else "Play", hint="Key: P")
            step = gui.add_button("One step", hint="Key: N. One control step, 1/30 s, while it is paused.")
            self._speed = gui.add_dropdown("Speed", tuple(SPEEDS), initial_value="1")
            follow = gui.add_checkbox("Camera goes with the robot", initial_value=True)
        self._follow = follow
        with gui.add_folder("Plan"):
            self._plan = gui.add_markdown("")
        with gui.add_folder("Head depth, 0 to 5 m"):
            if sees:
                self._depth = gui.add_image(np.zeros((256, 256, 3), np.uint8), format="jpeg")
            else:
                gui.add_markdown("No OpenGL works here: `tpsrl doctor` says more.")
        with gui.add_folder("Policy"):
            self._silent = gui.add_markdown("A script: it has no value and no probabilities.")
            self._plots = {
                told: gui.add_uplot(
                    (np.zeros(2), np.zeros(2)),
                    ({"label": "step"}, {"label": title, "stroke": "#2a6fdb", "width": 2}),
                    title=title,
                    scales={"x": {"time": False}, **({} if told == "value" else {"y": {"range": (0.0, 1.0)}})},
                    aspect=2.5,
                    visible=False,
                )
                for told, title in TOLD.items()
            }
        with gui.add_folder("Episode"):
            self._name = gui.add_dropdown("Task", (*SCENARIOS, *TASKS), initial_value=choice.name)
            skills = choice.agent.skills
            agents = ("zoo", "oracle", HANDS, "folder")
            self._agent = gui.add_dropdown("Agent", agents, initial_value=skills if skills in agents else "folder")
            self._folder = gui.add_text("Folder of runs", "" if skills in agents else skills)
            self._split = gui.add_dropdown("Split", SPLITS, initial_value=choice.split)
            self._index = gui.add_number("Episode", choice.index, min=0, step=1)
            reset = gui.add_button("Reset", hint="Key: X. Begin the chosen episode.")
        with gui.add_folder("Keys of teleoperation", expand_by_default=choice.agent.skills == HANDS):
            gui.add_markdown(
                "\n".join(f"- **{key}** {words}" for key, words in KEYS.values())
                + "\n\nHold a key to go on. Nothing moves while no key is pressed."
            )
        self._pause.on_click(lambda _: self._toggle())
        step.on_click(lambda _: self._one_step())
        self._speed.on_update(lambda _: self._set_speed())
        reset.on_click(lambda _: self._reset())
        commands: list[tuple[str, Any, Callable[[], None]]] = [
            ("Pause, play", "P", self._toggle),
            ("One step", "N", self._one_step),
            ("Reset", "X", self._reset),
        ]
        commands += [(words, key, partial(keys.press, name)) for name, (key, words) in KEYS.items()]
        for words, key, act in commands:
            gui.add_command(words, hotkey=key).on_trigger(lambda _, act=act: act())
        self._samples: dict[str, list[tuple[int, float]]] = {}
        self._said = ""
        self.waits = False
        """Whether nothing moves because no key is pressed."""

    def on_follow(self, tell: Callable[[bool], None]) -> None:
        """Let `tell` know whether the camera is to go with the robot."""
        self._follow.on_update(lambda _: tell(self._follow.value))

    # -- wishes ----------------------------------------------------------------------------------------------------

    def _toggle(self) -> None:
        with self._wishes.changed:
            self._wishes.paused = not self._wishes.paused
            self._wishes.changed.notify_all()
            self._pause.label = "Play" if self._wishes.paused else "Pause"

    def _one_step(self) -> None:
        with self._wishes.changed:
            self._wishes.step = self._wishes.paused
            self._wishes.changed.notify_all()

    def _set_speed(self) -> None:
        with self._wishes.changed:
            self._wishes.speed = SPEEDS[self._speed.value]

    def _reset(self) -> None:
        skills = self._folder.value if self._agent.value == "folder" else self._agent.value
        with self._wishes.changed:
            was = self._wishes.choice
            self._wishes.choice = replace(
                was,
                name=self._name.value,
                agent=replace(was.agent, skills=skills),
                split=self._split.value,
                index=int(self._index.value),
            )
            self._wishes.restart = True
            self._wishes.changed.notify_all()

    # -- what is shown ---------------------------------------------------------------------------------------------

    def begin(self, choice: Choice, planned: Sequence[str], names: Sequence[str]) -> None:
        """Begin an episode: its plan in words (empty where it is made as one goes) and its interactions."""
        self._choice, self._planned, self._names = choice, list(planned), names
        self._calls: list[str] = []
        self._ticks: tuple[bool, ...] = (False,) * len(names)
        self._samples = {told: [] for told in TOLD}
        self.waits = False
        self._write_plan()

    def call(self, label: str, words: str) -> None:
        """Show that a call of a skill begins."""
        self._calls.append(f"{label} {words}")
        self._write_plan()

    def done(self, done: Sequence[bool]) -> None:
        """Tick interactions off."""
        if tuple(done) != self._ticks:
            self._ticks = tuple(done)
            self._write_plan()

    def _write_plan(self) -> None:
        """Write what was called last, what is being played and what comes next."""
        lines = [f"✓ {call}" for call in self._calls[:-1]][-BEFORE:]
        lines += [f"**▶ {call}**" for call in self._calls[-1:]]
        now = len(self._calls)
        ahead = self._planned[now : now + AFTER]
        lines += [f"· {now + 1 + i}/{len(self._planned)} {words}" for i, words in enumerate(ahead)]
        lines += ["…"] if len(self._planned) > now + AFTER else []
        ticks = " ".join(f"{'☑' if done else '☐'} {name}" for name, done in zip(self._names, self._ticks, strict=True))
        self._plan.content = (f"{ticks}\n\n" if ticks else "") + "  \n".join(lines)

    def sample(self, step: int, policy: SkillPolicy | None) -> None:
        """Take what a policy says of itself now."""
        for told, points in self._samples.items():
            value = getattr(policy, told, None)
            if value is not None and np.isfinite(value) and (not points or points[-1][0] != step):
                points.append((step, float(value)))

    def show(self, sim: Simulator, depth: Any) -> None:
        """Bring text, image and plots up to date."""
        choice = self._choice
        x, y, _ = sim.base
        self.status(
            f"{choice.name}, {choice.split} episode {choice.index}, {choice.agent.skills}: step {sim.steps}"
            + (", paused" if self._wishes.paused else ", waits for a key" if self.waits else "")
            + f"  \nbase at ({x:.2f}, {y:.2f}) m"
            + (f", holds {sim.held}" if sim.held else "")
        )
        if depth is not None:
            self._depth.image = np.repeat(depth_shades(depth).repeat(2, 0).repeat(2, 1)[:, :, None], 3, axis=2)
        for told, points in self._samples.items():
            plot, recent = self._plots[told], points[-SHOWN:]
            if len(recent) > 1:
                steps, values = (np.array(column, np.float64) for column in zip(*recent, strict=True))
                plot.data = (steps, values)
            if plot.visible != (len(recent) > 1):
                plot.visible = len(recent) > 1
        silent = not any(len(points) > 1 for points in self._samples.values())
        if self._silent.visible != silent:
            self._silent.visible = silent

    def status(self, text: str) -> None:
        """Say how things are."""
        if text != self._said:
            self._status.content = self._said = text

    def ended(self, said: str) -> None:
        """Say what an episode came to."""
        self.status(f"{self._said}  \n**ended: {said}**")

    def failed(self, said: str) -> None:
        """Say why nothing is played."""
        self.status(f"**{said}**")

    def recorded(self, said: str) -> None:
        """Say what became of a demonstration."""
        self._kept.content, self._kept.visible = said, True
