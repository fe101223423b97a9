"""Ablations: records that are gone on with, what is summed up of them, and the page."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from eval import records
from eval.ablation import CELLS, Ablation, Cell, RecordsError, ablate
from eval.ablation_page import page
from eval.ablation_report import summarize, tables, to_csv, typical
from eval.evaluate import UNSTABLE, EpisodeResult, Evaluation, Request
from hab.objects import UNSEEN
from planner.agent import Agent
from planner.chain import TraceRow

TWO = tuple(cell for cell in CELLS if cell.key in ("skillnav", "nonav"))
SHORT = Request("tidy_house", Agent(), episodes=4, episode_steps=40)


class Played:
    """Counts the episodes of each cell; ends the process's work after `most`."""

    def __init__(self, most: int = 1000) -> None:
        self.most, self.episodes = most, dict[str, list[int]]()

    @contextmanager
    def __call__(self, cell: Cell, count: int) -> Iterator[Callable[[EpisodeResult], None]]:
        def on_result(result: EpisodeResult) -> None:
            self.episodes.setdefault(cell.key, []).append(result.index)
            self.most -= 1
            if self.most == 0:
                raise KeyboardInterrupt

        yield on_result
        if self.most:
            assert len(self.episodes.get(cell.key, [])) == count


def test_an_ablation_goes_on_where_it_stopped(tmp_path: Path) -> None:
    first, second, whole = Played(most=6), Played(), Played()
    stopped = ablate(SHORT, TWO, "oracle", tmp_path / "a", 1, first)
    assert stopped.interrupted and len(stopped.cells["nonav"].results) == 2
    # As if a worker had been killed while it wrote.
    with (tmp_path / "a" / "nonav.jsonl").open("a") as file:
        file.write('{"index": 2, "scene"')
    resumed = ablate(SHORT, TWO, "oracle", tmp_path / "a", 2, second)
    assert not resumed.interrupted and second.episodes.keys() == {"nonav"}
    assert sorted(second.episodes["nonav"]) == [2, 3]
    at_once = ablate(SHORT, TWO, "oracle", tmp_path / "b", 1, whole)
    for key in ("skillnav", "nonav"):
        assert resumed.cells[key].results == at_once.cells[key].results
        lines = [(tmp_path / name / f"{key}.jsonl").read_text().splitlines() for name in "ab"]
        assert sorted(lines[0]) == sorted(lines[1]) and len(lines[0]) == 4
    fewer = ablate(replace(SHORT, episodes=3), TWO, "oracle", tmp_path / "a", 1, Played())
    assert [result.index for result in fewer.cells["nonav"].results] == [0, 1, 2]


def test_records_of_other_settings_are_refused(tmp_path: Path) -> None:
    ablate(replace(SHORT, episodes=1), TWO[:1], "oracle", tmp_path, 1, Played())
    kept = (tmp_path / "skillnav.jsonl").read_bytes()
    for other in (replace(SHORT, seed=1), replace(SHORT, split="test"), replace(SHORT, episode_steps=50)):
        with pytest.raises(RecordsError, match="name another folder with --out"):
            ablate(other, TWO[:1], "oracle", tmp_path, 1, Played())
    assert (tmp_path / "skillnav.jsonl").read_bytes() == kept


def test_records_of_other_code_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    request = replace(SHORT, episodes=1, episode_steps=5)
    ablate(request, TWO[:1], "oracle", tmp_path / "records", 1, Played())
    root, code = Path(records.__file__).parents[1], tmp_path / "code"
    for package in records.PLAYING:
        shutil.copytree(root / package, code / package, ignore=shutil.ignore_patterns("zoo"))
    monkeypatch.setattr(records, "__file__", str(code / "eval" / "records.py"))
    records.code_digest.cache_clear()
    ablate(request, TWO[:1], "oracle", tmp_path / "records", 1, Played())
    (code / "planner" / "domain.pddl").write_text("")
    records.code_digest.cache_clear()
    with pytest.raises(RecordsError, match=r"code=.*name another folder with --out"):
        ablate(request, TWO[:1], "oracle", tmp_path / "records", 1, Played())
    monkeypatch.undo()
    records.code_digest.cache_clear()


