"""Mixture of experts: a router sends each token to a few of many MLPs."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil
from typing import Any, Self

import torch
import torch.nn.functional as F  # noqa: N812
from torch import Tensor, nn

from calc.spec import Mlp, Moe, Norm
from reference_models.blocks.deep_router import RouterOfLayers
from reference_models.blocks.linear import NormLayer, wide
from reference_models.blocks.mlp import FeedForward
from reference_models.step import Step
from reference_models.support import supported

FIELDS = (
    *("n_experts", "top_k", "d_expert", "d_shared", "d_latent", "shared_gate", "gated", "bias", "router_bias"),
    *("activation", "capacity_factor", "scoring", "renormalize", "scale", "scaled_router", "dense_norm"),
    *("groups", "correction", "clamp", "weigh", "tolerance", "by_token", "frozen_correction", "corrected"),
    *("sum_bias", "shared_clamp", "shared_bias", "deep_router", "skips", "n_zero", "late", "as_weight"),
    *("jitter", "jitters", "balanced", "wide_router", "masked"),
)
"""Fields of the spec that are computed here."""

SCORING: dict[str, Callable[[Tensor], Tensor]] = {
    "softmax": lambda logits: logits.softmax(-1),
    "sigmoid": torch.sigmoid,
    "sqrt_softplus": lambda logits: F.softplus(logits).sqrt(),
}


class MixtureOfExperts(nn.Module):
    """Router, routed experts of which each token visits top_k, and shared experts that all tokens visit.

    Every pass adds its load-balancing loss to `step.losses`. dropped: visits that found no room, in the last pass.
    """

    name = "moe"
    # The norms of a dense_norm; nn.Module knows them only at run time.
    dense_post_norm: Any
    routed_norm: Any
    routed_post_norm: Any
    mlp: Any
    shared_expert: Any
    correction: Tensor
    table: Tensor

    def __init__(self, spec: Moe, d_model: int) -> None:
        super().__init__()
        supported(spec, *FIELDS)
        self.spec = spec
        self.dropped = 0
        if spec.deep_router is not None:
            self.router = RouterOfLayers(spec.deep_router, d_model, spec.routes)
        else:
            self.router = nn.Linear(d_model, spec.routes, bias=spec.router_bias)
        width, expert = spec.d_latent or d_model, _mlp(spec, spec.d_expert)
        self.experts = nn.ModuleList(FeedForward(expert, width) for _ in range(spec.n_experts))
        if spec.frozen_correction:
            self.correction = nn.Parameter(torch.zeros(spec.n_experts), requires_grad=False)
        elif spec.correction:
            self.register_buffer("correction", torch.zeros(spec.routes))
        if spec.sum_bias:
            self.bias = nn.Parameter(torch.zeros(width))
        if spec.d_latent is not None:
            self.latent_down = nn.Linear(d_model, width, bias=False)
            self.latent_up = nn.Linear(width, d_model, bias=False)
        if spec.scaled_router:
            eps = Norm().eps if spec.dense_norm is None else spec.dense_norm.eps
            self.router_norm = NormLayer(Norm(affine=False, eps=eps), (d_model,))
            self.router_scale = nn.Parameter(torch.ones(d_model))
            self.expert_scale = nn.Parameter(torch.ones(spec.n_experts))
        if spec.dense_norm is not None:
            self.mlp = FeedForward(_mlp(spec, spec.d_shared), d_model)
            for name in ("dense_post_norm", "routed_norm", "routed_post_norm"):
                self.add_module(name, NormLayer(spec.dense_norm, (d_model,)))
        elif spec.d_shared is not None:
            bias = spec.bias if spec.shared_bias is None else spec.shared_bias
            shared = _mlp(spec, spec.d_shared).model_copy(update={"bias": bias, "clamp": spec.own_clamp})
            self.add_module("mlp" if spec.late else "shared_expert", FeedForward(shared, d_model))
            if spec.shared_gate:
                self.shared_expert_gate = nn.Linear(d_model, 1, bias=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        """A wide router stays in float32 at least, whatever format the model is brought to."""
        made = super()._apply(fn, recurse)
        if self.spec.wide_router:
            self.router._apply(wide, recurse)
        return made

    def forward(self, x: Tensor, step: Step) -> Tensor:
        """x [batch, seq, d_model] -> the same shape. With a dense_norm only the MLP reads x, experts `step.stream`."""
        scored = wide(x.flatten(0, 1)) if self.spec.wide_router else x.flatten(0, 1)
        if self.spec.jitter is not None and self.training:
            for _ in range(self.spec.jitters):
                scored = scored * torch.empty_like(scored).uniform_(1 - self.spec.jitter, 1 + self.spec.jitter)
        flat = scored.to(x.dtype)
        if self.spec.dense_norm is not None:
            stream = (x if step.stream is None else step.stream).flatten(0, 1)
            routed = self.routed_post_norm(self._routed(stream, self.routed_norm(stream), step))
            return (self.dense_post_norm(self.mlp(flat)) + routed).view_as(x)
        out = self._routed(scored, flat, step)
        if self.spec.late and step.lent is not None:
            step.lent["late"] = (out.view_as(x),)
            return self.mlp(flat).view_as(x)
        if self.spec.d_shared is not None:
            shared = self.shared_expert(flat)
            out = out + (self.shared_expert_gate(flat).sigmoid() * shared if self.spec.shared_gate else shared)
        return out.view_as(x)

    def _routed(self, scored: Tensor, x: Tensor, step: Step) -> Tensor:
        """scored [tokens, d_model], what the router reads; x [tokens, d_model], what the experts read."""
        if self.spec.scaled_router:
            scored = self.router_norm(scored) * self.router_scale * scored.shape[-1] ** -0.5
        scored = wide(scored) if self.spec.wide_router else scored
        given = self.router(scored) if self.spec.deep_router is None else self.router(scored, step)
        logits = wide(given) if self.spec.deep_router is None else given
        if self.spec.scoring == "sparsemixer":
            scores = logits.softmax(-1)
            chosen, weights = sparsemixer(logits, self.spec.tolerance)
        else:
            of_chosen = self.spec.corrected == "logits"
            # Where the chosen alone are scored, the loss that balances experts can be read but trains nothing.
            scores = SCORING[self.spec.scoring](logits.detach() if of_chosen else logits)
            # A choice has no gradient, so nothing of it need be kept.
            chosen = (
                self._looked_up(step)
                if self.spec.by_token
                else self._choose((logits if of_chosen else scores).detach())
            )
            if of_chosen:
                weights = SCORING[self.spec.scoring](logits.gather(-1, chosen))
            else:
                weights = self._masked(scores.to(x.dtype), chosen) if self.spec.masked else scores.gather(-1, chosen)
        held = {"stream": given, "fp32": wide(given), None: None}[self.spec.balanced]
        step.losses.append(balance(scores if held is None else held.softmax(-1), chosen))
        if self.spec.skips:
            skipping = chosen == self.spec.n_experts
            weights, chosen = weights.masked_fill(skipping, 0), chosen.masked_fill(skipping, 0)
        if self.spec.renormalize:
            total = weights.sum(-1, keepdim=True)
            weights = weights / (total.clamp(min=torch.finfo(total.dtype).eps) if self.spec.masked else total)
        if self.spec.scaled_router:
            weights = weights * self.expert_scale[chosen]
        read = x if self.spec.d_latent is None else self.latent_down(x)
        weights = (weights * self.spec.scale).to(x.dtype)
        before, behind = (weights, None) if self.spec.weigh == "input" else (None, weights)
        visits = self._visit(read, chosen, before).unflatten(0, chosen.shape)
        out = (visits if behind is None else visits * behind[..., None]).sum(1)
        out = out + self.bias if self.spec.sum_bias else out
        return out if self.spec.d_latent is None else self.latent_up(out)

    def add_table(self, vocab_size: int) -> None:
        """Lay out the experts of each token of the vocabulary; until others are given, neighbours in turns."""
        tokens, visits = torch.arange(vocab_size)[:, None], torch.arange(self.spec.top_k)
        self.register_buffer("table", (tokens + visits) % self.spec.n_experts)

    def _masked(self, scores: Tensor, chosen: Tensor) -> Tensor:
        """scores [tokens, n_experts] at the chosen [tokens, top_k], by products with masks of ones and zeros."""
        return (scores[:, None] * F.one_hot(chosen, self.spec.routes)).sum(-1)

    def _looked_up(self, step: Step) -> Tensor:
        """The experts of each token, [tokens, top_k], whatever its scores."""
        if step.tokens is None:
            raise ValueError("tokens: expected their numbers, which experts are chosen by, found none")
        return self.table[step.tokens.flatten()]

    def _choose(self, scores: Tensor) -> Tensor:
        """scores [tokens, n_experts] -> the experts of each token, [tokens, top_k]."""
        if self.spec.correction:
            scores = scores + self.correction
        if self.spec.groups is not None:
            groups = scores.unflatten(-1, (self.spec.groups.count, -1))
            worth = groups.topk(2 if self.spec.groups.by == "two" else 1, dim=-1).values.sum(-1)
            best = worth.topk(self.spec.groups.chosen, dim=-1).indices
            outside = torch.ones_like(worth, dtype=torch.bool).scatter(-1, best, False)
            scores = groups.masked_fill(outside[..., None], -torch.inf).flatten(-2)
        return scores.topk(self.spec.top_k, dim=-1).indices

    def _visit(self, x: Tensor, chosen: Tensor, weights: Tensor | None) -> Tensor:
        """x [tokens, d], chosen [tokens, top_k] -> what each visit brings, [tokens * top_k, d]; 0 where dropped.

        weights: [tokens, top_k], what each visit's x is multiplied with, or None.
        """
        chosen = chosen.flatten()
        order = chosen.argsort(stable=True)
        counts = _counts(chosen, self.spec)
        room = self._room(len(chosen))
        read = x[order // self.spec.top_k]
        groups = (read if weights is None else read * weights.flatten()[order, None]).split(counts)
        if room is None:
            # Behind the experts that compute stand those that give back what they read.
            computed = [expert(group) for expert, group in zip(self.experts, groups, strict=False) if len(group)]
            done = computed if self.spec.n_zero is None else [*computed, *groups[self.spec.n_experts :]]
        else:
            self.dropped = sum(max(n - room, 0) for n in counts)
            done = [_within(expert, group, room) for expert, group in zip(self.experts, groups, strict=True)]
        back = torch.empty_like(order).scatter_(0, order, torch.arange(len(order), device=order.device))
        return torch.cat(done)[back]

    def _room(self, visits: int) -> int | None:
        """Tokens that each expert takes (Fedus et al. 2021, equation 3); None without a limit."""
        if self.spec.capacity_factor is None:
            return None
        return ceil(Fraction(str(self.spec.capacity_factor)) * visits / self.spec.n_experts)


def sparsemixer(logits: Tensor, tolerance: float) -> tuple[Tensor, Tensor]:
    """The two best experts and their weights, [tokens, 2] each; logits [tokens, n_experts].

    A weight is an expert's share of a softmax over the logits that come near the best one left; those of the second
    leave the first out. Source: transformers 5.23, models/phimoe/modeling_phimoe.py, `sparsemixer` without training.
    """
    chosen, weights, left = [], [], logits
    for _ in range(2):
        with torch.no_grad():
            best, expert = left.max(-1, keepdim=True)
            far = (best - logits) / logits.abs().maximum(best) > 2 * tolerance
        chosen.append(expert)
        weights.append(left.masked_fill(far, -torch.inf).softmax(-1).gather(-1, expert))
        left = left.scatter(-1, expert, -torch.inf)
    return torch.cat(chosen, -1), torch.cat(weights, -1)


def balance(scores: Tensor, chosen: Tensor) -> Tensor:
    """n_experts * sum over experts of (share of visits) * (mean score): 1 when perfectly even.

    Source: Fedus et al. 2021 (arXiv:2101.03961), equation 4; for top_k > 1 shares are of all visits.
    """
    n_experts = scores.shape[-1]
    shares = F.one_hot(chosen.flatten(), n_experts).float().mean(0)
    return n_experts * (shares * scores.mean(0)).sum()


def _within(expert: nn.Module, x: Tensor, room: int) -> Tensor:
    """`expert` on the first `room` rows of x, zeros for the others; empty room is computed like the rest."""
    done = expert(F.pad(x[:room], (0, 0, 0, max(room - len(x), 0))))
    return F.pad(done[: len(x)], (0, 0, 0, max(len(x) - room, 0)))


def _counts(chosen: Tensor, spec: Moe) -> list[int]:
    """Visits of each expert.

    The meta device has no numbers: there all tokens visit the same experts, which costs as much as any other choice.
    """
    if chosen.is_meta:
        tokens, computed = len(chosen) // spec.top_k, spec.visits
        each = [tokens if i < computed else 0 for i in range(spec.routes)]
        return each if spec.n_zero is None else [*each[:-1], tokens * (spec.top_k - computed)]
    return torch.bincount(chosen, minlength=spec.routes).tolist()


def _mlp(spec: Moe, width: int | None) -> Mlp:
    how = {"gated": spec.gated, "bias": spec.bias, "activation": spec.activation, "clamp": spec.clamp}
    return Mlp(d_ff=width, **how, as_weight=spec.as_weight)
