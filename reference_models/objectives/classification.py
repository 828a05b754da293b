"""Classification: one of several classes for a sequence, a picture or every token."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from reference_models.model import Model
from reference_models.objectives.common import balanced, cross_entropy, scores_of


def classification(
    model: Model,
    examples: Tensor,
    classes: Tensor,
    *,
    head: str | None = "classifier",
    keep: Tensor | None = None,
    balance: float = 0.0,
    **inputs: Any,
) -> Tensor:
    """Mean of -log p(class) over the batch, or over all tokens that are not padding: a scalar.

    examples: what the model's front reads. `head` gives [batch, n_classes] for classes [batch], or
    [batch, seq, n_classes] for classes [batch, seq]. keep [batch, seq]: False at padding. balance, inputs: as in
    `next_token`. Source: Devlin et al. 2019 (arXiv:1810.04805), section 4.1, for text; Dosovitskiy et al. 2021
    (arXiv:2010.11929), section 3.1, for pictures.
    """
    out = model(examples, keep=keep, **inputs)
    logits = scores_of(out, head)
    where = keep.bool() if keep is not None and classes.dim() > 1 else None
    return balanced(cross_entropy(logits, classes, where), out, balance)
