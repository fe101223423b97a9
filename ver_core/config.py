"""The training core's parameters, with Table A1 of the VER paper as defaults. No torch here: env workers read it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any


class ConfigError(ValueError):
    """A parameter that makes no sense; the message is one line that says how to mend it."""


def at_least_one(section: str, config: Any, *names: str) -> None:
    """Raise `ConfigError` at the first of these values that is less."""
    _refuse(section, config, names, lambda value: value < 1, "must be at least 1")


def not_negative(section: str, config: Any, *names: str) -> None:
    """Raise `ConfigError` at the first of these values that is negative."""
    _refuse(section, config, names, lambda value: value < 0, "must not be negative")


def positive(section: str, config: Any, *names: str) -> None:
    """Raise `ConfigError` at the first of these values that is not positive."""
    _refuse(section, config, names, lambda value: value <= 0, "must be positive")


def finite(section: str, config: Any) -> None:
    """Raise `ConfigError` at the first number of a configuration that is not finite."""
    numbers = [name for name, value in vars(config).items() if isinstance(value, float)]
    _refuse(section, config, numbers, lambda value: not math.isfinite(value), "must be finite")


def _refuse(section: str, config: Any, names: Iterable[str], bad: Callable[[float], bool], must: str) -> None:
    for name in names:
        if bad(value := getattr(config, name)):
            raise ConfigError(f"{section}.{name}={value}: {must}")


TANH_SCALES = (0.05, 0.2)
SCHEDULERS = ("ver", "nover", "ddppo", "async")
MOST_PER_WORKER = 200
"""Environments in a process: each needs a pipe of its own, and Python hands a new process no more than 256."""


@dataclass
class PolicyConfig:
    """The network (ver_core/policy.py)."""

    visual: str = "small"
    """Encoder of images: small (three convolutions), slim (the same with fewer channels, which learns in half of
    the time on a processor) or paper (half-width ResNet18 with some of ConvNeXt's changes)."""
    visual_size: int = 512
    """Features that an image becomes."""
    scan_keys: list[str] = field(default_factory=list)
    """1-D observations to be read by a 1-D convolution; all others go in as vectors."""
    scan_size: int = 64
    """Features that a scan becomes."""
    mlp: list[int] = field(default_factory=list)
    """Hidden layers between the concatenated features and the LSTM (or the heads)."""
    rnn_layers: int = 2
    """LSTM layers; 0: a feed-forward policy."""
    rnn_size: int = 512
    normalize_vectors: bool = False
    """Whether observations that go in as vectors are normalised by their running mean and deviation."""
    tanh_keys: list[str] = field(default_factory=list)
    """Vectors of floats that also go in through tanh(x / scale) at `TANH_SCALES`: small differences near 0 then count
    like large ones farther off."""
    angle_keys: list[str] = field(default_factory=list)
    """Vectors of floats whose last entry is an angle (rad): its cosine and sine go in, too, which do not jump where it
    does."""
    gating_keys: list[str] = field(default_factory=list)
    """Observations of one entry, 0 or 1: each has first-layer weights of its own, in force while it is 1; another set
    is in force while the first of them is 0."""
    critic_mlp: list[int] = field(default_factory=list)
    """Hidden layers of a critic with a network of its own, which reads all vectors of floats, normalised. None: actor
    and critic share all but their last layer."""
    critic_keys: list[str] = field(default_factory=list)
    """Vectors of floats that only the critic reads (asymmetric actor-critic, Pinto et al. 2018): what is known in
    training only. The policy in use is built without them."""
    predicted_keys: list[str] = field(default_factory=list)
    """Of `critic_keys`, those that the actor's last layer but one learns to predict besides (`train.prediction_coef`):
    an auxiliary task, whose head is no part of the policy in use either."""
    teacher_key: str = ""
    """Of `critic_keys`, the vector that holds what a teacher would do (`ActionDistribution.opinion`), to be imitated
    (`train.teacher_coef`); "": there is none."""
    cpc_steps: int = 0
    """Steps ahead that CPC|A predicts (ver_core/cpc.py), an auxiliary task of a recurrent policy with an encoder, whose
    network is no part of the policy in use; 0: none."""
    previous_action: bool = True
    """Whether the last action is an input (zeros, and no choice, at an episode's start)."""
    heads: dict[str, str] = field(default_factory=dict)
    """Action part (name; "" for a plain action) -> gaussian (a box's default) or bernoulli: one choice an entry between
    the bounds of the box, for parts that the environment reads as on or off."""
    initial_std: float = 1.0
    """Of the Gaussian heads; a learned parameter, the same in every state."""
    initial_part_std: dict[str, float] = field(default_factory=dict)
    """Action part -> its own `initial_std`."""
    initial_bias: dict[str, Any] = field(default_factory=dict)
    """Action part ("" for a plain action) -> bias of its head's outputs at the start, one number for all or a list: a
    gaussian's mean, a bernoulli's logit, or the logits of a Discrete's choices."""

    def check(self) -> None:
        """Raise `ConfigError` at the first senseless size; the rest depends on the spaces and is checked with them."""
        sizes = {name: getattr(self, name) for name in ("visual_size", "scan_size", "rnn_size")}
        layers = {"mlp": self.mlp, "critic_mlp": self.critic_mlp}
        sizes |= {f"{name}[{i}]": size for name, hidden in layers.items() for i, size in enumerate(hidden)}
        for name, size in sizes.items():
            if size < 1:
                raise ConfigError(f"policy.{name}={size}: must be at least 1")
        if self.critic_keys and not self.critic_mlp:
            raise ConfigError("policy.critic_keys: only a critic of its own can read them; set policy.critic_mlp too")
        for name in self.predicted_keys:
            if name not in self.critic_keys:
                raise ConfigError(
                    f"policy.predicted_keys: {name} is none of policy.critic_keys; add it there, or leave it out here"
                )
        if self.teacher_key and self.teacher_key not in self.critic_keys:
            raise ConfigError(
                f"policy.teacher_key={self.teacher_key}: is none of policy.critic_keys; add it there, or leave it out"
            )
        if self.cpc_steps < 0:
            raise ConfigError(f"policy.cpc_steps={self.cpc_steps}: must not be negative")
        if self.cpc_steps and not self.rnn_layers:
            raise ConfigError("policy.cpc_steps: predicts from what an LSTM remembers; set policy.rnn_layers, too")
        if self.rnn_layers < 0:
            raise ConfigError(f"policy.rnn_layers={self.rnn_layers}: must be 0 (no LSTM) or more")


@dataclass
class TrainConfig:
    """Everything but the environment and the network."""

    total_steps: int = 500_000_000
    """Environment steps, of all workers together."""
    scheduler: str = "ver"
    """Who may step when, and which steps make a rollout (docs/training.md): one of `SCHEDULERS`."""
    overlap: bool = False
    """Collect the next rollout with the old weights while learning (HTS-RL); ver and nover only."""
    num_envs: int = 16
    """N, per learning process."""
    envs_per_worker: int = 1
    """Environments that one process steps in turn; several save time where cores are few, and fall together."""
    rollout_length: int = 128
    """T: a rollout is T x N steps."""
    epochs: int = 3
    """Times that PPO goes over a rollout."""
    mini_batches: int = 2
    """Parts of a rollout, a gradient step for each."""
    critic_warmup: int = 0
    """Rollouts from which only a critic of its own learns, at the start: for first weights that come without one. The
    first one, where nothing is normalised yet, tells but of the observations' statistics, and counts."""
    sequence_length: int = 0
    """Steps that gradients flow back through an LSTM: sequences are cut into pieces of so many (truncated
    back-propagation through time), which also learn faster on a CPU; 0: whole, except at the mini-batches' edges."""
    clip: float = 0.2
    """PPO: how far the ratio of new to old probabilities counts, 1 - clip to 1 + clip."""
    gamma: float = 0.99
    """Discount a step, that is a decision: with an action repeat of 3, a tenth of a second here."""
    gae_lambda: float = 0.95
    """GAE: 0 trusts the critic, 1 the returns."""
    value_coef: float = 0.5
    """Weight of the critic's squared error."""
    prediction_coef: float = 0.5
    """Weight of the squared error of `policy.predicted_keys`, in units of their deviations."""
    cpc_coef: float = 0.1
    """Weight of CPC|A's loss (`policy.cpc_steps`)."""
    teacher_coef: float = 0.0
    """Weight of the divergence from what the teacher of `policy.teacher_key` would do, at the start; it falls linearly
    to nothing at total_steps (kickstarting, Schmitt et al. 2018)."""
    normalize_advantage: bool = False
    """To mean 0 and deviation 1, over the rollouts of all processes."""
    max_grad_norm: float = 0.5
    """Gradients are scaled down to this norm."""
    learning_rate: float = 2.5e-4
    """Adam's, at the start."""
    final_learning_rate: float = 0.0
    """At total_steps; cosine in between."""
    std_learning_rate: float = 2.5e-4
    """Of the Gaussian heads' log deviations at the start; it falls as `learning_rate` does. Adam moves a parameter by
    about its rate, whatever the gradient: at a network's rate a deviation hardly changes in a million steps."""
    entropy_coef_learning_rate: float = 2.5e-4
    """The same of the entropy coefficient's logarithm, if it is learned."""
    adam_eps: float = 1e-5
    """Added to Adam's denominator."""
    entropy_coef: float = 1e-3
    """Weight of the policy's entropy; at the start, if it is learned."""
    learn_entropy_coef: bool = True
    """Whether that weight is learned, so that the entropy does not fall below `target_entropy` (VER, section 4: minimum
    entropy constraint)."""
    entropy_coef_min: float = 1e-4
    entropy_coef_max: float = 1.0
    """Its bounds, if it is learned."""
    target_entropy: float = 0.0
    """In nats, of all parts of an action together."""
    sampling_weight_max: float = 1.0
    """Truncation of the importance weights T / n_i that undo VER's preference for fast environments; 0: no weights."""
    min_batch: int = 1
    """Fewest requests that an inference worker takes at once (all that are running, if those are fewer)."""
    max_batch: int = 0
    """Most; 0: num_envs."""
    inference_workers: int = 1
    """Threads of this process that run the policy, the main one included."""
    max_policy_lag: int = 1
    """async: rollouts that may wait for the learner. It bounds how old the data is that is learnt from, but for the one
    step that each environment had in flight."""
    preempt: bool = True
    """Several processes: end the rollouts of stragglers early."""
    sync_fraction: float = 0.6
    """ddppo: the share of processes that have to be done before the others are preempted."""
    episodes_per_seed: int = 8
    """An environment is seeded anew every so many episodes, which bounds what a resume has to replay."""
    step_timeout_s: float = 60.0
    """An environment that answers no sooner is killed and started again."""
    start_timeout_s: float = 300.0
    """The same for making it and for a resume's replay."""
    max_restarts: int = 20
    """Env workers restarted, in a row without one episode finished in between, before training stops."""
    seed: int = 0
    """Of the network's first weights, of what environments draw, and of actions."""
    device: str = "auto"
    """auto: a GPU if there is one (LOCAL_RANK's of several)."""
    learner_threads: int = 0
    """CPU threads while learning; 0: half of the cores (shared between the processes of a machine)."""
    checkpoint_every_s: float = 300.0
    """How often all that a resume needs is saved."""
    log_every_s: float = 5.0
    """How often scalars are written."""

    def check(self) -> None:
        """Raise `ConfigError` at the first senseless value."""
        if self.scheduler not in SCHEDULERS:
            raise ConfigError(f"train.scheduler={self.scheduler}: choose from {', '.join(SCHEDULERS)}")
        if self.overlap and self.scheduler not in ("ver", "nover"):
            raise ConfigError(f"train.overlap=true works with scheduler ver or nover, not with {self.scheduler}")
        at_least_one("train", self,
            "total_steps", "num_envs", "envs_per_worker", "rollout_length", "epochs", "mini_batches", "min_batch",
            "inference_workers", "max_policy_lag", "episodes_per_seed",
        )  # fmt: skip
        not_negative("train", self,
            "max_batch", "max_restarts", "seed", "learner_threads", "value_coef", "prediction_coef", "cpc_coef",
            "teacher_coef", "final_learning_rate", "sampling_weight_max", "sequence_length", "critic_warmup",
        )  # fmt: skip
        finite("train", self)
        if min(self.envs_per_worker, self.num_envs) > MOST_PER_WORKER:
            raise ConfigError(f"train.envs_per_worker={self.envs_per_worker}: must be at most {MOST_PER_WORKER}")
        steps = self.num_envs * self.rollout_length
        if steps % self.mini_batches:
            raise ConfigError(
                f"train.mini_batches={self.mini_batches}: num_envs x rollout_length = {steps} steps do not divide into "
                "as many equal mini-batches"
            )
        if self.max_batch and self.max_batch < self.min_batch:
            raise ConfigError(f"train.max_batch={self.max_batch}: less than train.min_batch={self.min_batch}")
        if self.scheduler == "ddppo" and (self.max_batch or self.num_envs) < self.num_envs:
            raise ConfigError("train.max_batch: ddppo steps all environments at once; leave it at 0")
        positive("train", self,
            "clip", "gamma", "learning_rate", "std_learning_rate", "entropy_coef_learning_rate", "adam_eps",
            "max_grad_norm", "entropy_coef_min", "step_timeout_s", "start_timeout_s",
        )  # fmt: skip
        if not 0.0 < self.gamma <= 1.0 or not 0.0 <= self.gae_lambda <= 1.0:
            raise ConfigError("train.gamma and train.gae_lambda must lie between 0 and 1")
        if not 0.0 < self.sync_fraction <= 1.0:
            raise ConfigError(f"train.sync_fraction={self.sync_fraction}: must lie in (0, 1]")
        if self.entropy_coef_min > self.entropy_coef_max:
            raise ConfigError("train.entropy_coef_min is above train.entropy_coef_max")
        low, high = (self.entropy_coef_min, self.entropy_coef_max) if self.learn_entropy_coef else (0.0, float("inf"))
        if not low <= self.entropy_coef <= high:
            raise ConfigError(
                f"train.entropy_coef={self.entropy_coef}: must not be negative, and, if it is learned, must lie within "
                "train.entropy_coef_min and train.entropy_coef_max"
            )
