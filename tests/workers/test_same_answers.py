"""What searches, sweeps, fits and simulations answer does not depend on who works."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as parquet
import pytest

import calc
from calc.ask.grid import Grid
from calc.fitting import bootstrap
from calc.plan.search import Seen, search
from calc.serve.answer import answer
from calc.serve.layout import layout_of
from calc.serve.service import service_of
from calc.serve.workload import open_loop
from calc.workers.workers import Workers
from tests.plan.questions import question, small_model
from tests.reference import ROOT

TWO = Workers(2)


def columns_equal(one: Any, other: Any) -> bool:
    return list(one) == list(other) and all(one[name].tobytes() == other[name].tobytes() for name in one)


def seen_equal(one: Seen, other: Seen) -> bool:
    counted = [(each.plans, each.timed, each.ruled, each.unread, each.interrupted) for each in (one, other)]
    return counted[0] == counted[1] and columns_equal(one.rows, other.rows) and columns_equal(one.least, other.least)


def grids_equal(one: Grid, other: Grid) -> bool:
    counted = [(each.looked, each.within, each.interrupted) for each in (one, other)]
    return counted[0] == counted[1] and columns_equal(one.rows, other.rows) and columns_equal(one.front, other.front)


def test_plans() -> None:
    asked = question(small_model(n_layers=2), sequences=4)
    assert seen_equal(search(asked, 5), search(asked, 5, workers=TWO))


def test_a_grid(monkeypatch: pytest.MonkeyPatch) -> None:
    """And the best and the front of a grid are those of the table with every row."""
    monkeypatch.setattr("calc.ask.grid.PART", 1000)
    axes = {"n_layers": range(2, 34), "d_model": range(128, 1152, 128), "batch": range(1, 17)}
    words: dict[str, Any] = {"bounds": {"params": (20e6, 1e9)}, "top": 7}
    spec = calc.load_model("gpt2")
    found = calc.sweep_grid(spec, axes, ("params", "kv_cache"), **words)
    assert grids_equal(found, calc.sweep_grid(spec, axes, ("params", "kv_cache"), workers=TWO, **words))
    every = np.array(np.meshgrid(*axes.values(), indexing="ij")).reshape(3, -1)
    sizes = dict(zip(axes, every, strict=True))
    table = calc.sweep(spec, ["params", "kv_cache"], sizes)
    within = (table["params"] >= 20e6) & (table["params"] <= 1e9)
    assert (found.looked, found.within) == (every.shape[1], within.sum())
    params, cache = table["params"][within], table["kv_cache"][within]
    pairs = list(zip(params, cache, strict=True))
    assert found.rows["params"].tolist() == sorted(params)[:7]
    beaten = [((params <= p) & (cache <= c) & ((params < p) | (cache < c))).any() for p, c in pairs]
    best = set(zip(params[~np.array(beaten)], cache[~np.array(beaten)], strict=True))
    assert set(zip(found.front["params"], found.front["kv_cache"], strict=True)) == best


@pytest.mark.parametrize("every", [False, True])
def test_parts_hold_every_row_within_the_bounds_where_that_is_asked_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, every: bool
) -> None:
    """Read as any program reads Parquet, they are the table; without it they hold what the answer needs."""
    monkeypatch.setattr("calc.ask.grid.PART", 1000)
    spec, axes = calc.load_model("gpt2"), {"n_layers": range(2, 34), "batch": range(1, 101)}
    bounds = {"kv_cache": (1e8, 2e9)}
    found = calc.sweep_grid(spec, axes, "kv_cache", bounds=bounds, workers=Workers(2, keep=tmp_path), every=every)
    sizes = dict(zip(axes, np.array(np.meshgrid(*axes.values(), indexing="ij")).reshape(2, -1), strict=True))
    cache = calc.sweep(spec, ["kv_cache"], sizes)["kv_cache"]
    within = cache[(cache >= 1e8) & (cache <= 2e9)]
    parts = [parquet.read_table(file)["kv_cache"].to_numpy() for file in sorted(tmp_path.glob("*/part-*.parquet"))]
    assert len(parts) == 4
    if every:
        assert np.concatenate(parts).tolist() == within.tolist()
    else:
        assert sum(map(len, parts)) < len(within) / 10
    assert (found.within, found.rows["kv_cache"][0]) == (len(within), within.min())


def test_plans_that_fit_are_kept_every_one(tmp_path: Path) -> None:
    asked = question(small_model(n_layers=2), sequences=4)
    seen = search(asked, 5, workers=Workers(keep=tmp_path), every=True)
    tables = [parquet.read_table(file) for file in tmp_path.glob("*/part-*.parquet")]
    assert sum(table.num_rows for table in tables) == seen.timed > 5
    assert min(min(table["seconds"].to_pylist(), default=np.inf) for table in tables) == seen.rows["seconds"].min()


def test_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("calc.ask.sweep.PART", 300)
    sizes = {"seq": np.arange(1, 1000), "batch": np.arange(1, 1000) % 7 + 1}
    spec = calc.load_model("llama-3-8b")
    alone = calc.sweep(spec, ["flops.training", "kv_cache"], sizes)
    assert columns_equal(alone, calc.sweep(spec, ["flops.training", "kv_cache"], sizes, workers=TWO))


def test_a_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bootstrap, "_CHUNK", 500)
    runs = str(ROOT / "docs" / "example-runs.csv")
    alone, two = (calc.fit(runs, refits=200, workers=workers) for workers in (Workers(), TWO))
    assert alone.intervals == two.intervals
    assert alone.constants == two.constants


def test_a_service() -> None:
    spec = calc.load_model("llama-3-8b")
    layout = layout_of(spec, gpus=3, tp=1, pp=1, attention_dp=1, ep=None, moe_tp=None)
    service = service_of(spec, "h100-sxm", layout)
    workload = open_loop(4.0, 512, 64, 60, 0.5)
    assert answer(service, workload) == answer(service, workload, workers=TWO)
