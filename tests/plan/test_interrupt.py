"""Ctrl-C: what was found until then is printed and marked, and nothing is said of what was not looked at."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.test_commands import Run, run
from tests.reference import ROOT
from tests.waiting import PATIENCE

__all__ = ["run"]
MARK = "interrupted: these are the best until then"
LARGE = ("llama-3-70b", "--cluster", "dgx-h100", "--gpus", "64..4096", "--seq", "8192", "--global-batch", "12288seq")
SHAPES = ("--model-grid", "d_model=3072..5120:512,n_layers=20,24,28,32,40", "--params", "9B", "--flops", "1e23")
GRID = ("llama-3-8b", "--cluster", "dgx-h100", "--gpus", "64", "--seq", "8192", "--global-batch", "4Mi", *SHAPES)
SMALL = ("plan", "gpt2", "--cluster", "dgx-h100", "--seq", "1024", "--global-batch", "64seq", "--stack", "fsdp2")
LAW = ("optimal", "--cluster", "dgx-h100", "--gpus", "8", "--family", "gpt2", "--seq", "1024", "--stack", "fsdp2")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("asked", "begun", "told"),
    [
        ((*LARGE, "--stack", "megatron-core", "--top", "3"), "pieces of the search: [1-9]", "MFU"),
        (GRID, "shapes: [1-9]", "left by the interrupt"),
    ],
    ids=["plans", "shapes"],
)
def test_what_was_found_is_printed(asked: tuple[str, ...], begun: str, told: str) -> None:
    """In a real process; the interrupt comes once plans have been timed, long before all of them are."""
    command = [sys.executable, "-m", "calc", "plan", *asked]
    made = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert made.stderr is not None
    end = time.monotonic() + PATIENCE
    seen = ""
    while not re.search(begun, seen):
        assert time.monotonic() < end
        seen += made.stderr.readline()
    made.send_signal(signal.SIGINT)
    out, _ = made.communicate(timeout=PATIENCE)
    assert made.returncode == 130
    assert MARK in out
    assert told in out


class Impatient:
    """Hears of progress, and sends this process SIGINT.

    search: in which of those that follow one another; 0 is none of them. pieces: of it that are through by then."""

    def __init__(self, search: int, pieces: int) -> None:
        self._search, self._pieces = search, pieces
        self.begun = 0

    def __call__(self, what: str, done: int, total: int) -> None:
        self.begun += done == 0
        if (self.begun, done) == (self._search, self._pieces):
            assert done < total
            signal.raise_signal(signal.SIGINT)

    def close(self) -> None:
        """Nothing is to be taken away."""


@pytest.fixture
def stopped(monkeypatch: pytest.MonkeyPatch) -> list[Impatient]:
    """What is put here is told of the progress of the next command."""
    next_one: list[Impatient] = []
    for name in ("calc.cli.plan.Progress", "calc.cli.optimal_plan.Progress", "calc.cli.plan_serving.Progress"):
        monkeypatch.setattr(name, next_one.pop)
    return next_one


def test_nothing_found_is_not_that_nothing_fits(run: Run, stopped: list[Impatient]) -> None:
    stopped.append(Impatient(1, 0))
    assert run(*SMALL, "--gpus", "8") == (130, "", "error: interrupted before a plan that fits was found\n")


@pytest.mark.parametrize(
    ("more", "beginning"),
    [((), "gpt2"), (("--days", "3"), "tokens in 3 days"), (("--as", "fsdp2"), ""), (("--json",), "{")],
    ids=["plans", "tokens", "launch", "json"],
)
def test_part_of_a_search_is_marked(run: Run, stopped: list[Impatient], more: tuple[str, ...], beginning: str) -> None:
    """In the tables, and for files and records on stderr; the status tells it too."""
    stopped.append(Impatient(1, 1))
    status, out, err = run(*SMALL, "--gpus", "8", *more)
    assert status == 130
    assert out.startswith(beginning)
    assert len(out) > 100
    assert f"note: {MARK}\n" in err
    assert (MARK in out) == (more in ((), ("--days", "3")))


@pytest.mark.parametrize(
    ("search", "pieces", "titles"),
    [(1, 0, []), (1, 2, ["gpt2: the front"]), (2, 1, ["gpt2: the front"])],
    ids=["nothing", "layouts", "simulations"],
)
def test_a_search_for_servers_is_marked(
    run: Run, stopped: list[Impatient], search: int, pieces: int, titles: list[str]
) -> None:
    """Of plans that were timed the front; that none meets the SLO is not said of what was not looked at."""
    stopped.append(Impatient(search, pieces))
    asked = ("--serve", "--on", "h100-sxm", "--input", "512", "--output", "64", "--slo", "tpot=1ms", "--gpus", "1..4")
    status, out, err = run("plan", "gpt2", *asked)
    assert status == 130
    assert [line for line in out.splitlines() if "front" in line or "meets" in line] == titles
    assert (f"note: {MARK}\n" if titles else "error: interrupted before any plan was timed\n") in err


def test_a_launch_file_is_told_beside_the_best_until_then(run: Run, stopped: list[Impatient], tmp_path: Path) -> None:
    """What the file's own plan costs does not hang on the search; what is better is the best of what was looked at."""
    file = tmp_path / "spread.py"
    plan = "GPUS = 8\nSEQUENCE = 1024\nMICRO_BATCH = 1\nMICRO_BATCHES = 8\nCHECKPOINTING = 'full'\n"
    file.write_text(plan)
    asked = (*(word for word in SMALL if word not in ("--stack", "fsdp2")), "--as", "fsdp2", "--from", str(file))
    stopped.append(Impatient(1, 1))
    status, out, err = run(*asked)
    assert status == 130
    assert re.search(r"^this file +dp8 zero3 1×8 full on 8 GPUs", out, re.M)
    assert re.search(r"^the best until then +dp8 ", out, re.M)
    assert f"note: {MARK}\n" in err
    stopped.append(Impatient(0, 0))
    status, out, err = run(*asked)
    assert status == 0
    assert re.search(r"^the best +dp8 ", out, re.M)
    assert MARK not in err


