"""The documents build as a site, with warnings as errors, that asks for nothing from anywhere."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from html.parser import HTMLParser
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


class Loads(HTMLParser):
    """What a browser asks for when it shows a page; links that people follow are not among it."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.found = re.findall(r"url\(\s*[\"']?([^)\"']+)|@import\s+[\"']([^\"']+)", page)
        self.found = [one or other for one, other in self.found]
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "link" and {"canonical", "prev", "next", "alternate", "edit"} & set((given.get("rel") or "").split()):
            return
        names = {"link": ("href",), "object": ("data",)}.get(tag, ("src", "srcset", "poster"))
        self.found += [given[name] or "" for name in names if name in given]


def elsewhere(page: str) -> list[str]:
    return [each for each in Loads(page).found if re.match(r"\s*(?:https?:)?//", each)]


@pytest.mark.parametrize(
    "page",
    [
        '<script async src="https://unpkg.com/mermaid.js"></script>',
        "<img alt='a' src='//example.org/a.png'>",
        '<link href="https://fonts.gstatic.com" crossorigin rel="preconnect">',
        "<style>@import 'https://example.org/a.css'</style>",
        "<style>body { background: url(https://example.org/a.png) }</style>",
    ],
)
def test_a_load_from_elsewhere_is_seen(page: str) -> None:
    assert len(elsewhere(page)) == 1
    assert not elsewhere(page.replace("https://", "assets/").replace("//", "assets/"))


@pytest.mark.slow
def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    pages = [path for kind in ("*.html", "*.css") for path in site.rglob(kind)]
    assert {path.suffix for path in pages} == {".html", ".css"}
    for path in pages:
        text = path.read_text()
        assert path.suffix == ".css" or Loads(text).found, f"{path} loads nothing at all"
        assert not elsewhere(text), path


@pytest.mark.slow
def test_the_reference_holds_commands_and_functions(site: Path) -> None:
    commands = (site / "reference" / "command-line" / "index.html").read_text()
    assert all(f'id="{name}' in commands for name in ("report", "memory", "predict", "plan", "serve", "survey"))
    python = (site / "reference" / "python" / "index.html").read_text()
    named = re.findall(r"^::: calc\.(\w+)$", (ROOT / "docs" / "reference" / "python.md").read_text(), re.MULTILINE)
    assert sorted(named) == sorted(calc.__all__)
    assert all(f'id="calc.{name}"' in python for name in named)


def test_public_ci_calls_what_stands_in_the_tree_on_every_python_that_is_named() -> None:
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text())["jobs"]
    steps = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    scripts = [name for step in steps for name in re.findall(r"bash (\S+)", step)]
    assert set(scripts) == {".ci/run", ".ci/base", ".ci/oldest"}
    assert all((ROOT / name).stat().st_mode & 0o111 for name in scripts)
    first = re.search(r"^python3 -m venv .*$", (ROOT / "README.md").read_text(), re.MULTILINE)
    assert first
    assert first[0] in steps
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = [line.rpartition(" ")[2] for line in project["classifiers"] if re.search(r":: 3\.\d+$", line)]
    assert jobs["base"]["strategy"]["matrix"]["python"] == named
    assert project["requires-python"] == f">={named[0]}"


def test_the_base_s_tests_and_the_oldest_extras_are_there() -> None:
    base, oldest = ((ROOT / ".ci" / name).read_text() for name in ("base", "oldest"))
    assert all((ROOT / name).exists() for name in re.findall(r"tests/\S+", base))
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    tried = re.findall(r"\.\[(.*)\]", oldest)[0].split(",")
    heavy = {"harness", "trace", "serve", "serving", "dev"}
    assert {*tried, *heavy} == set(project["optional-dependencies"])


def test_forms_and_workflows_are_read() -> None:
    files = [*(ROOT / ".github").rglob("*.yml"), ROOT / ".pre-commit-config.yaml", ROOT / "CITATION.cff"]
    assert len(files) == 5
    for file in files:
        assert isinstance(yaml.safe_load(file.read_text()), dict), file
    # What is cited is the last version that came out; the package's own is made of tags.
    released = re.search(r"^## (\d\S*)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert released
    assert yaml.safe_load((ROOT / "CITATION.cff").read_text())["version"] == released[1]
