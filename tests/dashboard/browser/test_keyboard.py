"""The keyboard alone reaches every control of every page, and changes what it reaches."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from dashboard.menu import PAGES, Entry
from tests.dashboard.browser.visiting import Visitor

pytestmark = pytest.mark.slow
MOST = 250
"""Times that Tab is pressed on one page."""
REACH = "document.activeElement && document.activeElement.setAttribute('data-reached', '1')"
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
def test_tab_reaches_every_control(visitor: Callable[..., Visitor], entry: Entry) -> None:
    page = visitor().open(entry.path, model="gpt2").page
    page.wait_for_timeout(500)
    page.keyboard.press("Tab")
    for _ in range(MOST):
        page.evaluate(REACH)
        page.keyboard.press("Tab")
    assert page.evaluate(LEFT) == []


def test_keys_change_a_list_a_slider_a_switch_and_a_fold(visitor: Callable[..., Visitor]) -> None:
    guest = visitor().open("memory", model="gpt2")
    peak = guest.metric("Peak of a GPU")
    seen = [peak.inner_text()]
    guest.slide("Sequences of one rank", 3)
    seen.append(peak.inner_text())
    box = guest.page.get_by_role("combobox", name="Checkpointing")
    box.focus()
    for key in ("ArrowDown", "ArrowDown", "Enter"):
        box.press(key)
    guest.settled()
    seen.append(peak.inner_text())
    mode = guest.page.get_by_test_id("stButtonGroup").filter(has_text="inference")
    mode.get_by_role("radio", name="training").focus()
    guest.page.keyboard.press("ArrowRight")
    guest.page.keyboard.press("Space")
    guest.settled()
    expect(guest.metric("Sequences that fit")).to_be_visible()
    seen.append(peak.inner_text())
    assert len(set(seen)) == 4
    fold = guest.page.locator("summary", has_text="Several GPUs")
    fold.focus()
    fold.press("Enter")
    expect(guest.page.get_by_role("combobox", name="TP")).to_be_visible()
