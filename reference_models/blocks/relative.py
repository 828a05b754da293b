"""Learned relative positions: T5's numbers for buckets of distances, and Shaw's vectors for each distance."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from calc.spec import Buckets, Shaw
from reference_models.support import supported


class RelativeBias(nn.Module):
    """T5's table [n_buckets, n_heads]; it belongs to one attention, or to a whole stack whose layers share it."""

    def __init__(self, spec: Buckets, n_heads: int) -> None:
        super().__init__()
        supported(spec, "n_buckets", "max_distance", "shared")
        self.spec = spec
        self.weight = nn.Parameter(torch.empty(spec.n_buckets, n_heads).normal_(std=0.02))

    def forward(self, queries: Tensor, keys: Tensor, *, causal: bool) -> Tensor:
        """The numbers of tokens, [seq] and [keys] -> [1, n_heads, seq, keys], added to the scores."""
        buckets = bucket_of(keys[None, :] - queries[:, None], self.spec, causal=causal)
        return self.weight[buckets].permute(2, 0, 1)[None]


class RelativeVectors(nn.Module):
    """Shaw's table [rows, width], shared by all heads."""

    def __init__(self, spec: Shaw, width: int) -> None:
        super().__init__()
        supported(spec, "max_distance", "ahead", "values")
        self.behind, self.ahead = spec.max_distance, spec.max_distance if spec.ahead is None else spec.ahead
        self.weight = nn.Parameter(torch.empty(spec.rows, width).normal_(std=0.02))

    def forward(self, queries: Tensor, keys: Tensor) -> Tensor:
        """[seq], [keys] -> [seq, keys, width]: the vector of key minus query (Shaw et al. 2018, section 3.2)."""
        distance = (keys[None, :] - queries[:, None]).clamp(-self.behind, self.ahead)
        return self.weight[distance + self.behind]


def bucket_of(distance: Tensor, spec: Buckets, *, causal: bool) -> Tensor:
    """The bucket of each distance (key minus query): exact when small, then logarithmically wider up to max_distance.

    Where attention is not causal, keys behind the query have half of the buckets and keys ahead of it the other half.
    Source: Raffel et al. 2020, section 2.1, and the authors' code.
    """
    n = spec.n_buckets if causal else spec.n_buckets // 2
    ahead = 0 if causal else n * (distance > 0)
    far = (-distance).clamp(min=0) if causal else distance.abs()
    exact = n // 2
    wider = torch.log(far.clamp(min=1).float() / exact) / math.log(spec.max_distance / exact) * (n - exact)
    return ahead + torch.where(far < exact, far, (exact + wider.long()).clamp(max=n - 1))
