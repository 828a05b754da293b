"""Whatever happens to a case, to the runner or to the disk: what was finished stays, once."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

pytest.importorskip("torch")

from harness.environment import here
from harness.measuring.timing import Effort
from harness.record import Run
from harness.running.observer import Observer
from harness.running.process import Worker
from harness.running.runner import Plan, Summary, now, sweep
from harness.store import append, scan
from tests.harness.made import row
from tests.harness.running.planted import Impossible, Planted, Uncountable
from tests.reference import ROOT
from tests.waiting import PATIENCE

pytestmark = pytest.mark.slow
BRIEF = Effort(goal=0.05, limit=0.05, warmup=0.05)


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> tuple[Summary, dict[str, Run], Path]:
    """One sweep through every fault, with an honest case between each two."""
    results = tmp_path_factory.mktemp("results")
    bred = results / "bred"
    faults = [
        Planted("segfault"),
        Planted("oom", 2000),
        Planted("oom", 3000),
        Planted("kill"),
        Planted("exit"),
        Planted("raise"),
        Planted("wrong"),
        Planted("unsupported"),
        Planted("late"),
        Planted("work", 2**50),
        Impossible("work"),
        Uncountable("work"),
    ]
    cases = [case for i, fault in enumerate(faults) for case in (fault, Planted("work", 100 + i))]
    with Worker("cpu") as worker:
        summary = sweep(Plan(cases, "planted", results, timeout=240, effort=BRIEF), worker, Observer())
        # One that ends between two cases is none of theirs.
        assert worker._child is not None
        worker._child.kill()
        worker._child.wait()
        endless = Plan([Planted("breed", where=str(bred))], "planted", results, timeout=5)
        assert sweep(endless, worker, Observer()).exit_status == 1
    runs, bad = scan(results)
    assert not bad
    return summary, {run.case: run for run in runs}, bred


def test_every_fault_costs_its_own_case_and_no_more(swept: tuple[Summary, dict[str, Run], Path]) -> None:
    summary, runs, _ = swept
    honest = [runs[f"planted/does=work,size={100 + i}"] for i in range(12)]
    assert not [(run.case, run.status, run.reason) for run in honest if run.measurement is None]
    assert len(summary.rows) == len(runs) - 1 == 24
    assert summary.exit_status == 1


@pytest.mark.parametrize(
    ("case", "status", "why"),
    [
        ("planted/does=segfault,size=1000", "crashed", "SIGSEGV while preparing"),
        ("planted/does=oom,size=2000", "oom", "RuntimeError"),
        ("planted/does=oom,size=3000", "skipped", "needs no less memory than planted/does=oom,size=2000"),
        ("planted/does=exit,size=1000", "crashed", "exit status 7 while preparing: a last word"),
        ("planted/does=raise,size=1000", "crashed", "KeyError: 'nobody\\nexpects this'"),
        ("planted/does=wrong,size=1000", "crashed", "wrong result: relative error nan"),
        ("planted/does=unsupported,size=1000", "unsupported", "it cannot run here"),
        ("planted/does=work,size=1125899906842624", "skipped", "needs about 4.00 PiB"),
        ("impossible/does=work,size=1000", "unstable", "impossible: "),
        ("uncountable/does=work,size=1000", "crashed", "before it started, ArithmeticError: no count"),
    ],
)
def test_status_and_reason(swept: tuple[Summary, dict[str, Run], Path], case: str, status: str, why: str) -> None:
    run = swept[1][case]
    assert run.status == status
    assert why in run.reason
    assert "\n" not in run.reason


def test_what_was_measured_counts_whatever_comes_after(swept: tuple[Summary, dict[str, Run], Path]) -> None:
    run = swept[1]["planted/does=late,size=1000"]
    assert run.measurement is not None
    assert run.status in ("ok", "unstable")
    assert run.reason.endswith("measured, then crashed: SIGSEGV while inspecting")


def test_killed_by_nobody_we_know_is_memory_only_where_the_kernel_says_so(
    swept: tuple[Summary, dict[str, Run], Path],
) -> None:
    counted = "oom_kill " in Path("/proc/vmstat").read_text() if Path("/proc/vmstat").exists() else False
    assert swept[1]["planted/does=kill,size=1000"].status == ("crashed" if counted else "oom")


def test_a_timeout_kills_what_the_case_had_started(swept: tuple[Summary, dict[str, Run], Path]) -> None:
    _, runs, bred = swept
    run = next(run for case, run in runs.items() if "breed" in case)
    assert (run.status, run.reason) == ("timeout", "no result after 5 s, while preparing")
    assert gone(int(bred.read_text()))


def gone(pid: int) -> bool:
    """Whether a process ends within a few seconds, zombies nobody has waited for included."""
    for _ in range(100):
        state = Path(f"/proc/{pid}/stat")
        try:
            if state.read_text().rsplit(")", 1)[1].split()[0] == "Z":
                return True
        except (FileNotFoundError, ProcessLookupError):
            return True
        time.sleep(0.1)
    return False


def start(results: Path, cases: str, *more: str, fill_at: int | None = None) -> subprocess.Popen[str]:
    fill = ["--fill-at", str(fill_at)] if fill_at else []
    command = [sys.executable, "-m", "tests.harness.running.planted", *fill, "--cases", cases, "run"]
    return subprocess.Popen(
        [*command, "--results", str(results), *more],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def wait_for(what: Callable[[], bool]) -> None:
    end = time.monotonic() + 240
    while not what():
        assert time.monotonic() < end
        time.sleep(0.1)


def measured(results: Path) -> Counter[str]:
    return Counter(run.case.removeprefix("planted/") for run in scan(results)[0] if run.measurement is not None)


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_a_stopped_sweep_keeps_what_was_finished_and_goes_on(tmp_path: Path, number: signal.Signals) -> None:
    hung = tmp_path / "hung"
    runner = start(tmp_path, f"work,work,hang={hung},work")
    wait_for(lambda: hung.exists() and hung.read_text() != "")
    runner.send_signal(number)
    out, err = runner.communicate(timeout=PATIENCE)
    assert runner.returncode == (-number if number == signal.SIGKILL else 130)
    assert gone(int(hung.read_text()))
    assert measured(tmp_path) == {"does=work,size=1000": 1, "does=work,size=1001": 1}
    if number != signal.SIGKILL:
        assert "interrupted; the next start goes on with the rest" in " ".join(out.split())
        assert "Traceback" not in err
        return

    # The other two end the same way but for the words, so that one second start tells for all.
    kept = {run.run for run in scan(tmp_path)[0] if run.status == "ok"}
    again = start(tmp_path, "work,work,work,work", "--json")
    out, _ = again.communicate(timeout=PATIENCE)
    assert again.returncode == 0
    new = [json.loads(line)["run"] for line in out.splitlines()]
    assert len(new) == 4 - len(kept)
    assert not kept & set(new)


def test_two_runners_at_once_share_the_work(tmp_path: Path) -> None:
    cases = ",".join(["work"] * 6)
    runners = [start(tmp_path, cases, "--json") for _ in range(2)]
    rows = [json.loads(line) for runner in runners for line in runner.communicate(timeout=PATIENCE)[0].splitlines()]
    assert [runner.returncode for runner in runners] == [0, 0]
    runs, bad = scan(tmp_path)
    assert not bad
    assert {row["run"] for row in rows} == {run.run for run in runs}
    good = Counter(run.case for run in runs if run.status == "ok")
    # What was unstable, as on a machine that is busy, both may measure.
    assert max(good.values(), default=1) == 1
    assert {run.case for run in runs} == {f"planted/does=work,size={1000 + i}" for i in range(6)}


def test_a_full_disk_is_one_line_and_takes_nothing_with_it(tmp_path: Path) -> None:
    before = row(environment=here("cpu"), started=now())
    path = append(before, tmp_path)
    size = path.stat().st_size
    full = start(tmp_path, "work,work", fill_at=size + 100)
    _, err = full.communicate(timeout=PATIENCE)
    assert full.returncode == 1
    assert err.count("error: ") == 1
    assert "File too large" in err
    assert "Traceback" not in err
    assert path.stat().st_size == size + 100

    after = before.model_copy(update={"run": "after"})
    assert append(after, tmp_path) == path
    runs, bad = scan(tmp_path)
    assert runs == [before, after]
    assert [(fault.path, fault.line) for fault in bad] == [(path, 2)]
    assert "torn" in str(bad[0])
