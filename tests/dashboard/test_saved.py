"""Charts that are saved say what they are: title, model, device, and the command with every setting."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from calc.charts.saving import picture
from dashboard import frame, saved
from dashboard.menu import PAGES
from dashboard.results import VARIABLE
from tests.dashboard.opening import opened
from tests.reference import ROOT

pytest.importorskip("vl_convert")
DEVICES = {
    "memory": "l40s",
    "plan": "64 GPUs of dgx-h100",
    "serve": "h100-sxm, l40s",
    "roofline": "l40s",
    "attention": "l40s",
    "measured": "cpu-intel",
}
"""Page -> the device that its first chart is of; of the others' numbers there is none."""
MOST_NUMBERS = 10
"""On an axis."""
WITH_CHARTS = [entry for entry in PAGES if entry.path not in ("home", "lectures")]


@pytest.mark.parametrize("entry", WITH_CHARTS, ids=lambda entry: entry.path)
def test_every_chart_names_title_model_device_and_settings(entry: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[dict[str, Any]] = []
    monkeypatch.setenv(VARIABLE, str(ROOT / "results"))
    monkeypatch.setattr(frame, "titled", lambda *drawn: found.append(saved.titled(*drawn)) or found[-1])
    opened(entry.path, model="gpt2", gpu="l40s")
    assert found
    for each in found:
        title = each["title"]
        first, *settings = title["subtitle"]
        assert len(title["text"]) > 8
        assert first.startswith(f"Envelope · {entry.title}")
        assert ("gpt2" in first) == entry.of_model
        assert " ".join(settings).startswith("python -m ")
    assert 2 < max(map(_most_numbers, found)) <= MOST_NUMBERS
    device = DEVICES.get(entry.path, saved.ANY)
    assert device in " ".join(found[0]["title"]["subtitle"])


def test_of_eighty_layers_ten_at_most_are_numbered(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(frame, "titled", lambda *drawn: found.append(saved.titled(*drawn)) or found[-1])
    opened("model", model="nemotron-3-super")
    assert max(map(_most_numbers, found)) <= MOST_NUMBERS


def _most_numbers(drawn: dict[str, Any]) -> int:
    """Of the axes of a chart as wide as a page, on the one that has the most."""
    written = picture(drawn, "svg", 980).decode()
    axes = re.findall(r'role-axis-label".*?</g>', written, re.DOTALL)
    return max((len(re.findall(r">[+-]?\d[^<]*</text>", axis)) for axis in axes), default=0)


def test_what_is_saved_shows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    found: list[dict[str, Any]] = []
    monkeypatch.setattr(frame, "titled", lambda *drawn: found.append(saved.titled(*drawn)) or found[-1])
    opened("memory", model="gpt2", gpu="l40s", seq="512")
    written = picture(found[0], "svg").decode()
    assert "Memory by term against the memory of each GPU" in written
    assert "Envelope · Memory · gpt2 · l40s" in written
    assert "python -m calc memory gpt2 --seq 512" in written


@given(st.text(max_size=400))
def test_a_long_command_stays_within_its_lines(command: str) -> None:
    saved.about("l40s", command)
    lines = saved.titled({}, "A chart.")["title"]["subtitle"]
    assert len(lines) <= saved.MOST
    assert all(len(line) <= saved.COLUMNS for line in lines)