def test_records_of_other_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = tmp_path / "weights"
    weights.write_bytes(b"old")
    monkeypatch.setattr("eval.ablation.weights_of", lambda agent, name, obs: {"pick_nav_laser": weights})
    request, folder = replace(SHORT, episodes=1, episode_steps=5), tmp_path / "records"
    ablate(request, TWO[:1], "oracle", folder, 1, Played())
    ablate(request, TWO, "oracle", folder, 1, Played())
    weights.write_bytes(b"new")
    with pytest.raises(RecordsError, match="another pick_nav_laser"):
        ablate(request, TWO, "oracle", folder, 1, Played())


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    ablate(replace(SHORT, episodes=1), TWO[:1], "oracle", tmp_path, 1, Played())
    (tmp_path / "skillnav.jsonl").write_text('{"index": 0}\n')
    with pytest.raises(RecordsError, match=r"skillnav\.jsonl: holds a line that is no episode"):
        ablate(SHORT, TWO[:1], "oracle", tmp_path, 1, Played())
    for text, told in (("{", "is no JSON"), ("[]", "holds no settings")):
        (tmp_path / "settings.json").write_text(text)
        with pytest.raises(RecordsError, match=rf"settings\.json: {told}"):
            ablate(SHORT, TWO[:1], "oracle", tmp_path, 1, Played())


def result(index: int, stages: int, skill: str = "", start_m: float = 0.5, driven_m: float = 0.0) -> EpisodeResult:
    """Return an episode of Set Table that got so far, and failed with a skill's call that began so far away."""
    rows = [TraceRow(1, "pick", "", "pick 1", 0, 9, "success" if stages else "timeout", "", start_m, driven_m)]
    return EpisodeResult(
        index,
        7,
        stages == 4,
        [i < stages for i in range(4)],
        skill,
        "timeout" if skill else "",
        9,
        [json.loads(json.dumps(vars(row))) for row in rows],
    )


def ablation() -> Ablation:
    """Ten episodes: skill navigation gains pick 1 in eight of them, and loses nothing; NoNav has two, one far away."""
    request = Request("set_table", Agent(skills="zoo"), episodes=10)
    played = {
        "tpsrl": [result(i, 4 if i < 2 else 0, "" if i < 2 else "pick") for i in range(10)],
        "skillnav": [result(i, 4 if i < 2 else 1, "" if i < 2 else "place", 1.0, 0.4) for i in range(10)],
        "nonav": [result(3, 0, "pick", 6.0, 2.0), result(4, 1, "place", 2.0, 3.0)],
    }
    cells = {key: Evaluation(request, results, 1.0, interrupted=False) for key, results in played.items()}
    return Ablation(request, "zoo", cells)


def test_the_summary_adds_up() -> None:
    summary = json.loads(json.dumps(summarize(ablation())))
    assert summary["interactions"] == ["pick 1", "place 1", "pick 2", "place 2"]
    assert summary["cells"]["tpsrl"]["successes"] == [2, 2, 2, 2]
    assert summary["cells"]["skillnav"]["success"] == [1.0, 0.2, 0.2, 0.2]
    assert summary["cells"]["skillnav"]["failures"] == [{"skill": "place", "reason": "timeout", "episodes": 8}]
    (gained, planned) = summary["comparisons"]
    assert (gained["with"], gained["without"], gained["episodes"]) == ("skillnav", "tpsrl", 10)
    assert [stage["difference"] for stage in gained["interactions"]] == [0.8, 0.0, 0.0, 0.0]
    assert gained["interactions"][0]["ci95"][0] > 0.0 and gained["interactions"][1]["ci95"] == [0.0, 0.0]
    # Only the two episodes that both have are compared.
    assert (planned["with"], planned["without"], planned["episodes"]) == ("skillnav", "nonav", 2)
    assert planned["interactions"][0]["difference"] == 0.5
    pick = summary["cells"]["nonav"]["driving"][0]
    assert (pick["calls"], pick["start_m"], pick["driven_m"], pick["driven_m_of_successes"]) == (2, 4.0, 2.5, 3.0)
    assert [(part["calls"], part["successes"]) for part in pick["by_start"]] == [(0, 0), (1, 1), (0, 0), (1, 0)]
    assert summary["cells"]["nonav"]["driving"][1]["start_m"] is None


