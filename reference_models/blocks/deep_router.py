"""A router of several layers; the twin of `calc.blocks.deep_router`."""

from __future__ import annotations

import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import DeepRouter
from reference_models.blocks.linear import BlockScale, NormLayer
from reference_models.step import Step
from reference_models.support import supported


class RouterOfLayers(nn.Module):
    """scores(gelu(second(gelu(first(norm(down(x) + carry * what the layer before had there))))))."""

    def __init__(self, spec: DeepRouter, d_model: int, n_scores: int) -> None:
        super().__init__()
        supported(spec, "d_router", "norm", "carries")
        self.carries = spec.carries
        self.down = nn.Linear(d_model, spec.d_router)
        if spec.carries:
            self.carry = BlockScale(spec.d_router)
        self.norm = NormLayer(spec.norm, (spec.d_router,))
        self.first = nn.Linear(spec.d_router, spec.d_router)
        self.second = nn.Linear(spec.d_router, spec.d_router)
        self.scores = nn.Linear(spec.d_router, n_scores, bias=False)

    def forward(self, x: Tensor, step: Step) -> Tensor:
        """x [tokens, d_model] -> [tokens, n_scores]; `step.lent` is told what the next layer reads."""
        made = self.down(x)
        if step.lent is not None:
            if self.carries:
                made = made + self.carry(step.lent["router"][0])
            # As wide as a later layer's, which autocast leaves in the stream's format.
            step.lent["router"] = (made.to(x.dtype, copy=True),)
        y = F.gelu(self.first(self.norm(made)))
        return self.scores(F.gelu(self.second(y)))
