"""Models and their tokens judged by a law."""

from __future__ import annotations

import pytest

import calc
from calc.errors import Refused
from calc.laws import find
from calc.optimum import judge, optimal

LLAMA = calc.load_model("llama-3-8b")


def test_judge_llama_3_8b() -> None:
    """15T tokens are some 90 times what the refit gives a model of 8B; training past the optimum pays with use."""
    found = judge(LLAMA, 15e12)
    best = optimal(params=8_030_261_248.0)
    assert found.past == pytest.approx(15e12 / best.tokens)
    assert 85 < found.past < 97
    assert found.compute == 6 * 8_030_261_248 * 15e12
    same = optimal(compute=found.compute)
    assert (found.best_params, found.best_tokens) == pytest.approx((same.params, same.tokens))
    assert found.best_loss == pytest.approx(same.loss)
    assert found.loss_gap == pytest.approx(calc.loss(params=8_030_261_248, tokens=15e12).loss - (same.loss or 0))
    assert found.loss_gap
    assert found.loss_gap > 0
    assert found.loss
    equal = optimal(loss=found.loss)
    assert found.saving == pytest.approx(1 - found.params / equal.params)
    assert found.break_even
    use = found.break_even
    ours = found.compute + 2 * found.params * use
    assert ours == pytest.approx(equal.compute + 2 * equal.params * use)


def test_judge_at_the_optimum_and_short_of_it() -> None:
    n = calc.estimate(LLAMA, "params").value
    at = judge(LLAMA, optimal(params=float(n)).tokens)
    assert at.past == pytest.approx(1)
    assert at.loss_gap == pytest.approx(0, abs=1e-12)
    short = judge(LLAMA, 1e10)
    assert short.past < 1
    assert short.saving
    assert short.saving < 0
    assert short.break_even is None


def test_judge_by_a_law_without_loss() -> None:
    found = judge(LLAMA, 1e12, "porian")
    assert found.loss is None
    assert found.break_even is None
    assert found.params == calc.estimate(LLAMA, "params").value - 128256 * 4096
    assert found.best_params == pytest.approx(find("porian").evaluate("params", compute=found.compute))


def test_judge_refuses() -> None:
    for spec, tokens, law, said in (
        (LLAMA, 0.0, "besiroglu", "--tokens: expected a finite number above 0"),
        (LLAMA, 15.0, "besiroglu", "of 8.03B parameters on 15 tokens is below that of guessing"),
        (LLAMA, 1e12, "step-law", "a law that says which model is optimal"),
        (calc.load_model("mixtral-8x7b"), 1e12, "besiroglu", "a model without experts"),
    ):
        with pytest.raises(Refused) as refusal:
            judge(spec, tokens, law)
        assert said in str(refusal.value)


def test_judge_by_kaplan_has_the_loss_of_n_and_d() -> None:
    """Not of the family E + A / N^alpha + B / D^beta: both losses are equation 1.5, which the answer says."""
    law = find("kaplan")
    found = judge(LLAMA, 1e12, "kaplan")
    assert found.loss == pytest.approx(law.evaluate("loss", params=found.params, tokens=1e12))
    best = law.evaluate("loss", params=found.best_params, tokens=found.best_tokens)
    assert found.best_loss == pytest.approx(best)
    assert found.loss_gap == pytest.approx(found.loss - best if found.loss else None)
    assert found.same_loss_compute
    tokens = law.evaluate("tokens", compute=found.same_loss_compute)
    again = law.evaluate("loss", params=found.same_loss_params, tokens=tokens)
    assert again == pytest.approx(found.loss, rel=1e-9)
    assert any("equation 1.5" in warning for warning in found.warnings)


@pytest.mark.parametrize("law", ["besiroglu", "kaplan"])
def test_judge_with_exact_flops(law: str) -> None:
    """The FLOPs that `flops.training` counts; the optima are the same model made wider and deeper."""
    found = judge(LLAMA, 15e12, law, seq=8192)
    assert found.compute == calc.estimate(LLAMA, "flops.training", seq=8192).value / 8192 * 15e12
    assert found.params == judge(LLAMA, 15e12, law).params
    same = optimal(law, compute=found.compute, family=LLAMA, seq=8192) if law == "besiroglu" else None
    if same:
        assert (found.best_params, found.best_loss) == pytest.approx((same.params, same.loss))
    assert found.loss
    assert found.saving
    assert 0 < found.saving < 1
    assert found.same_loss_compute
    assert found.same_loss_compute < found.compute
    assert "exact FLOPs of llama-3-8b in sequences of 8192" in found.convention


def test_second_hand_constants_are_said() -> None:
    said = find("porian").second_hand
    assert said in judge(LLAMA, 1e12, "porian").warnings
    answer = optimal("porian", compute=1e21)
    assert said in answer.warnings
    assert find("step-law").second_hand in answer.hyperparameters


def test_a_name_is_no_description() -> None:
    with pytest.raises(Refused, match=r"MODEL: expected a description, such as calc\.load_model gives for a name"):
        calc.judge("llama-3-8b", tokens=15e12)  # pyright: ignore[reportArgumentType]
    with pytest.raises(Refused, match=r"expected a description, such as calc\.load_model gives"):
        calc.optimal(compute=1e22, family="llama-3-8b", seq=8192)  # pyright: ignore[reportArgumentType]


def test_tokens_of_the_optimum_with_the_same_loss() -> None:
    found = calc.judge(calc.load_model("llama-3-8b"), tokens=15e12)
    assert found.same_loss_tokens is not None
    assert found.same_loss_params is not None
    assert found.same_loss_compute == pytest.approx(6 * found.same_loss_params * found.same_loss_tokens)
