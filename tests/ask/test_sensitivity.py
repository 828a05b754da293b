"""What a tenth more of a size does."""

from __future__ import annotations

import pytest

import calc
from calc.ask.sensitivity import sensitivity


def changes(model: str, quantity: str, **options: int) -> dict[str, float | None]:
    found = sensitivity(calc.explain(calc.load_model(model), quantity, **options))
    sizes = [abs(each.change or 0) for each in found]
    assert sizes == sorted(sizes, reverse=True)
    return {each.symbol.name: each.change for each in found}


def test_a_factor_moves_a_product_by_a_tenth_and_a_square_by_21_percent() -> None:
    attention = changes("gpt2", "flops.forward", seq=100000)
    assert attention["batch"] == pytest.approx(0.1, abs=1e-15)
    # 2 * B * S * (weights) + 4 * B * L * d * S^2: as the sequence grows, its square is all.
    assert 0.2 < attention["seq"] < 0.21


@pytest.mark.parametrize(("symbol", "model"), [("d_ff", "llama-3-8b"), ("vocab_size", "llama-3-8b")])
def test_it_is_what_the_model_with_that_size_counts(symbol: str, model: str) -> None:
    spec = calc.load_model(model)
    value = calc.sizes_of(spec)[symbol]
    more = calc.with_sizes(spec, {symbol: value * 11 / 10})
    counted = calc.estimate(more, "params").value / calc.estimate(spec, "params").value - 1
    assert changes(model, "params")[symbol] == pytest.approx(counted, rel=1e-9)


def test_a_window_that_is_full_does_not_grow_with_the_sequence() -> None:
    # Every second layer of Gemma 2 keeps 4,096 tokens: only the others grow.
    found = changes("gemma-2-9b", "kv_cache", seq=8192)
    assert found["seq"] == pytest.approx(0.1 * 8192 / (8192 + 4096), rel=1e-12)
    assert changes("gemma-2-9b", "kv_cache", seq=2048)["seq"] == pytest.approx(0.1, rel=1e-12)
