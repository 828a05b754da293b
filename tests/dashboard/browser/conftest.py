"""A real server, and a real browser that looks at it."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.dashboard.serving import serving

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


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of results that the server reads and writes."""
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def server(results: Path) -> Iterator[str]:
    """The address of a running dashboard."""
    with serving(results) as address:
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
