"""Tiny models on a language whose entropy is known: what they learn, what a kill costs, and what is fitted."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

import calc
from calc.errors import Refused
from harness.__main__ import cli
from harness.cli.scaling import planned
from harness.environment import here
from harness.scaling import table
from harness.scaling.language import Language
from harness.scaling.plan import STANDARD, Plan, Size
from harness.scaling.suite import report, run
from harness.scaling.training import request, run_from, train, work

LANGUAGE = Language(vocab_size=16, one=3, two=2, weights=(0.1, 0.7, 0.2))
TINY = Plan(
    sizes=(Size(16, 1), Size(32, 1), Size(48, 1), Size(64, 1)),
    budgets=(5120, 10240, 20480),
    language=LANGUAGE,
    seq=32,
    batch=8,
    tested=128,
)


def nothing(*words: float) -> None:
    """Says nothing."""


def test_the_language_gives_a_text_what_the_counts_of_a_longer_one_give_it() -> None:
    """The entropy from the tables against the same by counting what followed what in 16 million tokens."""
    text, long = LANGUAGE.text(2000, 16, seed=1), LANGUAGE.text(1_000_000, 16, seed=2)
    triples = (long[:, :-2] * 16 + long[:, 1:-1]) * 16 + long[:, 2:]
    counted = np.bincount(triples.ravel(), minlength=16**3).reshape(16, 16, 16)
    # The first two tokens of a sequence follow nothing.
    chance = counted / np.maximum(counted.sum(-1, keepdims=True), 1)
    first = np.bincount(long[:, :2].ravel(), minlength=16) / long[:, :2].size
    lost = -np.log(chance[text[:, :-2], text[:, 1:-1], text[:, 2:]])
    total = lost.sum() - np.log(first[text[:, 1]]).sum()
    assert LANGUAGE.entropy(text) == pytest.approx(total / (text.size - len(text)), rel=2e-3)
    assert LANGUAGE.entropy(text) < 0.9 * LANGUAGE.unigram_entropy(text)


def test_a_language_is_the_same_every_time_and_another_with_another_seed() -> None:
    text = LANGUAGE.text(10, 16, seed=1)
    assert np.array_equal(text, replace(LANGUAGE, _tables={}).text(10, 16, seed=1))
    assert not np.array_equal(text, LANGUAGE.text(10, 16, seed=2))
    assert not np.array_equal(text, replace(LANGUAGE, seed=1, _tables={}).text(10, 16, seed=1))


def test_a_model_learns_more_than_how_frequent_tokens_are_and_never_more_than_there_is() -> None:
    done: list[int] = []
    losses = train(replace(TINY, budgets=(10240, 81920)), Size(32, 1), "cpu", done.append)
    text = LANGUAGE.text(TINY.tested, TINY.seq, seed=2)
    assert LANGUAGE.entropy(text) < losses[81920] < losses[10240]
    assert losses[81920] < LANGUAGE.unigram_entropy(text) - 0.2
    assert done[-1] == work(replace(TINY, budgets=(10240, 81920)))


def test_a_request_arrives_as_it_was_sent() -> None:
    plan, size, device, threads = run_from(request(TINY, Size(32, 1), "cpu", 1))
    assert (size, device, threads) == (Size(32, 1), "cpu", 1)
    assert replace(plan, sizes=TINY.sizes) == TINY
    assert plan.dataset == TINY.dataset


def test_rows_of_another_recipe_are_of_another_dataset() -> None:
    assert TINY.dataset == replace(TINY, budgets=(10240,), sizes=(Size(16, 1),)).dataset
    assert len({TINY.dataset, replace(TINY, rate=1e-3).dataset, replace(TINY, language=Language()).dataset}) == 3


def test_a_torn_row_and_a_repeated_one_take_no_other_with_them(tmp_path: Path) -> None:
    path = tmp_path / "runs.csv"
    rows = [{**TINY.row(size, 5120, loss), "extra": "x"} for size, loss in zip(TINY.sizes, (2.0, 1.9, 1.8, 1.7))]  # noqa: B905
    table.add(path, rows[:2])
    with path.open("a") as file:
        file.write("harness,gpt-48x1,habits")
    table.add(path, [*rows[2:], {**rows[0], "loss": 5.0}])
    found = table.read(path, TINY.dataset)
    assert {name: row["loss"] for (name, _), row in found.items()} == {
        "gpt-16x1": 2.0,
        "gpt-32x1": 1.9,
        "gpt-48x1": 1.8,
        "gpt-64x1": 1.7,
    }
    assert table.read(path, "another") == {}


def test_a_known_law_is_found_again_and_predicts_the_largest_model(tmp_path: Path) -> None:
    rows: dict[table.Key, dict[str, float]] = {}
    for size in STANDARD.sizes:
        for budget in STANDARD.budgets:
            row: dict[str, Any] = STANDARD.row(size, budget, 1.0)
            loss = 1.5 + 80 / row["params_total"] ** 0.5 + 200 / budget**0.45
            rows[size.name, budget] = {**{key: float(row[key]) for key in ("params_total", "tokens")}, "loss": loss}
    found = report(STANDARD, tmp_path / "runs.csv", rows)
    assert found.fit.constants["E"] == pytest.approx(1.5, rel=1e-3)
    assert found.fit.constants["alpha"] == pytest.approx(0.5, rel=1e-3)
    assert [each.error for each in found.predictions] == pytest.approx([0] * 4, abs=1e-4)
    assert {each.run for each in found.predictions} == {STANDARD.sizes[-1].name}


KILLED = """
import sys
from pathlib import Path
from harness.environment import here
from harness.scaling.suite import run
from tests.harness.test_scaling import TINY
run(TINY, Path(sys.argv[1]), here("cpu"), lambda *words: None)
"""


@pytest.mark.slow
def test_a_killed_start_loses_no_model_that_was_finished_and_the_next_goes_on(tmp_path: Path) -> None:
    environment = here("cpu")
    path = table.path_of(tmp_path, environment.slug)
    child = subprocess.Popen([sys.executable, "-c", KILLED, str(tmp_path)], env=os.environ | {"PYTHONPATH": "."})
    try:
        end = time.monotonic() + 200
        while not table.read(path, TINY.dataset) and child.poll() is None and time.monotonic() < end:
            time.sleep(0.01)
    finally:
        child.send_signal(signal.SIGKILL)
        child.wait()
    before = table.read(path, TINY.dataset)
    finished = {name for name, _ in before}
    assert before
    assert all((name, budget) in before for name in finished for budget in TINY.budgets)
    found = run(TINY, tmp_path, environment, nothing)
    assert found.trained == len(TINY.sizes) - len(finished)
    assert {key: found.rows[key] for key in before} == before
    assert run(TINY, tmp_path, environment, nothing).trained == 0
    _fits(path, found.floor, found.unigram)


def _fits(path: Path, floor: float, unigram: float) -> None:
    """What is in the file is what `calc fit` reads, every training once, and no loss is below what is possible."""
    runs = calc.read_runs(path, where=[f"dataset={TINY.dataset}"])
    assert len(runs) == len(TINY.sizes) * len(TINY.budgets)
    assert runs.columns is not None
    assert runs.columns["params"] == "params_total"
    assert (runs.loss > floor).all()
    assert (runs.loss < 1.1 * unigram).all()
    with path.open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        # 6 N D leaves out attention's products and counts lookups in the table.
        assert 0.5 < float(row["flops"]) / (6 * float(row["params_total"]) * float(row["tokens"])) < 2
    command = [sys.executable, "-m", "calc", "fit", str(path), "--refits", "0", "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["rows"] == len(rows)


@pytest.mark.parametrize("words", ["--timeout 5", "--case matmul", "--profile-time 3"])
def test_what_is_said_of_cases_is_refused_where_models_are_trained(words: str) -> None:
    with pytest.raises(Refused, match=f"{words.split()[0]}: expected another suite than scaling"):
        CliRunner().invoke(
            cli, ["run", "--suite", "scaling", *words.split()], catch_exceptions=False, standalone_mode=False
        )


def test_models_and_budgets_of_ones_own() -> None:
    """From small to large, as the last one is held out; what cannot be trained is refused before anything runs."""
    plan = planned("64x3,16x1, 32x2,48x1", "5120,1280")
    assert [size.name for size in plan.sizes] == ["gpt-16x1", "gpt-32x2", "gpt-48x1", "gpt-64x3"]
    assert plan.budgets == (1280, 5120)
    assert planned(None, None) == STANDARD
    for sizes, budgets, said in (
        ("16x1,32x1,48x1", None, "--sizes: expected four models or more"),
        ("16x1,32x1,48x1,33x1", None, "--sizes: expected WIDTHxLAYERS with a width that 8 divides"),
        ("16x1,32x1,48x1,4096x2", None, "--sizes: expected widths of 16 to 512"),
        ("16x1,32x1,48x1,56x2", None, "--sizes: expected a width that its heads"),
        (None, "5000", "budget: expected a multiple of 1,280 tokens"),
        (None, "many", "--budgets: expected a whole number"),
    ):
        with pytest.raises(Refused, match=said):
            planned(sizes, budgets)
