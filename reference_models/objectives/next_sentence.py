"""Next sentence: BERT's second task, whether one piece of text came after the other."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reference_models.model import Model
from reference_models.objectives.common import cross_entropy, scores_of


def next_sentence(
    model: Model, tokens: Tensor, token_types: Tensor, strange: Tensor, head: str = "next_sentence", **inputs: Any
) -> Tensor:
    """Mean of -log p(strange or not) over pairs: a scalar.

    tokens and token_types [batch, seq], of which `sentence_pairs` makes a batch; strange [batch]: 1 where the second
    piece is from elsewhere, 0 where it really follows (the order of BERT's own two logits).
    The dense layer `head`, which reads the pooled first vector, gives [batch, 2].
    Source: Devlin et al. 2019 (arXiv:1810.04805), section 3.1, task 2.
    """
    out = model(tokens, token_types=token_types, **inputs)
    return cross_entropy(scores_of(out, head), strange.long())


def sentence_pairs(
    first: Tensor, second: Tensor, random: torch.Generator | None = None, *, start: int, separator: int
) -> tuple[Tensor, Tensor, Tensor]:
    """(tokens [batch, n + m + 3], token_types of the same shape, strange [batch]): [CLS] first [SEP] second [SEP].

    first [batch, n] and second [batch, m], which follows it. Half of the seconds, on average, give way to that of
    another sequence of the batch. start, separator: the numbers of [CLS] and [SEP].
    Errors: ValueError for a batch of one.
    """
    batch, device = len(first), first.device
    if batch < 2:
        raise ValueError(f"batch: expected at least 2 sequences to swap between, found {batch}")
    strange = torch.rand(batch, generator=random, device=device) < 0.5
    elsewhere = torch.arange(batch, device=device) + torch.randint(1, batch, (batch,), generator=random, device=device)
    second = torch.where(strange[:, None], second[elsewhere % batch], second)
    begin, end = first.new_full((batch, 1), start), first.new_full((batch, 1), separator)
    tokens = torch.cat([begin, first, end, second, end], dim=1)
    types = (torch.arange(tokens.shape[1], device=device) >= first.shape[1] + 2).long().expand_as(tokens)
    return tokens, types, strange.long()
