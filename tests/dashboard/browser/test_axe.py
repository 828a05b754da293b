"""Every page in both themes, read by axe: nothing serious stands in the way of those who see or hear it otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dashboard.menu import PAGES, Entry

pytestmark = pytest.mark.slow
SERIOUS = ("serious", "critical")
PAPER = "() => getComputedStyle(document.querySelector('[data-testid=stApp]')).backgroundColor"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_chosen_values_stand_on_a_red_that_white_is_read_on(visitor: Callable[..., Any], theme: str) -> None:
    """Axe looks at them only where nothing covers them."""
    guest = visitor(color_scheme=theme).open("serve", model="gpt2")
    chosen = guest.page.locator("[data-testid=stMultiSelect] :is([data-tag], [data-baseweb=tag])").first
    chosen.wait_for()
    look = "it => [getComputedStyle(it).backgroundColor, getComputedStyle(it.querySelector('span')).color]"
    behind, words = (luminance(color) for color in chosen.evaluate(look))
    assert (words + 0.05) / (behind + 0.05) >= 4.5


def luminance(color: str) -> float:
    """Relative luminance of `rgb(r, g, b)` (WCAG 2.2)."""
    parts = [int(part) / 255 for part in color.removeprefix("rgb(").removesuffix(")").split(",")]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("entry", PAGES, ids=lambda entry: entry.path)
def test_axe_finds_nothing_serious(visitor: Callable[..., Any], entry: Entry) -> None:
    guest = visitor(color_scheme="light").open(entry.path, model="gpt2")
    page = guest.page
    paper = page.evaluate(PAPER)
    assert serious(page) == {}
    page.emulate_media(color_scheme="dark")
    assert guest.at_rest(lambda: page.evaluate(PAPER), lambda seen: seen != paper) != paper
    assert serious(guest.settled().page) == {}


def serious(page: Any) -> dict[str, Any]:
    """What axe takes for serious, by rule: the first pieces of the page that break it, and why."""
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return {
        each["id"]: [(node["html"][:200], node["any"][:1] and node["any"][0]["message"]) for node in each["nodes"][:4]]
        for each in found
        if each["impact"] in SERIOUS
    }
