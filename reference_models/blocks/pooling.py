"""One vector a picture, by attention: the twin of `calc.blocks.pooling`."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from calc.spec import AttentionPool
from reference_models.blocks.cross_attention import CrossAttention
from reference_models.blocks.linear import NormLayer
from reference_models.blocks.mlp import FeedForward
from reference_models.step import Step
from reference_models.support import supported


class Pool(nn.Module):
    """A learned vector asks all others for one; a norm and an MLP, added, behind it."""

    def __init__(self, spec: AttentionPool, d_model: int) -> None:
        super().__init__()
        supported(spec, "attention", "channel", "norm")
        self.probe = nn.Embedding(1, d_model)
        self.probe.weight = nn.Parameter(torch.empty(d_model).normal_(std=0.02))
        self.attention = CrossAttention(spec.attention, d_model, d_model)
        self.norm = NormLayer(spec.norm, (d_model,))
        self.mlp = FeedForward(spec.channel, d_model)

    def forward(self, x: Tensor, step: Step) -> Tensor:
        """x [batch, n, d_model] -> [batch, d_model]."""
        asks = self.probe.weight.expand(len(x), 1, -1)
        # Behind the layers, whose scores alone selective checkpointing computes again.
        found = self.attention(asks, replace(step, source=x, source_keep=None, checkpointing="none"))
        return (found + self.mlp(self.norm(found)))[:, 0]
