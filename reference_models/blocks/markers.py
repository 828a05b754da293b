"""Tokens that stand for pictures and sounds: their own tables, and what takes their places of what a tower gives."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from calc.spec import Markers
from reference_models.blocks.linear import NormLayer
from reference_models.support import supported


class Marked(nn.Module):
    """Vectors of tokens that stand for pictures or sounds, in place of the main table's."""

    def __init__(self, spec: Markers, d_model: int) -> None:
        super().__init__()
        supported(spec, "name", "n_rows", "width", "norm", "first", "end", "n_vectors", "filler")
        self.spec = spec
        self.token = nn.Embedding(spec.n_rows, spec.width)
        nn.init.normal_(self.token.weight, std=0.02)
        self.norm, self.soft_norm = NormLayer(spec.norm, (spec.width,)), NormLayer(spec.norm, (spec.width,))
        self.soft_norm.requires_grad_(spec.n_vectors is not None)
        self.project = nn.Linear(spec.width, d_model, bias=False)
        self.post_norm = NormLayer(spec.norm.model_copy(update={"affine": False}), (d_model,))

    def forward(self, x: Tensor, tokens: Tensor) -> Tensor:
        """x [batch, seq, d_model] and tokens [batch, seq] -> the shape of x."""
        first, end = self.spec.first, self.spec.end
        there = tokens >= first if end is None else (tokens >= first) & (tokens < end)
        numbers = torch.where(there, tokens, first + self.spec.n_rows - 1) - first
        made = self.post_norm(self.project(self.norm(self.token(numbers))))
        return torch.where(there[..., None], made.to(x.dtype), x)

    def of_eyes(self, x: Tensor) -> Tensor:
        """x [pictures, n, width] that eyes give, and which is scaled in its place -> [pictures, n, d_model]."""
        x *= self.spec.width**0.5
        return self.post_norm(self.project(self.soft_norm(x)))

    def of_tower(self, x: Tensor) -> Tensor:
        """x [batch, n, width] that a tower gives -> [batch, n_vectors, d_model], a row's vector behind each sequence.

        Errors: ValueError for more vectors than have places, and without such a row.
        """
        n = self.spec.n_vectors or 0
        if x.shape[1] > n or self.spec.filler is None:
            raise ValueError(
                f"{self.spec.name}: expected at most {n} vectors, and a row behind them; found {x.shape[1]}"
            )
        row = torch.tensor([[self.spec.filler]], device=x.device)
        made = self.post_norm(self.project(self.soft_norm(x)))
        fill = self.post_norm(self.project(self.norm(self.token(row))))
        return torch.cat([made, fill.expand(len(x), n - x.shape[1], -1).to(made.dtype)], dim=1)
