"""`tpsrl watch`: what keys do to the robot, and the page in a browser."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser import open_browser
from PIL import Image

from hab import robot
from hab.actions import STOP
from hab.episodes import make_episode
from hab.mujoco.simulator import MujocoSimulator
from hab.objects import object_kind
from planner.agent import Agent, chain_limits
from planner.task_planner import plan
from planner.trajectory import ReplayError, in_words
from skills.skill import Goal
from videos.teleoperation import HAND_M, KEYS, NUDGE_S, WAIT_S, Keys, Teleoperation

ROOT = Path(__file__).parents[2]
GOAL = Goal((0.0, 0.0, 0.0))


class Clock:
    """A time that goes on when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Hands:
    """A simulator in somebody's hands, 30 control steps a second."""

    def __init__(self) -> None:
        self.clock, self.waited = Clock(), 0
        self.keys = Keys(self.clock)
        self.policy = Teleoperation(self.keys, self.wait)
        self.sim = MujocoSimulator()
        self.sim.reset(make_episode("tidy_house", "train", 5))  # there is room ahead
        self.policy.reset(self.sim, GOAL)

    def wait(self) -> None:
        self.waited += 1
        if self.waited > 3:
            raise TimeoutError

    def hold(self, *names: str, steps: int) -> Any:
        """Hold keys for so many control steps; return the last action."""
        action = {}
        for _ in range(steps):
            for name in names:
                self.keys.press(name)
            action = self.policy.act(self.sim)
            assert all(np.abs(part).max() <= 1.0 for part in action.values())
            self.sim.step(action)
            self.clock.now += 1.0 / 30.0
        return action


def in_base(sim: MujocoSimulator) -> tuple[float, float, float]:
    """Return the cup's rim about the shoulder: distance, azimuth, height."""
    x, y, yaw = sim.base
    dx, dy = sim.ee_pos[:2] - (x, y)
    ahead, left = np.cos(yaw) * dx + np.sin(yaw) * dy - 0.0326, np.cos(yaw) * dy - np.sin(yaw) * dx
    return float(np.hypot(ahead, left)), float(np.arctan2(left, ahead)), float(sim.ee_pos[2])


def test_keys_drive_the_base() -> None:
    hands = Hands()
    x, y, yaw = hands.sim.base
    hands.hold("forward", steps=30)
    ahead = (hands.sim.base[:2] - (x, y)) @ (np.cos(yaw), np.sin(yaw))
    assert 0.3 < ahead < 0.7 and abs(hands.sim.base[2] - yaw) < 0.02
    hands.hold("left", steps=30)
    assert hands.sim.base[2] - yaw > 0.4
    hands.hold("right", "back", steps=30)
    assert hands.sim.base[2] - yaw < 0.4


@pytest.mark.parametrize(
    ("name", "axis", "sign"), [("up", 2, 1), ("down", 2, -1), ("out", 0, 1), ("in", 0, -1), ("hand_right", 1, -1)]
)
def test_keys_take_the_hand_along_one_axis(name: str, axis: int, sign: int) -> None:
    """… of the cylinder round the shoulder: inverse kinematics, checked by MuJoCo's own forward kinematics."""
    hands = Hands()
    hands.hold("down", "out", steps=25)  # away from rest, where the rolls are not zero
    hands.hold(steps=25)
    before = in_base(hands.sim)
    hands.hold(name, steps=12)
    hands.hold(steps=18)
    moved = np.subtract(in_base(hands.sim), before)
    moved[1] *= before[0]
    # As fast as the joints go, and no faster than it says.
    assert 0.015 < sign * moved[axis] < 1.1 * (12 + NUDGE_S * 30.0) * HAND_M
    assert np.abs(np.delete(moved, axis)).max() < 0.006


def test_the_hand_stays_where_it_is_out_of_reach_and_goes_back_to_rest() -> None:
    hands = Hands()
    hands.hold("out", steps=120)
    assert np.all(hands.sim.arm < robot.Q_MAX + 1e-3) and np.all(np.isfinite(hands.sim.arm))
    hands.hold("rest", steps=150)
    assert np.abs(hands.sim.arm - robot.REST_Q).max() < 0.05


def test_suction_is_a_switch_stop_is_said_once_and_nothing_moves_without_a_key() -> None:
    hands = Hands()
    hands.keys.press("suction")
    assert hands.policy.act(hands.sim)["grip_action"][0] > 0.0
    hands.keys.press("stop")
    assert hands.policy.act(hands.sim)["rearrange_stop"][0] > 0.0
    again = hands.policy.act(hands.sim)
    assert again["rearrange_stop"][0] < 0.0 and again["grip_action"][0] > 0.0
    hands.keys.press("suction")
    assert hands.policy.act(hands.sim)["grip_action"][0] < 0.0
    hands.clock.now += WAIT_S + 0.1
    with pytest.raises(TimeoutError):
        hands.policy.act(hands.sim)
    assert hands.waited == 4
    hands.keys.press("forward")
    assert hands.policy.act(hands.sim)["base_vel"][0] > 0.0
    hands.clock.now += NUDGE_S + 0.01
    assert not hands.policy.act(hands.sim)["base_vel"].any()


