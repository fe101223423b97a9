"""How collecting and learning take turns: one after the other, overlapped by a rollout, or side by side."""

from __future__ import annotations

import copy
import queue
import threading
from collections.abc import Callable
from typing import Protocol

from torch import nn

from ver_core.collector import Collection, Collector
from ver_core.policy import RecurrentPolicy
from ver_core.rollout import Rollout

Stop = Callable[[], bool]
Fed = tuple[Rollout, Collection]


class Feed(Protocol):
    """Hands out rollouts to learn from."""

    def next(self, stop: Stop, preempt: Stop | None) -> Fed | None:
        """Return the next rollout; None if `stop()` came first."""

    def learned(self, rollout: Rollout, version: int) -> None:
        """Take a rollout back; the policy's weights are `version` now."""

    def close(self) -> None: ...


class InTurn:
    """Collect, learn, collect, …: the environments only finish what is in flight while the learner learns."""

    def __init__(self, collector: Collector, policy: RecurrentPolicy, rollout: Rollout) -> None:
        self._collector, self._policy, self.rollout = collector, policy, rollout

    def next(self, stop: Stop, preempt: Stop | None) -> Fed | None:
        collection = self._collector.collect(self.rollout, stop, preempt)
        return (self.rollout, collection) if collection.complete else None

    def learned(self, rollout: Rollout, version: int) -> None:
        self._collector.use(self._policy, version)

    def close(self) -> None:
        pass


class Alongside:
    """Collects in a thread, with a copy of the weights, while the learner learns.

    `lockstep` (the switch `overlap`, HTS-RL's way): the rollout collected meanwhile is all of the weights from before,
    and the two wait for each other. Otherwise (scheduler `async`) collecting never stops: it takes over new weights as
    soon as they are there, and waits only if every rollout buffer is full, which bounds the lag (but for steps in
    flight, one for each environment).
    """

    def __init__(
        self, collector: Collector, policy: RecurrentPolicy, version: int, rollouts: list[Rollout], lockstep: bool
    ) -> None:
        self._collector, self._policy, self._version, self._lockstep = collector, policy, version, lockstep
        self._free: queue.Queue[Rollout] = queue.Queue()
        self._full: queue.Queue[Fed | BaseException] = queue.Queue()
        for rollout in rollouts[:1] if lockstep else rollouts:
            self._free.put(rollout)
        self._spare = rollouts[1] if lockstep else None
        self._publish()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="collector", daemon=True)
        self._thread.start()

    def next(self, stop: Stop, preempt: Stop | None) -> Fed | None:
        while not stop():
            try:
                found = self._full.get(timeout=0.1)
            except queue.Empty:
                continue
            if isinstance(found, BaseException):
                raise found
            if self._lockstep:
                self._publish()
                assert self._spare is not None
                self._free.put(self._spare)
                self._spare = found[0]
            return found
        return None

    def learned(self, rollout: Rollout, version: int) -> None:
        self._version = version
        if not self._lockstep:
            self._publish()
            self._free.put(rollout)

    def close(self) -> None:
        self._ended.set()
        self._thread.join()

    def _publish(self) -> None:
        """Give the collector a copy of the learner's weights; a batch under way ends with the one before."""
        policy = copy.deepcopy(self._policy)
        for module in policy.modules():
            if isinstance(module, nn.RNNBase):
                module.flatten_parameters()  # a copy's weights lie apart, and cuDNN would gather them at each call
        self._collector.use(policy, self._version)

    def _run(self) -> None:
        while not self._ended.is_set():
            try:
                rollout = self._free.get(timeout=0.1)
                collection = self._collector.collect(rollout, self._ended.is_set)
            except queue.Empty:
                continue
            except BaseException as error:
                self._full.put(error)
                return
            if collection.complete:
                self._full.put((rollout, collection))
