"""Several learning processes under `torchrun`: decentralised, synchronous (DD-PPO, section 3; VER, section 2.3)."""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from functools import cache
from typing import Any

import torch
import torch.distributed as dist
from torch import nn

TIMEOUT = timedelta(minutes=30)
"""A process waits so long for the others, which may be starting environments."""
_DONE, _POLL_S = "rank_0_first", 0.2
_joins = itertools.count()


@dataclass(frozen=True)
class World:
    """Who takes part; of one process alone, every operation does nothing."""

    rank: int = 0
    size: int = 1
    local_size: int = 1
    store: dist.Store | None = None

    def broadcast(self, module: nn.Module) -> None:
        """Give all processes rank 0's parameters and buffers."""
        if self.size > 1:
            for tensor in (*module.parameters(), *module.buffers()):
                dist.broadcast(tensor.data, 0)

    def average_gradients(self, parameters: Iterable[nn.Parameter]) -> None:
        """Replace every gradient by its mean over the processes: one AllReduce of all of them in a row."""
        if self.size == 1:
            return
        gradients = [p.grad for p in parameters if p.grad is not None]
        flat = torch.cat([gradient.reshape(-1) for gradient in gradients])
        dist.all_reduce(flat)
        flat /= self.size
        parts = flat.split([gradient.numel() for gradient in gradients])
        for gradient, part in zip(gradients, parts, strict=True):
            gradient.copy_(part.view_as(gradient))

    def sum(self, values: list[float]) -> list[float]:
        """Add up numbers over the processes."""
        if self.size == 1:
            return values
        tensor = torch.tensor(values, dtype=torch.float64, device=self._device())
        dist.all_reduce(tensor)
        return tensor.tolist()

    def gather(self, thing: Any) -> list[Any]:
        """Return what each process gave, by rank; to all of them."""
        if self.size == 1:
            return [thing]
        things: list[Any] = [None] * self.size
        dist.all_gather_object(things, thing)
        return things

    def rank_0_first(self, task: Callable[[], None]) -> None:
        """Do something in rank 0 while the others wait, however long it takes: no collective, so no time-out.

        If it fails, the others raise `RuntimeError` with its words.
        """
        if self.size == 1:
            task()
            return
        assert self.store is not None
        if self.rank == 0:
            try:
                task()
            except BaseException as error:
                self.store.set(_DONE, f"{type(error).__name__}: {error}")
                raise
            self.store.set(_DONE, "")
            return
        while not self.store.check([_DONE]):  # raises when its host is gone
            time.sleep(_POLL_S)
        if said := self.store.get(_DONE).decode():
            raise RuntimeError(said)

    def leave(self) -> None:
        if self.size > 1 and dist.is_initialized():
            dist.destroy_process_group()

    def _device(self) -> torch.device:
        return torch.device("cuda" if dist.get_backend() == "nccl" else "cpu")


def join(use_cuda: bool) -> World:
    """Join the processes that `torchrun` started; alone, there is nothing to join."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1 or "RANK" not in os.environ:
        return World()
    rank, local_rank = int(os.environ["RANK"]), int(os.environ.get("LOCAL_RANK", "0"))
    if use_cuda:
        torch.cuda.set_device(local_rank)
    store = _store(rank, size)
    # Neither a restarted run nor the next training of the same processes must find the keys of the one before.
    attempt = f"{os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}_{next(_joins)}"
    dist.init_process_group(
        "nccl" if use_cuda else "gloo",
        store=dist.PrefixStore(f"process_group_{attempt}", store),
        rank=rank,
        world_size=size,
        timeout=TIMEOUT,
    )
    local_size = int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
    return World(rank, size, local_size, dist.PrefixStore(f"ver_core_{attempt}", store))


@cache
def _store(rank: int, size: int) -> dist.TCPStore:
    """Connect to what all processes share; once, since its host can open the port only once."""
    # torchrun's agent hosts the store; started by hand or by SLURM, rank 0 does.
    hosted = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    return dist.TCPStore(address, port, size, is_master=rank == 0 and not hosted, timeout=TIMEOUT)
