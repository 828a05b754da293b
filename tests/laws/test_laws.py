"""The registry of laws: formulas against numbers, closed optima against numerical ones, and what is refused."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import numpy
import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st
from scipy import optimize

from calc.errors import Refused
from calc.laws import ALIASES, LAWS, Equation, Frontier, Law, Parametric, find
from calc.laws.kumar import best_bits
from calc.laws.uncertainty import draws, interval
from calc.laws.variables import VARIABLES

EQUATIONS = [
    pytest.param(law, equation, id=f"{law.name}: {equation.gives} of {', '.join(equation.takes)}")
    for law in LAWS
    for equation in law.equations
]
POINT = {
    "params": 3e9,
    "tokens": 7e10,
    "compute": 1.3e21,
    "compute_min": 6e20,
    "compute_naive": 6e20,
    "steps_min": 2e4,
    "loss": 2.7,
    "batch_tokens": 1e6,
    "unique_tokens": 2e10,
    "inference_tokens": 5e11,
    "experts": 32.0,
    "granularity": 4.0,
    "sparsity": 0.4,
    "bits_weights": 8.0,
    "bits_activations": 6.0,
    "bits_cache": 5.0,
    "bits_post": 2.0,
    "vocab_params": 1.5e8,
    "known_rate": 6e-4,
    "known_tokens": 2e10,
}
WITH_LOSS = [law for law in LAWS if law.parametric is not None and law.frontier is not None]


def line(name: str) -> Frontier:
    law = find(name)
    assert law.frontier
    return law.frontier(law.k)


@pytest.mark.parametrize(("law", "equation"), EQUATIONS)
def test_formula_agrees_with_the_number_and_with_arrays(law: Law, equation: Equation) -> None:
    inputs = {name: POINT[name] for name in equation.takes}
    number = law.evaluate(equation.gives, **inputs)
    symbols = {sympy.Symbol(VARIABLES[name].letter, positive=True): value for name, value in inputs.items()}
    symbols |= {sympy.Symbol(c.name, positive=True): c.value for c in law.constants}
    formula = law.expression(equation)
    assert formula.free_symbols <= set(symbols)
    assert float(formula.subs(symbols)) == pytest.approx(number, rel=1e-11)
    columns = {name: numpy.array([value, 2 * value]) for name, value in inputs.items()}
    doubled = law.evaluate(equation.gives, **{name: 2 * value for name, value in inputs.items()})
    assert law.evaluate(equation.gives, **columns) == pytest.approx([number, doubled], rel=1e-12)


@pytest.mark.parametrize("compute", [1e18, 5.76e23, 1e27])
@pytest.mark.parametrize("law", WITH_LOSS, ids=lambda law: law.name)
def test_closed_optimum_is_the_numerical_one(law: Law, compute: float) -> None:
    assert law.frontier
    line = law.frontier(law.k)
    n, d, loss = line.params(compute), line.tokens(compute), line.loss(compute)
    assert 6 * n * d == pytest.approx(compute, rel=1e-12)
    assert law.evaluate("loss", params=n, tokens=d) == pytest.approx(loss, rel=1e-12)

    def along(x: float) -> float:
        return law.evaluate("loss", params=math.exp(x), tokens=compute / 6 / math.exp(x))

    found: Any = optimize.minimize_scalar(
        along, bounds=(math.log(n) - 3, math.log(n) + 3), method="bounded", options={"xatol": 1e-9}
    )
    assert loss <= found.fun + 1e-13
    # A valley is flat: where a value is right to 1e-16, its place is to 1e-8, and rounding makes that somewhat more.
    assert found.x == pytest.approx(math.log(n), abs=1e-5)


@pytest.mark.parametrize("law", [law for law in LAWS if law.frontier], ids=lambda law: law.name)
def test_frontier_is_what_the_equations_say_and_can_be_asked_from_every_side(law: Law) -> None:
    assert law.frontier
    line = law.frontier(law.k)
    for compute in (1e19, 1e25):
        n, d, loss = line.params(compute), line.tokens(compute), line.loss(compute)
        assert law.evaluate("params", compute=compute) == pytest.approx(n, rel=1e-12)
        assert law.evaluate("tokens", compute=compute) == pytest.approx(d, rel=1e-12)
        assert 6 * n * d == pytest.approx(compute, rel=2e-4)
        assert line.compute(params=n) == pytest.approx(compute, rel=1e-9)
        assert line.compute(tokens=d) == pytest.approx(compute, rel=1e-9)
        if loss is not None:
            assert law.evaluate("loss", compute=compute) == pytest.approx(loss, rel=1e-12)
            assert line.compute(loss=loss) == pytest.approx(compute, rel=1e-6)


def test_interval_is_numpys_percentiles() -> None:
    law = find("besiroglu")
    ratios = []
    for k in draws("besiroglu_bootstrap.csv"):
        form = Parametric(k.E, k.A, k.B, k.alpha, k.beta)
        n = form.G * (5.76e23 / 6) ** form.a
        ratios.append(5.76e23 / 6 / n / n)
    of = law.frontier
    assert of
    band = interval(law, lambda k: of(k).tokens(5.76e23) / of(k).params(5.76e23))
    assert band
    assert band.level == 0.95
    assert (band.low, band.high) == pytest.approx(tuple(numpy.percentile(ratios, [2.5, 97.5])))
    # Besiroglu et al.: about 7 to 35 at Chinchilla's compute.
    assert 6.5 < band.low < 8.5
    assert 32 < band.high < 38
    assert interval(find("hoffmann-3"), lambda k: k.A) is None


@given(
    st.builds(
        Parametric,
        E=st.floats(0.5, 3),
        A=st.floats(50, 5000),
        B=st.floats(50, 50000),
        alpha=st.floats(0.1, 0.7),
        beta=st.floats(0.1, 0.7),
        power=st.sampled_from([1, 0.452, 1.3]),
    ),
    st.floats(1e17, 1e27),
    st.floats(-1.0, 1.0),
)
def test_no_split_of_the_compute_beats_the_closed_form(form: Parametric, compute: float, shift: float) -> None:
    n = form.G * (compute / 6) ** form.a
    best = form.loss(n, compute / 6 / n)
    other = n * math.exp(shift)
    assert best <= form.loss(other, compute / 6 / other) * (1 + 1e-14)
    assert form.tokens(n, best) == pytest.approx(compute / 6 / n, rel=1e-6)


def test_parametric_form_reads_arrays_of_constants() -> None:
    a, b = numpy.array([400.0, 500.0]), numpy.array([2000.0, 3000.0])
    forms = Parametric(1.8, a, b, 0.34, 0.36)
    singles = [Parametric(1.8, x, y, 0.34, 0.36) for x, y in zip(a, b, strict=True)]
    assert forms.loss(1e9, 2e10) == pytest.approx([form.loss(1e9, 2e10) for form in singles])
    assert pytest.approx([form.G for form in singles]) == forms.G


def test_whole_numbers_do_not_wrap_around() -> None:
    """6 * 405e9 * 15.6e12 is past 2^63."""
    law = find("sardana")
    sizes = {"params": numpy.array([405 * 10**9]), "tokens": numpy.array([15_600 * 10**9])}
    used = numpy.array([10**12])
    found = law.evaluate("compute", inference_tokens=used, **sizes)
    assert found == pytest.approx([6 * 405e9 * 15.6e12 + 2 * 405e9 * 1e12])
    assert law.evaluate("loss", **sizes) == pytest.approx([law.evaluate("loss", params=405 * 10**9, tokens=15.6e12)])


def test_records_are_complete() -> None:
    names = [law.name for law in LAWS]
    assert len(names) == len(set(names))
    assert set(ALIASES.values()) <= set(names)
    for law in LAWS:
        assert law.title
        assert law.params
        assert law.compute
        assert law.tokens
        assert law.confirmed
        assert "arXiv:" in law.source
        assert law.variant_of is None or law.variant_of in names
        assert set(law.valid) <= set(VARIABLES)
        assert {e.gives for e in law.equations} | {t for e in law.equations for t in e.takes} <= set(VARIABLES)
        asked = [(e.gives, frozenset(e.takes)) for e in law.equations]
        assert len(asked) == len(set(asked))
        used = set().union(*(law.expression(e).free_symbols for e in law.equations))
        unused = {c.name for c in law.constants} - {symbol.name for symbol in used}
        # Kaplan's constants serve two entries.
        assert not unused or law.name == "kaplan-derived"


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: find("newton"), "--law: expected one of kaplan"),
        (lambda: find("kaplan").evaluate("loss", params=0), "params: expected a finite number above 0, found 0"),
        (lambda: find("kaplan").evaluate("loss", params=math.nan), "params: expected a finite number above 0"),
        (lambda: find("kaplan").evaluate("loss", params=True), "params: expected a finite number above 0"),
        (lambda: find("kaplan").evaluate("loss", params="1e9"), "params: expected a finite number above 0"),
        (lambda: find("kaplan").evaluate("loss", params=numpy.array([1.0, -1.0])), "params: expected a finite number"),
        (lambda: find("kaplan").evaluate("loss", experts=2.0), "--law kaplan: expected loss from params, or tokens"),
        (lambda: find("llama-3").evaluate("loss", compute=1e21), "expected a law that gives loss"),
        (lambda: line("besiroglu").compute(loss=1.8), "more than 1.817 nats a token"),
        (lambda: line("porian").compute(loss=2.5), "a law that predicts a loss"),
        (lambda: Parametric(1.8, 480.0, 2100.0, 0.35, 0.37).tokens(1e6, 2.0), "for such a model"),
    ],
)
def test_refusals(call: Any, said: str) -> None:
    with pytest.raises(Refused) as refusal:
        call()
    assert said in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_constants_of_a_law_are_attributes() -> None:
    assert isinstance(find("besiroglu").k, SimpleNamespace)
    assert find("chinchilla") is find("hoffmann-3")
    with pytest.raises(ValueError, match="tensors"):
        best_bits(2.0, tensors=1)
