"""What a real server answers at the addresses of pages."""

from __future__ import annotations

import gzip
import re
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import streamlit
from streamlit import file_util

from dashboard.addresses import HEAD
from dashboard.menu import PAGES
from tests.dashboard.serving import serving

TOLD = re.compile(r'BACKEND_BASE_URL:location\.origin\+location\.pathname\.slice\(0,-(\d+)\)\+"/"')


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with serving(tmp_path_factory.mktemp("results")) as address:
        yield address


def test_streamlits_own_page_still_has_the_two_things_that_are_relied_on() -> None:
    static = Path(file_util.get_static_dir())
    told = f"Streamlit {streamlit.__version__}: dashboard/addresses.py has to find another way"
    assert (static / "index.html").read_text().count(HEAD) == 1, told
    scripts = (static / "static" / "js").glob("*.js")
    assert any("BACKEND_BASE_URL" in script.read_text() for script in scripts), told


@pytest.mark.slow
@pytest.mark.parametrize("path", ["", *(entry.path for entry in PAGES[1:])])
def test_a_page_knows_where_its_server_is(server: str, path: str) -> None:
    with urllib.request.urlopen(f"{server}/{path}?model=gpt2") as answer:
        text = answer.read().decode()
    found = TOLD.search(text)
    assert found is not None
    assert int(found[1]) == len(f"/{path}")
    assert text.index(found[0]) < text.index('type="module"')  # before Streamlit's own script asks


@pytest.mark.slow
@pytest.mark.parametrize("query", ["", "?model=gpt2&phase=decode"])
def test_the_first_page_under_its_name_is_the_first_page(server: str, query: str) -> None:
    with urllib.request.urlopen(f"{server}/{PAGES[0].path}{query}") as answer:
        assert answer.url == f"{server}/{query}"
        assert answer.status == 200


@pytest.mark.slow
def test_a_path_of_no_page_is_left_to_streamlit(server: str) -> None:
    with urllib.request.urlopen(f"{server}/nowhere") as answer:
        assert not TOLD.search(answer.read().decode())


@pytest.mark.slow
def test_scripts_come_compressed_to_whoever_takes_that_and_are_the_same(server: str) -> None:
    folder = Path(file_util.get_static_dir()) / "static" / "js"
    script = max(folder.glob("index.*.js"), key=lambda path: path.stat().st_size)
    asked = urllib.request.Request(f"{server}/static/js/{script.name}", headers={"Accept-Encoding": "gzip"})
    with urllib.request.urlopen(asked) as answer:
        packed = answer.read()
        assert answer.headers["Content-Encoding"] == "gzip"
        assert "immutable" in answer.headers["Cache-Control"]
    assert len(packed) < script.stat().st_size / 3
    assert gzip.decompress(packed) == script.read_bytes()
    with urllib.request.urlopen(f"{server}/static/js/{script.name}") as answer:
        assert "Content-Encoding" not in answer.headers
        assert answer.read() == script.read_bytes()
