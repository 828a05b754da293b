"""The optimum from every side, with limits, use and exact FLOPs; and what is refused."""

from __future__ import annotations

import math
from typing import Any

import pytest

import calc
from calc.errors import Refused
from calc.laws import find
from calc.laws.base import PF_DAY
from calc.laws.pearce_song import non_embedding
from calc.optimum import Optimum, loss, optimal, optimal_all
from calc.optimum.budget import Machines
from calc.optimum.costs import of_family
from calc.optimum.search import Problem

CHINCHILLA = 5.76e23
LLAMA = calc.load_model("llama-3-8b")


def test_besiroglu_at_chinchillas_compute() -> None:
    """18.4 tokens a parameter, 95 % about 7 to 35 (the paper's figure of the intervals)."""
    answer = optimal(compute=CHINCHILLA)
    assert answer.law == "besiroglu"
    assert answer.compute == CHINCHILLA
    assert answer.tokens_per_param == pytest.approx(18.39, abs=0.01)
    band = answer.interval["tokens_per_param"]
    assert band.level == 0.95
    assert 6.5 < band.low < 8.5
    assert 32 < band.high < 38
    assert set(answer.interval) == {"params", "tokens", "loss", "tokens_per_param"}
    assert "1,000 refits" in answer.interval_source
    assert not answer.in_range
    far = "44 times beyond the compute that besiroglu was fitted on, 4.5 times the parameters, 4.2 times the tokens"
    assert answer.warnings == (far,)


@pytest.mark.parametrize("law", ["kaplan", "hoffmann-1", "hoffmann-3", "besiroglu", "gadre", "porian", "deepseek"])
def test_every_side_leads_to_the_same_optimum(law: str) -> None:
    start = optimal(law, compute=1e21)
    for name in ("params", "tokens") if start.loss is None else ("params", "tokens", "loss"):
        back = optimal(law, **{name: getattr(start, name)})  # pyright: ignore[reportArgumentType]
        # DeepSeek's M and D give C to 1 part in 10,000.
        assert back.compute == pytest.approx(1e21, rel=2e-4 if law == "deepseek" else 1e-6)
        assert back.params == pytest.approx(start.params, rel=1e-6)
        assert getattr(back, name) == getattr(start, name)


def test_range_is_said() -> None:
    assert optimal(compute=1e21).in_range
    assert optimal(compute=1e21).warnings == ()
    assert not optimal("kaplan", compute=1e21).in_range  # 4.7B, where Kaplan's largest was 1.5B


def test_hyperparameters() -> None:
    """DeepSeek's and Kaplan's own; Step Law's where a law has none: its formulas, and the batch of the paper's 1B."""
    assert optimal("deepseek", compute=1e20).batch_tokens == pytest.approx(1.0171e6, rel=1e-3)
    kaplan = optimal("kaplan", compute=1e21)
    assert kaplan.loss
    assert kaplan.batch_tokens == pytest.approx(2e8 / kaplan.loss ** (1 / 0.21))
    assert optimal("kaplan", compute=1e25).learning_rate is None
    plain = optimal(compute=1e21)
    # Step Law counts no embeddings; a law that does has them taken away, as in Chinchilla's own models.
    assert plain.learning_rate == pytest.approx(1.79 * non_embedding(plain.params) ** -0.713 * plain.tokens**0.307)
    assert "without embeddings, in Chinchilla's shapes" in plain.hyperparameters
    family = optimal(compute=1e21, family=LLAMA)
    own = of_family(LLAMA, 2048, "all").without(family.more["scale"])
    assert family.learning_rate == pytest.approx(1.79 * own**-0.713 * family.tokens**0.307)
    assert of_family(LLAMA, 2048, "all").without(1.0) == 8_030_261_248 - 2 * 128_256 * 4096
    assert plain.hyperparameters.startswith("step-law")


def test_kaplan_says_what_other_sizes_cost() -> None:
    """Appendix B.4: models of 0.6 to 2.2 times the best size need a fifth more compute."""
    law = find("kaplan")
    assert law.deviation
    assert law.deviation(law.k, 1.0) == pytest.approx(1)
    assert law.deviation(law.k, 0.6) == pytest.approx(1.2, abs=0.04)
    assert law.deviation(law.k, 2.2) == pytest.approx(1.2, abs=0.04)
    assert optimal("kaplan", compute=1e21).deviation[2.0] == law.deviation(law.k, 2.0)
    with pytest.raises(Refused, match="below which no training is enough"):
        law.deviation(law.k, 0.1)


