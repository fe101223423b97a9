"""What the words point to is there: files of docs, links, environment ids."""

from __future__ import annotations

import re
from pathlib import Path

import gymnasium
import pytest

import tpsrl

ROOT = Path(__file__).parents[1]
ROOMS = (
    "hab",
    "ver_core",
    "pql_core",
    "skills",
    "planner",
    "eval",
    "videos",
    "tpsrl",
    "configs",
    "tests",
    "benchmarks",
)
TEXTS = [
    *(file for room in ROOMS for file in (ROOT / room).rglob("*") if file.suffix in (".py", ".yaml", ".pddl", ".md")),
    *ROOT.glob("*.md"),
    *(page for page in (ROOT / "docs").rglob("*.md") if page.stem != "getting_started"),  # made of the notebook
]


def test_cited_documents_exist() -> None:
    """Also as "docs/hab.md, "Planning"": the heading has to be there."""
    cited = 0
    for file in TEXTS:
        for document, heading in re.findall(r'([\w/.-]*\w\.md)\b(?:, "([^"]+)")?', file.read_text(encoding="utf-8")):
            places = [ROOT / document, file.parent / document, ROOT / "docs" / document]
            places += [place.with_suffix(".ipynb") for place in places]  # a page made of a notebook
            found = next((place for place in places if place.is_file()), None)
            assert found, f"{file.relative_to(ROOT)} cites {document}"
            if heading and found:
                headings = re.findall(r"^#+ (.*)$", found.read_text(encoding="utf-8"), re.M)
                assert any(h.startswith(heading) for h in headings), (
                    f"{file.relative_to(ROOT)}: {document}, {heading!r}"
                )
            cited += 1
    assert cited > 40


@pytest.mark.parametrize("page", [p for p in TEXTS if p.suffix == ".md"], ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            place = page.parent / target
            assert place.exists() or place.with_suffix(".ipynb").exists(), target


def test_the_site_has_every_page() -> None:
    """`make docs` checks links and anchors, not that a page is in the site's navigation."""
    site = (ROOT / "zensical.toml").read_text(encoding="utf-8")
    named = set(re.findall(r'"([\w/]+\.md)"', site))
    there = {str(page.relative_to(ROOT / "docs")) for page in (ROOT / "docs").rglob("*.md")}
    assert named == there | {f"{page.stem}.md" for page in (ROOT / "docs").glob("*.ipynb")}
    for module in re.findall(
        r"^::: (\S+)$", "".join(p.read_text() for p in (ROOT / "docs" / "api").glob("*.md")), re.M
    ):
        path = ROOT.joinpath(*module.split("."))
        assert path.with_suffix(".py").exists() or (path / "__init__.py").exists(), module


def test_the_ids_that_docs_list_are_gymnasiums() -> None:
    listed = set(re.findall(r"tpsrl/\w+-v\d+", (ROOT / "docs" / "hab.md").read_text(encoding="utf-8")))
    assert listed == {id for id in gymnasium.registry if id.startswith("tpsrl/")}
    navigation = tpsrl.hab.navigation.NAVIGATION_IDS.values()
    assert listed == {*tpsrl.hab.IDS.values(), *navigation, *map(tpsrl.skills.env_id, tpsrl.skills.TASKS)}
