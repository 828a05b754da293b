"""What objectives share: reading a model's result, and means over some of the places."""

from __future__ import annotations

import torch.nn.functional as F  # noqa: N812
from torch import Tensor

from reference_models.blocks.linear import wide
from reference_models.model import Output


def scores_of(out: Output, head: str | None) -> Tensor:
    """What the dense layer `head` behind the stack gave, or for None the vocabulary's logits. Errors: ValueError."""
    found = out.logits if head is None else out.heads.get(head)
    if found is None:
        known = ", ".join([*(["None"] if out.logits is not None else []), *out.heads])
        raise ValueError(f"head: expected {known or 'a model that has one'}, found {head}")
    return found


def cross_entropy(logits: Tensor, targets: Tensor, where: Tensor | None = None) -> Tensor:
    """The mean of -log softmax(logits)[target] over the places that `where` names, in float32 at least.

    logits [..., n], targets and where [...]. Errors: ValueError where no place is left, which has no mean.
    """
    if where is not None:
        if not bool(where.any()):
            raise ValueError("targets: expected at least one place to predict, found none")
        logits, targets = logits[where], targets[where]
    return F.cross_entropy(wide(logits).flatten(0, -2), targets.flatten())


def balanced(loss: Tensor, out: Output, weight: float) -> Tensor:
    """`loss` and the weighted sum of what the routers added (Fedus et al. 2021, arXiv:2101.03961: weight 0.01)."""
    return loss if not weight else loss + weight * sum(out.step.losses)
