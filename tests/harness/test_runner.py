"""`devices` and `run`, the background jobs, and what decides whether a row is worth something."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("torch")

import torch

from calc.errors import Refused
from harness import jobs, suites
from harness.__main__ import COMMANDS, cli, main
from harness.environment import commit, here, probe
from harness.ledger import Ledger, device_lock, key
from harness.observer import Cancelled, Observer, clock, line, seconds
from harness.process import Outcome, Worker
from harness.record import Measurement, Sample
from harness.runner import Plan, Summary, _Sweep, choose_cases
from harness.store import append
from harness.worker import classify
from tests.harness.planted import Planted
from tests.harness.rows import CPU, FORECAST, H100, measurement, row
from tests.test_imports import HEAVY, loaded_by


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, [*arguments], standalone_mode=False)


def test_the_environment_is_what_is_installed() -> None:
    found = probe("cpu")
    assert found == here("cpu").model_copy(update={"load": found.load, "threads": found.threads})
    assert found.torch == str(torch.__version__)
    assert (found.device, found.cores) == ("cpu", len(os.sched_getaffinity(0)))
    assert found.slug.startswith("cpu-")
    assert found.commit == commit()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(Refused, match="device: expected a CUDA device that torch can use, found none"):
        Worker("cuda")
    with pytest.raises(Refused, match="device: expected cuda, found none"):
        probe("cuda")


def test_devices_prints_the_machine(tmp_path: Path) -> None:
    result = run("devices", "--json", "--results", str(tmp_path))
    records = [json.loads(text) for text in result.output.splitlines()]
    assert records[-1]["device"] == "cpu"
    assert records[-1]["memory"] > 2**20
    assert records[-1]["profile"] is None
    folder = tmp_path / "profiles"
    folder.mkdir()
    (folder / f"{records[0]['slug']}.json").touch()
    table = run("devices", "--results", str(tmp_path)).output
    assert records[0]["slug"] in table
    assert "No profile yet" not in table


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_has_help(command: str) -> None:
    assert "Usage:" in run(command, "--help").output


def test_neither_running_nor_reading_loads_torch() -> None:
    loaded = loaded_by("import harness.cli.run, harness.cli.devices, harness.jobs, harness.store, harness.timing")
    assert not set(HEAVY) & set(loaded)


def test_an_unknown_command_is_one_line(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "argv", ["harness", "devics"])
    with pytest.raises(SystemExit) as end:
        main()
    assert end.value.code == 2
    assert "(did you mean devices?)" in capsys.readouterr().err


@pytest.mark.parametrize("suite", list(suites.SUITES))
@pytest.mark.parametrize("environment", [CPU, H100])
def test_every_suite_has_cases_with_an_id_each(suite: str, environment: Any) -> None:
    cases = suites.suite_cases(suite, environment)
    assert cases
    assert len({case.id for case in cases}) == len(cases)
    assert all(json.loads(json.dumps(case.params)) == case.params for case in cases)


def test_cases_are_chosen_by_a_part_of_their_id_or_a_pattern() -> None:
    cases = [Planted("work", 1), Planted("work", 12), Planted("hang")]
    assert choose_cases(cases, None) == cases
    assert choose_cases(cases, "hang") == cases[2:]
    assert choose_cases(cases, "*size=1") == cases[:1]
    with pytest.raises(Refused, match="--case: expected a part of the id of one of 3 cases"):
        choose_cases(cases, "nothing")


@pytest.mark.parametrize(
    ("error", "status", "reason"),
    [
        (MemoryError(), "oom", "MemoryError: no message"),
        (
            torch.OutOfMemoryError("CUDA out of memory. Tried to\nallocate"),
            "oom",
            "OutOfMemoryError: CUDA out of memory",
        ),
        (RuntimeError("[enforce fail] DefaultCPUAllocator: can't allocate memory"), "oom", "RuntimeError: [enforce"),
        (RuntimeError("CUDA error: an illegal memory access was encountered"), "crashed", "illegal memory access"),
        (NotImplementedError("not here"), "unsupported", "not here"),
        (KeyError("x"), "crashed", "KeyError: 'x'"),
    ],
)
def test_what_an_exception_stands_for(error: BaseException, status: str, reason: str) -> None:
    found = classify(error)
    assert found[0] == status
    assert reason in found[1]
    assert "\n" not in found[1]


class Standing:
    """In a worker's place, where none is needed."""

    def __init__(self, environment: Any) -> None:
        self.environment = environment


@pytest.mark.parametrize(
    ("measured", "status", "why"),
    [
        (measurement(1.0, low=0.96, high=1.04), "ok", ""),
        (measurement(1.0, low=0.9, high=1.1), "unstable", "the interval of the median is 20% of it wide, above 10%"),
        (measurement(1.0, sample=Sample(throttle=("software power cap",))), "ok", ""),
        (measurement(1.0, sample=Sample(throttle=("hardware slowdown",))), "throttled", "hardware slowdown"),
        (measurement(1e-12), "unstable", "impossible"),
    ],
)
def test_what_a_measurement_is_worth(tmp_path: Path, measured: Measurement, status: str, why: str) -> None:
    turn = _Sweep(Plan([], "quick", tmp_path), Standing(H100), Observer())  # pyright: ignore[reportArgumentType]
    found = turn._verdict(Planted("work"), {"flops": 1e9}, Outcome("ok", "", measured))
    assert found[0] == status
    assert found[1].startswith(why)