def test_keys_are_all_different() -> None:
    assert len({key for key, _ in KEYS.values()}) == len(KEYS)
    assert not {key for key, _ in KEYS.values()} & {"W", "A", "S", "D", "Q", "E", "P", "N", "X"}


def test_a_plan_in_words() -> None:
    sim = MujocoSimulator()
    episode = make_episode("set_table", "train", 0)
    sim.reset(episode)
    said = [in_words(step, episode, sim.scene) for step in plan(episode, sim.scene)]
    fruit = re.sub(r"^\d+_", "", object_kind(episode.targets[1].object))
    assert said[:6] == [
        "go to the drawer",
        "open the drawer",
        "go to the bowl",
        "pick up the bowl",
        "take the bowl to the table",
        "put the bowl on the table",
    ]
    assert said[6:] == [
        "go to the fridge",
        "open the fridge",
        f"go to the {fruit}",
        f"pick up the {fruit}",
        f"take the {fruit} to the table",
        f"put the {fruit} on the table",
    ]
    nothing_known = replace(episode, targets=())
    assert in_words(plan(episode, sim.scene)[5], nothing_known, sim.scene) == "put the bowl at its goal"


# -- the page ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "error"),
    [
        ("navigate", OSError("No space left on device")),
        ("navigate", ReplayError("step 3 went another way")),
        ("set_table", RuntimeError("no pick start fits")),
    ],
)
def test_an_episode_that_fails_does_not_end_the_page(
    name: str, error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A demonstration cannot be kept, or a scenario's episode cannot be drawn; then, while it waits, comes Ctrl-C."""
    watch = pytest.importorskip("videos.watch", reason="mjviser is not installed: pip install 'tpsrl[watch]'")

    def fail(*told: object) -> str:
        raise error

    def interrupted(timeout_s: float) -> bool:
        raise KeyboardInterrupt

    monkeypatch.setattr(Teleoperation, "act", lambda hands, sim: {STOP: np.ones(1, np.float32)})
    monkeypatch.setattr(watch, "make_episode", fail)
    choice = watch.Choice(name, Agent("teleoperation"), "train", 0)
    page = watch.Watch(choice, chain_limits(100, {}), port=8472, on_played=fail)
    monkeypatch.setattr(page._wishes.changed, "wait", interrupted)
    try:
        with pytest.raises(KeyboardInterrupt):
            page.run()
        assert str(error) in page._page._kept.content + page._page._status.content
    finally:
        page.close()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, subprocess.Popen[str], Path]]:
    """Serve an episode; yields the address, the process and the folder of demonstrations."""
    pytest.importorskip("mjviser", reason="mjviser is not installed: pip install 'tpsrl[watch]'")
    pytest.importorskip("minari", reason="Minari is not installed: pip install 'tpsrl[minari]'")
    folder = tmp_path / "demonstrations"
    command = [
        sys.executable,
        "-m",
        "tpsrl",
        "watch",
        "set_table",
        "--skills",
        "oracle",
        "--split",
        "train",
        "--paused",
    ]
    process = subprocess.Popen(
        [*command, "--port", "8470", "--record", str(folder)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    try:
        assert process.stdout is not None
        said = []
        for line in process.stdout:
            said.append(line)
            if found := re.search(r"look at (http://127\.0\.0\.1:\d+)", line):
                yield found[1], process, folder
                return
        pytest.fail("".join(said))
    finally:
        process.kill()
        process.wait()


class Page:
    """The page as a visitor sees it."""

    def __init__(self, chrome: Any, address: str) -> None:
        self.chrome = chrome
        chrome.get(address)

    @property
    def text(self) -> str:
        return str(self.chrome.find_element("tag name", "body").text)

    def until(self, what: str, than: str = "") -> re.Match[str]:
        """Wait until the text has something, and not what it had; return it."""
        from selenium.webdriver.support.ui import WebDriverWait

        def seen(_: Any) -> re.Match[str] | None:
            found = re.search(what, self.text)
            return found if found and found[0] != than else None

        try:
            return WebDriverWait(self.chrome, 90, 0.3).until(seen)  # type: ignore[no-any-return]
        except Exception as error:
            raise AssertionError(f"no {what!r} in {self.text!r}") from error

    def press(self, *keys: str) -> None:
        from selenium.webdriver import ActionChains

        ActionChains(self.chrome).send_keys(*keys).perform()

    def click(self, label: str) -> None:
        self._click(f"//button[.='{label}']")

    def choose(self, label: str, option: str) -> None:
        self._click(f"//label[.='{label}']/following::input[1]")
        self._click(f"//*[@role='option'][.='{option}']")

    def write(self, label: str, text: str) -> None:
        from selenium.webdriver.common.keys import Keys

        field = self.chrome.find_element("xpath", f"//label[.='{label}']/following::input[1]")
        field.send_keys(Keys.CONTROL, "a")
        field.send_keys(text, Keys.TAB)

    def picture(self, name: str) -> Any:
        """(height, width, 3) what is drawn."""
        image = Image.open(BytesIO(self.chrome.get_screenshot_as_png())).convert("RGB")
        if os.environ.get("TPSRL_SCREENSHOTS"):
            image.save(Path(os.environ["TPSRL_SCREENSHOTS"]) / f"{name}.png")
        return np.asarray(image.crop((0, 200, 600, image.height)), np.int16)

    def _click(self, xpath: str) -> None:
        from selenium.webdriver.common.by import By
        from selenium.webdriver.support.expected_conditions import element_to_be_clickable
        from selenium.webdriver.support.ui import WebDriverWait

        element = WebDriverWait(self.chrome, 30).until(element_to_be_clickable((By.XPATH, xpath)))
        self.chrome.execute_script("arguments[0].scrollIntoView({block: 'center'})", element)
        element.click()


@pytest.mark.slow
def test_watching_and_driving_in_a_browser(served: tuple[str, subprocess.Popen[str], Path], tmp_path: Path) -> None:
    address, process, folder = served
    chrome = open_browser(tmp_path / "profile", webgl=True)
    try:
        page = Page(chrome, address)

        # It loads, paused, with the plan, what is to be achieved and what the head sees.
        page.until(r"set_table, train episode 0, oracle: step 1, paused")
        assert "▶ 1/12 go to the drawer" in page.text and "☐ pick 1 ☐ place 1 ☐ pick 2 ☐ place 2" in page.text
        assert "A script: it has no value" in page.text
        page.until(r"base at \(\S+ \S+\) m")

        # One step is one step.
        page.press("n")
        page.until("step 2, paused")

        # The robot moves, in the text and in the picture.
        still, first = page.until(r"base at \(\S+ \S+\) m")[0], page.picture("paused")
        page.choose("Speed", "4")
        page.click("Play")
        page.until(r"base at \(\S+ \S+\) m", still)
        page.until(r"step [1-9]\d\d")

        # Pause stops it.
        page.click("Pause")
        page.until("paused")
        step = page.until(r"step \d+, paused")[0]
        moved = page.picture("moved")
        assert (np.abs(moved - first).max(axis=2) > 20).mean() > 0.02
        chrome.execute_async_script("setTimeout(arguments[0], 1500)")
        assert step in page.text

        # Another episode loads, and another task by other hands.
        page.write("Episode", "1")
        page.press("x")
        page.until(r"train episode 1, oracle: step 1, paused")
        assert (np.abs(page.picture("another") - moved).max(axis=2) > 20).mean() > 0.02
        page.choose("Task", "navigate")
        page.choose("Agent", "teleoperation")
        page.click("Reset")
        page.until(r"navigate, train episode 1, teleoperation: step 0")
        page.click("Play")
        page.until("waits for a key")
        page.press("i", "i")
        page.until(r"navigate, train episode 1, teleoperation: step ([5-9]|\d\d)")
        page.press("\ue007")  # enter: stop
        page.until(r"demonstration 0 is kept: \d+ steps")
        page.picture("driven")
        severe = [entry for entry in chrome.get_log("browser") if entry["level"] == "SEVERE"]
        assert [entry for entry in severe if "blob:" not in entry["message"]] == []
    finally:
        chrome.quit()
    process.send_signal(signal.SIGTERM)
    said, _ = process.communicate(timeout=60)
    assert process.returncode == 0 and "1 episodes" in said, said

    # What was driven is a dataset, which its environment plays again.
    os.environ["MINARI_DATASETS_PATH"] = str(folder / "minari")
    import minari

    dataset = minari.load_dataset("tpsrl/navigate/teleoperation-train-v0")
    (episode,) = dataset.iterate_episodes()
    (told,) = dataset.storage.get_episode_metadata([0])
    env = dataset.recover_environment()
    env.reset(seed=told["seed"], options={"index": int(told["options"]["index"])})
    seen = [env.step({part: rows[t] for part, rows in episode.actions.items()})[0] for t in range(len(episode))]
    for key, rows in episode.observations.items():
        assert np.array_equal(rows[1:], [observation[key] for observation in seen]), key
    assert episode.actions["base_vel"][:, 0].max() > 0.5 and episode.actions["rearrange_stop"][-1, 0] > 0.0
