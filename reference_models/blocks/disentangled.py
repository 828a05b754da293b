"""Contents against distances, beside contents against contents (He et al. 2021, arXiv:2006.03654, section 3.1)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Disentangled
from reference_models.step import Step
from reference_models.support import supported


class DistanceVectors(nn.Module):
    """The table [2 * n_distances, d_model] that all layers read, from -n_distances on."""

    def __init__(self, spec: Disentangled, d_model: int) -> None:
        super().__init__()
        supported(spec, "n_distances", "queries", "keys", "own", "key_bias", "normed", "max_distance", "nearest")
        self.spec = spec
        self.weight = nn.Parameter(torch.empty(2 * spec.n_distances, d_model).normal_(std=0.02))

    def forward(self, seq: int) -> Tensor:
        """All of it, or the rows of distances that a sequence of `seq` tokens has."""
        n, own = self.spec.n_distances, min(seq, self.spec.n_distances)
        return self.weight[n - own : n + own] if self.spec.nearest else self.weight


def add_vectors(attention: Any, spec: Disentangled, d_model: int, width: int) -> None:
    """Give `attention` the projections of the vectors that are its own."""
    if spec.own and spec.queries:
        attention.pos_k_proj = nn.Linear(d_model, width, bias=spec.key_bias)
    if spec.own and spec.keys:
        attention.pos_q_proj = nn.Linear(d_model, width)


def vector_scores(attention: Any, spec: Disentangled, k: Tensor, step: Step) -> Callable[[Tensor], Tensor]:
    """What makes scores of distances of queries; k [batch, heads, seq, d_head].

    The distance of a pair is the place of its query less that of its key.
    """
    assert step.distances is not None
    heads, vectors = k.shape[1], F.dropout(step.distances, step.dropout)
    to_keys, to_queries = ("pos_k_proj", "pos_q_proj") if spec.own else ("k_proj", "q_proj")
    keys, queries = (
        getattr(attention, name)(vectors).unflatten(-1, (heads, -1)).permute(1, 2, 0) if wanted else None
        for name, wanted in ((to_keys, spec.queries), (to_queries, spec.keys))
    )
    places = _places(spec, k.shape[2], len(vectors), k.device, step)

    def scores(q: Tensor) -> Tensor:
        found: list[Tensor] = []
        if keys is not None:
            by_query = q @ keys
            found.append(by_query.gather(-1, places.expand(*by_query.shape[:-1], -1)))
        if queries is not None:
            # The row of a key holds its distance to each query, which is that of the pair.
            by_key = k @ queries
            found.append(by_key.gather(-1, places.T.expand(*by_key.shape[:-1], -1)).transpose(-1, -2))
        return sum(found[1:], start=found[0])

    return scores


def _places(spec: Disentangled, seq: int, rows: int, device: torch.device, step: Step) -> Tensor:
    """[seq, seq]: at query and key, the row of their distance's vector; made once in a pass."""
    key = ("places of distances", seq, rows)
    if key not in step.made:
        numbers = torch.arange(seq, device=device)
        distance = bucketed(numbers[:, None] - numbers[None, :], spec)
        step.made[key] = (distance + rows // 2).clamp(0, rows - 1)
    return step.made[key]


def bucketed(distance: Tensor, spec: Disentangled) -> Tensor:
    """The bucket of each distance: its own up to half of n_distances, then logarithmically wider up to max_distance.

    Source: the authors' code (microsoft/DeBERTa, DeBERTa/deberta/da_utils.py, make_log_bucket_position).
    """
    if spec.max_distance is None:
        return distance
    half = spec.n_distances // 2
    far = distance.abs().clamp(min=max(half - 1, 1)).float()
    furthest = torch.tensor((spec.max_distance - 1) / half, device=distance.device)
    wider = torch.ceil(torch.log(far / half) / torch.log(furthest) * (half - 1)) + half
    return torch.where(far <= half, distance, (wider * distance.sign()).long())
