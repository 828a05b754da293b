"""`python -m harness refit`: constants of serving from a table of measured servers."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from calc.errors import Refused
from calc.reading.files import parse_toml
from calc.serve.constants import FILE, constants, interval_of
from calc.serve.expert_kernels import FILE as EXPERTS
from calc.serve.rates import request_seconds
from harness.__main__ import cli
from harness.serving.columns import columns
from harness.serving.fitting import errors, fitted_systems, start
from harness.serving.refitting import FITTED, SIDES, cases, refitted, side, unseen
from harness.serving.request_fitting import OF_REQUESTS, request_fit, waited
from harness.serving.robust import one_by_one
from harness.serving.rows import inferencemax
from harness.serving.scoring import FOLDS
from harness.serving.slopes import slopes_of
from tests.reference import ROOT, folder

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
    assert all(0 < each["median"] < each["mean"] < 1 for each in found)
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
    # First tokens stray by engine, and those of an engine without rows of its own as all; tokens alike.
    first = {engine: interval_of("ttft", engine) for engine in ("vllm", "trtllm", "sglang", "atom")}
    assert first["sglang"][2] > first["atom"][2] > first["trtllm"][2] > first["vllm"][2] > 1
    assert interval_of("tpot", "vllm") == interval_of("tpot", "sglang") == interval_of("tpot", "atom")


def test_what_is_fitted_to_says_its_plan_and_has_seconds(tmp_path: Path) -> None:
    known = cases(inferencemax(_table(tmp_path / "rows.csv")), [CONFIGS])
    assert {case.row.system for case in known} == {f"{gpu} llama-70b vllm" for gpu in ("b200", "h200", "h100")}
    assert {"b200 llama-70b vllm", "h200 llama-70b vllm"} <= fitted_systems("inferencemax")
    assert all(case.running >= 1 and case.row.tpot and case.row.ttft and case.row.prefill is None for case in known)


def test_constants_that_are_moved_at_once_are_moved_one_by_one(tmp_path: Path) -> None:
    """Slopes of many constants in one column, of the cases that each is about, are those of all cases for each."""
    import numpy as np

    known = cases(inferencemax(_table(tmp_path / "rows.csv")), [CONFIGS])
    ready = columns(known)
    slowly = one_by_one(lambda given: np.concatenate(errors(known, given, ready)))
    for given in (start(), constants()):
        found = slopes_of(ready, given, 0.01)
        assert found.shape == (2 * len(known), len(given))
        np.testing.assert_allclose(found, slowly(given, 0.01), rtol=1e-9, atol=1e-9)
    assert (found != 0).any(axis=0).sum() > len(given) / 3
    assert not found[:, list(given).index("kernel.CDNA3")].any()


def test_shipped_kernels_of_experts_are_those_of_the_tables(tmp_path: Path) -> None:
    tables = folder() / "measured" / "kernels" / "tables"
    done = CliRunner().invoke(cli, ["refit", str(tables), "--of", "experts", "--out", str(tmp_path)])
    assert done.exit_code == 0
    ours, shipped = (parse_toml(file.read_text(), file.name) for file in (tmp_path / "experts.toml", EXPERTS))
    assert {**ours, "source": ""} == {**shipped, "source": ""}
    with pytest.raises(Refused, match="TABLE: expected a folder with"):
        CliRunner().invoke(
            cli, ["refit", str(tmp_path), "--of", "experts", "--out", str(tmp_path)], catch_exceptions=False
        )


@pytest.mark.parametrize(("word", "said"), [("--configs", "a folder that exists"), ("TABLE", "a CSV file")])
def test_what_is_not_there_is_refused(tmp_path: Path, word: str, said: str) -> None:
    table = tmp_path / "none.csv" if word == "TABLE" else _table(tmp_path / "rows.csv")
    configs = tmp_path / "none" if word == "--configs" else CONFIGS
    done = CliRunner().invoke(cli, ["refit", str(table), "--configs", str(configs), "--out", str(tmp_path)])
    assert f"{word}: expected {said}" in str(done.exception)


TABLES = {"servers": "inferencemax.csv", "llama.cpp": "llamacpp.csv"}
FOLDERS = [Path(__file__).parent / "configs", CONFIGS]


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("what", TABLES)
def test_the_document_prints_what_fitting_anew_changes(what: str) -> None:
    """How wrong both sides of the split are by shipped constants and by those that the command makes of the same rows,
    each of which did not see the side. llama.cpp's older constants meet the side they are fitted to worse than those;
    servers' are the command's."""
    kind = FITTED[what]
    known = kind.read(folder() / "measured" / "inference" / TABLES[what], FOLDERS)
    found = refitted(kind, known)
    shipped = {f"{kind.lead}{name}": constants(FOLDS / f"{kind.lead}{name}.toml") for name in SIDES}
    before, after = (unseen(kind, known, each) for each in (shipped, found))
    printed = {name: (rows, numbers) for of, name, rows, *numbers in _printed() if of == what}
    for name in SIDES:
        rows, numbers = printed[name]
        assert rows == str(before[name].rows) == str(after[name].rows)
        told = (before[name].median, after[name].median, before[name].mean, after[name].mean)
        # The last digits of a fit are the processor's.
        assert [float(each.rstrip("%")) / 100 for each in numbers] == pytest.approx(told, abs=0.004)
        own, fold = side(kind, known, name), f"{kind.lead}{name}"
        ours, theirs = (abs(kind.off(own, each[fold])).mean() for each in (found, shipped))
        assert ours < theirs if what == "llama.cpp" else ours == pytest.approx(theirs, abs=0.004)
    if what == "servers":
        # The last digits again; requests' are fitted to simulations, once these are in their place.
        for name, constants_of in shipped.items():
            moved = {key: value / constants_of[key] for key, value in found[name].items() if key not in OF_REQUESTS}
            assert [key for key in moved if abs(moved[key] - 1) > 0.02] == []


def _printed() -> list[list[str]]:
    """The rows of the document's table."""
    _, _, text = (ROOT / "docs" / "serving-measured.md").read_text().partition("| constants of | side | rows |")
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.split("\n\n")[0].splitlines()[2:]]


def test_what_a_host_takes_for_a_request_is_found_again(tmp_path: Path) -> None:
    """First tokens made by known constants: the fit tells them, and touches no other."""
    from dataclasses import replace

    known = cases(inferencemax(_table(tmp_path / "rows.csv")), [CONFIGS])[::2]
    truth = {**constants(), "request.vllm": 10 * constants()["request.vllm"]}
    rest = {id(each.case): each.rest for each in waited(known, truth)}
    made = [
        replace(case, row=replace(case.row, ttft=rest[id(case)] + request_seconds("vllm", case.row.mean_input, truth)))
        for case in known
    ]
    found = request_fit(made, constants(), 30)
    assert {name: found[name] for name in found if name not in OF_REQUESTS} == {
        name: value for name, value in constants().items() if name not in OF_REQUESTS
    }
    before, told, meant = (request_seconds("vllm", 4096, each) for each in (constants(), found, truth))
    assert abs(told - meant) < 0.3 * abs(before - meant)
    compiled = [replace(case, row=replace(case.row, compiled=True)) for case in known]
    assert waited(compiled, truth) == []
