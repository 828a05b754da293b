"""Return-conditioned: the Decision Transformer learns which actions went with how much reward was still to come."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from reference_models.blocks.linear import wide
from reference_models.model import Model
from reference_models.objectives.common import scores_of


def return_conditioned(
    model: Model,
    rewards: Tensor,
    states: Tensor,
    actions: Tensor,
    *,
    keep: Tensor | None = None,
    head: str = "predict_action",
    **inputs: Any,
) -> Tensor:
    """Mean squared error of the actions, given returns to go and states up to them and the actions before: a scalar.

    rewards [batch, seq], those of episodes that end where the sequence ends; states [batch, seq, d_state]; actions
    [batch, seq, d_action], numbers. The model reads the three side by side and its `head` gives [batch, seq, d_action].
    keep [batch, seq]: False at the padding behind an episode, which no earlier step sees and which is not predicted.
    Source: Chen et al. 2021 (arXiv:2106.01345), section 3 and algorithm 1.
    """
    real = torch.ones_like(rewards, dtype=torch.bool) if keep is None else keep.bool()
    to_go = returns_to_go(rewards.masked_fill(~real, 0.0))
    steps = torch.cat([to_go[..., None], states, actions], dim=-1)
    predicted = scores_of(model(steps, **inputs), head)
    return (wide(predicted) - actions)[real].square().mean()


def returns_to_go(rewards: Tensor) -> Tensor:
    """[batch, seq]: at each step the sum of its reward and all later ones."""
    return rewards.flip(-1).cumsum(-1).flip(-1)
