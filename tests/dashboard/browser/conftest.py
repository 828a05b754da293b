"""A real server, and a real browser that looks at it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.dashboard.serving import serving
from tests.reference import ROOT

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


def installed() -> str | None:
    """Where a browser is."""
    return next((path for name in BROWSERS if (path := shutil.which(name))), None)


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    """The browser that is installed; skips where there is none, but never on CI."""
    from playwright.sync_api import sync_playwright

    found = installed()
    if found is None:
        reason = f"no browser: none of {', '.join(BROWSERS)} is installed"
        (pytest.fail if os.environ.get("CI") else pytest.skip)(reason)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=found, args=list(ARGUMENTS))
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of a running dashboard that shows the results of this repository: none of its visitors writes any."""
    with serving(ROOT / "results") as address:
        yield address


@pytest.fixture
def visitor(server: str, chromium: Any) -> Iterator[Callable[..., Any]]:
    """Lets a visitor in. Whatever goes wrong in the browser, or is asked of another machine, fails the test."""
    from tests.dashboard.browser.visiting import DESKTOP, Visitor

    faults: list[str] = []
    contexts: list[Any] = []

    def enter(size: tuple[int, int] = DESKTOP, **more: Any) -> Visitor:
        contexts.append(chromium.new_context(viewport={"width": size[0], "height": size[1]}, **more))
        return Visitor(contexts[-1], server, faults)

    yield enter
    for context in contexts:
        context.close()
    assert not faults
