"""Proximal policy optimisation on a rollout: returns, mini-batches, loss, step (paper, sections 2.2, 4, Table A1)."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ver_core.config import ConfigError, TrainConfig
from ver_core.distributed import World
from ver_core.policy import Output, RecurrentPolicy
from ver_core.returns import gae, sampling_weights, vtrace
from ver_core.rollout import Rollout
from ver_core.sequences import Packed, mini_batches, pack, split


class LearningFailure(RuntimeError):
    """The optimisation went wrong for good; the message is one line."""


class Interrupted(Exception):
    """Learning was broken off between two mini-batches; the learner has to be restored from a snapshot."""


class Learner:
    """The policy's optimiser, and the entropy coefficient that it learns with it."""

    def __init__(self, policy: RecurrentPolicy, config: TrainConfig, device: torch.device, world: World) -> None:
        self.policy, self.config, self._device, self._world = policy, config, device, world
        log_coef = math.log(config.entropy_coef) if config.entropy_coef > 0.0 else -math.inf
        self.log_entropy_coef = nn.Parameter(torch.tensor(log_coef, device=device))
        critic = list(policy.critic.parameters()) if policy.critic else []
        stds = [parameter for name, parameter in policy.named_parameters() if name.endswith("log_std")]
        if config.critic_warmup and not critic:
            raise ConfigError(
                f"train.critic_warmup={config.critic_warmup}: actor and critic share their network; set "
                "policy.critic_mlp, or leave it at 0"
            )
        apart = {id(parameter) for parameter in critic}
        self._clipped = [[p for p in policy.parameters() if id(p) not in apart], critic]
        """Parameters whose gradients are clipped together: the actor's; those of a critic of its own."""
        apart = {id(parameter) for parameter in stds}
        network = [parameter for parameter in policy.parameters() if id(parameter) not in apart]
        groups: list[dict[str, Any]] = [
            {"params": network, "lr": config.learning_rate},
            {"params": stds, "lr": config.std_learning_rate},
            {"params": [self.log_entropy_coef], "lr": config.entropy_coef_learning_rate},
        ]
        self._rates = [float(group["lr"]) for group in groups]
        self.optimizer = torch.optim.Adam(groups, eps=config.adam_eps, fused=True)
        self.rng = np.random.default_rng((config.seed, world.rank, 2))
        self.version = 0
        """Updates made; the version of the weights."""

    def update(self, rollout: Rollout, progress: float, stop: Callable[[], bool] = lambda: False) -> dict[str, float]:
        """Learn from a rollout; returns what to log.

        `progress` in [0, 1] is how much of the training is over (learning rate, a teacher's weight). `stop` is asked
        before each mini-batch: `Interrupted` if it says so. Raises `LearningFailure` if a loss or gradient is not
        finite.
        """
        config = self.config
        rate = learning_rate(config, progress)
        share = rate / config.learning_rate if config.learning_rate > 0.0 else 0.0
        for group, initial in zip(self.optimizer.param_groups, self._rates, strict=True):
            group["lr"] = initial * share
        with torch.no_grad():
            self.estimate_returns(rollout)
        rows = rollout.rows(multiple_of=config.mini_batches)
        columns = self._columns(rollout, rows)
        sequences = split(rollout.sequences_of(rows), config.sequence_length)
        lag, ages = self.version - rollout.version[rows], rollout.ages(rows)
        sums: dict[str, torch.Tensor] = {}
        for _ in range(config.epochs):
            for packed in mini_batches(sequences, config.mini_batches, self.rng):
                if stop():
                    raise Interrupted
                for name, value in self._step(rollout, packed, columns, progress).items():
                    sums[name] = sums.get(name, torch.zeros((), device=self._device)) + value
        # Only now: the probabilities that were stored with the steps are of the network with the old normalisation.
        fresh = slice(rollout.size)
        self.policy.learn_normalization(rollout.wide["floats"][fresh], rollout.wide["bytes"][fresh], self._world)
        self.version += 1
        names, count = list(sums), config.epochs * config.mini_batches
        means = dict(zip(names, (torch.stack([sums[n] for n in names]) / count).tolist(), strict=True))
        return {
            **means,
            "entropy_coef": math.exp(self.log_entropy_coef.item()),
            "learning_rate": rate,
            "explained_variance": _explained_variance(rollout),
            "policy_lag_mean": float(lag.mean()),
            "policy_lag_max": float(lag.max()),
            "stale_fraction": float((ages > 0).mean()),
            "stale_age_max": float(ages.max()),
        }

    def observe(self, rollout: Rollout) -> None:
        """Take only the observations' statistics from a rollout, before anything has been learnt."""
        rows = slice(rollout.size)
        self.policy.learn_normalization(rollout.wide["floats"][rows], rollout.wide["bytes"][rows], self._world)
        self.version += 1

    def estimate_returns(self, rollout: Rollout) -> None:
        """Fill in the advantages and value targets of the fresh steps."""
        rows, config = slice(rollout.size), self.config
        sequences = rollout.sequences()
        reward, value, next_value = rollout.reward[rows], rollout.value[rows], rollout.next_value[rows]
        if config.scheduler == "async":
            packed = pack(sequences)
            out = self._evaluate(rollout, packed)
            current, log_ratio = np.empty_like(value), np.empty_like(value)
            actions = rollout.wide["action"][torch.from_numpy(packed.rows).to(self._device)]
            current[packed.rows] = out.value.cpu().numpy()
            log_ratio[packed.rows] = out.distribution.log_prob(actions).cpu().numpy()
            log_ratio -= rollout.log_prob[rows]
            rollout.target[rows], rollout.advantage[rows] = vtrace(
                reward, current, next_value, log_ratio, sequences, config.gamma, config.gae_lambda
            )
        else:
            advantage = gae(reward, value, next_value, sequences, config.gamma, config.gae_lambda)
            rollout.advantage[rows], rollout.target[rows] = advantage, advantage + value

    def snapshot(self) -> dict[str, Any]:
        """Copy all that learning changes."""
        return copy.deepcopy(
            {
                "policy": self.policy.state_dict(),
                "optimizer": self.optimizer.state_dict(),
                "log_entropy_coef": self.log_entropy_coef.data,
                "rng": _plain_rng(self.rng),
                "version": self.version,
            }
        )

    def restore(self, saved: dict[str, Any]) -> None:
        """Go back, or on, to a snapshot."""
        self.policy.load_state_dict(saved["policy"])
        self.optimizer.load_state_dict(saved["optimizer"])
        self.log_entropy_coef.data.copy_(saved["log_entropy_coef"])
        state = self.rng.bit_generator.state
        self.rng.bit_generator.state = {**state, **_rng_state(saved["rng"])}
        self.version = int(saved["version"])

    # -- inside ----------------------------------------------------------------------------------------------------

    def _columns(self, rollout: Rollout, rows: NDArray[np.int64]) -> dict[str, torch.Tensor]:
        """Move what the loss needs of each step to the device."""
        config = self.config
        weight = np.ones(rollout.capacity, np.float32)
        if config.scheduler == "ver" and config.sampling_weight_max > 0.0:
            weight[rows] = sampling_weights(
                rollout.env[rows], config.num_envs, config.rollout_length, config.sampling_weight_max
            )
        advantage = rollout.advantage.copy()
        if config.normalize_advantage:
            advantage[rows] = _normalized(advantage[rows], self._world)
        columns = {"log_prob": rollout.log_prob, "advantage": advantage, "target": rollout.target, "weight": weight}
        return {name: torch.from_numpy(column).to(self._device) for name, column in columns.items()}

    def _evaluate(self, rollout: Rollout, packed: Packed) -> Output:
        rows = torch.from_numpy(packed.rows).to(self._device)
        wide = rollout.wide
        state = wide["state"][torch.from_numpy(packed.heads).to(self._device)]
        batch_sizes = torch.from_numpy(packed.batch_sizes)
        return self.policy(wide["floats"][rows], wide["bytes"][rows], wide["previous_action"][rows], state, batch_sizes)

    def _step(
        self, rollout: Rollout, packed: Packed, columns: dict[str, torch.Tensor], progress: float
    ) -> dict[str, torch.Tensor]:
        """Make one optimiser step on one mini-batch."""
        config = self.config
        rows = torch.from_numpy(packed.rows).to(self._device)
        out = self._evaluate(rollout, packed)
        log_prob = out.distribution.log_prob(rollout.wide["action"][rows])
        entropy = out.distribution.entropy().mean()
        old_log_prob, advantage = columns["log_prob"][rows], columns["advantage"][rows]
        target, weight = columns["target"][rows], columns["weight"][rows]

        # Schulman et al. 2017, equation 7; each step weighted for VER's sampling (paper, section 4).
        log_ratio = log_prob - old_log_prob
        ratio = log_ratio.exp()
        clipped = ratio.clamp(1.0 - config.clip, 1.0 + config.clip)
        policy_loss = -(weight * torch.minimum(ratio * advantage, clipped * advantage)).mean()
        value_loss = 0.5 * (weight * (out.value - target).square()).mean()
        # Minimum-entropy constraint (Haarnoja et al. 2018, section 5): alpha grows while the entropy is below target.
        coefficient = self.log_entropy_coef.exp()
        loss = config.value_coef * value_loss
        logged: dict[str, torch.Tensor] = {}
        if out.predicted is not None and self.policy.critic is not None:
            missed = out.predicted - self.policy.critic.truth(rollout.wide["floats"][rows])
            prediction_loss = 0.5 * missed.square().mean()
            logged["prediction_loss"] = prediction_loss.detach()
        if self.policy.cpc is not None and out.belief is not None and out.encoded is not None:
            actions = self.policy.cpc_action(rollout.wide["action"][rows])
            cpc_loss = self.policy.cpc(out.belief, out.encoded, actions, packed.batch_sizes, self.rng)
            logged["cpc_loss"] = cpc_loss.detach()
        if self.policy.critic is not None and self.policy.critic.teacher is not None:
            opinion = rollout.wide["floats"][:, self.policy.critic.teacher][rows]  # not the images beside it
            divergence = (weight * out.distribution.divergence(opinion)).mean()
            logged["teacher_divergence"] = divergence.detach()
        if self.version >= config.critic_warmup:
            if "teacher_divergence" in logged:
                loss = loss + config.teacher_coef * max(0.0, 1.0 - progress) * divergence
            if "cpc_loss" in logged:
                loss = loss + config.cpc_coef * cpc_loss
            if "prediction_loss" in logged:
                loss = loss + config.prediction_coef * prediction_loss
            loss = loss + policy_loss - coefficient.detach() * entropy
            if config.learn_entropy_coef:
                loss = loss + coefficient * (entropy.detach() - config.target_entropy)

        self.optimizer.zero_grad()
        loss.backward()
        self._world.average_gradients(p for group in self.optimizer.param_groups for p in group["params"])
        norm, *others = [nn.utils.clip_grad_norm_(part, config.max_grad_norm) for part in self._clipped if part]
        if not all(math.isfinite(found.item()) for found in (norm, *others)):
            raise LearningFailure(
                f"the gradient is not finite at update {self.version} (loss {loss.item():g}, value target up to "
                f"{target.abs().max().item():g}): lower train.learning_rate, or the scale of the rewards"
            )
        self.optimizer.step()
        with torch.no_grad():
            if config.learn_entropy_coef:
                self.log_entropy_coef.clamp_(math.log(config.entropy_coef_min), math.log(config.entropy_coef_max))
            return {
                **logged,
                "policy_loss": policy_loss.detach(),
                "value_loss": value_loss.detach(),
                "entropy": entropy.detach(),
                "kl": (ratio - 1.0 - log_ratio).mean(),
                "clip_fraction": ((ratio - 1.0).abs() > config.clip).float().mean(),
                "grad_norm": norm,
                "sampling_weight": weight.mean(),
            }


