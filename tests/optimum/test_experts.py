"""Optima and judgements of mixtures of experts."""

from __future__ import annotations

import json
from typing import Any

import pytest
from click.testing import CliRunner

import calc
from calc import load_model
from calc.cli import cli
from calc.errors import Refused
from calc.laws import find
from calc.optimum import Judgement, Optimum, judge, optimal, optimal_all
from calc.optimum.judgement import judge_all
from calc.optimum.routing import measures
from calc.quantities.parameters import parameters

MIXTRAL = calc.load_model("mixtral-8x7b")
QWEN = calc.load_model("qwen3-30b-a3b")
LLAMA = calc.load_model("llama-3-8b")


def test_what_a_model_is_to_a_law_of_experts() -> None:
    """Mixtral: two of 8 experts, so all are 4 times those that are visited; Qwen3-30B: 8 of 128."""
    assert measures(MIXTRAL) == {"experts": 4.0, "granularity": 2.0, "sparsity": 0.75}
    assert measures(QWEN) == {"experts": 16.0, "granularity": 8.0, "sparsity": 1 - 8 / 128}
    assert measures(LLAMA) == {"experts": 1.0, "sparsity": 0.0}


def test_the_optimum_of_experts_is_the_law_s() -> None:
    answer = optimal("ludziejewski", compute=1e21, experts=8)
    assert (answer.params, answer.tokens) == pytest.approx((3.8e9, 44.3e9), rel=0.01)
    assert answer.routing == {"experts": 8}
    assert answer.loss == pytest.approx(
        find("ludziejewski").evaluate("loss", params=answer.params, tokens=answer.tokens, experts=8)
    )
    assert "ludziejewski, equation 8" in answer.hyperparameters
    back = optimal("ludziejewski", loss=answer.loss or 0, experts=8)
    assert back.compute == pytest.approx(1e21, rel=1e-6)
    assert answer.warnings == ("1.4 times beyond the parameters that ludziejewski was fitted on",)
    far = optimal("ludziejewski", compute=1e21, experts=256)
    assert "times the experts" in far.warnings[0] or "the experts that" in far.warnings[0]
    used = optimal("ludziejewski", compute=1e21, experts=8, inference_tokens=1e12)
    assert used.params < answer.params
    before = optimal("ludziejewski", compute=used.more["plain_compute"], experts=8)
    assert used.loss == pytest.approx(before.loss)


def test_sparsity_counts_every_expert_and_pays_for_those_that_work() -> None:
    answer = optimal("abnar", compute=1e21, sparsity=0.9)
    assert 0.6 * answer.params * answer.tokens == pytest.approx(1e21)
    assert answer.deviation == {}
    denser = optimal("abnar", compute=1e21, sparsity=0.5)
    assert denser.params < answer.params  # the paper: sparser ones are larger, and fewer of their parameters work
    assert 0.5 * denser.params > 0.1 * answer.params


def test_a_family_of_experts_keeps_its_routing_and_its_exact_flops() -> None:
    answer = optimal("ludziejewski", compute=1e22, family=MIXTRAL, seq=4096)
    assert answer.routing == {"experts": 4.0}
    own = optimal("ludziejewski", params=answer.params, experts=4)
    assert answer.tokens == pytest.approx(own.tokens, rel=0.1)  # 6 N D is near the exact count
    assert answer.params * 6 * answer.tokens < 1e22


def test_judging_a_mixture() -> None:
    """Qwen3-30B-A3B: 3.35B active parameters on 36T tokens are some 700 times what the law gives them."""
    found = judge(QWEN, 36e12, "ludziejewski")
    assert found.params == calc.estimate(QWEN, "params.active").value
    assert found.routing == {"experts": 16.0}
    law = find("ludziejewski")
    assert found.loss == pytest.approx(law.evaluate("loss", params=found.params, tokens=36e12, experts=16))
    best = optimal("ludziejewski", compute=found.compute, experts=16)
    assert (found.best_params, found.best_loss) == pytest.approx((best.params, best.loss))
    assert found.break_even
    exact = judge(MIXTRAL, 2e12, "ludziejewski", seq=4096)
    assert exact.compute == calc.estimate(MIXTRAL, "flops.training", seq=4096).value / 4096 * 2e12


def test_every_law_of_experts_judges_and_others_name_them() -> None:
    found = judge_all(MIXTRAL, 2e12)
    names = [each.law for each in found if isinstance(each, Judgement)]
    assert names == ["ludziejewski", "krajewski", "abnar"]
    reasons = {each[1] for each in found if not isinstance(each, Judgement)}
    assert len(reasons) == 1
    assert "--law ludziejewski, --law krajewski and --law abnar take experts" in reasons.pop()
    fine = judge(MIXTRAL, 2e12, "krajewski")
    assert "the experts" in fine.warnings[0]
    dense = judge(LLAMA, 1e12, "ludziejewski")
    assert dense.routing == {"experts": 1.0}


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({"compute": 1e21, "family": MIXTRAL}, "--law ludziejewski, --law krajewski and --law abnar take experts"),
        ({"compute": 1e21, "experts": 8}, "--experts: expected --law ludziejewski beside it, found --law besiroglu"),
        ({"law": "ludziejewski", "compute": 1e21}, "--experts: expected a number of --law ludziejewski beside it"),
        ({"law": "krajewski", "compute": 1e21, "family": LLAMA}, "a model with experts, as krajewski was fitted on"),
    ],
)
def test_refusals(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused) as refusal:
        optimal(**asked)
    assert said in str(refusal.value)


def test_all_laws_are_asked_what_they_know() -> None:
    """Without a routing laws of experts stay out; with one, the others say why they do."""
    plain = optimal_all(compute=1e21)
    assert not any(isinstance(each, Optimum) and each.routing for each in plain)
    assert not any(isinstance(each, tuple) for each in plain)
    routed = optimal_all(compute=1e21, experts=8)
    assert [each.law for each in routed if isinstance(each, Optimum)] == ["ludziejewski"]


def test_a_vision_tower_is_left_out_and_routers_may_differ_by_layer() -> None:
    """Llama 4 Scout's text; DeepSeek-V4's first layers choose experts by token, others by score, as many of them."""
    scout = load_model("llama-4-scout")
    answer = judge(scout, 40e12, "abnar")
    assert answer.model == "llama-4-scout, text alone"
    assert answer.params == sum(parameters(scout.model_copy(update={"vision": None})).values())
    assert answer.routing == {"sparsity": 1 - 1 / 16}
    assert measures(load_model("deepseek-v4-pro"))["sparsity"] == 1 - 6 / 384


def test_without_a_law_the_nearest_answers_for_experts() -> None:
    def law(*words: str) -> str:
        done = CliRunner().invoke(cli, [*words, "--json"], catch_exceptions=False)
        return json.loads(done.stdout)["law"]

    assert law("judge", "mixtral-8x7b", "--tokens", "2T") == "ludziejewski"
    assert law("judge", "llama-3-8b", "--tokens", "2T") == "besiroglu"
    assert law("optimal", "--compute", "1e22", "--sparsity", "0.9") == "abnar"
    assert law("optimal", "--compute", "1e22", "--granularity", "8") == "krajewski"
    assert law("optimal", "--compute", "1e22", "--family", "mixtral-8x7b") == "ludziejewski"
