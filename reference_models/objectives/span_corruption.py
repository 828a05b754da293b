"""Span corruption: T5's task, in which whole spans are cut out of a text and written down one after another."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reference_models.model import Model
from reference_models.objectives.common import balanced, cross_entropy, scores_of, widens


def span_corruption(
    model: Model,
    tokens: Tensor,
    random: torch.Generator | None = None,
    *,
    first_sentinel: int,
    start: int = 0,
    rate: float = 0.15,
    mean_span: float = 3.0,
    balance: float = 0.0,
    **inputs: Any,
) -> Tensor:
    """Mean of -log p(target | targets before it, the text with gaps) over all targets: a scalar.

    tokens [batch, n], without padding. The encoder reads the text with gaps, the decoder `start` and then the targets
    but the last; logits [batch, n_targets, vocab_size]. first_sentinel, rate, mean_span: see `spans_replaced` and
    `noise_spans`. balance, inputs: as in `next_token`.
    Source: Raffel et al. 2020 (arXiv:1910.10683), sections 3.1.4 and 3.3.4.
    """
    batch, n = tokens.shape
    spans = noise_spans(batch, n, random, rate=rate, mean_span=mean_span, device=tokens.device)
    gapped, targets = spans_replaced(tokens, spans, first_sentinel)
    before = torch.cat([targets.new_full((len(targets), 1), start), targets[:, :-1]], dim=1)
    out = model(before, source=gapped, **inputs)
    loss = cross_entropy(scores_of(out, None), targets, widened=widens(model, None))
    return balanced(loss, out, balance)


def noise_spans(
    batch: int,
    n: int,
    random: torch.Generator | None = None,
    *,
    rate: float = 0.15,
    mean_span: float = 3.0,
    device: torch.device | None = None,
) -> Tensor:
    """[batch, n]: the number of the piece that each token belongs to; even pieces stay, odd ones are cut out.

    rate * n tokens are cut out, in that number / mean_span spans, both rounded and at least one; so all sequences of a
    batch have as many. A text begins with a piece that stays and ends with one that is cut out; among the ways to
    divide it so, one is drawn. Errors: ValueError for a text of fewer than 2 tokens.
    """
    if n < 2:
        raise ValueError(f"tokens: expected at least 2 in a sequence, found {n}")
    n_noise = min(max(round(rate * n), 1), n - 1)
    n_spans = min(max(round(n_noise / mean_span), 1), n - n_noise)
    runs = _lengths(batch, n - n_noise, n_spans, random, device)
    cut = _lengths(batch, n_noise, n_spans, random, device)
    ends = torch.stack([runs, cut], dim=2).flatten(1).cumsum(1)
    return (torch.arange(n, device=device)[None, :, None] >= ends[:, None, :]).sum(-1)


def spans_replaced(tokens: Tensor, spans: Tensor, first_sentinel: int) -> tuple[Tensor, Tensor]:
    """(the text with gaps [batch, n - noise + n_spans], the targets [batch, noise + n_spans + 1]).

    tokens [batch, n]; spans as `noise_spans` gives them. Each gap holds a sentinel: first_sentinel, then the number
    below it, and so on (T5: the last rows of its vocabulary, downwards). The targets are each sentinel and what it
    stands for, and one sentinel more that ends them.
    """
    noise, batch = spans % 2 == 1, len(tokens)
    first = noise & torch.cat([noise.new_ones(batch, 1), ~noise[:, :-1]], dim=1)
    sentinels = first_sentinel - spans // 2
    # Where a span begins, its sentinel stands before the first of its tokens: [batch, n, 2] holds both.
    both = torch.stack([sentinels, tokens], dim=2)
    gapped = both[torch.stack([first, ~noise], dim=2)].view(batch, -1)
    cut = both[torch.stack([first, noise], dim=2)].view(batch, -1)
    last = first_sentinel - (spans[:, -1:] + 1) // 2
    return gapped, torch.cat([cut, last], dim=1)


def _lengths(
    batch: int, items: int, pieces: int, random: torch.Generator | None, device: torch.device | None
) -> Tensor:
    """[batch, pieces]: a random way to divide `items` into pieces, none of them empty."""
    gaps = torch.rand(batch, items - 1, generator=random, device=device).argsort(1) < pieces - 1
    piece = torch.cat([gaps.new_zeros(batch, 1), gaps], dim=1).cumsum(1)
    return (piece[:, :, None] == torch.arange(pieces, device=device)).sum(1)
