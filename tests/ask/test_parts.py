"""Parts of a model: they sum to the whole, and each has the formula of what it holds."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings

import calc
from calc.ask.parts import OF_PART, WHOLE, layer_rows, part_rows, paths, under
from calc.errors import Refused
from calc.spec import ModelSpec
from calc.spec.run import FLOPS_PHASES, Run
from tests.strategies import specs

MODELS = ("gpt2", "gemma-2-9b", "mixtral-8x7b", "transformer-base", "ast-base", "qwen3-30b-a3b", "conformer-aed")


def children(parts: list[str], of: str) -> list[str]:
    """The parts that stand directly below one."""
    below = [path for path in parts if path not in (WHOLE, of) and under(path, of)]
    return [path for path in below if not any(other != path and under(path, other) for other in below)]


def check_sums(spec: ModelSpec, query: Run) -> None:
    rows = {row.path: row for row in part_rows(spec, query)}
    assert list(rows) == paths(spec)
    for path, row in rows.items():
        inner = [rows[child] for child in children(list(rows), path)]
        for count in ("total", "total_active", "total_flops"):
            assert not inner or getattr(row, count) == sum(getattr(each, count) for each in inner)
    whole = rows[WHOLE]
    assert whole.parameters == calc.estimate(spec, "params").terms
    assert whole.total_active == calc.estimate(spec, "params.active").value
    assert whole.total_flops == calc.flops(spec, query).total


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("phase", FLOPS_PHASES)
def test_parts_sum_to_the_whole(model: str, phase: str) -> None:
    spec = calc.load_model(model)
    if phase in ("prefill", "decode") and not spec.decodes:
        with pytest.raises(Refused, match="phase"):
            part_rows(spec, Run(phase=phase))
        return
    for checkpointing in ("none", "full"):
        check_sums(spec, Run(phase=phase, seq=96, context=64, batch=2, checkpointing=checkpointing))


@settings(max_examples=40, deadline=None)
@given(specs())
def test_parts_of_any_model_sum_to_the_whole(spec: ModelSpec) -> None:
    check_sums(spec, Run(phase="training", seq=32))


@pytest.mark.parametrize("model", MODELS)
def test_layers_sum_to_what_stands_in_layers(model: str) -> None:
    spec = calc.load_model(model)
    query = Run(phase="training", seq=64)
    layers, rows = layer_rows(spec, query), {row.path: row for row in part_rows(spec, query)}
    assert len(layers) == sum(stack.n_layers for stack in spec.stacks)
    for kind in {layer.kind for layer in layers}:
        own = [layer for layer in layers if layer.kind == kind]
        assert sum(sum(layer.parameters.values()) for layer in own) == rows[kind].total
        assert sum(sum(layer.flops.values()) for layer in own) == rows[kind].total_flops
    for before, after in pairwise(layers):
        assert before.stack != after.stack or after.number == before.number + 1


def test_shared_layers_hold_their_weights_once() -> None:
    raw = {"model_type": "albert", "vocab_size": 100, "embedding_size": 8, "hidden_size": 16, "num_hidden_layers": 3,
           "num_attention_heads": 2, "intermediate_size": 32, "max_position_embeddings": 16, "type_vocab_size": 2,
           "hidden_act": "gelu_new", "num_hidden_groups": 1, "inner_group_num": 1}  # fmt: skip
    layers = layer_rows(calc.from_config(raw), Run(seq=8))
    assert [bool(layer.parameters) for layer in layers] == [True, False, False]
    assert layers[0].flops == layers[2].flops


@pytest.mark.parametrize("quantity", OF_PART)
@pytest.mark.parametrize("model", ["gpt2", "mixtral-8x7b", "gemma-2-9b"])
def test_formulas_of_the_parts_add_up(model: str, quantity: str) -> None:
    spec = calc.load_model(model)
    found = [calc.explain(spec, quantity, part=part).estimate.value for part in children(paths(spec), WHOLE)]
    assert sum(found) == calc.estimate(spec, quantity).value


def test_the_formula_of_a_part() -> None:
    found = calc.explain(calc.load_model("gpt2"), "params", part="layers.{}.mlp")
    assert str(found.formula) == "d_model*n_layers*(8*d_model + 5)"
    assert found.estimate.value == 12 * (8 * 768 + 5) * 768


def test_what_is_no_part_is_refused() -> None:
    spec = calc.load_model("gpt2")
    with pytest.raises(Refused, match=r"part: expected a part of gpt2 \(did you mean layers"):
        calc.explain(spec, "params", part="layer")
    with pytest.raises(Refused, match="QUANTITY: expected for a part one of params"):
        calc.explain(spec, "memory.peak", part="layers.{}")
    with pytest.raises(Refused, match="convention: expected torch, for a part, found palm"):
        calc.estimate(spec, "flops.training", part="layers.{}", convention="palm")
