"""Every row of the reference file of published values, by what the row itself says is put in."""

from __future__ import annotations

import csv
import json
import math
import re
import statistics
from collections.abc import Callable
from typing import Any

import pytest

from calc.conventions import flops
from calc.laws import find
from calc.laws.kaplan import KAPLAN
from calc.laws.kumar import best_bits
from calc.laws.uncertainty import draws
from calc.optimum import optimal
from tests import reference
from tests.conventions.shapes import gpt, train
from tests.conventions.test_published import TABLE_A4

Row = dict[str, Any]


def rows() -> list[Row]:
    found = reference.find()
    path = found / "scaling" / "golden.json" if found else None
    return json.loads(path.read_text()) if path and path.is_file() else []


def numbers(text: str) -> dict[str, float]:
    """Every NAME=NUMBER of the row's input; fractions such as 1e21/2 worked out."""
    found = re.findall(r"([A-Za-z_*\\]+) ?= ?(\.?\d[\d.]*(?:e\d+)?)(?:/(\d+))?", text)
    return {name: float(value) / float(by or 1) for name, value, by in found}


def optimum(name: str) -> Callable[[Row], list[float]]:
    def both(row: Row) -> list[float]:
        answer = optimal(name, compute=numbers(row["input"])["C"])
        return [answer.params, answer.tokens]

    return both


def kaplan_joint(row: Row) -> float:
    given = numbers(row["input"])
    k = KAPLAN.k
    assert (given["aN"], given["aD"], given["Nc"], given["Dc"]) == (k.alpha_N2, k.alpha_D2, k.Nc2, k.Dc2)
    return KAPLAN.evaluate("loss", params=given["N"], tokens=given["D"])


def kaplan_batch(row: Row) -> float:
    given = numbers(row["input"])
    assert (given["B*"], given["aB"]) == (KAPLAN.k.B_star, KAPLAN.k.alpha_B)
    return KAPLAN.evaluate("batch_tokens", loss=given["L"])


def kaplan_exponent(row: Row) -> float:
    """Equation B.7, with the exponents of the row; and that the derived frontier falls with just this exponent."""
    given = numbers(row["input"])
    derived = find("kaplan-derived")
    own = derived.k
    slope = math.log(derived.evaluate("loss", compute_min=1e20) / derived.evaluate("loss", compute_min=1e21), 10)
    assert slope == pytest.approx(1 / (1 / own.alpha_S3 + 1 / own.alpha_B + 1 / own.alpha_N3), rel=1e-9)
    return 1 / (1 / given["aS"] + 1 / given["aB"] + 1 / given["aN"])


def compute_for(row: Row) -> float:
    size = re.search(r"N=(\S+) -> C", row["law"])
    assert size
    return optimal("hoffmann-3", params=float(size[1])).compute


def table_a4(row: Row) -> list[float]:
    """FLOPs by the chinchilla convention over 6 N D, N with tied embedding and relative-position weights."""
    ratios = []
    for d_model, n_layers, n_heads, d_head, _ in TABLE_A4:
        spec = gpt(d_model, n_layers, n_heads, 32000, d_head=d_head, position="none")
        relative = 6 * n_layers * (d_model * n_heads * d_head + 2 * n_heads * d_head) * 2048
        six_n_d = flops(spec, train("chinchilla-6nd", 2048)).total + relative
        ratios.append(flops(spec, train("chinchilla", 2048)).total / six_n_d)
    return ratios


def constants(name: str) -> Callable[[Row], list[float]]:
    def read(row: Row) -> list[float]:
        k = find(name).k
        return [k.A, k.B, k.E, k.alpha, k.beta]

    return read


def standard_errors(row: Row) -> list[float]:
    found = list(draws("besiroglu_bootstrap.csv"))
    columns = [[getattr(k, name) for k in found] for name in ("A", "B", "E", "alpha", "beta")]
    columns.append([k.beta / (k.alpha + k.beta) for k in found])
    return [statistics.stdev(column) for column in columns]


def effective_tokens(row: Row) -> list[float]:
    unique = numbers(row["input"])["U"]
    law = find("muennighoff")
    epochs = [float(n) for n in re.findall(r"(\d+) epochs", row["input"])]
    return [law.evaluate("effective_tokens", tokens=unique * n, unique_tokens=unique) for n in epochs]


def of_compute(name: str, *gives: str) -> Callable[[Row], list[float]]:
    def read(row: Row) -> list[float]:
        compute = numbers(row["input"])["C"]
        return [find(name).evaluate(each, compute=compute) for each in gives]

    return read


def llama(row: Row) -> list[float]:
    compute = numbers(row["input"])["C"]
    pairs = [tuple(map(float, pair.split(","))) for pair in re.findall(r"\(([\d.,]+)\)", row["input"])]
    assert pairs == [(find(name).k.alpha, find(name).k.A) for name in ("llama-3", "llama-3-text")]
    return [find(name).evaluate("tokens", compute=compute) for name in ("llama-3", "llama-3-text")]


