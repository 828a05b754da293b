"""One tree, three readings: exact ints, sympy symbols and float64 arrays give the same numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import get_args

import numpy
import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

from calc.blocks.build import build
from calc.quantities import flops
from calc.quantities.kv_cache import kv_cache
from calc.quantities.parameters import parameters
from calc.spec import Kda, LayerGroup, Mlp, ModelSpec
from calc.spec.load import Load, Scores
from calc.spec.resizing import sizes_of, symbolic, with_sizes
from calc.spec.run import CHECKPOINTING
from calc.trace.part import leaves
from tests.strategies import alternating, in_bands, in_blocks, late, latent, merged, recurrent, specs, streamed

loads = st.builds(
    Load,
    batch=st.integers(1, 5),
    seq=st.integers(1, 500),
    context=st.integers(0, 500),
    scores=st.sampled_from(get_args(Scores)),
)
ANY_MODEL = [mode for mode in CHECKPOINTING if mode != "selective-op"]
"""What can be checkpointed whatever the layers are."""
models = specs() | specs(recurrent) | specs(latent) | in_blocks() | alternating() | in_bands() | merged() | streamed()
models |= late()


def everything(spec: ModelSpec, load: Load, checkpointing: str) -> dict[str, object]:
    """Every quantity's terms under one load."""
    found: dict[str, object] = {f"params {k}": v for k, v in parameters(spec).items()}
    found |= {f"active {k}": v for k, v in parameters(spec, active=True).items()}
    for name, count in (
        ("forward", flops.forward(spec, load)),
        ("training", flops.training(spec, load, checkpointing)),
    ):
        found |= {f"{name} linear": count.linear, f"{name} attention": count.attention}
    cache = kv_cache(spec, load.batch, load.seq)
    return found | {"growth": cache.bytes_per_token, "state": cache.state_bytes, "cache": cache.total_bytes}


def numbers_in(formulas: Iterable[object], values: Mapping[sympy.Symbol, int]) -> list[sympy.Expr]:
    """What formulas come to, all symbols replaced at once: `subs` replaces one after another."""
    numbers = {symbol: sympy.Integer(value) for symbol, value in values.items()}
    return [sympy.sympify(formula).xreplace(numbers) for formula in formulas]


@settings(max_examples=40, deadline=None)
@given(models, loads, st.sampled_from(ANY_MODEL))
def test_symbols_give_the_exact_ints(spec: ModelSpec, load: Load, checkpointing: str) -> None:
    exact = everything(spec, load, checkpointing)
    symbols, values = symbolic(spec)
    own = {name: sympy.Symbol(name, positive=True) for name in ("batch", "seq", "context")}
    formulas = everything(symbols, Load(**own, scores=load.scores), checkpointing)
    values |= {symbol: getattr(load, name) for name, symbol in own.items()}
    assert dict(zip(formulas, numbers_in(formulas.values(), values), strict=True)) == exact


def test_chunks_of_one_token_have_no_system_to_solve_in_formulas_either() -> None:
    layers = (LayerGroup(name="a", count=2, mixer=Kda(n_heads=2, d_head=3, chunk=1), channel=Mlp()),)
    spec = ModelSpec(d_model=6, vocab_size=7, layers=layers)
    count = flops.training(spec, Load(seq=5), "none").attention
    formula, values = symbolic(spec)
    assert flops.training(formula, Load(seq=5), "none").attention.subs(values) == count


@settings(max_examples=40, deadline=None)
@given(st.data(), models, loads, st.sampled_from(ANY_MODEL))
def test_arrays_give_the_exact_ints(data: st.DataObject, spec: ModelSpec, load: Load, checkpointing: str) -> None:
    """Several sizes of the same structure in one array, each against its own exact reading."""
    known = sizes_of(spec)
    varied = {
        name: [value, *(value * k for k in (2, 5))] for name, value in known.items() if name.startswith("d_model")
    }
    varied |= {name: [v, v + 1, v + 7] for name, v in known.items() if name.startswith(("n_layers", "d_ff", "vocab"))}
    seqs = data.draw(st.lists(st.integers(1, 10**6), min_size=3, max_size=3))
    columns = {name: numpy.array(values, dtype=float) for name, values in varied.items()}
    together = everything(
        with_sizes(spec, columns),
        Load(load.batch, numpy.array(seqs, dtype=float), load.context, load.scores),
        checkpointing,
    )
    for i, seq in enumerate(seqs):
        alone = with_sizes(spec, {name: values[i] for name, values in varied.items()})
        exact = everything(alone, Load(load.batch, seq, load.context, load.scores), checkpointing)
        for name, value in exact.items():
            column = numpy.broadcast_to(numpy.asarray(together[name], dtype=float), 3)
            assert column[i] == pytest.approx(value, rel=1e-12), name


@settings(max_examples=30, deadline=None)
@given(models, loads)
def test_terms_are_never_negative_and_weights_have_unique_homes(spec: ModelSpec, load: Load) -> None:
    for leaf in leaves(build(spec, load)):
        assert leaf.op.flops >= 0
    assert all(value > 0 for value in parameters(spec).values())
