"""The formula behind a number."""

from __future__ import annotations

import re
from typing import Any

import pytest
import sympy
from hypothesis import given, settings

import calc
from calc.architectures import from_config
from calc.ask import registry
from calc.conventions import CONVENTIONS
from calc.spec.resizing import sizes_of
from calc.symbols import SYMBOLS, describe
from tests.saved.test_readings import CONFIGS
from tests.strategies import specs


def parsed(text: str) -> sympy.Expr:
    """A printed formula read back by sympy with our symbols."""
    names = {s.name: sympy.Symbol(s.name, positive=True) for s in SYMBOLS}
    return sympy.sympify(text, locals=names)


def test_gpt2_has_the_textbook_formula() -> None:
    formula = calc.explain(calc.load_model("gpt2"), "params").formula
    textbook = parsed("12*n_layers*d_model**2 + 13*n_layers*d_model + (vocab_size + n_positions + 2)*d_model")
    assert sympy.expand(formula - textbook) == 0


@pytest.mark.parametrize("quantity", [q.name for q in registry.QUANTITIES])
@pytest.mark.parametrize("model", ["gpt2", "gemma-2-9b", "qwen3-30b-a3b"])
def test_formula_numbers_and_value_agree(model: str, quantity: str) -> None:
    it = calc.explain(calc.load_model(model), quantity)
    given: Any = sympy.sympify(it.numbers())
    assert given == it.estimate.value or float(given) == pytest.approx(it.estimate.value, rel=1e-12)
    assert sum(value for _, _, value in it.terms) == it.estimate.value
    assert sympy.expand(sum(term for _, term, _ in it.terms) - it.formula) == 0
    assert set(it.values) == it.formula.free_symbols
    assert it.estimate.source
    assert it.latex()


@pytest.mark.parametrize("family", CONFIGS)
def test_sizes_of_every_family_are_in_the_alphabet(family: str) -> None:
    for name in sizes_of(from_config({"model_type": family, **CONFIGS[family]})):
        assert describe(name).meaning


@pytest.mark.parametrize("convention", [c.name for c in CONVENTIONS])
def test_every_convention_can_be_explained(convention: str) -> None:
    spec = calc.load_model("llama-3-8b")
    phase = calc.conventions.find(convention).phases[0]
    it = calc.explain(spec, f"flops.{phase}", convention=convention)
    assert it.formula.subs(it.values) == it.estimate.value
    assert (it.estimate.convention, it.estimate.source) == (convention, calc.find_convention(convention).source)


@settings(max_examples=15, deadline=None)
@given(specs())
def test_any_model_can_be_explained(spec: calc.ModelSpec) -> None:
    """explain raises if formula and count differ; every symbol it uses is described."""
    for quantity in ("params", "flops.training", "kv_cache"):
        for symbol in calc.explain(spec, quantity).values:
            assert describe(symbol.name).meaning


def test_cache_terms_read_plainly() -> None:
    it = calc.explain(calc.load_model("gemma-2-9b"), "kv_cache", seq=8192)
    assert {name: str(term) for name, term, _ in it.terms} == {
        "layers that keep every token": "2*b_dtype*batch*d_head*n_kv_heads*n_layers_full*seq",
        "layers with a window": "2*b_dtype*batch*d_head*n_kv_heads*n_layers_sliding*Min(seq, window)",
    }
    whole = calc.explain(calc.load_model("llama-3-8b"), "kv_cache")
    assert [name for name, _, _ in whole.terms] == ["layers that keep every token"]


def test_what_kinds_of_layers_share_is_written_once() -> None:
    it = calc.explain(calc.load_model("gemma-2-9b"), "flops.forward", convention="causal-half")
    assert str(it.formula).count("n_layers_full + n_layers_sliding") == 1
    assert str(it.formula).count("d_ff") == 1


def test_an_empty_cache_leaves_no_minimum() -> None:
    it = calc.explain(calc.load_model("gemma-2-9b"), "flops.forward")
    assert not it.formula.atoms(sympy.Min)


def test_a_convention_shows_its_own_terms() -> None:
    it = calc.explain(calc.load_model("gpt2"), "params", convention="lecture")
    assert [name for name, _, _ in it.terms] == ["embedding", "unembedding", "attention", "feed-forward"]
    assert str(it.formula) == "2*d_model*(6*d_model*n_layers + vocab_size)"


def test_latex_has_the_letters_of_the_field() -> None:
    text = calc.explain(calc.load_model("llama-3-8b"), "kv_cache").latex()
    assert "h_{kv}" in text
    assert "n_kv_heads" not in text


