"""What a visitor sees without scrolling: the answer of every page and its main picture, and figures two by two."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

from playwright.sync_api import expect

from dashboard.menu import Entry
from tests.dashboard.browser.visiting import DESKTOP, PHONE, Visitor

WIDE = (1440, 900)
WITHIN = {WIDE: 600, PHONE: PHONE[1]}
"""Size of a window -> pixels from its top within which both are to end."""
ANSWER = "[data-testid=stAlert]"
PICTURE = ":is([data-testid=stVegaLiteChart], [data-testid=stDataFrame])"
CARD = "[data-testid=stMetric]"
CONTROLS = """() => [...document.querySelectorAll('[data-testid=stMain] :is([data-testid=stSelectbox],'
    + '[data-testid=stMultiSelect], [data-testid=stSlider], [data-testid=stNumberInput], [data-testid=stTextInput],'
    + '[data-testid=stButtonGroup], [data-testid=stRadio], [data-testid=stCheckbox], [data-testid=stFileUploader])')]
    .filter(each => each.checkVisibility({visibilityProperty: true}) && each.getBoundingClientRect().height).length"""
HEADINGS = "() => [...document.querySelectorAll('[data-testid=stMain] :is(h1, h2, h3, h4)')].map(e => +e.tagName[1])"
CUT = """() => [...document.querySelectorAll('[data-testid=stMetric], [data-testid=stMetric] *')].filter(
    each => each.scrollWidth > each.clientWidth + 1 && getComputedStyle(each).overflowX != 'visible').map(
    each => each.textContent)"""
"""Figures of which a part is hidden: another number, or no unit."""
MOST = 6
"""Controls of a page that are in sight; the others are folded."""
PLACES = """(selector) => [...document.querySelectorAll(`[data-testid=stMain] ${selector}`)].map(
    each => each.getBoundingClientRect()).map(each => ({top: each.top, bottom: each.bottom}))"""


def seen_at_once(guest: Visitor, entry: Entry) -> None:
    """Holds a page that was opened in a window of the size WIDE; leaves it in one of the size DESKTOP."""
    assert guest.page.evaluate(CONTROLS) <= MOST
    levels = guest.page.evaluate(HEADINGS)
    assert levels[0] == 1
    assert all(later <= level + 1 for level, later in pairwise(levels)), levels
    for size, most in WITHIN.items():
        guest.page.set_viewport_size({"width": size[0], "height": size[1]})
        guest.settled()
        expect(guest.page.get_by_test_id("stMain").locator(PICTURE).first).to_be_visible()
        answer, first, last = guest.at_rest(
            lambda: _first_screen(guest, entry), lambda seen, most=most: seen[0] <= seen[1] and seen[2] <= most
        )
        assert answer <= first, (entry.path, size)
        assert last <= most, (entry.path, size, last)
    assert guest.at_rest(lambda: _most_beside(guest), lambda most: most <= 2) <= 2
    # The last of an odd number stands alone, and so does the one value of a formula.
    blocks = guest.page.evaluate("document.querySelectorAll('[class*=st-key-cards]').length")
    assert list(_rows(guest).values()).count(1) <= max(blocks, 1)
    for size in (*WITHIN, DESKTOP):
        guest.page.set_viewport_size({"width": size[0], "height": size[1]})
        guest.settled()
        assert guest.at_rest(lambda: guest.page.evaluate(CUT), lambda cut: cut == []) == [], size


def _first_screen(guest: Visitor, entry: Entry) -> tuple[float, float, float]:
    """(where the answer ends, where the main picture begins, where it ends), in pixels from the window's top."""
    answer, *_ = guest.page.evaluate(PLACES, ANSWER)
    # The picture of the first page is its card of five figures.
    home = entry.path == "home"
    shown = guest.page.evaluate(PLACES, CARD if home else PICTURE)
    return answer["bottom"], shown[0]["top"], max(each["bottom"] for each in (shown if home else shown[:1]))


def _rows(guest: Visitor) -> Counter[int]:
    """Height on the page -> figures that stand beside each other there."""
    return Counter(round(each["top"]) for each in guest.page.evaluate(PLACES, CARD))


def _most_beside(guest: Visitor) -> int:
    return max(_rows(guest).values())
