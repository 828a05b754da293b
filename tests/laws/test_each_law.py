"""What single laws say: Kaplan, Hoffmann, Pearce and Song, Muennighoff, Clark, Kumar; and the form that many share."""

from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from calc.errors import Refused
from calc.laws import Parametric, find
from calc.laws.base import PF_DAY
from calc.laws.hyperparameters import every, hyperparameters
from calc.laws.kumar import best_bits
from calc.laws.pearce_song import PEARCE_SONG, non_embedding, total
from calc.laws.tao import TAO, best_vocabulary
from calc.optimum import optimal


def test_kaplan_derived_optimum_is_the_numerical_one() -> None:
    """L(N, S_min) at 6 N B_crit(L) S_min = C_min, by brute force."""
    law = find("kaplan-derived")
    for compute in (1e18, PF_DAY, 1e23):

        def steps(n: float, compute: float = compute) -> Any:
            return optimize.brentq(
                lambda x: math.log(law.evaluate("compute_min", params=n, steps_min=math.exp(x)) / compute), -10, 40
            )

        def loss(x: float, steps: Any = steps) -> float:
            return law.evaluate("loss", params=math.exp(x), steps_min=math.exp(steps(math.exp(x))))

        n = law.evaluate("params", compute_min=compute)
        around = (math.log(n) - 2, math.log(n) + 2)
        found: Any = optimize.minimize_scalar(loss, bounds=around, method="bounded", options={"xatol": 1e-9})
        assert math.exp(found.x) == pytest.approx(n, rel=1e-5)
        assert found.fun == pytest.approx(law.evaluate("loss", compute_min=compute), rel=1e-9)


def test_kaplan_batch_correction() -> None:
    """At the critical batch half of the compute is lost to it; far below it none is."""
    law = find("kaplan")
    critical = law.evaluate("batch_tokens", loss=2.5)
    assert law.evaluate("compute_min", compute=1e21, batch_tokens=critical, loss=2.5) == pytest.approx(5e20)
    assert law.evaluate("compute_min", compute=1e21, batch_tokens=1.0, loss=2.5) == pytest.approx(1e21, rel=1e-6)
    assert law.evaluate("params", compute=1e21) == pytest.approx(law.evaluate("params", compute_min=5e20))
    assert law.evaluate("params", loss=law.evaluate("loss", params=1e9)) == pytest.approx(1e9)


def test_kaplan_table_6_is_consistent() -> None:
    """6 N B S at one PF-day, with the batch and steps of the critical batch (twice S_min), is twice C_min to 3 %."""
    law = find("kaplan")
    n, b, s = (law.evaluate(name, compute_min=PF_DAY) for name in ("params", "batch_tokens", "steps_min"))
    assert 6 * n * b * s == pytest.approx(PF_DAY, rel=0.03)
    assert law.evaluate("tokens", compute_min=PF_DAY) == pytest.approx(2 * PF_DAY / (6 * n), rel=0.1)


# Hoffmann et al., tables 3 and A3: parameters, FLOPs, tokens.
@pytest.mark.parametrize(
    ("law", "row"),
    [
        ("hoffmann-1", (1e9, 1.21e20, 20.2e9)),
        ("hoffmann-1", (67e9, 5.76e23, 1.5e12)),
        ("hoffmann-1", (280e9, 9.90e24, 5.9e12)),
        ("hoffmann-1", (1e12, 1.27e26, 21.2e12)),
        ("hoffmann-2", (1e9, 1.20e20, 20.0e9)),
        ("hoffmann-2", (67e9, 6.88e23, 1.7e12)),
        ("hoffmann-2", (280e9, 1.18e25, 7.1e12)),
        ("hoffmann-2", (1e12, 1.59e26, 26.5e12)),
    ],
)
def test_approaches_1_and_2_reproduce_the_rows_between_their_ends(law: str, row: tuple[float, float, float]) -> None:
    params, compute, tokens = row
    assert find(law).evaluate("params", compute=compute) == pytest.approx(params, rel=0.04)
    assert find(law).evaluate("tokens", compute=compute) == pytest.approx(tokens, rel=0.06)


