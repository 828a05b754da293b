"""What every page has: tables and charts that download, and commands that run."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from typing import Any

import pytest

from dashboard import frame
from dashboard.menu import PAGES
from tests.dashboard.opening import errors, opened
from tests.dashboard.test_model import charts
from tests.reference import ROOT

PATHS = [entry.path for entry in PAGES]
pytest.importorskip("vl_convert")


def buttons(at: Any) -> list[str]:
    """The labels of all that downloads, outside of the sidebar."""
    return [each.proto.label for each in at.main.get("download_button")]


@pytest.mark.parametrize("path", PATHS)
def test_every_table_and_chart_downloads(path: str) -> None:
    at = opened(path, model="llama-3-8b")
    assert errors(at) == [] or path == "memory"  # which says there that the plan does not fit
    drawn, tables = len(at.get("vega_lite_chart")), len(at.dataframe)
    assert drawn or tables
    assert buttons(at).count("PNG") == buttons(at).count("SVG") == drawn
    assert buttons(at).count("CSV") == tables


@pytest.mark.slow
@pytest.mark.parametrize("path", [path for path in PATHS if path not in ("home", "lectures")])
def test_every_chart_is_saved_as_a_picture(path: str) -> None:
    found = charts(opened(path, model="llama-3-8b"))
    assert found
    for spec in found:
        assert frame.picture(spec, "png").startswith(b"\x89PNG")
        assert frame.picture(spec, "svg").startswith(b"<svg")


@pytest.mark.slow
@pytest.mark.parametrize("path", PATHS)
def test_every_command_runs(path: str) -> None:
    at = opened(path, model="gpt2", other="bert-base", convention="torchtitan", beside="llama-3-8b")
    lines = [line for block in at.code for line in block.value.splitlines() if line.startswith("python -m ")]
    assert lines
    for line in lines:
        words = [sys.executable, *shlex.split(line)[1:]]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        # 1: what `python -m harness compare` or `diff` says of times that differ.
        assert done.returncode == 0 or (done.returncode == 1 and "harness" in words), (line, done.stderr)
        assert done.stdout


def test_every_page_has_a_picture_in_the_readme() -> None:
    readme = (ROOT / "README.md").read_text()
    for entry in PAGES:
        assert re.search(rf"!\[[^\]]+\]\(docs/images/{entry.path}\.png\)", readme), entry.path
        assert (ROOT / "docs" / "images" / f"{entry.path}.png").stat().st_size > 25_000
