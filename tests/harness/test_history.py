"""Times from commit to commit."""

from __future__ import annotations

import pytest

from harness.history import commits, levels
from tests.harness.made import environment, measurement, run


def at(commit: str, day: int, case: str, seconds: float, **more: object) -> object:
    return run(
        case,
        environment=environment(commit=commit),
        started=f"2026-11-{day:02d}T10:00:00Z",
        measurement=measurement(seconds),
        **more,
    )


def test_commits_stand_in_the_order_they_were_first_measured() -> None:
    runs = [at("zzz", 1, "matmul/a", 1.0), at("aaa", 3, "matmul/a", 1.0), at("zzz", 5, "matmul/a", 1.0)]
    assert commits(runs) == ["zzz", "aaa"]
    assert commits([run("matmul/a", environment=environment(commit=None))]) == []


def test_levels_are_geometric_means_against_each_cases_first_commit() -> None:
    runs = [
        at("one", 1, "matmul/a", 1.0),
        at("one", 1, "matmul/b", 10.0),
        at("one", 1, "pass/a", 1.0),
        at("two", 2, "matmul/a", 4.0),
        at("two", 2, "matmul/b", 10.0),
        at("two", 2, "matmul/c", 7.0),
        at("six", 3, "matmul/c", 3.5),
        at("six", 3, "matmul/a", 9.0, status="unstable"),
    ]
    found = {(level.commit, level.kind): (level.cases, level.ratio) for level in levels(runs)}
    assert found == {
        ("one", "matmul"): (2, pytest.approx(1.0)),
        ("one", "pass"): (1, pytest.approx(1.0)),
        ("two", "matmul"): (3, pytest.approx(4 ** (1 / 3))),
        ("six", "matmul"): (1, pytest.approx(0.5)),
    }