def test_pearce_song_optimum_is_the_numerical_one() -> None:
    for params in (1e5, 1e7, 1e9, 1e11):
        compute = PEARCE_SONG.evaluate("compute", params=params)

        def loss(x: float, compute: float = compute) -> float:
            return PEARCE_SONG.evaluate("loss", params=math.exp(x), tokens=compute / 6 / math.exp(x))

        around = (math.log(params) - 2, math.log(params) + 2)
        found: Any = optimize.minimize_scalar(loss, bounds=around, method="bounded", options={"xatol": 1e-10})
        assert math.exp(found.x) == pytest.approx(params, rel=1e-5)


def test_pearce_song_explains_kaplans_exponent_and_tends_to_chinchillas() -> None:
    """The paper: 0.74 to 0.78 over Kaplan's sizes, and 0.51 in the limit."""

    def slope(low: float, high: float) -> float:
        computes = [PEARCE_SONG.evaluate("compute", params=n) for n in (low, high)]
        return math.log(high / low) / math.log(computes[1] / computes[0])

    assert 0.72 < slope(1e3, 1.5e9) < 0.79
    assert slope(1e13, 1e14) == pytest.approx(0.3658 / (0.3478 + 0.3658), abs=0.002)


@given(st.floats(1e3, 1e13))
def test_embeddings_added_and_taken_away(params: float) -> None:
    assert non_embedding(total(params)) == pytest.approx(params, rel=1e-9)


def test_muennighoff_limits() -> None:
    law = find("muennighoff")
    once = law.evaluate("loss", params=1e9, tokens=2e10)
    assert law.evaluate("loss", params=1e9, tokens=2e10, unique_tokens=2e10) == pytest.approx(once)
    assert law.evaluate("effective_tokens", tokens=1e9, unique_tokens=1e10) == 1e9
    most = law.evaluate("effective_tokens", tokens=1e13, unique_tokens=1e9)
    assert most == pytest.approx(1e9 * (1 + law.k.R_D))
    # Four epochs are nearly as good as fresh data, as the abstract says.
    assert law.evaluate("effective_tokens", tokens=4e9, unique_tokens=1e9) > 0.93 * 4e9


def test_clark_of_one_expert_is_dense_and_experts_help() -> None:
    for name in ("clark-s-base", "clark-rl-r", "clark-hash"):
        law = find(name)
        assert law.evaluate("effective_params", params=1e8, experts=1) == pytest.approx(1e8)
        worth = [law.evaluate("effective_params", params=5e6, experts=n) for n in (1, 8, 128)]
        assert worth == sorted(worth)
    # The paper: 5M with 128 experts is worth a dense model of about 55M.
    assert find("clark").evaluate("effective_params", params=5e6, experts=128) == pytest.approx(55e6, rel=0.15)


@pytest.mark.parametrize("tensors", [2, 3])
def test_best_bits_is_the_numerical_minimum(tensors: int) -> None:
    """At a fixed C = 6 N D P / 16 and with gamma equal in all places: lowest loss over P at each P's best N."""
    form = Parametric(1.7, 400.0, 2000.0, 0.34, 0.37)

    def loss(bits: float) -> float:
        share = (1 - math.exp(-bits / 2.5)) ** tensors
        same = form._replace(A=form.A * share**-form.alpha)
        n = same.G * (1e21 * 16 / bits / 6) ** same.a
        return same.loss(n, 1e21 * 16 / bits / 6 / n)

    found: Any = optimize.minimize_scalar(loss, bounds=(0.5, 30), method="bounded", options={"xatol": 1e-9})
    assert found.x == pytest.approx(best_bits(2.5, tensors), rel=1e-5)


