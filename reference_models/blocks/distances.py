"""Scores of distances beside those of keys, as in Transformer-XL (Dai et al. 2019, arXiv:1901.02860, section 3.3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from reference_models.blocks.positions import sinusoidal
from reference_models.step import Step


def add_distances(attention: Any, d_model: int, heads: int, d_head: int, *, segments: bool = False) -> None:
    """Give `attention` the projection of distances and the two vectors a head that are added to queries.

    segments: also XLNet's vectors of two segments and what is added to queries for them, which texts without segments
    leave unread.
    """
    attention.pos_proj = nn.Linear(d_model, heads * d_head, bias=False)
    attention.pos_bias_u = nn.Parameter(torch.zeros(heads, d_head))
    attention.pos_bias_v = nn.Parameter(torch.zeros(heads, d_head))
    if segments:
        attention.segment_bias = nn.Parameter(torch.zeros(heads, d_head))
        attention.segment_vectors = nn.Parameter(torch.zeros(2, heads, d_head))


def distance_scores(
    attention: Any, q: Tensor, step: Step, *, each: bool, further: bool
) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """(queries for the products with keys, what makes scores of distances of them); q [batch, heads, seq, d_head].

    Sequences see all of themselves, so distances run from seq - 1 down to 1 - seq, and are the same for all of a batch.
    Their sinusoids are made once in a pass. each: each sequence has its own. further: they run from seq down (XLNet).
    """
    batch, seq, (u, v) = len(q), q.shape[-2], (attention.pos_bias_u[:, None], attention.pos_bias_v[:, None])
    width = attention.pos_proj.in_features
    key = ("distances", seq, width, q.dtype, each)
    if key not in step.made:
        places = torch.arange(seq if further else seq - 1, -seq, -1, device=q.device)
        made = sinusoidal(places, width, "apart" if further else "alternating").to(q.dtype)
        made = made.repeat(batch, 1, 1) if each else made
        step.made[key] = F.dropout(made, step.dropout) if further else made
    vectors = attention.pos_proj(step.made[key]).unflatten(-1, (q.shape[1], -1)).transpose(-3, -2).transpose(-2, -1)

    def scores(with_u: Tensor) -> Tensor:
        found = (with_u + (v - u)) @ vectors
        # No pair is as far apart as the first of XLNet's distances.
        return shifted(found[..., 1:] if further else found)

    return q + u, scores


def shifted(scores: Tensor) -> Tensor:
    """Scores of distances [..., seq, 2 * seq - 1], largest first -> those of keys [..., seq, seq]: i - j at row i."""
    # As transformers 5.23 has it (Wav2Vec2Conformer): a zero more in each row moves rows by one against each other.
    seq = scores.shape[-2]
    moved = F.pad(scores, (1, 0)).flatten(-2).unflatten(-1, (-1, seq))[..., 1:, :]
    return moved.flatten(-2).unflatten(-1, (seq, -1))[..., :seq]
