"""Chunks on this machine: in order, each once, whoever works and however often one begins again."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from calc.errors import Refused
from calc.workers.finished_parts import FinishedParts
from calc.workers.job import Part
from calc.workers.merging import front, smallest
from calc.workers.workers import Workers
from tests.reference import ROOT
from tests.waiting import PATIENCE
from tests.workers.work import CHUNKS, job, ran, refuses, same


def test_two_processes_give_what_one_gives_in_the_same_order(tmp_path: Path) -> None:
    alone = list(Workers().results(job(tmp_path / "one")))
    assert [place for place, _ in alone] == list(range(CHUNKS))
    assert same(alone, list(Workers(2).results(job(tmp_path / "two"))))
    assert all(ran(tmp_path / "two", chunk) == 1 for chunk in range(CHUNKS))


def test_what_is_kept_is_the_same_bit_for_bit_and_is_not_run_again(tmp_path: Path) -> None:
    workers, log = Workers(keep=tmp_path / "kept"), tmp_path / "log"
    first = list(workers.results(job(log)))
    assert same(first, list(workers.results(job(log))))
    assert all(ran(log, chunk) == 1 for chunk in range(CHUNKS))
    (folder,) = (tmp_path / "kept").iterdir()
    assert json.loads((folder / "job.json").read_text())["asked"] == {"what": "test"}
    for chunk in (0, 7, CHUNKS - 1):
        (folder / f"part-{chunk:09d}.parquet").unlink()
    assert same(first, list(workers.results(job(log))))
    assert [ran(log, chunk) for chunk in (0, 7, CHUNKS - 1, 3)] == [2, 2, 2, 1]


def test_a_part_that_is_none_is_named(tmp_path: Path) -> None:
    workers = Workers(keep=tmp_path / "kept")
    list(workers.results(job(tmp_path / "log")))
    (folder,) = (tmp_path / "kept").iterdir()
    for text in (b"", b"PAR1 and nothing behind it", (folder / "part-000000004.parquet").read_bytes()[:-9]):
        (folder / "part-000000003.parquet").write_bytes(text)
        with pytest.raises(Refused, match=r"part-000000003\.parquet"):
            list(workers.results(job(tmp_path / "log")))


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(Refused, match="--keep: expected a folder"):
        list(Workers(keep=tmp_path / "file").results(job(tmp_path / "log")))


def test_parts_hold_nothing_that_is_run(tmp_path: Path) -> None:
    """Any column and any fact comes back as it was: nan, infinities, none at all."""
    made = FinishedParts(tmp_path, job(tmp_path / "log"))
    part = Part({"x": np.array([np.nan, -0.0, np.inf, 1e-320])}, {"least": {"peak": 0.1 + 0.2}, "unread": ["a\nb"]})
    for each in (part, Part({}, {"plans": 0})):
        made.write(0, each)
        found = made.read(0)
        assert found.facts == each.facts
        assert {name: column.tobytes() for name, column in found.columns.items()} == {
            name: column.tobytes() for name, column in each.columns.items()
        }


def test_chunks_of_a_kind_go_to_the_process_that_had_one_before(tmp_path: Path) -> None:
    log = tmp_path / "log"
    found = list(Workers(2).results(replace(job(log), kind=half)))
    assert same(found, list(Workers().results(job(tmp_path / "alone"))))
    pids = [next(log.glob(f"{chunk}-*")).name.split("-")[2] for chunk in range(CHUNKS)]
    # What each is given first; the faster one may take over some of the other's at the end.
    assert pids[0] == pids[1] != pids[CHUNKS // 2] == pids[CHUNKS // 2 + 1]


def half(chunk: int) -> bool:
    return chunk >= CHUNKS // 2


def test_a_worker_that_is_killed_is_replaced_and_loses_no_chunk(tmp_path: Path) -> None:
    alone = list(Workers().results(job(tmp_path / "one")))
    found = list(Workers(2).results(job(tmp_path / "two", deadly=((5, 2), (20, 1)))))
    assert same(alone, found)
    assert ran(tmp_path / "two", 5) == 3


def test_a_chunk_that_no_worker_survives_is_named(tmp_path: Path) -> None:
    with pytest.raises(ChildProcessError, match="was begun 4 times, and its worker ended"):
        list(Workers(2).results(job(tmp_path / "log", deadly=((5, 99),))))


@pytest.mark.parametrize("workers", [Workers(), Workers(2)], ids=["here", "two"])
def test_a_refusal_comes_out_as_it_is(tmp_path: Path, workers: Workers) -> None:
    found = []
    with pytest.raises(Refused, match=r"^chunk: expected another one, found 12$"):
        found.extend(place for place, _ in workers.results(job(tmp_path / "log", work=refuses)))
    assert found == list(range(len(found)))


def test_more_processes_than_there_are_open_files_for_are_refused(tmp_path: Path) -> None:
    code = (
        "import resource, sys; from pathlib import Path; resource.setrlimit(resource.RLIMIT_NOFILE, (48, 48))\n"
        "from calc.errors import Refused; from calc.workers.workers import Workers\n"
        "from tests.workers.work import job\n"
        "try: list(Workers(12).results(job(Path(sys.argv[1]))))\n"
        "except Refused as refused: print(refused)"
    )
    done = subprocess.run([sys.executable, "-c", code, tmp_path / "log"], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "--workers: expected fewer processes" in done.stdout


@pytest.mark.parametrize("count", [0, -1, 2.5, 10**6])
def test_how_many(count: Any) -> None:
    with pytest.raises(Refused, match="--workers: expected a whole number from 1"):
        Workers(count)


def test_not_both() -> None:
    with pytest.raises(Refused, match="--workers: expected none beside --ray"):
        Workers(2, "auto")


SWEEP = ("sweep", "gpt2", "--over", "batch=1..256,seq=1..256,n_layers=1..256", "--least", "kv_cache", "--json")


def begun(folder: Path, *options: str) -> tuple[subprocess.Popen[str], Path]:
    """A sweep of 32 parts in a process of its own, once two of them have been kept."""
    command = [sys.executable, "-m", "calc", *SWEEP, *options, "--keep", str(folder)]
    made = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    end = time.monotonic() + PATIENCE
    while len(list(folder.glob("grid-*/part-*"))) < 2:
        assert time.monotonic() < end
        assert made.poll() is None
        time.sleep(0.005)
    return made, next(folder.glob("grid-*"))


@pytest.mark.slow
def test_a_killed_driver_loses_nothing_that_was_kept(tmp_path: Path) -> None:
    """Its workers end with it; the next start runs what is not there, and the answer is that of one process."""
    made, folder = begun(tmp_path / "kept", "--workers", "2")
    made.kill()
    # Workers hold these pipes too: they close when the last of them has ended.
    made.communicate(timeout=PATIENCE)
    before = {file: file.stat().st_mtime_ns for file in folder.glob("part-*")}
    assert 2 <= len(before) < 32
    again = [sys.executable, "-m", "calc", *SWEEP, "--workers", "2", "--keep", str(tmp_path / "kept")]
    answer = subprocess.run(again, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert sorted(file.name for file in folder.glob("part-*")) == [f"part-{place:09d}.parquet" for place in range(32)]
    alone = subprocess.run(again[:-4], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert answer == alone != ""


@pytest.mark.slow
def test_an_interrupted_sweep_tells_what_it_found(tmp_path: Path) -> None:
    made, _ = begun(tmp_path / "kept")
    made.send_signal(signal.SIGINT)
    out, _ = made.communicate(timeout=PATIENCE)
    assert made.returncode == 130
    assert json.loads(out.splitlines()[0])["kv_cache"] > 0


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1), st.integers(1, 4), st.integers(1, 5))
def test_the_smallest_and_the_front_are_the_same_however_rows_are_cut(
    rows: list[tuple[int, int]], top: int, cut: int
) -> None:
    table = np.array(rows, dtype=float)
    order = sorted(range(len(rows)), key=lambda place: (rows[place][0], place))[:top]
    assert smallest(table[:, 0], top).tolist() == order
    best, beside = table[:0], table[:0]
    for start in range(0, len(rows), cut):
        some = table[start : start + cut]
        best, beside = np.concatenate([best, some]), np.concatenate([beside, some])
        best, beside = best[smallest(best[:, 0], top)], beside[front(*beside.T)]
    assert best.tolist() == table[order].tolist()
    assert {tuple(row) for row in beside} == {tuple(row) for row in table[front(*table.T)]}
