"""Queries and outputs of experts: each token's attention has the heads of those that it visits."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

import torch
from torch import Tensor, nn

from calc.spec import HeadExperts
from reference_models.blocks.linear import wide
from reference_models.blocks.moe import balance
from reference_models.step import Step
from reference_models.support import supported


class RoutedQueries(nn.Module):
    """A router, and a matrix of queries for each expert."""

    def __init__(self, spec: HeadExperts, d_model: int, width: int) -> None:
        super().__init__()
        supported(spec, "n_experts", "top_k")
        self.spec = spec
        self.router = nn.Linear(d_model, spec.n_experts, bias=False)
        self.experts = _matrices("q_proj", spec.n_experts, d_model, width // spec.top_k)

    def forward(self, x: Tensor, step: Step) -> tuple[Tensor, Tensor, Tensor]:
        """x [batch, seq, d_model] -> queries [batch, seq, top_k, width / top_k], and of the experts that they are of
        numbers and weights, [tokens, top_k] each."""
        flat = x.flatten(0, 1)
        scores = wide(self.router(flat)).softmax(-1)
        chosen = scores.detach().topk(self.spec.top_k, dim=-1).indices
        weights = scores.gather(-1, chosen)
        step.losses.append(balance(scores, chosen))
        weights = (weights / weights.sum(-1, keepdim=True)).to(x.dtype)
        queries = _visit(self.experts, "q_proj", flat, chosen, self.spec.top_k)
        return queries.unflatten(0, (*x.shape[:2], self.spec.top_k)), chosen, weights


class RoutedOutput(nn.Module):
    """A matrix of each expert for what its own heads gave, and a vector that is added to their weighed sum."""

    def __init__(self, spec: HeadExperts, width: int, d_model: int, *, bias: bool) -> None:
        super().__init__()
        self.spec = spec
        self.experts = _matrices("o_proj", spec.n_experts, width // spec.top_k, d_model)
        self.bias: nn.Parameter | None = nn.Parameter(torch.zeros(d_model)) if bias else None

    def forward(self, y: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
        """y [batch, seq, top_k, width / top_k] -> [batch, seq, d_model]."""
        made = _visit(self.experts, "o_proj", y.flatten(0, 2), chosen, 1).unflatten(0, chosen.shape)
        out = (made * weights[..., None]).sum(1)
        return (out if self.bias is None else out + self.bias).unflatten(0, y.shape[:2])


def by_slot(heads: Tensor, slots: int) -> Tensor:
    """[batch, n_heads, seq, d], the heads that share keys side by side, -> [batch, seq, slots, heads of one * d]."""
    return heads.unflatten(1, (-1, slots)).permute(0, 3, 2, 1, 4).flatten(3)


def by_head(queries: Tensor, kv_heads: int) -> Tensor:
    """The inverse of `by_slot`: of each slot the heads read all key-value heads in turn."""
    return queries.unflatten(3, (kv_heads, -1)).permute(0, 3, 2, 1, 4).flatten(1, 2)


def _matrices(name: str, n_experts: int, d_in: int, d_out: int) -> nn.ModuleList:
    return nn.ModuleList(nn.ModuleDict({name: nn.Linear(d_in, d_out, bias=False)}) for _ in range(n_experts))


def _visit(experts: nn.ModuleList, name: str, x: Tensor, chosen: Tensor, repeated: int) -> Tensor:
    """What each visit brings, [visits, width]; x has a row for each, or one for `repeated` of them."""
    visits = chosen.flatten()
    order = visits.argsort(stable=True)
    counts = _counts(visits, chosen.shape[1], len(experts))
    groups = x[order // repeated].split(counts)
    each = cast("Iterable[Any]", experts)
    done = [expert[name](group) for expert, group in zip(each, groups, strict=True) if len(group)]
    back = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
    return torch.cat(done)[back]


def _counts(visits: Tensor, top_k: int, n_experts: int) -> list[int]:
    """Visits of each expert; on the meta device, which has no numbers, all tokens visit the same."""
    if visits.is_meta:
        return [len(visits) // top_k if i < top_k else 0 for i in range(n_experts)]
    return torch.bincount(visits, minlength=n_experts).tolist()
