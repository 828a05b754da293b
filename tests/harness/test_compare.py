"""Measured against predicted, on results whose figures are worked out by hand."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from harness.__main__ import cli
from harness.compare import compare
from harness.store import append
from tests.harness.made import environment, forecast, measurement, run

RUNS = [
    run("matmul/a", 1.0, 1.25, params={"dtype": "fp32"}),  # error 0.2
    run("matmul/b", 1.0, 0.5, params={"dtype": "bf16"}),  # error 1
    run("matmul/c", 1.0, 1.0, params={"dtype": "fp32"}),  # error 0
    run("training/d", 3.0, 2.0),  # error 0.5
]


def stored(results: Path, *runs: object) -> None:
    for each in runs:
        append(each, results)  # pyright: ignore[reportArgumentType]


def asked(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(each) for each in arguments], standalone_mode=False)


def test_errors_are_the_hand_computed_ones() -> None:
    found = {group.name: group for group in compare(RUNS).groups}
    matmul = found["matmul"]
    assert (len(matmul.pairs), matmul.mape, matmul.median_ape) == (3, pytest.approx(0.4), pytest.approx(0.2))
    assert matmul.ratio == pytest.approx(0.625 ** (1 / 3))
    assert matmul.inside == pytest.approx(1 / 3)
    assert found["training"].mape == pytest.approx(0.5)
    assert found["all"].mape == pytest.approx(1.7 / 4)
    assert found["all"].median_ape == pytest.approx(0.35)


def test_worst_rows_come_first() -> None:
    assert [pair.run.case for pair in compare(RUNS).pairs] == ["matmul/b", "training/d", "matmul/a", "matmul/c"]


def test_groups_may_tell_formats_apart() -> None:
    names = [group.name for group in compare(RUNS, by="dtype").groups]
    assert names == ["matmul bf16", "matmul fp32", "training", "all"]


def test_groups_may_tell_backends_of_attention_apart() -> None:
    runs = [
        run("attention/a", 1.0, 1.5, params={"backend": "sdpa_flash"}),
        run("attention/b", 1.0, 0.5, params={"backend": "tiled"}),
        run("decode_attention/c", 1.0, 1.0, params={"backend": "tiled"}),
        run("matmul/d", 1.0, 1.0, params={"m": 3}),
    ]
    groups = {group.name: group for group in compare(runs, by="backend").groups}
    assert list(groups) == ["attention sdpa_flash", "attention tiled", "decode_attention tiled", "matmul", "all"]
    assert groups["attention sdpa_flash"].ratio == pytest.approx(1.5)
    assert groups["attention tiled"].mape == pytest.approx(1.0)


def test_what_is_left_out_is_counted_with_its_reason() -> None:
    more = [
        run("matmul/e", 1.0, 1.0, status="timeout", reason="60 s"),
        run("matmul/f", 1.0, 1.0, status="unstable", reason="impossible: above the peak"),
        run("matmul/g", None, 1.0),
        run("matmul/a", 1.0, 9.0, started="2026-11-20T17:00:00Z"),
    ]
    found = compare([*RUNS, *more])
    assert len(found.pairs) == 4
    reasons = {"not ok: timeout": 1, "impossible": 1, "no forecast": 1, "an older run of the same case": 1}
    assert found.left_out == reasons
    assert len(compare([*RUNS, *more], every=True).pairs) == 5


def test_devices_are_groups_of_their_own() -> None:
    other = run("matmul/a", 1.0, 2.0, environment=environment("cpu-two"))
    found = {(group.device, group.name): group.mape for group in compare([*RUNS, other]).groups}
    assert found["cpu-two", "matmul"] == pytest.approx(0.5)
    assert found["cpu-one", "matmul"] == pytest.approx(0.4)


def test_components_are_summed_over_cases_that_tell_them() -> None:
    cases = [
        run(
            f"training/{i}",
            forecast=forecast(3.0, by_component={"mlp": 1.0, "attention": 2.0}),
            measurement=measurement(3.0, by_component={"mlp": 1.5, "loss": 1.0}),
        )
        for i in range(2)
    ]
    (part,) = compare(cases).parts
    assert (part.component, part.n, part.predicted, part.measured, part.ratio) == ("mlp", 2, 2.0, 3.0, 1.5)


def test_json_has_one_object_a_group(tmp_path: Path) -> None:
    stored(tmp_path, *RUNS)
    result = asked("compare", "--results", tmp_path, "--json")
    rows = [json.loads(line) for line in result.stdout.splitlines()]
    assert [row["group"] for row in rows] == ["matmul", "training", "all"]
    assert all({"group", "device", "n", "mape", "median_ape"} <= row.keys() for row in rows)
    assert rows[0]["mape"] == pytest.approx(0.4)


def test_filters_choose_runs(tmp_path: Path) -> None:
    stored(tmp_path, *RUNS, run("matmul/x", 1.0, 2.0, suite="full", environment=environment("gpu", commit="fed")))
    for given, n in ((("--suite", "full"), 1), (("--device", "cpu"), 4), (("--commit", "fe"), 1)):
        rows = asked("compare", "--results", tmp_path, "--json", *given).stdout.splitlines()
        assert json.loads(rows[-1])["n"] == n


def test_nothing_says_what_to_run(tmp_path: Path) -> None:
    result = asked("compare", "--results", tmp_path / "none")
    assert result.exception is None
    assert len(result.stdout.splitlines()) == 1
    assert "python -m harness run --suite quick" in result.stdout


def test_bad_lines_are_named_and_passed_over(tmp_path: Path) -> None:
    stored(tmp_path, *RUNS)
    (path,) = (tmp_path / "runs" / "cpu-one").glob("*.jsonl")
    whole = path.read_text()
    torn = whole.splitlines()[0][:99]
    bad = [torn, '{"schema_version": 2}', "[" * 100_000, '{"x": "' + "y" * 2**21 + '"}', "<script>", "\x1b[31m\x00"]
    path.write_text(whole + "\n".join(bad) + "\n")
    result = asked("compare", "--results", tmp_path, "--json")
    assert json.loads(result.stdout.splitlines()[-1])["n"] == 4
    notes = result.stderr.splitlines()
    assert len(notes) == 6
    assert all(note.isprintable() for note in notes)
    assert f"{path}:5" in notes[0]


def test_hostile_texts_break_no_line(tmp_path: Path) -> None:
    stored(tmp_path, run("matmul/\x1b[31m\n| a", 1.0, 1.25, kind="mat\nmul"))
    lines = asked("compare", "--results", tmp_path).stdout.splitlines()
    assert all(line.isprintable() for line in lines)
