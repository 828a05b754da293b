"""A convolution whose weights each token makes, beside heads of attention (Jiang et al. 2020, arXiv:2008.02496)."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from reference_models.step import Step, recomputed


def add_span(attention: Any, kernel: int, d_model: int, heads: int, d_head: int) -> None:
    """Give `attention` what makes keys of spans, weights, and the values that these weigh."""
    width = heads * d_head
    attention.span_depthwise = nn.Conv1d(d_model, d_model, kernel, padding=kernel // 2, groups=d_model, bias=False)
    attention.span_pointwise = nn.Conv1d(d_model, width, 1)
    attention.span_weights = nn.Linear(width, heads * kernel)
    attention.span_values = nn.Linear(d_model, width)


def span_convolution(attention: Any, kernel: int, x: Tensor, q: Tensor, step: Step) -> Tensor:
    """x [batch, seq, d_model] and the queries q [batch, heads, seq, d_head] -> [batch, seq, heads * d_head]."""
    heads, seq, d_head = q.shape[1:]
    keys = attention.span_pointwise(attention.span_depthwise(x.transpose(1, 2))).transpose(1, 2)
    weights = attention.span_weights(keys * q.transpose(1, 2).flatten(2)).reshape(-1, kernel, 1).softmax(1)
    values = F.pad(attention.span_values(x), (0, 0, kernel // 2, kernel // 2)).unfold(1, kernel, 1)
    around = values.contiguous().reshape(-1, d_head, kernel)
    made = recomputed(torch.matmul, around, weights) if step.checkpointing == "selective" else around @ weights
    return made.reshape(-1, seq, heads * d_head)
