"""What the closed loop does when something goes wrong: faults injected into episodes played with oracle skills.

    python benchmarks/faults.py [--episodes 20] [--state sensed oracle]

Each fault happens once, in the middle of a call. The table has success, and how often the plan was made anew. Training
apartments.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np

from eval.statistics import wilson
from hab.episodes import holds, make_episode
from hab.measures import object_placed
from hab.mujoco.simulator import MujocoSimulator
from hab.openings import drawn_out
from hab.scenario_env import MAX_STEPS
from planner.agent import Agent, chain_limits, load_policies, play_episode
from planner.closed_loop import NOT_EXPECTED
from planner.replanning import Replanner
from planner.task_planner import PlanStep

ROOM_M = 1.2
"""Where the robot is put there is so much room around it, for an arm stretched out."""
AFTER_STEPS = 25
"""The fault happens so many control steps into the call."""


def object_taken_away(sim: MujocoSimulator, step: PlanStep) -> None:
    """The object to be picked is out of the house."""
    x, y, _ = sim.object_pos(step.goal.object)
    move(sim, step.goal.object, (x + 40.0, y, 0.1))


def object_moved(sim: MujocoSimulator, step: PlanStep) -> None:
    """The object to be picked stands somewhere else within half a metre, on the same surface if that goes on."""
    x, y, z = sim.object_pos(step.goal.object)
    receptacle = sim.scene.receptacle(sim.episode.target(step.goal.object).start_receptacle)
    cos, sin = np.cos(receptacle.yaw), np.sin(receptacle.yaw)
    along = cos * (y - receptacle.center[1]) - sin * (x - receptacle.center[0])
    shift = -0.5 * np.sign(along or 1.0)
    shift = float(np.clip(along + shift, -receptacle.half_extents[1], receptacle.half_extents[1])) - along
    move(sim, step.goal.object, (x - sin * shift, y + cos * shift, z + 0.005))


def dropped_on_the_way(sim: MujocoSimulator, step: PlanStep) -> None:
    """What is carried falls."""
    sim._release()


def robot_pushed_aside(sim: MujocoSimulator, step: PlanStep) -> None:
    """The robot stands somewhere else, with what it holds."""
    rng = np.random.default_rng(sim.steps)
    free = (sim.nav.sample(rng) for _ in range(1000))
    x, y = next(place for place in free if sim.nav.tall_clearance[sim.nav.cell(*place)] > ROOM_M)
    held, (x0, y0, yaw) = sim._object_qpos[sim.held], sim.base
    sim.data.qpos[sim._base_qpos] = (x, y, yaw)
    sim.data.qpos[held : held + 2] += (x - x0, y - y0)
    mujoco.mj_forward(sim.model, sim.data)


def drawer_shut_again(sim: MujocoSimulator, step: PlanStep) -> None:
    """The drawer or fridge that has been opened is shut; what lies in a drawer goes back with it."""
    target = sim.episode.target(step.goal.object)
    name = sim.scene.receptacle(target.start_receptacle).articulation
    position = sim.joint_pos(name)
    sim.data.qpos[sim._joint_qpos[name]] = 0.0
    articulation = sim.scene.articulation(name)
    if articulation.kind == "cabinet":
        (inside,) = (r for r in sim.scene.receptacles if r.articulation == name)
        for other in sim.episode.objects:
            x, y, z = drawn_out(articulation, -position, tuple(sim.object_pos(other).tolist()))
            if other == target.object or holds(inside, (x, y, z)):
                move(sim, other, (x, y, z))


def wrong_object_in_hand(sim: MujocoSimulator, step: PlanStep) -> None:
    """Another object than the wanted one is in hand."""
    targets = {target.object for target in sim.episode.targets}
    sim.hold(next(name for name in sim.episode.objects if name not in targets))


Fault = Callable[[MujocoSimulator, PlanStep], None]
FAULTS: dict[str, tuple[str, str, Fault | None]] = {
    "none": ("tidy_house", "", None),
    "object taken away": ("tidy_house", "pick", object_taken_away),
    "object moved by 0.5 m": ("tidy_house", "pick", object_moved),
    "dropped on the way": ("tidy_house", "nav goal", dropped_on_the_way),
    "robot pushed aside": ("tidy_house", "place", robot_pushed_aside),
    "drawer shut again": ("set_table", "pick", drawer_shut_again),
    "wrong object in hand": ("tidy_house", "pick", wrong_object_in_hand),
}
"""By name: scenario, the call in whose middle it happens, and what happens."""


def move(sim: MujocoSimulator, name: str, place: tuple[float, float, float]) -> None:
    """Put an object somewhere, still."""
    at = sim._object_qpos[name]
    sim.data.qpos[at : at + 3] = place
    dof = int(sim.model.joint(name).dofadr[0])
    sim.data.qvel[dof : dof + 6] = 0.0
    mujoco.mj_forward(sim.model, sim.data)


def play(fault: str, state: str, index: int) -> tuple[bool, int, int, int]:
    """Play an episode with a fault; return success, objects placed at the end, control steps, and plans made anew."""
    scenario, when, happens = FAULTS[fault]
    agent, sim = Agent("oracle", replan=state), MujocoSimulator()
    episode = make_episode(scenario, "train", index)
    called: list[PlanStep] = []
    since = 0
    done = happens is None

    def on_call(label: str, step: PlanStep) -> None:
        nonlocal since
        called.append(step)
        since = 0

    def on_step(number: int, action: Any, achieved: Any) -> None:
        nonlocal since, done
        since += 1
        step = called[-1]
        kind = step.skill if when != "nav goal" else ("nav goal" if "_goal" in step.action else "")
        fits = kind == when and (when not in ("nav goal", "place") or sim.held != "")
        if not done and fits and since == AFTER_STEPS:
            assert happens is not None
            happens(sim, step)
            done = True

    limits = chain_limits(MAX_STEPS, {})
    result = play_episode(sim, episode, agent, load_policies(agent, scenario), limits, on_step, on_call)
    placed = sum(object_placed(sim, target) for target in episode.targets)
    sim.close()
    return result.success, placed, result.steps, sum(row.why == NOT_EXPECTED for row in result.trace)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--episodes", type=int, default=20)
    parser.add_argument("--state", nargs="+", default=["sensed", "oracle"])
    arguments = parser.parse_args()
    planned: list[float] = []
    original = Replanner.plan

    def timed(self: Replanner, *args: Any) -> Any:
        start = time.perf_counter()
        found = original(self, *args)
        planned.append(time.perf_counter() - start)
        return found

    Replanner.plan = timed  # type: ignore[method-assign]
    print("| fault | state | success | objects placed, mean | control steps, median | plans made anew, mean |")
    print("| --- | --- | --- | --- | --- | --- |")
    for fault in FAULTS:
        for state in arguments.state:
            played = [play(fault, state, index) for index in range(arguments.episodes)]
            won = sum(success for success, _, _, _ in played)
            low, high = wilson(won, len(played))
            rate = f"{won / len(played):.2f} ({low:.2f}–{high:.2f})"
            placed = statistics.mean(count for _, count, _, _ in played)
            steps = statistics.median(steps for _, _, steps, _ in played)
            anew = statistics.mean(anew for _, _, _, anew in played)
            print(f"| {fault} | {state} | {rate} | {placed:.1f} | {steps:.0f} | {anew:.1f} |", flush=True)
    planned.sort()
    print(
        f"\nplanning: {len(planned)} calls, median {1e3 * planned[len(planned) // 2]:.1f} ms, "
        f"99 % below {1e3 * planned[int(0.99 * len(planned))]:.1f} ms"
    )


if __name__ == "__main__":
    main()
