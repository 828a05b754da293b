"""Inputs of their own for every layer (Gemma 3n, Gemma 4): where they come from, and the small block that reads one."""

from __future__ import annotations

from torch import Tensor, nn

from calc.spec import Norm, PerLayerInputs
from reference_models.blocks.linear import ACTIVATIONS, NormLayer
from reference_models.support import supported


class LayerInputs(nn.Module):
    """(norm(project(x) / sqrt(d_model)) + sqrt(d_per_layer) * table[token]) / sqrt(2), for all layers at once."""

    def __init__(self, spec: PerLayerInputs, norm: Norm, d_model: int, n_layers: int) -> None:
        super().__init__()
        supported(spec, "vocab_size", "d_per_layer", "activation")
        width = n_layers * spec.d_per_layer
        self.token = nn.Embedding(spec.vocab_size, width)
        self.project = nn.Linear(d_model, width, bias=False)
        self.norm = NormLayer(norm, (spec.d_per_layer,))
        self.d_model, self.shape = d_model, (n_layers, spec.d_per_layer)

    def forward(self, tokens: Tensor, x: Tensor) -> Tensor:
        """tokens [batch, seq], x [batch, seq, d_model], embedded -> [batch, seq, n_layers, d_per_layer]."""
        looked_up = self.token(tokens).unflatten(-1, self.shape) * self.shape[1] ** 0.5
        projected = self.norm((self.project(x) * self.d_model**-0.5).unflatten(-1, self.shape))
        return (projected + looked_up) * 2**-0.5


class LayerInput(nn.Module):
    """up(act(gate(x)) * input) in one layer."""

    def __init__(self, spec: PerLayerInputs, d_model: int) -> None:
        super().__init__()
        self.act = ACTIVATIONS[spec.activation]
        self.gate_proj = nn.Linear(d_model, spec.d_per_layer, bias=False)
        self.up_proj = nn.Linear(spec.d_per_layer, d_model, bias=False)

    def forward(self, x: Tensor, own: Tensor) -> Tensor:
        """x [batch, seq, d_model], own [batch, seq, d_per_layer] -> the shape of x."""
        return self.up_proj(self.act(self.gate_proj(x)) * own)
