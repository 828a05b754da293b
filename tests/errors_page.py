"""`python -m tests.errors_page` writes docs/errors.md: the errors of every predictor, a section a version.

The tables are those of the documents, which tests work out again from the rows; here they are only brought together.
What stands under a version that was released stays as it is.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from tests.reference import ROOT

PAGE = ROOT / "docs" / "errors.md"
CHANGES = ROOT / "CHANGELOG.md"


class Published(NamedTuple):
    """A table of a document. header: how its first line begins. held: the test that works it out, below `tests`."""

    title: str
    document: str
    header: str
    held: str


TABLES = (
    Published("Kernels", "prediction-measured", "| kind | models | rows held out |", "time/test_profile_tables.py"),
    Published(
        "Kernels of a device that was not measured, %, by others that were",
        "prediction-measured",
        "| kind | from | models |",
        "time/test_profile_tables.py",
    ),
    Published(
        "Kernels of an H20 and an H800, of which nothing was fitted",
        "prediction-measured",
        "| device | kind | rows |",
        "time/test_profile_tables.py",
    ),
    Published("An H200 that this project surveyed", "prediction-measured", "| what | cases |", "time/test_surveyed.py"),
    Published("Memory on that H200", "prediction-measured", "| training step | counted |", "time/test_surveyed.py"),
    Published("Tokens", "prediction-measured", "| published times | rests on |", "time/test_published.py"),
    Published("Training steps", "prediction-measured", "| kind of row | rows |", "time/test_training_rows.py"),
    Published(
        "Training steps by source", "prediction-measured", "| source | rows | median", "time/test_training_rows.py"
    ),
    Published(
        "Training steps: intervals", "prediction-measured", "| GPUs | rows | held |", "time/test_training_rows.py"
    ),
    Published("Serving by source", "serving-measured", "| source | rows | per token |", "serve/test_measured.py"),
    Published("Serving by engine", "serving-measured", "| engine | rows | per token |", "serve/test_measured.py"),
    Published("Serving by GPU", "serving-measured", "| GPU | rows | per token |", "serve/test_measured.py"),
    Published("llama.cpp by device", "serving-measured", "| device | rows | all |", "serve/test_local.py"),
    Published("llama.cpp by backend", "serving-measured", "| backend | rows | all |", "serve/test_local.py"),
    Published("Serving: all queued at once", "serving-measured", "| GPU | rows | median |", "serve/test_queued.py"),
    Published("Serving: MLPerf Offline", "serving-measured", "| MLPerf Offline | rows |", "serve/test_offline.py"),
    Published("Serving: beside simulators", "serving-measured", "| tool | experiments |", "serve/test_side_by_side.py"),
    Published("Laws: runs held out", "scaling-laws-fits", "| runs | rows | held out,", "cli/test_fit.py"),
    Published("Laws: 95 % intervals", "scaling-laws-fits", "| design | runs | 0.3 %", "fitting/test_coverage.py"),
    Published("Laws: tasks", "scaling-laws-fits", "| task | bits a byte,", "laws/test_tasks.py"),
)

HEAD = """\
# Errors by version

How far predictions were from what somebody measured, on rows that no constant was fitted to. Brought together from the
documents that say how the rows were divided and what was missed, by `python -m tests.errors_page`; the test that is
named works each table out again. Counts (parameters, FLOPs, caches) are no predictions: they are equal to the integer
or refused.
"""


def table(wanted: Published) -> str:
    """The lines of the table. Errors: ValueError where the document has none that begins so, or several."""
    text = (ROOT / "docs" / f"{wanted.document}.md").read_text()
    found = re.findall(rf"^{re.escape(wanted.header)}.*\n(?:\|.*\n)+", text, re.MULTILINE)
    if len(found) != 1:
        raise ValueError(f"docs/{wanted.document}.md: expected one table {wanted.header!r}, found {len(found)}")
    return found[0]


def version() -> str:
    """The version that is being made: the newest heading of the changelog."""
    return re.findall(r"^## (.*)$", CHANGES.read_text(), re.MULTILINE)[0]


def section() -> str:
    """All tables of the version that is being made."""
    parts = [f"## {version()}\n"]
    for each in TABLES:
        says = f"From [{each.document}]({each.document}.md), held by `tests/{each.held}`."
        parts.append(f"### {each.title}\n\n{says}\n\n{table(each)}")
    return "\n".join(parts)


def page(old: str) -> str:
    """The whole page. old: the one before, whose sections of other versions are kept."""
    kept = [
        each for each in re.split(r"^(?=## )", old, flags=re.MULTILINE)[1:] if not each.startswith(f"## {version()}\n")
    ]
    return "\n".join([HEAD, section(), *kept]).rstrip() + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text() if PAGE.exists() else ""))
