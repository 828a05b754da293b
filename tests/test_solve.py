"""Inverse questions."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calc

GPT2 = calc.load_model("gpt2")
LLAMA = calc.load_model("llama-3-8b")


def test_a_root_is_the_closed_form_where_there_is_one() -> None:
    """GPT-2's parameters are 12 L d^2 + 13 L d + (V + P + 2) d, a quadratic in d."""
    target = 1_500_000_000
    a, b = 12 * 12, 13 * 12 + 50257 + 1024 + 2
    closed = (-b + math.sqrt(b * b + 4 * a * target)) / (2 * a)
    answer = calc.solve(GPT2, "params", target, "d_model")
    assert answer.root == pytest.approx(closed, rel=1e-12)
    # Allowed widths are multiples of the 12 heads, the nearest on either side.
    assert sorted(c.sizes["d_model"] for c in answer.candidates) == [
        math.floor(closed / 12) * 12,
        math.ceil(closed / 12) * 12,
    ]


def test_keep_ratios_scales_the_widths_together() -> None:
    answer = calc.solve(LLAMA, "params", 70e9, "d_model", keep_ratios=True)
    for candidate in answer.candidates:
        sizes = candidate.sizes
        assert sizes["d_ff"] * 4096 == sizes["d_model"] * 14336
        assert sizes["d_model"] == 128 * sizes["n_heads"] == 512 * sizes["n_kv_heads"]
        assert calc.estimate(calc.with_sizes(LLAMA, sizes), "params").value == candidate.value
    below, above = sorted(c.value for c in answer.candidates)
    assert below < 70e9 < above


@settings(max_examples=25, deadline=None)
@given(st.integers(2 * 10**8, 10**12), st.sampled_from(["n_layers", "d_ff", "vocab_size", "d_model"]))
def test_a_budget_is_kept_and_the_next_size_breaks_it(budget: int, symbol: str) -> None:
    try:
        answer = calc.solve(LLAMA, "params", budget, symbol, budget=True)
    except calc.NoSolution:
        return
    (best,) = answer.candidates
    assert best.value <= budget
    step = 32 if symbol == "d_model" else 1
    beyond = calc.with_sizes(LLAMA, {symbol: best.sizes[symbol] + step})
    assert calc.estimate(beyond, "params").value > budget


def test_loads_can_be_solved_for() -> None:
    answer = calc.solve(LLAMA, "kv_cache", 40 * 2**30, "seq", budget=True)
    assert answer.candidates[0].sizes == {"seq": 40 * 2**30 // 131072}


def test_a_window_is_no_obstacle() -> None:
    """Past its window Mistral's cache stops growing: 512 MiB at most in bf16."""
    mistral = calc.load_model("mistral-7b")
    assert calc.solve(mistral, "kv_cache", 2**28, "seq").root == pytest.approx(2048)
    with pytest.raises(calc.NoSolution, match="every seq"):
        calc.solve(mistral, "kv_cache", 2**30, "seq", budget=True)


def test_groups_scale_together_and_stay_whole() -> None:
    gemma = calc.load_model("gemma-2-9b")
    answer = calc.solve(gemma, "params", 12e9, "n_layers")
    assert all(c.sizes["n_layers"] % 2 == 0 for c in answer.candidates)
    alone = calc.solve(gemma, "params", 12e9, "n_layers_full")
    assert alone.candidates[0].sizes["n_layers_full"] > 21


def test_a_quantity_that_falls_gives_the_smallest_that_fits() -> None:
    """With d_head left to d_model / n_heads, more query heads make keys and values narrower."""
    budget = calc.estimate(calc.with_sizes(LLAMA, {"n_heads": 64}), "params").value
    (best,) = calc.solve(LLAMA, "params", budget, "n_heads", budget=True).candidates
    assert best.sizes["n_heads"] == 64


@pytest.mark.parametrize(
    ("quantity", "symbol", "options", "message"),
    [
        ("params", "d_modell", {}, "--for: expected one of d_model"),
        ("params", "seq", {}, "--for: expected one of"),
        ("params", "d_ff", {"keep_ratios": True}, "--keep-ratios: expected --for d_model"),
        ("kv_cache", "vocab_size", {}, "a size that kv_cache of llama-3-8b depends on"),
        ("nonsense", "d_model", {}, "QUANTITY: expected one of params"),
    ],
)
def test_refusals(quantity: str, symbol: str, options: dict[str, bool], message: str) -> None:
    with pytest.raises(calc.Refused) as refusal:
        calc.solve(LLAMA, quantity, 1e9, symbol, **options)
    assert message in str(refusal.value)


def test_targets_out_of_reach_say_what_is_reached() -> None:
    with pytest.raises(calc.NoSolution, match="is not reached"):
        calc.solve(LLAMA, "params", 1e6, "n_layers")
    with pytest.raises(calc.NoSolution, match="no n_layers fits: the least"):
        calc.solve(LLAMA, "params", 1e6, "n_layers", budget=True)
