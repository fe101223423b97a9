"""The official data of HAB: what there is, whether it is here, and how habitat-sim's own downloader gets it."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Dataset:
    """One download of habitat-sim's `datasets_download`."""

    uid: str
    what: str
    place: str
    """Where it is found under the data folder."""
    page: str
    """Which says under what licence."""


DATASETS = (
    Dataset(
        "replica_cad_dataset", "ReplicaCAD apartments", "replica_cad", "https://aihabitat.org/datasets/replica_cad"
    ),
    Dataset("rearrange_dataset_v2", "HAB episodes", "datasets/replica_cad/rearrange/v2", "https://aihabitat.org"),
    Dataset("hab_fetch", "the Fetch robot", "robots/hab_fetch", "https://aihabitat.org"),
    Dataset("ycb", "YCB objects", "objects/ycb", "https://www.ycbbenchmarks.com"),
)


def absent(folder: Path) -> list[Dataset]:
    """Return the datasets that a data folder lacks."""
    return [dataset for dataset in DATASETS if not (folder / dataset.place).exists()]


def download_command(folder: Path, datasets: list[Dataset]) -> list[str]:
    """Return the command that downloads datasets into a data folder."""
    uids = [dataset.uid for dataset in datasets]
    program = [sys.executable, "-m", "habitat_sim.utils.datasets_download"]
    return [*program, "--uids", *uids, "--data-path", str(folder), "--no-replace"]