def test_episodes_that_ask_for_unseen_kinds_are_told_apart() -> None:
    new = next(iter(UNSEEN))
    played = [replace(result(i, 4 if i < 2 else 0), kinds=[new] if i in (0, 2, 3, 4) else ["bowl"]) for i in range(5)]
    request = Request("set_table", Agent(skills="zoo"), split="test", episodes=5)
    summary = summarize(Ablation(request, "zoo", {"nonav": Evaluation(request, played, 1.0, interrupted=False)}))
    cell = summary["cells"]["nonav"]
    assert (cell["unseen"]["episodes"], cell["unseen"]["success"]) == (4, 0.25)
    assert (cell["seen"]["episodes"], cell["seen"]["success"]) == (1, 1.0)
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(tables(summary))
    assert "unseen kinds" in console.export_text() and "0.25 (0.05 to 0.70) of 4" in page(summary)
    assert "unseen" not in page(summarize(ablation()))


def test_where_the_physics_broke_down_nothing_is_driven_or_filmed() -> None:
    broken = [replace(each, reason=UNSTABLE) for each in (result(5, 0, "pick", 0.0), result(6, 0, "pick", 0.0))]
    request = Request("set_table", Agent(skills="zoo"), episodes=10)
    results = [result(3, 0, "pick", 6.0, 2.0), *broken]
    summary = summarize(Ablation(request, "zoo", {"nonav": Evaluation(request, results, 1.0, interrupted=False)}))
    (pick, _), (unstable, _) = summary["cells"]["nonav"]["driving"], summary["cells"]["nonav"]["failures"]
    assert (pick["calls"], pick["start_m"]) == (1, 6.0)
    assert unstable == {"skill": "pick", "reason": UNSTABLE, "episodes": 2}
    assert typical(results) == {"pick: timeout": 3}


def test_the_typical_episode_is_of_median_length() -> None:
    lengths = {0: 900, 1: 500, 2: 700, 3: 100, 4: 300}
    results = [replace(result(i, 4 if i < 3 else 0, "" if i < 3 else "pick"), steps=n) for i, n in lengths.items()]
    assert typical(results) == {"success": 2, "pick: timeout": 3}


def test_the_tables_mark_what_the_intervals_say() -> None:
    console = Console(width=160, record=True, file=open("/dev/null", "w"))  # noqa: SIM115
    console.print(tables(summarize(ablation())))
    text = console.export_text(styles=True)
    assert "\x1b[1m+0.80" in text and "\x1b[1m+0.00" not in text
    assert "TP-SRL(NoNav)" in text and "timeout" in text


def test_csv_has_a_line_for_each_agent_and_interaction() -> None:
    heading, *lines = to_csv(summarize(ablation())).splitlines()
    assert heading == "scenario,split,cell,agent,interaction,successes,episodes,success,low,high"
    assert len(lines) == 12 and lines[4].startswith(
        "set_table,val,skillnav,TP-SRL + skill navigation,pick 1,10,10,1.0,"
    )


class _Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag != "meta":
            self.open.append(tag)
            self.seen.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_the_page_stands_alone() -> None:
    summary: dict[str, Any] = summarize(ablation())
    text = page(summary)
    tags = _Tags()
    tags.feed(text)
    assert tags.open == [] and {"svg", "table", "caption"} <= set(tags.seen)
    assert tags.seen.count("table") == 4
    # Namespaces apart, nothing names another place.
    assert not re.findall(r'(?:src|href)="(?!#)', re.sub(r'xmlns(:\w+)?="[^"]*"', "", text))
    assert "+0.80 (+0.50 to +1.00) better" in text and "embedded" in text
    assert page(summary) == text
    noisy = replace(ablation(), request=replace(ablation().request, depth_noise=True))
    assert "real camera" not in text and "real camera" in page(summarize(noisy))
    assert "<script" not in text.lower()
