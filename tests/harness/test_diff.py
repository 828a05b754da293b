"""Two sets of results against each other."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from calc.errors import Refused
from harness.diff import Difference, Side, difference, latest, side
from harness.store import append
from tests.harness.made import environment, measurement, run
from tests.harness.test_compare import asked

OLD, NEW = environment(commit="aaaa11112222"), environment(commit="bbbb11112222")


def pair(before: float, after: float, width: float = 0.01) -> list:
    return [
        run("matmul/a", environment=where, measurement=measurement(seconds, width))
        for where, seconds in ((OLD, before), (NEW, after))
    ]


def changed(runs: list, least: float = 0.0) -> Difference:
    a, b = (
        Side("commit", name, latest(r for r in runs if r.environment.commit == name))
        for name in ("aaaa11112222", "bbbb11112222")
    )
    return difference(a, b, least)


@pytest.mark.parametrize(
    ("before", "after", "width", "least", "verdict"),
    [
        (1.0, 1.1, 0.01, 0.0, "SLOWER"),
        (1.0, 0.9, 0.01, 0.0, "FASTER"),
        (1.0, 1.01, 0.01, 0.0, "SAME"),
        (1.0, 1.1, 0.06, 0.0, "SAME"),
        (1.0, 1.1, 0.01, 0.2, "SAME"),
    ],
)
def test_verdict_follows_from_the_intervals(
    before: float, after: float, width: float, least: float, verdict: str
) -> None:
    (change,) = changed(pair(before, after, width), least).changes
    assert change.verdict == verdict
    assert change.ratio == pytest.approx(after / before)
    assert change.low == pytest.approx(after * (1 - width) / (before * (1 + width)))


def test_only_common_cases_count(tmp_path: Path) -> None:
    runs = [*pair(1.0, 2.0), run("matmul/b", environment=OLD, measurement=measurement(1.0))]
    found = changed(runs)
    assert (len(found.changes), found.only_a, found.only_b, found.ratio) == (1, 1, 0, pytest.approx(2.0))


def test_sides_are_devices_commits_or_folders(tmp_path: Path) -> None:
    runs = [*pair(1.0, 2.0), run("matmul/a", environment=environment("gpu"), measurement=measurement(0.1))]
    assert side("aaaa", runs, lambda path: []).kind == "commit"
    assert side("gpu", runs, lambda path: []).kind == "device"
    assert side(str(tmp_path), runs, lambda path: runs[:2]).kind == "folder"
    with pytest.raises(Refused, match="one device, which --device chooses, found cpu-one, gpu"):
        side(str(tmp_path), runs, lambda path: runs)
    for unknown in ("aa", "zzzz", ""):
        with pytest.raises(Refused):
            side(unknown, runs, lambda path: [])


def test_exit_status_tells_whether_something_is_slower(tmp_path: Path) -> None:
    for each in pair(1.0, 1.5):
        append(each, tmp_path)
    slower = asked("diff", "aaaa", "bbbb", "--results", tmp_path, "--json")
    assert slower.return_value == 1
    assert json.loads(slower.stdout)["verdict"] == "SLOWER"
    assert asked("diff", "bbbb", "aaaa", "--results", tmp_path).return_value == 0
    refused = asked("diff", "aaaa", "cccc", "--results", tmp_path)
    assert isinstance(refused.exception, Refused)
    assert "aaaa11112222" in str(refused.exception)


def test_nothing_is_refused_with_what_to_run(tmp_path: Path) -> None:
    refused = asked("diff", "a", "b", "--results", tmp_path)
    assert isinstance(refused.exception, Refused)
    assert "python -m harness run" in str(refused.exception)
