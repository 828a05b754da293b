"""The feed-forward block, plain and gated."""

from __future__ import annotations

import math
from statistics import NormalDist

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Mlp
from reference_models.blocks.linear import ACTIVATIONS, NormLayer, Xielu, scaled
from reference_models.blocks.short_convolution import without_padding
from reference_models.blocks.token_shift import shifted
from reference_models.cache import LayerCache
from reference_models.step import Step
from reference_models.support import supported

FIELDS = (
    *(
        "d_ff",
        "gated",
        "bias",
        "down_bias",
        "fused",
        "activation",
        "clamp",
        "dropout",
        "gate_scale",
        "shift",
        "receptance",
        "inner_norm",
        "sparsity",
        "as_weight",
    ),
)
"""Fields of the spec that are computed here."""


class FeedForward(nn.Module):
    """Plain: down(act(up(x))). Gated: down(act(gate(x)) * up(x)); fused, the gate's rows stand before up's."""

    name = "mlp"

    def __init__(self, spec: Mlp, d_model: int) -> None:
        super().__init__()
        supported(spec, *FIELDS)
        self.spec = spec
        if spec.activation == "xielu":
            self.activation = Xielu()
        else:
            self.act = ACTIVATIONS[spec.activation]
        d_ff = spec.d_ff or 4 * d_model
        if spec.shift:
            self.mix = nn.Parameter(torch.full((d_model,), 0.5))
        if spec.receptance:
            self.mix_receptance = nn.Parameter(torch.full((d_model,), 0.5))
            self.receptance_proj = nn.Linear(d_model, d_model, bias=False)
        if spec.fused:
            self.gate_up_proj = nn.Linear(d_model, 2 * d_ff, bias=spec.bias)
        else:
            if spec.gated:
                self.gate_proj = nn.Linear(d_model, d_ff, bias=spec.bias)
            self.up_proj = nn.Linear(d_model, d_ff, bias=spec.bias)
        if spec.inner_norm is not None:
            self.inner_norm = NormLayer(spec.inner_norm, (d_ff,))
        self.down_proj = nn.Linear(d_ff, d_model, bias=spec.bias if spec.down_bias is None else spec.down_bias)

    def forward(self, x: Tensor, step: Step | None = None, cache: LayerCache | None = None) -> Tensor:
        """x [..., d_model] -> the same shape. cache: holds the last token where each is mixed with the one before."""
        gate = None
        if self.spec.shift and step is not None:
            x, before = without_padding(x, step), shifted(x, step, cache)
            if self.spec.receptance:
                gate = self.receptance_proj(x + (before - x) * self.mix_receptance).sigmoid()
            x = x + (before - x) * self.mix
        if self.spec.fused:
            y = self._gated(*self.gate_up_proj(x).chunk(2, dim=-1))
        elif self.spec.gated:
            y = self._gated(self.gate_proj(x), self.up_proj(x))
        else:
            raised = self.up_proj(x)
            y = self.activation(raised) if self.spec.activation == "xielu" else self.act(raised)
        if self.spec.inner_norm is not None:
            y = self.inner_norm(y)
        y = F.dropout(y, step.dropout) if self.spec.dropout and step is not None else y
        # A matrix that is kept as codes has no weight, and is unpacked in the format of what it reads.
        if self.spec.as_weight and hasattr(self.down_proj, "weight"):
            y = y.to(self.down_proj.weight.dtype)
        y = self.down_proj(y)
        return y if gate is None else gate * y

    def _gated(self, gate: Tensor, up: Tensor) -> Tensor:
        clamp = self.spec.clamp
        if clamp is None:
            gate = scaled(gate, self.spec.gate_scale)
            return self.act(sparse(gate, self.spec.sparsity) if self.spec.sparsity else gate) * up
        limit = math.inf if clamp.limit is None else clamp.limit
        if clamp.activated:
            return self.act(gate).clamp(max=limit) * up.clamp(-limit, limit)
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
        return gate * (clamp.alpha * gate).sigmoid() * (up + clamp.shift)


def sparse(gate: Tensor, share: float) -> Tensor:
    """gate [..., width] less a cut, which leaves nothing of `share` of its numbers if they are spread normally."""
    cut = gate.mean(-1, keepdim=True) + gate.std(-1, keepdim=True, unbiased=False) * NormalDist().inv_cdf(share)
    return F.relu(gate - cut)
