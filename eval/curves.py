"""What training added, seen at once: success over decisions of every policy in a zoo."""

from __future__ import annotations

import json
import os
from pathlib import Path

from eval.training_facts import CURVE_DATA
from planner.zoo import ZooError, entries
from skills import TASKS
from ver_core.reporting import RECENT_EPISODES

COLUMNS = 4


def draw_curves(zoo: Path, path: Path) -> int:
    """Draw a panel for each skill of which the zoo keeps a curve, and return how many policies are in the picture.

    Raises `ZooError`. Where there is none, nothing is written.
    """
    os.environ.setdefault("MPLBACKEND", "Agg")
    from matplotlib.figure import Figure  # slow to import

    curves: dict[str, list[tuple[str, list[list[float]]]]] = {}
    for entry in entries(zoo):
        kept = entry.folder / CURVE_DATA
        points = _read(kept) if kept.exists() else []
        if points:
            label = ("" if entry.config.nav else "no base movement, ") + entry.config.obs
            curves.setdefault(entry.config.skill, []).append((label, points))
    shown = [skill for skill in TASKS if skill in curves]
    if not shown:
        return 0
    rows = -(-len(shown) // COLUMNS)
    figure = Figure(figsize=(3.0 * min(COLUMNS, len(shown)), 2.4 * rows), layout="constrained")
    panels = figure.subplots(rows, min(COLUMNS, len(shown)), sharey=True, squeeze=False)
    for panel in panels.flat[len(shown) :]:
        panel.set_visible(False)
    for panel, skill in zip(panels.flat, shown, strict=False):
        for label, points in curves[skill]:
            millions, successes = [steps / 1e6 for steps, _ in points], [success for _, success in points]
            panel.plot(millions, successes, linewidth=1.2, label=label)
        panel.set_ylim(0.0, 1.0)
        panel.set_title(skill, fontsize=10)
        panel.legend(fontsize=7, frameon=False, loc="lower right")
        panel.grid(alpha=0.3)
    figure.supxlabel("million decisions", fontsize=9)
    figure.supylabel(f"success, mean of {RECENT_EPISODES} training episodes", fontsize=9)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110, metadata={"Software": None})
    return sum(map(len, curves.values()))


def _read(kept: Path) -> list[list[float]]:
    """Return a curve's points, steps and success."""
    try:
        return [[float(steps), float(success)] for steps, success in json.loads(kept.read_text(encoding="utf-8"))]
    except (OSError, ValueError, TypeError) as error:
        raise ZooError(f"{kept}: cannot be read ({' '.join(str(error).split())})") from error
