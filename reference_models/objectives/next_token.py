"""Next token: what GPT, Llama and every other decoder is trained on."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from reference_models.model import Model, Output
from reference_models.objectives.common import LEFT_OUT, balanced, cross_entropy, scores_of, widens


def next_token(
    model: Model,
    tokens: Tensor,
    *,
    keep: Tensor | None = None,
    balance: float = 0.0,
    further: float = 0.0,
    **inputs: Any,
) -> Tensor:
    """Mean of -log p(token | those before it) over all tokens but the first: a scalar.

    tokens [batch, seq]; logits [batch, seq, vocab_size], of which the last predicts nothing.
    keep [batch, seq]: False at padding, which is neither read nor predicted, nor does it predict.
    balance: weight of the routers' load-balancing losses. further: weight of the mean loss of the modules that predict
    further tokens (DeepSeek-V3, arXiv:2412.19437, equations 24 and 25: 0.3, later 0.1).
    inputs: what else the model reads (source, token_types).
    Source: Radford et al. 2018, equation 1.
    """
    out = model(tokens, keep=keep, **inputs)
    logits, targets, where = scores_of(out, None), F.pad(tokens[:, 1:], (0, 1), value=LEFT_OUT), None
    if keep is not None:
        # [batch, seq]: a place counts where it and the one after it are real, which the last has not.
        where = keep.bool() & F.pad(keep.bool()[:, 1:], (0, 1), value=False)
    elif tokens.shape[1] == 1:
        raise ValueError("tokens: expected at least two of each sequence, so that there is one to predict, found 1")
    loss = balanced(cross_entropy(logits, targets, where, widened=widens(model, None)), out, balance)
    return loss + further * _further(out, tokens, keep) if further else loss


def _further(out: Output, tokens: Tensor, keep: Tensor | None) -> Tensor:
    """Mean over the modules of their mean loss; module k predicts the token k + 2 places on. Errors: ValueError."""
    if not out.further:
        raise ValueError("further: expected a model built with modules that predict further tokens, found none")
    losses = []
    for k, logits in enumerate(out.further):
        after = tokens[:, k + 2 :]
        # A place counts where it, the tokens that its module reads and the one it predicts are real.
        where = None if keep is None else keep.bool().unfold(1, k + 3, 1).all(-1)
        losses.append(cross_entropy(logits[:, : after.shape[1]], after, where))
    return sum(losses[1:], losses[0]) / len(losses)