def test_a_group_has_a_symbol_of_its_own() -> None:
    spec = calc.load_model("gemma-2-9b")
    assert {"n_layers_sliding", "n_layers_full", "window"} <= set(calc.sizes_of(spec))
    assert describe("n_layers_sliding").latex == r"L_{\mathrm{sliding}}"
    assert describe("n_kv_heads_full").latex == r"h_{kv,\mathrm{full}}"
    with pytest.raises(KeyError):
        describe("nonsense")


@pytest.mark.parametrize(
    ("model", "words", "formula", "cited"),
    [
        ("llama-3-8b", {}, "2*b_dtype*batch*d_model*n_kv_heads*n_layers*seq/n_heads", ["1911.02150"]),
        ("llama-3-8b", {"cache_dtype": "fp8"}, "2*b_dtype*", ["1911.02150"]),
        ("deepseek-v3", {}, "b_dtype*batch*seq*(d_rope + kv_rank)*", ["2405.04434"]),
        ("falcon-h1-7b", {}, "b_state*d_ssm*d_ssm_head*n_ssm_heads", ["1911.02150", "2405.21060"]),
        ("kimi-linear-48b", {}, "b_state*d_kda_head", ["2405.04434", "2510.26692"]),
        ("rwkv7-1.5b", {}, "b_state*", ["2503.14456"]),
    ],
)
def test_a_cache_names_its_formats_and_whose_formula_it_is(
    model: str, words: dict[str, str], formula: str, cited: list[str]
) -> None:
    found = calc.explain(calc.load_model(model), "kv_cache", **words)
    assert formula in str(found.formula)
    assert re.findall(r"arXiv:(\d{4}\.\d{5})", found.estimate.source) == cited


def test_what_two_products_share_stands_once() -> None:
    """Expanding latents, scores and values run over as many places: one more than are cached."""
    spec, words = calc.load_model("deepseek-v3"), {"context": 4096}
    expanded = calc.explain(spec, "flops.decode", latent_reading="expanded", **words)
    absorbed = calc.explain(spec, "flops.decode", **words)
    assert "n_heads*(context + 1)*(d_nope + d_rope + d_value + kv_rank*(d_nope + d_value))" in str(expanded.formula)
    assert "n_heads*(context + 1)*(d_rope + 2*kv_rank)" in str(absorbed.formula)
    assert "section 2.1.2" in absorbed.estimate.source
    assert "section 2.1.2" not in expanded.estimate.source


def test_formulas_of_memory_name_the_formats_of_terms_that_have_one() -> None:
    """A recurrent state has another than keys, an engine's pages several, quantized weights and ZeRO's none alone."""

    def named(model: str, **words: Any) -> dict[str, list[str]]:
        found = calc.explain(calc.load_model(model), "memory.total", seq=64, **words)
        values = {str(symbol): value for symbol, value in found.values.items()}
        return {
            name: [f"{each} {values[each]}" for each in sorted(values) if each.startswith("b_") and each in str(term)]
            for name, term, _ in found.terms
        }

    served = named("llama-3-8b", mode="inference", cache_dtype="fp8")
    assert [served[each] for each in ("weights", "kv_cache", "logits")] == [["b_dtype 2"], ["b_cache 1"], ["b_act 2"]]
    trained = named("gpt2", recipe="bf16-master")
    assert [trained[each] for each in ("weights", "gradients")] == [["b_weights 2"], ["b_gradients 4"]]
    assert "b_" not in str(named("gpt2", zero=2, dp=4))
    assert "weights" in (packed := named("gpt2", mode="inference", dtype="int4:g128"))
    assert packed["weights"] == []
    assert named("falcon-h1-7b", mode="inference", execution="compiled")["kv_cache"] == []


@pytest.mark.parametrize("phase", ["forward", "training", "decode"])
def test_formulas_of_traffic_name_the_format(phase: str) -> None:
    """And where weights alone are in a narrow one, none, since no one width is that of all."""
    model = calc.load_model("llama-3-8b")
    for dtype, width in (("bf16", 2), ("fp32", 4)):
        made = calc.explain(model, f"traffic.{phase}", dtype=dtype)
        assert all("b_dtype" in str(term) for _, term, _ in made.terms)
        assert {str(symbol): value for symbol, value in made.values.items()}["b_dtype"] == width
    assert "b_dtype" not in str(calc.explain(model, f"traffic.{phase}", dtype="int8").formula)
