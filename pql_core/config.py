"""Off-policy training's parameters, with Table B.1 of the PQL paper as defaults. No torch here: env workers read it."""

from __future__ import annotations

from dataclasses import dataclass, field

from ver_core.config import (
    MOST_PER_WORKER,
    ConfigError,
    PolicyConfig,
    at_least_one,
    finite,
    not_negative,
    positive,
)  # fmt: skip

LEARNERS = ("ddpg", "sac")
CRITICS = ("double_q", "c51")


@dataclass
class PqlConfig:
    """Everything but the environment and the network. PQL: the defaults. PQL-D: critic=c51. DDPG(n): parallel=false.
    SAC(n): learner=sac parallel=false."""

    parallel: bool = True
    """Actor, V-learner and P-learner as three processes; else one after the other in one: the sequential baselines."""
    learner: str = "ddpg"
    """ddpg: a deterministic policy and added noise; sac: a tanh-Gaussian policy and a learned entropy coefficient."""
    critic: str = "double_q"
    """double_q: two expected returns, the smaller one counts; c51: two categorical distributions (PQL-D)."""
    total_steps: int = 100_000_000
    """Environment steps, of all environments together."""
    num_envs: int = 4096
    """N."""
    envs_per_worker: int = 1
    """Environments that one process steps in turn."""
    min_batch: int = 0
    """Fewest environments that the policy acts for at once, of env workers; 0: half of them, so that the other half
    steps meanwhile. Environments that come as one batch always step together."""
    critic_updates_per_step: float = 8.0
    """1 / beta_a:v: updates of the Q functions for each step of all N environments."""
    critic_updates_per_policy_update: float = 2.0
    """1 / beta_p:v."""
    keep_ratios: bool = True
    """Whether the three processes wait for each other to keep the two ratios; without, each is as fast as it can."""
    batch_size: int = 8192
    """Steps an update learns from."""
    replay_size: int = 5_000_000
    """Steps in the V-learner's buffer, and states in the P-learner's."""
    warmup_steps: int = 32
    """Steps of each environment before learning begins, with actions drawn evenly from their whole range; as many with
    the policy when a run is resumed whose replay was lost."""
    n_step: int = 3
    """Rewards in a target before the Q function takes over."""
    gamma: float = 0.99
    """Discount a step, that is a decision."""
    tau: float = 0.05
    """Share by which the target Q functions move at each update."""
    critic_learning_rate: float = 5e-4
    actor_learning_rate: float = 5e-4
    """Adam's; they stay as they are."""
    max_grad_norm: float = 0.5
    """Gradients are scaled down to this norm."""
    reward_scale: float = 1.0
    """Rewards are multiplied by it before anything is learnt from them (Table B.2)."""
    sigma_min: float = 0.05
    sigma_max: float = 0.8
    """Mixed exploration (DDPG only): environment i of N adds Gaussian noise to actions in [-1, 1], of deviation
    sigma_min + (i - 1) / (N - 1) * (sigma_max - sigma_min); the same for all where both are equal. Action parts with an
    `initial_part_std` have less, and those that are on or off are drawn (pql_core/actions.py)."""
    greedy_envs: int = 0
    """Of the N, the last so many add no noise: their episodes (`greedy/...`) show what the policy itself is worth."""
    greedy_episodes: int = 100
    """Of theirs, the last so many are averaged."""
    atoms: int = 51
    """c51."""
    support_min: float = -10.0
    support_max: float = 10.0
    """c51: bounds of the scaled discounted return."""
    entropy_coef: float = 0.2
    """sac: at the start, in units of scaled rewards."""
    entropy_coef_learning_rate: float = 5e-4
    """sac."""
    target_entropy: float | None = None
    """sac; None: minus the number of action entries (Haarnoja et al. 2018)."""
    half_keys: list[str] = field(default_factory=list)
    """Vector observations that replay keeps in float16 (an error of 0.05 %), besides those with bounds within +-10."""
    save_replay: bool = True
    """Whether stopping saves the V-learner's buffer (replay.pt), for a resume."""
    episodes_per_seed: int = 8
    """An environment is seeded anew every so many episodes."""
    step_timeout_s: float = 60.0
    """An environment that answers no sooner is killed and started again."""
    start_timeout_s: float = 300.0
    """The same for making it."""
    max_restarts: int = 20
    """Env workers restarted, in a row without one episode finished in between, before training stops."""
    seed: int = 0
    """Of the networks' first weights, of what environments draw, and of noise."""
    device: str = "auto"
    """Of all three processes. auto: a GPU if there is one."""
    threads: int = 1
    """CPU threads of each of the three processes."""
    checkpoint_every_s: float = 300.0
    """How often all that a resume needs is saved."""
    log_every_s: float = 5.0
    """How often scalars are written."""

    @property
    def noisy_envs(self) -> int:
        """How many of the environments add noise: the first so many."""
        return self.num_envs - self.greedy_envs

    def check(self) -> None:
        """Raise `ConfigError` at the first senseless value."""
        for name, choices in (("learner", LEARNERS), ("critic", CRITICS)):
            if getattr(self, name) not in choices:
                raise ConfigError(f"pql.{name}={getattr(self, name)}: choose from {', '.join(choices)}")
        finite("pql", self)
        at_least_one("pql", self,
            "total_steps", "num_envs", "envs_per_worker", "batch_size", "n_step", "greedy_episodes",
            "episodes_per_seed", "threads",
        )  # fmt: skip
        not_negative("pql", self, "min_batch", "sigma_min", "greedy_envs", "max_restarts", "seed")
        positive("pql", self,
            "critic_updates_per_step", "critic_updates_per_policy_update", "gamma", "tau", "critic_learning_rate",
            "actor_learning_rate", "max_grad_norm", "reward_scale", "entropy_coef", "entropy_coef_learning_rate",
            "step_timeout_s", "start_timeout_s",
        )  # fmt: skip
        for name in ("gamma", "tau"):
            if getattr(self, name) > 1.0:
                raise ConfigError(f"pql.{name}={getattr(self, name)}: must be 1 at most")
        if min(self.envs_per_worker, self.num_envs) > MOST_PER_WORKER:
            raise ConfigError(f"pql.envs_per_worker={self.envs_per_worker}: must be at most {MOST_PER_WORKER}")
        if self.min_batch > self.num_envs or self.greedy_envs >= self.num_envs:
            raise ConfigError(
                f"pql.num_envs={self.num_envs}: must be at least pql.min_batch and more than pql.greedy_envs"
            )
        if not self.keep_ratios and not self.parallel:
            raise ConfigError("pql.keep_ratios=false: is of three processes; leave it out, or set pql.parallel=true")
        if self.sigma_max < self.sigma_min:
            raise ConfigError(f"pql.sigma_max={self.sigma_max}: is below pql.sigma_min={self.sigma_min}")
        if self.warmup_steps <= self.n_step:
            raise ConfigError(f"pql.warmup_steps={self.warmup_steps}: must be more than pql.n_step={self.n_step}")
        least = self.num_envs * 2 * self.warmup_steps
        if self.replay_size < least:
            raise ConfigError(
                f"pql.replay_size={self.replay_size}: must be num_envs x warmup_steps x 2 = {least} or more"
            )
        if self.atoms < 2 or self.support_min >= self.support_max:
            raise ConfigError("pql.atoms must be 2 or more, and pql.support_min less than pql.support_max")


VERS = {
    "previous_action": False, "rnn_layers": 0, "predicted_keys": [], "teacher_key": "",
}  # fmt: skip
"""Of `PolicyConfig`, what only a recurrent policy has, and what it has to be here."""


def check_network(policy: PolicyConfig) -> None:
    """Raise `ConfigError` where a network is asked for that off-policy training does not have."""
    policy.check()
    for name, value in VERS.items():
        if getattr(policy, name) != value:
            raise ConfigError(f"policy.{name}={getattr(policy, name)}: PQL's policy has no such thing; set {value!r}")
    if not policy.mlp or not policy.critic_mlp:
        raise ConfigError("policy.mlp and policy.critic_mlp: off-policy training needs both, as [512,256,128]")
