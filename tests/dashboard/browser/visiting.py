"""A visitor: a browser on the dashboard that notes everything that should not happen."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar
from urllib.parse import parse_qs, urlencode, urlsplit

from playwright.sync_api import BrowserContext, Locator, Page, expect

from dashboard.menu import PAGES

T = TypeVar("T")
DESKTOP = (1280, 900)
PHONE = (390, 844)
SECONDS = 90
"""How long anything may take on a busy machine."""
expect.set_options(timeout=SECONDS * 1000)
LOOK = 0.2
"""Seconds between two looks at what may still move."""
PAPER = "() => getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor"


class Visitor:
    """One visitor's page. faults: what should not have happened so far."""

    def __init__(self, context: BrowserContext, address: str, faults: list[str]) -> None:
        self.address, self.faults, self.context = address, faults, context
        self.page: Page = context.new_page()
        self.page.set_default_timeout(SECONDS * 1000)
        self.page.on("console", lambda said: self._fault(said.text, said.location.get("url", ""), said.type))
        self.page.on("pageerror", lambda error: self.faults.append(f"page: {error}"))
        self.page.on("request", lambda request: self._foreign(request.url))
        self.page.on("websocket", lambda socket: self._foreign(socket.url))

    def _fault(self, text: str, url: str, kind: str) -> None:
        if kind == "error":
            self.faults.append(f"console: {text} {url}")

    def _foreign(self, url: str) -> None:
        if urlsplit(url).scheme not in ("data", "blob") and urlsplit(url).hostname != "127.0.0.1":
            self.faults.append(f"request: {url}")

    def open(self, path: str = "", **knobs: str) -> Visitor:
        """Open a page of the dashboard with knobs in its address. The first page of the menu has no path."""
        path = "" if path == PAGES[0].path else path
        return self.follow(f"{self.address}/{path}" + (f"?{urlencode(knobs)}" if knobs else ""))

    def follow(self, link: str) -> Visitor:
        """Open a link as it was shared."""
        self.page.goto(link)
        # Before its script has begun, a page seems to be drawn to its end.
        expect(self.page.get_by_role("heading", level=1).first).to_be_visible()
        return self.settled()

    def settled(self) -> Visitor:
        """Once the page has been drawn to its end, without a fault shown."""
        self.page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]')
        with suppress(Exception):
            self.page.wait_for_selector('[data-testid="stApp"][data-test-script-state="running"]', timeout=150)
        self.page.wait_for_selector('[data-testid="stApp"][data-test-script-state="notRunning"]')
        expect(self.page.get_by_test_id("stException")).to_have_count(0)
        return self

    def at_rest(self, measure: Callable[[], T], right: Callable[[T], bool] = bool) -> T:
        """What is measured, once two looks agree and are right; after SECONDS the last, right or not. A chart takes its
        size some time after its script has ended, and moves what stands below it."""
        found = measure()
        for _ in range(int(SECONDS / LOOK)):
            self.page.wait_for_timeout(LOOK * 1000)
            before, found = found, measure()
            if found == before and right(found):
                break
        return found

    def menu(self) -> None:
        """Have the sidebar open, which a phone hides."""
        button = self.page.get_by_test_id("stExpandSidebarButton")
        if button.is_visible():
            button.click()

    def back(self) -> None:
        """Have the sidebar away where it covers the page."""
        size = self.page.viewport_size
        if size is not None and size["width"] < 700:
            self.page.get_by_test_id("stSidebar").hover()
            self.page.get_by_test_id("stSidebarCollapseButton").get_by_role("button").click()

    def go(self, title: str) -> Visitor:
        """Follow a link of the menu."""
        self.menu()
        self.page.get_by_test_id("stSidebarNav").get_by_role("link", name=title).click()
        expect(self.page.get_by_role("heading", level=1, name=title)).to_be_visible()
        return self.settled()

    def pick(self, preset: str) -> Visitor:
        """Choose a preset in the sidebar."""
        self.menu()
        box = self.page.get_by_role("combobox", name="Preset", exact=True)
        box.click()
        box.fill(preset)
        self.page.get_by_role("option", name=preset, exact=True).click()
        self.settled()
        self.back()
        return self

    def metric(self, label: str) -> Locator:
        """The value of a figure."""
        figure = self.page.get_by_test_id("stMetric").filter(
            has=self.page.get_by_test_id("stMetricLabel").get_by_text(label, exact=True)
        )
        return figure.get_by_test_id("stMetricValue")

    def slide(self, label: str, steps: int) -> Visitor:
        """Move a slider by so many of its steps to the right."""
        slider = self.page.get_by_role("slider", name=label)
        slider.focus()
        for _ in range(steps):
            slider.press("ArrowRight")
        return self.settled()

    def download(self, name: str, nth: int = 0) -> bytes:
        """What the button of that name gives."""
        with self.page.expect_download() as waiting:
            self.page.get_by_role("button", name=name, exact=True).nth(nth).click()
        return waiting.value.path().read_bytes()

    @property
    def knobs(self) -> dict[str, str]:
        """What stands in the address behind the question mark."""
        return {name: values[0] for name, values in parse_qs(urlsplit(self.page.url).query).items()}
