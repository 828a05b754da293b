"""Inputs of their own for every layer: the tables and matrices before the layers, and the small block in each."""

from __future__ import annotations

from calc.blocks.linear import elementwise, linear, norm
from calc.op import Op, Part, Weight
from calc.sizes import Size
from calc.spec import Norm, PerLayerInputs


def per_layer_inputs(spec: PerLayerInputs, normed: Norm, d_model: Size, tokens: Size, n_layers: Size) -> Part:
    """Vectors [tokens, n_layers, d_per_layer]: looked up, plus 2 * tokens * d_model * n_layers * d_per_layer FLOPs."""
    width = n_layers * spec.d_per_layer
    table = Weight("token.weight", (spec.vocab_size, width), "embedding")
    body = (
        Op("token", "gather", "embedding", weights=(table,)),
        linear("project", tokens, d_model, width, "embedding"),
        norm("norm", normed, (spec.d_per_layer,)),
    )
    return Part("per_layer", body)


def per_layer_block(spec: PerLayerInputs, d_model: Size, tokens: Size) -> Part:
    """up(act(gate(x)) * vector) of one layer: 4 * tokens * d_model * d_per_layer FLOPs."""
    body = (
        linear("gate_proj", tokens, d_model, spec.d_per_layer, "mlp"),
        elementwise("activation", "mlp"),
        linear("up_proj", tokens, spec.d_per_layer, d_model, "mlp"),
    )
    return Part("per_layer", body)
