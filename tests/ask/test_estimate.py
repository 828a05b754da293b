"""A question and its answer: what is refused, where an answer says it comes from, and what is public."""

from __future__ import annotations

import ast
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy
import pytest
import sympy

import calc
from calc.quantities.kv_cache import cache_terms
from calc.sizes import quotient

LLAMA = calc.load_model("llama-3-8b")
HUGE = calc.load_model("llama-3.1-405b")


@pytest.mark.parametrize("convention", calc.CONVENTIONS, ids=lambda convention: convention.name)
def test_an_answer_names_the_source_of_its_formula(convention: calc.Convention) -> None:
    for phase in convention.phases:
        it = calc.estimate(LLAMA, f"flops.{phase}", convention=convention.name)
        assert (it.convention, it.source) == (convention.name, convention.source)
        assert it.caveats == convention.caveats(LLAMA)
    params = calc.estimate(LLAMA, "params", convention=convention.name)
    if convention.params is None:
        assert (params.convention, params.source) == (None, calc.find_quantity("params").source)
        assert params.value == 8_030_261_248
        assert not params.caveats
    else:
        assert (params.convention, params.source) == (convention.name, convention.source)
        assert params.terms == convention.params(LLAMA)
        assert params.caveats == convention.params_caveats(LLAMA)
    assert calc.estimate(LLAMA, "weights", convention=convention.name).convention is None


@pytest.mark.parametrize("kind", ["int32", "int64", "uint64"])
def test_integer_arrays_do_not_wrap(kind: str) -> None:
    seqs = [10**8, 10**9]
    column = numpy.array(seqs, dtype=kind)
    exact = [calc.estimate(HUGE, "flops.training", seq=seq).value for seq in seqs]
    assert exact[1] > 2**64
    assert calc.estimate(HUGE, "flops.training", seq=column).value == pytest.approx(exact, rel=1e-12)
    assert calc.Load(seq=column).seq.dtype == calc.Run(seq=column).seq.dtype == numpy.float64
    cached = calc.kv_cache(HUGE, 10**9, column).total_bytes
    assert cached == pytest.approx([calc.kv_cache(HUGE, 10**9, seq).total_bytes for seq in seqs], rel=1e-12)
    wide = [2**20, 2**30]
    swept = calc.estimate(calc.with_sizes(HUGE, {"d_ff": numpy.array(wide, dtype=kind)}), "flops.training").value
    each = [calc.estimate(calc.with_sizes(HUGE, {"d_ff": d_ff}), "flops.training").value for d_ff in wide]
    assert swept == pytest.approx(each, rel=1e-12)


def test_a_numpy_integer_is_an_integer() -> None:
    value = calc.estimate(LLAMA, "flops.training", seq=numpy.int64(7)).value
    assert type(value) is int
    assert value == calc.estimate(LLAMA, "flops.training", seq=7).value


NONSENSE = (-5, 0, True, "8", None, float("nan"), float("inf"), -0.5, [1], 1j, numpy.array([1, -1]), numpy.array(["1"]))


@pytest.mark.parametrize("value", NONSENSE, ids=repr)
def test_what_is_no_size_is_refused(value: Any) -> None:
    for ask in (calc.Run, calc.Load):
        with pytest.raises(calc.Refused, match=r"^seq: expected .* from 1 on"):
            ask(seq=value)
    with pytest.raises(calc.Refused, match=r"^d_ff"):
        calc.with_sizes(LLAMA, {"d_ff": value})
    with pytest.raises(calc.Refused, match=r"^seq"):
        calc.kv_cache(LLAMA, 1, value)


@pytest.mark.parametrize("value", [2.5, 2.0, Fraction(5, 2), numpy.float64(2)])
def test_a_point_has_whole_sizes(value: Any) -> None:
    assert calc.Run(seq=value).seq == value
    for ask in (
        lambda: calc.estimate(LLAMA, "kv_cache", seq=value),
        lambda: calc.explain(LLAMA, "kv_cache", seq=value),
        lambda: calc.kv_cache(LLAMA, 1, value),
        lambda: calc.report(LLAMA, value),
    ):
        with pytest.raises(calc.Refused, match=r"^seq: expected a whole number"):
            ask()


