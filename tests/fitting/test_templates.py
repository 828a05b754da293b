"""Equations without published constants: Farseer's surface and Shukor's laws of mixtures."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from click.testing import CliRunner

import calc
from calc.cli import cli
from calc.errors import Refused
from calc.fitting.farseer import FARSEER
from calc.fitting.mixtures import shukor
from tests import reference
from tests.fitting.surfaces import grid

CONSTANTS = {"K3": 2.46, "a3": 0.021, "gamma": 0.169, "K2": 0.005, "a2": 88.0, "beta": 0.1}
CONSTANTS |= {"K1": 1.528, "a1": 0.124, "alpha": 0.123}
DOMAINS = ("web", "code", "books")
MIXED = {"E": 1.2, "A": 400.0, "alpha": 0.34, "B": 1500.0, "beta": 0.36}
MIXED |= {"C1": 1.5, "gamma1": 0.3, "C2": 0.8, "gamma2": 0.5, "C3": 0.5, "gamma3": 0.2}


def mixtures(count: int = 60, seed: int = 0) -> dict[str, np.ndarray]:
    random = np.random.default_rng(seed)
    shares = random.dirichlet([1, 1, 1], count)
    shares[:3] = np.eye(3)
    sizes = {"params": 10 ** random.uniform(8, 9.5, count), "tokens": 10 ** random.uniform(9.5, 11, count)}
    return sizes | dict(zip(DOMAINS, shares.T, strict=True))


@pytest.mark.slow
def test_farseers_surface_comes_back_with_its_optimum() -> None:
    params, tokens = grid(8, 8)
    equation = FARSEER.law.equations[0]
    loss = equation.rule(SimpleNamespace(**CONSTANTS), params, tokens)
    found = calc.fit_law({"N": params, "D": tokens, "loss": loss}, "farseer", refits=0, compute=1e22)
    assert found.constants == pytest.approx(CONSTANTS, rel=1e-6)
    assert found.optimum is not None
    sizes = np.geomspace(1e8, 1e12, 200_001)
    along = equation.rule(SimpleNamespace(**CONSTANTS), sizes, 1e22 / (6 * sizes))
    at = np.flatnonzero((along[1:-1] < along[:-2]) & (along[1:-1] < along[2:]))[0] + 1
    assert found.optimum["params"] == pytest.approx(sizes[at], rel=1e-3)
    assert found.optimum["loss"] == pytest.approx(along[at], rel=1e-6)
    assert found.held_out is not None
    assert found.held_out.rms == pytest.approx(0, abs=1e-9)


@pytest.mark.slow
def test_farseer_on_real_runs() -> None:
    """Where a sum of two powers misses small models' bend by a tenth, it does not; its optimum has an interval."""
    where = ("extra~hparams=tuned", "extra~count=standard", "extra~split=val", "dataset=RefinedWeb")
    path = reference.folder() / "scaling" / "runs" / "porian2024_isoflop.csv"
    found, plain = calc.fit_law(path, "farseer", where=where, refits=0), calc.fit(path, where=where, refits=0)
    assert found.held_out is not None
    assert plain.held_out is not None
    assert found.held_out.rms < 0.5 * plain.held_out.rms
    ladder = calc.fit_law(reference.folder() / "scaling" / "runs" / "olmo_ladder2024.csv", "farseer", refits=60)
    band = ladder.intervals["params"]
    assert ladder.optimum is not None
    assert band is not None
    assert band.low < ladder.optimum["params"] < band.high < 2 * band.low


