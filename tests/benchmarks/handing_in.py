"""Samples that another clock than pytest-benchmark's has taken, such as CUDA events."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def hand_in(benchmark: Any, seconds: Iterable[float]) -> None:
    """Give a benchmark its samples, each seconds of one execution.

    `_make_stats` and `_mode` are no public names of pytest-benchmark, which is pinned in constraints.txt for that
    reason; tests/harness/test_benchmarks.py fails where it works otherwise. Where benchmarks are disabled nothing
    happens.
    """
    benchmark._mode = "hand_in"
    if not benchmark.enabled:
        return
    stats = benchmark._make_stats(1)
    for each in seconds:
        stats.update(each)
