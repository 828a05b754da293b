"""Charts as files: pictures without a network, in Vega-Lite that its own schema takes."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import pytest

from calc.charts import axes, saving
from calc.charts.vega import Chart
from calc.errors import Refused
from tests.charts.kinds import KINDS


@pytest.mark.parametrize("name", KINDS)
def test_charts_are_saved_as_png_and_svg(name: str) -> None:
    chart = KINDS[name]()
    png, svg = saving.picture(chart, "png"), saving.picture(chart, "svg").decode()
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", png[16:24])
    assert width >= saving.PIXELS * saving.WIDTH
    assert height >= chart["height"]
    assert svg.startswith("<svg")
    assert "http" not in svg.replace("http://www.w3.org", "")


@pytest.mark.parametrize("name", KINDS)
def test_charts_are_vega_lite(name: str) -> None:
    import altair as alt

    alt.Chart.from_dict(_few_rows(KINDS[name]())).to_dict()  # checks against the schema


def _few_rows(chart: Chart) -> Chart:
    """The chart with two rows a layer, since altair checks each for itself."""
    layers = [{**layer, "data": {"values": layer["data"]["values"][:2]}} for layer in chart["layer"]]
    return {**chart, "layer": layers}


@pytest.mark.parametrize("suffix", saving.SUFFIXES)
def test_a_file_is_what_it_ends_in_and_fetches_nothing(tmp_path: Path, suffix: str) -> None:
    path = tmp_path / f"chart{suffix}"
    saving.save(KINDS["stacked"](), path)
    start = {".png": b"\x89PNG", ".svg": b"<svg", ".html": b"<!DOCTYPE html>"}[suffix]
    content = path.read_bytes()
    assert content.startswith(start)
    assert b"cdn." not in content
    assert b'src="http' not in content


def test_without_the_extra_the_pip_command_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    for failing in (lambda: saving.check(tmp_path / "a.png"), lambda: saving.picture(KINDS["stacked"](), "svg")):
        with pytest.raises(Refused, match=r"pip install -e '\.\[charts\]' in a clone"):
            failing()


@pytest.mark.parametrize("path", ["a.pdf", "none/a.png"])
def test_other_files_are_refused(tmp_path: Path, path: str) -> None:
    with pytest.raises(Refused, match="--chart: expected a file"):
        saving.check(tmp_path / path)


def test_bars_of_bytes_have_round_marks() -> None:
    marks = axes.sizes("memory", 300 * 2**30)["values"]
    assert marks == [n * 64 * 2**30 for n in range(5)]
    assert axes.sizes("memory", 1)["values"] == [0, 1]
