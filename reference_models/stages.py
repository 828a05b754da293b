"""Layers in two stages over a picture's tiles, in an encoder or a stack of its own."""

from __future__ import annotations

from dataclasses import replace

from torch import Tensor

from calc.spec import Stages
from reference_models.layer_pass import run_layer
from reference_models.stack import StackOfLayers
from reference_models.step import Step


def run_stages(stack: StackOfLayers, stages: Stages, x: Tensor, step: Step) -> Tensor:
    """x [batch, length, d_model] -> what the last layer gives, beside what others do, of all that is no filling:
    [batch, n_tiles * n, (1 + others) * d_model]."""
    second, results = len(stack.layers) - stack.spec.layers[-1].count, []
    for i, layer in enumerate(stack.layers):
        x = stack.between(x, step.shapes) if i == second else x
        x = run_layer(layer, x, replace(step, layer=i, n_layers=len(stack.layers)), None, None)
        results.append(x)
    n = len(stack.embedding.position.weight)
    return stack.between.side_by_side(x, [results[i] for i in stages.beside], n)