def test_a_row_stands_for_a_case_only_where_nothing_has_changed(tmp_path: Path) -> None:
    def done(*rows: Any, suite: str = "quick", since: str | None = None, forecast: Any = None) -> bool:
        folder = tmp_path / str(time.monotonic_ns())
        for number, written in enumerate(rows):
            append(written.model_copy(update={"run": f"r{number}"}), folder)
        ledger = Ledger(folder, CPU, suite, since)
        ledger.refresh()
        return ledger.is_done("matmul/m=1", forecast)

    assert done(row())
    assert not done()
    assert not done(row(case="matmul/m=2"))
    assert not done(row(status="unstable"))
    assert not done(row(environment=CPU.model_copy(update={"commit": "abd"})))
    assert not done(row(environment=CPU.model_copy(update={"torch": "2.7"})))
    assert done(row(environment=CPU.model_copy(update={"load": 7.0})))
    # Another suite's row counts where it is as exact as was asked for.
    assert done(row(), suite="full")
    assert not done(row(measurement=measurement(converged=False)), suite="full")
    assert done(row(measurement=measurement(converged=False)), suite="quick")
    # With --fresh only what has been measured since counts.
    assert not done(row(), since="2026-02-01")
    assert done(row(), since="2026-01-01")
    # A prediction made afterwards would be none.
    assert not done(row(), forecast=FORECAST)
    assert done(row(forecast=FORECAST), forecast=FORECAST)
    assert not done(row(forecast=FORECAST), forecast=FORECAST.model_copy(update={"source": "another"}))
    assert key(CPU) != key(H100)


def test_only_one_runner_measures_on_a_device(tmp_path: Path) -> None:
    told: list[str] = []

    def stop() -> None:
        raise Cancelled

    with device_lock(tmp_path, "x", stop, lambda: told.append("?")):
        with pytest.raises(Cancelled), device_lock(tmp_path, "x", stop, lambda: told.append("waiting")):
            raise AssertionError("both have it")
        with device_lock(tmp_path, "y", stop, lambda: told.append("?")):
            pass
    with device_lock(tmp_path, "x", stop, lambda: told.append("?")):
        pass
    assert told == ["waiting"]


def test_exit_statuses() -> None:
    assert Summary().exit_status == 0
    assert Summary([row(), row(status="unstable"), row(status="skipped")]).exit_status == 0
    for status in ("crashed", "oom", "timeout"):
        assert Summary([row(), row(status=status)]).exit_status == 1
    assert Summary([row(status="oom")], interrupted=True).exit_status == 130


def test_what_is_left_is_what_cases_took_last_time() -> None:
    observer = Observer()
    cases = [Planted("work", size) for size in (1, 2, 3)]
    observer.begin(cases, {cases[0].id: 7.0, cases[1].id: 11.0}.get)
    assert observer.left() == pytest.approx(7 + 11 + 5, abs=0.5)
    observer.case(0, cases[0])
    observer.row(0, row(wall=30.0))
    observer.known(1, cases[1])
    assert observer.left() == pytest.approx(30, abs=0.5)


def test_times_as_people_read_them() -> None:
    values = (2.5e-9, 1.234e-5, 9.999e-4, 0.0456, 7.891, 1234.0)
    assert [seconds(value) for value in values] == ["2.5 ns", "12.3 µs", "1 ms", "45.6 ms", "7.89 s", "1234 s"]
    assert clock(125.7) == "2:05"
    told = line(row(measurement=measurement(0.01, low=0.0099, high=0.0101), forecast=FORECAST, reason="why"))
    assert told == "ok          matmul/m=1  10 ms ± 1.0%  predicted 1 s  why"


def wait(job: str, results: Path) -> jobs.Job:
    end = time.monotonic() + 240
    while (found := jobs.status(job, results)).active:
        assert time.monotonic() < end
        time.sleep(0.1)
    return found


@pytest.mark.slow
def test_a_job_in_the_background_ends_and_can_be_cancelled(tmp_path: Path) -> None:
    first = jobs.start_background(tmp_path, "quick", case="matmul")
    assert jobs.status(first, tmp_path).active
    jobs.cancel(first, tmp_path)
    assert wait(first, tmp_path).state == "cancelled"
    assert [job.id for job in jobs.jobs(tmp_path)] == [first]


@pytest.mark.slow
def test_a_job_that_fails_says_why(tmp_path: Path) -> None:
    job = jobs.start_background(tmp_path, "quick", case="no such case")
    found = wait(job, tmp_path)
    assert found.state == "died"
    assert found.message.startswith("error: --case: expected")


def test_a_jobs_name_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    for name in ("..", "../..", "a" * 12, ""):
        with pytest.raises(Refused, match="job: expected the id of a job"):
            jobs.status(name, tmp_path)
