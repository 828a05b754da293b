"""Multi-head latent attention (DeepSeek-V2, arXiv:2405.04434, section 2.1)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from calc.spec import Attention, Mla
from reference_models.blocks.attend import attend, split
from reference_models.blocks.attention_inputs import HeadTemperature, temperature
from reference_models.blocks.indexer import TokenIndexer
from reference_models.blocks.linear import NormLayer, scaled, wide
from reference_models.blocks.positions import BY_TOKEN, angles, rotation, turn
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
    "pool",
    "indexer",
    "position",
    "rope",
    "scale",
    "q_scale",
    "latent_scale",
    "temperature",
    "head_temperature",
    "kv",
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
        supported(spec.rope, *BY_TOKEN, "tuned")
        self.spec = spec
        self.absorbed = False
        d_query = spec.d_nope + spec.d_shared
        if spec.q_rank is None:
            self.q_proj = nn.Linear(d_model, spec.n_heads * d_query, bias=False)
        else:
            self.q_a_proj = nn.Linear(d_model, spec.q_rank, bias=spec.bias)
            self.q_a_norm = NormLayer(spec.norm, (spec.q_rank,))
            self.q_b_proj = nn.Linear(spec.q_rank, spec.n_heads * d_query, bias=False)
        if spec.kv == "own":
            self.kv_a_proj = nn.Linear(d_model, spec.kv_rank + spec.d_shared, bias=spec.bias)
            self.kv_a_norm = NormLayer(spec.norm, (spec.kv_rank,))
        if spec.head_temperature:
            self.temperature = HeadTemperature(spec.n_heads)
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

    def new_cache(self, length: int | None) -> LayerCache | None:
        """An empty cache that grows (None) or has room for `length` tokens; over what an earlier layer keeps, a layer
        keeps no more than the keys of its indexer."""
        if self.spec.kv == "earlier" and self.spec.indexer is None:
            return None
        return Growing() if length is None else Static(length)

    def forward(self, x: Tensor, step: Step, cache: LayerCache | None = None) -> Tensor:
        """x [batch, seq, d_model] -> the same shape."""
        spec, seq = self.spec, x.shape[1]
        q_latent = x if spec.q_rank is None else self.q_a_norm(self.q_a_proj(x))
        q = split(self.q_proj(x) if spec.q_rank is None else self.q_b_proj(q_latent), spec.n_heads)
        q, q_rope = scaled(q, spec.q_scale).split([spec.d_nope, spec.d_shared], dim=-1)
        if spec.position == "rope":
            q_rope = turn(q_rope, *angles(spec.rope, spec.d_shared, step), interleaved=spec.rope.interleaved)
        if spec.temperature is not None:
            grown = temperature(spec.temperature, step.numbers(seq, x.device)).to(q.dtype)
            q, q_rope = q * grown, q_rope * grown
        new = self._latents(x, step) if spec.kv == "own" else {}
        half: tuple[Tensor, ...] = ()
        if spec.indexer is not None:
            half = rotation(spec.rope, spec.d_shared, step.positions, step.tuned) if spec.position == "rope" else ()
            new["index"] = self.indexer.cached(x, step, *half)
        cached, numbers = self._with_earlier(x, new, step, cache)
        mask = step.mask(seq, numbers, causal=True)
        if spec.indexer is not None:
            step.chosen[step.layer] = self.indexer(x, q_latent, cached["index"], mask, step, *half)
        if spec.top_k is not None:
            mask = mask & chosen(step)
        run = self._absorbed if self.absorbed else self._expanded
        y = run(q, q_rope, cached["latent"], cached["rope"], step, mask).transpose(1, 2)
        if spec.head_gate:
            y = y * wide(self.head_gate_proj(x)).sigmoid().to(y.dtype)[..., None]
        y = y.flatten(2)
        return self.o_proj(y * self.gate_proj(x).sigmoid() if spec.gate else y)

    def _latents(self, x: Tensor, step: Step) -> dict[str, Tensor]:
        """What is kept of new tokens: latents [batch, seq, kv_rank], and the part of their keys that heads share."""
        spec = self.spec
        latent, k_rope = self.kv_a_proj(x).split([spec.kv_rank, spec.d_shared], dim=-1)
        if spec.position == "rope":
            cos, sin = angles(spec.rope, spec.d_shared, step)
            k_rope = turn(k_rope[:, None], cos, sin, interleaved=spec.rope.interleaved)[:, 0]
        return {"latent": scaled(self.kv_a_norm(latent), spec.latent_scale), "rope": k_rope}

    def _with_earlier(
        self, x: Tensor, new: dict[str, Tensor], step: Step, cache: LayerCache | None
    ) -> tuple[dict[str, Tensor], Tensor]:
        """Latents, shared keys and an indexer's keys of all tokens, those of an earlier layer too, and the numbers of
        the tokens."""
        numbers = torch.arange(x.shape[1], device=x.device)
        if isinstance(cache, Growing | Static):
            whole, numbers = cache.update(step.start, **new)
            new = dict(zip(new, whole, strict=True))
        if step.lent is None:
            return new, numbers
        if self.spec.kv == "earlier":
            latent, k_rope, numbers = step.lent[self.spec.position]
            return {**new, "latent": latent, "rope": k_rope}, numbers
        step.lent[self.spec.position] = new["latent"], new["rope"], numbers
        return new, numbers

    def _grown(self, q: Tensor, step: Step) -> Tensor:
        """Queries [batch, n_heads, seq, width], as each head has learned that they grow with their position."""
        return self.temperature(q, step) if self.spec.head_temperature else q

    def _expanded(self, q: Tensor, q_rope: Tensor, latent: Tensor, k_rope: Tensor, step: Step, mask: Tensor) -> Tensor:
        """q [batch, n_heads, seq, d_nope], latent [batch, tokens, kv_rank] -> [batch, n_heads, seq, d_value]."""
        expanded = split(self.kv_b_proj(latent), self.spec.n_heads)
        k, v = expanded.split([self.spec.d_nope, self.spec.d_value], dim=-1)
        k_rope = k_rope[:, None].expand(-1, self.spec.n_heads, -1, -1)
        plain = self.spec.top_k is None and not step.hides(q.shape[2], k.shape[2], causal=True)
        q, k = self._grown(torch.cat([q, q_rope], -1), step), torch.cat([k, k_rope], -1)
        sinks = self.sinks if self.spec.sinks else None
        return attend(self.scores, q, k, v, step, mask=mask, plain=plain, causal=True, sinks=sinks)

    def _absorbed(self, q: Tensor, q_rope: Tensor, latent: Tensor, k_rope: Tensor, step: Step, mask: Tensor) -> Tensor:
        """As _expanded: one key [batch, 1, tokens, kv_rank + d_rope] for all heads, whose first part is the value."""
        both = matrix_of(self.kv_b_proj, q.dtype).unflatten(0, (self.spec.n_heads, -1))
        to_keys, to_values = both.split([self.spec.d_nope, self.spec.d_value], dim=1)
        q = self._grown(torch.cat([q @ to_keys, q_rope], dim=-1), step)
        k = torch.cat([latent, k_rope], dim=-1)[:, None]
        sinks = self.sinks if self.spec.sinks else None
        return attend(self.scores, q, k, latent[:, None], step, mask=mask, sinks=sinks) @ to_values.transpose(-2, -1)


def chosen(step: Step) -> Tensor:
    """What the last layer with an indexer chose, this one or one before it: [batch, 1, seq, tokens]."""
    before = [layer for layer in step.chosen if layer <= step.layer]
    if not before:
        raise ValueError("indexer: expected one in this layer or in one before it, found none")
    return step.chosen[max(before)]
