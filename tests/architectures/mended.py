"""NLLB-MoE of transformers as it was published: a token visits the two experts that its router gives a weight.

transformers 5.23 hands its experts the mask of each token's first expert, zeros and ones, where they take it for
numbers of experts; `test_which_experts_transformers_runs_in_nllb_moe` shows what comes of it. Before that was
rewritten, the class chose as here (its pull request 22024), and as the paper has it.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import torch


def with_two_experts_a_token(model: Any) -> Any:
    """The model itself, whose experts, if they are NLLB-MoE's, read the tokens that have a weight for them."""
    for module in model.modules():
        if type(module).__name__ == "NllbMoeExperts":
            module.forward = partial(_forward, module)
    return model


def _forward(experts: Any, x: Any, _mask: Any, weights: Any) -> Any:
    """x [tokens, d_model], weights [tokens, n_experts], all but two of a row zero -> [tokens, d_model]."""
    out = torch.zeros_like(x)
    for i, expert in enumerate(experts.values()):
        if not isinstance(expert, torch.nn.Dropout) and len(rows := weights[:, i].nonzero().flatten()):
            out = out.index_add(0, rows, expert(x[rows]) * weights[rows, i, None])
    return out if experts.training else out * (1 - experts.moe_token_dropout)
