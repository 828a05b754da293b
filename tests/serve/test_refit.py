"""`python -m harness refit`: constants of serving from a table of measured servers."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from calc.serve.rates import FILE, constants, interval_of
from harness.__main__ import cli
from harness.serving.fitting import fitted_systems, start
from harness.serving.refitting import SIDES, cases
from harness.serving.rows import inferencemax
from tests.reference import folder

CONFIGS = folder() / "truth" / "configs"


def _table(path: Path, slower: float = 1.0) -> Path:
    """Rows of Llama 3 70B under vLLM, of both sides of the split; those of H100, which it does not list, take `slower`
    times as long a token."""
    with (folder() / "measured" / "inference" / "inferencemax.csv").open(newline="") as lines:
        reader = csv.DictReader(lines)
        rows = [row for row in reader if "llama" in row["model"].lower() and "70b" in row["model"].lower()]
    rows = [row for row in rows if row["framework"] == "vllm"][::4]
    for row in rows:
        if row["gpu"].startswith("h100"):
            row["tpot_mean_ms"] = str(float(row["tpot_mean_ms"]) * slower)
    with path.open("w", newline="") as lines:
        writer = csv.DictWriter(lines, reader.fieldnames or ())
        writer.writeheader()
        writer.writerows(rows)
    return path


def _refit(table: Path, out: Path) -> list[dict[str, float]]:
    out.mkdir()
    words = ["refit", str(table), "--configs", str(CONFIGS), "--out", str(out), "--rounds", "3", "--json"]
    done = CliRunner().invoke(cli, words, catch_exceptions=False)
    assert done.exit_code == 0
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_each_side_is_fitted_without_the_other(tmp_path: Path) -> None:
    """Rows of H100 made twice as slow change what is fitted to them and to all, and nothing of the listed systems."""
    table, slower = _table(tmp_path / "rows.csv"), _table(tmp_path / "slower.csv", 2.0)
    found = _refit(table, tmp_path / "one")
    assert [each["side"] for each in found] == list(SIDES)
    assert all(0 < each["off"] < 1 for each in found)
    _refit(slower, tmp_path / "two")
    for name in ("constants", *SIDES):
        one, two = (constants(tmp_path / run / f"{name}.toml") for run in ("one", "two"))
        assert one.keys() == start().keys()
        assert (one == two) == (name == "listed")


def test_the_fitted_file_is_one_that_the_product_reads(tmp_path: Path) -> None:
    """Constants are of the rows; intervals and judgements, which no fit says, those of the shipped file."""
    _refit(_table(tmp_path / "rows.csv"), tmp_path / "out")
    text = (tmp_path / "out" / "constants.toml").read_text()
    assert text.partition("[interval]")[2] == FILE.read_text().partition("[interval]")[2]
    assert constants(tmp_path / "out" / "constants.toml") != constants()
    assert interval_of("tpot", "vllm")[0] == 0.9


def test_what_is_fitted_to_says_its_plan_and_has_seconds(tmp_path: Path) -> None:
    known = cases(inferencemax(_table(tmp_path / "rows.csv")), CONFIGS)
    assert {case.row.system for case in known} == {f"{gpu} llama-70b vllm" for gpu in ("b200", "h200", "h100")}
    assert {"b200 llama-70b vllm", "h200 llama-70b vllm"} <= fitted_systems("inferencemax")
    assert all(case.running >= 1 and case.row.tpot and case.row.ttft and case.row.prefill is None for case in known)


@pytest.mark.parametrize(("word", "said"), [("--configs", "a folder that exists"), ("TABLE", "a CSV file")])
def test_what_is_not_there_is_refused(tmp_path: Path, word: str, said: str) -> None:
    table = tmp_path / "none.csv" if word == "TABLE" else _table(tmp_path / "rows.csv")
    configs = tmp_path / "none" if word == "--configs" else CONFIGS
    done = CliRunner().invoke(cli, ["refit", str(table), "--configs", str(configs), "--out", str(tmp_path)])
    assert f"{word}: expected {said}" in str(done.exception)