@pytest.mark.slow
@pytest.mark.parametrize("name", ["shukor", "shukor-joint"])
def test_a_mixture_comes_back_with_its_best_shares(name: str) -> None:
    columns = mixtures()
    made = dict(MIXED)
    if name == "shukor-joint":
        made |= {"gamma_A": 0.8, "gamma_B": 1.2} | dict.fromkeys(("A1", "B1"), 900.0)
        made |= {"A2": 1500.0, "A3": 400.0, "B2": 300.0, "B3": 600.0}
    rule = shukor(name, DOMAINS).law.equations[0].rule
    loss = rule(SimpleNamespace(**made), *columns.values())
    found = calc.fit_law({**columns, "loss": loss}, name, mixture=DOMAINS, refits=0)
    assert found.predict(**columns) == pytest.approx(loss, rel=1e-5)
    told = {each: value for each, value in found.constants.items() if value is not None}
    assert told == pytest.approx({each: made[each] for each in told}, rel=0.02)
    assert len(told) >= 11
    assert found.optimum is not None
    assert sum(found.optimum.values()) == pytest.approx(1)
    at = int((columns["params"] * columns["tokens"]).argmax())
    sizes = columns["params"][at], columns["tokens"][at]
    tried = np.random.default_rng(1).dirichlet([1, 1, 1], 20_000).T
    best = rule(SimpleNamespace(**made), *sizes, *found.optimum.values())
    assert best <= rule(SimpleNamespace(**made), *sizes, *tried).min() + 1e-7


def test_on_the_command_line(tmp_path: Path) -> None:
    columns = mixtures()
    random = np.random.default_rng(5)
    loss = shukor("shukor", DOMAINS).law.equations[0].rule(SimpleNamespace(**MIXED), *columns.values())
    columns["loss"] = loss * np.exp(random.normal(0, 0.001, loss.size))
    path = tmp_path / "runs.csv"
    rows = zip(*columns.values(), strict=True)
    path.write_text(",".join(columns) + "\n" + "\n".join(",".join(map(str, row)) for row in rows))
    words = ["fit", str(path), "--law", "shukor", "--mixture", "web,code,books", "--refits", "60"]
    record = json.loads(CliRunner().invoke(cli, [*words, "--json"], catch_exceptions=False).stdout)
    assert record["intervals"]["alpha"]["low"] < 0.34 < record["intervals"]["alpha"]["high"]
    assert record["optimum"]["web"] > record["optimum"]["code"] > record["optimum"]["books"] > 0
    assert "1/(C1*h1**gamma1 + …)" in CliRunner().invoke(cli, words, catch_exceptions=False).stdout
    for more, said in (
        (["--mixture", "web"], "--mixture: expected two columns or more"),
        (["--mixture", "web,code"], "shares in web, code that come to 1 in every row, found 0"),
        (["--mixture", "web,loss,code"], "shares in web, loss, code that come to 1"),
        (["--law", "besiroglu"], "--mixture: expected --law shukor or shukor-joint beside it"),
    ):
        with pytest.raises(Refused, match=said):
            CliRunner().invoke(cli, [*words, *more], catch_exceptions=False, standalone_mode=False)


@pytest.mark.slow
@pytest.mark.parametrize("law", ["farseer", "muennighoff"])
def test_what_holds_for_forms_holds_for_equations(law: str) -> None:
    """Diverged, swapped and pooled runs are named, by equations too whose nine constants could swallow two of them."""
    params, tokens = (each.ravel() for each in np.meshgrid(np.geomspace(3e7, 3e9, 6), np.geomspace(1e9, 1e11, 6)))
    loss = 1.8 + 480 / params**0.348 + 2090 / tokens**0.348
    loss *= np.exp(np.random.default_rng(0).normal(0, 0.002, 36))
    loss[11] *= 1.5
    params[20], tokens[20] = tokens[20], params[20]
    pools = np.array(["web", "code"] * 18)
    warned = " ".join(calc.fit_law({"N": params, "D": tokens, "loss": loss, "dataset": pools}, law, refits=0).warnings)
    assert "row 12 +" in warned
    assert "diverged?" in warned
    assert "row 21" in warned
    assert "2 values of dataset (code, web) are pooled" in warned
    size = np.geomspace(3e7, 3e9, 12)
    table = {"N": size, "D": 20 * size, "loss": 1.8 + 3000 / (120 * size**2) ** 0.18}
    if law == "farseer":
        with pytest.raises(Refused, match=r"several tokens a parameter .* move together"):
            calc.fit_law(table, law, refits=0)
    else:
        assert any("move together" in each for each in calc.fit_law(table, law, refits=0).warnings)
