"""Rows of a table in, one vector a column out (FT-Transformer)."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from calc.spec import Features
from reference_models.step import Step
from reference_models.support import supported


class FeatureTokenizer(nn.Module):
    """Rows [batch, columns] -> vectors [batch, n_special + columns, d_model] (Gorishniy et al. 2021, section 3.3).

    Columns of numbers come first, then those of categories, whose values are whole numbers from 0 on.
    """

    def __init__(self, spec: Features, vocab_size: int | None, d_model: int) -> None:
        super().__init__()
        supported(spec, "n_numbers", "categories", "n_special")
        self.spec = spec
        bound = d_model**-0.5
        if spec.n_numbers is not None:
            self.numbers = nn.ParameterDict(
                {name: torch.empty(spec.n_numbers, d_model).uniform_(-bound, bound) for name in ("weight", "bias")}
            )
        if spec.categories:
            sizes = {"weight": sum(spec.categories), "bias": len(spec.categories)}
            self.categories = nn.ParameterDict(
                {name: torch.empty(rows, d_model).uniform_(-bound, bound) for name, rows in sizes.items()}
            )
        if spec.n_special:
            self.special = nn.ParameterDict({"weight": torch.empty(spec.n_special, d_model).uniform_(-bound, bound)})

    def forward(self, rows: Tensor, step: Step) -> Tensor:
        n = self.spec.n_numbers or 0
        parts = []
        if self.spec.n_special:
            parts.append(self.special["weight"].expand(len(rows), -1, -1))
        if n:
            parts.append(rows[:, :n, None] * self.numbers["weight"] + self.numbers["bias"])
        if self.spec.categories:
            before = [sum(self.spec.categories[:i]) for i in range(len(self.spec.categories))]
            places = rows[:, n:].long() + torch.tensor(before, device=rows.device)
            parts.append(nn.functional.embedding(places, self.categories["weight"]) + self.categories["bias"])
        return torch.cat(parts, dim=1)

    def example(self, batch: int, seq: int) -> Tensor:
        """Rows [batch, columns] of zeros to run without data."""
        weight = next(self.parameters())
        columns = (self.spec.n_numbers or 0) + len(self.spec.categories)
        return torch.zeros(batch, columns, device=weight.device, dtype=weight.dtype)
