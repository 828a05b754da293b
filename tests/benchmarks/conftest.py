"""Benchmarks are kept by device, with the environment that results of the harness have."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from harness.environment import here
from harness.record import Environment


@cache
def environment() -> Environment:
    """What this process runs on."""
    return here()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Keep results in a folder of the device, not in one of the operating system and Python.

    `_benchmarksession` is no public name of pytest-benchmark; tests/harness/test_benchmarks.py fails where it is gone.
    """
    benchmarks = getattr(session.config, "_benchmarksession", None)
    if benchmarks is not None and not benchmarks.disabled:
        benchmarks.storage.default_machine_id = benchmarks.machine_id = environment().slug


def pytest_benchmark_update_machine_info(config: pytest.Config, machine_info: dict[str, Any]) -> None:
    """All that a time depends on, as every row of the harness has it."""
    machine_info["environment"] = environment().model_dump(mode="json")
    # The name of a machine on its network is nobody's business.
    machine_info.pop("node", None)
