"""What only some pages have: keys that change a control, and colours that axe sees where nothing covers them."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.dashboard.browser.visiting import PAPER, Visitor

pytestmark = pytest.mark.slow


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


def test_chosen_values_stand_on_a_red_that_white_is_read_on(visitor: Callable[..., Visitor]) -> None:
    """Axe looks at them only where nothing covers them."""
    guest = visitor(color_scheme="light").open("serve", model="gpt2")
    page, papers = guest.page, set[str]()
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        papers.add(guest.at_rest(lambda: page.evaluate(PAPER), lambda seen: seen not in papers))
        chosen = page.locator("[data-testid=stMultiSelect] :is([data-tag], [data-baseweb=tag])").first
        chosen.wait_for()
        look = "it => [getComputedStyle(it).backgroundColor, getComputedStyle(it.querySelector('span')).color]"
        behind, words = (luminance(color) for color in chosen.evaluate(look))
        assert (words + 0.05) / (behind + 0.05) >= 4.5
    assert len(papers) == 2


def luminance(color: str) -> float:
    """Relative luminance of `rgb(r, g, b)` (WCAG 2.2)."""
    parts = [int(part) / 255 for part in color.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