@pytest.mark.parametrize("factor", [0.5, 0.8, 1.5, 3.0])
def test_kaplans_deviation_is_that_of_his_own_loss(factor: float) -> None:
    """Of L(N, S_min), which follows it exactly: the compute of equal loss at a size off the best of equal compute."""
    law = find("kaplan-derived")
    compute = PF_DAY
    loss = law.evaluate("loss", compute_min=compute)
    n = factor * law.evaluate("params", compute_min=compute)
    k = law.k
    steps = k.Sc3 / (loss - (k.Nc3 / n) ** k.alpha_N3) ** (1 / k.alpha_S3)
    kaplan = find("kaplan")
    assert kaplan.deviation
    needed = law.evaluate("compute_min", params=n, steps_min=steps)
    assert kaplan.deviation(k, factor) == pytest.approx(needed / compute, rel=1e-9)


def test_kaplans_valley_is_as_flat_as_his_paper_says() -> None:
    """Kaplan et al., appendix B.4: 0.6 to 2.2 times the best size take only 20 % more compute."""
    law = find("kaplan")
    assert law.deviation
    assert law.deviation(law.k, 1.0) == pytest.approx(1)
    assert law.deviation(law.k, 0.6) == pytest.approx(1.2, abs=0.04)
    assert law.deviation(law.k, 2.2) == pytest.approx(1.2, abs=0.01)
    assert optimal("kaplan", compute=1e21).deviation == pytest.approx({0.5: 1.393, 2.0: 1.160}, abs=5e-4)


@pytest.mark.parametrize("beyond", [{}, {"unique_tokens": 2.5e10}], ids=["", "data"])
def test_with_use_training_takes_the_budget_and_no_other_size_of_that_loss_is_cheaper(beyond: Any) -> None:
    plain = optimal("hoffmann-3", compute=1e23, **beyond)
    answer = optimal("hoffmann-3", compute=1e23, inference_tokens=1e13, **beyond)
    assert answer.compute == 1e23
    assert 6 * answer.params * answer.tokens == pytest.approx(1e23, rel=1e-6)
    assert answer.params < plain.params
    assert (answer.loss or 0) > (plain.loss or 0)
    problem = Problem(find("hoffmann-3"), **beyond)
    assert problem.loss(answer.params, answer.tokens) == pytest.approx(answer.loss, rel=1e-9)
    for factor in (0.8, 0.95, 1.05, 1.25):
        tokens = problem.tokens(factor * answer.params, answer.loss or 0)
        if tokens is not None:  # else that size reaches the loss with no tokens at all
            cost = 6 * factor * answer.params * tokens + 2 * factor * answer.params * 1e13
            assert cost > answer.more["total_compute"]


def test_gpu_days_are_not_exceeded_by_use() -> None:
    days = optimal(gpu_days=3584.0, gpu="h100-sxm", mfu=0.4, inference_tokens=1e13)
    assert days.more["gpu_days"] == pytest.approx(3584)
    assert days.compute == pytest.approx(optimal(gpu_days=3584.0, gpu="h100-sxm", mfu=0.4).compute)
    money = optimal(money=48_000.0, gpu="h100-sxm", mfu=0.4, price=2.0, inference_tokens=1e13)
    assert money.more["cost"] == pytest.approx(48_000)


def test_tokens_a_parameter_are_part_of_the_range() -> None:
    """5,000 tokens a parameter, where the points go up to 341; N and D by themselves are among theirs."""
    answer = loss(params=6e7, tokens=3e11)
    assert not answer.in_range
    assert answer.warnings == ("15 times beyond the tokens a parameter that besiroglu was fitted on",)
    assert loss(params=6e7, tokens=1e10).in_range


def test_gpu_time_and_money() -> None:
    """1,000 H100-days at 40 % of 989.4 TFLOP/s."""
    peak = calc.load_device("h100-sxm").peak("bf16")
    answer = optimal(gpu_days=1000.0, gpu="h100-sxm", mfu=0.4, gpus=100, price=2.0)
    assert answer.compute == pytest.approx(1000 * 86400 * peak * 0.4)
    assert answer.more == pytest.approx({"gpu_days": 1000, "days": 10, "cost": 48_000})
    assert optimal(money=48_000.0, gpu="h100-sxm", mfu=0.4, price=2.0).compute == pytest.approx(answer.compute)
    assert "days" not in optimal(compute=1e21, gpu="h100-sxm", mfu=0.4).more
    assert Machines("h100-sxm", 0.4).needs(answer.compute)["gpu_days"] == pytest.approx(1000)


def test_all_laws_side_by_side() -> None:
    answers = optimal_all(compute=CHINCHILLA)
    assert all(isinstance(answer, Optimum) for answer in answers)
    names = [answer.law for answer in answers if isinstance(answer, Optimum)]
    assert names[0] == "kaplan"
    assert "hoffmann-3-rounded" not in names
    some = optimal_all(loss=2.2)
    silent = {answer[0].name: answer[1] for answer in some if isinstance(answer, tuple)}
    assert "a law that predicts a loss" in silent["llama-3"]
    assert "no compute gets below" in silent["kumar"]


