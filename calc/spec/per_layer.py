"""Inputs of their own for every layer (Gemma 3n, Gemma 4)."""

from __future__ import annotations

from calc.spec.channels import Activation
from calc.spec.fields import Dim, Node


class PerLayerInputs(Node):
    """Each token brings a small vector for every layer, from a table of its own and from the embedded token.

    vocab_size: rows of that table. d_per_layer: width of one layer's vector. In each layer, behind its other blocks:
    x + norm(up(act(gate(x)) * vector)).
    Source: transformers 5.23, models/gemma4/modeling_gemma4.py, `project_per_layer_inputs`.
    """

    vocab_size: Dim
    d_per_layer: Dim
    activation: Activation = "gelu_tanh"

    def group(self, outer: str) -> str:
        """These sizes are told from the main vocabulary by this name."""
        return "per_layer"
