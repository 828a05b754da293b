"""The formulas that a convention prints, evaluated, are what it counts."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from calc import parameter_shapes
from calc.conventions import CONVENTIONS, Convention, flops, params
from calc.quantities.parameters import parameters
from calc.spec import Attention, Embedding, Mlp, ModelSpec, Shorthand
from calc.spec.run import Run

UNPRINTED = {"training (selective-op)"}
"""Which products these keep follows from the order in which they run, and no formula says it."""


PLAIN = [
    Shorthand(d_model=8, n_layers=2, n_heads=2, vocab_size=30, max_seq_len=16).expand(),
    Shorthand(d_model=8, n_layers=2, n_heads=2, vocab_size=30, position="rope", tied=False).expand(),
]
"""What the notes and papers that read a width and a depth alone were written for: with one table, and with two."""


@st.composite
def decoders(draw: st.DrawFn) -> ModelSpec:
    """Plain decoders, whose heads may be wider or narrower than the model and whose blocks of any width."""
    n_heads = draw(st.integers(1, 4))
    d_model = n_heads * draw(st.integers(1, 8)) * 2
    sizes: dict[str, Any] = {"d_head": draw(st.sampled_from([None, 6])), "d_ff": draw(st.sampled_from([None, 24]))}
    known = {name: size for name, size in sizes.items() if size is not None}
    return Shorthand(
        d_model=d_model,
        n_layers=draw(st.integers(1, 4)),
        n_heads=n_heads,
        vocab_size=draw(st.integers(2, 99)),
        max_seq_len=64,
        tied=draw(st.booleans()),
        position=draw(st.sampled_from(["learned", "rope"])),
        window=draw(st.sampled_from([None, 3])),
        **known,
    ).expand()


def letters(spec: ModelSpec, query: Run) -> dict[str, Fraction]:
    """Every name of the formulas for a plain decoder, read off its description and the shapes of its weights."""
    group, embedding = spec.layers[0], spec.embedding
    mixer, channel = group.mixer, group.channel
    assert isinstance(mixer, Attention)
    assert isinstance(channel, Mlp)
    assert isinstance(embedding, Embedding)
    assert spec.head is not None
    whole = sum(parameters(spec).values())
    positions: Any = embedding.n_positions or 0
    looked_up: Any = (positions + (0 if spec.head.tied else spec.vocab_size)) * spec.d_model
    matrices = [shape for shape in parameter_shapes(spec).values() if len(shape) == 2]
    sizes: dict[str, Any] = {
        "batch": query.batch,
        "seq": query.seq,
        "context": query.context,
        "d_model": spec.d_model,
        "n_layers": spec.n_layers,
        "n_heads": mixer.n_heads,
        "d_head": mixer.d_head or spec.d_model // mixer.n_heads,
        "d_ff": channel.d_ff or 4 * spec.d_model,
        "vocab_size": spec.vocab_size,
        "n_positions": positions,
        "window": mixer.window or query.seq,
        "params": whole,
        "multiplied": sum(rows * columns for rows, columns in matrices) - looked_up,
        "used": whole - looked_up,
    }
    return {name: Fraction(size) for name, size in sizes.items()}


def evaluated(convention: Convention, spec: ModelSpec, query: Run) -> dict[str, Fraction]:
    """The value of each formula, each reading those before it."""
    known = letters(spec, query)
    found = {}
    for name, text in convention.formulas.items():
        found[name] = known[name] = eval(text.replace("^", "**"), {"__builtins__": {}, "min": min}, known)
    return found


def seen_whole(convention: Convention, spec: ModelSpec) -> bool:
    """Whether the formulas have letters for all of a model."""
    mixer = spec.layers[0].mixer
    assert isinstance(mixer, Attention)
    told = [*convention.caveats(spec), *convention.params_caveats(spec)]
    return not told and (mixer.window is None or "window" in convention.formula)


@pytest.mark.parametrize("convention", CONVENTIONS, ids=lambda convention: convention.name)
@settings(max_examples=25, deadline=None)
@given(spec=decoders(), batch=st.integers(1, 3), seq=st.integers(1, 9), context=st.integers(0, 9))
def test_formulas_give_the_counts(convention: Convention, spec: ModelSpec, batch: int, seq: int, context: int) -> None:
    if not seen_whole(convention, spec):
        spec = next(each for each in PLAIN if seen_whole(convention, each))
    query = Run(batch=batch, seq=seq, context=context, convention=convention.name)
    for name, value in evaluated(convention, spec, query).items():
        if name == "params":
            continue
        phase, _, mode = name.removesuffix(")").partition(" (")
        asked = query.changed(phase=phase, checkpointing=mode or "none")
        assert value == flops(spec, asked).total, name
    own = params(spec, convention.name)
    if own is not None:
        assert evaluated(convention, spec, query)["params"] == sum(own.values())


@pytest.mark.parametrize("convention", CONVENTIONS, ids=lambda convention: convention.name)
def test_every_count_has_a_formula(convention: Convention) -> None:
    counted = {*convention.phases, *({"params"} if convention.params else ())}
    if "training" in convention.phases:
        counted |= {f"training ({mode})" for mode in convention.checkpointing if mode != "none"}
    assert counted - UNPRINTED == set(convention.formulas)
    for name in convention.letters:
        assert f"{name}: " in convention.formula