def test_deviation_is_the_compute_of_the_same_loss() -> None:
    """The flat valley: twice the size costs a seventh more compute, half of it a quarter."""
    law = find("besiroglu")
    assert law.parametric
    assert law.frontier
    form, line = law.parametric(law.k), law.frontier(law.k)
    n, loss = line.params(1e22), line.loss(1e22)
    for factor in (0.3, 0.5, 1.0, 2.0, 5.0):
        compute = 6 * factor * n * form.tokens(factor * n, loss)
        assert form.deviation(factor) == pytest.approx(compute / 1e22, rel=1e-9)
    rounded = Parametric(1.69, 406.4, 410.7, 0.34, 0.28)
    assert (rounded.deviation(0.5) + rounded.deviation(2.0)) / 2 == pytest.approx(1.18, abs=0.02)
    with pytest.raises(Refused, match="below which no data is enough"):
        form.deviation(0.1)


def test_substitution_is_the_slope_on_a_line_of_equal_loss() -> None:
    form = Parametric(1.8, 480.0, 2100.0, 0.35, 0.37)
    n = form.G * (1e22 / 6) ** form.a
    loss = form.loss(n, 1e22 / 6 / n)

    def at(x: float) -> tuple[float, float]:
        size = n * math.exp(x)
        d = form.tokens(size, loss)
        rate = form.alpha * form.A * size ** (-form.alpha - 1) / (form.beta * form.B * d ** (-form.beta - 1))
        return math.log(d / size), math.log(rate)

    (low, before), (high, after) = at(-1e-4), at(1e-4)
    assert (high - low) / (after - before) == pytest.approx(form.substitution, rel=1e-6)


def test_rounding_after_training_hurts_more_the_longer_it_was() -> None:
    """Kumar et al.: twice the tokens make rounding cost 1.42 times as much, twice the parameters 1.27 times less."""
    law = find("kumar")

    def lost(n: float, d: float, bits: float) -> float:
        exact = law.evaluate("loss", params=n, tokens=d)
        return law.evaluate("loss", params=n, tokens=d, bits_post=bits) - exact

    assert lost(1e8, 2e10, 3) / lost(1e8, 1e10, 3) == pytest.approx(2**0.5068)
    assert lost(1e8, 1e10, 3) / lost(2e8, 1e10, 3) == pytest.approx(2**0.3439)
    assert lost(1e8, 1e10, 4) < lost(1e8, 1e10, 3) / 5
    best = min((law.evaluate("loss", params=3e7, tokens=d, bits_post=3), d) for d in (1e9, 1e10, 1e11, 1e12))
    assert best[1] < 1e12  # past some point more data makes the rounded model worse


def test_vocabularies_grow_slower_than_models() -> None:
    law = find("tao")
    small, large = (law.evaluate("vocab_params", params=n) for n in (1e9, 1e10))
    assert math.log10(large / small) == pytest.approx(0.8354, abs=1e-4)
    compute = 1e21
    n = law.evaluate("params", compute=compute)
    assert law.evaluate("vocab_params", params=n) == pytest.approx(
        law.evaluate("vocab_params", compute=compute), rel=0.1
    )


@pytest.mark.parametrize(
    ("n", "d_model", "entries"),
    [
        (3e9, 3200, (39e3, 43e3, 37e3)),
        (7e9, 4096, (62e3, 67e3, 60e3)),
        (13e9, 5120, (83e3, 91e3, 81e3)),
        (30e9, 6048, (142e3, 154e3, 142e3)),
        (70e9, 8192, (212e3, 231e3, 218e3)),
    ],
)
def test_vocabularies_are_those_of_the_papers_table(n: float, d_model: int, entries: tuple[float, ...]) -> None:
    """As its authors' code gives them, in thousands of entries, for each of the three approaches."""
    compute = (n / TAO.k.n) ** (1 / TAO.k.a)
    found = (
        TAO.evaluate("vocab_params", compute=compute),
        TAO.evaluate("vocab_params", params=n),
        best_vocabulary(n),
    )
    assert [each / d_model for each in found] == pytest.approx(entries, abs=600)


