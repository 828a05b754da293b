"""The button that measures: pressed in a real browser, with the real harness behind it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

if not os.environ.get("CI"):
    pytest.importorskip("playwright", reason="playwright is not installed")
    pytest.importorskip("streamlit", reason="streamlit is not installed")
    pytest.importorskip("torch", reason="torch is not installed")

from playwright.sync_api import expect

from harness.compare import compare
from harness.store import scan
from tests.dashboard.browser.visiting import PHONE, Visitor
from tests.dashboard.serving import serving
from tests.harness.short_profile import measure_short_profile

Enter = Callable[..., Visitor]
MINUTES = 5
STARTED = re.compile(r"Suite quick: \d+ of \d+ cases|Suite quick: starting")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of results that the server reads and writes."""
    return tmp_path_factory.mktemp("results")


@pytest.fixture(scope="module")
def server(results: Path) -> Iterator[str]:
    """A dashboard of those results alone."""
    with serving(results) as address:
        yield address


@pytest.fixture(scope="module")
def profiled(results: Path) -> Path:
    """Results with a profile of this machine."""
    measure_short_profile(results)
    return results


def ask(guest: Visitor, case: str) -> None:
    box = guest.page.get_by_label("Only cases that hold")
    if not box.is_visible():
        guest.page.locator("summary", has_text="Which cases").click()
    box.fill(case)
    box.press("Enter")
    guest.settled()
    guest.page.get_by_role("button", name="Run on this machine").click()


def press(guest: Visitor, case: str) -> None:
    ask(guest, case)
    expect(guest.page.get_by_text(STARTED)).to_be_visible(timeout=60_000)


def ended(guest: Visitor, state: str) -> None:
    words = guest.page.get_by_text(re.compile(rf"Last run: suite .*, {state}, "))
    expect(words).to_be_visible(timeout=MINUTES * 60_000)
    guest.settled()


@pytest.mark.slow
def test_run_measures_and_the_new_points_arrive(visitor: Enter, profiled: Path) -> None:
    guest = visitor().open("measured")
    expect(guest.page.get_by_text("No results for this machine yet")).to_be_visible()
    press(guest, "pass/")
    other = visitor(PHONE).open("measured")
    expect(other.page.get_by_text(STARTED)).to_be_visible()
    expect(other.page.get_by_role("button", name="Run on this machine")).to_have_count(0)
    guest.page.reload()
    guest.settled()
    expect(guest.page.get_by_text(STARTED)).to_be_visible()
    assert guest.open("roofline").metric("Tokens per second").inner_text()
    guest.open("measured", unstable="true")
    ended(guest, "done")
    # A machine that runs tests beside it may give unstable times alone.
    pairs = compare(scan(profiled)[0], unstable=True).pairs
    assert len(pairs) > 2, [(run.case, run.status, run.reason) for run in scan(profiled)[0]]
    for each in (guest, other.open("measured", unstable="true")):
        expect(each.metric("Cases")).to_have_text(f"{len(pairs)}", timeout=20_000)
    assert guest.page.locator('[data-testid="stVegaLiteChart"]').count() >= 2
    assert not [run for run in scan(profiled)[0] if run.status == "crashed"]


@pytest.mark.slow
def test_a_run_is_cancelled_and_its_rows_stay(visitor: Enter, profiled: Path) -> None:
    guest = visitor().open("measured")
    press(guest, "")
    guest.page.get_by_role("button", name="Cancel").click()
    ended(guest, "cancelled")
    expect(guest.page.get_by_role("button", name="Run on this machine")).to_be_visible()


@pytest.mark.slow
def test_a_pattern_that_fits_nothing_says_so(visitor: Enter, profiled: Path) -> None:
    guest = visitor().open("measured")
    ask(guest, "<b>no such case</b>")
    alert = guest.page.get_by_test_id("stAlert").filter(has_text="Not started")
    expect(alert).to_contain_text("expected a part of the id")
    expect(alert).to_contain_text("<b>no such case</b>")
    expect(guest.page.get_by_role("button", name="Run on this machine")).to_be_visible()
