"""Folders that hold what was played, to go on with: all of it of the same settings and the same policies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

SETTINGS = "settings.json"
PLAYING = ("hab", "ver_core", "skills", "planner", "eval")
SUFFIXES = (".py", ".pddl")


class RecordsError(ValueError):
    """A folder of records that cannot be gone on with; the message is one line."""


@cache
def code_digest() -> str:
    """Return what tells the code that plays episodes from any other: a hash of its files."""
    root, digest = Path(__file__).parents[1], hashlib.sha256()
    for path in sorted(path for package in PLAYING for path in (root / package).rglob("*") if path.suffix in SUFFIXES):
        digest.update(str(path.relative_to(root)).encode() + path.read_bytes())
    return digest.hexdigest()[:16]


def check_settings(folder: Path, wanted: Mapping[str, Any], weights: Mapping[str, Path]) -> None:
    """Make sure that a folder's records, if there are any, were made with these settings and weights (by the job that
    they do), and write them there. Raises `RecordsError`."""
    path, said = folder / SETTINGS, {}
    if path.exists():
        try:
            said = json.loads(path.read_text(encoding="utf-8"))
        except ValueError as error:
            raise RecordsError(f"{path}: is no JSON ({error}); delete it, or name another folder") from error
        if not isinstance(said, dict):
            raise RecordsError(f"{path}: holds no settings; delete it, or name another folder")
    digests = dict(said.get("weights", {}))
    for name, file in weights.items():
        digest = hashlib.sha256(file.read_bytes()).hexdigest()[:16]
        if digests.setdefault(name, digest) != digest:
            raise RecordsError(f"{folder}: holds episodes of another {name}; name another folder with --out")
    for key, value in wanted.items():
        if said and said.get(key) != value:
            raise RecordsError(
                f"{folder}: holds episodes with {key}={said.get(key)}, not {value}; name another folder with --out"
            )
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({**wanted, "weights": digests}, indent=1) + "\n", encoding="utf-8")
