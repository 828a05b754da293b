"""What the benchmarks keep: statistics only, by device, with the environment; and samples of other clocks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.environment import here
from tests.reference import ROOT

HANDED_IN = """
from tests.benchmarks.handing_in import hand_in


def test_handed_in(benchmark):
    hand_in(benchmark, [1.0, 2.0, 9.0])
"""


@pytest.mark.slow
def test_a_saved_run_is_small_and_says_what_it_ran_on(tmp_path: Path) -> None:
    file = tmp_path / "test_handed_in.py"
    file.write_text(HANDED_IN)
    cases = "tests/benchmarks/test_cases.py"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", cases, str(file), "-k", "copy or handed"]
    command += ["--benchmark-only", "--benchmark-save", "trend", "--benchmark-storage", f"file://{tmp_path}/kept"]
    # It is no worker itself, though the test may run in one, and workers cannot measure.
    own = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_XDIST")}
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=own)
    assert done.returncode == 0, done.stdout[-2000:]
    slug = here().slug
    (kept,) = (tmp_path / "kept").rglob("*.json")
    assert kept.relative_to(tmp_path / "kept") == Path(slug) / "0001_trend.json"
    found = json.loads(kept.read_text())
    environment = found["machine_info"]["environment"]
    assert environment["slug"] == slug
    assert environment["torch"]
    assert "node" not in found["machine_info"]
    by_name = {each["name"].split("[")[0]: each for each in found["benchmarks"]}
    assert set(by_name) == {"test_case", "test_handed_in"}
    assert all("data" not in each["stats"] for each in found["benchmarks"])
    assert by_name["test_case"]["stats"]["median"] > 0
    assert by_name["test_case"]["extra_info"]["bytes"] > 0
    handed = by_name["test_handed_in"]["stats"]
    assert (handed["median"], handed["min"], handed["rounds"]) == (2.0, 1.0, 3)
