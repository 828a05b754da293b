"""The page of measured against predicted."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from calc.errors import Refused
from harness.store import append
from tests.harness.made import environment, forecast, measurement, run
from tests.harness.test_compare import RUNS, asked

HOSTILE = '</svg><script>alert("x")</script><img src=x onerror=alert(1)>\u202e'


class Tags(HTMLParser):
    """The tags of a page, with their attributes."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


def page(results: Path, *arguments: object) -> str:
    out = results / "page.html"
    result = asked("report", "--results", results, "--out", out, *arguments)
    assert result.exception is None, result.exception
    return out.read_text()


def test_page_holds_everything_and_asks_for_nothing(tmp_path: Path) -> None:
    for each in RUNS:
        append(each, tmp_path)
    text = page(tmp_path)
    tags = Tags(text).found
    assert [tag for tag, _ in tags].count("svg") == 2
    assert "http" not in text.replace("http-equiv", "")
    fetching = {"src", "href", "xlink:href", "srcset", "data", "action"}
    assert not [attrs for _, attrs in tags if fetching & attrs.keys()]
    assert not {"script", "link", "iframe", "object", "base"} & {tag for tag, _ in tags}
    for shown in ("matmul/b", "training/d", "40.0%", "abc123def456", "MAPE 42.5%"):
        assert shown in text


def test_hostile_texts_stay_texts(tmp_path: Path) -> None:
    parts = {HOSTILE: 1.0}
    machine = environment("cpu-one", name=HOSTILE, cpu=HOSTILE)
    told = {"forecast": forecast(2.0, by_component=parts), "measurement": measurement(1.0, by_component=parts)}
    append(run(f"k/{HOSTILE}", kind=HOSTILE, environment=machine, suite=HOSTILE, **told), tmp_path)
    text = page(tmp_path, "--by", "suite")
    tags = Tags(text).found
    assert not {"script", "img"} & {tag for tag, _ in tags}
    assert not [name for _, attrs in tags for name in attrs if name.startswith("on")]
    assert "\u202e" not in text
    assert "&lt;script&gt;" in text


def test_charts_show_every_case(tmp_path: Path) -> None:
    for each in RUNS:
        append(each, tmp_path)
    svg = re.findall(r"<svg.*?</svg>", page(tmp_path), re.S)[0]
    assert svg.count('aria-roledescription="point"') == len(RUNS)


def test_profiles_errors_are_shown_and_bad_ones_passed_over(tmp_path: Path) -> None:
    for each in RUNS:
        append(each, tmp_path)
    folder = tmp_path / "profiles"
    folder.mkdir()
    (folder / "cpu-one.json").write_text('{"schema_version": 99}')
    result = asked("report", "--results", tmp_path, "--json")
    assert result.exception is None
    assert "passed over" in result.stderr
    assert json.loads(result.stdout)["devices"]["cpu-one"]["n"] == 4


def test_nothing_says_what_to_run(tmp_path: Path) -> None:
    result = asked("report", "--results", tmp_path)
    assert isinstance(result.exception, Refused)
    assert "python -m harness run" in str(result.exception)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("out", ["page.txt", "none/page.html"])
def test_other_files_are_refused(tmp_path: Path, out: str) -> None:
    assert isinstance(asked("report", "--results", tmp_path, "--out", tmp_path / out).exception, Refused)
