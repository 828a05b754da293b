"""How many experts a batch reaches, held against every choice that tokens can make."""

from __future__ import annotations

from itertools import combinations, product
from typing import Any

import numpy
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

import calc
from calc.errors import Refused
from calc.spec.routing import reached
from calc.spec.run import Run


@pytest.mark.parametrize(("n_experts", "top_k", "tokens"), [(4, 1, 3), (4, 2, 3), (5, 2, 2), (3, 3, 2), (6, 1, 1)])
def test_uniform_is_the_mean_of_all_choices(n_experts: int, top_k: int, tokens: int) -> None:
    choices = list(combinations(range(n_experts), top_k))
    visited = [len(set().union(*each)) for each in product(choices, repeat=tokens)]
    assert reached("uniform", n_experts, top_k, tokens) == pytest.approx(sum(visited) / len(visited), rel=1e-12)
    assert reached("balanced", n_experts, top_k, tokens) >= max(visited)


@given(st.integers(1, 64), st.integers(1, 64), st.integers(0, 10**6), st.floats(0, 8))
def test_routings_are_in_order(n_experts: int, top_k: int, tokens: int, alpha: float) -> None:
    top_k = min(top_k, n_experts)
    least, uniform, most = (
        reached(name, n_experts, top_k, tokens) for name in (f"power-law:{alpha}", "uniform", "balanced")
    )
    assert min(tokens, 1) * top_k <= least * (1 + 1e-9)
    assert least <= uniform * (1 + 1e-9)
    assert uniform <= most * (1 + 1e-12)
    assert reached("power-law:0", n_experts, top_k, tokens) == pytest.approx(uniform, rel=1e-9)


def test_symbols_and_arrays_give_the_same() -> None:
    sizes = n_experts, top_k, tokens = sympy.symbols("n_experts top_k tokens", positive=True)
    for name in ("uniform", "balanced"):
        formula = reached(name, n_experts, top_k, tokens)
        each = [2, 16, 10**7]
        exact = [reached(name, 128, 8, number) for number in each]
        given_numbers = [formula.xreplace(dict(zip(sizes, map(sympy.Integer, (128, 8, n)), strict=True))) for n in each]
        assert [float(value) for value in given_numbers] == pytest.approx(exact, rel=1e-12)
        assert reached(name, 128, 8, numpy.array(each, dtype=float)) == pytest.approx(exact, rel=1e-12)
    with pytest.raises(Refused, match="routing: expected uniform or balanced in a formula"):
        reached("power-law:1", n_experts, top_k, tokens)


@pytest.mark.parametrize("name", ["even", "power-law", "power-law:", "power-law:nan", "power-law:-1", "zipf:1", 3])
def test_other_words_are_refused(name: Any) -> None:
    with pytest.raises(Refused, match="routing: expected uniform, balanced or power-law:ALPHA"):
        Run(routing=name)


def test_a_batch_of_16_reaches_82_experts_of_128() -> None:
    """Qwen3-235B's experts, whose decoding took all of them for a batch of 16."""
    spec = calc.load_model("qwen3-235b-a22b")
    assert round(reached("uniform", 128, 8, 16)) == 82

    def read(**words: Any) -> float:
        return calc.estimate(spec, "traffic.decode", batch=16, context=100, **words).terms["weights"]

    matrices = 94 * 128 * 3 * 4096 * 1536 * 2
    assert (read(routing="balanced") - read()) / matrices == pytest.approx((1 - 8 / 128) ** 16, rel=1e-9)
    explained = calc.explain(spec, "traffic.decode", batch=16, context=100)
    assert explained.estimate.value == sum(explained.estimate.terms.values())