@pytest.mark.parametrize(
    "options",
    [
        {"window_reading": "bogus"},
        {"checkpointing": "bogus"},
        {"dtype": "bogus"},
        {"dtype": ["bf16"]},
        {"state_dtype": "int4"},
        {"convention": "bogus"},
        {"context": -1},
        {"images": -1},
        {"image": (224, 0)},
        {"image": 224},
        {"dtype": "int4"},
    ],
    ids=str,
)
def test_what_cannot_be_asked_is_refused(options: dict[str, Any]) -> None:
    (field,) = options
    with pytest.raises(calc.Refused, match=rf"^{field}: expected"):
        calc.estimate(LLAMA, "kv_cache", **options)


ASKED = {
    "estimate": lambda model: calc.estimate(model, "params"),
    "memory": lambda model: calc.estimate(model, "memory.peak"),
    "explain": lambda model: calc.explain(model, "params"),
    "report": lambda model: calc.report(model),
    "predict_time": lambda model: calc.predict_time(model, "h100-sxm"),
    "search_plans": lambda model: calc.search_plans(model, "selene", 8, 1024, 8192),
    "parameter_shapes": lambda model: calc.parameter_shapes(model),
    "with_sizes": lambda model: calc.with_sizes(model, {}),
    "sizes_of": lambda model: calc.sizes_of(model),
    "symbolic": lambda model: calc.symbolic(model),
    "common_length": lambda model: calc.common_length([model]),
}


@pytest.mark.parametrize("model", ["gpt2", None, {"d_model": 768}], ids=str)
@pytest.mark.parametrize("ask", ASKED.values(), ids=ASKED)
def test_what_is_no_description_is_refused(ask: Callable[[Any], Any], model: Any) -> None:
    with pytest.raises(calc.Refused, match=r"^model: expected a model's description, as"):
        ask(model)


def test_other_refusals() -> None:
    with pytest.raises(calc.Refused, match=r"^seq"):
        calc.report(LLAMA, 0)
    with pytest.raises(calc.Refused, match=r"^scores"):
        calc.Load(scores="bogus")  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="window_size"):
        calc.estimate(LLAMA, "kv_cache", window_size=1)  # pyright: ignore[reportCallIssue]
    with pytest.raises(calc.Refused, match=r"^seq: expected one whole number"):
        calc.explain(LLAMA, "kv_cache", seq=numpy.array([1, 2]))
    assert calc.Run(context=0, images=0).load(batch=0).tokens == 0


def test_quotients_are_whole_where_they_can_be() -> None:
    assert (quotient(6, 3), quotient(7, 2)) == (2, 3.5)
    assert type(calc.Flops(4, 2).per_token(3)) is int
    assert quotient(sympy.Symbol("a"), 2) == sympy.Symbol("a") / 2
    gemma = calc.load_model("gemma-2-9b")
    assert calc.kv_cache(gemma, 3, 8192).average_bytes_per_token == 258_048
    assert calc.kv_cache(gemma, 3, 8192).total_bytes == sum(cache_terms(gemma, calc.Run(batch=3, seq=8192)).values())
    assert [calc.Run(batch=3, seq=5, phase=phase).tokens for phase in calc.PHASES] == [15, 15, 3, 15]


def test_type_checkers_see_what_is_public() -> None:
    block = next(node for node in ast.parse(Path(calc.__file__).read_text()).body if isinstance(node, ast.If))
    seen = {}
    for node in block.body:
        if isinstance(node, ast.ImportFrom):
            seen |= {alias.asname: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            module, _, name = ast.unparse(node.value).partition(".")
            seen[node.targets[0].id] = f"{seen[module]}.{name}"
    assert {name: home for name, home in seen.items() if not name.startswith("_")} == calc._HOME


def test_both_parts_of_what_differs_from_six_n_are_told() -> None:
    """Llama 3 8B at 2,048 tokens: the token table has no products, and pairs of tokens are in no parameter."""
    found = calc.report(calc.load_model("llama-3-8b"), 2048)
    assert found.six_n == 6 * 8030261248 * 2048
    parts = found.against_six_n
    assert parts["linear"] == pytest.approx(-(128256 * 4096 + 65 * 4096) / 8030261248)
    assert parts["attention"] == pytest.approx(6 * 32 * 2 * 4096 * 2048 * 2048 / found.six_n)
    assert sum(parts.values()) == pytest.approx(found.flops["training"] / found.six_n - 1)
