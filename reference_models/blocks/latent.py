"""Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1), and DeepSeek-V3.2's indexer."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from calc.spec import Attention, Indexer, Mla
from reference_models.blocks.attend import attend, split
from reference_models.blocks.attention_inputs import temperature
from reference_models.blocks.linear import NormLayer, wide
from reference_models.blocks.positions import BY_TOKEN, angles, rotate, rotation, turn
from reference_models.blocks.quantized import matrix_of
from reference_models.cache import Growing, LayerCache, Static
from reference_models.step import Step
from reference_models.support import supported

FIELDS = (
    "n_heads",
    "q_rank",
    "kv_rank",
    "d_nope",
    "d_rope",
    "d_value",
    "bias",
    "norm",
    "top_k",
    "indexer",
    "position",
    "rope",
    "scale",
    "temperature",
    "head_gate",
    "gate",
    "sinks",
    "softmax",
)
"""Fields of the spec that are computed here."""


class LatentAttention(nn.Module):
    """Keys and values of all heads come from one small latent a token, which is what the cache holds.

    With top_k it reads only the tokens that its indexer chose, or without one those that the last layer with one chose
    (GLM-5.2, as in transformers 5.23, models/glm_moe_dsa/modeling_glm_moe_dsa.py).
    absorbed: attention reads latents themselves, and the matrix that would expand them is applied to queries and
    results instead; the numbers are the same, decoding multiplies less (`calc`'s `--latent-reading absorbed`).
    """

    name = "attention"
    # Projections of queries; nn.Module knows them only at run time.
    q_proj: Any
    q_a_proj: Any
    q_a_norm: Any
    q_b_proj: Any
    indexer: Any

    def __init__(self, spec: Mla, d_model: int) -> None:
        super().__init__()
        supported(spec, *FIELDS)
        supported(spec.rope, *BY_TOKEN)
        self.spec = spec
        self.absorbed = False
        d_query = spec.d_nope + spec.d_rope
        if spec.q_rank is None:
            self.q_proj = nn.Linear(d_model, spec.n_heads * d_query, bias=False)
        else:
            self.q_a_proj = nn.Linear(d_model, spec.q_rank, bias=spec.bias)
            self.q_a_norm = NormLayer(spec.norm, (spec.q_rank,))
            self.q_b_proj = nn.Linear(spec.q_rank, spec.n_heads * d_query, bias=False)
        self.kv_a_proj = nn.Linear(d_model, spec.kv_rank + spec.d_rope, bias=spec.bias)
        self.kv_a_norm = NormLayer(spec.norm, (spec.kv_rank,))
        self.kv_b_proj = nn.Linear(spec.kv_rank, spec.n_heads * (spec.d_nope + spec.d_value), bias=False)
        if spec.indexer is not None:
            self.indexer = TokenIndexer(spec.indexer, spec, d_model)
        if spec.head_gate:
            self.head_gate_proj = nn.Linear(d_model, spec.n_heads, bias=False)
        if spec.gate:
            self.gate_proj = nn.Linear(d_model, spec.n_heads * spec.d_value, bias=False)
        if spec.sinks:
            self.sinks = nn.Parameter(torch.zeros(spec.n_heads))
        self.o_proj = nn.Linear(spec.n_heads * spec.d_value, d_model, bias=spec.bias)
        # Absorbed queries are wider than the heads that the scale is made for.
        scale = d_query**-0.5 if spec.scale is None else spec.scale
        self.scores = Attention(n_heads=spec.n_heads, scale=scale, position="none", softmax=spec.softmax)

    def new_cache(self, length: int | None) -> LayerCache:
        """An empty cache that grows (None) or has room for `length` tokens."""
        return Growing() if length is None else Static(length)

    def forward(self, x: Tensor, step: Step, cache: LayerCache | None = None) -> Tensor:
        """x [batch, seq, d_model] -> the same shape."""
        spec, seq = self.spec, x.shape[1]
        q_latent = x if spec.q_rank is None else self.q_a_norm(self.q_a_proj(x))
        q = split(self.q_proj(x) if spec.q_rank is None else self.q_b_proj(q_latent), spec.n_heads)
        q, q_rope = q.split([spec.d_nope, spec.d_rope], dim=-1)
        latent, k_rope = self.kv_a_proj(x).split([spec.kv_rank, spec.d_rope], dim=-1)
        if spec.position == "rope":
            cos, sin = angles(spec.rope, spec.d_rope, step)
            q_rope = turn(q_rope, cos, sin, interleaved=spec.rope.interleaved)
            k_rope = turn(k_rope[:, None], cos, sin, interleaved=spec.rope.interleaved)[:, 0]
        if spec.temperature is not None:
            grown = temperature(spec.temperature, step.numbers(seq, x.device)).to(q.dtype)
            q, q_rope = q * grown, q_rope * grown
        cached = {"latent": self.kv_a_norm(latent), "rope": k_rope}
        half: tuple[Tensor, ...] = ()
        if spec.indexer is not None:
            half = rotation(spec.rope, spec.d_rope, step.positions)
            cached["index"] = self.indexer.keys(x, *half)
        if isinstance(cache, Growing | Static):
            whole, numbers = cache.update(step.start, **cached)
            cached = dict(zip(cached, whole, strict=True))
        else:
            numbers = torch.arange(seq, device=x.device)
        mask = step.mask(seq, numbers, causal=True)
        if spec.indexer is not None:
            step.chosen[step.layer] = self.indexer(x, q_latent, cached["index"], mask, *half)
        if spec.top_k is not None:
            mask = mask & chosen(step)
        run = self._absorbed if self.absorbed else self._expanded
        y = run(q, q_rope, cached["latent"], cached["rope"], step, mask).transpose(1, 2)
        if spec.head_gate:
            y = y * wide(self.head_gate_proj(x)).sigmoid().to(y.dtype)[..., None]
        y = y.flatten(2)
        return self.o_proj(y * self.gate_proj(x).sigmoid() if spec.gate else y)

    def _expanded(self, q: Tensor, q_rope: Tensor, latent: Tensor, k_rope: Tensor, step: Step, mask: Tensor) -> Tensor:
        """q [batch, n_heads, seq, d_nope], latent [batch, tokens, kv_rank] -> [batch, n_heads, seq, d_value]."""
        expanded = split(self.kv_b_proj(latent), self.spec.n_heads)
        k, v = expanded.split([self.spec.d_nope, self.spec.d_value], dim=-1)
        k_rope = k_rope[:, None].expand(-1, self.spec.n_heads, -1, -1)
        plain = self.spec.top_k is None and not step.hides(q.shape[2], k.shape[2], causal=True)
        q, k = torch.cat([q, q_rope], -1), torch.cat([k, k_rope], -1)
        sinks = self.sinks if self.spec.sinks else None
        return attend(self.scores, q, k, v, step, mask=mask, plain=plain, causal=True, sinks=sinks)

    def _absorbed(self, q: Tensor, q_rope: Tensor, latent: Tensor, k_rope: Tensor, step: Step, mask: Tensor) -> Tensor:
        """As _expanded: one key [batch, 1, tokens, kv_rank + d_rope] for all heads, whose first part is the value."""
        both = matrix_of(self.kv_b_proj, q.dtype).unflatten(0, (self.spec.n_heads, -1))
        to_keys, to_values = both.split([self.spec.d_nope, self.spec.d_value], dim=1)
        q = torch.cat([q @ to_keys, q_rope], dim=-1)
        k = torch.cat([latent, k_rope], dim=-1)[:, None]
        sinks = self.sinks if self.spec.sinks else None
        return attend(self.scores, q, k, latent[:, None], step, mask=mask, sinks=sinks) @ to_values.transpose(-2, -1)


def chosen(step: Step) -> Tensor:
    """What the last layer with an indexer chose, this one or one before it: [batch, 1, seq, tokens]."""
    before = [layer for layer in step.chosen if layer <= step.layer]
    if not before:
        raise ValueError("indexer: expected one in this layer or in one before it, found none")
    return step.chosen[max(before)]


class TokenIndexer(nn.Module):
    """Which `top_k` tokens each new one attends to, by small heads of its own (DeepSeek-V3.2, arXiv:2512.02556).

    A choice has no gradient: the indexer is trained by a loss of its own, which is not part of this model.
    """

    def __init__(self, spec: Indexer, attention: Mla, d_model: int) -> None:
        super().__init__()
        supported(spec, "n_heads", "d_head", "norm", "interleaved", "last")
        self.spec = spec
        self.top_k = attention.top_k or 0
        self.q_b_proj = nn.Linear(attention.q_rank or d_model, spec.n_heads * spec.d_head, bias=False)
        self.k_proj = nn.Linear(d_model, spec.d_head, bias=False)
        self.k_norm = NormLayer(spec.norm, (spec.d_head,))
        self.weights_proj = nn.Linear(d_model, spec.n_heads, bias=False)

    @torch.no_grad()
    def keys(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """x [batch, seq, d_model] -> [batch, seq, d_head], the first or last values turned by their positions."""
        return self._turned(self.k_norm(self.k_proj(x))[:, None], cos, sin)[:, 0]

    def _turned(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """x [batch, heads, seq, d_head]."""
        still = x.shape[-1] - 2 * cos.shape[-1] if self.spec.last else 0
        return torch.cat([x[..., :still], rotate(x[..., still:], cos, sin, interleaved=self.spec.interleaved)], -1)

    @torch.no_grad()
    def forward(self, x: Tensor, q_latent: Tensor, keys: Tensor, mask: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """q_latent [batch, seq, q_rank], keys [batch, tokens, d_head] -> [batch, 1, seq, tokens], True where chosen."""
        q = self._turned(split(self.q_b_proj(q_latent), self.spec.n_heads), cos, sin)
        scores = (wide(q) @ wide(keys)[:, None].transpose(-2, -1) * self.spec.d_head**-0.5).relu()
        weights = wide(self.weights_proj(x)) * self.spec.n_heads**-0.5
        # [batch, seq, 1, n_heads] @ [batch, seq, n_heads, tokens]
        scores = (weights[:, :, None] @ scores.transpose(1, 2)).transpose(1, 2).masked_fill(~mask, -torch.inf)
        best = scores.topk(min(self.top_k, scores.shape[-1]), dim=-1).indices
        return torch.zeros_like(scores, dtype=torch.bool).scatter(-1, best, True)
