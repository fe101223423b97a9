"""An ablation as one HTML page that opens from disk: figures are inline SVG, nothing is loaded from elsewhere."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from eval.ablation_report import NOVELTY, START_M, asked_for_unseen, verdict

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; display: block; overflow-x: auto; }
th, td { padding: .25rem .75rem; text-align: right; border-bottom: 1px solid #8886; }
th:first-child, td:first-child { text-align: left; }
caption { text-align: left; font-weight: 600; padding: .5rem 0; }
ul { display: grid; grid-template-columns: repeat(auto-fill, minmax(16rem, 1fr)); gap: 1rem; }
ul { list-style: none; padding: 0; }
img { width: 100%; }
figure { margin: 1rem 0; } figure svg { max-width: 100%; height: auto; background: white; }
"""
ABOUT = """Measured on tpsrl's embedded MuJoCo simulator, in generated apartments. The paper (Wijmans et al. 2022,
Figure 6) measured on habitat-sim with ReplicaCAD: other apartments, objects and physics. Compare the order of the
agents with its, not their success rates."""


@dataclass(frozen=True)
class Shown:
    """A film to link to."""

    caption: str
    place: str
    """URL, from the page's folder."""
    picture: str
    """URL of its thumbnail."""


def page(summary: dict[str, Any], films: Sequence[Shown] = ()) -> str:
    """Return the page of what `eval.ablation_report.summarize` returned."""
    title = f"Ablation: {summary['scenario']}, {summary['split']}"
    parts = [
        f"<h1>{escape(title)}</h1>",
        f"<p>{escape(ABOUT)}</p>",
        f"<p>Skills: {escape(summary['skills'])}; observations: {escape(summary['obs'])}"
        + ("; depth with a real camera's noise" if summary["depth_noise"] else "")
        + f"; seed {summary['seed']}.</p>",
        f"<figure>{_curves(summary)}<figcaption>Cumulative success by interaction, with 95 % Wilson intervals."
        "</figcaption></figure>",
        _success(summary),
        _comparisons(summary),
        _driving(summary),
        _failures(summary),
        _films(films),
    ]
    body = "\n".join(part for part in parts if part)
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta name="viewport" content="width=device-width, initial-scale=1">\n<title>{escape(title)}</title>\n'
        f"<style>{STYLE}</style>\n</head>\n<body>\n{body}\n</body>\n</html>\n"
    )


def _curves(summary: dict[str, Any]) -> str:
    """Return the paper's Figure 6 as SVG."""
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    names = summary["interactions"]
    # The same page from the same summary: matplotlib draws its identifiers by chance, and notes the date.
    with rc_context({"svg.hashsalt": "tpsrl", "svg.fonttype": "none"}):
        figure = Figure(figsize=(10.0, 4.5), layout="constrained")
        axes = figure.subplots()
        cells = list(summary["cells"].values())
        for number, cell in enumerate(cells):
            rates = cell["success"]
            spread = [
                [rate - low for rate, (low, _) in zip(rates, cell["ci95"], strict=True)],
                [high - rate for rate, (_, high) in zip(rates, cell["ci95"], strict=True)],
            ]
            at = [i + 0.06 * (number - (len(cells) - 1) / 2.0) for i in range(len(names))]
            axes.errorbar(at, rates, yerr=spread, marker="o", markersize=4, capsize=2, label=cell["title"])
        axes.set_xticks(range(len(names)), names)
        axes.set_ylim(0.0, 1.02)
        axes.set_ylabel("success")
        axes.grid(axis="y", alpha=0.3)
        axes.legend(fontsize="small")
        out = io.StringIO()
        figure.savefig(out, format="svg", metadata={"Date": None})
    svg = out.getvalue()
    return svg[svg.index("<svg") :].replace("<svg ", '<svg role="img" aria-label="success by interaction" ', 1)


def _success(summary: dict[str, Any]) -> str:
    cells = summary["cells"].values()
    rows = [
        [name, *(f"{cell['success'][i]:.2f} {_interval(cell['ci95'][i])}" for cell in cells)]
        for i, name in enumerate(summary["interactions"])
    ]
    for key, label in NOVELTY if asked_for_unseen(summary) else ():
        rows.append([label, *(_whole(cell[key]) for cell in cells)])
    headings = ["interaction", *(f"{cell['title']} ({cell['episodes']})" for cell in cells)]
    return _table("Cumulative success (95 % Wilson interval); episodes in brackets", headings, rows)


def _whole(those: dict[str, Any] | None) -> str:
    return f"{those['success']:.2f} {_interval(those['ci95'])} of {those['episodes']}" if those else ""


def _comparisons(summary: dict[str, Any]) -> str:
    comparisons = summary["comparisons"]
    rows = [
        [
            name,
            *(
                f"{stage['difference']:+.2f} {_interval(stage['ci95'], '+')} {verdict(stage)}"
                for stage in (comparison["interactions"][i] for comparison in comparisons)
            ),
        ]
        for i, name in enumerate(summary["interactions"])
    ]
    headings = ["interaction", *(f"{comparison['title']} ({comparison['episodes']})" for comparison in comparisons)]
    caption = "Gained over the same episodes (95 % paired bootstrap interval): better or worse where it excludes 0"
    return _table(caption, headings, rows) if comparisons else ""


def _driving(summary: dict[str, Any]) -> str:
    rows = [
        [
            cell["title"],
            row["skill"],
            str(row["calls"]),
            *("-" if row[key] is None else f"{row[key]:.1f}" for key in ("start_m", "driven_m")),
            *(f"{part['successes']} of {part['calls']}" for part in row["by_start"]),
        ]
        for cell in summary["cells"].values()
        for row in cell["driving"]
    ]
    begun = [f"began beyond {low:g} m" for low in START_M[:-1]]
    headings = ["agent", "skill", "calls", "began at, m", "drove, m", *begun]
    return _table("Pick and Place: medians, and successes by the base's distance from the goal", headings, rows)


def _failures(summary: dict[str, Any]) -> str:
    rows = [
        [cell["title"], cause["skill"], cause["reason"], str(cause["episodes"])]
        for cell in summary["cells"].values()
        for cause in cell["failures"]
    ]
    return _table("What failed", ["agent", "skill", "reason", "episodes"], rows) if rows else ""


def _films(films: Sequence[Shown]) -> str:
    cards = "\n".join(
        f'<li><a href="{escape(film.place)}"><img src="{film.picture}" alt="" loading="lazy"><br>'
        f"{escape(film.caption)}</a></li>"
        for film in films
    )
    return f"<h2>Typical successes, and every cause of failure</h2>\n<ul>\n{cards}\n</ul>" if films else ""


def _table(caption: str, headings: list[str], rows: list[list[str]]) -> str:
    head = "".join(f'<th scope="col">{escape(heading)}</th>' for heading in headings)
    body = "\n".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
    caption = f"<caption>{escape(caption)}</caption>"
    return f"<table>\n{caption}\n<thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody>\n</table>"


def _interval(ci95: list[float], sign: str = "") -> str:
    return f"({ci95[0]:{sign}.2f} to {ci95[1]:{sign}.2f})"
