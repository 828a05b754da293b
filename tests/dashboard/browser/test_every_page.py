"""Every page in one visit: what is seen without scrolling, what the keyboard reaches, both themes as axe reads them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dashboard.menu import PAGES, Entry
from tests.dashboard.browser.first_screen import WIDE, seen_at_once
from tests.dashboard.browser.visiting import DESKTOP, PAPER, Visitor

pytestmark = pytest.mark.slow
SERIOUS = ("serious", "critical")
MOST = 250
"""Times that Tab is pressed on one page."""
AT_ONCE = 10
"""Times between two looks at what is left."""
REACH = """document.addEventListener('focusin', event => event.target.setAttribute('data-reached', '1'))"""
LEFT = """() => [...document.querySelectorAll(
    '[data-testid=stMain] :is(input, textarea, button, [role=slider], [role=combobox])')]
  .filter(each => each.checkVisibility({visibilityProperty: true}) && !each.disabled && each.tabIndex >= 0
    && each.type !== 'file' && !each.closest('[data-testid=stElementToolbar]')
    && !(each.type === 'radio' && !each.checked))
  .filter(each => !each.hasAttribute('data-reached')
    && !each.closest('[data-testid=stButtonGroup]')?.querySelector('[data-reached]'))
  .map(each => each.outerHTML.slice(0, 200))"""
"""What is in sight and has not been reached. Of radios and of buttons in a row one is; arrows lead on."""


@pytest.mark.parametrize("entry", PAGES, ids=lambda entry: entry.path)
def test_a_page_is_seen_read_and_worked_by_everybody(visitor: Callable[..., Visitor], entry: Entry) -> None:
    guest = visitor(WIDE, color_scheme="light").open(entry.path, model="llama-3-8b")
    seen_at_once(guest, entry)
    assert guest.page.evaluate("document.documentElement.scrollWidth") <= DESKTOP[0]
    assert unreached(guest.page) == []
    paper = guest.page.evaluate(PAPER)
    assert serious(guest.page) == {}
    guest.page.emulate_media(color_scheme="dark")
    assert guest.at_rest(lambda: guest.page.evaluate(PAPER), lambda seen: seen != paper) != paper
    assert serious(guest.settled().page) == {}


def unreached(page: Any) -> list[str]:
    """Controls that are not reached by pressing Tab."""
    page.evaluate(REACH)
    for _ in range(0, MOST, AT_ONCE):
        for _ in range(AT_ONCE):
            page.keyboard.press("Tab")
        if not page.evaluate(LEFT):
            break
    return page.evaluate(LEFT)


def serious(page: Any) -> dict[str, Any]:
    """What axe takes for serious, by rule: the first pieces of the page that break it, and why."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return {
        each["id"]: [(node["html"][:200], node["any"][:1] and node["any"][0]["message"]) for node in each["nodes"][:4]]
        for each in found
        if each["impact"] in SERIOUS
    }
