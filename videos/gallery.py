"""One page over a folder of rendered rollouts: what succeeded, and what failed by its cause.

It opens from disk: videos are named by their place beside it, pictures, style and script are in it. Rollouts are films
with their traces beside them, as `tpsrl render` writes them (videos/render.py).
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any
from urllib.parse import quote

import imageio.v2 as imageio
from PIL import Image

from hab.actions import CONTROL_HZ
from planner.chain import SUCCESS, TraceRow, came_to, first_failure

PAGE = "index.html"
THUMBNAIL_PX = 480

STYLE = """
:root { color-scheme: light dark; --line: #8886; --mark: #2a7de1; }
body { font: 16px/1.45 system-ui, sans-serif; margin: 1.5rem auto; max-width: 80rem; padding: 0 1rem; }
nav { display: flex; flex-wrap: wrap; gap: .5rem; margin: 1rem 0; }
button { font: inherit; padding: .2rem .7rem; border: 1px solid var(--line); border-radius: 1rem; background: none; }
button { cursor: pointer; color: inherit; }
button[aria-pressed=true] { border-color: var(--mark); box-shadow: inset 0 0 0 1px var(--mark); }
main { display: grid; grid-template-columns: repeat(auto-fill, minmax(22rem, 1fr)); gap: 1rem; }
article { border: 1px solid var(--line); border-radius: .5rem; padding: .75rem; }
article[hidden] { display: none; }
:focus-visible { outline: 3px solid var(--mark); outline-offset: 2px; }
h2 { font-size: 1rem; margin: 0 0 .5rem; } h2 a { color: inherit; }
video { width: 100%; background: #000; display: block; }
table { border-collapse: collapse; font-size: .85rem; width: 100%; }
th, td { text-align: left; padding: .1rem .4rem; border-bottom: 1px solid var(--line); }
.n { text-align: right; font-variant-numeric: tabular-nums; }
"""
SCRIPT = """
const cards = [...document.querySelectorAll('article')], buttons = [...document.querySelectorAll('nav button')];
function show(button) {
  for (const other of buttons) other.setAttribute('aria-pressed', other === button);
  for (const card of cards) card.hidden = button.dataset.kind !== '' && card.dataset.kind !== button.dataset.kind;
  document.getElementById('shown').textContent = cards.filter(card => !card.hidden).length;
}
for (const button of buttons) button.addEventListener('click', () => show(button));
document.addEventListener('keydown', event => {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const seen = cards.filter(card => !card.hidden), at = seen.indexOf(document.activeElement.closest('article'));
  if (event.key === 'j' || event.key === 'k') {
    const next = seen[at < 0 ? 0 : Math.min(seen.length - 1, Math.max(0, at + (event.key === 'j' ? 1 : -1)))];
    if (next) { next.focus(); next.scrollIntoView({block: 'nearest'}); }
  } else if (event.key === 'Enter' && document.activeElement.tagName === 'ARTICLE') {
    const film = document.activeElement.querySelector('video');
    if (film.paused) film.play(); else film.pause();
  } else return;
  event.preventDefault();
});
"""


class GalleryError(ValueError):
    """A folder that no page can be made of; the message is one line."""


@dataclass(frozen=True)
class Rollout:
    """One film, and what its trace says."""

    film: Path
    rows: tuple[TraceRow, ...]

    @property
    def kind(self) -> str:
        """ "success", or the first skill that failed and why."""
        return SUCCESS if self.rows[-1].outcome == SUCCESS else came_to(*first_failure(self.rows))


def rollouts(folder: Path) -> list[Rollout]:
    """Return the rollouts in a folder and in those below it, by name. Raises `GalleryError`."""
    if not folder.is_dir():
        raise GalleryError(f"{folder}: no such folder; name one with films of tpsrl render")
    found = []
    for film in sorted(folder.rglob("*.mp4")):
        if film.name.startswith("."):
            continue  # one that is being written
        trace = film.with_suffix(".jsonl")
        try:
            rows = tuple(TraceRow(**json.loads(line)) for line in trace.read_text(encoding="utf-8").splitlines())
        except OSError as error:
            raise GalleryError(f"{film}: its trace {trace.name} is missing; tpsrl render writes both") from error
        except (ValueError, TypeError) as error:
            raise GalleryError(f"{trace}: is no trace of tpsrl render ({error})") from error
        if not rows:
            raise GalleryError(f"{trace}: is empty; render that episode again")
        found.append(Rollout(film, rows))
    if not found:
        raise GalleryError(f"{folder}: holds no films; tpsrl render ... --out {folder / 'NAME.mp4'} makes one")
    return found


def build_gallery(
    found: Sequence[Rollout],
    folder: Path,
    title: str,
    on_film: Callable[[int, int], None] = lambda done, total: None,
) -> Path:
    """Write the page over the rollouts found in a folder, and return its path. Raises `GalleryError`.

    `on_film` is told how many films were looked at, and how many there are.
    """
    cards = []
    for number, rollout in enumerate(found, start=1):
        cards.append(_card(rollout, folder))
        on_film(number, len(found))
    page = folder / PAGE
    page.write_text(_page(title, found, cards), encoding="utf-8")
    return page


def thumbnail(film: Path) -> str:
    """Return a film's last picture, where it shows what came of it, as a data URI. Raises `GalleryError`."""
    try:
        reader: Any = imageio.get_reader(film)
        with reader:
            about = reader.get_meta_data()
            last = max(0, round(about["fps"] * about["duration"]) - 1)
            picture = Image.fromarray(reader.get_data(last))
    except (OSError, IndexError, ValueError) as error:
        raise GalleryError(f"{film}: is no film that can be read; render that episode again") from error
    picture.thumbnail((THUMBNAIL_PX, THUMBNAIL_PX))
    out = io.BytesIO()
    picture.save(out, "jpeg", quality=80)
    return "data:image/jpeg;base64," + base64.b64encode(out.getvalue()).decode()


def _page(title: str, found: Sequence[Rollout], cards: Sequence[str]) -> str:
    kinds = [rollout.kind for rollout in found]
    causes = sorted({kind for kind in kinds if kind != SUCCESS}, key=lambda kind: (-kinds.count(kind), kind))
    filters = [("", f"all ({len(kinds)})")]
    filters += [(kind, f"{kind} ({kinds.count(kind)})") for kind in [SUCCESS, *causes] if kind in kinds]
    buttons = "\n".join(
        f'<button type="button" data-kind="{escape(kind)}" aria-pressed="{str(not kind).lower()}">'
        f"{escape(text)}</button>"
        for kind, text in filters
    )
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{escape(title)}</title>
<style>{STYLE}</style>
</head>
<body>
<h1>{escape(title)}</h1>
<p>Rollouts in tpsrl's embedded simulator; <span id="shown">{len(kinds)}</span> of {len(kinds)} shown.
Keys: <kbd>j</kbd> and <kbd>k</kbd> to the next and the previous, <kbd>Enter</kbd> plays or pauses.</p>
<nav aria-label="Outcome">
{buttons}
</nav>
<main>
{"".join(cards)}</main>
<script>{SCRIPT}</script>
</body>
</html>
"""


def _card(rollout: Rollout, folder: Path) -> str:
    name = rollout.film.relative_to(folder).with_suffix("").as_posix()
    place = quote(rollout.film.relative_to(folder).as_posix())
    calls = "\n".join(
        f"<tr><td>{escape(row.skill)}</td><td>{escape(row.reason or row.outcome)}</td>"
        f'<td class="n">{(row.end_step - row.start_step) / CONTROL_HZ:.1f}</td>'
        f'<td class="n">{row.start_m:.1f}</td><td class="n">{row.driven_m:.1f}</td></tr>'
        for row in rollout.rows
    )
    heads = "".join(f"<th scope='col'>{text}</th>" for text in ("skill", "outcome", "s", "began at, m", "drove, m"))
    return f"""<article tabindex="0" data-kind="{escape(rollout.kind)}">
<h2><a href="{escape(place)}">{escape(name)}</a>: {escape(rollout.kind)}</h2>
<video controls preload="none" aria-label="{escape(name)}" src="{escape(place)}"
poster="{thumbnail(rollout.film)}"></video>
<details><summary>{len(rollout.rows)} skill calls, {rollout.rows[-1].end_step / CONTROL_HZ:.0f} s</summary>
<table><thead><tr>{heads}</tr></thead><tbody>
{calls}
</tbody></table></details>
</article>
"""
