"""Time series in, vectors out; the twin of `calc.blocks.series`."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from calc.spec import Series
from reference_models.step import Step
from reference_models.support import supported


class SeriesEmbedding(nn.Module):
    """Values [batch, length], of a channel each -> vectors [batch, special + patches, d_model]."""

    def __init__(self, spec: Series, vocab_size: int | None, d_model: int) -> None:
        super().__init__()
        supported(spec, "length", "patch", "stride", "special", "trained_positions")
        self.spec, self.n_patches = spec, int(spec.patches)
        self.patch = nn.Linear(spec.patch, d_model)
        rows = torch.empty(self.n_patches + spec.special, d_model).normal_(std=0.02)
        self.position = nn.ParameterDict({"weight": nn.Parameter(rows, requires_grad=spec.trained_positions)})
        if spec.special:
            self.special = nn.ParameterDict({"weight": torch.empty(1, d_model).normal_(std=0.02)})

    def forward(self, values: Tensor, step: Step) -> Tensor:
        reached = self.spec.patch + self.spec.stride * (self.n_patches - 1)
        cut = values[:, self.spec.length - reached :].unfold(1, self.spec.patch, self.spec.stride).contiguous()
        positions = self.position["weight"]
        x = self.patch(cut) + positions[int(self.spec.special) :]
        if not self.spec.special:
            return x
        special = self.special["weight"] + positions[:1]
        return torch.cat([special.expand(len(x), -1, -1), x], dim=1)

    def example(self, batch: int, seq: int) -> Tensor:
        """Values of zeros to run without data."""
        weight = self.patch.weight
        return torch.zeros(batch, self.spec.length, device=weight.device, dtype=weight.dtype)
