"""Inverse questions."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import calc
from calc.ask.problem import problem_of
from calc.ask.roots import grid_of, values_on
from calc.ask.solve import moved_head_widths
from calc.quantities.kv_cache import kv_cache
from calc.spec import Attention, CompressedAttention, Compressor, EntryIndexer, Head, LayerGroup, Mlp, Norm
from calc.spec.run import exact_run
from tests.strategies import specs

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
    # 32 heads, each of an even width.
    step = 64 if symbol == "d_model" else 1
    beyond = calc.with_sizes(LLAMA, {symbol: best.sizes[symbol] + step})
    assert calc.estimate(beyond, "params").value > budget


def test_loads_can_be_solved_for() -> None:
    answer = calc.solve(LLAMA, "kv_cache", 40 * 2**30, "seq", budget=True)
    assert answer.candidates[0].sizes == {"seq": 40 * 2**30 // 131072}


def test_a_window_is_no_obstacle() -> None:
    """Past its window Mistral's cache stops growing: 512 MiB at most in bf16."""
    mistral = calc.load_model("mistral-7b")
    assert calc.solve(mistral, "kv_cache", 2**28, "seq").root == pytest.approx(2048)
    for budget in (2**29, 2**30):
        most = r"every seq up to 2,147,483,648 fits: the most it comes to is 536,870,912 bytes, 512 MiB \(seq=4,1"
        with pytest.raises(calc.NoSolution, match=most):
            calc.solve(mistral, "kv_cache", budget, "seq", budget=True)
    largest = calc.solve(mistral, "kv_cache", 2**29 - 1, "seq", budget=True)
    assert largest.candidates[0].sizes == {"seq": 4095}


COMPRESSED = calc.ModelSpec(
    d_model=8,
    vocab_size=9,
    layers=tuple(
        LayerGroup(
            name=name,
            count=count,
            mixer=CompressedAttention(
                n_heads=2, d_head=4, q_rank=2, window=3, n_out_groups=1, out_rank=2, compressor=made
            ),
        )
        for name, count, made in (
            ("sliding", 1, None),
            ("sparse", 2, Compressor(rate=4, overlap=True, indexer=EntryIndexer(n_heads=1, d_head=4, top_k=2))),
            ("heavy", 3, Compressor(rate=24)),
        )
    ),
)


@pytest.mark.parametrize(("at", "reading"), [(23, "tokens"), (24, "cache"), (71, "cache"), (98, "tokens")])
def test_a_cache_that_shrinks_as_its_entries_complete(at: int, reading: Any) -> None:
    """Tokens that wait for their entry take more than the entry does: the largest length that fits lies past others
    that do not."""
    tried = {n: kv_cache(COMPRESSED, 1, n, "bf16", reading).total_bytes for n in range(1, 300)}
    largest = max(n for n, value in tried.items() if value <= tried[at])
    assert any(tried[n] > tried[at] for n in range(1, largest))
    answer = calc.solve(COMPRESSED, "kv_cache", tried[at], "seq", budget=True, window_reading=reading)
    assert answer.candidates[0].sizes == {"seq": largest}
    assert answer.root is not None
    assert largest <= answer.root <= largest + 1


def test_entries_that_are_never_complete_together() -> None:
    groups = tuple(
        group.model_copy(update={"mixer": group.mixer.model_copy(update={"compressor": Compressor(rate=rate)})})
        for group, rate in zip(COMPRESSED.layers, (101, 103, 107), strict=True)
    )
    spec = COMPRESSED.model_copy(update={"layers": groups})
    with pytest.raises(calc.Refused, match="complete together within 4096 tokens, found 1113121"):
        calc.solve(spec, "kv_cache", 2**30, "seq", budget=True)


def test_where_a_quantity_stays_at_the_target_the_root_is_where_it_arrives() -> None:
    answer = calc.solve(calc.load_model("mistral-7b"), "kv_cache", 2**29, "seq")
    assert answer.root == 4096
    assert [c.sizes["seq"] for c in answer.candidates] == [4096, 4097]


@settings(max_examples=10, deadline=None)
@given(specs(), st.integers(1, 320), st.integers(-1, 1), st.sampled_from(["kv_cache", "flops.decode"]))
@pytest.mark.slow
def test_budgets_agree_with_trying_every_size(spec: calc.ModelSpec, at: int, off: int, quantity: str) -> None:
    """Windows of up to 300 tokens: both quantities rise and stay, for ever or until a group without window goes on."""
    symbol = "seq" if quantity == "kv_cache" else "context"
    tried = {n: calc.estimate(spec, quantity, **{symbol: n}).value for n in range(1, 331)}
    budget = tried[at] + off
    fitting = [n for n, value in tried.items() if value <= budget]
    try:
        answer = calc.solve(spec, quantity, budget, symbol, budget=True)
    except calc.Refused:
        # Windows of one token everywhere: nothing grows at all.
        assert len(set(tried.values())) == 1
    except calc.NoSolution as failure:
        assert ("every" in str(failure)) == bool(fitting)
        assert len(fitting) in (0, len(tried))
    else:
        assert answer.candidates[0].sizes == {symbol: fitting[-1]}
        assert answer.candidates[0].value == tried[fitting[-1]]


