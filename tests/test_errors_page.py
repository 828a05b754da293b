"""docs/errors.md has every table as its document has it, and keeps what other versions said."""

from __future__ import annotations

import pytest

from tests import errors_page
from tests.reference import ROOT


def test_the_page_is_what_the_command_writes() -> None:
    now = errors_page.PAGE.read_text()
    assert errors_page.page(now) == now, "python -m tests.errors_page"


@pytest.mark.parametrize("published", errors_page.TABLES, ids=lambda each: each.title)
def test_a_table_is_held_by_a_test_that_reads_its_document(published: errors_page.Published) -> None:
    held = ROOT / "tests" / published.held
    sources = held.read_text() + "".join(each.read_text() for each in held.parent.glob("*_tables.py"))
    assert f"{published.document}.md" in sources
    assert errors_page.table(published).count("\n") > 2


def test_what_other_versions_said_is_kept() -> None:
    old = "# Errors\n\n## 0.0.9\n\n### Kernels\n\n| a |\n"
    assert errors_page.page(old).endswith("\n## 0.0.9\n\n### Kernels\n\n| a |\n")
    with pytest.raises(ValueError, match="expected one table"):
        errors_page.table(errors_page.Published("", "serving-measured", "| no such", ""))
