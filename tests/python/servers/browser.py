"""A headless Chromium that a test looks at a page with."""

import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from selenium import webdriver
from selenium.webdriver.chrome.service import Service

from .processes import PROGRAM_PATH, wait_for

PACKAGES = {"chromium": "chromium", "chromedriver": "chromium-driver"}

# Texts with their sizes in pixels; what has no place on the page is left out.
SIZES = """
const sizes = [];
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) {
  const text = texts.currentNode.textContent.trim(), parent = texts.currentNode.parentElement;
  if (!text || !parent.checkVisibility() || !parent.getClientRects().length) continue;
  sizes.push([parseFloat(getComputedStyle(parent).fontSize), text]);
}
return sizes;
"""


class Browser:
    """A page of a headless Chromium."""

    def __init__(self, driver: webdriver.Chrome) -> None:
        self.driver = driver

    def show(self, url: str, width: int, height: int, *, dark: bool = False) -> None:
        """Opens a page in a window of this size, on a phone where it is narrow."""
        self.driver.execute_cdp_cmd(
            "Emulation.setDeviceMetricsOverride",
            {"width": width, "height": height, "deviceScaleFactor": 2, "mobile": width < 600},
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.driver.get("about:blank")
        self.complaints()  # of the page before
        self.driver.get(url)

    def run(self, script: str) -> Any:
        """Runs JavaScript in the page, and returns what that returns."""
        return self.driver.execute_script(script)

    def text(self, selector: str) -> str:
        """Returns the text of an element."""
        return self.run(f"return document.querySelector({selector!r})?.textContent ?? ''")

    def wait_for(self, condition: Callable[["Browser"], bool]) -> None:
        """Waits until a condition holds; fails after 20 s."""
        wait_for(lambda: condition(self))

    def overflow(self) -> int:
        """Returns by how many pixels the page is wider than the window."""
        return self.run(
            "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
        )

    def smallest_text(self) -> tuple[float, str]:
        """Returns the size in pixels of the smallest text, and that text."""
        size, text = min(self.run(SIZES))
        return size, text

    def complaints(self) -> list[str]:
        """Returns what the page's scripts and policy complained of since the last call."""
        return [entry["message"] for entry in self.driver.get_log("browser")]


@contextmanager
def run_chromium() -> Iterator[Browser]:
    """Runs a browser while the context lasts."""
    options = webdriver.ChromeOptions()
    options.binary_location = shutil.which("chromium", path=PROGRAM_PATH) or ""
    # Root has no sandbox; nothing but the tests' own pages is opened.
    for option in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(option)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    program = shutil.which("chromedriver", path=PROGRAM_PATH)
    driver = webdriver.Chrome(options, Service(program))
    try:
        yield Browser(driver)
    finally:
        driver.quit()
