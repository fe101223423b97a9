"""The gallery's page: what it says, and that it works in a browser, from disk, by keyboard."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import imageio.v2 as imageio
import numpy as np
import pytest
from browser import open_browser

from planner.chain import TraceRow
from videos.gallery import GalleryError, build_gallery, rollouts

FAILED = TraceRow(1, "pick", "(pick)", "pick 1", 100, 400, "timeout", "timeout", 0.8, 0.5)
NAVIGATED = TraceRow(0, "navigate", "(nav)", "", 0, 100, "success", "", 4.0, 4.2)
PICKED = TraceRow(1, "pick", "(pick)", "pick 1", 100, 200, "success", "", 0.8, 0.3)


def rollout(path: Path, *rows: TraceRow) -> None:
    """Write a film of a second, its last picture red, and its trace."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pictures = np.zeros((10, 96, 128, 3), np.uint8)
    pictures[-1, ..., 0] = 255
    imageio.mimwrite(path, list(pictures), fps=10, macro_block_size=16)  # type: ignore[call-overload]
    path.with_suffix(".jsonl").write_text("".join(json.dumps(vars(row)) + "\n" for row in rows))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    rollout(tmp_path / "tidy <1>.mp4", NAVIGATED, PICKED)
    rollout(tmp_path / "more" / "tidy #2.mp4", NAVIGATED, FAILED)
    rollout(tmp_path / "more" / "tidy_3.mp4", NAVIGATED, FAILED)
    (tmp_path / ".unfinished.part.mp4").write_bytes(b"")
    return tmp_path


def test_rollouts_are_named_by_what_came_of_them(folder: Path) -> None:
    assert {r.film.stem: r.kind for r in rollouts(folder)} == {
        "tidy <1>": "success",
        "tidy #2": "pick: timeout",
        "tidy_3": "pick: timeout",
    }


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda folder: shutil.rmtree(folder), "no such folder"),
        (lambda folder: (folder / "more" / "tidy_3.jsonl").unlink(), "its trace tidy_3.jsonl is missing"),
        (lambda folder: (folder / "more" / "tidy_3.jsonl").write_text("{}\n"), "is no trace of tpsrl render"),
        (lambda folder: (folder / "more" / "tidy_3.jsonl").write_text(""), "is empty"),
        (lambda folder: (folder / "more" / "tidy_3.mp4").write_bytes(b"no film"), "is no film that can be read"),
        (lambda folder: [film.unlink() for film in folder.rglob("*.mp4")], "holds no films"),
    ],
)
def test_a_folder_that_makes_no_page_is_refused(folder: Path, spoil: Any, message: str) -> None:
    spoil(folder)
    with pytest.raises(GalleryError, match=message):
        build_gallery(rollouts(folder), folder, "rollouts")


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    chrome = open_browser(tmp_path_factory.mktemp("profile"))
    yield chrome
    chrome.quit()


def test_it_works_from_disk_by_keyboard(folder: Path, browser: Any) -> None:
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys
    from selenium.webdriver.support.ui import WebDriverWait

    browser.get(build_gallery(rollouts(folder), folder, "Rollouts & more").as_uri())
    assert browser.title == "Rollouts & more"

    def press(key: str) -> None:
        ActionChains(browser).send_keys(key).perform()  # to whatever has the focus

    cards = browser.find_elements(By.TAG_NAME, "article")
    heads = [card.find_element(By.TAG_NAME, "h2").text for card in cards]
    assert heads == ["more/tidy #2: pick: timeout", "more/tidy_3: pick: timeout", "tidy <1>: success"]

    # From card to card, and not beyond the last.
    for expected in (0, 1, 2, 2):
        press("j")
        assert browser.switch_to.active_element == cards[expected]
    press("k")
    assert browser.switch_to.active_element == cards[1]

    # Enter plays the film, which is found whatever its name.
    for card in cards:
        browser.execute_script("arguments[0].focus()", card)
        press(Keys.ENTER)
        film = card.find_element(By.TAG_NAME, "video")
        WebDriverWait(browser, 10).until(lambda chrome, film=film: film.get_property("currentTime") > 0.0)  # type: ignore[misc]
        assert film.get_property("error") is None

    # The outcomes' buttons are reached and pressed by keyboard.
    buttons = browser.find_elements(By.CSS_SELECTOR, "nav button")
    assert [button.text for button in buttons] == ["all (3)", "success (1)", "pick: timeout (2)"]
    browser.execute_script("arguments[0].focus()", buttons[0])
    for count, button in zip((1, 2), buttons[1:], strict=True):
        press(Keys.TAB)
        assert browser.switch_to.active_element == button
        press(Keys.SPACE)
        assert button.get_attribute("aria-pressed") == "true"
        assert sum(card.is_displayed() for card in cards) == count
        assert browser.find_element(By.ID, "shown").text == str(count)

    # The thumbnail is the film's last picture, and nothing came from anywhere but the disk.
    pixel = browser.execute_async_script(
        """
        const [source, done] = arguments, picture = new Image();
        picture.onload = () => {
          const canvas = document.createElement('canvas'), draw = canvas.getContext('2d');
          draw.drawImage(picture, 0, 0);
          done([...draw.getImageData(5, 5, 1, 1).data]);
        };
        picture.src = source;
        """,
        cards[0].find_element(By.TAG_NAME, "video").get_attribute("poster"),
    )
    assert pixel[0] > 150 and pixel[1] < 90
    loaded = browser.execute_script("return performance.getEntriesByType('resource').map(entry => entry.name)")
    assert all(name.startswith(("file:", "data:")) for name in loaded)
    assert [entry for entry in browser.get_log("browser") if entry["level"] == "SEVERE"] == []