def test_numbers_of_gpus_that_were_not_tried_are_not_ruled_out(run: Run, stopped: list[Impatient]) -> None:
    """The first is tried to the end, the second is left: only of the first the days are told."""
    stopped.append(Impatient(2, 1))
    status, out, err = run(*SMALL, "--tokens", "300B", "--days", "0.01")
    assert (status, out) == (130, "")
    begins = (
        r"error: interrupted before a number of GPUs was found that trains 300B tokens in 0.01 days \(8: [\d.]+\)\n"
    )
    assert re.fullmatch(begins, err)


def test_gpus_that_are_enough_are_told_though_fewer_were_left(run: Run, stopped: list[Impatient]) -> None:
    """Of 8, 16, 32 and 64 the last is in time by a hair; of those between, forty are begun."""
    asked = (*SMALL, "--tokens", "300B")
    stopped.append(Impatient(0, 0))
    _, best, _ = run(*asked, "--gpus", "64", "--json")
    days = json.loads(best.splitlines()[0])["days"]
    stopped.append(Impatient(5, 1))
    status, out, err = run(*asked, "--days", f"{days * 1.001}")
    assert status == 130
    assert "a step on 64 GPUs" in out
    assert MARK in out
    assert "error" not in err
    assert "40:" not in err


def test_a_law_s_rounds_end(run: Run, stopped: list[Impatient]) -> None:
    """In the second round the first is the answer; where none is through, nothing is claimed."""
    stopped.append(Impatient(2, 1))
    status, out, _ = run(*LAW, "--days", "1")
    assert status == 130
    assert f"8 GPUs of dgx-h100 for 1 days; {MARK}" in out
    assert re.search(r"^rounds +1;", out, re.M)
    stopped.append(Impatient(1, 0))
    assert run(*LAW, "--days", "1") == (130, "", "\nerror: interrupted\n")