@settings(max_examples=10, deadline=None)
@given(specs(), st.integers(2, 100), st.integers(-1000, 1000), st.sampled_from(["d_model", "n_layers", "n_heads"]))
@pytest.mark.slow
def test_candidates_are_the_nearest_of_all_that_can_be_built(
    spec: calc.ModelSpec, at: int, off: int, symbol: str
) -> None:
    try:
        target = int(calc.sweep(spec, ["params"], {symbol: [float(at)]})["params"][0]) + off
        answer = calc.solve(spec, "params", target, symbol)
    except (calc.Refused, calc.NoSolution):
        return
    tried = []
    for n in range(1, 401):
        try:
            changed = calc.with_sizes(spec, {symbol: n})
            calc.ModelSpec.model_validate(changed.model_copy(update={"schedule": None}).model_dump())
        except (ValueError, ArithmeticError):
            continue
        tried.append(calc.estimate(changed, "params").value)
    # A quantity with a minimum (heads wider in one group, narrower in another) has two roots, and one is reported; the
    # minimum may lie among sizes that cannot be built.
    between = list(calc.sweep(spec, ["params"], {symbol: [float(n) for n in range(1, 401)]})["params"])
    if sorted(between) in (between, between[::-1]):
        offs = sorted(abs(value - target) for value in tried)
        assert [abs(c.value - target) for c in answer.candidates] == offs[:2]


@pytest.mark.slow
def test_of_two_roots_the_one_near_which_a_model_can_be_built_is_reported() -> None:
    """Keys and values of a given number of heads narrow as heads grow, and a sink for each head is one more: the sum
    has its minimum beyond 216 heads, the most that d_model can be divided by, and a root past that."""
    mixer = Attention(n_heads=2, n_kv_heads=2, sinks=True)
    layer = LayerGroup(count=2, norm=Norm(), mixer=mixer, channel=Mlp(d_ff=64))
    spec = calc.ModelSpec(d_model=216, vocab_size=64, layers=(layer,), final_norm=Norm(), head=Head())
    for heads in (4, 54):
        target = calc.estimate(calc.with_sizes(spec, {"n_heads": heads}), "params").value
        answer = calc.solve(spec, "params", target + 3, "n_heads")
        assert answer.candidates[0].sizes == {"n_heads": heads}
        assert abs(answer.root - heads) < 1


def test_groups_scale_together_and_stay_whole() -> None:
    gemma = calc.load_model("gemma-2-9b")
    answer = calc.solve(gemma, "params", 12e9, "n_layers")
    assert all(c.sizes["n_layers"] % 2 == 0 for c in answer.candidates)
    alone = calc.solve(gemma, "params", 12e9, "n_layers_full")
    assert alone.candidates[0].sizes["n_layers_full"] > 21


def test_a_quantity_that_falls_gives_the_smallest_that_fits() -> None:
    """With d_head left to d_model / n_heads, more query heads make keys and values narrower."""
    budget = calc.estimate(calc.with_sizes(LLAMA, {"n_heads": 64}), "params").value
    answer = calc.solve(LLAMA, "params", budget, "n_heads", budget=True)
    (best,) = answer.candidates
    assert not answer.rising
    assert best.sizes["n_heads"] == 64


def test_the_size_itself_is_found_with_the_nearest_on_either_side() -> None:
    own = calc.estimate(LLAMA, "params").value
    assert [c.sizes["n_heads"] for c in calc.solve(LLAMA, "params", own, "n_heads").candidates] == [32, 64]


def test_groups_in_other_proportions_are_both_found() -> None:
    group = LLAMA.layers[0]
    layers = tuple(group.model_copy(update={"name": name, "count": count}) for name, count in (("a", 2), ("b", 3)))
    spec = calc.ModelSpec(d_model=4096, vocab_size=100, layers=layers)
    own = calc.estimate(spec, "params").value
    assert [c.sizes["n_layers"] for c in calc.solve(spec, "params", own, "n_layers").candidates] == [5, 10]


def test_heads_far_apart_are_found() -> None:
    """Those that divide 32,768 and leave an even width: 8,192 and 16,384, further apart than a walk goes."""
    spec = calc.with_sizes(LLAMA, {"d_model": 32768, "n_kv_heads": 1, "d_ff": 1})
    target = calc.estimate(calc.with_sizes(spec, {"n_heads": 16384}), "params").value + 1
    answer = calc.solve(spec, "params", target, "n_heads")
    assert [c.sizes["n_heads"] for c in answer.candidates] == [16384, 8192]


def test_rotary_heads_stay_even() -> None:
    answer = calc.solve(LLAMA, "params", 13e9, "d_model")
    assert [c.sizes["d_model"] for c in answer.candidates] == [6144, 6080]
    assert [moved_head_widths(LLAMA, c) for c in answer.candidates] == [{"d_head": 192}, {"d_head": 190}]


@pytest.mark.parametrize("target", [0, -1, math.inf, math.nan])
def test_targets_are_above_nothing_and_finite(target: float) -> None:
    with pytest.raises(calc.Refused, match="params: expected a finite value above 0"):
        calc.solve(LLAMA, "params", target, "d_model")


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
    with pytest.raises(calc.NoSolution, match=r"the least it comes to is 131,072 bytes, 128 KiB \(seq=1\)"):
        calc.solve(LLAMA, "kv_cache", 1, "seq", budget=True)
    with pytest.raises(calc.NoSolution, match=r"between 1,632,913 parameters \(d_model=1\) and"):
        calc.solve(LLAMA, "params", 1, "d_model")


@pytest.mark.parametrize(("model", "quantity", "symbol"), [("gpt2", "params", "d_model"), ("gpt2", "kv_cache", "seq")])
def test_a_grid_that_is_read_as_a_column_says_what_exact_values_say(model: str, quantity: str, symbol: str) -> None:
    problem = problem_of(calc.load_model(model), quantity, symbol, False, exact_run())
    grid = grid_of(problem.limit)
    exact = [problem.value(Fraction(x)) for x in grid]
    for target in (exact[100], exact[100] + 1, (exact[-1] + exact[-2]) / 2):
        found = values_on(problem, grid, float(target))
        assert [(a < target, a == target) for a in found] == [(b < target, b == target) for b in exact]
        assert sum(isinstance(value, float) for value in found) > len(grid) / 2
