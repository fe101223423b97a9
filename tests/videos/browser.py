"""Headless Chromium for the tests of pages."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest


def open_browser(profile: Path, webgl: bool = False) -> Any:
    """Return a Chromium without a GPU, `webgl` if it is to draw in 3D; skip the test where there is none."""
    chromium, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if not (chromium and driver):
        pytest.skip("no Chromium with its driver: Debian's chromium and chromium-driver")
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = chromium
    drawing = ("--use-angle=swiftshader", "--enable-unsafe-swiftshader") if webgl else ("--disable-gpu",)
    for argument in (
        *drawing,
        *("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", f"--user-data-dir={profile}", "--mute-audio"),
        *("--no-first-run", "--disable-sync", "--disable-background-networking", "--disable-component-update"),
        "--window-size=1000,800",
    ):
        options.add_argument(argument)
    return webdriver.Chrome(options=options, service=webdriver.ChromeService(driver))