def test_the_third_approach_has_the_vocabulary_of_lowest_loss_at_equal_compute() -> None:
    law, n, compute = find("tao"), 3e8, 1e19

    def loss(v: float) -> float:
        tokens = compute / (6 * (n + v))
        return law.evaluate("normalized_loss", params=n, vocab_params=v, tokens=tokens)

    best = best_vocabulary(n, compute)
    assert loss(best) < min(loss(0.98 * best), loss(1.02 * best)) < 0
    assert best_vocabulary(n, 10 * compute) > 1.2 * best  # longer training affords rarer words


def test_a_rate_is_carried_to_more_tokens() -> None:
    law = find("bjorck")
    carried = law.evaluate("learning_rate", known_rate=3e-4, known_tokens=1e11, tokens=8e11)
    assert carried == pytest.approx(3e-4 * 8**-0.32)
    rules = every(find("besiroglu"), 1e24, 7e10, 2e12)
    assert rules["bjorck"][0] is None
    own = non_embedding(7e10)
    assert rules["bjorck"][1] == pytest.approx(1.79 * own**-0.713 * 1e11**0.307 * 20**-0.32)


def test_rules_of_batch_and_rate_are_each_handed_their_own_n() -> None:
    rules = every(find("besiroglu"), 1e21, 3e9, 6e10)
    assert set(rules) == {"step-law", "deepseek", "porian"}
    n = non_embedding(3e9)
    assert rules["step-law"][1] == pytest.approx(1.79 * n**-0.713 * 6e10**0.307)
    assert rules["deepseek"] == pytest.approx((0.2920 * 1e21**0.3271, 0.3118 * 1e21**-0.125))
    assert rules["porian"][1] == pytest.approx(3.7 * ((3e9 + n) / 2) ** -0.36, rel=1e-6)
    batches, rates = zip(*rules.values(), strict=True)
    assert max(filter(None, batches)) < 5 * min(filter(None, batches))
    assert max(rates) < 5 * min(rates)


def test_a_rate_that_no_training_has_is_none() -> None:
    """Of 70 parameters none are without embeddings in Chinchilla's shapes, and a power of nearly nothing is huge."""
    law = find("besiroglu")
    assert non_embedding(70.0) < 1e-6
    assert hyperparameters(law, 1.5e6, 70.0, 3.57e3).learning_rate is None
    assert "step-law" not in every(law, 1.5e6, 70.0, 3.57e3)
    found = hyperparameters(law, 1e21, 3e9, 6e10).learning_rate
    assert found is not None
    assert 1e-5 < found < 1e-2


def test_sardanas_example_comes_out_of_its_own_constants() -> None:
    """For the quality of 30B parameters and 1e13 tokens of use: 13.6B on 2.84 times the data, 28 % cheaper."""
    found = optimal("sardana-printed", params=30e9, inference_tokens=1e13)
    assert found.params == pytest.approx(13.6e9, rel=2e-3)
    assert found.more["tokens_ratio"] == pytest.approx(2.84, rel=2e-3)
    assert 1 - found.more["cost_ratio"] == pytest.approx(0.28, abs=1e-3)


def test_muennighoffs_example_of_limited_data() -> None:
    """9.3e21 FLOP and 25B unique tokens: 6.34B on 242B was trained, of shapes that there were; the valley is flat."""
    found = optimal("muennighoff", compute=9.3e21, unique_tokens=25e9)
    assert found.params == pytest.approx(6.34e9, rel=0.08)
    assert found.tokens == pytest.approx(242e9, rel=0.08)
    law = find("muennighoff")
    trained = law.evaluate("loss", params=6.34e9, tokens=242e9, unique_tokens=25e9)
    assert trained == pytest.approx(found.loss, abs=1e-3)