def learning_rate(config: TrainConfig, progress: float) -> float:
    """Cosine decay from the initial rate to the final one (Table A1)."""
    cosine = 0.5 * (1.0 + math.cos(math.pi * min(1.0, max(0.0, progress))))
    return config.final_learning_rate + (config.learning_rate - config.final_learning_rate) * cosine


def _normalized(advantage: NDArray[np.float32], world: World) -> NDArray[np.float32]:
    """Return a rollout's advantages (n,) with mean 0 and deviation 1 over the rollouts of all processes.

    Not by mini-batch: one holds a few long sequences, and which of them went well would be taken away with its mean.
    """
    wide = advantage.astype(np.float64)
    count, total = world.sum([float(len(wide)), float(wide.sum())])
    off = wide - total / count
    (squares,) = world.sum([float(np.square(off).sum())])
    return (off / (math.sqrt(squares / max(1.0, count - 1.0)) + 1e-8)).astype(np.float32)


def _explained_variance(rollout: Rollout) -> float:
    target, value = rollout.target[: rollout.size], rollout.value[: rollout.size]
    variance = float(target.var())
    return 1.0 - float((target - value).var()) / variance if variance > 0.0 else 0.0


def _plain_rng(rng: np.random.Generator) -> list[str]:
    """PCG64's state as text: its integers have 128 bits."""
    state = rng.bit_generator.state
    return [str(state["state"]["state"]), str(state["state"]["inc"]), str(state["has_uint32"]), str(state["uinteger"])]


def _rng_state(saved: list[str]) -> dict[str, Any]:
    state, inc, has_uint32, uinteger = (int(text) for text in saved)
    return {"state": {"state": state, "inc": inc}, "has_uint32": has_uint32, "uinteger": uinteger}
