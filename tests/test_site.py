"""The documents build as a site, with warnings as errors, that asks for nothing from anywhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

import calc
from tests.reference import ROOT


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(out)]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.slow
def test_every_document_is_a_page_that_search_finds(site: Path) -> None:
    index = json.loads((site / "search" / "search_index.json").read_text())
    found = {entry["location"].partition("#")[0].strip("/") for entry in index["docs"]}
    assert {path.stem for path in (ROOT / "docs").glob("*.md")} - {"index"} <= found


@pytest.mark.slow
def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        loaded = re.findall(r"<(?:script|img|iframe)[^>]*\bsrc=\"(?:https?:)?//", page.read_text())
        loaded += re.findall(r"<link[^>]*rel=\"(?:stylesheet|preconnect)\"[^>]*href=\"(?:https?:)?//", page.read_text())
        assert not loaded, page


@pytest.mark.slow
def test_the_reference_holds_commands_and_functions(site: Path) -> None:
    commands = (site / "reference" / "command-line" / "index.html").read_text()
    assert all(f'id="{name}' in commands for name in ("report", "memory", "predict", "plan", "serve", "survey"))
    python = (site / "reference" / "python" / "index.html").read_text()
    named = re.findall(r"^::: calc\.(\w+)$", (ROOT / "docs" / "reference" / "python.md").read_text(), re.MULTILINE)
    assert set(named) <= set(calc.__all__)
    assert all(f'id="calc.{name}"' in python for name in named)


def test_forms_and_workflows_are_read() -> None:
    files = [*(ROOT / ".github").rglob("*.yml"), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"]
    assert len(files) == 5
    for file in files:
        assert isinstance(yaml.safe_load(file.read_text()), dict), file
    version = re.search(r'^version = "(.*)"$', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    assert version
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == version[1]
