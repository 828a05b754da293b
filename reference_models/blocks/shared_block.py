"""A block whose weights several layers use, ahead of each layer's own mixer (Zamba2, arXiv:2411.15242)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from calc.spec import Norm
from calc.spec import SharedBlock as Description
from reference_models.blocks.attention import SelfAttention
from reference_models.blocks.linear import NormLayer
from reference_models.blocks.low_rank import LoraLinear
from reference_models.blocks.mlp import FeedForward
from reference_models.cache import LayerCache
from reference_models.step import Step
from reference_models.support import supported

COMMON = ("attention_norm", "attention", "channel_norm", "mlp")
"""Modules whose weights, but for low-rank updates, all layers use."""


class SharedBlock(nn.Module):
    """One layer's view of the block: weights in common, low-rank updates and the last matrix of its own."""

    def __init__(self, spec: Description, norm: Norm, d_model: int) -> None:
        super().__init__()
        supported(spec, "attention", "mlp", "adapter", "number")
        self.spec = spec
        self.attention_norm = NormLayer(norm, (2 * d_model,))
        self.attention = SelfAttention(spec.attention, 2 * d_model, d_model)
        self.channel_norm = NormLayer(norm, (d_model,))
        self.mlp = FeedForward(spec.mlp, d_model)
        self.out_proj = nn.Linear(d_model, d_model, bias=False)
        if spec.adapter is not None:
            alpha = spec.adapter.rank if spec.adapter.alpha is None else spec.adapter.alpha
            for parent, name in self._targets(spec.adapter.targets):
                low_rank = LoraLinear(getattr(parent, name), spec.adapter.rank, alpha / spec.adapter.rank)
                setattr(parent, name, low_rank)

    def take(self, other: SharedBlock) -> None:
        """Use the weights of `other` in place of those that layers have in common."""
        for name in COMMON:
            theirs = dict(other.get_submodule(name).named_modules())
            for path, module in self.get_submodule(name).named_modules():
                if ".lora_" not in f".{path}":
                    for weight, parameter in theirs[path].named_parameters(recurse=False):
                        module.register_parameter(weight, parameter)

    def forward(self, x: Tensor, step: Step, cache: LayerCache | None = None) -> Tensor:
        """x [batch, seq, d_model], the residual stream -> what is added to it for the layer's mixer, the same shape."""
        if step.embedded is None:
            raise ValueError("embedded: expected what entered the first layer, found none")
        y = self.attention_norm(torch.cat([x, step.embedded], dim=-1))
        y = self.channel_norm(self.attention(y, step, cache))
        return self.out_proj(self.mlp(y, step))

    def _targets(self, targets: tuple[str, ...]) -> list[tuple[Any, str]]:
        """(parent, name) of every dense layer that has an update."""
        parents = (self.attention, self.mlp)
        return [
            (p, n) for p in parents for n, module in p.named_children() if n in targets and type(module) is nn.Linear
        ]
