"""Beyond the optimum of training alone: use, limited data, exact FLOPs of a family."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize_scalar

import calc
from calc.laws import find
from calc.laws.muennighoff import worth
from calc.optimum import optimal
from calc.optimum.costs import counted, of_family
from calc.optimum.search import Problem
from calc.spec import Shorthand

LLAMA = calc.load_model("llama-3-8b")


def test_use_is_paid_for_at_equal_loss() -> None:
    """Sardana et al., equation 3, from its first-order condition: eN / eD = 1 + D_inf / (3 D)."""
    base = optimal("hoffmann-3", params=13e9)
    answer = optimal("hoffmann-3", params=13e9, inference_tokens=2e12)
    assert answer.loss == pytest.approx(base.loss, rel=1e-12)
    assert answer.params < base.params
    k = find("hoffmann-3").k
    of_n = k.alpha * k.A * answer.params**-k.alpha
    of_d = k.beta * k.B * answer.tokens**-k.beta
    assert of_n / of_d == pytest.approx(1 + 2e12 / (3 * answer.tokens), rel=1e-6)
    assert answer.more["total_compute"] == pytest.approx(6 * answer.params * answer.tokens + 2 * answer.params * 2e12)
    assert 0 < answer.more["cost_ratio"] < 1
    little = optimal("hoffmann-3", params=13e9, inference_tokens=1.0)
    assert little.params == pytest.approx(13e9, rel=1e-5)


def test_limited_data() -> None:
    """The best model repeats its tokens, and more compute goes to epochs than to size; enough data changes nothing."""
    free = optimal("muennighoff", compute=1e22)
    assert optimal("muennighoff", compute=1e22, unique_tokens=1e13).params == pytest.approx(free.params, rel=1e-5)
    limited = optimal("muennighoff", compute=1e22, unique_tokens=2.5e10)
    assert limited.more["epochs"] == pytest.approx(limited.tokens / 2.5e10)
    assert limited.loss is not None
    assert free.loss is not None
    assert limited.loss > free.loss
    assert limited.params < free.params
    law = find("muennighoff")
    assert law.evaluate("loss", params=limited.params, tokens=limited.tokens, unique_tokens=2.5e10) == pytest.approx(
        limited.loss, rel=1e-12
    )

    def along(x: float) -> float:
        n = math.exp(x)
        return law.evaluate("loss", params=n, tokens=1e22 / 6 / n, unique_tokens=2.5e10)

    around = (math.log(limited.params) - 1, math.log(limited.params) + 1)
    found: Any = minimize_scalar(along, bounds=around, method="bounded", options={"xatol": 1e-9})
    assert found.fun == pytest.approx(limited.loss, rel=1e-12)


def test_more_epochs_than_were_ever_tried_are_a_warning() -> None:
    few, many = (optimal("muennighoff", compute=1e22, unique_tokens=fresh) for fresh in (1e10, 1e7))
    assert many.more["epochs"] > 500 > few.more["epochs"]
    assert any("the epochs that muennighoff was fitted on" in warning for warning in many.warnings)
    assert not any("the epochs that" in warning for warning in few.warnings)
    assert "repeated tokens: Muennighoff" in few.convention


def test_limited_data_and_use_together() -> None:
    """Use asks for more tokens, and with few fresh ones there are fewer to be had."""
    both = optimal("muennighoff", compute=1e22, unique_tokens=2.5e10, inference_tokens=1e12)
    data = optimal("muennighoff", compute=both.more["plain_compute"], unique_tokens=2.5e10)
    assert both.loss == pytest.approx(data.loss, rel=1e-9)
    assert both.params < data.params
    assert both.more["cost_ratio"] < 1


@given(st.floats(1e6, 1e13), st.floats(1e6, 1e13))
def test_repeated_tokens_are_worth_less_and_never_nothing(amount: float, fresh: float) -> None:
    found = worth(amount, fresh, 15.4)
    assert min(amount, fresh) * (1 - 1e-12) <= found <= amount * (1 + 1e-12)
    assert worth(amount * 1.1, fresh, 15.4) >= found


def test_exact_flops_of_a_family() -> None:
    """The tree's own FLOPs fill the budget, and no other size of the family has a lower loss."""
    answer = optimal(compute=1e22, family=LLAMA, seq=8192)
    costs = of_family(LLAMA, 8192, "all")
    scale = answer.more["scale"]
    assert costs.size(scale) == answer.params
    assert costs.train(scale) * answer.tokens == pytest.approx(1e22, rel=1e-12)
    assert costs.train(1.0) * 8192 == calc.estimate(LLAMA, "flops.training", seq=8192).value
    assert costs.size(1.0) == 8_030_261_248
    problem = Problem(find("besiroglu"), costs)
    for other in (0.8, 0.95, 1.05, 1.3):
        tokens = 1e22 / costs.train(scale * other)
        assert problem.loss(costs.size(scale * other), tokens) > (answer.loss or 0)
    # Long sequences cost more than 6 N D, so less is left for tokens.
    assert answer.params * answer.tokens * 6 < 1e22


def test_a_family_under_a_law_without_loss_stays_on_its_frontier() -> None:
    answer = optimal("hoffmann-2", compute=1e22, family=LLAMA)
    law = find("hoffmann-2")
    assert law.frontier
    line = law.frontier(law.k)
    assert line.tokens(line.compute(params=answer.params)) == pytest.approx(answer.tokens, rel=1e-9)


def test_n_is_counted_as_the_law_does() -> None:
    """Llama 3 8B: 8.03B in all, 1.05B of them in two tables of embeddings."""
    table = 128256 * 4096
    assert counted(LLAMA, "all") == 8_030_261_248
    assert counted(LLAMA, "without input embedding") == 8_030_261_248 - table
    assert counted(LLAMA, "non-embedding") == 8_030_261_248 - 2 * table - 266_240
    gpt2 = calc.load_model("gpt2")
    assert counted(gpt2, "without input embedding") == 124_439_808 - 1024 * 768


def test_an_n_that_is_not_quite_the_laws_is_said() -> None:
    """DeepSeek's M / 6 has attention over the sequence; the count of a model's weights has not."""
    said = find("deepseek").inexact
    assert said in optimal("deepseek", compute=1e20, family=LLAMA).warnings
    assert said in calc.judge(LLAMA, 1e12, "deepseek").warnings
    assert said not in optimal("deepseek", compute=1e20).warnings
    assert not find("besiroglu").inexact


def test_small_family() -> None:
    """Kaplan's and Porian's N of a family: the optimum's own model has it."""
    spec = Shorthand(d_model=512, n_layers=8, n_heads=8, vocab_size=32000, max_seq_len=2048).expand()
    for law in ("kaplan", "porian"):
        answer = optimal(law, compute=1e20, family=spec)
        assert of_family(spec, 2048, find(law).counts).size(answer.more["scale"]) == answer.params
