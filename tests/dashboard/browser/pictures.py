"""Pictures of every page for the README: `python -m tests.dashboard.browser.pictures [--results DIR]`.

They go to docs/images/, light and 1,280 pixels wide. Needs Debian's chromium, as the tests beside this file.
"""

from __future__ import annotations

import argparse
from io import BytesIO
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from dashboard.menu import PAGES
from tests.dashboard.browser.conftest import ARGUMENTS, installed
from tests.dashboard.browser.visiting import DESKTOP, Visitor
from tests.dashboard.serving import serving
from tests.reference import ROOT

IMAGES = ROOT / "docs" / "images"
KNOBS = {"roofline": {"phase": "training"}}
"""What stands in the address of a page beside the model."""
MODEL = "llama-3-70b"
TALLEST = 1600
"""Pixels of a page; what is below is left out."""
STILL = 1500
"""Milliseconds after which a chart no longer moves."""


def take(address: str, folder: Path) -> None:
    """One picture for each page."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=installed(), args=list(ARGUMENTS))
        for entry in PAGES:
            context = browser.new_context(
                viewport={"width": DESKTOP[0], "height": DESKTOP[1]}, color_scheme="light", reduced_motion="reduce"
            )
            guest = Visitor(context, address, [])
            guest.open(entry.path, model=MODEL, **KNOBS.get(entry.path, {}))
            tall = guest.page.evaluate("document.querySelector('[data-testid=stMain]').scrollHeight")
            guest.page.set_viewport_size({"width": DESKTOP[0], "height": min(tall, TALLEST)})
            guest.settled()
            guest.page.wait_for_timeout(STILL)
            lighten(guest.page.screenshot(), folder / f"{entry.path}.png")
            context.close()
        browser.close()


def lighten(screenshot: bytes, file: Path) -> None:
    """Write a picture in the 256 colours that a page of flat areas hardly exceeds: half of the bytes."""
    seen = Image.open(BytesIO(screenshot)).convert("RGB")
    seen.quantize(256, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Take a picture of every page of the dashboard.")
    parser.add_argument("--results", type=Path, default=ROOT / "results", help="Folder of results that is shown.")
    parser.add_argument("--out", type=Path, default=IMAGES, help="Folder of the pictures.")
    asked = parser.parse_args()
    asked.out.mkdir(parents=True, exist_ok=True)
    with serving(asked.results) as address:
        take(address, asked.out)


if __name__ == "__main__":
    main()
