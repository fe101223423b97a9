"""Record the states in which an agent's chain hands over to its skills (skills/recorded.py)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from eval.evaluate import EvaluationError, each
from hab.actions import Action
from hab.backend import make_simulator
from hab.episodes import SCENARIOS, make_episode
from hab.scenario_env import MAX_STEPS
from hab.simulator import SimulationError, Simulator, Snapshot
from planner.agent import Agent, chain_limits, load_policies, play_episode, seed_draws
from skills.recorded import SPLIT, Recorded
from skills.skill import Goal, SkillPolicy


@dataclass(frozen=True)
class Played:
    """A recorded episode."""

    calls: list[Recorded]
    success: bool


@dataclass
class _Noting:
    """A skill's policy that notes where its calls begin."""

    skill: str
    policy: SkillPolicy
    note: Callable[[str, Goal, Snapshot], None]

    def reset(self, sim: Simulator, goal: Goal) -> None:
        self.note(self.skill, goal, Snapshot.of(sim))
        self.policy.reset(sim, goal)

    def act(self, sim: Simulator) -> Action:
        return self.policy.act(sim)


def record(
    agent: Agent, obs: str | None, episodes: int, workers: int, on_episode: Callable[[Played], None] | None = None
) -> tuple[list[Recorded], bool]:
    """Play so many training episodes, of each scenario in turn, and return all calls of skills in them, and whether
    Ctrl-C came before the end. Raises `EvaluationError`."""
    calls: list[Recorded] = []
    source = each(partial(_play, agent, obs), workers, range(episodes))
    interrupted = False
    try:
        for played in source:
            calls += played.calls
            if on_episode is not None:
                on_episode(played)
    except KeyboardInterrupt:
        interrupted = True
    finally:
        source.close()
    return sorted(calls, key=lambda call: call.index), interrupted


def _play(agent: Agent, obs: str | None, index: int) -> Played:
    scenario, calls, success = SCENARIOS[index % len(SCENARIOS)], list[Recorded](), False

    def note(skill: str, goal: Goal, snapshot: Snapshot) -> None:
        calls.append(Recorded(skill, scenario, index, goal, snapshot))

    seed_draws(0, index)
    sim = make_simulator()
    try:
        policies = {
            skill: _Noting(skill, policy, note) for skill, policy in load_policies(agent, scenario, obs).items()
        }
        success = play_episode(
            sim, make_episode(scenario, SPLIT, index), agent, policies, chain_limits(MAX_STEPS, {})
        ).success
    except SimulationError:
        pass  # what came before it is as good as any
    except Exception as error:
        said = " ".join(f"{type(error).__name__}: {error}".split())
        raise EvaluationError(f"{scenario}, {SPLIT} episode {index}: {said}") from error
    finally:
        sim.close()
    return Played(calls, success)
