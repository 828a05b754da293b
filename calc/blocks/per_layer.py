"""Inputs of their own for every layer: the tables and matrices before the layers, and the small block in each."""

from __future__ import annotations

from calc.blocks.linear import elementwise, gather, linear, norm
from calc.functions import gated
from calc.op import Part, Weight
from calc.sizes import Size
from calc.spec import Norm, PerLayerInputs


def per_layer_inputs(spec: PerLayerInputs, normed: Norm, d_model: Size, tokens: Size, n_layers: Size) -> Part:
    """Vectors [tokens, n_layers, d_per_layer]: looked up, plus 2 * tokens * d_model * n_layers * d_per_layer FLOPs."""
    width = n_layers * spec.d_per_layer
    table = Weight("token.weight", (spec.vocab_size, width), "embedding")
    body = (
        gather("token", "embedding", (table,), tokens, width),
        linear("project", tokens, d_model, width, "embedding"),
        norm("norm", normed, (spec.d_per_layer,), tokens * n_layers, feeds=True),
        elementwise("sum", "embedding", "add", 2 * tokens * width, tokens * width, from_chain=tokens * width),
    )
    return Part("per_layer", body)


def per_layer_block(spec: PerLayerInputs, d_model: Size, tokens: Size) -> Part:
    """up(act(gate(x)) * vector) of one layer: 4 * tokens * d_model * d_per_layer FLOPs."""
    one = tokens * spec.d_per_layer
    body = (
        linear("gate_proj", tokens, d_model, spec.d_per_layer, "mlp"),
        elementwise("activation", "mlp", gated(spec.activation), 2 * one, one),
        linear("up_proj", tokens, spec.d_per_layer, d_model, "mlp"),
    )
    return Part("per_layer", body)
