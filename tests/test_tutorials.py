"""The tutorials work as they stand, each from top to bottom in a checkout of its own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests import tutorials
from tests.reference import ROOT


@pytest.mark.parametrize("page", tutorials.PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
@pytest.mark.slow
def test_a_tutorial_works_as_it_stands(page: Path, tmp_path: Path) -> None:
    tutorials.lay(tmp_path)
    tutorials.work_through(page, tmp_path)


@pytest.mark.parametrize("page", tutorials.PAGES, ids=lambda page: f"{page.parent.name}/{page.stem}")
def test_every_change_of_a_tutorial_has_its_place(page: Path) -> None:
    """In the tree as it is, told in no time: working through a page takes minutes."""
    written: dict[str, str] = {}
    for step in tutorials.steps(page):
        if step.language == "diff":
            before = written[step.title] if step.title in written else (ROOT / step.title).read_text(encoding="utf-8")
            written[step.title] = tutorials.change(before, step.text)
        else:
            written[step.title] = step.text


def test_every_reader_has_one() -> None:
    found = {(page.parent.name, page.stem) for page in tutorials.PAGES}
    readers = ("student", "training-engineer", "operator", "researcher")
    things = ("family", "block", "law", "gpu", "cluster", "engine", "kernel")
    assert found == {("tutorials", each) for each in readers} | {("adding", each) for each in things}
    assert all(tutorials.steps(page) for page in tutorials.PAGES)


def test_every_page_of_the_documents_is_in_the_site_s_contents() -> None:
    named = set(re.findall(r": ([\w/-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    there = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert named == there


def test_a_change_needs_its_place_just_once() -> None:
    assert tutorials.change("a\nb\nc\n", " a\n+x\n-b\n") == "a\nx\nc\n"
    for before in ("b\n", "a\nb\na\nb\n"):
        with pytest.raises(AssertionError):
            tutorials.change(before, " a\n+x\n-b\n")
