"""Ray for real, with several nodes on this machine: killed nodes and killed drivers lose nothing."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from calc.errors import Refused
from calc.plan.search import search
from calc.workers.ray_cluster import connected
from calc.workers.workers import Workers
from tests.plan.questions import question, small_model
from tests.reference import ROOT
from tests.waiting import PATIENCE
from tests.workers.cluster import cluster
from tests.workers.test_same_answers import seen_equal
from tests.workers.test_workers import SWEEP, begun
from tests.workers.work import CHUNKS, job, ran, refuses, same

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def nodes() -> Iterator[Any]:
    with cluster(1, 1) as made:
        yield made


def test_the_answer_is_that_of_one_process_bit_for_bit(nodes: Any, tmp_path: Path) -> None:
    workers = Workers(ray=nodes.address)
    alone = list(Workers().results(job(tmp_path / "one")))
    assert same(alone, list(workers.results(job(tmp_path / "log"))))
    assert all(ran(tmp_path / "log", chunk) == 1 for chunk in range(CHUNKS))
    asked = question(small_model(n_layers=2), sequences=4)
    assert seen_equal(search(asked, 5), search(asked, 5, workers=workers))


def test_a_refusal_comes_out_as_it_is(nodes: Any, tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"^chunk: expected another one, found 12$"):
        list(Workers(ray=nodes.address).results(job(tmp_path / "log", work=refuses)))


def test_what_ray_says_does_not_come_between_results(
    nodes: Any, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A worker that ends is told of by Ray, on stdout if it may; the chunk is run again."""
    found = list(Workers(ray=nodes.address).results(job(tmp_path / "log", deadly=((5, 2),))))
    assert [place for place, _ in found] == list(range(CHUNKS))
    assert ran(tmp_path / "log", 5) == 3
    assert capfd.readouterr().out == ""


def test_a_killed_driver_loses_nothing_that_was_kept(nodes: Any, tmp_path: Path) -> None:
    """Nor does what is there run again, and the answer is that of one process."""
    made, folder = begun(tmp_path / "kept", "--ray", nodes.address)
    made.kill()
    made.communicate(timeout=PATIENCE)
    before = {file: file.stat().st_mtime_ns for file in folder.glob("part-*")}
    assert 2 <= len(before) < 32
    again = [sys.executable, "-m", "calc", *SWEEP, "--keep", str(tmp_path / "kept"), "--ray", nodes.address]
    answer = subprocess.run(again, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert {file: file.stat().st_mtime_ns for file in before} == before
    assert sorted(file.name for file in folder.glob("part-*")) == [f"part-{place:09d}.parquet" for place in range(32)]
    alone = [sys.executable, "-m", "calc", *SWEEP]
    assert answer == subprocess.run(alone, cwd=ROOT, capture_output=True, text=True, check=True).stdout != ""


def test_a_killed_node_loses_no_chunk(nodes: Any, tmp_path: Path) -> None:
    """It is killed in the middle of its work; a node that joins meanwhile takes part."""
    alone = list(Workers().results(job(tmp_path / "one")))
    doomed = nodes.add_node(num_cpus=1)
    nodes.wait_for_nodes()
    workers, log = Workers(ray=nodes.address, keep=tmp_path / "kept"), tmp_path / "log"
    stream = workers.results(job(log, 0.2))
    found = [next(stream), next(stream)]
    nodes.remove_node(doomed, allow_graceful=False)
    nodes.add_node(num_cpus=1)
    found += stream
    assert same(alone, found)
    (folder,) = (tmp_path / "kept").iterdir()
    assert len(list(folder.glob("part-*"))) == CHUNKS
    counts = [ran(log, chunk) for chunk in range(CHUNKS)]
    assert min(counts) == 1
    assert same(alone, list(workers.results(job(log, 0.2))))
    assert counts == [ran(log, chunk) for chunk in range(CHUNKS)]


@pytest.mark.parametrize("address", ["127.0.0.1:9", "nonsense", "", "127.0.0.1:99999999", "nowhere.invalid:6379"])
def test_an_address_where_nobody_answers(address: str) -> None:
    with (
        pytest.raises(Refused, match=r"^--ray: expected the address of a Ray cluster that runs, or auto, found "),
        connected(address),
    ):
        pass
