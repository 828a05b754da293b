"""Laws of experts: what they print is what their papers do, and a numerical optimum is one."""

from __future__ import annotations

import math
from typing import Any

import pytest
from scipy import optimize

from calc.errors import Refused
from calc.laws import Parametric, find

# Ludziejewski et al. 2025, table 4: experts, m, mu, n, nu of m N^mu + n D^nu + 1.3637.
TABLE_4 = [
    (1, 30.3640, -0.1817, 53.9838, -0.1965),
    (2, 27.7982, -0.1780, 66.8401, -0.2065),
    (4, 24.8462, -0.1731, 87.7022, -0.2192),
    (8, 21.8330, -0.1676, 119.9126, -0.2338),
    (16, 19.0159, -0.1617, 167.5073, -0.2494),
    (32, 16.5424, -0.1557, 234.6726, -0.2652),
]
# The same, table 1: compute, experts, active parameters, tokens.
TABLE_1 = [
    (1e20, 1, 1.7e9, 9.7e9),
    (1e20, 2, 1.5e9, 11.4e9),
    (1e20, 4, 1.2e9, 13.9e9),
    (1e20, 8, 990e6, 17e9),
    (1e20, 16, 810e6, 20.7e9),
    (1e20, 32, 669e6, 24.9e9),
    (1e21, 1, 5.7e9, 29.3e9),
    (1e21, 8, 3.8e9, 44.3e9),
    (1e21, 32, 2.85e9, 58.4e9),
    (1e22, 1, 18.8e9, 88.6e9),
    (1e22, 8, 14.4e9, 115.8e9),
    (1e22, 32, 12.2e9, 136.9e9),
]
# Krajewski et al. 2024, table 2: active parameters, tokens, granularity, loss.
FINE = [
    (1e8, 4.37e9, 8, 3.133),
    (1e9, 28.94e9, 16, 2.491),
    (3e9, 72.90e9, 16, 2.245),
    (7e9, 137.60e9, 32, 2.076),
    (7e10, 941.07e9, 32, 1.694),
    (3e11, 2.96e12, 64, 1.503),
    (1e12, 7.94e12, 64, 1.367),
]


@pytest.mark.parametrize("row", TABLE_4, ids=lambda row: str(row[0]))
def test_joint_law_at_a_number_of_experts(row: tuple[float, ...]) -> None:
    experts, m, mu, n, nu = row
    law = find("ludziejewski").at(experts=experts)
    assert law.parametric
    form = law.parametric(law.k)
    assert isinstance(form, Parametric)
    assert (form.A, -form.alpha, form.B, -form.beta) == pytest.approx((m, mu, n, nu), rel=0.003)
    assert form.E == 1.3637
    at = {"params": 1e9, "tokens": 2e10}
    assert law.evaluate("loss", experts=experts, **at) == pytest.approx(form.loss(1e9, 2e10), rel=1e-12)


@pytest.mark.parametrize("row", TABLE_1, ids=lambda row: f"{row[0]:g}-{row[1]}")
def test_joint_laws_optima(row: tuple[float, ...]) -> None:
    compute, experts, params, tokens = row
    law = find("joint-moe").at(experts=experts)
    assert law.frontier
    line = law.frontier(law.k)
    assert (line.params(compute), line.tokens(compute)) == pytest.approx((params, tokens), rel=0.022)


@pytest.mark.parametrize("row", FINE, ids=lambda row: f"{row[0]:g}")
def test_granularity_table_2(row: tuple[float, ...]) -> None:
    params, tokens, granularity, loss = row
    found = find("krajewski").evaluate("loss", params=params, tokens=tokens, granularity=granularity)
    assert found == pytest.approx(loss, rel=0.009)


@pytest.mark.parametrize("sparsity", [0.0, 0.5, 0.95])
@pytest.mark.parametrize("compute", [1e18, 1e21, 1e25])
def test_an_optimum_without_closed_form_is_the_numerical_one(sparsity: float, compute: float) -> None:
    law = find("abnar").at(sparsity=sparsity)
    assert law.frontier
    line = law.frontier(law.k)
    each = 6 * (1 - sparsity)

    def along(x: float) -> float:
        size = {"params": math.exp(x), "tokens": compute / each / math.exp(x)}
        return law.parametric(law.k).loss(**size)  # pyright: ignore[reportOptionalCall]

    n = line.params(compute)
    found: Any = optimize.minimize_scalar(
        along, bounds=(math.log(n) - 3, math.log(n) + 3), method="bounded", options={"xatol": 1e-9}
    )
    assert found.x == pytest.approx(math.log(n), abs=1e-5)
    assert line.loss(compute) == pytest.approx(found.fun, rel=1e-12)
    assert each * n * line.tokens(compute) == pytest.approx(compute)
    for side in ({"params": n}, {"tokens": line.tokens(compute)}, {"loss": line.loss(compute)}):
        assert line.compute(**side) == pytest.approx(compute, rel=1e-4)
    with pytest.raises(Refused, match="which no compute gets below"):
        line.compute(loss=line.floor)


@pytest.mark.parametrize(
    ("law", "routing", "said"),
    [
        ("besiroglu", {"experts": 8}, "--experts: expected a law of experts beside it, found besiroglu"),
        ("ludziejewski", {"sparsity": 0.5}, "--sparsity: expected nothing but --experts, found ludziejewski"),
        ("ludziejewski", {"experts": 0.5}, "--experts: expected from 1 to 1e+06"),
        ("abnar", {"sparsity": 1.0}, "--sparsity: expected from 0 to 1"),
    ],
)
def test_routing_refused(law: str, routing: dict[str, float], said: str) -> None:
    with pytest.raises(Refused) as refusal:
        find(law).at(**routing)
    assert said in str(refusal.value)


def test_more_experts_are_better_and_cost_learning_rate() -> None:
    law = find("ludziejewski")
    losses = [law.evaluate("loss", params=1e9, tokens=2e10, experts=n) for n in (1, 2, 8, 32)]
    assert losses == sorted(losses, reverse=True)
    rates = [law.evaluate("learning_rate", params=1e8, experts=n) for n in (1, 8)]
    assert rates[0] == pytest.approx(math.exp(8.39) * 1e8**-0.81)
    assert rates[1] == pytest.approx(rates[0] * 8**-0.25)
    assert law.evaluate("effective_experts", experts=1) == pytest.approx(law.k.E_start)
