"""`devices` and `run`, the background jobs, and what decides whether a row is worth something."""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("torch")

import torch

from calc.errors import Refused
from harness import suites
from harness.__main__ import COMMANDS, cli, main
from harness.cases.case import Counts
from harness.cli.devices import _record, _table
from harness.environment import commit, here, probe
from harness.record import Measurement, Sample
from harness.running import jobs
from harness.running.ledger import Ledger, device_lock, key
from harness.running.observer import Cancelled, Observer, clock, line
from harness.running.process import Worker
from harness.running.runner import SHORTEST_TIMEOUT, TIMEOUT, Plan, Summary, _Sweep, choose_cases, sweep
from harness.running.worker import classify
from harness.store import append, scan
from tests.harness.made import CPU, H100, forecast, measurement, row
from tests.harness.running.planted import Planted
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


def test_a_device_is_shown_with_its_profile(tmp_path: Path) -> None:
    assert "No profile yet" in _table(_record(H100, tmp_path)).note
    (tmp_path / "profiles").mkdir()
    path = tmp_path / "profiles" / f"{H100.slug}.json"
    path.touch()
    table = _table(_record(H100, tmp_path))
    assert (table.title, table.note) == (H100.slug, "")
    assert {("profile", str(path)), ("catalogue", "h100-sxm"), ("memory", "16.0 GiB (17,179,869,184 B)")} <= set(
        table.rows
    )


@pytest.mark.parametrize("command", list(COMMANDS))
def test_every_command_has_help(command: str) -> None:
    assert "Usage:" in run(command, "--help").output


def test_neither_running_nor_reading_loads_torch() -> None:
    modules = ("cli.run", "cli.devices", "running.jobs", "store", "measuring.timing")
    loaded = loaded_by("import " + ", ".join(f"harness.{module}" for module in modules))
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
        (measurement(1.0, waiting=0.02), "ok", ""),
        (measurement(1.0, waiting=0.4), "unstable", "its threads waited for a core 40% of the time"),
        (measurement(1.0, waiting=0.4, clock="cuda-event"), "ok", ""),
        (measurement(1.0, sample=Sample(throttle=("software power cap",))), "ok", ""),
        (measurement(1.0, sample=Sample(throttle=("hardware slowdown",))), "throttled", "hardware slowdown"),
        (measurement(1e-12), "unstable", "impossible"),
        (measurement(0.0), "unstable", "impossible: it took no time"),
    ],
)
def test_what_a_measurement_is_worth(tmp_path: Path, measured: Measurement, status: str, why: str) -> None:
    turn = _Sweep(Plan([], "quick", tmp_path), Standing(H100), Observer())  # pyright: ignore[reportArgumentType]
    found = turn._verdict(Planted("work"), {"flops": 1e9}, measured)
    assert found[0] == status
    assert found[1].startswith(why)


@dataclass(frozen=True)
class Counted(Planted):
    """Counts `flops`, or fails to with a text of that length."""

    kind: ClassVar[str] = "counted"
    flops: float = 1.0
    text: int = 0

    def counts(self) -> Counts:
        if self.text:
            raise ArithmeticError("x" * self.text)
        return {"flops": self.flops}


def test_counts_that_are_none_cost_their_case_and_no_more(tmp_path: Path) -> None:
    cases = [Counted("work", flops=float("nan")), Counted("work", text=10_000), Counted("work", flops=float("inf"))]
    plan = Plan(cases, "quick", tmp_path)
    summary = sweep(plan, Standing(CPU), Observer())  # pyright: ignore[reportArgumentType]
    assert [run.status for run in summary.rows] == ["crashed"] * 3
    assert "flops is nan" in summary.rows[0].reason
    assert summary.rows[1].reason.startswith("before it started, ArithmeticError: xxx")
    assert [run.run for run in scan(tmp_path)[0]] == [run.run for run in summary.rows]


def test_what_the_budget_does_not_last_for_is_left_and_what_is_known_is_not(tmp_path: Path) -> None:
    cases = [Planted("work", size) for size in (1, 2, 3)]
    append(row(case=cases[2].id), tmp_path)
    plan = Plan(cases, "quick", tmp_path, budget=0.0)
    summary = sweep(plan, Standing(CPU), Observer())  # pyright: ignore[reportArgumentType]
    assert (summary.rows, summary.known, summary.left, summary.exit_status) == ([], 1, 2, 0)


def test_a_case_that_hangs_takes_half_of_what_is_left_of_a_budget(tmp_path: Path) -> None:
    def timeout(**plan: Any) -> float:
        return _Sweep(Plan([], "quick", tmp_path, **plan), Standing(CPU), Observer())._timeout()  # pyright: ignore[reportArgumentType]

    assert timeout() == TIMEOUT
    assert timeout(budget=100.0) == pytest.approx(50, abs=1)
    assert timeout(budget=1.0) == SHORTEST_TIMEOUT
    assert timeout(budget=100.0, timeout=3.0) == 3.0


def test_a_sweep_that_cannot_write_gives_back_the_terminal(tmp_path: Path) -> None:
    closed: list[bool] = []

    class Watching(Observer):
        def close(self) -> None:
            closed.append(True)

    (tmp_path / "file").touch()
    with pytest.raises(OSError, match="file"):
        sweep(Plan([Planted("work")], "quick", tmp_path / "file"), Standing(CPU), Watching())  # pyright: ignore[reportArgumentType]
    assert closed == [True]


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
    assert not done(row(), forecast=forecast())
    assert done(row(forecast=forecast()), forecast=forecast())
    assert not done(row(forecast=forecast()), forecast=forecast().model_copy(update={"source": "another"}))
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
    assert clock(125.7) == "2:05"
    told = line(row(measurement=measurement(0.01, low=0.0099, high=0.0101), forecast=forecast(), reason="why"))
    assert told == "ok          matmul/m=1  10.0 ms ± 1.0%  predicted 1.00 s  why"


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


@pytest.mark.slow
def test_the_latest_jobs_stay_and_what_goes_on(tmp_path: Path) -> None:
    for number in range(30):
        folder = tmp_path / "jobs" / f"{number:012x}"
        folder.mkdir(parents=True)
        job = jobs.Job(id=folder.name, suite="quick", state="done", started=float(number), updated=0.0)
        (folder / "state.json").write_text(job.model_dump_json())
    latest = jobs.start_background(tmp_path, "quick", case="no such case")
    assert [job.id for job in jobs.jobs(tmp_path)] == [latest, *(f"{number:012x}" for number in range(29, 10, -1))]
    assert len(jobs.jobs(tmp_path)) == jobs.MOST_JOBS
    while jobs.status(latest, tmp_path).active:
        time.sleep(0.05)


def test_a_jobs_name_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "jobs").mkdir()
    for name in ("..", "../..", "a" * 12, ""):
        with pytest.raises(Refused, match="job: expected the id of a job"):
            jobs.status(name, tmp_path)