@pytest.mark.parametrize(
    ("law", "more", "said"),
    [
        ("kumar", {"bits_post": 1e-300}, "--bits-post: expected from 1 to 64"),
        ("abnar", {"sparsity": 1.5}, "--sparsity: expected from 0 to 1"),
        ("krajewski", {"granularity": 0.1}, "--granularity: expected from 1 to"),
        ("ludziejewski", {"experts": 0.5}, "--experts: expected from 1 to"),
    ],
)
def test_routings_and_bits_that_cannot_be_are_refused(law: str, more: dict[str, float], said: str) -> None:
    with pytest.raises(Refused, match=said):
        loss(law, params=1e8, tokens=1e9, **more)


def test_second_hand_constants_are_said_with_a_loss() -> None:
    assert any("second-hand" in warning for warning in loss("busbridge", params=1e9, tokens=2e10).warnings)
    assert loss("abnar", params=1e9, tokens=2e10, sparsity=0.0).loss > 2


def test_loss_of_one_law() -> None:
    answer = loss(params=70e9, tokens=1.4e12)
    assert answer.loss == pytest.approx(1.8172 + 482.01 / 70e9**0.3478 + 2085.43 / 1.4e12**0.3658, rel=1e-12)
    band = answer.interval["loss"]
    assert band.low < answer.loss < band.high
    assert not answer.in_range
    assert loss("kaplan", params=1e9).loss == pytest.approx((8.8e13 / 1e9) ** 0.076)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ({}, "optimal: expected one of --compute, --params"),
        ({"compute": 1e21, "params": 1e9}, "found compute and params"),
        ({"compute": -1.0}, "--compute: expected a finite number above 0"),
        ({"compute": math.nan}, "--compute: expected a finite number above 0"),
        ({"loss": 1.5}, "loss: expected more than 1.817"),
        ({"law": "step-law", "compute": 1e21}, "a law that says which model is optimal, found step-law"),
        ({"law": "llama-3", "loss": 2.5}, "a law that predicts a loss"),
        ({"gpu_days": 10.0}, "--gpu: expected a device and --mfu beside --gpu-days"),
        ({"gpu_days": 10.0, "gpu": "h100-sxm"}, "--mfu: expected the share"),
        ({"gpu_days": 10.0, "mfu": 0.4}, "--gpu: expected a device"),
        ({"gpu_days": 10.0, "gpu": "h100", "mfu": 0.4}, "GPU: expected one of h100-nvl"),
        ({"gpu_days": 10.0, "gpu": "h100-sxm", "mfu": 1.4}, "--mfu: expected a share above 0 and up to 1"),
        ({"money": 10.0, "gpu": "h100-sxm", "mfu": 0.4}, "--price: expected the price"),
        ({"compute": 1e21, "gpu": "p100-sxm2", "mfu": 0.4}, "published peak"),
        ({"compute": 1e21, "seq": 2048}, "--seq: expected --family beside it"),
        ({"params": 1e9, "family": LLAMA}, "beside --family"),
        ({"tokens": 1e9, "unique_tokens": 1e8}, "beside --family, --unique-tokens or --corpus"),
        ({"law": "kaplan", "compute": 1e21, "inference_tokens": 1e12}, "of the form E + A / N^alpha"),
        ({"law": "porian", "compute": 1e21, "unique_tokens": 1e9}, "for --unique-tokens"),
        ({"compute": 1e21, "unique_tokens": 0.0}, "--unique-tokens: expected a finite number above 0"),
        ({"compute": 1e21, "family": calc.load_model("mixtral-8x7b")}, "--family: expected a model without experts"),
        ({"compute": 1e21, "family": calc.load_model("bert-base")}, "a language model that predicts the next token"),
        ({"compute": 1e21, "family": calc.load_model("transformer-base")}, "and has no encoder"),
        ({"compute": 1e10, "family": LLAMA}, "optimal: expected an optimum of"),
        ({"law": "porian", "compute": 1e40, "family": LLAMA}, "optimal: expected an optimum of"),
        ({"compute": 1e-300}, "--compute: expected a question whose optimum has a parameter and a token at least"),
        ({"law": "kaplan", "loss": 1e-300}, "--loss: expected a number whose optimum is above 0 and below 1e308"),
    ],
)
def test_refusals(asked: dict[str, Any], said: str) -> None:
    with pytest.raises(Refused) as refusal:
        optimal(**asked)
    assert said in str(refusal.value)


def test_a_search_of_every_draw_tells_how_far_it_is() -> None:
    told: list[tuple[str, int, int]] = []
    optimal("besiroglu", lambda *done: told.append(done), compute=1e22, unique_tokens=1e10)
    assert [done for _, done, _ in told] == list(range(told[-1][2] + 1))
