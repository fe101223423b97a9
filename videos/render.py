"""Episodes as mp4 files.

An episode is first played without drawing, so that its length is known and the film can be sped up to fit, and then
replayed from the recorded actions (the simulator is deterministic), drawing every k-th control step.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import imageio.v2 as imageio
import numpy as np
from numpy.typing import NDArray

from hab.actions import CONTROL_HZ, Action
from hab.backend import make_simulator
from hab.episodes import Episode, make_episode
from hab.mujoco.gl import RenderingUnavailable, make_gl_context
from hab.objects import HOUSE_OBJECTS
from hab.observation_sets import LASER
from hab.simulator import Simulator
from planner.agent import Agent, load_policies, play_episode, play_skill, seed_draws
from planner.chain import Limits
from planner.task_planner import PlanStep, interactions
from skills.skill import Goal
from videos.frame import compose
from videos.overlays import overlays

OnFrame = Callable[[int, int], None]
"""Called after each frame with the frames done and in all."""


@dataclass(frozen=True)
class Style:
    """How a video looks."""

    height: int
    """Pixels of the pictures, a multiple of 48; the third-person view is 4:3."""
    fps: int
    max_s: int
    """The film is sped up, by a whole number of control steps a frame, to be no longer than this."""


@dataclass(frozen=True)
class Moment:
    """One control step, as the second pass needs it; the last one of a film is its end, which is held for a while."""

    action: Action
    caption: str
    goal: Goal
    done: tuple[bool, ...]
    """Interactions achieved so far; at the end, all of them."""


def prepare_rendering() -> None:
    """Raise `RenderingUnavailable` where no OpenGL back end works; let software GL draw with every core.

    Only the process that films draws with threads: simulators running side by side are faster without. Mesa reads the
    number once, with the first context, so this comes before any other drawing.
    """
    before = os.environ.get("LP_NUM_THREADS")
    os.environ["LP_NUM_THREADS"] = before or str(os.cpu_count() or 1)
    try:
        make_gl_context(16, 16).free()
    finally:
        if before is None:
            del os.environ["LP_NUM_THREADS"]


def renders() -> bool:
    """Say whether an OpenGL back end works here, as `prepare_rendering` does."""
    try:
        prepare_rendering()
    except RenderingUnavailable:
        return False
    return True


def render_scenario(
    scenario: str,
    split: str,
    index: int,
    obs: str | None,
    agent: Agent,
    limits: Limits,
    style: Style,
    out: Path,
    on_frame: OnFrame,
    seed: int = 0,
    simulator: str = "mujoco",
    objects: int = HOUSE_OBJECTS,
    depth_noise: bool = False,
) -> tuple[bool, list[dict[str, Any]]]:
    """Film one episode of a scenario; return whether it succeeded, and its trace rows.

    `seed`: of what the skills draw, as in the evaluation that it is to show.
    """
    if simulator == "mujoco":  # habitat-sim draws by itself, and not beside another OpenGL
        prepare_rendering()
    sim = make_simulator(simulator, True, depth_noise)
    episode = make_episode(scenario, split, index, objects=objects)
    moments: list[Moment] = []
    caption, goal = "", Goal((0.0, 0.0, 0.0))

    def call(label: str, step: PlanStep) -> None:
        nonlocal caption, goal
        caption, goal = f"{label}  {step.skill}  {step.action}", step.goal

    def record(number: int, action: Action, done: Sequence[bool]) -> None:
        moments.append(Moment(action, caption, goal, tuple(done)))

    try:
        seed_draws(seed, index)
        result = play_episode(sim, episode, agent, load_policies(agent, scenario, obs), limits, record, call)
        sim.reset(episode)
        ending = "whole task done" if result.success else f"{result.failed_skill}: {result.reason}"
        moments.append(Moment({}, ending, moments[-1].goal, tuple(result.interactions)))
        _write(sim, episode, moments, interactions(episode), sim.step, style, out, on_frame)
    finally:
        sim.close()
    return result.success, result.trace_rows()


def render_skill(
    skill: str,
    split: str,
    index: int,
    obs: str | None,
    agent: Agent,
    style: Style,
    out: Path,
    on_frame: OnFrame,
    seed: int = 0,
    simulator: str = "mujoco",
    depth_noise: bool = False,
) -> tuple[bool, list[dict[str, Any]]]:
    """Film one start state of a skill's own task; return whether it succeeded, and its single trace row.

    `seed`: as `render_scenario`'s.
    """
    from skills import make_env

    if simulator == "mujoco":
        prepare_rendering()
    env = make_env(
        skill,
        split=split,
        obs=LASER,
        base_movement=agent.skill_nav,
        index=index,
        render_mode="rgb_array",
        sim=simulator,
        depth_noise=depth_noise,
    )
    task: Any = env.unwrapped
    moments: list[Moment] = []
    try:
        env.reset(seed=0)
        goal: Goal = task.goal
        policy = load_policies(agent, skill, obs)[skill]
        seed_draws(seed, index)
        row = play_skill(skill, env, policy, lambda a: moments.append(Moment(a, skill, goal, ())))
        env.reset(seed=0)
        moments.append(Moment({}, f"{skill}: {row.reason or row.outcome}", goal, ()))
        _write(task.sim, task.sim.episode, moments, [], env.step, style, out, on_frame)
    finally:
        env.close()
    return row.outcome == "success", [asdict(row)]


def _write(
    sim: Simulator,
    episode: Episode,
    moments: Sequence[Moment],
    names: Sequence[str],
    advance: Callable[[Action], object],
    style: Style,
    out: Path,
    on_frame: OnFrame,
) -> None:
    """Replay the moments from the present state, write every k-th as a frame, and hold the last, which is not played.

    The file is there only when it is complete.
    """
    *played, end = moments
    room = style.fps * style.max_s
    held = max(1, min(style.fps, room // 5))
    stride = max(1, math.ceil(len(played) / max(1, room - held)))
    speed = stride * style.fps / CONTROL_HZ
    frames = math.ceil(len(played) / stride) + held

    def picture(moment: Moment, caption: str) -> NDArray[np.uint8]:
        rgb = sim.render_rgb(style.height * 4 // 3, style.height, overlays(sim, episode, moment.goal))
        return compose(rgb, sim.depth(), caption, list(zip(names, moment.done, strict=True)))

    with open_film(style, out) as film:
        for step, moment in enumerate(played):
            advance(moment.action)
            if step % stride and step + 1 < len(played):
                continue
            film.append_data(picture(moment, f"{moment.caption}   step {step + 1}   x{speed:g}"))
            on_frame(min(step // stride + 1, frames - held), frames)
        last = picture(end, f"{end.caption}   step {len(played)}")
        for _ in range(held):
            film.append_data(last)
        on_frame(frames, frames)


@contextmanager
def open_film(style: Style, out: Path) -> Iterator[Any]:
    """Open a film that gets its name when it is complete, and is gone if it never is."""
    # The default preset takes twice the time for the same size.
    encoding: dict[str, Any] = {
        "codec": "libx264",
        "quality": 7,
        "macro_block_size": 16,
        "output_params": ["-preset", "veryfast"],
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_name(f".{out.stem}.part.mp4")
    film: Any = imageio.get_writer(part, fps=style.fps, **encoding)
    try:
        yield film
    except BaseException:
        with suppress(Exception):  # the encoder may have got the Ctrl-C, too
            film.close()
        part.unlink(missing_ok=True)
        raise
    film.close()
    part.replace(out)
