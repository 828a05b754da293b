"""The panel that measures: what it refuses before anything is started, and what it says of the last run."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from streamlit.testing.v1 import AppTest

from calc.errors import Refused
from calc.time.device.profile import PROFILES
from dashboard import running
from harness.environment import INSTALL, likely_slug, probe
from harness.record import Environment
from harness.running import jobs
from harness.store import append
from harness.suites import SUITES, possible_cases, suite_cases
from tests.dashboard.opening import errors, opened, sound
from tests.harness.made import environment, run

needs_torch = pytest.mark.skipif(find_spec("torch") is None, reason="torch is not installed")


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ENVELOPE_RESULTS", str(tmp_path))
    return tmp_path


def last(results: Path, **more: Any) -> None:
    """Leave the files of a run that is over."""
    given: dict[str, Any] = {"id": "0123456789ab", "suite": "quick", "started": 1.0, "updated": 2.0, "state": "done"}
    job = jobs.Job(**(given | more))
    folder = results / "jobs" / job.id
    folder.mkdir(parents=True)
    (folder / "state.json").write_text(job.model_dump_json())


def line(at: AppTest) -> str:
    """What the page says of the last run."""
    (words,) = (each.value for each in at.caption if each.value.startswith("Last run"))
    return words


def form(at: AppTest) -> list[str]:
    """The keys of what the panel asks."""
    keys = [each.key or "" for each in (*at.button, *at.checkbox, *at.selectbox, *at.text_input)]
    return [key for key in keys if key.startswith("run_")]


def test_without_torch_it_says_what_to_install_and_asks_nothing(results: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    last(results, statuses={"ok": 3})
    at = opened("measured")
    assert form(at) == []
    command = "pip install -e '.[harness]'"
    assert INSTALL.endswith(command)
    (words,) = (each.value for each in at.markdown if "pip install" in each.value)
    assert words == f"Measuring needs torch: `{command}`"
    assert line(at).endswith("done, 3 ok.")


@needs_torch
def test_with_torch_there_is_a_form(results: Path) -> None:
    assert {"run_suite", "run_case", "run_fresh", "run_profile", "run_start"} == set(form(opened("measured")))


@needs_torch
def test_another_machines_profile_leaves_this_one_to_be_profiled(results: Path) -> None:
    (results / "profiles").mkdir()
    shipped = (PROFILES / "h100-sxm.json").read_text()
    (results / "profiles" / "cpu-of-somebody-else.json").write_text(shipped)
    assert opened("measured").checkbox(key="run_profile").value
    (results / "profiles" / f"{likely_slug()}.json").write_text(shipped)
    assert not opened("measured").checkbox(key="run_profile").value


@needs_torch
def test_this_machine_is_told_without_torch_as_with_it() -> None:
    assert likely_slug() == probe().slug


def test_points_of_the_last_run_are_named_and_those_of_other_machines_are_theirs(results: Path) -> None:
    own = environment(likely_slug())
    append(run("matmul/m=1", 1.0, 1.2, environment=own, started="2026-01-01T00:00:00+00:00"), results)
    append(run("matmul/m=2", 1.0, 1.2, environment=own, started="2026-01-03T00:00:00+00:00"), results)
    append(run("matmul/m=3", 1.0, 1.2, started="2026-01-03T00:00:00+00:00"), results)
    last(results, started=datetime(2026, 1, 2, tzinfo=UTC).timestamp())
    captions = [each.value for each in opened("measured").caption]
    assert "2 of this machine; of other machines, measured there: `1 of cpu-one`" in captions
    assert "New from the last run: 1 of the points, `matmul/m=2`" in captions


def test_a_run_of_unstable_times_alone_says_how_to_see_them(results: Path) -> None:
    append(run("matmul/m=1", 1.0, 1.2, status="unstable"), results)
    last(results, statuses={"unstable": 6, "unsupported": 1})
    at = opened("measured")
    assert line(at).endswith("done, 1 unsupported, 6 unstable: switch on `Unstable times too` to see them.")
    sound(at.toggle(key="unstable").set_value(True).run())
    assert line(at).endswith("done, 1 unsupported, 6 unstable.")


def test_a_run_with_good_times_says_no_more_than_how_many(results: Path) -> None:
    last(results, statuses={"unstable": 6, "ok": 1}, state="cancelled")
    assert line(opened("measured")).endswith("cancelled, 1 ok, 6 unstable.")


@needs_torch
@pytest.mark.parametrize("pattern", ["<b>no such case</b>", "matmul/*/nothing", "`x`"])
def test_a_pattern_that_fits_nothing_is_refused_and_nothing_starts(results: Path, pattern: str) -> None:
    at = opened("measured")
    at.text_input(key="run_case").set_value(pattern)
    sound(at.button(key="run_start").click().run())
    (message,) = errors(at)
    assert message.startswith("Not started: `")
    assert f"--suite quick --list prints them), found {pattern}" in message
    assert jobs.jobs(results) == []


def test_a_case_of_another_suite_is_refused(results: Path) -> None:
    with pytest.raises(Refused, match="--suite attention --list"):
        running.start("attention", "training/model=", False, False)


MACHINES = [
    environment(device=device, memory=gigabytes * 2**30)
    for device, gigabytes in product(("cpu", "cuda"), (1, 8, 24, 48, 80, 192))
]


@pytest.mark.parametrize("suite", SUITES)
@pytest.mark.parametrize("machine", MACHINES, ids=lambda each: f"{each.device}-{each.memory // 2**30}")
def test_a_case_of_any_machine_is_a_possible_one(suite: str, machine: Environment) -> None:
    here = {case.id for case in suite_cases(suite, machine)}
    assert here
    assert here <= {case.id for case in possible_cases(suite)}
