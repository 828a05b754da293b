"""Results on disk: lines that stay whole, and readers that name the ones that did not."""

from __future__ import annotations

import json
import multiprocessing
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from pydantic import ValidationError

from harness.__main__ import cli
from harness.store import MAX_LINE, append, scan
from tests.harness.made import H100, forecast, measurement, row
from tests.reference import ROOT


def test_a_row_comes_back_as_it_was_written(tmp_path: Path) -> None:
    runs = [
        row(),
        row(run="r2", forecast=forecast(), metrics={"mfu": 0.4}, measurement=measurement(0.5, kernels=("aten::mm",))),
        row(run="r3", environment=H100, status="oom", reason="too much", measurement=None),
    ]
    paths = [append(run, tmp_path) for run in runs]
    assert paths[0] == tmp_path / "runs" / "cpu-of-a-test" / "2026-01-02.jsonl"
    assert paths[2].parent.name == "nvidia-h100-80gb-hbm3"
    assert scan(tmp_path) == (runs, [])
    assert scan(tmp_path, slug="cpu-of-a-test") == (runs[:2], [])
    assert len(paths[0].read_text().splitlines()) == 2


def test_no_results_are_none(tmp_path: Path) -> None:
    assert scan(tmp_path / "nowhere") == ([], [])


@pytest.mark.parametrize("cut", [1, 100, -20, -1])
def test_a_torn_tail_is_named_and_takes_no_other_line_with_it(tmp_path: Path, cut: int) -> None:
    path = append(row(), tmp_path)
    append(row(run="r2"), tmp_path)
    first, second = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(first + second[:cut])
    append(row(run="r3"), tmp_path)
    runs, found = scan(tmp_path)
    faults = [str(fault) for fault in found]
    if cut == -1:
        # Only the end of the line was lost, and the next writer has put it there.
        assert ([run.run for run in runs], faults) == (["r1", "r2", "r3"], [])
    else:
        assert [run.run for run in runs] == ["r1", "r3"]
        assert len(faults) == 1
        assert faults[0].startswith(f"{path}:2: run: expected a JSON object on one line, found a torn")


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"schema_version": 2}, "schema_version"),
        ({"status": "fine"}, "status"),
        ({"surprise": 1}, "surprise"),
        ({"wall": float("nan")}, "wall"),
        ({"started": "../../etc"}, "started"),
        ({"run": "x" * 5000}, "run"),
    ],
)
def test_what_is_no_run_is_named(tmp_path: Path, change: dict[str, object], why: str) -> None:
    path = append(row(), tmp_path)
    document = json.loads(row(run="r2").model_dump_json()) | change
    with path.open("a") as file:
        file.write(json.dumps(document) + "\n")
    runs, faults = scan(tmp_path)
    assert [run.run for run in runs] == ["r1"]
    assert [fault.line for fault in faults] == [2]
    assert why in faults[0].why


@pytest.mark.parametrize(
    "junk", [b"\xff\xfe\x00\n", b"[" * 5000 + b"\n", b"{}\n", b"null\n", b"\x1b[31m{\n", b"a" * (3 * MAX_LINE)]
)
def test_hostile_lines_are_passed_over(tmp_path: Path, junk: bytes) -> None:
    path = append(row(), tmp_path)
    path.write_bytes(junk + (b"" if junk.endswith(b"\n") else b"\n") + path.read_bytes())
    runs, faults = scan(tmp_path)
    assert [run.run for run in runs] == ["r1"]
    assert [fault.line for fault in faults] == [1]
    assert len(str(faults[0])) < 1000
    assert str(faults[0]).isprintable()


@pytest.mark.parametrize(
    ("before", "after"),
    [(b'"wall":1.0', b'"wall":1.1'), (b'"check":"', b'"check":"0'), (b'"samples":[1.0]', b'"samples":[]')],
)
def test_an_edited_line_is_named(tmp_path: Path, before: bytes, after: bytes) -> None:
    path = append(row(), tmp_path)
    append(row(run="r2"), tmp_path)
    first, second = path.read_bytes().splitlines(keepends=True)
    assert before in first
    path.write_bytes(first.replace(before, after) + second)
    runs, faults = scan(tmp_path)
    assert [run.run for run in runs] == ["r2"]
    assert "run: expected a line whose digest is" in str(faults[0])


def test_the_store_is_checked_line_by_line(tmp_path: Path) -> None:
    path = append(row(), tmp_path)
    old = row(run="r2").model_dump_json()  # as lines were before there were digests
    edited = path.read_text().replace("1.0", "2.0")

    def check() -> Result:
        return CliRunner().invoke(cli, ["store", "check", "--results", str(tmp_path), "--json"], standalone_mode=False)

    path.write_text(path.read_text() + old + "\n")
    found = check()
    assert found.return_value == 0
    assert json.loads(found.stdout) == {"file": str(path), "runs": 2, "unchecked": 1, "faults": []}
    path.write_text(path.read_text() + edited)
    found = check()
    assert found.return_value == 1
    assert found.stderr.startswith(f"{path}:3: run: expected a line whose digest is")
    assert json.loads(found.stdout)["runs"] == 2


def test_the_results_of_this_repository_are_whole() -> None:
    assert not scan(ROOT / "results")[1]


def test_a_run_that_stands_twice_is_counted_once(tmp_path: Path) -> None:
    path = append(row(), tmp_path)
    (path.parent / "merged.jsonl").write_bytes(path.read_bytes())
    assert len(scan(tmp_path)[0]) == 1


def test_a_device_cannot_lead_out_of_the_folder() -> None:
    with pytest.raises(ValidationError, match="slug"):
        row(environment=row().environment.model_dump() | {"slug": "../../etc"})


def _write_many(results: Path, name: str) -> None:
    for i in range(40):
        append(row(run=f"{name}{i}", reason="x" * 4000), results)


def test_two_writers_keep_every_line_whole(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    writers = [context.Process(target=_write_many, args=(tmp_path, name)) for name in "ab"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    runs, faults = scan(tmp_path)
    assert not faults
    assert {run.run for run in runs} == {f"{name}{i}" for name in "ab" for i in range(40)}
