"""Next token: what GPT, Llama and every other decoder is trained on."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from reference_models.model import Model
from reference_models.objectives.common import balanced, cross_entropy, scores_of


def next_token(
    model: Model, tokens: Tensor, *, keep: Tensor | None = None, balance: float = 0.0, **inputs: Any
) -> Tensor:
    """Mean of -log p(token | those before it) over all tokens but the first: a scalar.

    tokens [batch, seq]; logits [batch, seq, vocab_size], of which the last predicts nothing.
    keep [batch, seq]: False at padding, which is neither read nor predicted, nor does it predict.
    balance: weight of the routers' load-balancing losses. inputs: what else the model reads (source, token_types).
    Source: Radford et al. 2018, equation 1.
    """
    out = model(tokens, keep=keep, **inputs)
    # [batch, seq - 1]: a place counts where it and the one after it are real.
    where = None if keep is None else (keep[:, 1:].bool() & keep[:, :-1].bool())
    return balanced(cross_entropy(scores_of(out, None)[:, :-1], tokens[:, 1:], where), out, balance)
