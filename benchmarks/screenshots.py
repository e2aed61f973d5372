"""The screenshots of the studio in the documents: docs/images/studio-*.png.

    python -m benchmarks.screenshots

Serves the shipped models and drives a real browser (Playwright, with the Chromium of the system).
"""

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from unmask.mistakes import extra, require

from .plots import IMAGES

TEXT = (
    "It was a dark evening in November, and the rain had not ceased since the morning. She opened the letter with "
    "trembling hands, and read it twice before she spoke a word to her sister, who was sitting by the fire."
)
SURPRISE = "The captain looked at the banana, and the whole ship laughed until the morning."
STROKE = ((0.3, 0.25), (0.7, 0.25), (0.6, 0.48))
"""Corners of what is drawn, as shares of the canvas: the beginning of a seven."""
WIDE, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
SEED = 4
LONGEST = 120_000
"""Milliseconds that a model may take."""


@contextmanager
def serving() -> Iterator[str]:
    """A server of the shipped models; its address."""
    words = [sys.executable, "-m", "unmask", "serve", "demo", "digits", "--port", "0", "--json"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, text=True) as server:
        try:
            yield json.loads(next(iter(server.stdout or ())))["address"]
        finally:
            server.terminate()


def opened(browser: Any, address: str, tab: str, viewport: dict[str, int], scheme: str) -> Any:
    """A page with one tab of the studio."""
    page = browser.new_page(viewport=viewport, color_scheme=scheme)
    page.set_default_timeout(LONGEST)
    page.goto(f"{address}/#{tab}")
    page.wait_for_selector("html[data-ready]")
    return page


def run(tab: Any) -> None:
    """Run and wait for the end."""
    tab.get_by_label("Seed", exact=True).fill(str(SEED))
    tab.locator(".go .primary").click()
    tab.locator(".runner .note").filter(has_text=re.compile("network calls")).wait_for()
    tab.get_by_role("button", name="Play", exact=True).wait_for()


def write(page: Any) -> None:
    """A text, every fourth word of it masked, and two variants."""
    tab = page.locator("#write")
    tab.locator("details.side").evaluate("side => side.open = true")  # closed on a phone
    tab.get_by_label("Text", exact=True).fill(TEXT)
    tab.locator(".board .token").nth(40).wait_for()
    tab.get_by_role("button", name="Every").click()
    tab.get_by_label("Temperature", exact=True).fill("0.7")
    run(tab)


def alternatives(page: Any) -> None:
    """What else might have been the word `had`."""
    write(page)
    page.locator("#write .card .token.new").filter(has_text="had").first.hover()
    page.get_by_text("Chosen at step").wait_for()


def surprise(page: Any) -> None:
    """A sentence as a heat map."""
    tab = page.locator("#surprise")
    tab.get_by_label("Text", exact=True).fill(SURPRISE)
    tab.locator(".primary").click()
    tab.get_by_text("bits per token").first.wait_for()


def draw(page: Any) -> None:
    """A stroke, completed four times."""
    tab = page.locator("#draw")
    canvas = tab.locator("canvas").first
    box = canvas.bounding_box()
    corners = [(box["x"] + x * box["width"], box["y"] + y * box["height"]) for x, y in STROKE]
    page.mouse.move(*corners[0])
    page.mouse.down()
    for corner in corners[1:]:
        page.mouse.move(*corner, steps=20)
    page.mouse.up()
    tab.get_by_role("button", name="Background").click()
    tab.get_by_label("Variants", exact=True).fill("4")
    run(tab)


def nothing(page: Any) -> None:
    """The tab as it opens."""


SHOTS = {
    "studio-write-light": ("write", WIDE, "light", alternatives),
    "studio-write-phone": ("write", PHONE, "dark", write),
    "studio-surprise-light": ("surprise", {"width": 1280, "height": 720}, "light", surprise),
    "studio-draw-dark": ("draw", WIDE, "dark", draw),
    "studio-explain-dark": ("explain", {"width": 1280, "height": 840}, "dark", nothing),
}
"""(tab, size, colours, what is done first); a page that is longer than it is high is shown in full, but for Explain."""


def main() -> None:
    """Write all of them."""
    playwright = extra("playwright.sync_api", "dev", "a screenshot")
    browsers = filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome")))
    executable = next(browsers, None)
    require(executable is not None, "there is no browser", got="none", allowed="Chromium", do="install the package")
    with serving() as address, playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=executable, args=["--no-sandbox"])
        for name, (tab, viewport, scheme, prepare) in SHOTS.items():
            page = opened(browser, address, tab, viewport, scheme)
            prepare(page)
            page.screenshot(path=IMAGES / f"{name}.png", full_page=tab != "explain")
            print(f"wrote {name}.png")
        browser.close()


if __name__ == "__main__":
    main()
