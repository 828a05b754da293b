"""What a visitor sees without scrolling: the answer of every page, and where its main picture begins."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from dashboard.menu import PAGES
from tests.dashboard.browser.visiting import PHONE, Visitor

pytestmark = pytest.mark.slow
WIDE = (1440, 900)
WITHIN = {WIDE: 600, PHONE: PHONE[1]}
"""Size of a window -> pixels from its top within which both are to begin."""
ANSWERS = ":is([data-testid=stAlert], [data-testid=stMetric], [data-testid=stException])"
PICTURES = ":is([data-testid=stVegaLiteChart], [data-testid=stDataFrame])"
LATER = {
    ("home", WIDE),
    *((path, PHONE) for path in ("home", "formula", "memory")),
}
"""Pages whose main picture begins further down."""
NO_ANSWER = ("formula", "measured")
"""A page that first asks, and one that has nothing to show where nothing was measured."""
TOP = "(each) => each.getBoundingClientRect().top"


def test_answer_and_picture_are_there_at_first_sight(visitor: Callable[..., Visitor]) -> None:
    guest = visitor(WIDE)
    main = guest.page.get_by_test_id("stMain")
    late = set()
    for path in (entry.path for entry in PAGES if entry.path != "measured"):
        guest.page.set_viewport_size({"width": WIDE[0], "height": WIDE[1]})
        guest.open(path, model="llama-3-8b")
        for size, most in WITHIN.items():
            guest.page.set_viewport_size({"width": size[0], "height": size[1]})
            picture = main.locator(PICTURES).first
            expect(picture).to_be_visible()
            if path not in NO_ANSWER:
                assert main.locator(ANSWERS).first.evaluate(TOP) < most, (path, size)
            if picture.evaluate(TOP) >= most:
                late.add((path, size))
    assert late <= LATER


def test_a_link_of_the_menu_keeps_the_model_while_the_first_page_is_being_drawn(
    visitor: Callable[..., Visitor],
) -> None:
    guest = visitor(WIDE)
    guest.page.goto(f"{guest.address}/plan?model=gpt2")
    guest.page.get_by_test_id("stSidebarNav").get_by_role("link", name="Serve").click()
    expect(guest.page.get_by_role("heading", level=1, name="Serve")).to_be_visible()
    guest.settled()
    assert guest.knobs == {"model": "gpt2"}
    expect(guest.page.get_by_test_id("stMain").get_by_text("gpt2", exact=True).first).to_be_visible()
