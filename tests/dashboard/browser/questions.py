"""Ten questions that a stranger asks with the home page open, and the clicks that answer them.

`python -m tests.dashboard.browser.questions` asks them and prints the table of docs/dashboard.md.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from playwright.sync_api import expect, sync_playwright

from tests.dashboard.browser.conftest import ARGUMENTS, installed
from tests.dashboard.browser.visiting import DESKTOP, Visitor
from tests.dashboard.serving import serving

CLICKS = {"preset": 2, "gpu": 2, "link": 1, "menu": 1}
"""Kind of step -> clicks: a list is opened, and one of it chosen."""
MOST = 3
"""Clicks that an answer may take."""


class Question(NamedTuple):
    """steps: (kind, what) from the home page on. answer: what the visitor then reads."""

    asked: str
    steps: tuple[tuple[str, str], ...]
    answer: Callable[[Visitor], str]

    @property
    def clicks(self) -> int:
        """How many clicks its steps take."""
        return sum(CLICKS[kind] for kind, _ in self.steps)


def figure(label: str) -> Callable[[Visitor], str]:
    """The value of a figure with what stands below it."""

    def read(guest: Visitor) -> str:
        value = guest.metric(label)
        expect(value).to_be_visible()
        below = value.locator("xpath=ancestor::*[@data-testid='stMetric']").get_by_test_id("stMetricDelta")
        return " · ".join([value.inner_text(), *below.all_inner_texts()]).replace("\n", " ")

    return read


def verdict(guest: Visitor) -> str:
    """The sentence that stands above the figures."""
    return guest.page.get_by_test_id("stAlert").first.inner_text()


def remedy(guest: Visitor) -> str:
    """The first of the buttons that would help."""
    return guest.page.get_by_role("button").filter(has_text="GiB").first.inner_text()


def fits(guest: Visitor) -> str:
    """What the table of GPUs says; its cells are drawn, and heard by those who hear pages."""
    cells = (
        guest.page.get_by_test_id("stDataFrame").first.locator("canvas [role=row]").nth(1).locator("[role=gridcell]")
    )
    return " · ".join(cells.all_inner_texts()[:4])


QUESTIONS = (
    Question("Does Qwen3 32B fit on one H100?", (("preset", "qwen3-32b"),), figure("Fits on")),
    Question("How long is a token of Llama 3 8B on an L40S?", (("gpu", "l40s"),), figure("A token, alone")),
    Question("Which GPU gives each user 50 tokens a second at the least cost?", (("menu", "Serve"),), verdict),
    Question("How many H100 days does Llama 3 8B take on a trillion tokens?", (("menu", "Plan"),), figure("GPU-days")),
    Question("How many parameters has Mixtral, and how many does a token use?", (("preset", "mixtral-8x7b"),),
             figure("Parameters")),
    Question("On how many RTX 4090 does Llama 3 70B run in int4?", (("preset", "llama-3-70b"),), fits),
    Question("What does a million tokens cost with 16 users on an H100?", (), figure("Serving")),
    Question("What would let Llama 3 8B be trained on H100s?", (("link", "What it holds"),), remedy),
    Question("How far past the optimum is Llama 3 8B on 15T tokens?", (("menu", "Scaling laws"),),
             figure("Tokens a parameter")),
    Question("What bounds a prompt of Llama 3 8B on an H100?", (("link", "Where its time goes"),), figure("Bound by")),
)  # fmt: skip


def ask(guest: Visitor, question: Question) -> tuple[str, float]:
    """The answer, and the seconds from the opened home page to it."""
    guest.open()
    begun = time.perf_counter()
    for kind, what in question.steps:
        if kind == "link":
            guest.page.get_by_test_id("stMain").get_by_role("link", name=what).click()
            guest.settled()
        elif kind == "menu":
            guest.go(what)
        else:
            _choose(guest, "Preset" if kind == "preset" else "On which GPU", what)
    return question.answer(guest), time.perf_counter() - begun


def _choose(guest: Visitor, label: str, name: str) -> None:
    box = guest.page.get_by_role("combobox", name=label, exact=True)
    box.click()
    box.fill(name)
    guest.page.get_by_role("option", name=name, exact=True).click()
    guest.settled()


def main() -> None:
    with TemporaryDirectory() as folder, serving(Path(folder)) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=installed(), args=list(ARGUMENTS))
        print("| question | clicks | seconds | answer |\n|---|---|---|---|")
        for question in QUESTIONS:
            context = browser.new_context(viewport={"width": DESKTOP[0], "height": DESKTOP[1]})
            answer, seconds = ask(Visitor(context, address, []), question)
            print(f"| {question.asked} | {question.clicks} | {seconds:.1f} | {answer} |")
            context.close()


if __name__ == "__main__":
    main()
