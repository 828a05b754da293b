"""Every page in both themes, read by axe: nothing serious stands in the way of those who see or hear it otherwise."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from dashboard.menu import PAGES, Entry

pytestmark = pytest.mark.slow
SERIOUS = ("serious", "critical")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("entry", PAGES, ids=lambda entry: entry.path)
def test_axe_finds_nothing_serious(visitor: Callable[..., Any], entry: Entry, theme: str) -> None:
    from axe_playwright_python.sync_playwright import Axe

    guest = visitor(color_scheme=theme).open(entry.path, model="gpt2")
    found = Axe().run(guest.page).response["violations"]
    told = {
        each["id"]: [(node["html"][:200], node["any"][:1] and node["any"][0]["message"]) for node in each["nodes"][:4]]
        for each in found
        if each["impact"] in SERIOUS
    }
    assert told == {}
