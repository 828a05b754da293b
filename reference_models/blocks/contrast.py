"""Texts against pictures: how alike each pair of vectors is (CLIP)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Contrast
from reference_models.support import supported


class Similarity(nn.Module):
    """texts [batch, d], pictures [images, d] -> [batch, images]: cosines times a learned scale (as its logarithm).

    A bias is added where the spec has one.
    """

    def __init__(self, spec: Contrast) -> None:
        super().__init__()
        supported(spec, "d_contrast", "bias")
        # The inverse of the temperature 0.07 (Radford et al. 2021, section 2.5).
        self.logit_scale = nn.Parameter(torch.tensor(math.log(1 / 0.07)))
        if spec.bias:
            self.logit_bias = nn.Parameter(torch.zeros(()))

    def forward(self, texts: Tensor, pictures: Tensor) -> Tensor:
        texts, pictures = F.normalize(texts, dim=-1), F.normalize(pictures, dim=-1)
        cosines = texts @ pictures.t() * self.logit_scale.exp()
        return cosines + self.logit_bias if hasattr(self, "logit_bias") else cosines