def inference(row: Row) -> list[float]:
    params = re.search(r"compute-opt (\S+?),", row["input"])
    assert params
    answer = optimal("sardana", params=float(params[1]), inference_tokens=numbers(row["input"])["D_inf"])
    return [answer.params, answer.tokens, answer.more["tokens_ratio"], answer.more["cost_ratio"]]


def gadre(name: str) -> Callable[[Row], list[float]]:
    def read(row: Row) -> list[float]:
        k = find(name).k
        return [k.a, k.b, k.eta, k.E]

    return read


def loss_of(name: str) -> Callable[[Row], float]:
    def read(row: Row) -> float:
        given = numbers(row["input"])
        return find(name).evaluate("loss", params=given["N"], tokens=given["D"])

    return read


def substitution(row: Row) -> float:
    law = find("besiroglu")
    assert law.parametric
    return law.parametric(law.k).substitution


def clark(row: Row) -> float:
    given = numbers(row["input"])
    return find("clark-s-base").evaluate("loss", params=given["N"], experts=given["E"])


CALLS: dict[str, Callable[[Row], Any]] = {
    "kaplan L(N)": lambda row: KAPLAN.evaluate("loss", params=numbers(row["input"])["N"]),
    "kaplan L(D)": lambda row: KAPLAN.evaluate("loss", tokens=numbers(row["input"])["D"]),
    "kaplan L(N,D)": kaplan_joint,
    "kaplan B_crit": kaplan_batch,
    "kaplan N_opt(C_min)": lambda row: KAPLAN.evaluate("params", compute_min=numbers(row["input"])["C_min"]),
    "kaplan alpha_C_min": kaplan_exponent,
    "hoffmann A3 loss (rounded)": loss_of("hoffmann-3-rounded"),
    "hoffmann A3 optimum rounded [N,D]": optimum("hoffmann-3-rounded"),
    "hoffmann A3 optimum TeX [N,D]": optimum("hoffmann-3"),
    "hoffmann A3 optimum, Table A3 inverse: N=10e9 -> C": compute_for,
    "epoch optimum [N,D]": optimum("epoch"),
    "table A4 FLOP/6ND": table_a4,
    "approach-3 fit Huber d=1e-3 (240 pts) [A,B,E,alpha,beta]": constants("besiroglu-huber"),
    "approach-3 fit LAD limit (d->0) [A,B,E,alpha,beta]": constants("besiroglu-lad"),
    "bootstrap SE (4000, 240 pts) [A,B,E,alpha,beta,a]": standard_errors,
    "muennighoff U_N/U_D": lambda row: find("muennighoff").evaluate("params", unique_tokens=1e9) / 1e9,
    "muennighoff D_eff": effective_tokens,
    "deepseek eta,B": of_compute("deepseek", "learning_rate", "batch_tokens"),
    "deepseek M_opt,D_opt": of_compute("deepseek", "flops_per_token", "tokens"),
    "llama3 D*(C) tokens": llama,
    "inference-aware [N,D,D/D0,cost ratio]": inference,
    "gadre C4->c4_val refit [a,b,eta,E]": gadre("gadre"),
    "gadre RedPajama->c4_val refit": gadre("gadre-redpajama"),
    "gadre predict 6.9B/138B tokens c4_val (C4-trained)": loss_of("gadre"),
    "clark S-Base": clark,
    "kumar u*=P*/gamma (3 equal tensors, alpha=beta)": lambda row: best_bits(1.0, tensors=3),
    "sigma* elasticity at optimum": substitution,
    "hoffmann A3 N_opt TeX vs paper text": lambda row: optimum("hoffmann-3")(row)[0],
}

ABSENT = pytest.param({}, marks=pytest.mark.skip(reason=reference.ABSENT), id="reference")


@pytest.mark.parametrize("row", [pytest.param(row, id=str(row["id"])) for row in rows()] or [ABSENT])
def test_published_value(row: Row) -> None:
    found = CALLS[row["law"]](row)
    assert found == pytest.approx(row["expected"], rel=row["rtol"])


def test_points_of_the_refit_are_the_bootstrapped_ones() -> None:
    """The file of draws says 240 points of these runs; their ranges are those that the law names."""
    path = reference.folder() / "scaling" / "runs" / "epoch_chinchilla.csv"
    with path.open(newline="") as file:
        points = [row for row in csv.DictReader(file) if "outlier" not in row["notes"]]
    assert len(points) == 240
    columns = {"params": "params_total", "tokens": "tokens", "compute": "flops"}
    for name, (low, high) in find("besiroglu").valid.items():
        values = (
            [float(row["tokens"]) / float(row["params_total"]) for row in points]
            if name == "tokens_per_param"
            else [float(row[columns[name]]) for row in points]
        )
        assert min(values) == pytest.approx(low, rel=0.02)
        assert max(values) == pytest.approx(high, rel=0.02)
